//! Documents as JSON text, in and out.
//!
//! In a collection of the format [`Format::Json`](crate::Format::Json) the text is the row and is returned unchanged; in other
//! collections it is generated. Text of more than 16 MiB is refused, as a document of that size is.

use std::borrow::Cow;

use bson::{Bson, RawDocument};

use treedb_query::doc::json::{from_json, to_json};
use treedb_query::doc::{Doc, with_id};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::{ReadTxn, Reads};

use crate::catalog::meta::{IndexMeta, Meta};
use crate::collection::Collection;
use crate::index::ordered::entry::split_entry;
use crate::index::ordered::long_key::stored;
use crate::read::cursor::Cursor;
use crate::request::FindRequest;
use crate::write::change::MAX_DOCUMENT;

impl Collection {
    /// Inserts a document in (relaxed or canonical) extended JSON and returns its `_id`. If it has none, one is added as the
    /// first field.
    ///
    /// # Errors
    /// Those of [`Collection::insert_one`]; `FailedToParse` with line and column.
    pub fn insert_json(&self, text: &str) -> Result<Bson> {
        let given = from_json(text)?;
        let document = with_id(&given)?;
        let id = document.get("_id")?.map(Bson::try_from).transpose()?.unwrap_or(Bson::Null);
        let text =
            if given.get("_id")?.is_some() { Cow::Borrowed(text) } else { with_id_in_front(text, &id) };
        if text.len() > MAX_DOCUMENT {
            return Err(QueryError::new(
                ErrorCode::BSONObjectTooLarge,
                format!("text to insert too large. size in bytes: {}, max size: {MAX_DOCUMENT}", text.len()),
            ));
        }
        self.edit(true, |edit| edit.insert_text(&document, &text))?;
        Ok(id)
    }

    /// The documents that match, as JSON text. If the collection's format is JSON and there is no projection, it is the
    /// text that was inserted, otherwise relaxed extended JSON.
    ///
    /// # Errors
    /// Those of [`Collection::find`].
    pub fn find_json(&self, request: FindRequest) -> Result<JsonCursor> {
        let whole = request.projection.is_none();
        Ok(JsonCursor { cursor: self.find_by_plan(request)?, whole })
    }
}

/// `text`, an object without `_id`, with `id` as its first field.
fn with_id_in_front<'t>(text: &'t str, id: &Bson) -> Cow<'t, str> {
    let Some((before, after)) = text.split_once('{') else { return Cow::Borrowed(text) };
    let comma = if after.trim_start().starts_with('}') { "" } else { "," };
    Cow::Owned(format!("{before}{{\"_id\":{}{comma}{after}", id.clone().into_relaxed_extjson()))
}

/// The documents of [`Collection::find_json`].
#[derive(Debug)]
pub struct JsonCursor {
    cursor: Cursor,
    whole: bool,
}

impl Iterator for JsonCursor {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let document = match self.cursor.next()? {
            Ok(document) => document,
            Err(error) => return Some(Err(error)),
        };
        let stored = match self.cursor.snapshot().filter(|_| self.whole) {
            Some((reads, meta)) => stored_text(reads, meta, &document),
            None => Ok(None),
        };
        Some(stored.map(|text| text.unwrap_or_else(|| to_json(&document))))
    }
}

/// The stored text of a document, if its row is text.
fn stored_text(reads: &ReadTxn, meta: &Meta, document: &RawDocument) -> Result<Option<String>> {
    let (Some(index), Some(id)) =
        (meta.indexes.first().and_then(IndexMeta::ordered), Doc::from(document).get("_id"))
    else {
        return Ok(None);
    };
    let mut key = Vec::new();
    meta.collation.encode(id, &mut key);
    let Some(entry) = reads.get(index.table, &stored(&key))? else { return Ok(None) };
    let (_, row) = split_entry(index.def, &key, entry)?;
    let row = reads.row(&meta.rows, row.0)?;
    Ok(row.and_then(|row| meta.row_format.text(row)).map(str::to_owned))
}
