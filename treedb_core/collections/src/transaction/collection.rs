//! A collection in a transaction.

use bson::{Bson, RawDocument, RawDocumentBuf};

use crate::catalog::namespace::Namespace;
use crate::catalog::view_def::is_about_a_view;
use crate::read::aggregate::{AggregateRequest, Aggregation};
use crate::read::batch::Batch;
use crate::read::of_view::FoundInView;
use crate::read::vector_search::{for_each_neighbor, vector_search};
use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, UpdateOutcome, UpdateRequest,
    VectorSearchRequest,
};
use crate::write::statement::{DeleteStatement, FindAndModifyStatement, UpdateStatement, id_of, parse};
use treedb_query::access::{Flow, Sink};
use treedb_query::doc::{Collation, with_id};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::{
    Counters, Execution, NearestAnswer, Neighbor, NeighborRef, Plan, SearchWork, count,
};

use super::Transaction;
use super::layer::TransactionSink;

/// A collection in a transaction: see [`Transaction::collection`]. The methods and their errors are those of
/// [`Collection`](crate::Collection). Methods that write also return `WriteConflict`, `TransactionTooLarge` and, after a statement
/// has failed, `NoSuchTransaction`.
#[derive(Debug)]
pub struct TransactionCollection<'t> {
    txn: &'t mut Transaction,
    namespace: Namespace,
    validates: bool,
}

impl<'t> TransactionCollection<'t> {
    pub(super) fn new(txn: &'t mut Transaction, namespace: Namespace) -> Self {
        TransactionCollection { txn, namespace, validates: true }
    }

    /// The same collection; what is written through it need not match the validator, unless `validates`.
    pub fn validated(self, validates: bool) -> Self {
        TransactionCollection { validates, ..self }
    }

    /// Runs a statement that writes.
    fn write<T>(&mut self, work: impl FnOnce(&mut TransactionSink<'_>) -> Result<T>) -> Result<T> {
        let validates = self.validates;
        self.txn.write(&self.namespace, |sink| {
            sink.validates = validates;
            work(sink)
        })
    }

    /// The transaction, to step a [`TransactionCursor`] with.
    pub fn transaction(&self) -> &Transaction {
        self.txn
    }

    /// Inserts a document and returns its `_id`, which is generated if it has none.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_one(&mut self, document: impl AsRef<RawDocument>) -> Result<Bson> {
        self.write(|sink| {
            let document = with_id(document.as_ref())?;
            sink.insert(&document)?;
            id_of(&document)
        })
    }

    /// Inserts documents and returns their number. If one is refused, the transaction is aborted.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_many<D: AsRef<RawDocument>>(&mut self, documents: &[D]) -> Result<u64> {
        self.write(|sink| {
            for document in documents {
                let document = with_id(document.as_ref())?;
                sink.insert(&document)?;
            }
            Ok(documents.len() as u64)
        })
    }

    /// The documents that match. The cursor does not borrow the transaction, which is passed to it for each step.
    ///
    /// # Errors
    /// See the type.
    pub fn find(&self, request: &FindRequest) -> Result<TransactionCursor> {
        reject_as_of(request)?;
        let query = parse(request)?;
        let namespace = self.namespace.clone();
        let seen = match self.txn.collection_snapshot(&self.namespace) {
            Err(error) if is_about_a_view(&error) => {
                let found = FoundInView::new(request, |pipeline| self.aggregate(pipeline))?;
                return Ok(TransactionCursor { namespace, documents: Documents::View(Box::new(found)) });
            }
            seen => seen?,
        };
        let layer = seen.through(&self.txn.reads);
        let execution = Execution::new(
            &layer,
            &layer.context(),
            query.with_default_collation(layer.context().collation)?,
        )?;
        let documents = Documents::Collection(Box::new((execution, Batch::new())));
        Ok(TransactionCursor { namespace, documents })
    }

    /// The first document that matches.
    ///
    /// # Errors
    /// See the type.
    pub fn find_one(&self, filter: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        self.find(&FindRequest::filter(filter).limit(1))?.next(self.txn)
    }

    /// The documents with the nearest vectors, those that the transaction has changed included.
    ///
    /// # Errors
    /// See the type.
    pub fn vector_search(&self, request: &VectorSearchRequest) -> Result<Vec<Neighbor>> {
        Ok(self.vector_search_answer(request)?.neighbors)
    }

    /// The same, and what the search did for that.
    ///
    /// # Errors
    /// See the type.
    pub fn vector_search_answer(&self, request: &VectorSearchRequest) -> Result<NearestAnswer> {
        let seen = self.txn.collection_snapshot(&self.namespace)?;
        let layer = seen.through(&self.txn.reads);
        vector_search(&layer, &layer.context(), request)
    }

    /// Shows these documents to `visit`, one after another, until it breaks.
    ///
    /// # Errors
    /// See the type; those of `visit`.
    pub fn for_each_neighbor(
        &self,
        request: &VectorSearchRequest,
        visit: &mut dyn FnMut(NeighborRef<'_>) -> Result<Flow>,
    ) -> Result<SearchWork> {
        let seen = self.txn.collection_snapshot(&self.namespace)?;
        let layer = seen.through(&self.txn.reads);
        for_each_neighbor(&layer, &layer.context(), request, visit)
    }

    /// How many documents match, `skip` and `limit` of the request applied.
    ///
    /// # Errors
    /// See the type.
    pub fn count(&self, request: FindRequest) -> Result<u64> {
        reject_as_of(&request)?;
        let request = FindRequest { sort: None, projection: None, ..request };
        let query = parse(&request)?;
        let seen = match self.txn.collection_snapshot(&self.namespace) {
            Err(error) if is_about_a_view(&error) => {
                let mut found = FoundInView::new(&request, |pipeline| self.aggregate(pipeline))?;
                let mut count = 0;
                while found.next()?.is_some() {
                    count += 1;
                }
                return Ok(count);
            }
            seen => seen?,
        };
        let layer = seen.through(&self.txn.reads);
        count(&layer, &layer.context(), &query.with_default_collation(layer.context().collation)?)
    }

    /// The default collation.
    pub(crate) fn collation(&self) -> Result<Collation> {
        let seen = match self.txn.collection_snapshot(&self.namespace) {
            Err(error) if is_about_a_view(&error) => {
                let view = self.txn.db.inner.catalog.view(&self.txn.reads, &self.namespace)?;
                return Ok(view.map(|view| view.collation).unwrap_or_default());
            }
            seen => seen?,
        };
        Ok(seen.through(&self.txn.reads).context().collation.clone())
    }

    /// Runs a pipeline over the collection, with the changes that the transaction has made so far, also in other collections.
    /// Later changes are not visible to it. The stages `$out`, `$merge`, `$collStats` and `$indexStats` are refused with
    /// `OperationNotSupportedInTransaction`.
    ///
    /// # Errors
    /// See the type.
    pub fn aggregate(&self, request: &AggregateRequest) -> Result<Aggregation> {
        self.txn.check_active()?;
        self.txn.aggregate(&self.namespace, request)
    }

    /// Updates the documents that match.
    ///
    /// # Errors
    /// See the type.
    pub fn update(&mut self, request: UpdateRequest) -> Result<UpdateOutcome> {
        self.write(|sink| UpdateStatement::parse(request)?.run(sink))
    }

    /// Deletes the documents that match and returns their number.
    ///
    /// # Errors
    /// See the type.
    pub fn delete(&mut self, request: DeleteRequest) -> Result<u64> {
        self.write(|sink| DeleteStatement::parse(request)?.run(sink))
    }

    /// Updates or deletes the first document found, and returns it.
    ///
    /// # Errors
    /// See the type.
    pub fn find_and_modify(&mut self, request: FindAndModifyRequest) -> Result<FindAndModifyOutcome> {
        self.write(|sink| FindAndModifyStatement::parse(request)?.run(sink))
    }
}

/// Refuses `as_of`: a transaction reads its snapshot only.
fn reject_as_of(request: &FindRequest) -> Result<()> {
    match request.as_of {
        None => Ok(()),
        Some(_) => Err(QueryError::new(
            ErrorCode::OperationNotSupportedInTransaction,
            "as_of cannot be used in a transaction: read the collection outside of it",
        )),
    }
}

/// The cursor of a find in a transaction.
pub struct TransactionCursor {
    namespace: Namespace,
    documents: Documents,
}

enum Documents {
    Collection(Box<(Execution, Batch)>),
    /// As the transaction saw it when the find began.
    View(Box<FoundInView>),
}

impl TransactionCursor {
    /// The next document, `None` after the last. `txn` is the transaction of the find; changes that it has made since may or may
    /// not be visible.
    ///
    /// # Errors
    /// Those of filters and expressions; no documents are returned after an error.
    pub fn next(&mut self, txn: &Transaction) -> Result<Option<RawDocumentBuf>> {
        let (execution, batch) = match &mut self.documents {
            Documents::View(found) => return found.next(),
            Documents::Collection(found) => (&mut found.0, &mut found.1),
        };
        while batch.needs_fetch() {
            let seen = txn.collection_snapshot(&self.namespace)?;
            let layer = seen.through(&txn.reads);
            batch.fetch(execution, &layer, &layer.context())?;
        }
        Ok(batch.ready.pop_front())
    }

    /// All remaining documents.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn collect(mut self, txn: &Transaction) -> Result<Vec<RawDocumentBuf>> {
        let mut all = Vec::new();
        while let Some(document) = self.next(txn)? {
            all.push(document);
        }
        Ok(all)
    }

    /// The plan; `None` for a view.
    pub fn plan(&self) -> Option<&Plan> {
        match &self.documents {
            Documents::Collection(found) => Some(found.0.plan()),
            Documents::View(_) => None,
        }
    }

    /// Work done so far; that of reading a view is not counted.
    pub fn counters(&self) -> Counters {
        match &self.documents {
            Documents::Collection(found) => found.0.counters(),
            Documents::View(_) => Counters::default(),
        }
    }
}

impl std::fmt::Debug for TransactionCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionCursor")
            .field("namespace", &self.namespace)
            .field("plan", &self.plan())
            .finish_non_exhaustive()
    }
}
