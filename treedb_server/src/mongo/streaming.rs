//! Commands with more than one reply: a `getMore` that exhausts its cursor, and the `hello` by which drivers watch a server.
//!
//! A client that sets the flag *exhaust allowed* gets the next reply without asking for it, as long as a reply has the flag *more to
//! come*. A `hello` with the `topologyVersion` of an earlier one and `maxAwaitTimeMS` is answered when something has changed, or the
//! time is over. Nothing changes while the server runs, so that a monitor is sent one message every ten seconds instead of asking for it,
//! and learns from the closed connection that the server has stopped.

use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::args::number;
use super::error::CommandError;
use super::op_msg::{OpMsg, name_of};
use super::protocol_code::ProtocolCode;
use crate::config::{FREE_BYTES, UNAUTHENTICATED_IDLE};
use crate::context::Context;

/// A command that says nothing new is repeated only if it takes at least that long.
const SHORTEST: Duration = Duration::from_millis(10);

fn is_hello(command: &RawDocument) -> bool {
    matches!(name_of(command), "hello" | "isMaster" | "ismaster")
}

/// The version of what `hello` says of the server: another process is another version.
pub(crate) fn topology_version(context: &Context) -> RawDocumentBuf {
    rawdoc! { "processId": context.process, "counter": 0_i64 }
}

/// Refuses a `hello` that would wait for nothing, or for ever.
pub(crate) fn check_hello(command: &RawDocument) -> Result<(), CommandError> {
    let (version, wait) = (command.get("topologyVersion")?, command.get("maxAwaitTimeMS")?);
    let refuse = |code: ProtocolCode, message: &str| Err(CommandError::new(code, message));
    match (version, wait) {
        (None, None) => Ok(()),
        (Some(_), None) => refuse(
            ProtocolCode::Location31368,
            "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'",
        ),
        (None, Some(_)) => refuse(
            ProtocolCode::Location31368,
            "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'",
        ),
        (Some(version), Some(wait)) => {
            let Some(version) = version.as_document() else {
                return Err(CommandError::new(
                    ErrorCode::TypeMismatch,
                    "BSON field 'topologyVersion' is the wrong type, expected type 'object'",
                ));
            };
            if !matches!(version.get("processId")?, Some(RawBsonRef::ObjectId(_))) {
                return Err(CommandError::new(
                    ErrorCode::TypeMismatch,
                    "BSON field 'topologyVersion.processId' must be of type 'objectId'",
                ));
            }
            match version.get("counter")? {
                Some(RawBsonRef::Int64(0..)) => {}
                Some(RawBsonRef::Int64(_)) => {
                    return refuse(
                        ProtocolCode::Location31372,
                        "topologyVersion must have a non-negative counter",
                    );
                }
                _ => {
                    return Err(CommandError::new(
                        ErrorCode::TypeMismatch,
                        "BSON field 'topologyVersion.counter' must be of type 'long'",
                    ));
                }
            }
            match number(wait) {
                Some(wait) if wait >= 0.0 => Ok(()),
                _ => refuse(ProtocolCode::Location31373, "maxAwaitTimeMS must be a non-negative integer"),
            }
        }
    }
}

/// How long a command waits before it runs: a `hello` of somebody who knows what it will say.
pub(crate) fn wait_of_hello(request: &OpMsg, context: &Context) -> Option<Duration> {
    let command = request.body();
    // A long message holds a part of the budget, which others wait for.
    if !is_hello(command) || request.len() > FREE_BYTES || check_hello(command).is_err() {
        return None;
    }
    let version = command.get_document("topologyVersion").ok()?;
    if version.get_object_id("processId").ok()? != context.process || version.get_i64("counter").ok()? != 0 {
        return None;
    }
    let wait = number(command.get("maxAwaitTimeMS").ok()??)?;
    // A client that has not authenticated may not be idle for longer than that.
    Some(Duration::from_millis(wait as u64).min(UNAUTHENTICATED_IDLE))
}

/// Whether a command may get more than one reply. `wait` is that of a `hello`: one that does not wait would be answered all the time.
pub(crate) fn may_be_repeated(request: &OpMsg, wait: Option<Duration>) -> bool {
    request.exhaust_allowed
        && !request.more_to_come
        && request.len() <= FREE_BYTES
        && (name_of(request.body()) == "getMore" || wait.is_some_and(|wait| wait >= SHORTEST))
}

/// Whether such a command goes on after this reply, which took so long. A cursor that has nothing and does not wait for more is asked
/// again by its client.
pub(crate) fn is_repeated(request: &OpMsg, reply: &RawDocument, took: Duration) -> bool {
    let succeeded = reply.get("ok").ok().flatten().and_then(number) == Some(1.0);
    let open = |cursor: &RawDocument| cursor.get_i64("id").is_ok_and(|id| id != 0);
    let goes_on = |cursor: &RawDocument| {
        took >= SHORTEST
            || cursor.get_array("nextBatch").is_ok_and(|batch| batch.into_iter().next().is_some())
    };
    succeeded
        && (is_hello(request.body())
            || reply.get_document("cursor").is_ok_and(|cursor| open(cursor) && goes_on(cursor)))
}
