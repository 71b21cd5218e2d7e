//! What the catalog knows of a collection, and the catalog entry's bytes.
//!
//! An entry is a BSON document under the namespace's name in the table `catalog`:
//!
//! ```text
//! { v: 1, id: int64, uuid: binary, format: int32, shapes: binary?, options: document, next_index: int64,
//!   indexes: [ { id: int64, name: string, key: document, unique: bool, multikey: bool, shortened: true?,
//!                building: int64?, sort_keys: int32?, .. } ] }
//! ```
//!
//! `v` is 1; 2 if an index has options; 3 if the collection has a collation (`options.collation`), which what is asked
//! of it and its indexes inherit; 4 if an index has, or had, shortened keys (`shortened`, see `long_key`), which versions
//! before it cannot read; 5 if an index has a collation. The options of indexes are in its part under the names that
//! `createIndexes` has for them (`sparse`, `partialFilterExpression`, `expireAfterSeconds`, `hidden`, `collation`,
//! `wildcardProjection`). `sort_keys` is the version of the sort keys in an index with a collation
//! (`KEY_VERSION` in `treedb_query::doc::collation`), 1 where it is missing. An index whose keys are of another version than the
//! program's is rebuilt when the database is opened (`index_rebuild`).
//! `format` tells how rows are encoded: 0 is plain BSON; 1 is template rows ([`treedb_query::doc::template`]), and `shapes` holds
//! their shapes, one behind the other, the first with number 0; 2 is JSON text, or a zero byte and plain BSON where no text says
//! the same. `building` is there while an index is
//! being built: the least row id not looked at yet; such an index is maintained by every write and used by none.

use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawDocumentBuf, doc};

use treedb_query::access::{IndexInfo, PlanCache};
use treedb_query::doc::Collation;
use treedb_query::doc::collation::KEY_VERSION;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{IndexDef, IndexOptions};
use treedb_query::query::index_of;
use treedb_storage::{Reads, Table};

use crate::catalog::namespace::Namespace;
use crate::catalog::validator::Validator;
use crate::write::row::Rows;

/// Version of a catalog entry whose indexes have no options.
const VERSION: i32 = 1;
/// Version of one whose indexes have.
const VERSION_OPTIONS: i32 = 2;
/// Version of one with shortened keys.
const VERSION_SHORTENED: i32 = 4;
/// Version of one with an index that has a collation and says which version its sort keys are of. Before, there was
/// only [`FIRST_SORT_KEYS`], and programs of that time must not read other keys.
const VERSION_SORT_KEYS: i32 = 5;
/// Version of the sort keys of an index that does not name one.
const FIRST_SORT_KEYS: i32 = 1;

/// One collection, as a snapshot's catalog has it.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    pub(crate) namespace: Namespace,
    pub(crate) id: i64,
    pub(crate) uuid: bson::Uuid,
    /// What `create` and `collMod` said; `validator` and its like among them.
    pub(crate) options: Document,
    pub(crate) validator: Option<Validator>,
    /// How texts compare where nothing else is asked for: an option, too.
    pub(crate) collation: Collation,
    pub(crate) next_index: i64,
    /// The table of the rows.
    pub(crate) rows: Table,
    /// How they are stored.
    pub(crate) stored_as: Rows,
    /// Every index, those being built last.
    pub(crate) indexes: Vec<IndexMeta>,
    /// The ready ones as queries see them: the first `infos.len()` of `indexes`.
    pub(crate) infos: Vec<IndexInfo>,
    /// Which of them served which queries.
    pub(crate) plans: Arc<PlanCache>,
}

/// One index of a collection.
#[derive(Debug, Clone)]
pub(crate) struct IndexMeta {
    pub(crate) id: i64,
    pub(crate) def: IndexDef,
    pub(crate) facts: Facts,
    /// The least row id a build has not looked at; `None` once it is ready.
    pub(crate) building: Option<u64>,
    /// Version of the sort keys in it, if it has a collation.
    pub(crate) sort_keys: i32,
    /// The table of its entries.
    pub(crate) table: Table,
}

/// What is true of some entry of an index, or was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its row has several entries, or may have.
    pub(crate) multikey: bool,
    /// Its key is shortened.
    pub(crate) shortened: bool,
}

impl Facts {
    /// What is true of some entry of both.
    pub(crate) fn and(self, other: Facts) -> Facts {
        Facts { multikey: self.multikey | other.multikey, shortened: self.shortened | other.shortened }
    }

    /// What is known with that of other entries, if it is more.
    pub(crate) fn news(self, other: Facts) -> Option<Facts> {
        Some(self.and(other)).filter(|both| *both != self)
    }
}

/// Name of the table that holds the rows of collection `id`.
pub(crate) fn rows_table(id: i64) -> String {
    format!("rows/{id}")
}

/// Name of the table that holds the entries of index `index` of collection `id`.
pub(crate) fn index_table(id: i64, index: i64) -> String {
    format!("index/{id}/{index}")
}

/// The collation that a collection's options name.
///
/// # Errors
/// Those of [`Collation::parse`].
pub(crate) fn collation_of(options: &Document) -> Result<Collation> {
    match options.get("collation") {
        None | Some(Bson::Null) => Ok(Collation::Simple),
        Some(Bson::Document(spec)) => Collation::parse(&RawDocumentBuf::try_from(spec)?),
        Some(_) => Err(QueryError::new(ErrorCode::TypeMismatch, "the option 'collation' must be an object")),
    }
}

impl Meta {
    /// Puts the indexes being built behind the ready ones, of which the one on `_id` is the first, and renews what
    /// queries see.
    pub(crate) fn arrange(&mut self) {
        self.indexes.sort_by_key(|index| (index.building.is_some(), !index.def.is_id(), index.id));
        self.plans = Arc::default();
        self.infos = self
            .indexes
            .iter()
            .filter(|index| index.building.is_none())
            .map(|index| IndexInfo::new(index.def.clone(), index.facts.multikey))
            .collect();
    }

    /// The entry's bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let indexes: Vec<Bson> =
            self.indexes.iter().map(|index| Ok(index.encode()?.into())).collect::<Result<_>>()?;
        let plain = IndexOptions::default();
        let shortened = self.indexes.iter().any(|index| index.facts.shortened);
        let sort_keys = self.indexes.iter().any(IndexMeta::has_sort_keys);
        let version = match self.indexes.iter().all(|index| index.def.options == plain) {
            _ if sort_keys => VERSION_SORT_KEYS,
            _ if shortened => VERSION_SHORTENED,
            true => VERSION,
            false => VERSION_OPTIONS,
        };
        let mut entry = doc! {
            "v": version, "id": self.id, "uuid": self.uuid, "format": self.stored_as.number(),
            "options": self.options.clone(), "next_index": self.next_index, "indexes": indexes,
        };
        if let Some(bytes) = self.stored_as.shapes() {
            entry.insert("shapes", Binary { subtype: BinarySubtype::Generic, bytes });
        }
        Ok(entry.to_vec()?)
    }

    /// Reads an entry and finds its tables in the snapshot it came from.
    pub(crate) fn decode(namespace: Namespace, bytes: &[u8], reads: &impl Reads) -> Result<Meta> {
        let damaged = |what: &str| {
            QueryError::new(
                ErrorCode::InternalError,
                format!(
                    "the catalog entry of {namespace} is damaged ({what}): restore the database from a backup"
                ),
            )
        };
        // TreeDB took any name of a locale once.
        let outlived = |what: &str, error: &QueryError| {
            QueryError::new(
                error.code,
                format!(
                    "{namespace}: {what} has a collation that this version of TreeDB does not support ({}): open the \
                     database with the version that created it, and drop it or copy the documents to a collection \
                     with another collation",
                    error.message
                ),
            )
        };
        let entry = Document::from_reader(bytes).map_err(|e| damaged(&e.to_string()))?;
        let (v, format) = (entry.get_i32("v").ok(), entry.get_i32("format").ok());
        let shapes = entry.get_binary_generic("shapes").ok();
        let stored_as = match format
            .filter(|_| matches!(v, Some(VERSION..=VERSION_SORT_KEYS)))
            .and_then(Rows::known)
        {
            Some(read) => read(shapes.map_or(&[], Vec::as_slice)).ok_or_else(|| damaged("shapes"))?,
            None => {
                return Err(QueryError::new(
                    ErrorCode::InternalError,
                    format!(
                        "{namespace} was written by a newer TreeDB (entry {v:?}, rows {format:?}): use that version"
                    ),
                ));
            }
        };
        let id = entry.get_i64("id").map_err(|e| damaged(&e.to_string()))?;
        let uuid = match entry.get("uuid") {
            Some(Bson::Binary(binary)) => binary.to_uuid().map_err(|e| damaged(&e.to_string()))?,
            _ => return Err(damaged("no uuid")),
        };
        let table = |name: String| reads.table(&name)?.ok_or_else(|| damaged(&format!("no table {name}")));
        let mut indexes = Vec::new();
        for index in entry.get_array("indexes").map_err(|e| damaged(&e.to_string()))? {
            let index = index.as_document().ok_or_else(|| damaged("an index is not a document"))?;
            let index_id = index.get_i64("id").map_err(|e| damaged(&e.to_string()))?;
            indexes.push(IndexMeta {
                id: index_id,
                def: decode_def(index).map_err(|error| match index.get_str("name") {
                    Ok(name) if index.contains_key("collation") => {
                        outlived(&format!("its index '{name}'"), &error)
                    }
                    _ => damaged("an index definition"),
                })?,
                facts: Facts {
                    multikey: index.get_bool("multikey").map_err(|e| damaged(&e.to_string()))?,
                    shortened: index.get_bool("shortened").unwrap_or(false),
                },
                building: index.get_i64("building").ok().map(i64::cast_unsigned),
                sort_keys: index.get_i32("sort_keys").unwrap_or(FIRST_SORT_KEYS),
                table: table(index_table(id, index_id))?,
            });
        }
        let options = entry.get_document("options").cloned().unwrap_or_default();
        let collation = collation_of(&options).map_err(|error| outlived("it", &error))?;
        let mut meta = Meta {
            id,
            uuid,
            validator: Validator::of(&namespace, &options, &collation)?,
            collation,
            options,
            next_index: entry.get_i64("next_index").map_err(|e| damaged(&e.to_string()))?,
            rows: table(rows_table(id))?,
            stored_as,
            indexes,
            infos: Vec::new(),
            plans: Arc::default(),
            namespace,
        };
        meta.arrange();
        Ok(meta)
    }

    /// What `listIndexes` shows of each ready index.
    pub(crate) fn list_indexes(&self) -> Result<Vec<Document>> {
        let ready = self.indexes.iter().filter(|index| index.building.is_none());
        ready.map(|index| Ok(Document::try_from(index.def.spec())?)).collect()
    }
}

impl IndexMeta {
    fn encode(&self) -> Result<Document> {
        let mut entry = doc! { "id": self.id };
        entry.extend(Document::try_from(self.def.spec())?);
        entry.remove("v");
        entry.insert("unique", self.def.unique);
        entry.insert("multikey", self.facts.multikey);
        if self.facts.shortened {
            entry.insert("shortened", true);
        }
        if let Some(next) = self.building {
            entry.insert("building", next.cast_signed());
        }
        if self.has_sort_keys() {
            entry.insert("sort_keys", self.sort_keys);
        }
        Ok(entry)
    }

    fn has_sort_keys(&self) -> bool {
        !self.def.options.collation.is_simple()
    }

    /// True if its keys were made by another version's collations, so that what this one looks for is not found.
    pub(crate) fn is_outdated(&self) -> bool {
        self.has_sort_keys() && self.sort_keys != KEY_VERSION
    }
}

/// The definition in an index's part of a catalog entry.
fn decode_def(index: &Document) -> Result<IndexDef> {
    index_of(&RawDocumentBuf::try_from(index)?)
}
