//! `drop`.

use bson::rawdoc;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        arg?.generic()?;
    }
    let collection = request.collection()?;
    let indexes = collection.indexes()?.map_or(0, |indexes| indexes.len());
    let namespace = collection.namespace();
    if !request.context.database.drop_collection(namespace.as_str())? {
        return Err(CommandError::new(ErrorCode::NamespaceNotFound, "ns not found"));
    }
    tracing::info!(%namespace, "collection dropped");
    Ok(rawdoc! { "nIndexesWas": i32::try_from(indexes).unwrap_or(i32::MAX), "ns": namespace.as_str() })
}
