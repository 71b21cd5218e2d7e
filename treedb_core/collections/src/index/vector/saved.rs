//! Images in files: what the last searches had is there for the first ones after an opening.
//!
//! An image is saved as what the newest durable checkpoint has of its index, when a database is closed or is told to save it
//! ([`Database::save_vector_images`](crate::Database::save_vector_images)). The file ([`DerivedFiles`]) is derived data, which may be missing, damaged, or of
//! anything: it counts if there is a *record* of it in the database, committed after the file was durable. Read again, it is an image like any other, which is
//! brought up to date from what was changed since (see [`super::follow`]). That it is never of another state than it says rests on two things:
//!
//! * A file has a random mark, which nothing but its record has. So each state of a database that has the record comes after the
//!   checkpoint that the file is of: not one that goes on from before it (a crash lost the rest, an older copy of the directory took its
//!   place), nor another database. A backup gives pages other numbers, so it has no records ([`LOCAL_TABLES`]).
//! * In each such state, what was changed after the checkpoint is on pages of later transactions. The record itself was committed after it. A
//!   recovery applies what followed a checkpoint as one transaction, whose number is the next one; if the meta page of the newest checkpoint is damaged, and it
//!   begins with the one before, then a number beyond all that the newest one may have had (`kv/recover.rs` in `treedb_storage`). Every opening of the store does so, also without the collections.
//!   Should a disk have lost that meta page in a way that does not show, the record's own page is of no later transaction than the checkpoint, which
//!   it is in every other state: such a record does not count, and is removed by the opening.
//!
//! # Bytes
//!
//! The table `treedb.local/vector images` has the records. A key is the number of an index's table, 4 bytes, big-endian; its value:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 16 | the mark |
//! | 16 | 8 | the last transaction in the checkpoint, little-endian |
//!
//! The file of an index is `derived/vector-N`, with the number of its table. Its identity is the record, the number, 4 bytes, little-endian, 4
//! zeros, and the SHA-256 of the definition as the version of TreeDB that wrote it shows it. Its content is the graph
//! ([`treedb_vector::memory::GraphReader`]), then the number of each of its nodes in the index's table, 8 bytes, 0 of a free one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Mutex;

use sha2::{Digest, Sha256};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{
    DerivedFiles, DerivedReader, Durability, Identity, LOCAL_TABLES, Reads, Store, Table, TableKind,
};
use treedb_vector::memory::GraphReader;

use super::follow::{Follower, MAP_ENTRY};
use super::graph::empty_image;
use super::image::{Contents, lock};
use super::record::{position_of, row_of};

/// Changed with the bytes of the content.
const FORMAT: u32 = 3;

/// Bytes that one search reads at most: some ten milliseconds.
#[cfg(not(test))]
const STEP_BYTES: usize = 64 << 20;
/// Small in tests, so that writes come between the parts.
#[cfg(test)]
const STEP_BYTES: usize = 64 << 10;
/// What it takes to list a node, as bytes that are read.
const NODE_BYTES: usize = 128;

/// The name of the records' table.
fn table_name() -> String {
    format!("{LOCAL_TABLES}vector images")
}

/// The word in the names of files.
const FILE: &str = "vector";

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    mark: [u8; 16],
    /// The last transaction in the checkpoint that it is of.
    since: u64,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        [&self.mark[..], &self.since.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Record> {
        let (mark, since) = bytes.split_first_chunk()?;
        Some(Record { mark: *mark, since: u64::from_le_bytes(since.try_into().ok()?) })
    }

    fn identity(&self, table: &Table, def: &VectorDef) -> Identity {
        let definition = Sha256::digest(format!("{FORMAT} {def:?}"));
        let parts = [&*self.encode(), &table.id().to_le_bytes(), &[0; 4], &definition].concat();
        let mut identity = [0; size_of::<Identity>()];
        identity.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        identity
    }
}

/// The saved images of a database.
#[derive(Debug)]
pub(super) struct SavedImages {
    files: DerivedFiles,
    /// By the numbers of the indexes' tables: those that count, which the database has, or is about to have.
    records: Mutex<HashMap<u32, Record>>,
    /// Held by who writes files: two would use the same names.
    pub(super) saving: Mutex<()>,
}

impl SavedImages {
    /// Those of a database that was just opened; `None` if it cannot have any. Removes other files and records.
    pub(super) fn open(store: &Store) -> Option<SavedImages> {
        let Some(files) = store.derived_files() else {
            store.remove_derived_files(is_ours);
            return None;
        };
        // Nothing of this is needed: a check of the database tells what is damaged, and what was not removed does not count the next time either.
        let (records, others) = sound_records(store).unwrap_or_default();
        let saved = SavedImages { files, records: Mutex::new(records), saving: Mutex::default() };
        let known: HashSet<String> = lock(&saved.records).keys().map(|table| file_of(*table)).collect();
        saved.files.remove_those(|name| is_ours(name) && !known.contains(name));
        if others && let Err(error) = saved.write_records(store, Durability::None) {
            tracing::warn!(%error, "records of saved images of vector indexes that do not count are not removed");
        }
        Some(saved)
    }

    fn record(&self, table: &Table) -> Option<Record> {
        lock(&self.records).get(&table.id()).copied()
    }

    /// The last transaction in the checkpoint that the index's file is of, if it has one.
    pub(super) fn saved(&self, table: &Table) -> Option<u64> {
        self.record(table).map(|record| record.since)
    }

    /// Whether the index has a file, with what was committed up to this transaction.
    pub(super) fn is_saved(&self, table: &Table, def: &VectorDef, up_to: u64) -> bool {
        let record = self.record(table).filter(|record| record.since >= up_to);
        record.is_some_and(|record| self.open_file(table, def, &record).is_some())
    }

    fn open_file(&self, table: &Table, def: &VectorDef, record: &Record) -> Option<DerivedReader> {
        self.files.open(&file_of(table.id()), &record.identity(table, def)).ok().flatten()
    }

    /// Begins to read the image of an index, if there is one.
    pub(super) fn begin(&self, table: &Table, def: &VectorDef) -> Option<Box<Loading>> {
        let record = self.record(table)?;
        let input = self.open_file(table, def, &record);
        let begun = input.and_then(|input| Loading::begin(input, def, record.since).ok());
        if begun.is_none() {
            self.forget(table);
        }
        begun.map(Box::new)
    }

    /// Does not read the file of an index any more. That is for searches, which change nothing on the disk: under the server's lock for copying
    /// files nothing may change there. The next saving writes another file in its place, or removes it.
    pub(super) fn forget(&self, table: &Table) {
        lock(&self.records).remove(&table.id());
    }

    /// Removes the file of an index that was dropped.
    pub(super) fn remove(&self, table: u32) {
        lock(&self.records).remove(&table);
        // Otherwise the next opening does.
        let _ = self.files.remove(&file_of(table));
    }

    /// Removes the file and the record of an index that is to have none.
    pub(super) fn discard(&self, store: &Store, table: &Table) -> Result<()> {
        let had_one = self.record(table).is_some();
        self.remove(table.id());
        if had_one { self.write_records(store, Durability::None) } else { Ok(()) }
    }

    /// Saves an image that is of the checkpoint whose last transaction is `since`. From then on it counts, whatever happens to this process.
    ///
    /// # Errors
    /// Those of the disk and of the store. If the disk is full, there are no files any more. `OutOfDiskSpace` also if there would not be as much
    /// room left as the file takes: then this index has none.
    pub(super) fn write(
        &self,
        store: &Store,
        (table, def): (&Table, &VectorDef),
        since: u64,
        contents: &Contents,
    ) -> Result<()> {
        self.forget(table);
        // As much is to be left as it takes.
        let has_room = || self.files.may_grow_by(contents.bytes().saturating_mul(2));
        if !has_room() {
            self.remove(table.id());
            if !has_room() {
                return Err(QueryError::new(
                    ErrorCode::OutOfDiskSpace,
                    format!(
                        "too little room for a file of about {} bytes and as much besides",
                        contents.bytes()
                    ),
                ));
            }
        }
        let written = self.try_write(store, (table, def), since, contents);
        if let Err(error) = &written {
            self.forget(table);
            if error.code == ErrorCode::OutOfDiskSpace {
                lock(&self.records).clear();
                self.files.remove_those(is_ours);
            }
        }
        written
    }

    fn try_write(
        &self,
        store: &Store,
        (table, def): (&Table, &VectorDef),
        since: u64,
        contents: &Contents,
    ) -> Result<()> {
        let record = Record { mark: bson::Uuid::new().bytes(), since };
        self.files.write(&file_of(table.id()), &record.identity(table, def), |out| contents.write_to(out))?;
        lock(&self.records).insert(table.id(), record);
        self.write_records(store, Durability::Durable)
    }

    /// Stores the records that count, and no others. One that does not count does no harm, so that it need not be durable that it is gone.
    fn write_records(&self, store: &Store, durability: Durability) -> Result<()> {
        let mut txn = store.begin_write()?;
        let all: HashSet<u32> = txn.tables()?.iter().map(Table::id).collect();
        let table = txn.open_local_table(&table_name(), TableKind::Ordered)?;
        let mut records: BTreeMap<Vec<u8>, Vec<u8>> = lock(&self.records)
            .iter()
            .filter(|(number, _)| all.contains(number))
            .map(|(number, record)| (number.to_be_bytes().to_vec(), record.encode()))
            .collect();
        let mut others = Vec::new();
        for entry in txn.prefix(&table, b"")? {
            let (key, value) = entry?;
            if records.get(&key).is_some_and(|record| record == value) {
                records.remove(&key);
            } else {
                others.push(key);
            }
        }
        for key in others {
            txn.delete(&table, &key)?;
        }
        for (key, record) in records {
            txn.put(&table, &key, &record)?;
        }
        Ok(txn.commit_with(durability)?)
    }
}

/// The name of an index's file.
fn file_of(table: u32) -> String {
    format!("{FILE}-{table}")
}

/// Whether a file has such a name, or one that it has until it is complete.
fn is_ours(name: &str) -> bool {
    DerivedFiles::number_of(name, FILE).is_some()
}

/// The records that count, and whether there are others.
fn sound_records(store: &Store) -> Result<(HashMap<u32, Record>, bool)> {
    let reads = store.begin_read()?;
    let Some(table) = reads.table(&table_name())? else { return Ok(Default::default()) };
    let changed = reads.version(&table)?.map_or(0, |version| version.changed());
    let indexes: HashSet<u32> = reads.tables()?.iter().map(Table::id).collect();
    let (mut found, mut others) = (HashMap::new(), false);
    for entry in reads.prefix(&table, b"")? {
        let (key, value) = entry?;
        let number = <[u8; 4]>::try_from(key).ok().map(u32::from_be_bytes);
        let record = Record::decode(value).filter(|record| record.since < changed);
        match number.filter(|number| indexes.contains(number)).zip(record) {
            Some((number, record)) => drop(found.insert(number, record)),
            None => others = true,
        }
    }
    Ok((found, others))
}

/// The error of a file whose content is no image.
fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Contents {
    fn write_to(&self, out: &mut impl io::Write) -> io::Result<()> {
        self.graph.write_to(out)?;
        self.numbers.write_to(out)
    }
}

/// An image that is being read.
#[derive(Debug)]
pub(super) struct Loading {
    input: DerivedReader,
    since: u64,
    /// Until all of the graph was read.
    graph: Option<GraphReader>,
    contents: Contents,
    nodes: usize,
    /// Nodes that are listed.
    listed: u32,
    by_number: BTreeMap<u64, u32>,
}

/// How far it is.
pub(super) enum Loaded {
    Partly(Box<Loading>),
    Whole(Box<(Contents, Follower)>),
}

impl Loading {
    fn begin(mut input: DerivedReader, def: &VectorDef, since: u64) -> io::Result<Loading> {
        let graph = GraphReader::begin(empty_image(def), &mut input)?;
        let (nodes, contents) = (graph.nodes(), Contents::new(def));
        // Nothing is made for nodes that the file has no bytes of.
        if (nodes as u64).saturating_mul(size_of::<u64>() as u64) > input.left() {
            return Err(invalid());
        }
        let (listed, by_number) = (0, BTreeMap::new());
        Ok(Loading { input, since, graph: Some(graph), contents, nodes, listed, by_number })
    }

    /// The last transaction in it.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// How many nodes it has, with free ones.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let graph = self.graph.as_ref().map_or(0, GraphReader::bytes);
        self.contents.bytes() + (graph + MAP_ENTRY * self.by_number.len()) as u64
    }

    /// Reads more of it. All rows of the collection are below `rows_end`.
    ///
    /// # Errors
    /// It is damaged, or no image.
    pub(super) fn advance(mut self: Box<Self>, rows_end: u64) -> io::Result<Loaded> {
        let mut most = STEP_BYTES;
        if let Some(mut graph) = self.graph.take() {
            if !graph.read_some(&mut self.input, &mut most)? {
                self.graph = Some(graph);
                return Ok(Loaded::Partly(self));
            }
            self.contents.graph = graph.finish(&mut self.input)?;
        }
        if !self.contents.numbers.read_some(&mut self.input, self.nodes, &mut most)? {
            return Ok(Loaded::Partly(self));
        }
        while (self.listed as usize) < self.nodes {
            if most == 0 {
                return Ok(Loaded::Partly(self));
            }
            most = most.saturating_sub(NODE_BYTES);
            self.list(rows_end)?;
        }
        let Loading { input, since, contents, by_number, .. } = *self;
        let free = contents.graph.free_nodes();
        // Each node that is not free has a number of its own.
        let is_whole = by_number.len() == contents.graph.len()
            && input.left() == 0
            && free.iter().all(|node| contents.number(*node) == 0);
        let follower = Follower::of_saved(by_number, since);
        is_whole.then(|| Loaded::Whole(Box::new((contents, follower)))).ok_or_else(invalid)
    }

    /// Lists the next node by its number and by its row.
    fn list(&mut self, rows_end: u64) -> io::Result<()> {
        let (node, contents) = (self.listed, &mut self.contents);
        self.listed += 1;
        let number = contents.number(node);
        if number == 0 {
            return Ok(());
        }
        let (row, position) = (row_of(number), position_of(number));
        // The memory of rows is proportional to the greatest.
        if row >= rows_end
            || position >= Vectors::MOST as u64
            || self.by_number.insert(number, node).is_some()
        {
            return Err(invalid());
        }
        contents.set_node(row, position, Some(node));
        Ok(())
    }
}
