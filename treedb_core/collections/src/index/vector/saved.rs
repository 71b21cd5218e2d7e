//! Images in files: what the last searches had is there for the first ones after an opening.
//!
//! An image is saved as what the newest durable checkpoint has of its index, when a database is closed or is told to save it
//! ([`Database::save_vector_images`](crate::Database::save_vector_images)); or as what a snapshot has, when there is no room for it in memory, and then a checkpoint is made
//! between the file and its record, so that what is said here of the checkpoint is true of a state that it has. The file ([`DerivedFiles`]) is derived data, which may be missing, damaged, or of
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
//! | 16 | 8 | the last transaction that the image has, which the checkpoint has too, little-endian |
//!
//! The file of an index is `derived/vector-N`, with the number of its table. Its identity is the record, the number, 4 bytes, little-endian, 4
//! zeros, and the SHA-256 of the definition as the version of TreeDB that wrote it shows it. Its content is the graph
//! ([`treedb_vector::memory::MemoryGraph::map`]), then, from a multiple of 4,096 bytes on, the number of each of its nodes in the index's table, 8 bytes, 0
//! of a free one, and zeros up to the next such multiple, and at last how many positions vectors may have in documents, 8 bytes.
//!
//! The content is mapped: what an image has of its file stays there, where the system may give its memory to others and read it again, and where
//! other openings find it in memory. Nothing is read at an opening but the beginning. Each part is checked when it is first used, and a search that meets a damaged
//! one is answered from the table; the image is built anew then ([`super::image::Contents::is_damaged`]). What writes change is in memory from then on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::vector::{VectorDef, Vectors};
use treedb_storage::{
    DerivedFiles, DerivedMap, DerivedWriter, Durability, Identity, LOCAL_TABLES, Reads, Store, Table,
    TableKind,
};
use treedb_vector::memory::{MappedBytes, MappedFile, MappedGraph, MemoryGraph, Records};

use super::follow::Follower;
use super::graph::empty_image;
use super::image::{Contents, lock};
use super::record::{position_of, row_of};

/// Changed with the bytes of the content.
const FORMAT: u32 = 3;

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
        let definition = Sha256::digest(format!("{FORMAT} {:?}", def.of_graph()));
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

    /// See [`DerivedFiles::on_full_disk`].
    pub(super) fn on_full_disk(&self, let_go: impl Fn() -> bool + Send + Sync + 'static) {
        self.files.on_full_disk(let_go);
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

    fn open_file(&self, table: &Table, def: &VectorDef, record: &Record) -> Option<Arc<DerivedMap>> {
        self.files.map(&file_of(table.id()), &record.identity(table, def)).ok().flatten()
    }

    /// What the file has that a record is of; `None` if there is no such file.
    ///
    /// # Errors
    /// It is damaged, or no image.
    fn map(
        &self,
        (table, def): (&Table, &VectorDef),
        record: &Record,
        rows_end: u64,
    ) -> io::Result<Option<Contents>> {
        let map = self.open_file(table, def, record);
        map.map(|map| Contents::map(map, def, rows_end)).transpose()
    }

    /// What was just written, where it is in its file. `None` if that was removed meanwhile.
    ///
    /// # Errors
    /// It is damaged, or no image.
    pub(super) fn written(
        &self,
        (table, def): (&Table, &VectorDef),
        rows_end: u64,
    ) -> io::Result<Option<Contents>> {
        self.record(table).map_or(Ok(None), |record| self.map((table, def), &record, rows_end))
    }

    /// The image of an index, if there is one, with what follows it. All rows of the collection are below `rows_end`. One of more than `most` nodes is
    /// not read, nor is it later.
    ///
    /// # Errors
    /// It is damaged, or no image.
    pub(super) fn load(
        &self,
        (table, def): (&Table, &VectorDef),
        most: u64,
        rows_end: u64,
    ) -> io::Result<Option<(Contents, Follower)>> {
        let Some(record) = self.record(table) else { return Ok(None) };
        let mapped = self.map((table, def), &record, rows_end).inspect_err(|_| self.forget(table))?;
        let Some(contents) = mapped else {
            self.forget(table);
            return Ok(None);
        };
        if contents.numbers.count() as u64 > most {
            self.forget(table);
            return Ok(None);
        }
        let follower = Follower::of_saved(&contents, record.since);
        Ok(Some((contents, follower)))
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

    /// Saves an image that has what was committed up to transaction `since`: the last one of a checkpoint, or else one that a checkpoint has that this
    /// makes. From then on it counts, whatever happens to this process.
    ///
    /// # Errors
    /// Those of the disk and of the store. If the disk is full, there are no files any more. `OutOfDiskSpace` also if there would not be as much
    /// room left as the file takes: then this index has none, but for one that it uses, of which removing it would make no room.
    pub(super) fn write(
        &self,
        store: &Store,
        (table, def): (&Table, &VectorDef),
        since: (u64, bool),
        contents: &Contents,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes = contents.bytes().saturating_add(contents.mapped_bytes());
        let size = (bytes, contents.is_mapped());
        self.write_with(store, (table, def), since, size, |out| {
            contents.write_to(&mut Ending { out, goes_on })
        })
    }

    /// The same of an image of about so many bytes that is not in memory, and not in a file either, which `write` writes. A checkpoint that this makes
    /// has `since`.
    ///
    /// # Errors
    /// As [`SavedImages::write`]; those of `write`.
    pub(super) fn write_streamed(
        &self,
        store: &Store,
        index: (&Table, &VectorDef),
        since: u64,
        bytes: u64,
        write: impl FnOnce(&mut DerivedWriter) -> io::Result<()>,
    ) -> Result<()> {
        self.write_with(store, index, (since, false), (bytes, false), write)
    }

    fn write_with(
        &self,
        store: &Store,
        (table, def): (&Table, &VectorDef),
        since: (u64, bool),
        (bytes, is_mapped): (u64, bool),
        write: impl FnOnce(&mut DerivedWriter) -> io::Result<()>,
    ) -> Result<()> {
        // As much is to be left as it takes.
        let has_room = || self.files.may_grow_by(bytes.saturating_mul(2));
        let mut has_it = has_room();
        if !has_it && !is_mapped {
            self.forget(table);
            self.remove(table.id());
            has_it = has_room();
        }
        if !has_it {
            return Err(QueryError::new(
                ErrorCode::OutOfDiskSpace,
                format!("too little room for a file of about {bytes} bytes and as much besides"),
            ));
        }
        self.forget(table);
        let written = self.try_write(store, (table, def), since, write);
        if let Err(error) = &written {
            self.forget(table);
            if error.code == ErrorCode::OutOfDiskSpace {
                lock(&self.records).clear();
                self.files.remove_those(is_ours);
                self.files.let_go();
            }
        }
        written
    }

    fn try_write(
        &self,
        store: &Store,
        (table, def): (&Table, &VectorDef),
        (since, has_checkpoint): (u64, bool),
        write: impl FnOnce(&mut DerivedWriter) -> io::Result<()>,
    ) -> Result<()> {
        let record = Record { mark: bson::Uuid::new().bytes(), since };
        self.files.write(&file_of(table.id()), &record.identity(table, def), write)?;
        // Before the record: each state that has it comes after a checkpoint that has what the file has.
        if !has_checkpoint {
            store.checkpoint()?;
        }
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

/// The content of a file.
#[derive(Debug)]
struct Content(Arc<DerivedMap>);

impl MappedBytes for Content {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn is_intact(&self, range: Range<usize>) -> bool {
        let is_intact = self.0.is_intact(range);
        if !is_intact {
            tracing::warn!(path = %self.0.path().display(), "a vector index's saved image is damaged: it is not used");
        }
        is_intact
    }
}

/// What writes as long as it is to go on.
struct Ending<'w, W> {
    out: &'w mut W,
    goes_on: &'w dyn Fn() -> bool,
}

impl<W: io::Write> io::Write for Ending<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.goes_on)() { self.out.write(bytes) } else { Err(io::Error::other("it was to end")) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Contents {
    fn write_to(&self, out: &mut impl io::Write) -> io::Result<()> {
        self.graph.write_to(out)?;
        self.numbers.write_to(out)?;
        out.write_all(&(self.positions() as u64).to_le_bytes())
    }

    /// Those of a file.
    fn map(map: Arc<DerivedMap>, def: &VectorDef, rows_end: u64) -> io::Result<Contents> {
        let file = MappedFile::new(Content(map));
        let MappedGraph { graph, nodes, end } = MemoryGraph::map(empty_image(def), &file)?;
        let after = file.len().checked_sub(size_of::<u64>()).ok_or_else(invalid)?;
        let positions = file.read(after..file.len())?.try_into().map(u64::from_le_bytes);
        let positions =
            positions.ok().filter(|positions| *positions <= Vectors::MOST as u64).ok_or_else(invalid)?;
        // Each node that is not free has a number. The memory of rows is proportional to the greatest.
        let may_be = move |node: u32, number: u64| match number {
            0 => !nodes.there_is(node),
            _ => nodes.there_is(node) && row_of(number) < rows_end && position_of(number) < positions,
        };
        let (count, check) =
            (graph.len() + graph.free_nodes().len(), move |first: usize, numbers: &[u64]| {
                (first as u32..).zip(numbers).all(|(node, number)| may_be(node, *number))
            });
        let (numbers, end) = Records::new(1).map(&file, end, count, Box::new(check))?;
        if end != after {
            return Err(invalid());
        }
        Ok(Contents::of_file(graph, numbers, positions as usize))
    }
}
