//! `validate`: every document of a collection and every entry of its indexes, compared with each other.

use bson::raw::CString;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_collections::CollectionCheck;
use treedb_query::query::{ErrorCode, QueryError};

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut full, mut metadata) = (false, false);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "full" => full = arg.bool()?,
            "metadata" => metadata = arg.bool()?,
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
    report(&namespace, indexes.len(), checked, failure)
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
