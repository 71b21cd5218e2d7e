//! Images of vector indexes: graphs in memory, which answer searches of one state of an index.
//!
//! An image is derived data, and always exact for its version of the index's table: a search uses one only if its
//! snapshot sees that version. The first searches build it, a part each (see [`super::follow`]), unless it was saved when the database was
//! open before (see [`super::saved`]); after a write the next search brings it
//! up to date from the rows that changed, or the next ones, after many writes: where it is if no other search uses it, otherwise a
//! clone of it, which shares what has not changed. Searches of older snapshots, of transactions in progress and of indexes whose
//! image is not complete or does not fit in memory read the table.
//!
//! What always holds:
//!
//! * The contents of an image are those of its version of the table, from when it is given to the first search on. They are changed only
//!   when no search has the image.
//! * What an image has in a file is in the file that was written last: saving one lets it go on there ([`saving`]).
//! * Images and builds share a limit, which what is in files does not count towards ([`room`]).
//!
//! | file | what it holds |
//! |---|---|
//! | `contents` | the graph of an image, and the nodes of rows |
//! | `slot` | the image of one index: its versions, and what others know of it |
//! | `following` | bringing it up to what a search sees |
//! | `room` | the memory that images and builds share |
//! | `saving` | files of images |
//! | `without_room` | files of images that there is no room for in memory |

mod contents;
mod following;
mod room;
mod saving;
mod slot;
mod without_room;

pub(super) use contents::Contents;
pub(super) use room::Reserved;
pub use room::VectorMemory;
pub(crate) use without_room::{Asks, log as log_writing};

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt;
use treedb_storage::disk::memory_limit;
use treedb_storage::{Reads, Store, Table, TableVersion};

use self::slot::{Known, Signs, Slot, Slots, State, let_go};
use super::centre::Judged;
use super::record::row_of;
use super::row_nodes::RowNodes;
use super::saved::SavedImages;
use super::workspace::Workspace;
use crate::read::view::View;

/// Bytes that the images of a database may take, unless it is told otherwise: at least so many, and so much of the memory of this
/// process.
const LEAST_LIMIT: u64 = 1 << 30;
const SHARE_OF_MEMORY: u64 = 4;
/// Rows whose nodes are looked up before a query may end.
const ROWS_AT_ONCE: usize = 4096;

/// The contents of one state of an index.
#[derive(Debug)]
pub(super) struct Image {
    version: TableVersion,
    contents: Contents,
    /// Those of the index's slot.
    signs: Arc<Signs>,
    /// Another one of the same version has taken its place.
    is_replaced: AtomicBool,
}

impl Image {
    fn new(version: TableVersion, contents: Contents, signs: &Arc<Signs>) -> Image {
        Image { version, contents, signs: Arc::clone(signs), is_replaced: AtomicBool::new(false) }
    }

    /// Whether it is not the index's any more, though some search may have it yet. The next ones leave it, also where they overlap: otherwise some
    /// always had it, and its memory or its file was never given back.
    #[inline]
    fn is_retired(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed) || self.signs.are_dropped()
    }

    pub(super) fn is_of(&self, version: TableVersion) -> bool {
        self.version == version
    }

    /// The nodes of the rows, by positions.
    fn rows(&self) -> &[RowNodes] {
        let listed_before = self.contents.are_rows_listed();
        let rows = self.contents.rows();
        if !listed_before {
            self.signs.note_listed();
        }
        rows
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

    /// The nodes of a row.
    pub(super) fn nodes_of(&self, row: u64) -> impl Iterator<Item = u32> {
        self.rows().iter().filter_map(move |rows| rows.get(row))
    }

    /// The node of a row's vector at a position; `None` also if nodes of rows are not listed, which takes a while.
    pub(super) fn node_of(&self, row: u64, position: u64) -> Option<u32> {
        let rows = if self.contents.are_rows_listed() { self.rows() } else { &[] };
        rows.get(position as usize)?.get(row)
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
    /// How many were written to files without memory.
    streamed: AtomicU64,
    judged: Judged,
    asks: Arc<Asks>,
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
            streamed: AtomicU64::default(),
            judged: Judged::default(),
            asks: Arc::default(),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Images {
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

    /// Whether an index was dropped.
    fn is_dropped(&self, table: u32) -> bool {
        lock(&self.slots).dropped.contains(&table)
    }

    /// Removes the file of an index that was dropped while it was written.
    fn remove_if_dropped(&self, saved: &SavedImages, table: u32) {
        if self.is_dropped(table) {
            saved.remove(table);
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
        slot.signs.note_use();
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
        if let Some(image) =
            workspace.image_of(source, version).filter(|image| !image.is_damaged() && !image.is_retired())
        {
            image.signs.note_use();
            return Ok(Some(image));
        }
        let image = self.follow(def, view, table, version)?;
        if let Some(image) = &image {
            workspace.set_image(source, image);
        }
        Ok(image)
    }
}
