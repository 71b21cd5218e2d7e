//! `currentOp` and the stage `$currentOp`: what the connections run, and the indexes that are being built, with their progress. Fields
//! of the command that are no options are a filter.

use bson::raw::{CString, cstr};
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::{ErrorCode, Filter};

use super::Result;
use super::request::Request;
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

/// Which operations are wanted.
#[derive(Debug, Default)]
struct Wanted {
    /// Connections that run nothing too.
    idle: bool,
    /// Only those of the same user.
    own: bool,
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut filter = RawDocumentBuf::new();
    let mut wanted = Wanted::default();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "$all" => wanted.idle = arg.bool()?,
            "$ownOps" => wanted.own = arg.bool()?,
            _ if arg.ignored_or_unknown().is_err() => {
                filter.append(CString::try_from(arg.name)?, arg.value())
            }
            _ => {}
        }
    }
    let filter = Filter::parse(&filter)?;
    let mut under_way = RawArrayBuf::new();
    for operation in operations(request, &wanted) {
        if filter.matches(&operation)? {
            under_way.push(operation);
        }
    }
    let mut reply = rawdoc! { "inprog": under_way };
    if request.context.write_lock.is_held() {
        reply.append(cstr!("fsyncLock"), true);
        reply.append(cstr!("info"), "use db.fsyncUnlock() to terminate the fsync write/snapshot lock");
    }
    Ok(reply)
}

/// The documents of the stage `$currentOp` with this operand.
pub(super) fn documents(
    request: &Request<'_>,
    options: &bson::RawDocument,
) -> std::result::Result<Vec<RawDocumentBuf>, CommandError> {
    if request.database != "admin" || request.subject()?.as_str().is_some() {
        return Err(CommandError::new(
            ErrorCode::InvalidNamespace,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    let mut wanted = Wanted { own: true, idle: false };
    for arg in args("$currentOp", options) {
        let arg = arg?;
        match arg.name {
            "allUsers" => wanted.own = !arg.bool()?,
            "idleConnections" => wanted.idle = arg.bool()?,
            // Nothing of these is listed: cursors and sessions without an operation, other members, stack traces.
            "idleCursors" | "idleSessions" | "localOps" | "truncateOps" | "backtrace" | "targetAllNodes" => {
                arg.bool()?;
            }
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    Ok(operations(request, &wanted))
}

fn operations(request: &Request<'_>, wanted: &Wanted) -> Vec<RawDocumentBuf> {
    let context = request.context;
    let user = request.session.identity.user();
    let mut all =
        context.operations.current(wanted.idle, |session| !wanted.own || session.identity().user() == user);
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    // It is not known whose they are.
    let builds = if wanted.own { Vec::new() } else { context.database.index_builds() };
    for build in builds {
        all.push(rawdoc! {
            "type": "op",
            "desc": "IndexBuild",
            "active": true,
            "op": "command",
            "ns": build.namespace.as_str(),
            "command": { "createIndexes": build.namespace.collection(), "indexes": [{ "name": build.name.as_str() }] },
            "msg": format!("Index Build: {}: {}/{}", build.name, build.done, build.total),
            "progress": { "done": count(build.done), "total": count(build.total) },
        });
    }
    all
}
