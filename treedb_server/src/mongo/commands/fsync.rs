//! `fsync` and `fsyncUnlock`: writes a checkpoint, after which all writes are in the page file and the log is truncated, and with `lock` keeps
//! it so until it is unlocked: see [`crate::write_lock`].

use std::time::{Duration, Instant};

use bson::rawdoc;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

/// How long the writes that have begun are waited for, if the command does not say.
const PATIENCE: Duration = Duration::from_secs(90);

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut locks, mut patience) = (false, PATIENCE);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "lock" => locks = arg.bool()?,
            "fsyncLockAcquisitionTimeoutMillis" => patience = Duration::from_millis(arg.count()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let (lock, database) = (&request.context.write_lock, &request.context.database);
    if !locks {
        lock.checkpoint(database)?;
        return Ok(rawdoc! { "numFiles": 1 });
    }
    let now = Instant::now();
    let taken = lock.take(database, now.checked_add(patience).unwrap_or(now + PATIENCE))?;
    let count = taken.ok_or_else(|| CommandError::new(ProtocolCode::LockTimeout, "Fsync lock timed out"))?;
    tracing::warn!(count, "locked: writes wait until fsyncUnlock is sent as many times");
    Ok(rawdoc! {
        "info": "now locked against writes, use db.fsyncUnlock() to unlock",
        "lockCount": count,
        "seeAlso": "http://dochub.mongodb.org/core/fsynccommand",
    })
}

/// `fsyncUnlock`.
pub(super) fn unlock(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let count = request.context.write_lock.give_back().ok_or_else(|| {
        CommandError::new(ErrorCode::IllegalOperation, "fsyncUnlock called when not locked")
    })?;
    tracing::info!(count, "unlocked, as many times as it is still locked");
    Ok(rawdoc! { "info": "fsyncUnlock completed", "lockCount": count })
}
