//! `create`.

use bson::Document;
use treedb_core::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use super::writes::{simple_collation, write_concern};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "capped"
            | "timeseries"
            | "validator"
            | "viewOn"
            | "pipeline"
            | "clusteredIndex"
            | "expireAfterSeconds"
            | "changeStreamPreAndPostImages"
            | "encryptedFields"
            | "size"
            | "max" => {
                arg.unsupported()?;
            }
            "collation" => simple_collation(&arg)?,
            "writeConcern" => {
                write_concern(arg.document()?)?;
            }
            // Settings of other storage engines, and of a validator that there is not.
            "autoIndexId"
            | "storageEngine"
            | "indexOptionDefaults"
            | "validationLevel"
            | "validationAction"
            | "temp"
            | "flags" => {}
            _ => arg.generic()?,
        }
    }
    let namespace = request.namespace()?;
    request.context.database.create_collection(namespace.as_str(), Document::new()).map_err(|error| {
        let exists = error.code == ErrorCode::NamespaceExists;
        let mut error = CommandError::from(error);
        if exists {
            error.message = format!("Collection {namespace} already exists.");
        }
        error
    })?;
    tracing::info!(%namespace, "collection created");
    done()
}
