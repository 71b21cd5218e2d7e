//! `renameCollection`.

use bson::RawBsonRef;
use treedb_collections::Namespace;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::args::type_name;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (from, to) = names(request)?;
    let (mut drop_target, mut durability) = (false, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "to" => {}
            // In early versions of the protocol the target's UUID took the place of `true`.
            "dropTarget" => drop_target = matches!(arg.value(), RawBsonRef::Binary(_)) || arg.bool()?,
            "stayTemp" => arg.unsupported()?,
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    request.context.database.rename_collection(from.as_str(), to.as_str(), drop_target)?;
    flush_catalog_change(request, durability)?;
    tracing::info!(%from, %to, "collection renamed");
    done()
}

/// The full names of the collection as it is and as it is to be.
pub(super) fn names(request: &Request<'_>) -> Result<(Namespace, Namespace)> {
    let full = |field: &str, value: RawBsonRef<'_>| -> Result<Namespace> {
        let name = value.as_str().ok_or_else(|| {
            CommandError::new(
                ErrorCode::TypeMismatch,
                format!(
                    "BSON field 'renameCollection.{field}' is the wrong type '{}', expected type 'string'",
                    type_name(value)
                ),
            )
        })?;
        Ok(Namespace::parse(name)?)
    };
    let mut to = None;
    for arg in request.args() {
        let arg = arg?;
        if arg.name == "to" {
            to = Some(full("to", arg.value())?);
        }
    }
    let to = to.ok_or_else(|| CommandError::missing("renameCollection.to"))?;
    Ok((full("renameCollection", request.subject()?)?, to))
}
