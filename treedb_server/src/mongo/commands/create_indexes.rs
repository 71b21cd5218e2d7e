//! `createIndexes`: builds what is not there yet and answers when it is.

use bson::raw::cstr;
use bson::{RawDocument, rawdoc};
use treedb_collections::IndexSpec;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use super::writes::write_concern;
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "indexes" | "commitQuorum" | "ignoreUnknownIndexOptions" => {}
            "writeConcern" => {
                write_concern(arg.document()?)?;
            }
            _ => arg.generic()?,
        }
    }
    let collection = request.collection()?;
    request.only_sequence("indexes")?;
    let specs: Vec<IndexSpec> =
        request.documents("indexes")?.into_iter().map(parse).collect::<Result<_>>()?;
    if specs.is_empty() {
        return Err(CommandError::new(ErrorCode::BadValue, "Must specify at least one index to create"));
    }
    let created = collection.create_indexes(&specs)?;
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

fn parse(spec: &RawDocument) -> Result<IndexSpec> {
    super::writes::check_statement(spec)?;
    let (mut keys, mut name) = (false, false);
    for arg in args("createIndexes.indexes", spec) {
        let arg = arg?;
        match arg.name {
            "key" => keys = true,
            "name" => name = true,
            "unique"
            | "sparse"
            | "hidden"
            | "partialFilterExpression"
            | "expireAfterSeconds"
            | "collation"
            | "wildcardProjection" => {}
            // How to build, which is always the same way; and of which version, of which there is one.
            "background" | "v" | "ns" | "dropDups" => {}
            _ if arg.is_null() => {}
            "storageEngine"
            | "weights"
            | "default_language"
            | "language_override"
            | "textIndexVersion"
            | "2dsphereIndexVersion"
            | "bits"
            | "min"
            | "max"
            | "clustered"
            | "prepareUnique" => arg.unsupported()?,
            other => {
                return Err(CommandError::new(
                    ErrorCode::InvalidOptions,
                    format!("The field '{other}' is not valid for an index specification"),
                ));
            }
        }
    }
    for (there, field) in [(keys, "key"), (name, "name")] {
        if !there {
            return Err(CommandError::new(
                ErrorCode::FailedToParse,
                format!("The '{field}' field is a required property of an index specification"),
            ));
        }
    }
    Ok(IndexSpec::from_document(spec))
}
