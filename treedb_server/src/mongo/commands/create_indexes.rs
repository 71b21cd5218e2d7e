//! `createIndexes`: builds the missing indexes and replies when they are ready.

use bson::raw::{CString, cstr};
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::IndexSpec;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut durability, mut ignore_unknown) = (None, false);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "indexes" => {}
            "ignoreUnknownIndexOptions" => ignore_unknown = arg.bool()?,
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.collection()?;
    request.only_sequence("indexes")?;
    let specs: Vec<IndexSpec> = request
        .documents("indexes")?
        .into_iter()
        .map(|spec| parse(spec, ignore_unknown))
        .collect::<Result<_>>()?;
    if specs.is_empty() {
        return Err(CommandError::new(ErrorCode::BadValue, "Must specify at least one index to create"));
    }
    let created = match request.transaction() {
        Some(mut open) => open.txn.create_indexes(collection.namespace().as_str(), &specs)?,
        None => collection.create_indexes(&specs)?,
    };
    flush_catalog_change(request, durability)?;
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let mut reply = rawdoc! {
        "numIndexesBefore": count(created.before),
        "numIndexesAfter": count(created.after),
        "createdCollectionAutomatically": created.created_collection,
    };
    if created.before == created.after {
        reply.append(cstr!("note"), "all indexes already exist");
    } else {
        let count = created.after - created.before;
        tracing::info!(namespace = %collection.namespace(), indexes = count, "indexes created");
    }
    Ok(reply)
}

/// Reads the specification of an index; fields that no index has are left out if `ignore_unknown`.
fn parse(spec: &RawDocument, ignore_unknown: bool) -> Result<IndexSpec> {
    super::writes::check_statement(spec)?;
    let (mut keys, mut name) = (false, false);
    let mut known = RawDocumentBuf::new();
    for arg in args("createIndexes.indexes", spec) {
        let arg = arg?;
        match arg.name {
            "key" => keys = true,
            "name" => name = true,
            "unique"
            | "sparse"
            | "hidden"
            | "background"
            | "partialFilterExpression"
            | "expireAfterSeconds"
            | "collation"
            | "wildcardProjection"
            | "2dsphereIndexVersion"
            | "bits"
            | "min"
            | "max" => {}
            _ if arg.is_null() || arg.is_ignored() => {}
            "storageEngine" | "weights" | "default_language" | "language_override" | "textIndexVersion"
            | "clustered" | "prepareUnique" => arg.unsupported()?,
            _ if ignore_unknown => continue,
            other => {
                return Err(CommandError::new(
                    ErrorCode::InvalidIndexSpecificationOption,
                    format!("The field '{other}' is not valid for an index specification"),
                ));
            }
        }
        known.append(CString::try_from(arg.name)?, arg.value());
    }
    for (there, field) in [(keys, "key"), (name, "name")] {
        if !there {
            return Err(CommandError::new(
                ErrorCode::FailedToParse,
                format!("The '{field}' field is a required property of an index specification"),
            ));
        }
    }
    Ok(IndexSpec::from_document(&known))
}
