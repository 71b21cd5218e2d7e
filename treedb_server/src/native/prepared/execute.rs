//! Preparing statements and executing them.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_collections::{DeleteRequest, ErrorCode, FindRequest, UpdateRequest};
use treedb_protocol::bytes::{Malformed, Reader};
use treedb_protocol::call::{
    Ack, CountWith, DeleteWith, Executed, FindWith, GetWith, InsertWith, MULTI, Prepare, Prepared, Shape,
    UNORDERED, UPSERT, UpdateWith,
};
use treedb_query::doc::{Doc, Element, MAX_DOCUMENT_SIZE, Origin};

use super::statement::{Kind, MAX_BYTES, Statement, most_built};
use super::template::{Parameters, Place, Template};
use crate::native::execute::{Done, Session, checked, get_by_id, lend_all, with_ack};
use crate::native::failure::Failure;
use crate::native::running::{Running, Stop};

impl Session {
    /// Prepares a statement.
    pub(in crate::native) fn prepare(&self, prepare: &Prepare<'_>, out: &mut Vec<u8>) -> Done {
        let mut parameters = Parameters::default();
        let mut compile = |document: &RawDocument, place| {
            fits(document)?;
            checked(document)?;
            Template::compile(document, place, &mut parameters)
        };
        let kind = match prepare.shape {
            Shape::Get => Kind::Get,
            Shape::Insert(document) => Kind::Insert(compile(document, Place::Value)?),
            Shape::Find { filter, sort, projection } => {
                let plain = |document: &RawDocument| {
                    fits(document)?;
                    checked(document)?;
                    Template::compile(document, Place::Nowhere, &mut Parameters::default())?;
                    Ok::<RawDocumentBuf, Failure>(document.to_owned())
                };
                Kind::Find {
                    filter: compile(filter, Place::Filter)?,
                    sort: sort.map(plain).transpose()?,
                    projection: projection.map(plain).transpose()?,
                }
            }
            Shape::Update { filter, update } => Kind::Update {
                filter: compile(filter, Place::Filter)?,
                update: compile(update, Place::Update)?,
            },
            Shape::Delete(filter) => Kind::Delete(compile(filter, Place::Filter)?),
            Shape::Count(filter) => Kind::Count(compile(filter, Place::Filter)?),
            _ => return Err(Failure::unknown()),
        };
        let parameters = if matches!(kind, Kind::Get) { 1 } else { parameters.count()? };
        let by_id = match prepare.shape {
            Shape::Get => true,
            Shape::Find { filter, .. } | Shape::Update { filter, .. } => asks_for_id(filter),
            Shape::Delete(filter) | Shape::Count(filter) => asks_for_id(filter),
            _ => false,
        };
        let collection = self.collection(prepare.namespace, Ack::Server)?;
        let statement = Statement::new(kind, collection, parameters, by_id);
        let statement = self.statements.keep(statement)?;
        Prepared { statement, parameters: u16::try_from(parameters).unwrap_or(u16::MAX) }.answer(out);
        Ok(())
    }

    /// Executes a statement.
    pub(in crate::native) fn execute(
        &self,
        statement: &Statement,
        executed: &Executed<'_>,
        running: &mut Running<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let Executed { flags, rest, .. } = *executed;
        let Statement { kind, collection, .. } = statement;
        let fill = Fill { statement, limit: most_built(rest.len()) };
        match kind {
            Kind::Get => {
                let with = read(flags, rest, 0, GetWith::read)?;
                let values = fill.values(with.values)?;
                let id = values.first().map(Element::value).ok_or_else(missing)?;
                return get_by_id(collection, id, running, out);
            }
            Kind::Find { filter, sort, projection } => {
                let with = read(flags, rest, 0, FindWith::read)?;
                let plain = sort.is_none() && projection.is_none() && with.skip == 0;
                if let Some(field) = filter.equality().filter(|_| plain)
                    && let [value] = fill.values(with.values)?.as_slice()
                    && lend_all(with.batch, out, &mut |visit| {
                        Ok(collection.lend_equal(field, value.value(), with.limit, visit)?)
                    })?
                {
                    return Ok(());
                }
                running.beware_of_views(collection)?;
                let request = FindRequest {
                    filter: Some(fill.document(filter, with.values)?),
                    sort: sort.clone(),
                    projection: projection.clone(),
                    skip: with.skip,
                    limit: with.limit,
                    ..FindRequest::default()
                };
                self.first_batch(collection, request, with.batch, out)?;
            }
            Kind::Insert(template) => {
                let with = read(flags, rest, Ack::BITS | UNORDERED, InsertWith::read)?;
                // Where values are not repeated this is what is needed.
                let room = template.room(with.rows.len(), rest.len()).min(fill.limit);
                let (mut bytes, mut ends) = (Vec::with_capacity(room), Vec::with_capacity(with.rows.len()));
                let (mut values, mut valid) = (Vec::with_capacity(statement.parameters), true);
                for row in &with.rows {
                    let start = bytes.len();
                    fill.read(row, &mut values)?;
                    template.fill(&values, fill.limit, &mut bytes)?;
                    ends.push(bytes.len());
                    valid = valid && template.is_valid_with(&values, bytes.len() - start);
                }
                let origin = if valid { Origin::Validated } else { Origin::Program };
                let mut start = 0;
                let documents: Vec<&RawDocument> = ends
                    .into_iter()
                    .map(|end| {
                        let document = bytes.get(start..end).unwrap_or_default();
                        start = end;
                        RawDocument::from_bytes(document)
                    })
                    .collect::<Result<_, _>>()
                    .map_err(|error| Failure::new(ErrorCode::InternalError, error.to_string()))?;
                self.insert_into(&with_ack(collection, with.ack), &documents, with.ordered, origin, out)?;
            }
            Kind::Update { filter, update } => {
                let with = read(flags, rest, Ack::BITS | MULTI | UPSERT, UpdateWith::read)?;
                let request = UpdateRequest {
                    multi: with.multi,
                    upsert: with.upsert,
                    ..UpdateRequest::one(
                        fill.document(filter, with.values)?,
                        fill.document(update, with.values)?,
                    )
                };
                self.update_in(&with_ack(collection, with.ack), request, out)?;
            }
            Kind::Delete(filter) => {
                let with = read(flags, rest, Ack::BITS, DeleteWith::read)?;
                let request = DeleteRequest {
                    limit: with.limit,
                    ..DeleteRequest::many(fill.document(filter, with.values)?)
                };
                let deleted = with_ack(collection, with.ack).delete(request)?;
                out.extend_from_slice(&deleted.to_le_bytes());
            }
            Kind::Count(filter) => {
                let with = read(flags, rest, 0, CountWith::read)?;
                let filter = fill.document(filter, with.values)?;
                running.beware_of_views(collection)?;
                let counted =
                    collection.count(FindRequest::filter(filter).skip(with.skip).limit(with.limit))?;
                out.extend_from_slice(&counted.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// True if the first field of a filter is `_id`, and a parameter.
fn asks_for_id(filter: &RawDocument) -> bool {
    match filter.iter().next() {
        Some(Ok((name, RawBsonRef::Document(value)))) => {
            name == "_id"
                && value.iter().next().is_some_and(|first| first.is_ok_and(|(name, _)| name == "$param"))
        }
        _ => false,
    }
}

/// Refuses what no statement can hold before looking at it more closely.
fn fits(document: &RawDocument) -> Done {
    if document.as_bytes().len() <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("a prepared statement has at most {MAX_BYTES} bytes");
    Err(Failure::new(ErrorCode::ExceededMemoryLimit, message))
}

fn missing() -> Failure {
    Failure::new(ErrorCode::BadValue, "the _id is missing")
}

/// Reads what follows the number of a statement, to its end.
fn read<'a, T>(
    flags: u16,
    rest: &'a [u8],
    known: u16,
    read: impl FnOnce(u16, &mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<T, Failure> {
    let mut body = Reader::new(rest);
    let with = read(flags, &mut body)?;
    body.finish()?;
    if flags & !known != 0 {
        let what = format!("the statement has no flags {:#06x}", flags & !known);
        return Err(Malformed { field: "flags", offset: 0, what }.into());
    }
    Ok(with)
}

/// Fills in the templates of a statement.
struct Fill<'s> {
    statement: &'s Statement,
    limit: usize,
}

impl Fill<'_> {
    /// The values of an execution, of which there are as many as the statement takes.
    fn values<'v>(&self, values: &'v RawDocument) -> Result<Vec<Element<'v>>, Failure> {
        let mut all = Vec::with_capacity(self.statement.parameters);
        self.read(values, &mut all)?;
        Ok(all)
    }

    /// The same, into a list that is used again.
    fn read<'v>(&self, values: &'v RawDocument, all: &mut Vec<Element<'v>>) -> Result<(), Failure> {
        checked(values)?;
        all.clear();
        let mut elements = Doc::from(values).elements();
        for element in elements.by_ref().take(self.statement.parameters) {
            all.push(element);
        }
        if elements.next().is_none() && all.len() == self.statement.parameters {
            return Ok(());
        }
        let there = Doc::from(values).elements().count();
        let message = format!("the statement takes {} values, not {there}", self.statement.parameters);
        Err(Failure::new(ErrorCode::BadValue, message))
    }

    fn document(&self, template: &Template, values: &RawDocument) -> Result<RawDocumentBuf, Failure> {
        let mut bytes = Vec::with_capacity(template.size() + values.as_bytes().len());
        template.fill(&self.values(values)?, self.limit.min(2 * MAX_DOCUMENT_SIZE), &mut bytes)?;
        RawDocumentBuf::from_bytes(bytes)
            .map_err(|error| Failure::new(ErrorCode::InternalError, error.to_string()))
    }
}
