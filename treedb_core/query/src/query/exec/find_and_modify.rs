//! Changes or deletes the first document of an order, and returns it.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::{Change, Flow, Sink};
use crate::doc::{Collation, with_id};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::update::Update;
use crate::query::{Execution, Filter, Query};

use super::write::{change_rows, collated};

/// What [`find_and_modify`] did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Modified {
    /// The document before the change; `None` if none matched.
    pub old: Option<RawDocumentBuf>,
    /// The document after it; `None` if it was deleted, or if there is none.
    pub new: Option<RawDocumentBuf>,
    /// `new` was inserted, because none matched.
    pub upserted: bool,
}

/// Changes the first document that `query` finds by `update`, or deletes it if that is `None`. Skip, limit and projection
/// of the query are ignored. With `upsert`, a document made from filter and update is inserted if there is none. `own` is
/// the collation of the collection, by which its `_id`s compare.
///
/// A document that others have changed meanwhile, so that it no longer matches, is passed over.
///
/// # Errors
/// Those of [`update`](super::update()) and [`delete`](super::delete).
pub fn find_and_modify(
    sink: &mut dyn Sink,
    query: &Query,
    own: &Collation,
    update: Option<&Update>,
    upsert: bool,
) -> Result<Modified> {
    let update = update.map(|update| collated(update, &query.collation)).transpose()?;
    let update = update.as_deref();
    let mut query = Query { skip: 0, limit: 1, projection: None, ..query.clone() };
    if query.sort.is_none() {
        // Whatever document is found is the first one.
        if let Some(done) = change_one(sink, &query, update)? {
            return Ok(done);
        }
    } else {
        while let Some(found) = first(sink, &query)? {
            let same = Query::new(Filter::parse(&with_the_id_of(&found)?)?).collated(own)?;
            // What the search asked for tells which elements of arrays the update means.
            let filter = same.filter.clone().and(query.filter.again().into_owned());
            let both = Query { filter, collation: query.collation.clone(), ..same };
            if let Some(done) = change_one(sink, &both, update)? {
                return Ok(done);
            }
            query.skip += 1;
        }
    }
    match update {
        Some(update) if upsert => {
            let new = update.upsert(&query.filter)?;
            let new = with_id(&new)?.into_owned();
            sink.insert(&new)?;
            Ok(Modified { old: None, new: Some(new), upserted: true })
        }
        _ => Ok(Modified::default()),
    }
}

/// Changes the first document that `query` finds, in whatever order; `None` if there is none.
fn change_one(sink: &mut dyn Sink, query: &Query, update: Option<&Update>) -> Result<Option<Modified>> {
    let mut done = Modified::default();
    let changed = change_rows(sink, query, 1, &mut |old| {
        done.old = Some(old.to_owned());
        let Some(update) = update else { return Ok(Change::Delete) };
        let new = update.apply(old, &query.filter)?;
        done.new = Some(new.clone().unwrap_or_else(|| old.to_owned()));
        Ok(match new {
            None => Change::Keep,
            Some(new) if update.is_replacement() => Change::Replace(new),
            Some(new) => Change::Update(new),
        })
    })?;
    Ok((changed.matched > 0).then_some(done))
}

/// The first document that `query` finds.
fn first(sink: &dyn Sink, query: &Query) -> Result<Option<RawDocumentBuf>> {
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

/// The filter for the `_id` of a stored document.
fn with_the_id_of(document: &RawDocument) -> Result<RawDocumentBuf> {
    let Some(id) = document.get("_id")? else {
        return Err(QueryError::new(ErrorCode::InvalidIdField, "the document has no _id"));
    };
    let mut equal = RawDocumentBuf::new();
    equal.append(cstr!("$eq"), id);
    Ok(rawdoc! { "_id": equal })
}
