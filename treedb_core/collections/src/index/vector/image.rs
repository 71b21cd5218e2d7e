//! Images of vector indexes: graphs in memory, which answer searches of one state of an index.
//!
//! An image is derived data. It is never written and always exact for its version of the index's table: a search uses one only if its
//! snapshot sees that version. The first searches build it, a part each (see [`super::follow`]); after a write the next search brings it
//! up to date from the rows that changed, or the next ones, after many writes: where it is if no other search uses it, otherwise a
//! clone of it, which shares what has not changed. Searches of older snapshots, of transactions in progress and of indexes whose
//! image is not complete or does not fit in memory read the table.
//!
//! A workspace remembers the image that it was used for last, so that the image is found again without a lock of its own.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Table, TableVersion};
use treedb_vector::memory::{MemoryGraph, Records, Searcher};

use super::follow::{Follower, Progress};
use super::graph::empty_image;
use super::row_nodes::RowNodes;
use super::search::Batch;
use crate::read::view::View;

/// Bytes that the images of a database may take, unless it is told otherwise.
const DEFAULT_LIMIT: u64 = 1 << 30;
/// States of an index that have an image at the same time: searches whose snapshots are a commit apart take turns.
const VERSIONS: usize = 2;

/// A graph in memory, with what searches need besides. A clone shares the memory of what neither changes afterwards.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    pub(super) graph: MemoryGraph,
    /// The number that each node has in the table; 0 for a node without a vector: none, or one that was linked to before its
    /// vector was read.
    pub(super) numbers: Records<u64>,
    /// The node of the first vector of each row that has one.
    pub(super) rows: RowNodes,
    /// Rows may have several vectors.
    pub(super) several: bool,
}

impl Contents {
    fn new(def: &VectorDef) -> Contents {
        let (graph, numbers) = (empty_image(def), Records::new(1));
        Contents { graph, numbers, rows: RowNodes::default(), several: false }
    }

    /// The number that a node has in the table; 0 if there is no such node.
    #[inline]
    pub(super) fn number(&self, node: u32) -> u64 {
        self.numbers.get(node).first().copied().unwrap_or(0)
    }

    /// Whether a node has a vector.
    pub(super) fn has_vector(&self, node: u32) -> bool {
        self.number(node) != 0
    }

    fn bytes(&self) -> u64 {
        (self.graph.bytes() + self.numbers.bytes() + self.rows.bytes()) as u64
    }

    /// Bytes that it takes besides those that it shares with newer ones.
    fn bytes_beside(&self, newer: &Contents) -> u64 {
        let numbers = self.numbers.bytes_beside(&newer.numbers) + self.rows.bytes_beside(&newer.rows);
        (self.graph.bytes_beside(&newer.graph) + numbers) as u64
    }
}

/// The contents of one state of an index.
#[derive(Debug)]
pub(super) struct Image {
    version: TableVersion,
    contents: Contents,
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
    slots: Mutex<Slots>,
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
        let Images { limit, reserved, .. } = self.images;
        let more = bytes.saturating_sub(self.bytes);
        let room = limit.load(Ordering::Relaxed).saturating_sub(self.images.bytes());
        let grown = |reserved: u64| reserved.checked_add(more).filter(|grown| more == 0 || *grown <= room);
        let there_is = reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if there_is {
            self.bytes += more;
        }
        there_is
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
    by_table: HashMap<u32, Arc<Slot>>,
    /// Those that were dropped: older snapshots read the table.
    dropped: HashSet<u32>,
}

impl Slots {
    fn bytes(&self) -> u64 {
        self.by_table.values().map(|slot| slot.bytes.load(Ordering::Relaxed)).sum()
    }
}

impl Default for Images {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (limit, build_threads) = (AtomicU64::new(DEFAULT_LIMIT), AtomicUsize::new(0));
        Images { id, limit, build_threads, reserved: AtomicU64::default(), slots: Mutex::default() }
    }
}

/// The image of one index.
#[derive(Debug)]
struct Slot {
    /// What [`State`] takes, for those who must not wait for it.
    bytes: AtomicU64,
    /// It is not complete, or not up to date after many writes: who would have to wait for the next part reads the table meanwhile.
    building: AtomicBool,
    state: Mutex<State>,
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
        self.nodes < before.nodes - before.nodes / 8
            || self.room > before.room.saturating_add(before.room / 8)
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept from one search to the next.
#[derive(Default)]
pub(super) struct Workspace {
    /// The images and the table that `image` is of.
    source: (u64, u32),
    image: Weak<Image>,
    pub(super) searcher: Searcher,
    pub(super) batch: Batch,
    /// Nodes of the rows that a filter lets through.
    pub(super) nodes: Vec<u32>,
    /// A vector of an image whose elements are no floats of 4 bytes.
    pub(super) vector: Vec<f32>,
}

impl Workspace {
    /// Bytes of what grows with the indexes that it was used for.
    fn bytes(&self) -> usize {
        self.searcher.bytes() + self.batch.bytes() + size_of::<u32>() * self.nodes.capacity()
    }
}

/// A thread keeps a workspace of at most so many bytes: there may be a thousand threads.
const KEPT_BY_THREAD: usize = 1 << 18;

thread_local! {
    /// Taken while a search is under way: a search within it has another one.
    static WORKSPACE: Cell<Option<Box<Workspace>>> = const { Cell::new(None) };
}

/// How many large workspaces are kept: as many as can be at work at the same time.
fn large_workspaces() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Larger workspaces that no search uses at the moment.
#[expect(clippy::vec_box, reason = "the box is what a thread keeps, and is given on as it is")]
struct LargeWorkspaces(Mutex<Vec<Box<Workspace>>>);

impl LargeWorkspaces {
    const fn new() -> LargeWorkspaces {
        LargeWorkspaces(Mutex::new(Vec::new()))
    }

    /// Calls `work` with a workspace: this thread's, or a large one.
    fn with_one<T>(&self, work: impl FnOnce(&mut Workspace) -> T) -> T {
        let own = WORKSPACE.try_with(Cell::take).ok().flatten();
        let mut workspace = own.or_else(|| lock(&self.0).pop()).unwrap_or_default();
        let done = work(&mut workspace);
        if workspace.bytes() <= KEPT_BY_THREAD {
            // The thread may be ending.
            let _ = WORKSPACE.try_with(|place| place.set(Some(workspace)));
        } else {
            let mut large = lock(&self.0);
            if large.len() < large_workspaces() {
                large.push(workspace);
            }
        }
        done
    }
}

/// Calls `work` with a workspace.
pub(super) fn with_workspace<T>(work: impl FnOnce(&mut Workspace) -> T) -> T {
    static LARGE: LargeWorkspaces = LargeWorkspaces::new();
    LARGE.with_one(work)
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

    /// Bytes that the images take, without those that only searches under way still use.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.slots).bytes()
    }

    /// Drops the images of indexes, to be called once it is committed that their tables are dropped.
    pub(crate) fn remove(&self, tables: impl IntoIterator<Item = u32>) {
        let mut slots = lock(&self.slots);
        for table in tables {
            slots.by_table.remove(&table);
            slots.dropped.insert(table);
        }
    }

    /// The slot of an index; `None` if the index was dropped.
    fn slot(&self, table: &Table) -> Option<Arc<Slot>> {
        let mut slots = lock(&self.slots);
        if slots.dropped.contains(&table.id()) {
            return None;
        }
        let new =
            || Slot { bytes: AtomicU64::default(), building: AtomicBool::new(true), state: Mutex::default() };
        Some(slots.by_table.entry(table.id()).or_insert_with(|| Arc::new(new())).clone())
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
        if workspace.source == (self.id, table.id())
            && let Some(image) = workspace.image.upgrade()
            && image.version == version
        {
            return Ok(Some(image));
        }
        let image = self.follow(def, view, table, version)?;
        if let Some(image) = &image {
            workspace.source = (self.id, table.id());
            workspace.image = Arc::downgrade(image);
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
        if let Some(image) = state.recent.iter().find(|image| image.version == version) {
            return Ok(Some(image.clone()));
        }
        if state.unreadable == Some(version) {
            return Ok(None);
        }
        let Some(now) = state.follower.sees(view) else { return Ok(None) };
        let others = self.bytes().saturating_sub(slot.bytes.load(Ordering::Relaxed));
        // A build leaves what images took when it began. One that grows meanwhile is not given up for it: searches would become slow.
        let builds = if state.is_built { 0 } else { self.reserved.load(Ordering::Relaxed) };
        let room = limit.saturating_sub(others).saturating_sub(builds);
        let size = Size { nodes: view.reads.len(table)? / 2, room };
        if state.outgrown.is_some_and(|before| !size.may_fit_after(&before)) {
            return Ok(None);
        }
        state.outgrown = None;
        let outgrown = (!state.is_built).then_some(size);
        // After an error they are gone: they may have only some of the changes.
        let mut contents = state.take_newest().unwrap_or_else(|| Contents::new(def));
        let mut follower = std::mem::take(&mut state.follower);
        let progress = follower.advance(&mut contents, def, view, table, (now, room));
        let rebuilds = matches!(progress, Ok(Progress::TooLarge | Progress::Full) | Err(_));
        slot.building.store(rebuilds || follower.is_partial(), Ordering::Relaxed);
        let mut image = None;
        match progress {
            Ok(Progress::Complete) => {
                state.is_built = true;
                image = Some(Arc::new(Image { version, contents }));
            }
            Ok(Progress::Partial) => state.unfinished = Some(contents),
            Ok(too_large @ (Progress::TooLarge | Progress::Full)) => {
                let outgrown = outgrown.filter(|_| too_large == Progress::Full);
                *state = State { outgrown, ..State::default() };
                slot.bytes.store(0, Ordering::Relaxed);
                return Ok(None);
            }
            // A search in the table fails only if it needs what is damaged, and with the same error then.
            Err(_) => {
                *state = State { unreadable: Some(version), ..State::default() };
                slot.bytes.store(0, Ordering::Relaxed);
                return Ok(None);
            }
        }
        state.follower = follower;
        state.recent.extend(image.clone());
        let needed = usize::from(image.is_some());
        while state.recent.len() > VERSIONS || state.recent.len() > needed && state.bytes() > room {
            state.recent.remove(0);
        }
        if state.bytes() > room {
            *state = State { outgrown, ..State::default() };
            slot.building.store(true, Ordering::Relaxed);
        }
        slot.bytes.store(state.bytes(), Ordering::Relaxed);
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

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
    fn a_thread_keeps_a_small_workspace_and_only_as_many_large_ones_as_there_are_cores_are_kept() {
        /// The nodes that there was room for before.
        fn make_room(large: &LargeWorkspaces, nodes: usize, while_in_use: impl FnOnce()) -> usize {
            large.with_one(|workspace| {
                while_in_use();
                let before = workspace.nodes.capacity();
                workspace.nodes.reserve(nodes);
                before
            })
        }
        let large = LargeWorkspaces::new();
        let threads = 2 * large_workspaces() + 1;
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    make_room(&large, 100, || ());
                    assert!((100..KEPT_BY_THREAD).contains(&make_room(&large, 100, || ())));
                    make_room(&large, KEPT_BY_THREAD, || _ = barrier.wait());
                    assert!(WORKSPACE.take().is_none());
                });
            }
        });
        assert_eq!(lock(&large.0).len(), large_workspaces());
        std::thread::scope(|scope| {
            let before = scope.spawn(|| make_room(&large, 0, || ())).join().unwrap();
            assert!(before >= KEPT_BY_THREAD, "{before}");
        });
    }
}
