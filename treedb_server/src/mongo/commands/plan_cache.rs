//! `planCacheClear`, `planCacheClearFilters` and `planCacheListFilters`, which administrators' scripts send: each query is planned when it
//! begins, and there are no filters of indexes. So there is nothing to clear, and the list is empty.

use bson::{RawArrayBuf, rawdoc};

use super::Result;
use super::request::{Request, done};

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
