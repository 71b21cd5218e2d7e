//! `collMod`: changes a collection's validator, hides an index, or changes when documents expire.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use treedb_collections::{IndexChoice, IndexModification, Modification};
use treedb_query::query::ErrorCode;

use super::Result;
use super::create::{VALIDATION, images};
use super::request::Request;
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut changes, mut durability) = (Modification::default(), None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            name if VALIDATION.contains(&name) => {
                changes.options.insert(name, Bson::try_from(arg.value())?);
            }
            "changeStreamPreAndPostImages" => {
                images(&arg)?;
                changes.options.insert(arg.name, Bson::try_from(arg.value())?);
            }
            "index" => changes.index = Some(index_change(arg.document()?)?),
            "expireAfterSeconds" => {
                changes.expire_after = Some(match arg.value() {
                    RawBsonRef::String("off") => None,
                    _ => Some(arg.integer()?),
                });
            }
            "timeseries" => changes.buckets = Some(span(Document::try_from(arg.document()?)?)?),
            "cappedSize" => {
                changes.limits.insert("size", arg.integer()?);
            }
            "cappedMax" => {
                changes.limits.insert("max", arg.integer()?);
            }
            "viewOn" => {
                changes.options.insert(arg.name, arg.str()?);
            }
            "pipeline" => {
                changes.options.insert(arg.name, Bson::try_from(RawBsonRef::Array(arg.array()?))?);
            }
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    // Who may change a view is decided by both.
    if changes.options.contains_key("viewOn") != changes.options.contains_key("pipeline") {
        return Err(CommandError::new(
            ErrorCode::InvalidOptions,
            "Must specify both 'viewOn' and 'pipeline' when modifying a view",
        ));
    }
    let namespace = request.namespace()?;
    let index = changes.index.clone();
    let old = request.context.database.modify_collection(namespace.as_str(), changes)?;
    flush_catalog_change(request, durability)?;
    tracing::info!(%namespace, "collection changed");
    let shown = index.zip(old).map(|(change, old)| old.shown_change(change.hidden, change.expire_after));
    Ok(shown.unwrap_or_default())
}

/// What is to change of the buckets of a time series.
fn span(changes: Document) -> Result<Document> {
    const OPTIONS: [&str; 3] = ["granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds"];
    match changes.keys().find(|name| !OPTIONS.contains(&name.as_str())) {
        None => Ok(changes),
        Some(other) => Err(CommandError::new(
            ErrorCode::Location40415,
            format!("BSON field 'collMod.timeseries.{other}' is an unknown field."),
        )),
    }
}

/// What is to change of an index.
fn index_change(spec: &RawDocument) -> Result<IndexModification> {
    let (mut name, mut pattern, mut hidden, mut expire_after) = (None, None, None, None);
    for arg in args("collMod.index", spec) {
        let arg = arg?;
        match arg.name {
            "name" => name = Some(IndexChoice::Name(arg.str()?.to_owned())),
            "keyPattern" => pattern = Some(IndexChoice::KeyPattern(arg.document()?.to_owned())),
            "hidden" => hidden = Some(arg.bool()?),
            "expireAfterSeconds" => expire_after = Some(arg.integer()?),
            "unique" | "prepareUnique" => arg.unsupported()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    let index = match (name, pattern) {
        (Some(index), None) | (None, Some(index)) => index,
        _ => {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                "collMod.index names its index by either name or keyPattern",
            ));
        }
    };
    if hidden.is_none() && expire_after.is_none() {
        return Err(CommandError::new(
            ErrorCode::InvalidOptions,
            "collMod.index changes hidden or expireAfterSeconds: neither is given",
        ));
    }
    Ok(IndexModification { index, hidden, expire_after })
}
