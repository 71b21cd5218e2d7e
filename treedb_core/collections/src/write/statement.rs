//! Insert, update, delete and findAndModify statements, over any [`Sink`]: a collection in a write transaction of its own, in a
//! [`WriteBatch`](crate::WriteBatch) or in a [`Transaction`](crate::Transaction). A request is parsed, and refused if it is
//! invalid, before anything is locked.

use std::borrow::Cow;

use bson::oid::ObjectId;
use bson::{Bson, RawDocument};

use treedb_query::access::Sink;
use treedb_query::doc::{Collation, Doc, Origin, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::explain::Write;
use treedb_query::query::expr::Variables;
use treedb_query::query::{self, Filter, Projection, Query, Update};

use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, InsertOutcome, UpdateOutcome,
    UpdateRequest, empty_filter,
};

/// Documents whose index entries are sorted together.
const BATCH_DOCUMENTS: usize = 16 << 10;

/// Inserts documents of this origin. The outcome reports refused documents; with `ordered` the first one ends the insert.
///
/// # Errors
/// Those of the storage engine.
pub(crate) fn insert<D: AsRef<RawDocument>>(
    sink: &mut dyn Sink,
    documents: &[D],
    ordered: bool,
    origin: Origin,
) -> Result<InsertOutcome> {
    let mut outcome = InsertOutcome::default();
    for (first, chunk) in (0..).step_by(BATCH_DOCUMENTS).zip(documents.chunks(BATCH_DOCUMENTS)) {
        let read: Vec<_> = chunk.iter().map(|document| origin.to_insert(document.as_ref())).collect();
        let valid: Option<Vec<_>> = read.iter().map(|document| document.as_deref().ok()).collect();
        if let Some(valid) = valid
            && sink.insert_all(&valid)?
        {
            outcome.inserted += chunk.len() as u64;
            continue;
        }
        for (at, document) in read.into_iter().enumerate() {
            match document.and_then(|document| sink.insert(&document)) {
                Ok(_) => outcome.inserted += 1,
                Err(error) if error.source.is_some() => return Err(error),
                Err(error) => {
                    outcome.errors.push((first + at, error));
                    if ordered {
                        return Ok(outcome);
                    }
                }
            }
        }
    }
    Ok(outcome)
}

/// A parsed [`UpdateRequest`].
pub(crate) struct UpdateStatement {
    query: ParsedQuery,
    update: Update,
    multi: bool,
    upsert: bool,
    /// The first document of an order is updated.
    sorted: bool,
}

impl UpdateStatement {
    pub(crate) fn parse(request: UpdateRequest) -> Result<Self> {
        let sorted = request.sort.is_some();
        if sorted && request.multi {
            return Err(QueryError::new(ErrorCode::FailedToParse, "Cannot specify sort with multi=true"));
        }
        let collation = request.collation.as_deref();
        let variables = variables_of(request.variables.as_deref(), collation)?;
        let update = Update::read_with(&request.update, &request.array_filters, &variables)?;
        update.refuse_many(request.multi)?;
        let query = Query::parse_with(&request.filter, request.sort.as_deref(), None, &variables)?;
        let mut query = query.hinted(request.hint)?;
        query.limit = u64::from(sorted);
        let query = ParsedQuery::new(query, collation)?;
        Ok(UpdateStatement { query, update, multi: request.multi, upsert: request.upsert, sorted })
    }

    /// What is explained: how the documents are found, how many at most, and what becomes of them.
    pub(crate) fn explained(&self) -> (&ParsedQuery, u64, Write<'_>) {
        let write = Write::Update { update: &self.update, upsert: self.upsert };
        (&self.query, u64::from(!self.multi), write)
    }

    pub(crate) fn run(&self, sink: &mut dyn Sink) -> Result<UpdateOutcome> {
        let own = collation_of(sink)?;
        let query = &*self.query.for_collection(&own)?;
        if self.sorted {
            let done = query::find_and_modify(sink, query, &own, Some(&self.update), self.upsert)?;
            let upserted = done.new.as_deref().filter(|_| done.upserted).map(id_of).transpose()?;
            let modified = u64::from(done.old.is_some() && done.old != done.new);
            return Ok(UpdateOutcome { matched: u64::from(done.old.is_some()), modified, upserted });
        }
        let done = query::update(sink, query, &self.update, self.multi, self.upsert)?;
        let upserted = done.upserted.as_deref().map(id_of).transpose()?;
        Ok(UpdateOutcome { matched: done.matched, modified: done.modified, upserted })
    }
}

/// A parsed [`DeleteRequest`].
pub(crate) struct DeleteStatement {
    query: ParsedQuery,
    limit: u64,
}

impl DeleteStatement {
    pub(crate) fn parse(request: DeleteRequest) -> Result<Self> {
        let collation = request.collation.as_deref();
        let variables = variables_of(request.variables.as_deref(), collation)?;
        let mut query = Query::new(Filter::parse_search(&request.filter, &variables)?);
        query.hint = request.hint;
        let query = ParsedQuery::new(query, collation)?;
        Ok(DeleteStatement { query, limit: request.limit })
    }

    /// As [`UpdateStatement::explained`].
    pub(crate) fn explained(&self) -> (&ParsedQuery, u64, Write<'_>) {
        (&self.query, self.limit, Write::Delete)
    }

    pub(crate) fn run(&self, sink: &mut dyn Sink) -> Result<u64> {
        let own = collation_of(sink)?;
        query::delete(sink, &*self.query.for_collection(&own)?, self.limit)
    }
}

/// A parsed [`FindAndModifyRequest`].
pub(crate) struct FindAndModifyStatement {
    query: ParsedQuery,
    projection: Option<Projection>,
    /// `None` deletes.
    update: Option<Update>,
    upsert: bool,
    after: bool,
}

impl FindAndModifyStatement {
    pub(crate) fn parse(request: FindAndModifyRequest) -> Result<Self> {
        let FindAndModifyRequest { mut find, update, array_filters, upsert, after } = request;
        if find.as_of.is_some() {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                "findAndModify cannot be used with as_of: earlier versions cannot be changed",
            ));
        }
        let projection = find.projection.take();
        let variables = variables_of(find.variables.as_deref(), find.collation.as_deref())?.into_owned();
        let query = parse(&FindRequest { skip: 0, limit: 1, ..find })?;
        let projection = projection
            .map(|fields| Projection::parse_with(&fields, &query.query.filter, &variables))
            .transpose()?
            .flatten();
        let update =
            update.map(|update| Update::read_with(&update, &array_filters, &variables)).transpose()?;
        Ok(FindAndModifyStatement { query, projection, update, upsert, after })
    }

    /// As [`UpdateStatement::explained`].
    pub(crate) fn explained(&self) -> (&ParsedQuery, u64, Write<'_>) {
        let write = match &self.update {
            Some(update) => Write::Update { update, upsert: self.upsert },
            None => Write::Delete,
        };
        (&self.query, 1, write)
    }

    /// True if it may insert, so that the collection must exist.
    pub(crate) fn may_insert(&self) -> bool {
        self.upsert && self.update.is_some()
    }

    pub(crate) fn run(&self, sink: &mut dyn Sink) -> Result<FindAndModifyOutcome> {
        let own = collation_of(sink)?;
        let query = &*self.query.for_collection(&own)?;
        let projection =
            self.projection.as_ref().map(|fields| fields.clone().collated(&query.collation)).transpose()?;
        let done = query::find_and_modify(sink, query, &own, self.update.as_ref(), self.upsert)?;
        let mut outcome =
            FindAndModifyOutcome { matched: done.old.is_some(), ..FindAndModifyOutcome::default() };
        if done.upserted {
            outcome.upserted = done.new.as_deref().map(id_of).transpose()?;
        }
        let document = if self.after { done.new } else { done.old };
        outcome.document = match (document, projection) {
            (Some(document), Some(projection)) => Some(projection.apply(&document)?),
            (document, _) => document,
        };
        Ok(outcome)
    }
}

/// The collation of the collection that is written.
fn collation_of(sink: &dyn Sink) -> Result<Collation> {
    let mut collation = Collation::Simple;
    sink.read(&mut |_, context| {
        collation = context.collation.clone();
        Ok(())
    })?;
    Ok(collation)
}

/// The `_id` of a document that has one.
pub(crate) fn id_of(document: &RawDocument) -> Result<Bson> {
    let id = Doc::from(document).find(b"_id");
    if let Some(Value::ObjectId(id)) = id.map(|id| id.value()) {
        return Ok(Bson::ObjectId(ObjectId::from_bytes(*id)));
    }
    match document.get("_id")? {
        Some(id) => Ok(Bson::try_from(id)?),
        None => Err(QueryError::new(ErrorCode::InvalidIdField, "the document has no _id")),
    }
}

/// The variables of a request. Their strings compare by its collation, whatever that of the collection is.
fn variables_of(
    variables: Option<&RawDocument>,
    collation: Option<&RawDocument>,
) -> Result<Cow<'static, Variables>> {
    match variables {
        None => Ok(Cow::Borrowed(Variables::NONE)),
        given => {
            Variables::of(given, &collation.map(Collation::parse).transpose()?.unwrap_or(Collation::Simple))
        }
    }
}

/// Parses a request.
pub(crate) fn parse(request: &FindRequest) -> Result<ParsedQuery> {
    let all = empty_filter();
    let variables = variables_of(request.variables.as_deref(), request.collation.as_deref())?;
    let query = Query::parse_with(
        request.filter.as_ref().unwrap_or(&all),
        request.sort.as_deref(),
        request.projection.as_deref(),
        &variables,
    )?;
    let mut query = query.hinted(request.hint.clone())?;
    query.skip = request.skip;
    query.limit = request.limit;
    query.spill = !request.in_memory;
    query.bounds = request.bounds.clone();
    query.returns = request.returns;
    ParsedQuery::new(query, request.collation.as_deref())
}

/// The query of a request, before the collection's default collation is known.
pub(crate) struct ParsedQuery {
    query: Query,
    /// The request has a collation, and `query` uses it.
    named: bool,
}

impl ParsedQuery {
    fn new(query: Query, collation: Option<&RawDocument>) -> Result<Self> {
        Ok(match collation.map(Collation::parse).transpose()? {
            Some(collation) => ParsedQuery { query: query.collated(&collation)?, named: true },
            None => ParsedQuery { query, named: false },
        })
    }

    /// The query over a collection with this default collation.
    pub(crate) fn for_collection(&self, own: &Collation) -> Result<Cow<'_, Query>> {
        Ok(match self.named || own.is_simple() {
            true => Cow::Borrowed(&self.query),
            false => Cow::Owned(self.query.clone().collated(own)?),
        })
    }

    /// The query, with this collation if the request named none.
    pub(crate) fn with_default_collation(self, own: &Collation) -> Result<Query> {
        if self.named || own.is_simple() { Ok(self.query) } else { self.query.collated(own) }
    }
}
