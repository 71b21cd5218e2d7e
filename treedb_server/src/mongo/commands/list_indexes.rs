//! `listIndexes`.

use bson::RawDocumentBuf;
use treedb_query::query::ErrorCode;

use super::Result;
use super::list_collections::batch_size;
use super::request::Request;
use crate::mongo::cursors::{Cursor, Deadline};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut batch = usize::MAX;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            "includeBuildUUIDs" | "includeIndexBuildInfo" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.collection()?;
    let namespace = collection.namespace();
    // The oplog has none, and is there if changes are recorded.
    let indexes = match namespace.is_oplog() {
        true => collection.stats()?.map(|_| Vec::new()),
        false => collection.indexes()?,
    };
    let Some(indexes) = indexes else {
        return Err(CommandError::new(
            ErrorCode::NamespaceNotFound,
            format!("ns does not exist: {namespace}"),
        ));
    };
    let entries: Vec<Result<RawDocumentBuf>> =
        indexes.iter().map(|index| Ok(RawDocumentBuf::try_from(index)?)).collect();
    let cursor = Cursor::new(namespace.to_string(), Box::new(entries.into_iter()));
    request.context.cursors.first(request, cursor, batch, false, Deadline::NEVER)
}
