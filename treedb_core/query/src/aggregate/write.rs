//! `$out` and `$merge`: the documents go into a collection.
//!
//! `$out` puts them in the place of the collection's documents, in one transaction: readers see the old ones or the
//! new. `$merge` works in batches, each a transaction.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::{Change, Sink};
use crate::doc::write::Writer;
use crate::doc::{Collation, Doc, Element, OwnedValue, Path, Value, with_id};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Globals, Scope, check_variable, merged};
use crate::query::{Filter, Query, delete, find_rows};

use super::pipeline::{Parser, Pipeline, Stage};
use super::stream::{Docs, List, Stream};
use super::world::Context;

/// Documents of `$merge` in one transaction.
const BATCH: usize = 1000;
/// Bytes of them.
const BATCH_BYTES: usize = 8 << 20;

/// `$out` or `$merge`.
#[derive(Debug)]
pub(super) struct Write {
    database: Option<String>,
    collection: String,
    how: How,
}

#[derive(Debug)]
enum How {
    Out,
    Merge {
        on: Vec<Path>,
        matched: Matched,
        unmatched: Unmatched,
        variables: Vec<Expr>,
        collation: Collation,
    },
}

#[derive(Debug)]
enum Matched {
    Replace,
    Keep,
    Merge,
    Fail,
    Pipeline(Pipeline),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Unmatched {
    Insert,
    Discard,
    Fail,
}

/// A collection's name: a string, or `{ db, coll }`.
fn target(stage: &str, value: Value<'_>) -> Result<(Option<String>, String)> {
    match value {
        Value::String(name) => Ok((None, String::from_utf8_lossy(name).into_owned())),
        Value::Document(doc) => {
            super::only(stage, doc, &["db", "coll"])?;
            let database = super::string(stage, doc, "db")?.map(str::to_owned);
            Ok((database, super::required(stage, doc, "coll")?.to_owned()))
        }
        _ => Err(super::failed(format!("{stage} needs the name of a collection, or {{ db: .., coll: .. }}"))),
    }
}

impl Write {
    pub(super) fn parse(stage: &Element<'_>, parser: &Parser) -> Result<Write> {
        if stage.name == b"$out" {
            let (database, collection) = target("$out", stage.value())?;
            return Ok(Write { database, collection, how: How::Out });
        }
        const NAME: &str = "$merge";
        let fields = match stage.value() {
            Value::Document(doc) => doc,
            value => {
                let (database, collection) = target(NAME, value)?;
                let how = Self::merge(Doc::EMPTY, parser)?;
                return Ok(Write { database, collection, how });
            }
        };
        super::only(NAME, fields, &["into", "on", "let", "whenMatched", "whenNotMatched"])?;
        let into = fields.get("into").ok_or_else(|| super::failed("$merge needs the field 'into'"))?;
        let (database, collection) = target(NAME, into)?;
        Ok(Write { database, collection, how: Self::merge(fields, parser)? })
    }

    fn merge(fields: Doc<'_>, parser: &Parser) -> Result<How> {
        let on = match fields.get("on") {
            None => vec![Path::new("_id")],
            Some(Value::String(path)) => vec![Path::new(&String::from_utf8_lossy(path))],
            Some(Value::Array(paths)) if !paths.is_empty() => paths
                .elements()
                .map(|path| match path.value() {
                    Value::String(path) => Ok(Path::new(&String::from_utf8_lossy(path))),
                    _ => Err(super::failed("$merge: 'on' must be a field or an array of fields")),
                })
                .collect::<Result<_>>()?,
            Some(_) => return Err(super::failed("$merge: 'on' must be a field or an array of fields")),
        };
        let mut names = parser.names.globals().to_vec();
        let mut variables = Vec::new();
        match fields.get("let") {
            Some(Value::Document(given)) => {
                for variable in given.elements() {
                    if variable.name != b"new" {
                        check_variable(variable.name_str())?;
                    }
                    variables.push(Expr::parse(variable.value(), &parser.names)?);
                    names.push(variable.name_str().to_owned());
                }
            }
            _ => {
                variables.push(Expr::parse(Value::String(b"$$ROOT"), &parser.names)?);
                names.push("new".to_owned());
            }
        }
        let matched = match fields.get("whenMatched") {
            None | Some(Value::String(b"merge")) => Matched::Merge,
            Some(Value::String(b"replace")) => Matched::Replace,
            Some(Value::String(b"keepExisting")) => Matched::Keep,
            Some(Value::String(b"fail")) => Matched::Fail,
            Some(stages @ Value::Array(_)) => {
                Matched::Pipeline(parser.within(parser.names.renamed(names))?.pipeline(stages)?)
            }
            Some(_) => {
                return Err(super::failed(
                    "$merge: 'whenMatched' must be replace, keepExisting, merge, fail or a pipeline",
                ));
            }
        };
        let unmatched = match fields.get("whenNotMatched") {
            None | Some(Value::String(b"insert")) => Unmatched::Insert,
            Some(Value::String(b"discard")) => Unmatched::Discard,
            Some(Value::String(b"fail")) => Unmatched::Fail,
            Some(_) => return Err(super::failed("$merge: 'whenNotMatched' must be insert, discard or fail")),
        };
        let collation = parser.names.collation().clone();
        Ok(How::Merge { on, matched, unmatched, variables, collation })
    }

    /// The stage in MongoDB's notation, but for what is done with documents that are there.
    pub(super) fn written(&self) -> RawDocumentBuf {
        let mut into = RawDocumentBuf::new();
        if let Some(database) = &self.database {
            into.append(cstr!("db"), database.as_str());
        }
        into.append(cstr!("coll"), self.collection.as_str());
        match self.how {
            How::Out => rawdoc! { "$out": into },
            How::Merge { .. } => rawdoc! { "$merge": { "into": into } },
        }
    }

    fn run(&self, mut input: Docs, context: &Context) -> Result<()> {
        let database = self.database.as_deref().unwrap_or(&context.database);
        let namespace = format!("{database}.{}", self.collection);
        match &self.how {
            How::Out => context.world.change(&namespace, &mut |sink| {
                delete(sink, &Query::new(Filter::all()), 0)?;
                while let Some(document) = input.next()? {
                    sink.insert(&with_id(&document)?)?;
                }
                Ok(())
            }),
            How::Merge { on, .. } => loop {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                let by_id = on.iter().any(|path| path.as_str() == "_id");
                while batch.len() < BATCH && bytes < BATCH_BYTES {
                    let Some(document) = input.next()? else { break };
                    bytes += document.as_bytes().len();
                    // What is found by other fields keeps the `_id` it has.
                    batch.push(if by_id { with_id(&document)?.into_owned() } else { document });
                }
                if batch.is_empty() {
                    return Ok(());
                }
                context.world.change(&namespace, &mut |sink| {
                    batch.iter().try_for_each(|document| self.merge_one(sink, document, context))
                })?;
            },
        }
    }

    fn merge_one(&self, sink: &mut dyn Sink, new: &RawDocument, context: &Context) -> Result<()> {
        let How::Merge { on, matched, unmatched, variables, collation } = &self.how else { return Ok(()) };
        let doc = Doc::from(new);
        let mut filter = Writer::new(64);
        for path in on {
            let value = path.get(doc).unwrap_or(Value::Null);
            if matches!(value, Value::Array(_) | Value::Null | Value::Undefined) {
                return Err(QueryError::new(
                    ErrorCode::Location51132,
                    format!(
                        "$merge write error: 'on' field '{path}' cannot be missing, null, undefined or an array"
                    ),
                ));
            }
            let open = filter.open_document(path.as_str().as_bytes());
            filter.value(b"$eq", value);
            filter.close(open);
        }
        let query = Query::new(Filter::parse(&filter.finish())?).collated(collation)?;
        let mut rows = Vec::new();
        sink.read(&mut |source, context| {
            rows = find_rows(source, context, &query, 2)?;
            Ok(())
        })?;
        let row = match rows.as_slice() {
            [] => {
                return match unmatched {
                    Unmatched::Insert => sink.insert(&with_id(new)?).map(drop),
                    Unmatched::Discard => Ok(()),
                    Unmatched::Fail => Err(QueryError::new(
                        ErrorCode::MergeStageNoMatchingDocument,
                        "$merge could not find a matching document in the target collection",
                    )),
                };
            }
            [row] => *row,
            _ => {
                return Err(QueryError::new(
                    ErrorCode::Location51183,
                    "$merge: the 'on' fields find more than one document: create a unique index on them",
                ));
            }
        };
        sink.modify(row, &mut |old| {
            let replaced = match matched {
                Matched::Keep => return Ok(Change::Keep),
                Matched::Fail => {
                    return Err(QueryError::new(
                        ErrorCode::DuplicateKey,
                        "$merge: a document with the same 'on' fields exists, and 'whenMatched' is 'fail'",
                    ));
                }
                Matched::Replace => new.to_owned(),
                Matched::Merge => merged(&[Doc::from(old), Doc::from(new)]).finish(),
                Matched::Pipeline(pipeline) => changed(pipeline, variables, old, new, context)?,
            };
            same_id(old, &replaced)
        })?;
        Ok(())
    }
}

/// The change, with the row's own `_id`.
fn same_id(old: &RawDocument, new: &RawDocument) -> Result<Change> {
    let own = Doc::from(old).find(b"_id");
    let mut out = Writer::new(new.as_bytes().len() + 16);
    own.iter().for_each(|id| out.copy(id));
    for element in Doc::from(new).elements() {
        if element.name != b"_id" {
            out.copy(&element);
        } else if own.is_some_and(|own| crate::doc::compare::compare(own.value(), element.value()).is_ne()) {
            return Err(QueryError::new(
                ErrorCode::ImmutableField,
                "$merge failed to update the matching document, did you attempt to modify the _id?",
            ));
        }
    }
    let new = crate::query::finished(out)?;
    Ok(if new.as_bytes() == old.as_bytes() { Change::Keep } else { Change::Update(new) })
}

/// What a pipeline makes of the document that is there.
fn changed(
    pipeline: &Pipeline,
    variables: &[Expr],
    old: &RawDocument,
    new: &RawDocument,
    context: &Context,
) -> Result<RawDocumentBuf> {
    let arena = Arena::new();
    let mut values = context.globals.values.clone();
    let mut scope = Scope::new(Doc::from(new), &context.globals, &arena);
    for variable in variables {
        values.push(variable.eval(&mut scope)?.map(OwnedValue::from_value));
    }
    let context = context.with_globals(Globals { now: context.globals.now, values });
    let mut found = pipeline.open_over(Box::new(List::new(vec![old.to_owned()])), &context)?;
    found.next()?.ok_or_else(|| super::failed("$merge: the pipeline of 'whenMatched' must give a document"))
}

struct Writing {
    stage: Arc<Write>,
    context: Context,
    input: Option<Docs>,
}

impl Stage for Write {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        Ok(Box::new(Writing { stage: self, context: context.clone(), input: Some(input) }))
    }
}

impl Stream for Writing {
    /// Writes everything; there is no document behind.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.stage.run(input, &self.context)?;
        }
        Ok(None)
    }
}
