//! Tests of collections: power loss, damaged files, and comparisons with collections without indexes.

mod aggregate;
mod alike_vectors;
mod builds;
mod check;
mod collation;
mod crash;
mod damage;
mod format;
mod geo;
mod growing_alike;
mod intents;
mod kinds;
mod long_keys;
mod lookups;
mod pipelines;
mod planner;
mod point_lookup;
mod projections;

mod rebuilds;
pub(crate) mod saved_images;
mod several_fields;
mod several_vectors;
mod special;
mod top_k;
mod transactions;
mod twins;
mod vector_images;
mod vector_metrics;
mod vector_pipelines;
mod vector_recall;
mod vectors;
mod write_batch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::{Document, RawDocumentBuf};

use super::{Database, FindRequest};
use treedb_query::error::Result;
use treedb_storage::Options;
use treedb_storage::disk::SimDisk;

/// Small files and no background thread, so that runs are deterministic.
fn options(disk: &SimDisk) -> Options {
    let mut options = Options::default();
    options.disk = Arc::new(disk.clone());
    options.background = false;
    options.max_bytes = 16 << 20;
    options.growth = 16;
    options.log_segment_bytes = 16 << 10;
    options.value_segment_bytes = 64 << 10;
    options
}

pub(super) fn open(disk: &SimDisk) -> Result<Database> {
    Database::open_with("/data/documents", options(disk))
}

pub(super) fn raw(doc: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(doc).unwrap()
}

/// The contents of a collection: documents by `_id`, the names of its indexes, and the most links of a node of those that are of vectors.
#[derive(Debug, Clone, Default, PartialEq)]
struct Contents {
    docs: BTreeMap<i32, Document>,
    indexes: BTreeSet<String>,
    links: BTreeMap<String, i32>,
}

impl Contents {
    fn fresh() -> Self {
        Contents { indexes: ["_id_".to_owned()].into(), ..Contents::default() }
    }
}

/// The `maxEdges` of the definition of a search index.
fn links_of(spec: &RawDocumentBuf) -> i32 {
    let spec = Document::try_from(spec).unwrap();
    let fields = spec.get_document("definition").unwrap().get_array("fields").unwrap();
    let options = fields[0].as_document().unwrap().get_document("hnswOptions").unwrap();
    options.get_i32("maxEdges").unwrap()
}

/// Every collection of a database by name.
type State = BTreeMap<String, Contents>;

/// Reads everything.
fn dump(db: &Database) -> Result<State> {
    let mut state = State::new();
    for database in db.list_databases()? {
        for info in db.list_collections(&database)? {
            let collection = db.collection(info.namespace.as_str())?;
            let mut contents = Contents::default();
            for doc in collection.find(FindRequest::default())? {
                let doc = Document::try_from(&*doc?)?;
                let id = doc.get_i32("_id").unwrap();
                assert!(contents.docs.insert(id, doc).is_none(), "_id {id} exists twice");
            }
            let search = collection.search_indexes()?.unwrap_or_default();
            let search = search.into_iter().filter(|index| index.ready);
            for index in search {
                contents.links.insert(index.name.clone(), links_of(&index.spec));
                contents.indexes.insert(index.name);
            }
            for index in collection.indexes()?.unwrap_or_default() {
                contents.indexes.insert(index.get_str("name").unwrap().to_owned());
            }
            state.insert(info.namespace.to_string(), contents);
        }
    }
    Ok(state)
}
