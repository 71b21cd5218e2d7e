//! A collection as a transaction has it.

use bson::{Bson, RawDocument, RawDocumentBuf};

use crate::catalog::namespace::Namespace;
use crate::read::aggregate::{AggregateRequest, Aggregation};
use crate::read::batch::Batch;
use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, UpdateOutcome, UpdateRequest,
};
use crate::write::statement::{DeleteStatement, FindAndModifyStatement, UpdateStatement, id_of, parse};
use treedb_query::access::{Sink, Source};
use treedb_query::doc::{Collation, with_id};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::{Counters, Execution, Plan, count};

use super::Transaction;

/// A collection in a transaction: see [`Transaction::collection`]. What the calls do and which errors they have, the
/// methods of [`Collection`](crate::Collection) of the same names tell; besides, those that write have
/// `WriteConflict`, `TransactionTooLarge`, and `NoSuchTransaction` once one has failed.
#[derive(Debug)]
pub struct TransactionCollection<'t> {
    txn: &'t mut Transaction,
    namespace: Namespace,
}

impl<'t> TransactionCollection<'t> {
    pub(super) fn new(txn: &'t mut Transaction, namespace: Namespace) -> Self {
        TransactionCollection { txn, namespace }
    }

    /// The transaction, to step a [`TransactionCursor`] with.
    pub fn transaction(&self) -> &Transaction {
        self.txn
    }

    /// Inserts a document and returns its `_id`, which is made if it has none.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_one(&mut self, document: impl AsRef<RawDocument>) -> Result<Bson> {
        self.txn.write(&self.namespace, |sink| {
            let document = with_id(document.as_ref())?;
            sink.insert(&document)?;
            id_of(&document)
        })
    }

    /// Inserts documents: all of them, or the transaction has failed. Returns how many they were.
    ///
    /// # Errors
    /// See the type.
    pub fn insert_many<D: AsRef<RawDocument>>(&mut self, documents: &[D]) -> Result<u64> {
        self.txn.write(&self.namespace, |sink| {
            for document in documents {
                let document = with_id(document.as_ref())?;
                sink.insert(&document)?;
            }
            Ok(documents.len() as u64)
        })
    }

    /// The documents that match. The cursor is independent of the borrow of the transaction, which it is given again
    /// for each step.
    ///
    /// # Errors
    /// See the type.
    pub fn find(&self, request: &FindRequest) -> Result<TransactionCursor> {
        reject_as_of(request)?;
        let query = parse(request)?;
        let snapshot = self.txn.collection_snapshot(&self.namespace)?;
        let layer = snapshot.through(&self.txn.reads);
        let execution = Execution::new(&layer, query.for_source(&layer)?)?;
        let namespace = self.namespace.clone();
        Ok(TransactionCursor { namespace, execution, batch: Batch::new() })
    }

    /// The first document that matches.
    ///
    /// # Errors
    /// See the type.
    pub fn find_one(&self, filter: RawDocumentBuf) -> Result<Option<RawDocumentBuf>> {
        self.find(&FindRequest::filter(filter).limit(1))?.next(self.txn)
    }

    /// How many documents match, `skip` and `limit` of the request applied.
    ///
    /// # Errors
    /// See the type.
    pub fn count(&self, request: FindRequest) -> Result<u64> {
        reject_as_of(&request)?;
        let query = parse(&FindRequest { sort: None, projection: None, ..request })?;
        let snapshot = self.txn.collection_snapshot(&self.namespace)?;
        let layer = snapshot.through(&self.txn.reads);
        count(&layer, &query.for_source(&layer)?)
    }

    /// How strings compare in what does not say it.
    pub(crate) fn collation(&self) -> Result<Collation> {
        let snapshot = self.txn.collection_snapshot(&self.namespace)?;
        Ok(snapshot.through(&self.txn.reads).collation().clone())
    }

    /// Runs a pipeline over the collection. It sees what the transaction does, in other collections too; what the
    /// transaction changes later does not show. Stages that write (`$out`, `$merge`) and those that tell of the
    /// collection itself (`$collStats`, `$indexStats`) are refused with `OperationNotSupportedInTransaction`.
    ///
    /// # Errors
    /// See the type.
    pub fn aggregate(&self, request: &AggregateRequest) -> Result<Aggregation> {
        self.txn.check_active()?;
        self.txn.aggregate(&self.namespace, request)
    }

    /// Changes the documents that match.
    ///
    /// # Errors
    /// See the type.
    pub fn update(&mut self, request: UpdateRequest) -> Result<UpdateOutcome> {
        self.txn.write(&self.namespace, |sink| UpdateStatement::parse(request)?.run(sink))
    }

    /// Deletes the documents that match and returns how many they were.
    ///
    /// # Errors
    /// See the type.
    pub fn delete(&mut self, request: DeleteRequest) -> Result<u64> {
        self.txn.write(&self.namespace, |sink| DeleteStatement::parse(request)?.run(sink))
    }

    /// Changes or deletes the first document that a search finds, and hands it out.
    ///
    /// # Errors
    /// See the type.
    pub fn find_and_modify(&mut self, request: FindAndModifyRequest) -> Result<FindAndModifyOutcome> {
        self.txn.write(&self.namespace, |sink| FindAndModifyStatement::parse(request)?.run(sink))
    }
}

/// A transaction sees its snapshot, and nothing before it.
fn reject_as_of(request: &FindRequest) -> Result<()> {
    match request.as_of {
        None => Ok(()),
        Some(_) => Err(QueryError::new(
            ErrorCode::OperationNotSupportedInTransaction,
            "the past cannot be read in a transaction: ask the collection itself",
        )),
    }
}

/// The answer of a find in a transaction.
#[derive(Debug)]
pub struct TransactionCursor {
    namespace: Namespace,
    execution: Execution,
    batch: Batch,
}

impl TransactionCursor {
    /// The next document, `None` behind the last. `txn` is the transaction the find was made in; what it has changed
    /// since may show or not.
    ///
    /// # Errors
    /// Those of filters and expressions; nothing is handed out behind an error.
    pub fn next(&mut self, txn: &Transaction) -> Result<Option<RawDocumentBuf>> {
        while self.batch.needs_fetch() {
            let snapshot = txn.collection_snapshot(&self.namespace)?;
            self.batch.fetch(&mut self.execution, &snapshot.through(&txn.reads))?;
        }
        Ok(self.batch.ready.pop_front())
    }

    /// All the documents that are left.
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

    /// How the documents are found.
    pub fn plan(&self) -> &Plan {
        self.execution.plan()
    }

    /// Work done so far.
    pub fn counters(&self) -> Counters {
        self.execution.counters()
    }
}
