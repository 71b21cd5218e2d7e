//! `treedb.explain`: how a command would be carried out, as MongoDB's `explain` shows it.
//!
//! The command is the document that MongoDB's `explain` takes: `{"find": "films", "filter": {..}}`, and likewise `count`,
//! `distinct`, `aggregate`, `update`, `delete` and `findAndModify`. With a verbosity above `queryPlanner` it is carried out,
//! but changes nothing.

use std::time::Instant;

use ::bson::raw::cstr;
use ::bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use pgrx::check_for_interrupts;
use treedb_query::access::QueryContext;
use treedb_query::doc::{Doc, Value};
use treedb_query::query::explain::{
    Wanted, Write, execution_stats, explain_distinct, explain_query, explain_write,
};
use treedb_query::query::{Changes, Counters, Query, Result, Update};
use treedb_query::{ErrorCode, QueryError};

use super::aggregate::{self, Run};
use super::options::{self, Options};
use super::reader::Reader;
use super::table::{Need, Table};
use crate::shim::catalog::RelationName;
use crate::shim::error::accept;
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::text;
use crate::types::bson;

const COMMANDS: &str = "find, count, distinct, aggregate, update, delete, findAndModify";

fn unparsable(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorCode::FailedToParse, message)
}

/// A string of a command.
fn utf8(string: &[u8]) -> Result<&str> {
    std::str::from_utf8(string)
        .map_err(|error| QueryError::invalid_bson(format!("a string is not UTF-8: {error}")))
}

/// The fields of a command, or of a statement of one, that are options of ours, under our names for them.
const FIND: &[(&str, &str)] = &[
    ("sort", "sort"),
    ("projection", "projection"),
    ("skip", "skip"),
    ("limit", "limit"),
    ("hint", "hint"),
    ("collation", "collation"),
];
const COUNT: &[(&str, &str)] =
    &[("skip", "skip"), ("limit", "limit"), ("hint", "hint"), ("collation", "collation")];
const AGGREGATE: &[(&str, &str)] = &[
    ("hint", "hint"),
    ("collation", "collation"),
    ("let", "let"),
    ("maxTimeMS", "maxTimeMS"),
    ("allowDiskUse", "allowDiskUse"),
];
const DISTINCT: &[(&str, &str)] = &[("hint", "hint"), ("collation", "collation")];
const UPDATE: &[(&str, &str)] =
    &[("upsert", "upsert"), ("arrayFilters", "arrayFilters"), ("hint", "hint"), ("collation", "collation")];
const FIND_AND_MODIFY: &[(&str, &str)] = &[
    ("sort", "sort"),
    ("fields", "projection"),
    ("upsert", "upsert"),
    ("new", "returnNewDocument"),
    ("arrayFilters", "arrayFilters"),
    ("hint", "hint"),
    ("collation", "collation"),
];

/// The fields of a command or statement, sorted out.
struct Fields<'d> {
    document: Doc<'d>,
    options: Options,
}

impl<'d> Fields<'d> {
    /// Reads `document`, which may have the fields in `own` and in `known`.
    fn read(document: Doc<'d>, own: &[&str], known: &[(&str, &str)]) -> Result<Fields<'d>> {
        let mut options = Options::default();
        for element in document.elements() {
            let name = element.name_str();
            if own.contains(&name) {
                continue;
            }
            match known.iter().find(|(theirs, _)| *theirs == name) {
                Some((_, ours)) => options.set(ours, element.value())?,
                None => {
                    let allowed: Vec<&str> =
                        own.iter().copied().chain(known.iter().map(|(theirs, _)| *theirs)).collect();
                    return Err(options::unknown(name, &allowed));
                }
            }
        }
        Ok(Fields { document, options })
    }

    /// The query of the filter in field `name`.
    fn query(&self, name: &str) -> Result<Query> {
        let filter = match self.document.get(name) {
            Some(filter) => options::document(name, filter)?,
            None => None,
        };
        self.options.query(&filter.unwrap_or_default())
    }

    /// The update in field `name`.
    fn update(&self, name: &str) -> Result<Update> {
        let Some(update) = self.document.get(name) else {
            return Err(unparsable(format!("the field '{name}' is missing")));
        };
        Update::read(&Changes::from_value(update)?, &self.options.array_filters)
    }

    fn flag(&self, name: &str) -> Result<bool> {
        self.document.get(name).map_or(Ok(false), |value| options::flag(name, value))
    }
}

/// The only statement of a command.
fn statement<'d>(command: Doc<'d>, name: &str, list: &str) -> Result<Doc<'d>> {
    Fields::read(command, &[name, list], &[])?;
    if let Some(Value::Array(statements)) = command.get(list) {
        let mut statements = statements.elements();
        if let (Some(first), None) = (statements.next(), statements.next())
            && let Value::Document(statement) = first.value()
        {
            return Ok(statement);
        }
    }
    Err(unparsable(format!(
        "the field '{list}' of a command that is explained must be an array of one document"
    )))
}

/// A command whose plan is to be shown.
struct Explained<'d> {
    name: &'d str,
    collection: &'d str,
    command: Doc<'d>,
    execute: bool,
}

impl Explained<'_> {
    fn reader(&self) -> Reader {
        let name = RelationName::parse_string(&text::owned_cstring(self.collection));
        Reader::new(Table::open_named(&name, Need::Select))
    }

    fn search(&self, query: &Query, wanted: Wanted) -> Result<RawDocumentBuf> {
        let reader = self.reader();
        let namespace = reader.table.namespace();
        explain_query(&reader, &QueryContext::default(), &namespace, query, wanted, self.execute)
    }

    /// As [`super::distinct`] reads the collection.
    fn distinct(&self, path: &[u8], query: &Query) -> Result<RawDocumentBuf> {
        let mut reader = self.reader();
        if query.is_unconditional() {
            reader.use_visibility();
        }
        let namespace = reader.table.namespace();
        explain_distinct(&reader, &QueryContext::default(), &namespace, utf8(path)?, query, self.execute)
    }

    fn change(&self, query: &Query, limit: u64, write: Write<'_>) -> Result<RawDocumentBuf> {
        let reader = self.reader();
        let namespace = reader.table.namespace();
        explain_write(&reader, &QueryContext::default(), &namespace, query, limit, write, self.execute)
    }

    fn explain(&self) -> Result<RawDocumentBuf> {
        let name = self.name;
        match name {
            "find" => {
                let fields = Fields::read(self.command, &[name, "filter"], FIND)?;
                self.search(&fields.query("filter")?, Wanted::Documents)
            }
            "count" => {
                let fields = Fields::read(self.command, &[name, "query"], COUNT)?;
                self.search(&fields.query("query")?, Wanted::Count)
            }
            "distinct" => {
                let fields = Fields::read(self.command, &[name, "key", "query"], DISTINCT)?;
                match self.command.get("key") {
                    Some(Value::String(path)) => self.distinct(path, &fields.query("query")?),
                    _ => Err(unparsable("the field 'key' of distinct must be a string")),
                }
            }
            "aggregate" => self.pipeline(),
            "update" => {
                let statement = statement(self.command, name, "updates")?;
                let fields = Fields::read(statement, &["q", "u", "multi"], UPDATE)?;
                let update = fields.update("u")?;
                let multi = fields.flag("multi")?;
                let write = Write::Update { update: &update, upsert: fields.options.upsert };
                self.change(&fields.query("q")?, u64::from(!multi), write)
            }
            "delete" => {
                let statement = statement(self.command, name, "deletes")?;
                let fields = Fields::read(statement, &["q", "limit"], DISTINCT)?;
                let limit = match statement.get("limit").map(|limit| limit.as_integer()) {
                    Some(Some(limit @ 0..=1)) => limit.unsigned_abs(),
                    _ => return Err(unparsable("the field 'limit' of a deletion must be 0 or 1")),
                };
                self.change(&fields.query("q")?, limit, Write::Delete)
            }
            "findAndModify" => {
                let fields =
                    Fields::read(self.command, &[name, "query", "update", "remove"], FIND_AND_MODIFY)?;
                let query = fields.query("query")?;
                match (fields.flag("remove")?, self.command.get("update")) {
                    (true, None) => self.change(&query, 1, Write::Delete),
                    (false, Some(_)) => {
                        let update = fields.update("update")?;
                        let write = Write::Update { update: &update, upsert: fields.options.upsert };
                        self.change(&query, 1, write)
                    }
                    _ => Err(unparsable("findAndModify needs either an update or remove: true")),
                }
            }
            other => Err(QueryError::new(
                ErrorCode::NotImplemented,
                format!("explain of '{other}' is not possible; there are: {COMMANDS}"),
            )),
        }
    }

    /// The stages as MongoDB shows them: the initial find as `$cursor`, followed by the others; only the find if there
    /// are no others. With `execute`, what a search for vectors did that the pipeline begins with is shown in its stage.
    fn pipeline(&self) -> Result<RawDocumentBuf> {
        let fields = Fields::read(self.command, &[self.name, "pipeline", "cursor"], AGGREGATE)?;
        let Some(stages) = self.command.get("pipeline") else {
            return Err(unparsable("the field 'pipeline' of aggregate is missing"));
        };
        let Run { pipeline, hint, context } = Run::of(stages, fields.options)?;
        let namespace = aggregate::namespace(text::owned_cstring(self.collection).to_bytes());
        let (query, mut stages) = pipeline.explain(&namespace, hint.clone(), &context)?;
        if self.execute
            && let Some(first) = stages
                .first_mut()
                .filter(|first| first.get("$vectorSearch").is_ok_and(|stage| stage.is_some()))
            && query.is_none()
        {
            let ((context, searched), started) = (aggregate::observed(context), Instant::now());
            let mut documents = pipeline.open_with_hint(&namespace, hint, &context)?;
            let mut returned = 0;
            while documents.next()?.is_some() {
                check_for_interrupts!();
                returned += 1;
            }
            if let Some(work) = searched.get() {
                let docs_examined = work.documents_examined;
                let counters = Counters { returned, docs_examined, ..Counters::default() };
                let stats = execution_stats(counters, started.elapsed(), work.shown());
                first.append(cstr!("executionStats"), stats);
            }
        }
        let search = query.map(|query| self.search(&query, Wanted::Documents)).transpose()?;
        if let (Some(search), true) = (&search, stages.is_empty()) {
            return Ok(search.clone());
        }
        let mut shown = RawArrayBuf::new();
        if let Some(search) = &search {
            let mut cursor = RawDocumentBuf::new();
            for element in search {
                let (name, value) = element?;
                if name != cstr!("explainVersion") {
                    cursor.append(name, value);
                }
            }
            shown.push(rawdoc! { "$cursor": cursor });
        }
        stages.into_iter().for_each(|stage| shown.push(stage));
        Ok(rawdoc! { "explainVersion": "1", "stages": shown })
    }
}

/// Whether a verbosity asks for the command to be carried out.
fn executes(verbosity: &str) -> Result<bool> {
    match verbosity {
        "queryPlanner" => Ok(false),
        "executionStats" | "allPlansExecution" => Ok(true),
        _ => Err(QueryError::bad_value(
            "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
        )),
    }
}

fn explained(command: &RawDocument, verbosity: &str) -> Result<RawDocumentBuf> {
    let fields = Doc::from(command);
    let Some(first) = fields.elements().next() else {
        return Err(unparsable(format!("the command is empty; there are: {COMMANDS}")));
    };
    let Value::String(collection) = first.value() else {
        return Err(unparsable(format!("the command '{}' must name its collection", first.name_str())));
    };
    let collection = utf8(collection)?;
    let name = first.name_str();
    let explained = Explained { name, collection, command: fields, execute: executes(verbosity)? };
    let mut shown = explained.explain()?;
    shown.append(cstr!("command"), command);
    Ok(shown)
}

pg_function! {
    /// `treedb.explain(command, verbosity)`: the plan of a command, and the work it took.
    fn treedb_explain(args: [Varlena, Varlena]) -> Varlena<'_> {
        let (command, verbosity) = (args.bytes(0), args.bytes(1));
        let shown = accept(explained(bson::document(&command), &text::to_utf8(&verbosity)));
        args.memory().varlena(shown.as_bytes())
    }
}
