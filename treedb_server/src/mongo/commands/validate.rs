//! `validate`: every document of a collection and every entry of its indexes, compared with each other.
//!
//! `recall`, which MongoDB has not, also measures what part of the nearest documents each vector index finds, as `treedb check --recall` does of a
//! directory that no server has open.

use bson::raw::{CString, cstr};
use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf, rawdoc};
use treedb_collections::{CollectionCheck, Recall};
use treedb_query::query::{ErrorCode, QueryError};

use super::Result;
use super::request::Request;
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;

/// Searches of `recall: true`, and the most.
const SEARCHES: usize = 100;
const MOST_SEARCHES: usize = 10_000;
/// Elements of vectors that exact comparison multiplies for each field of an index, at most unless so many are needed for ten searches: some
/// seconds of a core.
const MOST_ELEMENTS: u64 = 30_000_000_000;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut full, mut metadata, mut searches) = (false, false, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "full" => full = arg.bool()?,
            "metadata" => metadata = arg.bool()?,
            "recall" => searches = recall_searches(&arg)?,
            "fixMultikey" | "repair" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.collection()?;
    let namespace = collection.namespace().to_string();
    let Some(indexes) = collection.indexes()? else {
        return Err(CommandError::new(
            ErrorCode::NamespaceNotFound,
            format!("Collection '{namespace}' does not exist to validate."),
        ));
    };
    let (mut checked, mut failure) = (None, None);
    // The catalog entry has been read to get here: that is all of the metadata.
    if !metadata {
        // The pages and the value log are those of all collections.
        let pages = if full { request.context.database.store().check().map(drop) } else { Ok(()) };
        match pages.map_err(QueryError::from).and_then(|()| collection.check()) {
            Ok(found) => checked = found,
            Err(error) if matches!(error.code, ErrorCode::Interrupted | ErrorCode::MaxTimeMSExpired) => {
                return Err(error.into());
            }
            Err(error) => failure = Some(error.message),
        }
    }
    // Of a damaged collection no search is tried.
    let measured = match searches.filter(|_| failure.is_none()) {
        Some(searches) => Some(collection.recall_within(searches, Some(MOST_ELEMENTS))?),
        None => None,
    };
    let mut reply = report(&namespace, indexes.len(), checked, failure)?;
    if let Some(measured) = measured {
        reply.append(cstr!("recall"), shown(&measured));
    }
    Ok(reply)
}

/// The searches that `recall` asks for: a number of them, or whether there are any.
fn recall_searches(arg: &Arg<'_>) -> Result<Option<usize>> {
    if let RawBsonRef::Boolean(wanted) = arg.value() {
        return Ok(wanted.then_some(SEARCHES));
    }
    let number = arg.integer()?;
    match usize::try_from(number).ok().filter(|number| (1..=MOST_SEARCHES).contains(number)) {
        Some(searches) => Ok(Some(searches)),
        None => Err(CommandError::new(
            ErrorCode::BadValue,
            format!("'recall' must be a number of searches from 1 to {MOST_SEARCHES}, or a boolean"),
        )),
    }
}

/// What was measured of each field of each vector index.
fn shown(measured: &[Recall]) -> RawArrayBuf {
    let mut list = RawArrayBuf::new();
    for Recall { index, path, searches, candidates, recall } in measured {
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        list.push(rawdoc! {
            "index": index.as_str(), "path": path.as_str(), "recall": *recall,
            "numCandidates": number(*candidates), "searches": number(*searches),
        });
    }
    list
}

/// What MongoDB's tools read.
fn report(
    namespace: &str,
    indexes: usize,
    checked: Option<CollectionCheck>,
    failure: Option<String>,
) -> std::result::Result<RawDocumentBuf, CommandError> {
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let (mut keys, mut details, mut errors) =
        (RawDocumentBuf::new(), RawDocumentBuf::new(), RawArrayBuf::new());
    let mut reply = rawdoc! { "ns": namespace };
    if let Some(checked) = &checked {
        for (name, entries) in &checked.indexes {
            keys.append(CString::try_from(name.as_str())?, count(*entries));
            let detail = rawdoc! { "valid": true, "keysTraversed": count(*entries) };
            details.append(CString::try_from(name.as_str())?, detail);
        }
        reply.append(bson::raw::cstr!("nrecords"), count(checked.rows));
    }
    let valid = failure.is_none();
    failure.into_iter().for_each(|failure| errors.push(failure));
    let rest = rawdoc! {
        "nInvalidDocuments": 0_i64,
        "nNonCompliantDocuments": 0_i64,
        "nIndexes": i32::try_from(indexes).unwrap_or(i32::MAX),
        "keysPerIndex": keys,
        "indexDetails": details,
        "valid": valid,
        "repaired": false,
        "warnings": [],
        "errors": errors,
        "extraIndexEntries": [],
        "missingIndexEntries": [],
        "corruptRecords": [],
    };
    for field in &rest {
        let (name, value) = field?;
        // How many it would be is not known: the check ends at the first.
        if valid || !name.as_str().starts_with("nInvalid") {
            reply.append(name, value);
        }
    }
    Ok(reply)
}
