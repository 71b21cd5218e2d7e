//! What an aggregation has examined, and its limits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use treedb_query::query::{Counters, SearchWork};

/// Index entries and documents that an aggregation has examined, those of look-ups included.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    keys: AtomicU64,
    documents: AtomicU64,
    /// What the first search for vectors did: that of a stage which begins the pipeline, if there is one.
    search: OnceLock<SearchWork>,
}

/// The limits of an operation.
pub(crate) struct Limits {
    pub(crate) memory: usize,
    pub(crate) deadline: Option<Instant>,
    pub(crate) threads: Option<usize>,
}

impl Examined {
    /// Index entries and documents examined so far.
    pub(super) fn counters(&self) -> Counters {
        Counters {
            keys_examined: self.keys.load(Ordering::Relaxed),
            docs_examined: self.documents.load(Ordering::Relaxed),
            ..Counters::default()
        }
    }

    /// What the first search for vectors did.
    pub(super) fn search(&self) -> Option<SearchWork> {
        self.search.get().copied()
    }

    /// Adds what was counted since `reported`.
    pub(crate) fn add(&self, now: Counters, reported: &mut Counters) {
        self.keys.fetch_add(now.keys_examined - reported.keys_examined, Ordering::Relaxed);
        self.documents.fetch_add(now.docs_examined - reported.docs_examined, Ordering::Relaxed);
        *reported = now;
    }

    /// Adds what a search for vectors did.
    pub(super) fn searched(&self, work: SearchWork) {
        self.documents.fetch_add(work.documents_examined, Ordering::Relaxed);
        // Those of other stages come later.
        let _ = self.search.set(work);
    }
}
