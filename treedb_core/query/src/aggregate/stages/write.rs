//! `$out` and `$merge`: writing the documents to a collection.
//!
//! `$out` replaces the documents of the collection in one transaction: readers see either the old or the new documents.
//! `$merge` writes in batches, each of which is a transaction.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::{Change, Sink};
use crate::doc::write::Writer;
use crate::doc::{Collation, Doc, Element, OwnedValue, Path, Value, with_id};
use crate::error::{DuplicateKey, ErrorCode, QueryError, Result};
use crate::query::expr::{Arena, Expr, Globals, Scope, check_variable, merged};
use crate::query::{Filter, Query, delete, find_rows};

use crate::aggregate::collections::Target;
use crate::aggregate::context::Context;
use crate::aggregate::operand::{failed, known_fields, missing_field, optional_string_or, required_string};
use crate::aggregate::pipeline::Pipeline;
use crate::aggregate::spool::Spool;
use crate::aggregate::stage::{PlannedStage, Role, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream, VecStream};

/// Documents that `$merge` writes in one transaction.
const BATCH_DOCUMENTS: usize = 1000;
/// Bytes of these documents.
const BATCH_BYTES: usize = 8 << 20;

/// `$out` or `$merge`.
#[derive(Debug)]
pub(crate) struct Write {
    database: Option<String>,
    collection: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    /// With the options of the time series that is written, if it must be one.
    Out(Option<RawDocumentBuf>),
    Merge {
        on: Vec<Path>,
        when_matched: WhenMatched,
        when_not_matched: WhenNotMatched,
        variables: Vec<Expr>,
        collation: Collation,
    },
}

#[derive(Debug)]
enum WhenMatched {
    Replace,
    Keep,
    Merge,
    Fail,
    Pipeline(Pipeline),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum WhenNotMatched {
    Insert,
    Discard,
    Fail,
}

/// The databases that no pipeline writes to: those of the server itself.
const INTERNAL: [&str; 3] = ["admin", "config", "local"];

/// The stages that a pipeline of `whenMatched` may have: those that make another document of one, by itself.
const OF_A_DOCUMENT: [&[u8]; 6] =
    [b"$addFields", b"$project", b"$replaceRoot", b"$replaceWith", b"$set", b"$unset"];

/// Refuses other stages.
fn check_stages(stages: Value<'_>) -> Result<()> {
    let Value::Array(stages) = stages else { return Ok(()) };
    for stage in stages.elements() {
        let Value::Document(stage) = stage.value() else { continue };
        if let Some(other) = stage.elements().find(|field| !OF_A_DOCUMENT.contains(&field.name)) {
            let name = other.name_str();
            return Err(failed(format!("$merge: a pipeline in 'whenMatched' cannot have the stage {name}")));
        }
    }
    Ok(())
}

/// A collection's name: a string, or `{ db, coll }`; the code of the error of anything else, and of no `coll`.
fn target(
    (wrong, missing): (ErrorCode, ErrorCode),
    stage: &str,
    value: Value<'_>,
    fields: &[&str],
) -> Result<(Option<String>, String)> {
    match value {
        Value::String(name) => Ok((None, String::from_utf8_lossy(name).into_owned())),
        Value::Document(doc) => {
            known_fields(stage, doc, fields)?;
            let database = optional_string_or(ErrorCode::TypeMismatch, stage, doc, "db")?.map(str::to_owned);
            let codes = (ErrorCode::TypeMismatch, missing);
            Ok((database, required_string(codes, stage, doc, "coll")?.to_owned()))
        }
        _ => Err(QueryError::new(
            wrong,
            format!("{stage} needs the name of a collection, or {{ db: .., coll: .. }}"),
        )),
    }
}

/// The fields that name a collection.
const NAMES: [&str; 2] = ["db", "coll"];

/// The options of the time series that `$out` is to write.
fn series_of(stage: Value<'_>) -> Result<Option<RawDocumentBuf>> {
    let Value::Document(stage) = stage else { return Ok(None) };
    match stage.get("timeseries") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Document(series)) => {
            let mut out = Writer::new(64);
            series.elements().for_each(|element| out.copy(&element));
            Ok(Some(out.finish()))
        }
        Some(other) => Err(QueryError::new(
            ErrorCode::TypeMismatch,
            format!(
                "BSON field '$out.timeseries' is the wrong type '{}', expected type 'object'",
                other.type_name()
            ),
        )),
    }
}

/// The paths of `on`.
fn on_fields(value: Option<Value<'_>>) -> Result<Vec<Path>> {
    let wrong = |code| QueryError::new(code, "$merge: 'on' must be a field or an array of fields");
    match value {
        None => Ok(vec![Path::new("_id")]),
        Some(Value::String(path)) => Ok(vec![Path::new(&String::from_utf8_lossy(path))]),
        Some(Value::Array(paths)) if paths.is_empty() => Err(wrong(ErrorCode::Location51187)),
        Some(Value::Array(paths)) => {
            let path = |path: Element<'_>| match path.value() {
                Value::String(path) => Ok(Path::new(&String::from_utf8_lossy(path))),
                _ => Err(wrong(ErrorCode::Location51134)),
            };
            paths.elements().map(path).collect()
        }
        Some(_) => Err(wrong(ErrorCode::Location51186)),
    }
}

impl Write {
    fn merge(fields: Doc<'_>, parser: &StageParser) -> Result<Action> {
        let on = on_fields(fields.get("on"))?;
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
            None | Some(Value::Null) => {
                variables.push(Expr::parse(Value::String(b"$$ROOT"), &parser.names)?);
                names.push("new".to_owned());
            }
            Some(other) => {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!("$merge: 'let' must be an object, not {}", other.type_name()),
                ));
            }
        }
        if let (Some(Value::Document(_)), None | Some(Value::String(_))) =
            (fields.get("let"), fields.get("whenMatched"))
        {
            return Err(QueryError::new(
                ErrorCode::Location51199,
                "$merge: 'let' is for the pipeline of 'whenMatched', which has none",
            ));
        }
        let when_matched = match fields.get("whenMatched") {
            None | Some(Value::String(b"merge")) => WhenMatched::Merge,
            Some(Value::String(b"replace")) => WhenMatched::Replace,
            Some(Value::String(b"keepExisting")) => WhenMatched::Keep,
            Some(Value::String(b"fail")) => WhenMatched::Fail,
            Some(stages @ Value::Array(_)) => {
                check_stages(stages)?;
                WhenMatched::Pipeline(Pipeline::within(stages, &parser.nested(parser.names.renamed(names))?)?)
            }
            Some(other) => {
                let code = match other {
                    Value::String(_) => ErrorCode::BadValue,
                    _ => ErrorCode::Location51191,
                };
                return Err(QueryError::new(
                    code,
                    "$merge: 'whenMatched' must be replace, keepExisting, merge, fail or a pipeline",
                ));
            }
        };
        let when_not_matched = match fields.get("whenNotMatched") {
            None | Some(Value::String(b"insert")) => WhenNotMatched::Insert,
            Some(Value::String(b"discard")) => WhenNotMatched::Discard,
            Some(Value::String(b"fail")) => WhenNotMatched::Fail,
            Some(other) => {
                let code = match other {
                    Value::String(_) => ErrorCode::BadValue,
                    _ => ErrorCode::TypeMismatch,
                };
                return Err(QueryError::new(
                    code,
                    "$merge: 'whenNotMatched' must be insert, discard or fail",
                ));
            }
        };
        let collation = parser.names.collation().clone();
        Ok(Action::Merge { on, when_matched, when_not_matched, variables, collation })
    }

    /// The database and the full name of the collection to write to.
    fn target<'a>(&'a self, context: &'a Context) -> (&'a str, String) {
        let database = self.database.as_deref().unwrap_or(&context.database);
        (database, format!("{database}.{}", self.collection))
    }

    fn run(&self, mut input: BoxedStream, context: &Context) -> Result<()> {
        let (_, namespace) = self.target(context);
        match &self.action {
            Action::Out(series) => {
                // The pipeline ends before the first document is written, so that no writer waits for it, and the write can begin again after a
                // conflict with an open transaction. Many documents are in a temporary file meanwhile, if there may be one.
                let mut documents = Spool::of(input, "$out", context)?;
                let target = Target::Replaced(series.as_deref());
                context.collections.write(&namespace, target, &mut |sink| {
                    delete(sink, &Query::new(Filter::all()), 0)?;
                    documents.each(&mut |document| sink.insert(&with_id(document)?).map(drop))
                })
            }
            Action::Merge { on, .. } => loop {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                let by_id = on.iter().any(|path| path.as_str() == "_id");
                while batch.len() < BATCH_DOCUMENTS && bytes < BATCH_BYTES {
                    let Some(document) = input.next()? else { break };
                    bytes += document.as_bytes().len();
                    // Documents that are matched by other fields keep their `_id`.
                    batch.push(if by_id { with_id(&document)?.into_owned() } else { document });
                }
                if batch.is_empty() {
                    return Ok(());
                }
                context.collections.write(&namespace, Target::Merged, &mut |sink| {
                    batch.iter().try_for_each(|document| self.merge_one(sink, &namespace, document, context))
                })?;
            },
        }
    }

    fn merge_one(
        &self,
        sink: &mut dyn Sink,
        namespace: &str,
        new: &RawDocument,
        context: &Context,
    ) -> Result<()> {
        let Action::Merge { on, when_matched, when_not_matched, variables, collation } = &self.action else {
            return Ok(());
        };
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
                return match when_not_matched {
                    WhenNotMatched::Insert => sink.insert(&with_id(new)?).map(drop),
                    WhenNotMatched::Discard => Ok(()),
                    WhenNotMatched::Fail => Err(QueryError::new(
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
            let replaced = match when_matched {
                WhenMatched::Keep => return Ok(Change::Keep),
                WhenMatched::Fail => {
                    return Err(duplicate(namespace, on, Doc::from(old)));
                }
                WhenMatched::Replace => new.to_owned(),
                WhenMatched::Merge => merged(&[Doc::from(old), Doc::from(new)]).finish(),
                WhenMatched::Pipeline(pipeline) => run_pipeline(pipeline, variables, old, new, context)?,
            };
            change_keeping_id(old, &replaced)
        })?;
        Ok(())
    }
}

/// The error of `whenMatched: "fail"`: a document has these values already.
fn duplicate(namespace: &str, on: &[Path], old: Doc<'_>) -> QueryError {
    let (mut pattern, mut values) = (Writer::new(32), Writer::new(64));
    for path in on {
        pattern.value(path.as_str().as_bytes(), Value::Int32(1));
        values.value(path.as_str().as_bytes(), path.get(old).unwrap_or(Value::Null));
    }
    let (key_pattern, key_value) = (pattern.finish(), values.finish());
    let index = match on {
        [path] if path.as_str() == "_id" => "_id_".to_owned(),
        _ => on.iter().map(|path| format!("{path}_1")).collect::<Vec<_>>().join("_"),
    };
    let shown = crate::doc::shown(Value::Document(Doc::from(&key_value)));
    QueryError::duplicate_key(namespace, DuplicateKey { index, key_pattern, key_value }, &shown)
}

/// The change of `old` to `new`, which keeps the `_id`.
fn change_keeping_id(old: &RawDocument, new: &RawDocument) -> Result<Change> {
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
    let new = crate::query::finish_document(out)?;
    Ok(if new.as_bytes() == old.as_bytes() { Change::Keep } else { Change::Update(new) })
}

/// The document that the pipeline of `whenMatched` makes of `old`.
fn run_pipeline(
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
    let context = context.with_globals(Globals { now: context.globals.now, values, ..Globals::default() });
    let mut found = pipeline.open_over(Box::new(VecStream::new(vec![old.to_owned()])), &context)?;
    found.next()?.ok_or_else(|| failed("$merge: the pipeline of 'whenMatched' must give a document"))
}

struct WriteStream {
    stage: Arc<Write>,
    context: Context,
    input: Option<BoxedStream>,
}

impl Stage for Write {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        if parser.is_nested() {
            return Err(QueryError::new(
                ErrorCode::Location40600,
                format!("{} is not allowed inside of another stage's pipeline", stage.name_str()),
            ));
        }
        if stage.name == b"$out" {
            let codes = (ErrorCode::Location16990, ErrorCode::Location40414);
            let (database, collection) = target(codes, "$out", stage.value(), &["db", "coll", "timeseries"])?;
            return Ok(Write { database, collection, action: Action::Out(series_of(stage.value())?) });
        }
        const NAME: &str = "$merge";
        let fields = match stage.value() {
            Value::Document(doc) => doc,
            value => {
                let codes = (ErrorCode::TypeMismatch, ErrorCode::Location5786801);
                let (database, collection) = target(codes, NAME, value, &NAMES)?;
                let action = Self::merge(Doc::EMPTY, parser)?;
                return Ok(Write { database, collection, action });
            }
        };
        known_fields(NAME, fields, &["into", "on", "let", "whenMatched", "whenNotMatched"])?;
        let into = fields.get("into").ok_or_else(|| missing_field(NAME, "into"))?;
        let codes = (ErrorCode::Location51178, ErrorCode::Location5786801);
        let (database, collection) = target(codes, NAME, into, &NAMES)?;
        if collection.is_empty() {
            let (code, what) = match into {
                Value::String(_) => (ErrorCode::Location5786800, "be an empty string"),
                _ => (ErrorCode::Location5786801, "have an empty 'coll'"),
            };
            return Err(QueryError::new(code, format!("$merge 'into' field cannot {what}")));
        }
        Ok(Write { database, collection, action: Self::merge(fields, parser)? })
    }

    fn explain(&self, _: &RawDocument) -> RawDocumentBuf {
        let mut into = RawDocumentBuf::new();
        if let Some(database) = &self.database {
            into.append(cstr!("db"), database.as_str());
        }
        into.append(cstr!("coll"), self.collection.as_str());
        match &self.action {
            Action::Out(series) => {
                if let Some(series) = series {
                    into.append(cstr!("timeseries"), series.clone());
                }
                rawdoc! { "$out": into }
            }
            Action::Merge { .. } => rawdoc! { "$merge": { "into": into } },
        }
    }

    fn check_target(&self, context: &Context) -> Result<()> {
        let (database, namespace) = self.target(context);
        let target = match &self.action {
            Action::Out(series) => Target::Replaced(series.as_deref()),
            Action::Merge { .. } => Target::Merged,
        };
        if INTERNAL.contains(&database) {
            return Err(match matches!(target, Target::Replaced(_)) {
                true => QueryError::new(
                    ErrorCode::Location31321,
                    format!("Can't $out to internal database: {database}"),
                ),
                false => QueryError::new(
                    ErrorCode::Location31320,
                    format!("Cannot $merge to internal database: {database}"),
                ),
            });
        }
        context.collections.check_target(&namespace, target)
    }

    fn role(&self) -> Role<'_> {
        Role::Write
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        _: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        Ok(Box::new(WriteStream { stage: self, context: context.clone(), input: Some(input) }))
    }
}

impl DocumentStream for WriteStream {
    /// Writes all documents. The stream is empty.
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.stage.run(input, &self.context)?;
        }
        Ok(None)
    }
}
