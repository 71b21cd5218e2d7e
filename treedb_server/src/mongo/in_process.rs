//! Commands from within the process, without a socket: of the web page, and of `treedb shell` on a directory. They go the way that
//! those of drivers go, through [`commands::run`]: the same checks, permissions, counters and limits.

use std::sync::Arc;

use bson::RawDocumentBuf;
use tokio::sync::oneshot;
use treedb_query::query::ErrorCode;

use super::commands;
use super::connection::Session;
use super::error::CommandError;
use super::op_msg::{self, OpMsg};
use crate::context::{Context, Reserved};
use crate::threads;

/// Stops what a session runs when it is dropped, unless it has ended: nobody waits for it any more.
struct Abandoned<'s>(Option<&'s Session>);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.kill_running();
        }
    }
}

/// Runs a command, which names its database (`$db`), and returns its reply, error or not. `reserved` is held as long as it runs.
/// Dropping the future stops the command.
pub(crate) async fn run(
    command: &RawDocumentBuf,
    context: &Arc<Context>,
    session: &Arc<Session>,
    reserved: Option<Reserved>,
) -> RawDocumentBuf {
    // Through the bytes of a message: it is checked as those of drivers are.
    let message = match OpMsg::parse(op_msg::message(0, 0, command)) {
        Ok(message) => message,
        Err(malformed) => return malformed.error.reply(),
    };
    let (mut sender, reply) = oneshot::channel();
    let (own, context) = (Arc::clone(session), Arc::clone(context));
    let threads = Arc::clone(&context.threads);
    let work = async move {
        // One that has been abandoned while it waited for a thread was not there yet to be stopped.
        tokio::select! {
            biased;
            () = sender.closed() => return,
            () = threads::may_block() => {}
        }
        let reply = commands::run(message, &context, &own, reserved).await;
        // If it has been abandoned, nobody receives it.
        let _ = sender.send(reply);
    };
    let mut abandoned = Abandoned(Some(session));
    tokio::spawn(threads::run(work, threads));
    let reply = reply.await;
    abandoned.0 = None;
    reply.unwrap_or_else(|_| {
        CommandError::new(ErrorCode::InternalError, "the server failed on this command").reply()
    })
}
