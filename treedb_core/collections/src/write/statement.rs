//! Inserts, updates and deletes as requests ask for them, over any [`Sink`]: a collection in a write transaction of
//! its own, or in one that the caller commits. What is wrong with a request shows when it is read, before anything is
//! locked.

use bson::{Bson, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::access::{Flow, Sink};
use treedb_query::doc::{Collation, with_id};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::{self, Execution, Filter, Projection, Query, Update};

use crate::request::{
    DeleteRequest, FindAndModifyOutcome, FindAndModifyRequest, FindRequest, InsertOutcome, UpdateOutcome,
    UpdateRequest, everything,
};

/// Documents whose index entries are put in order together.
const AT_ONCE: usize = 16 << 10;

/// Inserts documents. What is refused is told in the outcome; with `ordered` the first refusal is the end.
///
/// # Errors
/// Those of the storage engine.
pub(crate) fn insert<D: AsRef<RawDocument>>(
    sink: &mut dyn Sink,
    documents: &[D],
    ordered: bool,
) -> Result<InsertOutcome> {
    let mut outcome = InsertOutcome::default();
    for (first, some) in (0..).step_by(AT_ONCE).zip(documents.chunks(AT_ONCE)) {
        let read: Vec<_> = some.iter().map(|document| with_id(document.as_ref())).collect();
        let valid: Option<Vec<_>> = read.iter().map(|document| document.as_deref().ok()).collect();
        if let Some(valid) = valid
            && sink.insert_all(&valid)?
        {
            outcome.inserted += some.len() as u64;
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

/// An [`UpdateRequest`], read.
pub(crate) struct Updating {
    query: Asked,
    update: Update,
    multi: bool,
    upsert: bool,
}

impl Updating {
    pub(crate) fn read(request: UpdateRequest) -> Result<Self> {
        let update = Update::read(&request.update, &request.array_filters)?;
        let mut query = Query::new(Filter::parse(&request.filter)?);
        query.hint = request.hint;
        let query = Asked::new(query, request.collation.as_deref())?;
        Ok(Updating { query, update, multi: request.multi, upsert: request.upsert })
    }

    pub(crate) fn run(self, sink: &mut dyn Sink) -> Result<UpdateOutcome> {
        let query = self.query.under(&collation_of(sink)?)?;
        let done = query::update(sink, &query, &self.update, self.multi, self.upsert)?;
        let upserted = done.upserted.as_deref().map(id_of).transpose()?;
        Ok(UpdateOutcome { matched: done.matched, modified: done.modified, upserted })
    }
}

/// A [`DeleteRequest`], read.
pub(crate) struct Deleting {
    query: Asked,
    limit: u64,
}

impl Deleting {
    pub(crate) fn read(request: DeleteRequest) -> Result<Self> {
        let mut query = Query::new(Filter::parse(&request.filter)?);
        query.hint = request.hint;
        let query = Asked::new(query, request.collation.as_deref())?;
        Ok(Deleting { query, limit: request.limit })
    }

    pub(crate) fn run(self, sink: &mut dyn Sink) -> Result<u64> {
        let query = self.query.under(&collation_of(sink)?)?;
        query::delete(sink, &query, self.limit)
    }
}

/// A [`FindAndModifyRequest`], read.
pub(crate) struct FindingAndModifying {
    query: Asked,
    projection: Option<Projection>,
    /// `None` deletes.
    update: Option<Update>,
    upsert: bool,
    after: bool,
}

impl FindingAndModifying {
    pub(crate) fn read(request: FindAndModifyRequest) -> Result<Self> {
        let FindAndModifyRequest { mut find, update, array_filters, upsert, after } = request;
        if find.as_of.is_some() {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                "the past cannot be changed: leave as_of out",
            ));
        }
        let projection = find.projection.take();
        let query = parse(&FindRequest { skip: 0, limit: 1, ..find })?;
        let projection = projection
            .map(|fields| Projection::parse_for(&fields, &query.query.filter))
            .transpose()?
            .flatten();
        let update = update.map(|update| Update::read(&update, &array_filters)).transpose()?;
        Ok(FindingAndModifying { query, projection, update, upsert, after })
    }

    /// True if the collection may have to be made for it.
    pub(crate) fn may_insert(&self) -> bool {
        self.upsert && self.update.is_some()
    }

    pub(crate) fn run(self, sink: &mut dyn Sink) -> Result<FindAndModifyOutcome> {
        let FindingAndModifying { query, projection, update, upsert, after } = self;
        let own = collation_of(sink)?;
        let query = query.under(&own)?;
        let projection = projection.map(|fields| fields.collated(&query.collation)).transpose()?;
        let old = first(sink, query.clone())?;
        let mut outcome = FindAndModifyOutcome { matched: old.is_some(), ..FindAndModifyOutcome::default() };
        let new = match (&old, &update) {
            (Some(old), update) => {
                let same = rawdoc! { "_id": { "$eq": RawBson::try_from(id_of(old)?)? } };
                // What the search asked for tells which elements of arrays the update means.
                let same = Query::new(Filter::parse(&same)?).collated(&own)?;
                let both = same.filter.clone().and(query.filter.clone());
                let both = Query { filter: both, collation: query.collation.clone(), ..same.clone() };
                match update {
                    Some(update) => query::update(sink, &both, update, false, false).map(drop)?,
                    None => query::delete(sink, &same, 1).map(drop)?,
                }
                if after { first(sink, same)? } else { None }
            }
            (None, Some(update)) if upsert => {
                let new = query::update(sink, &query, update, false, true)?.upserted;
                outcome.upserted = new.as_deref().map(id_of).transpose()?;
                new
            }
            (None, _) => None,
        };
        let document = if after { new } else { old };
        outcome.document = match (document, projection) {
            (Some(document), Some(projection)) => Some(projection.apply(&document)?),
            (document, _) => document,
        };
        Ok(outcome)
    }
}

/// The first document that `query` finds.
fn first(sink: &dyn Sink, query: Query) -> Result<Option<RawDocumentBuf>> {
    let mut found = None;
    sink.read(&mut |source, context| {
        let mut execution = Execution::new(source, context, query.clone())?;
        execution.run(source, context, &mut |document| {
            found = Some(document);
            Flow::Break(())
        })?;
        Ok(())
    })?;
    Ok(found)
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
    match document.get("_id")? {
        Some(id) => Ok(Bson::try_from(id)?),
        None => Err(QueryError::new(ErrorCode::InvalidIdField, "the document has no _id")),
    }
}

/// A request's parts, parsed.
pub(crate) fn parse(request: &FindRequest) -> Result<Asked> {
    let all = everything();
    let mut query = Query::parse(
        request.filter.as_ref().unwrap_or(&all),
        request.sort.as_deref(),
        request.projection.as_deref(),
    )?;
    query.skip = request.skip;
    query.limit = request.limit;
    query.hint = request.hint.clone();
    query.spill = !request.in_memory;
    Asked::new(query, request.collation.as_deref())
}

/// A query as a request has it.
pub(crate) struct Asked {
    query: Query,
    /// The request names a collation, which the query has.
    named: bool,
}

impl Asked {
    fn new(query: Query, collation: Option<&RawDocument>) -> Result<Self> {
        Ok(match collation.map(Collation::parse).transpose()? {
            Some(collation) => Asked { query: query.collated(&collation)?, named: true },
            None => Asked { query, named: false },
        })
    }

    /// The query, with this collation if the request named none.
    pub(crate) fn under(self, own: &Collation) -> Result<Query> {
        if self.named || own.is_simple() { Ok(self.query) } else { self.query.collated(own) }
    }
}
