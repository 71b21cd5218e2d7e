//! `dropIndexes`: by name, by key pattern, several names, or `*` for all but `_id_`.

use bson::{RawBsonRef, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::find::index_with_pattern;
use super::request::Request;
use super::writes::{flush_catalog_change, write_concern};
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::error::CommandError;

const ID_INDEX: &str = "_id_";

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut wanted, mut durability) = (None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "index" => wanted = Some(arg.value()),
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let wanted = wanted.ok_or_else(|| CommandError::missing("dropIndexes.index"))?;
    let collection = request.collection()?;
    let Some(indexes) = collection.indexes()? else {
        return Err(CommandError::new(
            ErrorCode::NamespaceNotFound,
            format!("ns not found {}", collection.namespace()),
        ));
    };
    let names = || indexes.iter().filter_map(|index| index.get_str("name").ok());
    let chosen: Vec<&str> = match wanted {
        RawBsonRef::String("*") => names().filter(|name| *name != ID_INDEX).collect(),
        RawBsonRef::String(name) => vec![name],
        RawBsonRef::Array(array) => array
            .into_iter()
            .map(|name| {
                name?.as_str().ok_or_else(|| {
                    CommandError::new(
                        ErrorCode::TypeMismatch,
                        "BSON field 'dropIndexes.index' must hold strings",
                    )
                })
            })
            .collect::<Result<_>>()?,
        RawBsonRef::Document(pattern) => {
            let name = index_with_pattern(&indexes, pattern).ok_or_else(|| {
                CommandError::new(ErrorCode::IndexNotFound, "can't find index with that key")
            })?;
            vec![name]
        }
        _ => {
            return Err(CommandError::new(
                ErrorCode::TypeMismatch,
                "BSON field 'dropIndexes.index' must be a name, an array of names or a key pattern",
            ));
        }
    };
    let chosen: Vec<String> = chosen.into_iter().map(str::to_owned).collect();
    let search = collection.search_indexes()?.unwrap_or_default();
    if search.iter().any(|index| chosen.contains(&index.name)) {
        let target = Target::Collection(request.database, collection.namespace().collection());
        request.authorize(Action::DropSearchIndex, target)?;
    }
    let before = if chosen.is_empty() { indexes.len() } else { collection.drop_indexes(&chosen)? };
    flush_catalog_change(request, durability)?;
    tracing::info!(namespace = %collection.namespace(), indexes = ?chosen, "indexes dropped");
    Ok(rawdoc! { "nIndexesWas": i32::try_from(before).unwrap_or(i32::MAX) })
}
