//! `collStats`: sizes of a collection and its indexes.

use bson::{RawDocumentBuf, rawdoc};
use treedb_collections::CollectionStats;

use super::Result;
use super::request::Request;
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    let scale_factor = scale_factor(request)?;
    let collection = request.collection()?;
    reply(collection.namespace().as_str(), collection.stats()?.as_ref(), scale_factor)
}

/// Reads the arguments: what sizes are divided by.
pub(super) fn scale_factor(request: &Request<'_>) -> std::result::Result<f64, CommandError> {
    let mut scale_factor = 1.0;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "scale" => scale_factor = scale(&arg)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok(scale_factor)
}

/// The reply for a collection of these sizes; `None` if there is none.
pub(super) fn reply(namespace: &str, stats: Option<&CollectionStats>, scale_factor: f64) -> Result {
    let mut reply = RawDocumentBuf::new();
    reply.append(bson::raw::cstr!("ns"), namespace);
    let stats = match stats {
        Some(stats) => stats.storage_document(scale_factor)?,
        // As MongoDB answers.
        None => rawdoc! {
            "size": 0, "count": 0, "numOrphanDocs": 0, "storageSize": 0, "freeStorageSize": 0, "totalSize": 0, "nindexes": 0,
            "totalIndexSize": 0, "indexDetails": {}, "indexSizes": {}, "scaleFactor": scale_factor as i64,
        },
    };
    for field in &stats {
        let (name, value) = field?;
        reply.append(name, value);
    }
    Ok(reply)
}

/// What sizes are divided by.
pub(super) fn scale(arg: &Arg<'_>) -> std::result::Result<f64, CommandError> {
    match arg.integer()? {
        scale if scale >= 1 => Ok(scale as f64),
        scale => Err(CommandError::new(
            ProtocolCode::Location51024,
            format!("BSON field '{}' value must be >= 1, actual value '{scale}'", arg.path()),
        )),
    }
}
