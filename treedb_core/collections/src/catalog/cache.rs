//! A thread's cache of the catalog entries that it used last. A thread that reads the same state again does no look-up,
//! takes no lock and writes to no memory shared with other threads.
//!
//! A cached entry is valid for every snapshot of the same transaction. It is valid for another transaction of the same
//! catalog if that has the same generation, which takes one look-up. A write transaction always makes that look-up: its number
//! says nothing, because it may still change the catalog.

use std::cell::Cell;
use std::sync::Arc;

use treedb_query::error::Result;
use treedb_storage::Reads;

use crate::catalog::Catalog;
use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;

/// Entries that a thread caches.
const SLOTS: usize = 8;

/// The number of no snapshot's transaction.
const NO_TXN: u64 = u64::MAX;

/// A cached entry.
struct CachedMeta {
    /// Id of the catalog in this process, and the transaction of its store.
    source: (u64, u64),
    generation: u64,
    meta: Arc<Meta>,
}

thread_local! {
    /// A slot is empty while its entry is in use.
    static CACHE: [Cell<Option<CachedMeta>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
}

/// The slot of the collection of this name.
fn slot(namespace: &Namespace) -> usize {
    let name = namespace.as_str().as_bytes();
    let (first, last) = (name.first().copied().unwrap_or(0), name.last().copied().unwrap_or(0));
    (name.len() + usize::from(first) + usize::from(last)) % SLOTS
}

impl Catalog {
    /// Calls `work` with the collection of this name in a snapshot of transaction `txn`; `None` if there is none.
    ///
    /// # Errors
    /// Those of reading the catalog.
    #[inline]
    pub(crate) fn with_meta<T>(
        &self,
        reads: &impl Reads,
        txn: u64,
        namespace: &Namespace,
        work: impl FnOnce(&Arc<Meta>) -> T,
    ) -> Result<Option<T>> {
        let at = slot(namespace);
        // The cache is not available while the thread ends.
        let cached = CACHE.try_with(|cached| cached.get(at).and_then(Cell::take)).ok().flatten();
        let source = (self.id(), txn);
        let cached = match cached {
            Some(cached) if cached.source == source && cached.meta.namespace == *namespace => cached,
            cached => match self.refresh(reads, source, namespace, cached)? {
                Some(cached) => cached,
                None => return Ok(None),
            },
        };
        let done = work(&cached.meta);
        let _ = CACHE.try_with(|all| all.get(at).map(|slot| slot.set(Some(cached))));
        Ok(Some(done))
    }

    /// [`Self::find`] in a write transaction that has not changed the catalog.
    pub(crate) fn find_to_write(
        &self,
        reads: &impl Reads,
        namespace: &Namespace,
    ) -> Result<Option<Arc<Meta>>> {
        let at = slot(namespace);
        let cached = CACHE.try_with(|cached| cached.get(at).and_then(Cell::take)).ok().flatten();
        let Some(cached) = self.refresh(reads, (self.id(), NO_TXN), namespace, cached)? else {
            return Ok(None);
        };
        let meta = Arc::clone(&cached.meta);
        let _ = CACHE.try_with(|all| all.get(at).map(|slot| slot.set(Some(cached))));
        Ok(Some(meta))
    }

    #[inline(never)]
    fn refresh(
        &self,
        reads: &impl Reads,
        source: (u64, u64),
        namespace: &Namespace,
        cached: Option<CachedMeta>,
    ) -> Result<Option<CachedMeta>> {
        let generation = self.generation(reads)?;
        if let Some(cached) = cached
            && (cached.source.0, cached.generation) == (source.0, generation)
            && cached.meta.namespace == *namespace
        {
            return Ok(Some(CachedMeta { source, ..cached }));
        }
        Ok(self.find(reads, namespace)?.map(|meta| CachedMeta { source, generation, meta }))
    }
}
