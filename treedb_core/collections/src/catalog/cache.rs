//! The collections that a thread read last, as its snapshots had them: whoever reads the same state again looks nothing up,
//! takes no lock, and writes to no memory that other threads use.
//!
//! What is known of a transaction holds for every snapshot of it; of another transaction of the same catalog it holds if
//! that has the same generation, which is one look-up.

use std::cell::Cell;
use std::sync::Arc;

use treedb_query::error::Result;
use treedb_storage::Reads;

use crate::catalog::Catalog;
use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;

/// Collections that a thread remembers.
const PLACES: usize = 8;

/// One of them.
struct Known {
    /// Which catalog of this process, which transaction of its store.
    of: (u64, u64),
    generation: u64,
    meta: Arc<Meta>,
}

thread_local! {
    /// A place is empty while what was in it is lent.
    static KNOWN: [Cell<Option<Known>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
}

/// Where a collection of this name is remembered.
fn place(namespace: &Namespace) -> usize {
    let name = namespace.as_str().as_bytes();
    let (first, last) = (name.first().copied().unwrap_or(0), name.last().copied().unwrap_or(0));
    (name.len() + usize::from(first) + usize::from(last)) % PLACES
}

impl Catalog {
    /// Lends `work` the collection of this name in a snapshot, which is one of transaction `txn`; `None` if there is none.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub(crate) fn lend<T>(
        &self,
        reads: &impl Reads,
        txn: u64,
        namespace: &Namespace,
        work: impl FnOnce(&Arc<Meta>) -> T,
    ) -> Result<Option<T>> {
        let at = place(namespace);
        // While a thread ends nothing is remembered.
        let known = KNOWN.try_with(|known| known.get(at).and_then(Cell::take)).ok().flatten();
        let of = (self.id(), txn);
        let known = match known {
            Some(known) if known.of == of && known.meta.namespace == *namespace => known,
            known => match self.learn(reads, of, namespace, known)? {
                Some(known) => known,
                None => return Ok(None),
            },
        };
        let done = work(&known.meta);
        let _ = KNOWN.try_with(|all| all.get(at).map(|place| place.set(Some(known))));
        Ok(Some(done))
    }

    #[cold]
    fn learn(
        &self,
        reads: &impl Reads,
        of: (u64, u64),
        namespace: &Namespace,
        known: Option<Known>,
    ) -> Result<Option<Known>> {
        let generation = self.generation(reads)?;
        if let Some(known) = known
            && (known.of.0, known.generation) == (of.0, generation)
            && known.meta.namespace == *namespace
        {
            return Ok(Some(Known { of, ..known }));
        }
        Ok(self.find(reads, namespace)?.map(|meta| Known { of, generation, meta }))
    }
}
