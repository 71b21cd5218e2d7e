//! What a pipeline needs of the database around it. The native collections implement it; the Postgres extension can
//! over its tables.

use std::sync::Arc;
use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};

use crate::access::{Sink, TempFile};
use crate::doc::{Fields, Path, Value};
use crate::error::Result;
use crate::query::Query;
use crate::query::expr::Globals;

use super::stream::Docs;

/// What is done to a collection in one transaction.
pub type Work<'a> = dyn FnMut(&mut dyn Sink) -> Result<()> + 'a;

/// Finds documents by a value of one field.
pub trait Equal: Send {
    /// Lends the documents in which a value of the field equals `value`, to `visit`; of `fields`, if they are given, at
    /// least those. False, without a call, if they have to be found in another way.
    ///
    /// # Errors
    /// Those of the index and of `visit`.
    fn find(
        &mut self,
        value: Value<'_>,
        fields: Option<&Fields>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<bool>;
}

/// Collections by their full name (`database.collection`), all of one snapshot.
pub trait World: Send + Sync {
    /// The documents that `query` finds, in its order; none if there is no such collection.
    ///
    /// # Errors
    /// Those of the planner.
    fn find(&self, namespace: &str, query: Query) -> Result<Docs>;

    /// The documents that `query` finds in parts, each of which a thread of its own may read: as many parts as
    /// `threads` says, or as many as pay (`None`); a single one where a collection cannot be read so. If `in_order`, the
    /// documents of a part come behind those of the part before in the order of [`Self::find`]; else their order is any.
    ///
    /// # Errors
    /// Those of the planner.
    fn parts(
        &self,
        namespace: &str,
        query: Query,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Vec<Docs>> {
        let _ = (threads, in_order);
        Ok(vec![self.find(namespace, query)?])
    }

    /// The documents that `query`, which has an order and a limit, finds. `None` if the collection cannot tell them
    /// without sorting all of them, or if they take more than a stage may hold.
    ///
    /// # Errors
    /// Those of the planner and of the filter; `MaxTimeMSExpired`.
    fn first(
        &self,
        namespace: &str,
        query: &Query,
        context: &Context,
    ) -> Result<Option<Vec<RawDocumentBuf>>> {
        let _ = (namespace, query, context);
        Ok(None)
    }

    /// How many documents `query` finds.
    ///
    /// # Errors
    /// Those of the planner.
    fn count(&self, namespace: &str, query: Query) -> Result<u64> {
        let (mut docs, mut count) = (self.find(namespace, query)?, 0);
        docs.each(&mut |_| {
            count += 1;
            Ok(crate::access::Flow::Continue(()))
        })?;
        Ok(count)
    }

    /// A way straight to the documents in which the field at `path` equals a value; `None` where there is none.
    ///
    /// # Errors
    /// Those of the catalog.
    fn equal(&self, namespace: &str, path: &Path) -> Result<Option<Box<dyn Equal>>> {
        let _ = (namespace, path);
        Ok(None)
    }

    /// True if the documents of `query` are found without looking at every document.
    ///
    /// # Errors
    /// Those of the planner.
    fn searches(&self, namespace: &str, query: &Query) -> Result<bool> {
        let _ = (namespace, query);
        Ok(true)
    }

    /// True if the collection gives the documents of `query` in its order without sorting them.
    ///
    /// # Errors
    /// Those of the planner.
    fn gives_order(&self, namespace: &str, query: &Query) -> Result<bool>;

    /// Runs `work` on the collection, which is created if it does not exist, in one transaction.
    ///
    /// # Errors
    /// Those of `work`: nothing is changed then.
    fn change(&self, namespace: &str, work: &mut Work<'_>) -> Result<()>;

    /// What `$collStats` shows: `count`, `storageStats`.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    fn collection_stats(&self, namespace: &str) -> Result<RawDocumentBuf>;

    /// What `$indexStats` shows: a document for each index.
    ///
    /// # Errors
    /// Those of the catalog.
    fn index_stats(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>>;

    /// A new scratch file; `None` where nothing may leave the memory.
    ///
    /// # Errors
    /// `OutOfDiskSpace` and others of the device.
    fn scratch(&self) -> Result<Option<Box<dyn TempFile>>>;
}

/// What all stages of one run share.
#[derive(Clone)]
pub struct Context {
    /// The collections.
    pub world: Arc<dyn World>,
    /// The database that names without one mean.
    pub database: String,
    /// The time and the variables.
    pub globals: Arc<Globals>,
    /// Bytes a stage may hold.
    pub memory: usize,
    /// Whether a stage that needs more may use scratch files.
    pub spill: bool,
    /// When to give up.
    pub until: Option<Instant>,
    /// Threads that read a collection together where that is possible; `None` for as many as pay.
    pub threads: Option<usize>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("database", &self.database).field("memory", &self.memory).finish()
    }
}

impl Context {
    /// A scratch file, or the refusal of `what` where there is none.
    pub(crate) fn scratch(&self, what: &str) -> Result<Box<dyn TempFile>> {
        let refused = || super::too_much_memory(what, self.memory);
        if !self.spill {
            return Err(refused());
        }
        self.world.scratch()?.ok_or_else(refused)
    }

    /// The same with other variables.
    pub(crate) fn with_globals(&self, globals: Globals) -> Context {
        Context { globals: Arc::new(globals), ..self.clone() }
    }
}
