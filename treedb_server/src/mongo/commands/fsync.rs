//! `fsync`: a checkpoint. Everything that has been written is in the page file afterwards, and the log is cut.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            // A directory is not copied from under a running server.
            "lock" => arg.unsupported()?,
            "async" | "fsyncLockAcquisitionTimeoutMillis" => {}
            _ => arg.generic()?,
        }
    }
    request.context.database.checkpoint()?;
    Ok(rawdoc! { "numFiles": 1 })
}
