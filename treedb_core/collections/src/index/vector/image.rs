//! Images of vector indexes: graphs in memory, which answer searches of one state of an index.
//!
//! An image is derived data, and always exact for its version of the index's table: a search uses one only if its
//! snapshot sees that version. The first searches build it, a part each (see [`super::follow`]), unless it was saved when the database was
//! open before (see [`super::saved`]); after a write the next search brings it
//! up to date from the rows that changed, or the next ones, after many writes: where it is if no other search uses it, otherwise a
//! clone of it, which shares what has not changed. Searches of older snapshots, of transactions in progress and of indexes whose
//! image is not complete or does not fit in memory read the table.
//!
//! Images share a limit. One that does not fit beside the others gets the room of those that no search has used for a while
//! ([`Images::make_room`]), the longest unused first; what is in use stays, so that two indexes that take turns do not drive each other out.
//! What an image has in its file does not count: the system takes that memory back by itself.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt;
use treedb_storage::disk::memory_limit;
use treedb_storage::{Reads, Store, Table, TableVersion};
use treedb_vector::memory::{MemoryGraph, Records};

use super::centre::Judged;
use super::follow::{Follower, Progress, STEP_ELEMENTS};
use super::graph::empty_image;
use super::record::{nodes_in, position_of, row_of};
use super::row_nodes::RowNodes;
use super::saved::SavedImages;
use super::workspace::Workspace;
use crate::read::view::View;

mod saving;

/// Bytes that the images of a database may take, unless it is told otherwise: at least so many, and so much of the memory of this
/// process.
const LEAST_LIMIT: u64 = 1 << 30;
const SHARE_OF_MEMORY: u64 = 4;
/// Rows whose nodes are looked up before a query may end.
const ROWS_AT_ONCE: usize = 4096;
/// An image that was used within this time is not dropped for another one.
#[cfg(not(test))]
const IDLE: Duration = Duration::from_secs(10);
#[cfg(test)]
const IDLE: Duration = Duration::from_millis(50);
/// States of an index that have an image at the same time: searches whose snapshots are a commit apart take turns.
const VERSIONS: usize = 2;

/// A graph in memory, with what searches need besides. A clone shares the memory of what neither changes afterwards.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    pub(super) graph: MemoryGraph,
    /// The number that each node has in the table; 0 for a node without a vector: none, or one that was linked to before its
    /// vector was read.
    pub(super) numbers: Records<u64>,
    /// The nodes of the rows, by the positions of vectors in documents: most rows have one at the first position only. Of an image from a file
    /// they are listed when they are first asked for.
    rows: OnceLock<Vec<RowNodes>>,
    /// How many positions there are, or may be.
    positions: usize,
}

impl Contents {
    pub(super) fn new(def: &VectorDef) -> Contents {
        let (graph, numbers) = (empty_image(def), Records::new(1));
        Contents { graph, numbers, rows: OnceLock::from(Vec::new()), positions: 0 }
    }

    /// Those of a file, in which there may be vectors at so many positions.
    pub(super) fn of_file(graph: MemoryGraph, numbers: Records<u64>, positions: usize) -> Contents {
        Contents { graph, numbers, rows: OnceLock::new(), positions }
    }

    /// How many positions vectors may have in documents.
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// Whether anything that was read of its file is damaged: then what was found is worth nothing.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.graph.is_damaged()
    }

    /// The nodes of the rows, by positions.
    fn rows(&self) -> &[RowNodes] {
        self.rows.get_or_init(|| {
            let mut rows = vec![RowNodes::default(); self.positions];
            for node in 0..self.numbers.count() as u32 {
                let number = self.number(node);
                if let Some(rows) = rows.get_mut(position_of(number) as usize).filter(|_| number != 0) {
                    rows.set(row_of(number), Some(node));
                }
            }
            rows
        })
    }

    /// Asks for what comparing with these nodes exactly needs, so that it is known whether the image is damaged there. Returns whether it is not.
    pub(super) fn check_nodes(&self, nodes: &[u32]) -> bool {
        if !self.graph.is_mapped() {
            return true;
        }
        for node in nodes {
            let number = self.number(*node);
            self.graph.check_vector(*node);
            if self.several() {
                self.nodes_of(row_of(number)).for_each(|node| self.graph.check_vector(node));
            }
        }
        !self.is_damaged()
    }

    /// The number that a node has in the table; 0 if there is no such node.
    #[inline]
    pub(super) fn number(&self, node: u32) -> u64 {
        self.numbers.get(node).first().copied().unwrap_or(0)
    }

    /// Whether rows may have several vectors.
    #[inline]
    pub(super) fn several(&self) -> bool {
        self.positions > 1
    }

    /// The nodes of a row.
    pub(super) fn nodes_of(&self, row: u64) -> impl Iterator<Item = u32> {
        self.rows().iter().filter_map(move |rows| rows.get(row))
    }

    /// Adds the nodes of rows to `nodes`.
    ///
    /// # Errors
    /// The query is to end: rows may be many, and so may positions.
    pub(super) fn add_nodes(&self, rows: &[RowId], nodes: &mut Vec<u32>) -> Result<()> {
        for of_position in self.rows() {
            for part in rows.chunks(ROWS_AT_ONCE) {
                interrupt::check()?;
                nodes.extend(part.iter().filter_map(|row| of_position.get(row.0)));
            }
        }
        Ok(())
    }

    /// Sets the node of a row's vector at a position, or that there is none.
    pub(super) fn set_node(&mut self, row: u64, position: u64, node: Option<u32>) {
        let position = position as usize;
        self.rows();
        let Some(rows) = self.rows.get_mut() else { return };
        if node.is_some() && position >= rows.len() {
            rows.resize_with(position + 1, RowNodes::default);
        }
        self.positions = self.positions.max(rows.len());
        if let Some(rows) = rows.get_mut(position) {
            rows.set(row, node);
        }
    }

    /// Whether a node has a vector.
    pub(super) fn has_vector(&self, node: u32) -> bool {
        self.number(node) != 0
    }

    /// Whether more than a fifth of the nodes are free: of vectors that were removed.
    pub(super) fn has_many_free_nodes(&self) -> bool {
        self.graph.free_nodes().len() > self.graph.len() / 4
    }

    /// The nodes of the rows that are listed.
    fn listed_rows(&self) -> &[RowNodes] {
        self.rows.get().map_or(&[], Vec::as_slice)
    }

    /// Bytes that it takes in memory, without what is in its file.
    pub(super) fn bytes(&self) -> u64 {
        let rows: usize = self.listed_rows().iter().map(RowNodes::bytes).sum();
        (self.graph.bytes() + self.numbers.bytes() + rows) as u64
    }

    /// Whether it keeps a file in use.
    pub(super) fn is_mapped(&self) -> bool {
        self.graph.is_mapped()
    }

    /// Bytes of what is in its file.
    pub(super) fn mapped_bytes(&self) -> u64 {
        (self.graph.mapped_bytes() + self.numbers.mapped_bytes()) as u64
    }

    /// Bytes that it takes besides those that it shares with newer ones.
    fn bytes_beside(&self, newer: &Contents) -> u64 {
        // A newer one has as many positions, or more, unless only this one was asked for rows.
        let (own, newer_rows) = (self.listed_rows(), newer.listed_rows());
        let beside = own.iter().zip(newer_rows).map(|(own, newer)| own.bytes_beside(newer));
        let others = own.iter().skip(newer_rows.len()).map(RowNodes::bytes);
        let rows: usize = beside.chain(others).sum();
        let numbers = self.numbers.bytes_beside(&newer.numbers);
        (self.graph.bytes_beside(&newer.graph) + numbers + rows) as u64
    }
}

/// The contents of one state of an index.
#[derive(Debug)]
pub(super) struct Image {
    version: TableVersion,
    contents: Contents,
    /// See [`Slot::used`].
    used: Arc<AtomicBool>,
}

impl Image {
    pub(super) fn is_of(&self, version: TableVersion) -> bool {
        self.version == version
    }
}

/// Notes that a search uses an image. All threads share the flag, so it is written only if it is not set.
#[inline]
fn note_use(used: &AtomicBool) {
    if !used.load(Ordering::Relaxed) {
        used.store(true, Ordering::Relaxed);
    }
}

impl Deref for Image {
    type Target = Contents;

    #[inline]
    fn deref(&self) -> &Contents {
        &self.contents
    }
}

/// The images of a database.
#[derive(Debug)]
pub(crate) struct Images {
    /// Unique in this process.
    id: u64,
    limit: AtomicU64,
    /// How many threads build an index; 0 for as many as there are cores.
    build_threads: AtomicUsize,
    /// Bytes of the graphs of indexes that are being built.
    reserved: AtomicU64,
    slots: Arc<Mutex<Slots>>,
    /// Images of a database that keeps them in files.
    saved: OnceLock<Option<SavedImages>>,
    /// Whether closing the database saves them.
    saved_at_close: AtomicBool,
    /// How many images were built from tables, and how many were read from files.
    built: AtomicU64,
    loaded: AtomicU64,
    judged: Judged,
}

/// Memory of a graph that is being built, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Reserved<'i> {
    images: &'i Images,
    bytes: u64,
}

impl Reserved<'_> {
    /// Takes as much more as makes it so many bytes; false if there is no room for it beside the images and other builds.
    pub(super) fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let there_is = self.take(more) || self.images.make_room(None, more) > 0 && self.take(more);
        if there_is {
            self.bytes += more;
        }
        there_is
    }

    fn take(&self, more: u64) -> bool {
        let Images { limit, reserved, .. } = self.images;
        let room = limit.load(Ordering::Relaxed).saturating_sub(self.images.bytes());
        let grown = |reserved: u64| reserved.checked_add(more).filter(|grown| more == 0 || *grown <= room);
        reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.images.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The images of all indexes, by the number of the index's table, which is never used again.
#[derive(Debug, Default)]
struct Slots {
    by_table: HashMap<u32, Known>,
    /// Those that were dropped: older snapshots read the table.
    dropped: HashSet<u32>,
}

impl Slots {
    fn bytes(&self) -> u64 {
        self.by_table.values().map(|known| known.slot.bytes()).sum()
    }
}

/// An index that was searched.
#[derive(Debug)]
struct Known {
    slot: Arc<Slot>,
    /// When it was last noticed that it had been.
    used: Instant,
}

impl Default for Images {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let limit = AtomicU64::new(LEAST_LIMIT.max(memory_limit() / SHARE_OF_MEMORY));
        Images {
            id,
            limit,
            build_threads: AtomicUsize::new(0),
            reserved: AtomicU64::default(),
            slots: Arc::default(),
            saved: OnceLock::new(),
            saved_at_close: AtomicBool::new(true),
            built: AtomicU64::default(),
            loaded: AtomicU64::default(),
            judged: Judged::default(),
        }
    }
}

/// What the images of a database take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VectorMemory {
    /// Bytes of the images, without what is in files.
    pub bytes: u64,
    /// Bytes of images that are in files, where the system keeps in memory what it has room for. They do not count towards the limit.
    pub mapped_bytes: u64,
    /// Bytes of the graphs of indexes that are being built.
    pub building_bytes: u64,
    /// What both may take together.
    pub limit_bytes: u64,
    /// Indexes that have an image, or a part of one.
    pub images: u64,
    /// Indexes that have been searched and have none: their searches read the table.
    pub without_image: u64,
    /// Images that were built from the indexes' tables since the database was opened.
    pub built: u64,
    /// Images that were found in files since then.
    pub loaded: u64,
}

/// The image of one index.
#[derive(Debug)]
struct Slot {
    /// Set by each search; [`Images::make_room`] clears it.
    used: Arc<AtomicBool>,
    /// What [`State`] takes, what it has in a file, and whether it keeps one in use, for those who must not wait for it.
    bytes: AtomicU64,
    mapped: AtomicU64,
    uses_file: AtomicBool,
    /// It is not complete, or not up to date after many writes: who would have to wait for the next part reads the table meanwhile.
    building: AtomicBool,
    state: Mutex<State>,
}

impl Slot {
    fn new() -> Slot {
        let (bytes, mapped, building) = (AtomicU64::default(), AtomicU64::default(), AtomicBool::new(true));
        let uses_file = AtomicBool::default();
        Slot { used: Arc::default(), bytes, mapped, uses_file, building, state: Mutex::default() }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Notes what [`State`] takes.
    fn note_bytes(&self, state: &State) {
        self.bytes.store(state.bytes(), Ordering::Relaxed);
        self.mapped.store(state.mapped_bytes(), Ordering::Relaxed);
        self.uses_file.store(state.uses_file(), Ordering::Relaxed);
    }

    /// Whether there is an image, though it may not have what was written last.
    fn has_image(&self) -> bool {
        self.bytes() > 0 && !self.building.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct State {
    follower: Follower,
    /// The newest last.
    recent: Vec<Arc<Image>>,
    /// What the follower has read of a state that no image has yet.
    unfinished: Option<Contents>,
    /// The version that could not be read: some row that its image needs, but few searches, is damaged.
    unreadable: Option<TableVersion>,
    /// There was an image of all of the index, which the follower brings up to date: it does not build the first one.
    is_built: bool,
    /// That one is from a file, or will be, once it is up to date.
    is_from_file: bool,
    /// The size of the index when its image was given up while it was built, because it turned out to be too large.
    outgrown: Option<Size>,
}

/// How many nodes an index has, and how many bytes its image may take.
///
/// What an image takes is estimated before it is built, but rows that are far apart take more. Each search reads a part of the table for an
/// image that is being built, so one that was given up is built again only when it is much more likely to fit. One that became too large by
/// what it followed is built anew at once: it takes less then.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: u64,
    room: u64,
}

impl Size {
    /// Whether an image that was too large at the size of `before` may fit now: there are an eighth fewer nodes, or there is an eighth more
    /// room.
    fn may_fit_after(&self, before: &Size) -> bool {
        self.nodes < before.nodes - before.nodes / 8 || self.room >= before.room_to_fit()
    }

    /// The room that the image may fit in that was too large for the room that there was.
    fn room_to_fit(&self) -> u64 {
        self.room.saturating_add(self.room / 8).saturating_add(1)
    }
}

impl State {
    /// Bytes of what changes and of the images, what they share counted once.
    fn bytes(&self) -> u64 {
        // What an image shares with the newest state it shares with every one between.
        let images = self.recent.iter().map(|image| &image.contents).chain(&self.unfinished);
        let beside =
            images.clone().zip(images.clone().skip(1)).map(|(older, newer)| older.bytes_beside(newer));
        self.follower.bytes() + beside.sum::<u64>() + images.last().map_or(0, Contents::bytes)
    }

    /// Bytes of the newest contents that are in a file.
    fn mapped_bytes(&self) -> u64 {
        let images = self.recent.iter().map(|image| &image.contents).chain(&self.unfinished);
        images.last().map_or(0, Contents::mapped_bytes)
    }

    /// Whether any of its contents keeps a file in use.
    fn uses_file(&self) -> bool {
        self.recent.iter().map(|image| &image.contents).chain(&self.unfinished).any(Contents::is_mapped)
    }

    /// Whether anything of it is from a file that turned out to be damaged.
    fn is_damaged(&self) -> bool {
        self.recent.iter().map(|image| &image.contents).chain(&self.unfinished).any(Contents::is_damaged)
    }

    /// Bytes that the image takes with so many nodes, about: `new` says what one has.
    fn bytes_of(&self, nodes: usize, new: impl Fn() -> Contents) -> u64 {
        match self.unfinished.as_ref().or(self.recent.last().map(|image| &image.contents)) {
            Some(contents) => Follower::bytes_of(contents, nodes),
            None => Follower::bytes_of(&new(), nodes),
        }
    }

    /// The newest contents, to be changed: those of an image that no search uses are changed where they are, of which
    /// nothing has to be copied.
    fn take_newest(&mut self) -> Option<Contents> {
        self.unfinished.take().or_else(|| {
            let newest = Arc::try_unwrap(self.recent.pop()?);
            let in_use = match newest {
                Ok(image) => return Some(image.contents),
                Err(in_use) => in_use,
            };
            let contents = in_use.contents.clone();
            self.recent.push(in_use);
            Some(contents)
        })
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the images that are in files, so that these make room on the disk; true if there were any. A search that uses one keeps it until it ends. Who
/// needs the room may hold anything but this lock.
fn let_go(slots: &Mutex<Slots>) -> bool {
    let mut dropped = Vec::new();
    lock(slots).by_table.retain(|_, known| {
        let uses_file = known.slot.uses_file.load(Ordering::Relaxed);
        if uses_file {
            dropped.push(Arc::clone(&known.slot));
        }
        !uses_file
    });
    !dropped.is_empty()
}

impl Images {
    /// Sets how many bytes the images may take together; those that there are are dropped if they take more.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        let mut slots = lock(&self.slots);
        if slots.bytes() > bytes {
            slots.by_table.clear();
        }
    }

    /// Memory for a graph that is being built: none until it [grows](Reserved::grow_to).
    pub(super) fn reserve(&self) -> Reserved<'_> {
        // What is not used from here on may be dropped for it.
        self.make_room(None, 0);
        Reserved { images: self, bytes: 0 }
    }

    /// Sets how many threads build an index; 0 for as many as there are cores.
    pub(crate) fn set_build_threads(&self, threads: usize) {
        self.build_threads.store(threads, Ordering::Relaxed);
    }

    /// How many threads build an index.
    pub(super) fn build_threads(&self) -> usize {
        match self.build_threads.load(Ordering::Relaxed) {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// Which indexes have no centre.
    pub(super) fn judged(&self) -> &Judged {
        &self.judged
    }

    /// Bytes that the images take, without those that only searches under way still use.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.slots).bytes()
    }

    /// What the images take, and how many there are.
    pub(crate) fn memory(&self) -> VectorMemory {
        let (building_bytes, limit_bytes) =
            (self.reserved.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let slots = lock(&self.slots);
        let images = slots.by_table.values().filter(|known| known.slot.bytes() > 0).count() as u64;
        let without_image = slots.by_table.len() as u64 - images;
        let (built, loaded) = (self.built.load(Ordering::Relaxed), self.loaded.load(Ordering::Relaxed));
        let mapped = slots.by_table.values().map(|known| known.slot.mapped.load(Ordering::Relaxed));
        VectorMemory {
            bytes: slots.bytes(),
            mapped_bytes: mapped.sum(),
            building_bytes,
            limit_bytes,
            images,
            without_image,
            built,
            loaded,
        }
    }

    /// Drops images that no search has used for [`IDLE`], but not that of `table`, the longest unused first, if that makes so much room;
    /// returns how many bytes they took. When an image was used is known only as of the last call, since a search just sets a flag.
    fn make_room(&self, table: Option<u32>, wanted: u64) -> u64 {
        // They are given back after the lock.
        let (mut freed, mut dropped) = (0, Vec::new());
        let (mut slots, mut idle) = (lock(&self.slots), Vec::new());
        let now = Instant::now();
        for (other, known) in &mut slots.by_table {
            if known.slot.used.swap(false, Ordering::Relaxed) {
                known.used = now;
            } else if Some(*other) != table && now.duration_since(known.used) >= IDLE {
                idle.push((known.used, *other, known.slot.bytes()));
            }
        }
        // Slots without an image stay: they record that the image did not fit.
        idle.retain(|(.., bytes)| *bytes > 0);
        if idle.iter().map(|(.., bytes)| bytes).sum::<u64>() < wanted {
            return 0;
        }
        idle.sort_unstable();
        for (_, table, bytes) in idle {
            if freed >= wanted {
                break;
            }
            freed += bytes;
            dropped.extend(slots.by_table.remove(&table));
        }
        drop(slots);
        freed
    }

    /// Drops the images of indexes, to be called once it is committed that their tables are dropped.
    pub(crate) fn remove(&self, tables: impl IntoIterator<Item = u32>) {
        let tables: Vec<u32> = tables.into_iter().collect();
        let mut slots = lock(&self.slots);
        for table in &tables {
            slots.by_table.remove(table);
            slots.dropped.insert(*table);
            self.judged.forget(*table);
        }
        drop(slots);
        if let Some(saved) = self.saved() {
            tables.into_iter().for_each(|table| saved.remove(table));
        }
    }

    /// Lets images be kept in files of the store, which was just opened, and those that there are be used.
    pub(crate) fn keep_in_files(&self, store: &Store) {
        self.saved.get_or_init(|| {
            let saved = SavedImages::open(store)?;
            // Not the images: the store may outlive them, and they are in use while it is called.
            let slots = Arc::downgrade(&self.slots);
            saved.on_full_disk(move || slots.upgrade().is_some_and(|slots| let_go(&slots)));
            Some(saved)
        });
    }

    fn saved(&self) -> Option<&SavedImages> {
        self.saved.get()?.as_ref()
    }

    /// Sets whether closing the database saves images.
    pub(crate) fn set_saved_at_close(&self, saves: bool) {
        self.saved_at_close.store(saves, Ordering::Relaxed);
    }

    /// Whether it does.
    pub(crate) fn are_saved_at_close(&self) -> bool {
        self.saved_at_close.load(Ordering::Relaxed)
    }

    /// Whether there is an image that could be saved.
    pub(crate) fn has_any_to_save(&self) -> bool {
        self.saved().is_some() && lock(&self.slots).by_table.values().any(|known| known.slot.has_image())
    }

    /// Does not read the file of an index any more, whose image is given up because it takes too much or cannot follow, if it began with the file: it would again.
    fn forget_file_of(&self, state: &State, table: &Table) {
        if state.is_from_file
            && let Some(saved) = self.saved()
        {
            saved.forget(table);
        }
    }

    /// The slot of an index; `None` if the index was dropped.
    fn slot(&self, table: &Table) -> Option<Arc<Slot>> {
        let mut slots = lock(&self.slots);
        if slots.dropped.contains(&table.id()) {
            return None;
        }
        let new = || Known { slot: Arc::new(Slot::new()), used: Instant::now() };
        let slot = slots.by_table.entry(table.id()).or_insert_with(new).slot.clone();
        note_use(&slot.used);
        Some(slot)
    }

    /// The image of what `view` sees of an index; `None` if there is none now.
    pub(super) fn image(
        &self,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        table: &Table,
        workspace: &mut Workspace,
    ) -> Result<Option<Arc<Image>>> {
        let Some(version) = view.reads.version(table)? else { return Ok(None) };
        let source = (self.id, table.id());
        if let Some(image) = workspace.image_of(source, version).filter(|image| !image.is_damaged()) {
            note_use(&image.used);
            return Ok(Some(image));
        }
        let image = self.follow(def, view, table, version)?;
        if let Some(image) = &image {
            workspace.set_image(source, image);
        }
        Ok(image)
    }

    /// Brings the image of an index up to what `view` sees.
    #[cold]
    fn follow(
        &self,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        table: &Table,
        version: TableVersion,
    ) -> Result<Option<Arc<Image>>> {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return Ok(None);
        }
        let Some(slot) = self.slot(table) else { return Ok(None) };
        let mut state = match slot.building.load(Ordering::Relaxed) {
            false => lock(&slot.state),
            true => match slot.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Ok(None),
            },
        };
        if state.is_damaged() {
            // It is built as if there were no file.
            self.forget_file_of(&state, table);
            *state = State::default();
            slot.building.store(true, Ordering::Relaxed);
            slot.note_bytes(&state);
        }
        if let Some(image) = state.recent.iter().find(|image| image.version == version) {
            return Ok(Some(image.clone()));
        }
        if state.unreadable == Some(version) {
            return Ok(None);
        }
        let Some(now) = state.follower.sees(view) else { return Ok(None) };
        if self.load(&mut state, def, view, (table, now), nodes_in(view.reads.len(table)?))? {
            return Ok(None);
        }
        let is_new = !state.is_built && !state.is_from_file;
        let others = self.bytes().saturating_sub(slot.bytes());
        // A build leaves what images took when it began. One that grows meanwhile is not given up for it: searches would become slow.
        let builds = if is_new { self.reserved.load(Ordering::Relaxed) } else { 0 };
        let mut room = limit.saturating_sub(others).saturating_sub(builds);
        let nodes = nodes_in(view.reads.len(table)?);
        let needed = state.bytes_of(nodes.min(u64::from(u32::MAX)) as usize, || Contents::new(def));
        let needed = state.outgrown.map_or(needed, |before| needed.max(before.room_to_fit()));
        if needed > room && needed <= limit {
            room += self.make_room(Some(table.id()), needed - room);
        }
        let size = Size { nodes, room };
        if state.outgrown.is_some_and(|before| !size.may_fit_after(&before)) {
            return Ok(None);
        }
        state.outgrown = None;
        let outgrown = is_new.then_some(size);
        // After an error they are gone: they may have only some of the changes.
        let mut contents = state.take_newest().unwrap_or_else(|| Contents::new(def));
        let mut follower = std::mem::take(&mut state.follower);
        let progress = follower.advance(&mut contents, def, view, table, (now, room));
        let rebuilds =
            matches!(progress, Ok(Progress::TooLarge | Progress::Full | Progress::OtherCentre) | Err(_));
        slot.building.store(rebuilds || follower.is_partial(), Ordering::Relaxed);
        let mut image = None;
        match progress {
            Ok(Progress::Complete) => {
                let counted = if state.is_from_file { &self.loaded } else { &self.built };
                counted.fetch_add(u64::from(!state.is_built), Ordering::Relaxed);
                state.is_built = true;
                image = Some(Arc::new(Image { version, contents, used: slot.used.clone() }));
            }
            Ok(Progress::Partial) => state.unfinished = Some(contents),
            Ok(given_up @ (Progress::TooLarge | Progress::Full | Progress::OtherCentre)) => {
                let outgrown = outgrown.filter(|_| given_up == Progress::Full);
                self.forget_file_of(&state, table);
                *state = State { outgrown, ..State::default() };
                slot.note_bytes(&state);
                return Ok(None);
            }
            // A search in the table fails only if it needs what is damaged, and with the same error then.
            Err(_) => {
                // If it began with a file, that may be why: then it is built as if there were none.
                let unreadable = (!state.is_from_file).then_some(version);
                self.forget_file_of(&state, table);
                *state = State { unreadable, ..State::default() };
                slot.note_bytes(&state);
                return Ok(None);
            }
        }
        state.follower = follower;
        state.recent.extend(image.clone());
        let needed = usize::from(image.is_some());
        while state.recent.len() > VERSIONS || state.recent.len() > needed && state.bytes() > room {
            state.recent.remove(0);
        }
        let lacking = state.bytes().saturating_sub(room);
        if lacking > 0 && self.make_room(Some(table.id()), lacking) == 0 {
            self.forget_file_of(&state, table);
            *state = State { outgrown, ..State::default() };
            slot.building.store(true, Ordering::Relaxed);
        }
        slot.note_bytes(&state);
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_share_what_the_images_leave_and_give_it_back() {
        let images = Images::default();
        images.set_limit(1000);
        let (mut one, mut other) = (images.reserve(), images.reserve());
        assert!(one.grow_to(600) && !other.grow_to(500) && other.grow_to(400) && !one.grow_to(601));
        // What a build has it keeps, also beyond a limit that was lowered.
        images.set_limit(500);
        assert!(one.grow_to(600) && !one.grow_to(601) && !other.grow_to(401));
        images.set_limit(1000);
        drop(one);
        assert!(other.grow_to(1000) && !other.grow_to(1001));
        drop(other);
        assert_eq!(images.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_build_gets_the_room_of_an_image_that_no_search_has_used_since_it_began() {
        let images = Images::default();
        images.set_limit(1000);
        let slot = Slot::new();
        slot.bytes.store(900, Ordering::Relaxed);
        note_use(&slot.used);
        lock(&images.slots).by_table.insert(7, Known { slot: Arc::new(slot), used: Instant::now() });
        let mut build = images.reserve();
        assert!(build.grow_to(100) && !build.grow_to(500));
        std::thread::sleep(2 * IDLE);
        assert!(!build.grow_to(1001), "more than there is");
        assert_eq!(images.bytes(), 900);
        assert!(build.grow_to(500));
        assert_eq!(images.bytes(), 0);
    }
}
