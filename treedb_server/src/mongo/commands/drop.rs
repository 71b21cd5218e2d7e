//! `drop`. Dropping a collection that does not exist succeeds, as in MongoDB since 7.0.

use bson::rawdoc;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut durability = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.collection()?;
    let indexes = match collection.indexes() {
        Ok(indexes) => indexes.map_or(0, |indexes| indexes.len()),
        // A view has none.
        Err(error) if error.code == ErrorCode::CommandNotSupportedOnView => 0,
        Err(error) => return Err(error.into()),
    };
    let namespace = collection.namespace();
    if !request.context.database.drop_collection(namespace.as_str())? {
        return done();
    }
    request.context.operations.forget(request.database, Some(namespace.collection()));
    flush_catalog_change(request, durability)?;
    tracing::info!(%namespace, "collection dropped");
    Ok(rawdoc! { "nIndexesWas": i32::try_from(indexes).unwrap_or(i32::MAX), "ns": namespace.as_str() })
}
