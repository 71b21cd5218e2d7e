//! `create`.

use bson::{Bson, Document};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::args::{Arg, args};
use crate::mongo::error::CommandError;

/// The options that a collection keeps.
pub(super) const VALIDATION: &[&str] = &["validator", "validationLevel", "validationAction"];

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut options = Document::new();
    let mut durability = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "capped"
            | "timeseries"
            | "viewOn"
            | "pipeline"
            | "clusteredIndex"
            | "expireAfterSeconds"
            | "encryptedFields"
            | "indexOptionDefaults"
            | "size"
            | "max"
            | "temp" => {
                arg.unsupported()?;
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
    let namespace = request.namespace()?;
    request.context.database.create_collection(namespace.as_str(), options).map_err(|error| {
        let exists = error.code == ErrorCode::NamespaceExists;
        let mut error = CommandError::from(error);
        if exists {
            error.message = format!("Collection {namespace} already exists.");
        }
        error
    })?;
    flush_catalog_change(request, durability)?;
    tracing::info!(%namespace, "collection created");
    done()
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
