//! The catalog's table, and a cache of its entries that all threads share.
//!
//! The table `catalog` maps a namespace to its entry ([`crate::catalog::meta`]). The empty key holds two counters, the
//! generation and the next collection id, 8 bytes each, little endian. Every change of an entry increments the generation,
//! so that a snapshot's generation tells which cached entries are valid for it: an operation costs one look-up of the empty
//! key instead of decoding its collection's entry.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bson::Document;

use treedb_query::access::IndexUse;
use treedb_query::doc::collation::KEY_VERSION;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;
use treedb_query::index::ordered::IndexDef;
use treedb_storage::{Reads, Table, TableKind, WriteTxn};

use crate::catalog::meta::{
    IndexFlags, IndexMeta, Meta, REACH_SCORES, drop_index_tables, index_table, rows_table,
};
use crate::catalog::namespace::Namespace;
use crate::catalog::options::complete;
use crate::catalog::special::{capped_table, create_capped_table};
use crate::catalog::validator::Validator;
use crate::catalog::view_def::{ViewDef, is_view, not_a_collection};
use crate::index::Images;
use crate::write::row::Format;

/// Name of the table.
const TABLE: &str = "catalog";

/// The counters under the empty key.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    generation: u64,
    next_collection: i64,
}

impl Counters {
    fn decode(bytes: Option<&[u8]>) -> Self {
        let word = |from: usize| -> Option<[u8; 8]> { bytes?.get(from..from + 8)?.try_into().ok() };
        Counters {
            generation: word(0).map(u64::from_le_bytes).unwrap_or(0),
            next_collection: word(8).map(i64::from_le_bytes).unwrap_or(1),
        }
    }

    fn encode(self) -> Vec<u8> {
        [self.generation.to_le_bytes(), self.next_collection.to_le_bytes()].concat()
    }
}

/// Reads and writes the catalog's table.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// Unique in this process.
    id: u64,
    table: Table,
    cache: Mutex<Cache>,
    images: Arc<Images>,
    /// How often each index was used, by the number of its table: entries are decoded again whenever the catalog changes.
    uses: Mutex<HashMap<u32, Arc<IndexUse>>>,
}

/// Entries of one generation.
#[derive(Debug, Default)]
struct Cache {
    generation: u64,
    entries: HashMap<Namespace, Arc<Meta>>,
}

impl Catalog {
    /// Opens the catalog in `txn`, creating it in a new database.
    pub(crate) fn open(txn: &mut WriteTxn) -> Result<Self> {
        let table = match txn.table(TABLE)? {
            Some(table) => table,
            None => {
                let table = txn.create_table(TABLE, TableKind::Ordered)?;
                txn.put(&table, b"", &Counters { generation: 0, next_collection: 1 }.encode())?;
                table
            }
        };
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(Catalog {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            table,
            cache: Mutex::default(),
            images: Arc::default(),
            uses: Mutex::default(),
        })
    }

    /// The images of the vector indexes.
    pub(crate) fn images(&self) -> &Images {
        &self.images
    }

    /// The catalog's id, unique in this process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of changes of entries up to this snapshot.
    pub(crate) fn generation(&self, reads: &impl Reads) -> Result<u64> {
        Ok(Counters::decode(reads.get(&self.table, b"")?).generation)
    }

    /// The collection of this name in a snapshot, or in a write transaction that has not changed the catalog: the entry is
    /// cached for all threads, so it must be committed.
    pub(crate) fn find(&self, reads: &impl Reads, namespace: &Namespace) -> Result<Option<Arc<Meta>>> {
        let generation = self.generation(reads)?;
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if cache.generation == generation
                && let Some(meta) = cache.entries.get(namespace)
            {
                return Ok(Some(meta.clone()));
            }
        }
        let Some(meta) = self.read(reads, namespace)? else { return Ok(None) };
        let meta = Arc::new(meta);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.generation < generation {
            *cache = Cache { generation, entries: HashMap::new() };
        }
        if cache.generation == generation {
            cache.entries.insert(namespace.clone(), meta.clone());
        }
        Ok(Some(meta))
    }

    /// The collection of this name in a transaction, with its own changes.
    pub(crate) fn read(&self, reads: &impl Reads, namespace: &Namespace) -> Result<Option<Meta>> {
        match reads.get(&self.table, namespace.as_str().as_bytes())? {
            Some(bytes) if is_view(bytes) => Err(not_a_collection(namespace)),
            Some(bytes) => {
                let mut meta = Meta::decode(namespace.clone(), bytes, reads)?;
                meta.images = self.images.clone();
                let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
                for index in &mut meta.indexes {
                    index.uses = Arc::clone(uses.entry(index.table.id()).or_default());
                }
                drop(uses);
                meta.sort_indexes();
                Ok(Some(meta))
            }
            None => Ok(None),
        }
    }

    /// The view of this name; `None` if there is none, or if it is the name of a collection.
    pub(crate) fn view(&self, reads: &impl Reads, namespace: &Namespace) -> Result<Option<ViewDef>> {
        match reads.get(&self.table, namespace.as_str().as_bytes())? {
            Some(bytes) if is_view(bytes) => ViewDef::decode(namespace, bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// All collections whose names start with `prefix`, in order.
    pub(crate) fn list(&self, reads: &impl Reads, prefix: &str) -> Result<Vec<Namespace>> {
        let mut all = self.list_with_views(reads, prefix)?;
        all.retain(|(_, is_view)| !is_view);
        Ok(all.into_iter().map(|(name, _)| name).collect())
    }

    /// All collections and views whose names start with `prefix`, in order; with each whether it is a view.
    pub(crate) fn list_with_views(&self, reads: &impl Reads, prefix: &str) -> Result<Vec<(Namespace, bool)>> {
        let mut found = Vec::new();
        for entry in reads.range(&self.table, (Bound::Included(prefix.as_bytes()), Bound::Unbounded))? {
            let (key, value) = entry?;
            if !key.starts_with(prefix.as_bytes()) {
                break;
            }
            if let Ok(name) = std::str::from_utf8(&key)
                && !name.is_empty()
            {
                found.push((Namespace::parse(name)?, is_view(value)));
            }
        }
        Ok(found)
    }

    /// Stores a view.
    pub(crate) fn write_view(&self, txn: &mut WriteTxn, view: &ViewDef) -> Result<()> {
        txn.put(&self.table, view.namespace.as_str().as_bytes(), &view.encode()?)?;
        self.next_generation(txn)
    }

    /// Drops a view. False if there is none of that name.
    pub(crate) fn drop_view(&self, txn: &mut WriteTxn, namespace: &Namespace) -> Result<bool> {
        if self.view(txn, namespace)?.is_none() {
            return Ok(false);
        }
        txn.delete(&self.table, namespace.as_str().as_bytes())?;
        self.next_generation(txn)?;
        Ok(true)
    }

    /// `NamespaceExists` if there is a collection or view of this name; `DatabaseDifferCase` if it would be the first of a database whose name
    /// differs only in case from that of another.
    pub(crate) fn check_free(&self, reads: &impl Reads, namespace: &Namespace) -> Result<()> {
        namespace.check_not_oplog()?;
        if reads.get(&self.table, namespace.as_str().as_bytes())?.is_some() {
            return Err(QueryError::new(
                ErrorCode::NamespaceExists,
                format!("Collection {namespace} already exists."),
            ));
        }
        let database = namespace.database();
        let prefix = format!("{database}.");
        let mut own = reads.range(&self.table, (Bound::Included(prefix.as_bytes()), Bound::Unbounded))?;
        if own.next().transpose()?.is_some_and(|(key, _)| key.starts_with(prefix.as_bytes())) {
            return Ok(());
        }
        drop(own);
        let all = self.list_with_views(reads, "")?;
        match all.iter().find(|(other, _)| other.database().eq_ignore_ascii_case(database)) {
            None => Ok(()),
            Some((other, _)) => Err(QueryError::new(
                ErrorCode::DatabaseDifferCase,
                format!(
                    "db already exists with different case already have: [{}] trying to create [{database}]",
                    other.database()
                ),
            )),
        }
    }

    /// Creates a collection with its index on `_id`; `NamespaceExists` if there is one.
    pub(crate) fn create(
        &self,
        txn: &mut WriteTxn,
        namespace: &Namespace,
        mut options: Document,
    ) -> Result<Meta> {
        self.check_free(txn, namespace)?;
        let mut counters = Counters::decode(txn.get(&self.table, b"")?);
        let id = counters.next_collection;
        counters.next_collection += 1;
        txn.put(&self.table, b"", &counters.encode())?;
        let (collation, mut special) = complete(&mut options)?;
        let mut def = IndexDef::id();
        def.options.collation = collation.clone();
        let expire_after = options.get_i64("expireAfterSeconds").ok();
        if special.clustered {
            def.options.expire_after = expire_after;
        }
        if let Some(capped) = &mut special.capped {
            capped.table = Some(create_capped_table(txn, id)?);
        }
        let rows = txn.create_table(&rows_table(id), TableKind::Rows)?;
        let table = txn.create_table(&index_table(id, 0), TableKind::Ordered)?;
        let mut meta = Meta {
            namespace: namespace.clone(),
            id,
            uuid: bson::Uuid::new(),
            validator: Validator::from_options(namespace, &options, &collation)?,
            special,
            collation,
            row_format: Format::from_options(&options)?.rows(),
            options,
            next_index: 1,
            rows,
            indexes: vec![IndexMeta {
                id: 0,
                def: Definition::Ordered(def),
                flags: IndexFlags::default(),
                building: None,
                sort_keys: KEY_VERSION,
                reach_scores: REACH_SCORES,
                table,
                uses: Arc::default(),
            }],
            infos: Vec::new(),
            plans: Arc::default(),
            images: self.images.clone(),
        };
        meta.sort_indexes();
        self.write(txn, &meta)?;
        Ok(meta)
    }

    /// Stores a changed entry.
    pub(crate) fn write(&self, txn: &mut WriteTxn, meta: &Meta) -> Result<()> {
        txn.put(&self.table, meta.namespace.as_str().as_bytes(), &meta.encode()?)?;
        self.next_generation(txn)
    }

    /// Drops a collection and its indexes and returns its entry; `None` if there is none of that name. The table of
    /// its rows is left to the caller.
    pub(crate) fn drop_collection(&self, txn: &mut WriteTxn, namespace: &Namespace) -> Result<Option<Meta>> {
        let Some(meta) = self.read(txn, namespace)? else { return Ok(None) };
        for index in &meta.indexes {
            drop_index_tables(txn, meta.id, index.id)?;
            self.uses.lock().unwrap_or_else(PoisonError::into_inner).remove(&index.table.id());
        }
        txn.drop_table(&capped_table(meta.id))?;
        txn.delete(&self.table, namespace.as_str().as_bytes())?;
        self.next_generation(txn)?;
        Ok(Some(meta))
    }

    /// Gives a collection another name, which no collection has.
    pub(crate) fn rename(&self, txn: &mut WriteTxn, meta: &Meta, to: &Namespace) -> Result<()> {
        txn.delete(&self.table, meta.namespace.as_str().as_bytes())?;
        self.write(txn, &Meta { namespace: to.clone(), ..meta.clone() })
    }

    fn next_generation(&self, txn: &mut WriteTxn) -> Result<()> {
        let mut counters = Counters::decode(txn.get(&self.table, b"")?);
        counters.generation += 1;
        Ok(txn.put(&self.table, b"", &counters.encode())?)
    }
}
