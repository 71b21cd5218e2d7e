//! `dataSize`: bytes of the documents of a collection, or of those between two keys of an index, counted; those of a whole collection are
//! estimated if that is asked for.

use std::time::Instant;

use bson::{RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, FindRequest, KeyBounds, Namespace};
use treedb_query::query::ErrorCode;

use super::Result;
use super::find::index_with_pattern;
use super::request::Request;
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    let started = Instant::now();
    let (mut estimate, mut pattern, mut bounds) = (false, None, KeyBounds::default());
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "estimate" => estimate = arg.bool()?,
            "keyPattern" => pattern = arg.some_document()?,
            "min" => bounds.min = arg.some_document()?,
            "max" => bounds.max = arg.some_document()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.context.database.collection(whole_name(request)?.as_str())?;
    if bounds.min.is_some() != bounds.max.is_some() {
        return Err(CommandError::new(ErrorCode::BadValue, "only one of min or max specified"));
    }
    let (documents, bytes, estimated) = if !bounds.is_none() {
        let (documents, bytes) = between(&collection, pattern, bounds)?;
        (documents, bytes, false)
    } else if estimate {
        collection
            .stats()?
            .map_or((0, 0, false), |stats| (stats.documents, stats.data_bytes, stats.estimated))
    } else {
        let (documents, bytes) = collection.data_size()?;
        (documents, bytes, false)
    };
    Ok(rawdoc! {
        "estimate": estimated,
        "size": i64::try_from(bytes).unwrap_or(i64::MAX),
        "numObjects": i64::try_from(documents).unwrap_or(i64::MAX),
        "millis": i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
    })
}

/// The number and the bytes of the documents between two keys of the index with this pattern, or else with the fields of the keys.
fn between(
    collection: &Collection,
    pattern: Option<RawDocumentBuf>,
    bounds: KeyBounds,
) -> std::result::Result<(u64, u64), CommandError> {
    let Some(indexes) = collection.indexes()? else { return Ok((0, 0)) };
    let pattern = pattern.unwrap_or_else(|| {
        let mut inferred = RawDocumentBuf::new();
        let fields = bounds.min.iter().flat_map(|min| min.iter().filter_map(std::result::Result::ok));
        fields.for_each(|(name, _)| inferred.append(name, 1));
        inferred
    });
    if index_with_pattern(&indexes, &pattern).is_none() {
        return Err(CommandError::new(
            ProtocolCode::OperationFailed,
            "couldn't find valid index containing key pattern",
        ));
    }
    let request = FindRequest { hint: Some(pattern.into()), bounds, ..FindRequest::default() };
    let (mut documents, mut bytes) = (0, 0);
    for document in collection.find(request)? {
        documents += 1;
        bytes += document?.as_bytes().len() as u64;
    }
    Ok((documents, bytes))
}

/// The collection, which the command names with its database.
fn whole_name(request: &Request<'_>) -> std::result::Result<Namespace, CommandError> {
    let name = request.collection_name()?;
    let namespace = Namespace::parse(name)?;
    if namespace.database() != request.database {
        return Err(CommandError::new(
            ErrorCode::InvalidNamespace,
            format!("dataSize of '{name}' may only be run against its database, not '{}'", request.database),
        ));
    }
    Ok(namespace)
}

/// Who may read the collection may add its documents up.
pub(super) fn needs(request: &Request<'_>) -> super::Result<()> {
    let namespace = whole_name(request)?;
    request.authorize(Action::Find, Target::Collection(namespace.database(), namespace.collection()))
}
