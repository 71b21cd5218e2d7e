//! `reIndex`: builds the indexes of a collection anew. As in MongoDB, a member of a replica set refuses it.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::topology::Topology;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let collection = request.collection()?;
    let namespace = collection.namespace();
    tracing::warn!(%namespace, "reIndex is deprecated in MongoDB: drop an index and create it again instead");
    if let Topology::Member(_) = request.context.topology {
        return Err(CommandError::new(
            ErrorCode::IllegalOperation,
            format!(
                "reIndex is only allowed on a standalone mongod instance. Cannot reIndex '{namespace}' while replication is active"
            ),
        ));
    }
    if collection.is_view()? {
        return Err(CommandError::new(ErrorCode::CommandNotSupportedOnView, "can't re-index a view"));
    }
    let missing = || CommandError::new(ErrorCode::NamespaceNotFound, "collection does not exist");
    let before = collection.indexes()?.ok_or_else(missing)?.len();
    collection.rebuild_indexes()?;
    let mut indexes = RawArrayBuf::new();
    let listed = collection.indexes()?.ok_or_else(missing)?;
    for index in &listed {
        indexes.push(RawDocumentBuf::try_from(index)?);
    }
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Ok(
        rawdoc! { "nIndexesWas": i64::from(count(before)), "nIndexes": count(listed.len()), "indexes": indexes },
    )
}
