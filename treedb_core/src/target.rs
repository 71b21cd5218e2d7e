//! Where an action is carried out: in a collection, or in a collection as a transaction sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{Bson, RawArrayBuf, RawDocument, RawDocumentBuf};
use treedb_collections as engine;
use treedb_query::access::Flow;
use treedb_query::error::QueryError;
use treedb_storage::Durability;

use crate::error::{Error, ErrorCode, Result};

/// A transaction that collections share. `None` once it has ended.
pub(crate) type SharedTransaction = Arc<Mutex<Option<engine::Transaction>>>;

/// A collection, and the transaction it is used in.
#[derive(Clone)]
pub(crate) struct Target {
    db: engine::Database,
    name: String,
    /// `None` if the name is not valid: the error is that of the first action.
    collection: Option<engine::Collection>,
    transaction: Option<SharedTransaction>,
}

fn lock(shared: &SharedTransaction) -> MutexGuard<'_, Option<engine::Transaction>> {
    // A panic in a closure that was called with the lock held leaves a transaction that can still be dropped.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a transaction that has ended.
pub(crate) fn ended() -> QueryError {
    QueryError::new(
        ErrorCode::NoSuchTransaction,
        "the transaction has been committed or aborted: begin another",
    )
}

impl Target {
    /// The collection of this name: `collection`, in the database `test`, or `database.collection`.
    pub(crate) fn new(db: engine::Database, name: &str, transaction: Option<SharedTransaction>) -> Self {
        let name = if name.contains('.') { name.to_owned() } else { format!("test.{name}") };
        let collection = db.collection(&name).ok();
        Target { db, name, collection, transaction }
    }

    pub(crate) fn with_durability(&self, durability: Durability) -> Self {
        let collection = self.collection.as_ref().map(|collection| collection.with_durability(durability));
        Target { collection, ..self.clone() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn database(&self) -> &engine::Database {
        &self.db
    }

    /// The collection outside of any transaction: for what a transaction cannot do.
    ///
    /// # Errors
    /// `OperationNotSupportedInTransaction` inside of one.
    pub(crate) fn outside(&self, what: &str) -> Result<&engine::Collection> {
        match self.transaction {
            None => Ok(self.collection()?),
            Some(_) => Err(Error::command(
                ErrorCode::OperationNotSupportedInTransaction,
                format!("{what} is not possible in a transaction: use a collection of the database"),
            )),
        }
    }

    fn collection(&self) -> Result<&engine::Collection> {
        match &self.collection {
            Some(collection) => Ok(collection),
            None => Err(self.db.collection(&self.name).err().unwrap_or_else(ended).into()),
        }
    }

    /// Runs a statement in the transaction.
    fn inside<R>(
        &self,
        shared: &SharedTransaction,
        statement: impl FnOnce(&mut engine::TransactionCollection<'_>) -> Result<R, QueryError>,
    ) -> Result<R> {
        let mut transaction = lock(shared);
        let transaction = transaction.as_mut().ok_or_else(ended)?;
        Ok(statement(&mut transaction.collection(&self.name)?)?)
    }

    pub(crate) fn insert_one(&self, document: &RawDocument) -> Result<Bson> {
        match &self.transaction {
            None => Ok(self.collection()?.insert_one(document)?),
            Some(shared) => self.inside(shared, |c| c.insert_one(document)),
        }
    }

    /// In a transaction a refused document fails the transaction, so that there is no partial outcome.
    pub(crate) fn insert_many(
        &self,
        documents: &[RawDocumentBuf],
        ordered: bool,
    ) -> Result<engine::InsertOutcome> {
        match &self.transaction {
            None => Ok(self.collection()?.insert_many(documents, ordered)?),
            Some(shared) => self.inside(shared, |c| {
                let inserted = c.insert_many(documents)?;
                Ok(engine::InsertOutcome { inserted, errors: Vec::new() })
            }),
        }
    }

    pub(crate) fn find_one(&self, request: engine::FindRequest) -> Result<Option<RawDocumentBuf>> {
        let request = engine::FindRequest { limit: 1, ..request };
        match (&self.transaction, filter_alone(&request)) {
            // The engine answers this without a cursor.
            (None, true) => Ok(self.collection()?.find_one(request.filter.unwrap_or_default())?),
            _ => self.find(request)?.next(),
        }
    }

    pub(crate) fn find(&self, request: engine::FindRequest) -> Result<Documents> {
        match &self.transaction {
            None => Ok(Documents::Find(Box::new(self.collection()?.find(request)?))),
            Some(shared) => {
                let cursor = self.inside(shared, |c| c.find(&request))?;
                Ok(Documents::InTransaction(Box::new(cursor), Arc::clone(shared)))
            }
        }
    }

    pub(crate) fn for_each(
        &self,
        request: engine::FindRequest,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow, QueryError>,
    ) -> Result<()> {
        if self.transaction.is_none() {
            return Ok(self.collection()?.for_each(&request, visit)?);
        }
        let mut documents = self.find(request)?;
        while let Some(document) = documents.next()? {
            if visit(&document)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn aggregate(&self, request: &engine::AggregateRequest) -> Result<Documents> {
        let answer = match &self.transaction {
            None => self.collection()?.aggregate(request)?,
            Some(shared) => self.inside(shared, |c| c.aggregate(request))?,
        };
        Ok(Documents::Aggregate(Box::new(answer)))
    }

    /// The nearest documents.
    pub(crate) fn vector_search(
        &self,
        request: &engine::VectorSearchRequest,
    ) -> Result<engine::NearestAnswer> {
        match &self.transaction {
            None => Ok(self.collection()?.vector_search_answer(request)?),
            Some(shared) => self.inside(shared, |c| c.vector_search_answer(request)),
        }
    }

    /// Shows them to `visit`, until it breaks.
    pub(crate) fn for_each_neighbor(
        &self,
        request: &engine::VectorSearchRequest,
        visit: &mut dyn FnMut(engine::NeighborRef<'_>) -> Flow,
    ) -> Result<engine::SearchWork> {
        if self.transaction.is_none() {
            return Ok(self.collection()?.for_each_neighbor(request, &mut |neighbor| Ok(visit(neighbor)))?);
        }
        // The transaction is not held meanwhile: `visit` may use it.
        let answer = self.vector_search(request)?;
        for engine::Neighbor { document, distance, score } in &answer.neighbors {
            if visit(engine::NeighborRef { document, distance: *distance, score: *score }).is_break() {
                break;
            }
        }
        Ok(answer.work)
    }

    /// In a transaction, which one thread uses, one after another.
    pub(crate) fn vector_search_many(
        &self,
        requests: &[engine::VectorSearchRequest],
    ) -> Result<Vec<Vec<engine::Neighbor>>> {
        match &self.transaction {
            None => Ok(self.collection()?.vector_search_many(requests)?),
            Some(_) => requests.iter().map(|request| Ok(self.vector_search(request)?.neighbors)).collect(),
        }
    }

    pub(crate) fn count(&self, request: engine::FindRequest) -> Result<u64> {
        match &self.transaction {
            None => Ok(self.collection()?.count(request)?),
            Some(shared) => self.inside(shared, |c| c.count(request)),
        }
    }

    pub(crate) fn distinct(&self, path: &str, request: engine::FindRequest) -> Result<RawArrayBuf> {
        match &self.transaction {
            None => Ok(self.collection()?.distinct(path, request)?),
            Some(shared) => self.inside(shared, |c| c.distinct(path, &request)),
        }
    }

    pub(crate) fn update(&self, request: engine::UpdateRequest) -> Result<engine::UpdateOutcome> {
        match &self.transaction {
            None => Ok(self.collection()?.update(request)?),
            Some(shared) => self.inside(shared, |c| c.update(request)),
        }
    }

    pub(crate) fn delete(&self, request: engine::DeleteRequest) -> Result<u64> {
        match &self.transaction {
            None => Ok(self.collection()?.delete(request)?),
            Some(shared) => self.inside(shared, |c| c.delete(request)),
        }
    }

    pub(crate) fn find_and_modify(
        &self,
        request: engine::FindAndModifyRequest,
    ) -> Result<Option<RawDocumentBuf>> {
        let done = match &self.transaction {
            None => self.collection()?.find_and_modify(request)?,
            Some(shared) => self.inside(shared, |c| c.find_and_modify(request))?,
        };
        Ok(done.document)
    }
}

/// True for a request that says nothing but a filter and a limit.
fn filter_alone(request: &engine::FindRequest) -> bool {
    request.sort.is_none()
        && request.skip == 0
        && request.projection.is_none()
        && request.hint.is_none()
        && request.as_of.is_none()
        && request.collation.is_none()
}

/// Documents, one after another, wherever they come from.
pub(crate) enum Documents {
    Find(Box<engine::Cursor>),
    InTransaction(Box<engine::TransactionCursor>, SharedTransaction),
    Aggregate(Box<engine::Aggregation>),
}

impl Documents {
    pub(crate) fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        Ok(match self {
            Documents::Find(cursor) => cursor.next().transpose()?,
            Documents::Aggregate(answer) => answer.next().transpose()?,
            Documents::InTransaction(cursor, shared) => {
                let transaction = lock(shared);
                cursor.next(transaction.as_ref().ok_or_else(ended)?)?
            }
        })
    }
}
