//! Images in files: what the last searches had is there for the first ones after an opening.
//!
//! An image is saved as what the newest durable checkpoint has of its index, when a database is closed or makes a checkpoint because it was
//! told to. The file ([`DerivedFiles`]) is derived data, which may be missing, damaged, or of anything: it counts if there is a
//! *record* of it in the database, committed after the file was written. Read again, it is an image like any other, which is brought up to
//! date from what was changed since (see [`super::follow`]). That it is never of another state than it says rests on two things:
//!
//! * A file has a random mark, which nothing but its record has. So each state of a database that has the record comes after the
//!   checkpoint that the file is of: not one that goes on from before it (a crash lost the rest, an older copy of the directory took its
//!   place), nor another database. A backup gives pages other numbers, so it has no records ([`LOCAL_TABLES`]).
//! * Pages that were changed after a checkpoint have a later transaction than it, also after recovery, which replays all that followed a checkpoint
//!   as one transaction. A database that recovered from the checkpoint before, because the newest is damaged, is not
//!   beyond the newest one's transaction when it has been opened, which every other one with the record is: it takes none.
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
use treedb_query::error::Result;
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{
    DerivedFiles, DerivedReader, Durability, Identity, LOCAL_TABLES, Reads, Store, Table, TableKind, WriteTxn,
};
use treedb_vector::memory::GraphReader;

use super::follow::{Follower, MAP_ENTRY};
use super::graph::empty_image;
use super::image::{Contents, lock};
use super::record::{position_of, row_of};

/// Changed with the bytes of the content.
const FORMAT: u32 = 1;

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

/// What the names of files begin with.
const FILE: &str = "vector-";

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
    /// By the numbers of the indexes' tables.
    records: Mutex<HashMap<u32, Record>>,
}

impl SavedImages {
    /// Those of a database that was just opened, at transaction `opened`. Removes other files.
    pub(super) fn open(reads: &impl Reads, files: DerivedFiles, opened: u64) -> SavedImages {
        // Nothing of this is needed: a check of the database tells what is damaged.
        let mut records = records(reads).unwrap_or_default();
        records.retain(|_, record| record.since < opened);
        let known: HashSet<String> = records.keys().map(|table| file_of(*table)).collect();
        for name in files.names().unwrap_or_default() {
            if name.starts_with(FILE) && !known.contains(&name) {
                let _ = files.remove(&name);
            }
        }
        SavedImages { files, records: Mutex::new(records) }
    }

    fn record(&self, table: &Table) -> Option<Record> {
        lock(&self.records).get(&table.id()).copied()
    }

    /// The last transaction in the checkpoint that the index's file is of, if it has one.
    pub(super) fn saved(&self, table: &Table) -> Option<u64> {
        self.record(table).map(|record| record.since)
    }

    /// Begins to read the image of an index, if there is one.
    pub(super) fn begin(&self, table: &Table, def: &VectorDef) -> Option<Loading> {
        let record = self.record(table)?;
        let begun = self.files.open(&file_of(table.id()), &record.identity(table, def));
        let begun = begun.ok().flatten().and_then(|input| Loading::begin(input, def, record.since).ok());
        if begun.is_none() {
            self.forget(table);
        }
        begun
    }

    /// Does not read the file of an index any more.
    pub(super) fn forget(&self, table: &Table) {
        lock(&self.records).remove(&table.id());
    }

    /// Removes the file of an index that was dropped.
    pub(super) fn remove(&self, table: u32) {
        lock(&self.records).remove(&table);
        // Otherwise the next opening does.
        let _ = self.files.remove(&file_of(table));
    }

    /// Saves an image that is of the checkpoint whose last transaction is `since`.
    pub(super) fn write(
        &self,
        store: &Store,
        (table, def): (&Table, &VectorDef),
        since: u64,
        contents: &Contents,
    ) -> Result<()> {
        let record = Record { mark: bson::Uuid::new().bytes(), since };
        self.forget(table);
        self.files.write(&file_of(table.id()), &record.identity(table, def), |out| contents.write_to(out))?;
        let mut txn = store.begin_write()?;
        write_record(&mut txn, table, record)?;
        txn.commit_with(Durability::Durable)?;
        lock(&self.records).insert(table.id(), record);
        Ok(())
    }
}

/// The name of an index's file.
fn file_of(table: u32) -> String {
    format!("{FILE}{table}")
}

/// The records that a snapshot sees.
fn records(reads: &impl Reads) -> Result<HashMap<u32, Record>> {
    let mut found = HashMap::new();
    let Some(table) = reads.table(&table_name())? else { return Ok(found) };
    for entry in reads.prefix(&table, b"")? {
        let (key, value) = entry?;
        let number = key.first_chunk().map(|number| u32::from_be_bytes(*number));
        found.extend(number.zip(Record::decode(value)));
    }
    Ok(found)
}

/// Stores a record, and removes those of indexes that there are no more.
fn write_record(txn: &mut WriteTxn, index: &Table, record: Record) -> Result<()> {
    let all: HashSet<u32> = txn.tables()?.iter().map(Table::id).collect();
    let gone: Vec<u32> = records(txn)?.into_keys().filter(|table| !all.contains(table)).collect();
    let table = match txn.table(&table_name())? {
        Some(table) => table,
        None => txn.create_table(&table_name(), TableKind::Ordered)?,
    };
    for number in gone {
        txn.delete(&table, &number.to_be_bytes())?;
    }
    if all.contains(&index.id()) {
        txn.put(&table, &index.id().to_be_bytes(), &record.encode())?;
    }
    Ok(())
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
    Partly(Loading),
    Whole(Contents, Follower),
}

impl Loading {
    fn begin(mut input: DerivedReader, def: &VectorDef, since: u64) -> io::Result<Loading> {
        let graph = GraphReader::begin(empty_image(def), &mut input)?;
        let (nodes, contents) = (graph.nodes(), Contents::new(def));
        let (listed, by_number) = (0, BTreeMap::new());
        Ok(Loading { input, since, graph: Some(graph), contents, nodes, listed, by_number })
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
    pub(super) fn advance(mut self, rows_end: u64) -> io::Result<Loaded> {
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
        let Loading { input, since, contents, by_number, .. } = self;
        let free = contents.graph.free_nodes();
        // Each node that is not free has a number of its own.
        let is_whole = by_number.len() == contents.graph.len()
            && input.left() == 0
            && free.iter().all(|node| contents.number(*node) == 0);
        let follower = Follower::of_saved(by_number, since);
        is_whole.then_some(Loaded::Whole(contents, follower)).ok_or_else(invalid)
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
