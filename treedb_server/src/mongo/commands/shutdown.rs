//! `shutdown`: stops the server as SIGTERM does. The reply is sent before the connection is closed.

use super::Result;
use super::request::{Request, done};
use crate::mongo::error::CommandError;
use treedb_query::query::ErrorCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            // There are no secondaries to wait for, so they make no difference.
            "force" => drop(arg.bool()?),
            "timeoutSecs" => drop(arg.count()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let identity = &request.session.identity;
    // Without authentication there are no privileges to check: as in MongoDB, only local clients may then stop the server.
    if !request.context.access.is_required() && !identity.address().is_loopback() {
        return Err(CommandError::new(
            ErrorCode::Unauthorized,
            "shutdown must run from localhost when running db without auth",
        ));
    }
    tracing::info!(peer = %identity.peer(), user = ?identity.user(), "a client has sent shutdown");
    request.context.shutdown.stop();
    done()
}
