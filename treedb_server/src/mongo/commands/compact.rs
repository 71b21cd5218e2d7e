//! `compact`: makes the files as small as their content allows. All collections share them, so that compacting one compacts all.

use bson::rawdoc;
use treedb_query::query::{ErrorCode, interrupt};

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut dry_run = false;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "dryRun" => dry_run = arg.bool()?,
            // Readers and writers continue in any case.
            "force" => {
                arg.bool()?;
            }
            "freeSpaceTargetMB" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.collection()?;
    if collection.indexes()?.is_none() {
        return Err(CommandError::new(
            ErrorCode::NamespaceNotFound,
            format!("collection does not exist: {}", collection.namespace()),
        ));
    }
    let store = request.context.database.store();
    if dry_run {
        let stats = store.stats();
        let free = i64::from(stats.pages.free) * treedb_storage::page::PAGE_SIZE as i64;
        return Ok(rawdoc! { "estimatedBytesFreed": free });
    }
    interrupt::check()?;
    let done = store.compact(|_| {})?;
    let freed = done.before.saturating_sub(done.after);
    Ok(rawdoc! { "bytesFreed": i64::try_from(freed).unwrap_or(i64::MAX) })
}
