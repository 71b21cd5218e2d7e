//! `backupTo` and `backupStatus`: online backup into a directory on the server's machine. MongoDB does not have these
//! commands.

use std::path::{Component, Path};

use bson::{RawArrayBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::operations::signed;

/// `{backupTo: "/mnt/backups/monday"}`: returns when the copy is on the disk.
pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let Some(to) = request.subject()?.as_str() else {
        return Err(bad_path("it is not a string"));
    };
    // Creating directories as the server's user is only for local clients.
    if !request.session.identity.peer().ip().to_canonical().is_loopback() {
        let reason =
            "backupTo is for clients on the server's machine: connect through 127.0.0.1 or localhost";
        return Err(CommandError::new(ErrorCode::Unauthorized, reason));
    }
    let to = Path::new(to);
    if !to.is_absolute() {
        return Err(bad_path(&format!("{} is not absolute", to.display())));
    }
    if to.components().any(|part| part == Component::ParentDir) {
        return Err(bad_path(&format!("{} has a \"..\" in it", to.display())));
    }
    if is_inside(to, &request.context.dir) {
        return Err(bad_path(&format!("{} is inside the database's own directory", to.display())));
    }
    let begun = std::time::Instant::now();
    let copied = request.context.backups.run(request.context.database.store(), to)?;
    tracing::info!(to = %to.display(), entries = copied.entries, bytes = copied.bytes, "backup made");
    Ok(rawdoc! {
        "to": to.display().to_string(),
        "entries": signed(copied.entries),
        "bytes": signed(copied.bytes),
        "millis": signed(begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX)),
    })
}

/// `{backupStatus: 1}`: the running backups.
pub(super) fn status(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let mut backups = RawArrayBuf::new();
    for job in request.context.backups.jobs() {
        let [entries, of, bytes] = job.progress();
        backups.push(rawdoc! {
            "to": job.to.display().to_string(),
            "entries": signed(entries),
            "of": signed(of),
            "bytes": signed(bytes),
            "secsRunning": signed(job.started.elapsed().as_secs()),
        });
    }
    Ok(rawdoc! { "backups": backups })
}

fn bad_path(why: &str) -> CommandError {
    CommandError::new(
        ErrorCode::BadValue,
        format!(
            "backupTo needs the absolute path of a new directory on the server's machine, such as \
             \"/mnt/backups/monday\": {why}"
        ),
    )
}

/// Whether `path`, or its deepest existing ancestor, is inside `dir` after resolving symbolic links.
fn is_inside(path: &Path, dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else { return false };
    path.ancestors().find_map(|part| part.canonicalize().ok()).is_some_and(|real| real.starts_with(&dir))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bson::RawDocument;

    use super::*;
    use crate::config::Limits;
    use crate::context::Context;
    use crate::mongo::commands;
    use crate::mongo::connection::Session;
    use crate::mongo::op_msg::OpMsg;

    async fn run(context: &Arc<Context>, peer: &str, command: &RawDocument) -> bson::RawDocumentBuf {
        let session = Arc::new(Session::new(1, peer.parse().unwrap(), None));
        let (sender, mut reply) = tokio::sync::mpsc::channel(1);
        let (request, to, threads) = (OpMsg::of(command), Arc::clone(context), Arc::clone(&context.threads));
        let connection =
            async move { sender.send(commands::run(request, &to, &session, None).await).await.unwrap() };
        crate::threads::run(connection, threads).await;
        reply.recv().await.unwrap()
    }

    #[tokio::test]
    async fn a_path_that_will_not_do_is_refused_with_what_will() {
        let (context, dir) = crate::context::tests::context(Limits::default());
        let inside = dir.path().join("backups/one");
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("mine"), "").unwrap();
        for (path, reason) in [
            ("backups/monday", "is not absolute"),
            ("/tmp/../monday", "has a \"..\" in it"),
            (inside.to_str().unwrap(), "inside the database's own directory"),
            (elsewhere.path().to_str().unwrap(), "\"mine\" is in it"),
        ] {
            let reply = run(&context, "127.0.0.1:1", &rawdoc! { "backupTo": path, "$db": "admin" }).await;
            assert!(reply.get_str("errmsg").unwrap().contains(reason), "{path}: {reply:?}");
        }
        let to = elsewhere.path().join("copy");
        let command = rawdoc! { "backupTo": to.to_str().unwrap(), "$db": "admin" };
        let reply = run(&context, "192.0.2.1:1", &command).await;
        assert_eq!(reply.get_str("codeName").unwrap(), "Unauthorized", "{reply:?}");
        assert!(!to.exists());
        let reply = run(&context, "[::ffff:127.0.0.1]:1", &command).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply:?}");
        assert!(to.join("pages").exists());
        let status = run(&context, "127.0.0.1:1", &rawdoc! { "backupStatus": 1, "$db": "admin" }).await;
        assert!(status.get_array("backups").unwrap().is_empty(), "{status:?}");
    }
}
