//! Stages whose documents are the server's own: `$currentOp`, `$listLocalSessions`, `$listSessions`, `$planCacheStats`, and `$collStats` with
//! `latencyStats` or of the oplog; and `$queryStats`, of which there are none. The pipeline gets a `$documents` in their place.

use bson::raw::cstr;
use bson::{DateTime, RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::CollectionStats;
use treedb_query::query::ErrorCode;

use super::request::Request;
use super::{Result, current_op, hostname, plan_cache};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

/// The pipeline with the documents of its first stage, if that is one of the server's own.
pub(super) fn replaced(request: &Request<'_>, pipeline: &RawArray) -> Result<Option<RawArrayBuf>> {
    let mut stages = pipeline.into_iter();
    let Some(RawBsonRef::Document(first)) = stages.next().transpose()? else { return Ok(None) };
    let Some((name, operand)) = first.iter().next().transpose()? else { return Ok(None) };
    let operand = || {
        operand.as_document().ok_or_else(|| {
            CommandError::new(ErrorCode::FailedToParse, format!("{} must be an object", name.as_str()))
        })
    };
    let documents = match name.as_str() {
        "$currentOp" => current_op::documents(request, operand()?)?,
        "$listLocalSessions" | "$listSessions" => sessions(request, name.as_str(), operand()?)?,
        "$planCacheStats" => plan_cache::documents(request, operand()?)?,
        "$queryStats" => return Err(no_query_stats(request)),
        "$collStats" if operand()?.get("latencyStats")?.is_some() || request.is_about_the_oplog() => {
            vec![collection(request, operand()?)?]
        }
        _ => return Ok(None),
    };
    let mut literal = RawArrayBuf::new();
    documents.into_iter().for_each(|document| literal.push(document));
    let mut replaced = RawArrayBuf::new();
    replaced.push(rawdoc! { "$documents": { "$literal": literal } });
    for stage in stages {
        replaced.push(stage?);
    }
    Ok(Some(replaced))
}

/// Why there are no statistics of queries by their shapes: none are collected, as in a MongoDB that is not set up to.
fn no_query_stats(request: &Request<'_>) -> CommandError {
    if request.database != "admin" || request.fields.subject.is_some_and(|subject| subject.as_str().is_some())
    {
        return CommandError::new(
            ErrorCode::InvalidNamespace,
            "$queryStats must be run against the 'admin' database with {aggregate: 1}",
        );
    }
    CommandError::new(
        ProtocolCode::QueryFeatureNotAllowed,
        "$queryStats is not allowed: the server collects no statistics of queries",
    )
}

/// The sessions that have begun a transaction or sent a retryable write.
fn sessions(request: &Request<'_>, stage: &str, options: &RawDocument) -> Result<Vec<RawDocumentBuf>> {
    for arg in args(stage, options) {
        let arg = arg?;
        match arg.name {
            "allUsers" => drop(arg.bool()?),
            "users" => arg.unsupported()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    let aggregates_collection = request.subject()?.as_str();
    let is_placed = match stage {
        "$listLocalSessions" => aggregates_collection.is_none(),
        _ => request.database == "config" && aggregates_collection == Some("system.sessions"),
    };
    if !is_placed {
        let place = match stage {
            "$listLocalSessions" => "with {aggregate: 1}",
            _ => "against the collection config.system.sessions",
        };
        return Err(CommandError::new(ErrorCode::InvalidNamespace, format!("{stage} must be run {place}")));
    }
    let known = request.context.sessions.known().into_iter();
    Ok(known
        .map(|(id, idle)| {
            let used = DateTime::from_system_time(std::time::SystemTime::now() - idle);
            rawdoc! { "_id": { "id": id }, "lastUse": used }
        })
        .collect())
}

/// The document of `$collStats`, with latencies.
fn collection(request: &Request<'_>, options: &RawDocument) -> Result<RawDocumentBuf> {
    let collection = request.collection()?;
    let namespace = collection.namespace().as_str();
    match collection.stats()? {
        Some(stats) => collection_stats(request, namespace, &stats, options),
        None => Err(CommandError::new(
            ErrorCode::NamespaceNotFound,
            format!("Collection [{namespace}] not found."),
        )),
    }
}

/// The document of `$collStats` for a collection of these sizes.
pub(super) fn collection_stats(
    request: &Request<'_>,
    namespace: &str,
    stats: &CollectionStats,
    options: &RawDocument,
) -> Result<RawDocumentBuf> {
    let mut found = rawdoc! { "ns": namespace, "host": hostname(), "localTime": DateTime::now() };
    for arg in args("$collStats", options) {
        let arg = arg?;
        let (mut histograms, mut scale) = (false, 1.0);
        for inner in args(arg.name, arg.document()?) {
            let inner = inner?;
            match (arg.name, inner.name) {
                ("latencyStats", "histograms") => histograms = inner.bool()?,
                ("storageStats", "scale") => scale = super::coll_stats::scale(&inner)?,
                _ => inner.nested_ignored_or_unknown()?,
            }
        }
        match arg.name {
            "latencyStats" => {
                let usage = request.context.operations.usage(namespace).unwrap_or_default();
                found.append(cstr!("latencyStats"), usage.latency_stats(histograms));
            }
            "storageStats" => found.append(cstr!("storageStats"), stats.storage_document(scale)?),
            "count" => found.append(cstr!("count"), i64::try_from(stats.documents).unwrap_or(i64::MAX)),
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    Ok(found)
}
