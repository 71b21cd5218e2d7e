//! `fsync`: writes a checkpoint. Afterwards all writes are in the page file, and the log is truncated.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            // `backupTo` copies a directory without stopping writers.
            "lock" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    request.context.database.checkpoint()?;
    Ok(rawdoc! { "numFiles": 1 })
}
