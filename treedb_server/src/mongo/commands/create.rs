//! `create`. Outside of transactions, creating what exists with the same options succeeds, as in MongoDB since 7.0.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::doc::Collation;
use treedb_query::index::ordered::same_key_pattern;
use treedb_query::query::{ErrorCode, check_id_index_fields};

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::args::{Arg, args};
use crate::mongo::error::CommandError;

/// The options that a collection keeps.
pub(super) const VALIDATION: &[&str] = &["validator", "validationLevel", "validationAction"];

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut options = Document::new();
    let (mut durability, mut id_index) = (None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "encryptedFields" | "indexOptionDefaults" | "temp" => arg.unsupported()?,
            "capped" => {
                options.insert(arg.name, arg.bool()?);
            }
            "size" | "max" | "expireAfterSeconds" => {
                options.insert(arg.name, Bson::Int64(arg.integer()?));
            }
            "timeseries" => {
                options.insert(arg.name, Bson::Document(arg.document()?.try_into()?));
            }
            // `true` for internal collections only.
            "clusteredIndex" => {
                options.insert(arg.name, Bson::Document(arg.document()?.try_into()?));
            }
            "collation" => {
                if let Some(collation) = arg.some_document()? {
                    options.insert(arg.name, Bson::Document(collation.try_into()?));
                }
            }
            "writeConcern" => durability = write_concern(arg.document()?)?,
            "changeStreamPreAndPostImages" => {
                images(&arg)?;
                options.insert(arg.name, Bson::try_from(arg.value())?);
            }
            name if VALIDATION.contains(&name) => {
                options.insert(name, Bson::try_from(arg.value())?);
            }
            // `{ treedb: { format: .. } }`: how rows are stored.
            "storageEngine" => {
                options.insert(arg.name, Bson::Document(arg.document()?.try_into()?));
            }
            "viewOn" => {
                options.insert(arg.name, arg.str()?);
            }
            "pipeline" => {
                options.insert(arg.name, Bson::try_from(RawBsonRef::Array(arg.array()?))?);
            }
            "idIndex" => id_index = Some(arg.document()?),
            "autoIndexId" => {
                if !arg.bool()? {
                    return Err(CommandError::not_implemented(
                        "'create.autoIndexId': false is not supported: every collection has an index on _id",
                    ));
                }
            }
            _ => arg.ignored_or_unknown()?,
        }
    }
    if options.contains_key("pipeline") && !options.contains_key("viewOn") {
        return Err(CommandError::new(
            ErrorCode::InvalidOptions,
            "'pipeline' requires 'viewOn' to also be specified",
        ));
    }
    if options.contains_key("viewOn") && id_index.is_some() {
        return Err(CommandError::new(ErrorCode::InvalidOptions, "'idIndex' is not allowed with 'viewOn'"));
    }
    if let Some(id_index) = id_index {
        check_id_index(id_index, &options)?;
    }
    let namespace = request.namespace()?;
    if let Some(mut open) = request.transaction() {
        open.txn.create_collection(namespace.as_str(), options)?;
        return done();
    }
    let database = &request.context.database;
    match database.create_collection(namespace.as_str(), options.clone()) {
        Err(error) if error.code == ErrorCode::NamespaceExists => {
            if database.exists_with_options(namespace.as_str(), options)? {
                return done();
            }
            return Err(error.into());
        }
        created => drop(created?),
    }
    flush_catalog_change(request, durability)?;
    tracing::info!(%namespace, "collection created");
    done()
}

/// Refuses an `idIndex` that is not the index on `_id` that every collection has; `options` are those of the collection.
fn check_id_index(index: &RawDocument, options: &Document) -> Result<()> {
    check_id_index_fields(index)?;
    let (mut key, mut collation) = (None, None);
    for arg in args("create.idIndex", index) {
        let arg = arg?;
        match arg.name {
            "key" => key = Some(arg.document()?),
            "collation" => collation = arg.some_document()?,
            // The name is always `_id_`.
            "name" | "ns" => {
                arg.str()?;
            }
            "v" => {
                arg.integer()?;
            }
            // Refused above.
            _ => {}
        }
    }
    let key = key.ok_or_else(|| {
        CommandError::new(
            ErrorCode::FailedToParse,
            "The 'key' field is a required property of an index specification",
        )
    })?;
    if !same_key_pattern(key, &rawdoc! { "_id": 1 }) {
        return Err(CommandError::new(
            ErrorCode::BadValue,
            format!("The field 'key' for an _id index must be {{_id: 1}}, but got {key:?}"),
        ));
    }
    let of_collection = options.get_document("collation").ok().map(RawDocumentBuf::try_from).transpose()?;
    let parse = |collation: Option<RawDocumentBuf>| match collation {
        Some(collation) => Collation::parse(&collation),
        None => Ok(Collation::Simple),
    };
    // An index without a collation has that of its collection.
    if collation.is_some() && parse(collation)? != parse(of_collection)? {
        return Err(CommandError::new(
            ErrorCode::BadValue,
            "'idIndex' must have the same collation as the collection.",
        ));
    }
    Ok(())
}

/// Refuses a `changeStreamPreAndPostImages` that is not `{enabled: bool}`.
pub(super) fn images(arg: &Arg<'_>) -> Result<()> {
    for part in args("changeStreamPreAndPostImages", arg.document()?) {
        let part = part?;
        match part.name {
            "enabled" => {
                part.bool()?;
            }
            _ => part.nested_ignored_or_unknown()?,
        }
    }
    Ok(())
}
