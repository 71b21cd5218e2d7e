//! `planCacheClear`, `planCacheClearFilters`, `planCacheListFilters` and the stage `$planCacheStats`, which administrators' scripts send: each
//! query is planned when it begins, and there are no filters of indexes. So there is nothing to clear, and the lists are empty.

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

/// `planCacheClear`, of a collection or of one of its query shapes.
pub(super) fn clear(request: &Request<'_>) -> Result {
    check(request)?;
    done()
}

/// `planCacheListFilters`.
pub(super) fn list_filters(request: &Request<'_>) -> Result {
    check(request)?;
    Ok(rawdoc! { "filters": RawArrayBuf::new() })
}

/// The documents of the stage `$planCacheStats`: none.
pub(super) fn documents(request: &Request<'_>, options: &RawDocument) -> Result<Vec<RawDocumentBuf>> {
    if request.transaction().is_some() {
        return Err(CommandError::new(
            ErrorCode::OperationNotSupportedInTransaction,
            "Stage not supported inside of a multi-document transaction: $planCacheStats",
        ));
    }
    let mut all_hosts = false;
    for arg in args("$planCacheStats", options) {
        let arg = arg?;
        match arg.name {
            "allHosts" => all_hosts = arg.bool()?,
            name => {
                return Err(CommandError::new(
                    ErrorCode::FailedToParse,
                    format!(
                        "$planCacheStats parameters object may contain only 'allHosts' field. Found: {name}"
                    ),
                ));
            }
        }
    }
    if all_hosts {
        return Err(CommandError::new(
            ProtocolCode::Location4503200,
            "$planCacheStats stage supports allHosts parameter only for sharded clusters",
        ));
    }
    let collection = request.collection()?;
    if collection.indexes()?.is_none() {
        return Err(CommandError::new(
            ProtocolCode::Location50933,
            format!("collection '{}' does not exist", collection.namespace()),
        ));
    }
    Ok(Vec::new())
}

/// Reads the collection and the query shape, as far as they can be wrong.
fn check(request: &Request<'_>) -> Result<()> {
    request.namespace()?;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "query" | "sort" | "projection" | "collation" => {
                arg.document()?;
            }
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok(())
}
