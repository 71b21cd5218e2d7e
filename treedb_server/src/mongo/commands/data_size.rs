//! `dataSize`: bytes of the documents of a collection, counted; estimated if that is asked for.

use std::time::Instant;

use bson::rawdoc;
use treedb_collections::Namespace;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let started = Instant::now();
    let mut estimate = false;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "estimate" => estimate = arg.bool()?,
            "keyPattern" | "min" | "max" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.context.database.collection(whole_name(request)?.as_str())?;
    let (documents, bytes, estimated) = if estimate {
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
