//! [`Collections`]: how a pipeline reaches the collections of a database. The native store implements it over one
//! snapshot, the PostgreSQL extension over tables.

use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};

use crate::access::{Flow, Sink, TempFile};
use crate::doc::{Fields, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::geo::Grid;
use crate::query::{NearestQuery, Neighbor, Query};

use super::stream::BoxedStream;

/// The writes of one transaction on a collection.
pub type WriteBody<'a> = dyn FnMut(&mut dyn Sink) -> Result<()> + 'a;

/// What a stage that writes makes of its collection.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// `$merge` changes some of its documents.
    Merged,
    /// `$out` replaces all of its documents. With options of a time series it must be one that has them, or not exist.
    Replaced(Option<&'a RawDocument>),
}

/// Looks documents up by the value of one field, through an index.
pub trait EqualityLookup: Send {
    /// Calls `visit` with each document in which a value of the field equals `value`. If `fields` is given, the
    /// documents may lack other fields. Returns false, without a call, if the index cannot answer for this value.
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
pub trait Collections: Send + Sync {
    /// The documents that `query` finds, in its order; none if the collection does not exist.
    ///
    /// # Errors
    /// Those of the planner.
    fn find(&self, namespace: &str, query: Query) -> Result<BoxedStream>;

    /// The documents that `query` finds as several streams, each of which may be read by a thread of its own: `threads`
    /// of them, or as many as pay off (`None`); a single one if the collection cannot be scanned in parallel. With
    /// `in_order`, the streams one after another have the order of [`Self::find`]; otherwise the order is undefined.
    ///
    /// # Errors
    /// Those of the planner.
    fn parallel_scan(
        &self,
        namespace: &str,
        query: Query,
        threads: Option<usize>,
        in_order: bool,
    ) -> Result<Vec<BoxedStream>> {
        let _ = (threads, in_order);
        Ok(vec![self.find(namespace, query)?])
    }

    /// The documents that `query` finds, which has a sort and a limit. `None` if the collection can only find them by
    /// sorting all of its documents, or if they take more than `memory_limit` bytes.
    ///
    /// # Errors
    /// Those of the planner and of the filter; `MaxTimeMSExpired`.
    fn top_k(
        &self,
        namespace: &str,
        query: &Query,
        memory_limit: usize,
        deadline: Option<Instant>,
        threads: Option<usize>,
    ) -> Result<Option<Vec<RawDocumentBuf>>> {
        let _ = (namespace, query, memory_limit, deadline, threads);
        Ok(None)
    }

    /// The number of documents that `query` finds.
    ///
    /// # Errors
    /// Those of the planner.
    fn count(&self, namespace: &str, query: Query) -> Result<u64> {
        let (mut documents, mut count) = (self.find(namespace, query)?, 0);
        documents.for_each(&mut |_| {
            count += 1;
            Ok(Flow::Continue(()))
        })?;
        Ok(count)
    }

    /// Look-ups by the field at `path`; `None` if no index serves them.
    ///
    /// # Errors
    /// Those of the catalog.
    fn point_lookup(&self, namespace: &str, path: &Path) -> Result<Option<Box<dyn EqualityLookup>>> {
        let _ = (namespace, path);
        Ok(None)
    }

    /// True if `query` is answered by an index rather than by a scan of the collection.
    ///
    /// # Errors
    /// Those of the planner.
    fn uses_index(&self, namespace: &str, query: &Query) -> Result<bool> {
        let _ = (namespace, query);
        Ok(true)
    }

    /// True if the documents of `query` come in its order without being sorted.
    ///
    /// # Errors
    /// Those of the planner.
    fn provides_order(&self, namespace: &str, query: &Query) -> Result<bool>;

    /// Refuses a collection that `$out` or `$merge` cannot write.
    ///
    /// # Errors
    /// MongoDB's code for why.
    fn check_target(&self, namespace: &str, target: Target<'_>) -> Result<()> {
        let _ = (namespace, target);
        Ok(())
    }

    /// Runs `body` on the collection in one transaction. The collection is created if it does not exist: as the time series of `target`,
    /// if that has options of one.
    ///
    /// # Errors
    /// Those of `body`, and of [`Self::check_target`], for what the collection is in that transaction; nothing is changed then.
    fn write(&self, namespace: &str, target: Target<'_>, body: &mut WriteBody<'_>) -> Result<()>;

    /// How many documents there are: the `count` of `$collStats`.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    fn document_count(&self, namespace: &str) -> Result<u64>;

    /// The `storageStats` of `$collStats`, with sizes divided by `scale`.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    fn storage_stats(&self, namespace: &str, scale: f64) -> Result<RawDocumentBuf>;

    /// The documents of `$indexStats`, one for each index.
    ///
    /// # Errors
    /// Those of the catalog.
    fn index_stats(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>>;

    /// The documents with the nearest vectors, the nearest first; none if the collection does not exist.
    ///
    /// # Errors
    /// Those of [`crate::query::nearest`].
    fn vector_search(&self, namespace: &str, search: &NearestQuery) -> Result<Vec<Neighbor>> {
        let _ = (namespace, search);
        Err(QueryError::new(ErrorCode::NotImplemented, "the stage $vectorSearch is not supported here"))
    }

    /// The fields of `2dsphere` and `2d` indexes, each with what its cells are cells of; `None` if the collection does not exist.
    ///
    /// # Errors
    /// Those of the catalog.
    fn indexed_locations(&self, namespace: &str) -> Result<Option<Vec<(Path, Grid)>>> {
        let _ = namespace;
        Ok(Some(Vec::new()))
    }

    /// The documents of `$listSearchIndexes`, one for each search index; none if the collection does not exist.
    ///
    /// # Errors
    /// Those of the catalog.
    fn search_indexes(&self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        let _ = namespace;
        Err(QueryError::new(ErrorCode::NotImplemented, "the stage $listSearchIndexes is not supported here"))
    }

    /// A new scratch file; `None` if there are none here.
    ///
    /// # Errors
    /// `OutOfDiskSpace` and others of the device.
    fn temp_file(&self) -> Result<Option<Box<dyn TempFile>>>;
}
