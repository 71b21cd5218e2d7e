//! `collMod`: changes a collection's validator, hides an index, or changes when documents expire.

use bson::raw::cstr;
use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_query::query::ErrorCode;

use super::Result;
use super::create::{VALIDATION, images};
use super::find::index_with_pattern;
use super::request::Request;
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut options, mut index, mut durability) = (Document::new(), None, None);
    let (mut limits, mut series, mut expire_after) = (Document::new(), None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            name if VALIDATION.contains(&name) => {
                options.insert(name, Bson::try_from(arg.value())?);
            }
            "changeStreamPreAndPostImages" => {
                images(&arg)?;
                options.insert(arg.name, Bson::try_from(arg.value())?);
            }
            "index" => index = Some(IndexChange::parse(arg.document()?)?),
            "expireAfterSeconds" => {
                expire_after = Some(match arg.value() {
                    RawBsonRef::String("off") => None,
                    _ => Some(arg.integer()?),
                });
            }
            "timeseries" => series = Some(span(Document::try_from(arg.document()?)?)?),
            "cappedSize" => {
                limits.insert("size", arg.integer()?);
            }
            "cappedMax" => {
                limits.insert("max", arg.integer()?);
            }
            "viewOn" => {
                options.insert(arg.name, arg.str()?);
            }
            "pipeline" => {
                options.insert(arg.name, Bson::try_from(RawBsonRef::Array(arg.array()?))?);
            }
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    // Who may change a view is decided by both.
    if options.contains_key("viewOn") != options.contains_key("pipeline") {
        return Err(CommandError::new(
            ErrorCode::InvalidOptions,
            "Must specify both 'viewOn' and 'pipeline' when modifying a view",
        ));
    }
    let namespace = request.namespace()?;
    request.context.database.modify_collection(namespace.as_str(), options)?;
    if !limits.is_empty() {
        request.context.database.modify_capped(namespace.as_str(), &limits)?;
    }
    if let Some(changes) = series {
        request.context.database.modify_series(namespace.as_str(), &changes)?;
    }
    if let Some(expire_after) = expire_after {
        request.context.database.modify_expiry(namespace.as_str(), expire_after)?;
    }
    let reply = match index {
        Some(index) => index.execute(request)?,
        None => RawDocumentBuf::new(),
    };
    flush_catalog_change(request, durability)?;
    tracing::info!(%namespace, "collection changed");
    Ok(reply)
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
struct IndexChange {
    name: Option<String>,
    pattern: Option<RawDocumentBuf>,
    hidden: Option<bool>,
    expire_after: Option<i64>,
}

impl IndexChange {
    fn parse(spec: &RawDocument) -> Result<Self> {
        let mut change = IndexChange { name: None, pattern: None, hidden: None, expire_after: None };
        for arg in args("collMod.index", spec) {
            let arg = arg?;
            match arg.name {
                "name" => change.name = Some(arg.str()?.to_owned()),
                "keyPattern" => change.pattern = Some(arg.document()?.to_owned()),
                "hidden" => change.hidden = Some(arg.bool()?),
                "expireAfterSeconds" => change.expire_after = Some(arg.integer()?),
                "unique" | "prepareUnique" => arg.unsupported()?,
                _ => arg.nested_ignored_or_unknown()?,
            }
        }
        if change.name.is_some() == change.pattern.is_some() {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                "collMod.index names its index by either name or keyPattern",
            ));
        }
        if change.hidden.is_none() && change.expire_after.is_none() {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                "collMod.index changes hidden or expireAfterSeconds: neither is given",
            ));
        }
        Ok(change)
    }

    fn execute(self, request: &Request<'_>) -> Result {
        let collection = request.collection()?;
        let name = match (self.name, self.pattern) {
            (Some(name), _) => name,
            (None, pattern) => {
                let indexes = collection.indexes()?.unwrap_or_default();
                let name =
                    pattern.and_then(|pattern| index_with_pattern(&indexes, &pattern).map(str::to_owned));
                name.ok_or_else(|| {
                    let message = format!("cannot find the index in {}", collection.namespace());
                    CommandError::new(ErrorCode::IndexNotFound, message)
                })?
            }
        };
        let database = &request.context.database;
        let old = database
            .modify_index(collection.namespace().as_str(), &name, self.hidden, self.expire_after)?
            .options;
        let mut reply = RawDocumentBuf::new();
        if let Some(seconds) = self.expire_after {
            if let Some(old) = old.expire_after {
                reply.append(cstr!("expireAfterSeconds_old"), old);
            }
            reply.append(cstr!("expireAfterSeconds_new"), seconds);
        }
        if let Some(hidden) = self.hidden {
            reply.append(cstr!("hidden_old"), old.hidden);
            reply.append(cstr!("hidden_new"), hidden);
        }
        Ok(reply)
    }
}
