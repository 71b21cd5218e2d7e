//! What a search needs besides the image: kept from one to the next, it allocates nothing.
//!
//! A workspace remembers the image that it was used for last, so that the image is found again without a lock of its own. Each thread keeps
//! a small one; large ones, which are those of large indexes, are kept by all threads together.

use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use treedb_storage::TableVersion;
use treedb_vector::memory::Searcher;

use super::image::{Image, lock};
use super::search::Batch;

/// What is kept from one search to the next.
#[derive(Debug, Default)]
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
    /// The record of a query of bits.
    pub(super) record: Vec<u8>,
}

impl Workspace {
    /// The image that it was used for last, if that is what is asked for: without a lock.
    #[inline]
    pub(super) fn image_of(&self, source: (u64, u32), version: TableVersion) -> Option<Arc<Image>> {
        let image = if self.source == source { self.image.upgrade()? } else { return None };
        image.is_of(version).then_some(image)
    }

    /// Notes the image that it is used for.
    pub(super) fn set_image(&mut self, source: (u64, u32), image: &Arc<Image>) {
        (self.source, self.image) = (source, Arc::downgrade(image));
    }

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

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

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
