//! A collection's catalog entry, in memory and as bytes.
//!
//! An entry is a BSON document under the namespace's name in the table `catalog`:
//!
//! ```text
//! { v: 1, id: int64, uuid: binary, format: int32, shapes: binary?, options: document, next_index: int64,
//!   indexes: [ { id: int64, name: string, key: document, unique: bool, multikey: bool, shortened: true?,
//!                several: true?, centred: true?, reaching: int32?,
//!                building: int64?, sort_keys: int32?, .. } ] }
//! ```
//!
//! `v` is the least version that has all the features the entry uses: 1; 2 if an index has options; 3 if the collection has a
//! collation (`options.collation`), which its queries and indexes inherit; 4 if an index has, or had, shortened keys
//! (`shortened`, see `long_key`); 5 if an index has a collation; 6 if there is a vector index; 7 if there is one that has all vectors of a document
//! (`several`: those of version 6 do not have documents with several); 8 for a view ([`super::view_def`]), and for a collection that is capped,
//! clustered or a time series ([`super::special`]); 9 if a vector index has elements of less than 4 bytes (`elements` of its field); 10 if there
//! is a `2dsphere` or `2d` index; 11 if an index has `background`; 12 if the `quantization` of a vector index is `binary`, `bits2` or `bits4`;
//! 13 if the codes of one are about a centre (`centred`, see `index/vector/record`); 15 if the links of one, under inner product, are chosen by
//! distances (`reaching`: the version of their scores, 2). In entries of version 14, which programs wrote that were not released, `reaching` is `true`,
//! and the scores had lost digits: such an index is rebuilt when the database is opened (`index_rebuild`). 16 if there is a search index with several fields of vectors. The options of an index have the names
//! that `createIndexes` gives them (`sparse`, `partialFilterExpression`, `expireAfterSeconds`, `hidden`, `background`, `collation`,
//! `wildcardProjection`). A vector index has `type` and `definition`, as `createSearchIndexes` gives them, instead of `key` and options.
//! A search index with several fields of vectors is as many entries of its name, each with the whole `definition` and with the `path` of its field.
//!
//! `sort_keys` is the version of the sort keys in an index with a collation (`KEY_VERSION` in
//! `treedb_query::doc::collation`), 1 if missing. An index with sort keys of another version than the program's is rebuilt
//! when the database is opened (`index_rebuild`).
//!
//! `format` is the row format: 0 is plain BSON; 1 is template rows ([`treedb_query::doc::template`]), whose shapes are in
//! `shapes`, one after the other, starting with number 0; 2 is JSON text, or a zero byte and plain BSON for a document that
//! JSON text cannot represent exactly; 3 is template rows in which arrays of doubles that are floats of 4 bytes may have so many of each (those of format 1
//! have all 8).
//!
//! `building` is present while an index is being built: the least row id that the build has not read yet. Such an index is
//! maintained by every write and used by no query. -1 says that it has read all rows, and waits for the other fields of its search
//! index ([`BUILT`]): they become ready together. While it is 0, a vector index may have a second table ([`new_index_table`]), which is
//! to take the place of the first when it is complete; a build that is resumed drops it.

use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawDocumentBuf, doc};

use treedb_query::access::{IndexInfo, IndexUse, PlanCache};
use treedb_query::doc::Collation;
use treedb_query::doc::collation::KEY_VERSION;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;
use treedb_query::index::ordered::{IndexDef, IndexOptions};
use treedb_query::index::vector::Element;
use treedb_query::query::definition_of;
use treedb_storage::{Reads, Table, WriteTxn};

use crate::catalog::namespace::Namespace;
use crate::catalog::special::{Special, capped_table};
use crate::catalog::validator::Validator;
use crate::index::Images;
use crate::write::row::Rows;

/// Version of a catalog entry whose indexes have no options.
const VERSION: i32 = 1;
/// Version of an entry whose indexes have options.
const VERSION_OPTIONS: i32 = 2;
/// Version of an entry with shortened keys.
const VERSION_SHORTENED: i32 = 4;
/// Version of an entry with an index that has a collation and names the version of its sort keys. Programs that only know
/// earlier versions of the entry only know [`FIRST_SORT_KEYS`].
const VERSION_SORT_KEYS: i32 = 5;
/// Version of an entry with a vector index.
const VERSION_VECTOR: i32 = 6;
/// Version of an entry with a vector index that has all vectors of a document.
const VERSION_SEVERAL: i32 = 7;
/// Version of the entry of a view, and of a collection of a special kind (`special`).
pub(crate) const VERSION_KINDS: i32 = 8;
/// Version of an entry with a vector index whose elements take less than 4 bytes.
const VERSION_ELEMENTS: i32 = 9;
/// Version of an entry with an index of locations.
const VERSION_GEO: i32 = 10;
/// Version of an entry with an index of which `background` was said.
const VERSION_BACKGROUND: i32 = 11;
/// Version of an entry with a vector index that has few bits for each element in memory.
const VERSION_FEW_BITS: i32 = 12;
/// Version of an entry with a vector index whose codes are about a centre.
const VERSION_CENTRED: i32 = 13;
/// Version of an entry with a vector index whose links are chosen beside its centre by distances, under inner product.
const VERSION_REACHING: i32 = 15;
/// Version of the scores of such links; 1 in entries of version 14.
pub(crate) const REACH_SCORES: i32 = 2;
/// Version of an entry with a search index that has several fields of vectors.
const VERSION_FIELDS: i32 = 16;
/// The row id up to which the build of a field of a search index has read when it waits for those of the others.
pub(crate) const BUILT: u64 = u64::MAX;
/// Version of the sort keys of an index that names none.
const FIRST_SORT_KEYS: i32 = 1;

/// A collection's catalog entry in a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    pub(crate) namespace: Namespace,
    pub(crate) id: i64,
    pub(crate) uuid: bson::Uuid,
    /// The options of `create` and `collMod`, such as `validator`.
    pub(crate) options: Document,
    pub(crate) validator: Option<Validator>,
    /// What the options make of it.
    pub(crate) special: Special,
    /// The default collation, from the options.
    pub(crate) collation: Collation,
    pub(crate) next_index: i64,
    /// The table of the rows.
    pub(crate) rows: Table,
    /// The format of the rows.
    pub(crate) row_format: Rows,
    /// All indexes, those being built last.
    pub(crate) indexes: Vec<IndexMeta>,
    /// The ready indexes for the planner: the first `infos.len()` of `indexes`.
    pub(crate) infos: Vec<IndexInfo>,
    /// Which of them served which queries.
    pub(crate) plans: Arc<PlanCache>,
    /// The images of the database's vector indexes.
    pub(crate) images: Arc<Images>,
}

/// One index of a collection.
#[derive(Debug, Clone)]
pub(crate) struct IndexMeta {
    pub(crate) id: i64,
    pub(crate) def: Definition,
    pub(crate) flags: IndexFlags,
    /// The least row id that the build has not read; `None` once the index is ready.
    pub(crate) building: Option<u64>,
    /// Version of its sort keys, if it has a collation.
    pub(crate) sort_keys: i32,
    /// Version of the scores of its links, if they are chosen by a reach.
    pub(crate) reach_scores: i32,
    /// The table of its entries.
    pub(crate) table: Table,
    /// How often it was used.
    pub(crate) uses: Arc<IndexUse>,
}

/// Properties that some entry of an index has, or had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexFlags {
    /// A row has several entries, or may have.
    pub(crate) multikey: bool,
    /// A key is shortened.
    pub(crate) shortened: bool,
    /// The codes of a vector index are about a centre, or may be.
    pub(crate) centred: bool,
    /// Its links are chosen by a reach, or may be.
    pub(crate) reaching: bool,
}

impl IndexFlags {
    /// The flags set in either.
    pub(crate) fn union(self, other: IndexFlags) -> IndexFlags {
        IndexFlags {
            multikey: self.multikey | other.multikey,
            shortened: self.shortened | other.shortened,
            centred: self.centred | other.centred,
            reaching: self.reaching | other.reaching,
        }
    }

    /// The union with `other`, if `other` has flags that are not set here.
    pub(crate) fn added_by(self, other: IndexFlags) -> Option<IndexFlags> {
        Some(self.union(other)).filter(|both| *both != self)
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

/// Name of the table that is to take the place of an index's table when it is complete.
pub(crate) fn new_index_table(id: i64, index: i64) -> String {
    format!("{}/new", index_table(id, index))
}

/// Drops the tables of an index.
pub(crate) fn drop_index_tables(txn: &mut WriteTxn, id: i64, index: i64) -> Result<()> {
    txn.drop_table(&index_table(id, index))?;
    txn.drop_table(&new_index_table(id, index))?;
    Ok(())
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
    /// The numbers of the tables of the vector indexes.
    pub(crate) fn vector_tables(&self) -> impl Iterator<Item = u32> {
        let indexes = self.indexes.iter().filter(|index| index.def.as_vector().is_some());
        indexes.map(|index| index.table.id())
    }

    /// The definitions of the ordered indexes of this name, to be changed: while one is rebuilt, the one that is used and the one that will replace it.
    pub(crate) fn ordered_named<'m>(&'m mut self, name: &'m str) -> impl Iterator<Item = &'m mut IndexDef> {
        self.indexes
            .iter_mut()
            .filter_map(|index| index.def.as_ordered_mut())
            .filter(move |def| def.name == name)
    }

    /// Sorts the indexes: the one on `_id` first, those being built last. Updates `infos` and clears the plan cache.
    pub(crate) fn sort_indexes(&mut self) {
        self.indexes.sort_by_key(|index| (index.building.is_some(), !index.def.is_id(), index.id));
        self.plans = Arc::default();
        self.infos = self
            .indexes
            .iter()
            .filter(|index| index.building.is_none())
            .map(|index| IndexInfo {
                uses: Arc::clone(&index.uses),
                ..IndexInfo::new(index.def.clone(), index.flags.multikey)
            })
            .collect();
    }

    /// Encodes the entry.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let indexes: Vec<Bson> =
            self.indexes.iter().map(|index| Ok(index.encode()?.into())).collect::<Result<_>>()?;
        let plain = IndexOptions::default();
        let shortened = self.indexes.iter().any(|index| index.flags.shortened);
        let sort_keys = self.indexes.iter().any(IndexMeta::has_sort_keys);
        let is_plain = |index: &IndexMeta| index.def.as_ordered().is_some_and(|def| def.options == plain);
        let vector = self.indexes.iter().any(|index| index.def.as_vector().is_some());
        let version = match self.indexes.iter().all(is_plain) {
            _ if self.indexes.iter().any(IndexMeta::has_other_fields) => VERSION_FIELDS,
            _ if self.indexes.iter().any(|index| index.flags.reaching) => VERSION_REACHING,
            _ if self.indexes.iter().any(|index| index.flags.centred) => VERSION_CENTRED,
            _ if self.indexes.iter().any(IndexMeta::has_few_bits) => VERSION_FEW_BITS,
            _ if self.indexes.iter().any(IndexMeta::has_background) => VERSION_BACKGROUND,
            _ if self.indexes.iter().any(IndexMeta::has_locations) => VERSION_GEO,
            _ if self.indexes.iter().any(IndexMeta::has_small_elements) => VERSION_ELEMENTS,
            _ if self.special.is_any() => VERSION_KINDS,
            _ if self.indexes.iter().any(IndexMeta::has_several) => VERSION_SEVERAL,
            _ if vector => VERSION_VECTOR,
            _ if sort_keys => VERSION_SORT_KEYS,
            _ if shortened => VERSION_SHORTENED,
            true => VERSION,
            false => VERSION_OPTIONS,
        };
        let mut entry = doc! {
            "v": version, "id": self.id, "uuid": self.uuid, "format": self.row_format.number(),
            "options": self.options.clone(), "next_index": self.next_index, "indexes": indexes,
        };
        if let Some(bytes) = self.row_format.shapes() {
            entry.insert("shapes", Binary { subtype: BinarySubtype::Generic, bytes });
        }
        Ok(entry.to_vec()?)
    }

    /// Decodes an entry and opens its tables in the snapshot that it was read from.
    pub(crate) fn decode(namespace: Namespace, bytes: &[u8], reads: &impl Reads) -> Result<Meta> {
        let damaged = |what: &str| {
            QueryError::new(
                ErrorCode::InternalError,
                format!(
                    "the catalog entry of {namespace} is damaged ({what}): restore the database from a backup"
                ),
            )
        };
        // Earlier versions of TreeDB accepted any name of a locale.
        let unsupported = |what: &str, error: &QueryError| {
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
        let row_format = match format
            .filter(|_| matches!(v, Some(VERSION..=VERSION_FIELDS)))
            .and_then(Rows::decoder)
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
                        unsupported(&format!("its index '{name}'"), &error)
                    }
                    _ => damaged("an index definition"),
                })?,
                flags: IndexFlags {
                    multikey: index.get_bool("multikey").map_err(|e| damaged(&e.to_string()))?,
                    shortened: index.get_bool("shortened").unwrap_or(false),
                    centred: index.get_bool("centred").unwrap_or(false),
                    reaching: index.contains_key("reaching"),
                },
                building: index.get_i64("building").ok().map(i64::cast_unsigned),
                sort_keys: index.get_i32("sort_keys").unwrap_or(FIRST_SORT_KEYS),
                reach_scores: match index.get("reaching") {
                    Some(version) => version.as_i32().unwrap_or(1),
                    None => REACH_SCORES,
                },
                table: table(index_table(id, index_id))?,
                uses: Arc::default(),
            });
        }
        let options = entry.get_document("options").cloned().unwrap_or_default();
        if options.contains_key("clusteredIndex") {
            let id = indexes.iter_mut().filter(|index: &&mut IndexMeta| index.def.is_id());
            id.filter_map(|index| index.def.as_ordered_mut()).for_each(|def| {
                def.options.expire_after = options.get_i64("expireAfterSeconds").ok();
            });
        }
        let collation = collation_of(&options).map_err(|error| unsupported("it", &error))?;
        let mut special = Special::of(&options)?;
        if let Some(capped) = &mut special.capped {
            // The rows of a dropped collection are kept without it.
            capped.table = reads.table(&capped_table(id))?;
        }
        let mut meta = Meta {
            id,
            uuid,
            special,
            validator: Validator::from_options(&namespace, &options, &collation)?,
            collation,
            options,
            next_index: entry.get_i64("next_index").map_err(|e| damaged(&e.to_string()))?,
            rows: table(rows_table(id))?,
            row_format,
            indexes,
            infos: Vec::new(),
            plans: Arc::default(),
            images: Arc::default(),
            namespace,
        };
        meta.sort_indexes();
        Ok(meta)
    }

    /// The indexes that are shown: not those that are built to take the place of one of their name.
    pub(crate) fn shown_indexes(&self) -> impl Iterator<Item = &IndexMeta> {
        self.indexes.iter().filter(|index| {
            let takes_its_place =
                |other: &IndexMeta| other.building.is_none() && other.def.name() == index.def.name();
            index.building.is_none() || !self.indexes.iter().any(takes_its_place)
        })
    }

    /// What `listIndexes` shows of each ready index. Search indexes have a list of their own, as in MongoDB
    /// ([`super::search_index`]).
    pub(crate) fn list_indexes(&self) -> Result<Vec<Document>> {
        let shown = |index: &&IndexMeta| index.building.is_none() && index.def.as_vector().is_none();
        let ready = self.indexes.iter().filter(shown);
        let listed = ready.map(|index| {
            let mut spec = Document::try_from(index.def.spec())?;
            if self.special.clustered && index.def.is_id() {
                spec.insert("unique", true);
                spec.insert("clustered", true);
                spec.remove("expireAfterSeconds");
                if let Ok(named) =
                    self.options.get_document("clusteredIndex").and_then(|index| index.get_str("name"))
                {
                    spec.insert("name", named);
                }
            }
            Ok(spec)
        });
        listed.collect()
    }
}

impl IndexMeta {
    fn encode(&self) -> Result<Document> {
        let mut entry = doc! { "id": self.id };
        entry.extend(Document::try_from(self.def.spec())?);
        entry.remove("v");
        if let Some(def) = self.def.as_vector().filter(|_| self.has_other_fields()) {
            entry.insert("path", def.path.as_str());
        }
        if self.def.is_id() {
            // It is an option of the collection.
            entry.remove("expireAfterSeconds");
        }
        entry.insert("unique", self.def.as_ordered().is_some_and(|def| def.unique));
        entry.insert("multikey", self.flags.multikey);
        if self.flags.shortened {
            entry.insert("shortened", true);
        }
        if self.flags.centred {
            entry.insert("centred", true);
        }
        if self.flags.reaching {
            entry.insert("reaching", self.reach_scores);
        }
        if self.has_several() {
            entry.insert("several", true);
        }
        if let Some(next) = self.building {
            entry.insert("building", next.cast_signed());
        }
        if self.has_sort_keys() {
            entry.insert("sort_keys", self.sort_keys);
        }
        Ok(entry)
    }

    /// True for a field of the search index of this name.
    pub(crate) fn is_of_search_index(&self, name: &str) -> bool {
        self.def.as_vector().is_some_and(|def| def.name == name)
    }

    /// True for a vector index that has documents with several vectors.
    fn has_several(&self) -> bool {
        self.def.as_vector().is_some_and(|def| !def.one_vector)
    }

    /// True for one of several fields of a search index.
    fn has_other_fields(&self) -> bool {
        self.def.as_vector().is_some_and(|def| !def.others.is_empty())
    }

    /// True for a vector index whose elements take less than 4 bytes.
    fn has_small_elements(&self) -> bool {
        self.def.as_vector().is_some_and(|def| def.elements != Element::Float32)
    }

    /// True for a vector index that has few bits for each element in memory.
    fn has_few_bits(&self) -> bool {
        self.def.as_vector().is_some_and(|def| def.quantization.few_bits().is_some())
    }

    /// True for a `2dsphere` or `2d` index.
    fn has_locations(&self) -> bool {
        self.def.as_ordered().is_some_and(|def| def.locations().next().is_some())
    }

    /// True if its specification said something of `background`.
    fn has_background(&self) -> bool {
        self.def.as_ordered().is_some_and(|def| def.options.background.is_some())
    }

    fn has_sort_keys(&self) -> bool {
        self.def.as_ordered().is_some_and(|def| !def.options.collation.is_simple())
    }

    /// True if its keys were made by another version of the collations, so that this version's look-ups would miss them, or its links have
    /// scores that this version does not compare with its own.
    pub(crate) fn is_outdated(&self) -> bool {
        let has_other_scores = self.flags.reaching && self.reach_scores != REACH_SCORES;
        self.has_sort_keys() && self.sort_keys != KEY_VERSION || has_other_scores
    }
}

/// Decodes the definition of an index in a catalog entry.
fn decode_def(index: &Document) -> Result<Definition> {
    let mut def = definition_of(&RawDocumentBuf::try_from(index)?)?;
    if let Some(def) = def.as_vector_mut() {
        def.one_vector = !index.get_bool("several").unwrap_or(false);
    }
    Ok(def)
}
