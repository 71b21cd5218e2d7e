//! What a find returns beside or instead of a document: MongoDB's `showRecordId` and `returnKey`.
//!
//! The number of a row is known where the row is found, before documents are sorted. Until the end it is the last field of the document, by
//! a name that no stored document has in that place.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};

use crate::access::{RowId, Source};
use crate::doc::write::Writer;
use crate::doc::{Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::{Path, Plan, Query, Returns};

use super::execution::project;

/// What is returned of the documents of one query.
pub(super) struct ReturnedDocument {
    record_id: bool,
    /// The paths of the index's key, if only they are returned: none if there is no index.
    key: Option<Vec<crate::doc::Path>>,
}

impl ReturnedDocument {
    /// `None` if documents are returned as they are.
    ///
    /// # Errors
    /// `NotImplemented` for the key of an index that has several keys of a document, which the document does not tell.
    pub(super) fn of(source: &dyn Source, plan: &Plan, query: &Query) -> Result<Option<Self>> {
        let Returns { key, record_id } = query.returns;
        if !key && !record_id {
            return Ok(None);
        }
        let key = key.then(|| key_paths(source, plan)).transpose()?;
        Ok(Some(ReturnedDocument { record_id, key }))
    }

    /// The document with the number of its row.
    pub(super) fn with_row(&self, document: &RawDocument, row: RowId) -> RawDocumentBuf {
        let mut document = document.to_owned();
        if self.record_id {
            document.append(cstr!("$recordId"), i64::try_from(row.0).unwrap_or(i64::MAX));
        }
        document
    }

    /// What is returned of a document with the number of its row.
    ///
    /// # Errors
    /// Those of the projection.
    pub(super) fn finish(&self, query: &Query, document: &RawDocument) -> Result<RawDocumentBuf> {
        let (mut rest, mut row) = (Writer::new(document.as_bytes().len()), None);
        let mut fields = Doc::from(document).elements().peekable();
        while let Some(field) = fields.next() {
            match (field.value(), fields.peek()) {
                (Value::Int64(number), None) if self.record_id => row = Some(number),
                _ => rest.copy(&field),
            }
        }
        let rest = rest.finish();
        let mut returned = match &self.key {
            None => project(query.projection.as_ref(), &rest)?,
            Some(paths) => {
                let mut key = Writer::new(64);
                for path in paths {
                    let value = path.get(Doc::from(&rest));
                    key.value(path.as_str().as_bytes(), value.unwrap_or(Value::Null));
                }
                key.finish()
            }
        };
        if let Some(row) = row {
            returned.append(cstr!("$recordId"), row);
        }
        Ok(returned)
    }
}

/// The paths of the keys of the plan's index.
fn key_paths(source: &dyn Source, plan: &Plan) -> Result<Vec<crate::doc::Path>> {
    let Path::Index { index, .. } = &plan.path else { return Ok(Vec::new()) };
    let Some(info) = source.indexes().get(*index) else { return Ok(Vec::new()) };
    match info.def.as_ordered() {
        Some(def) if !info.multikey && def.options.kind.is_values() => {
            Ok(def.keys.iter().map(|part| part.path.clone()).collect())
        }
        _ => Err(QueryError::new(
            ErrorCode::NotImplemented,
            format!(
                "returnKey is not supported for the index {}, which has several keys of a document or hashes",
                info.def.name()
            ),
        )),
    }
}
