//! `$vectorSearch`: begins a pipeline with the documents whose vectors are nearest to another one, the nearest first.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::index::vector::query_vector;
use crate::query::expr::CurrentScore;
use crate::query::{Filter, NearestQuery, Neighbor, Query};

use crate::aggregate::context::Context;
use crate::aggregate::following::used_fields;
use crate::aggregate::operand::{document, failed, known_fields, raw};
use crate::aggregate::score::Scores;
use crate::aggregate::stage::{PlannedStage, Role, Source, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

const NAME: &str = "$vectorSearch";

/// `$vectorSearch`.
#[derive(Debug)]
pub(crate) struct VectorSearch(NearestQuery);

fn invalid(message: String) -> QueryError {
    QueryError::bad_value(format!("{NAME}: {message}"))
}

/// A required field that is a string.
fn string(operand: Doc<'_>, name: &str) -> Result<String> {
    match operand.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(String::from_utf8_lossy(text).into_owned()),
        None => Err(invalid(format!("\"{name}\" is required"))),
        Some(Value::String(_)) => Err(invalid(format!("\"{name}\" cannot be empty"))),
        Some(other) => Err(invalid(format!("\"{name}\" must be a string, found {}", other.type_name()))),
    }
}

/// The whole number greater than 0 that a value is.
fn positive(value: Value<'_>) -> Option<usize> {
    value.as_integer().filter(|number| *number > 0).and_then(|number| usize::try_from(number).ok())
}

fn limit(operand: Doc<'_>) -> Result<usize> {
    let value = operand.get("limit").ok_or_else(|| invalid("\"limit\" is required".to_owned()))?;
    if !value.is_number() {
        return Err(QueryError::new(
            ErrorCode::Location8575100,
            format!("Expected limit field to be a number in {NAME}"),
        ));
    }
    match (value.as_integer(), positive(value)) {
        (_, Some(limit)) => NearestQuery::at_most("limit", limit),
        (Some(_), None) => Err(QueryError::new(ErrorCode::Location7912700, "Expected limit to be positive")),
        (None, None) => Err(invalid("\"limit\" must be a whole number".to_owned())),
    }
}

/// `exact`, and `numCandidates`, which is given if and only if the search is not exact.
fn candidates(operand: Doc<'_>) -> Result<(bool, Option<usize>)> {
    let exact = match operand.get("exact") {
        None => false,
        Some(Value::Bool(exact)) => exact,
        Some(other) => {
            return Err(invalid(format!("\"exact\" must be a boolean, found {}", other.type_name())));
        }
    };
    match operand.get("numCandidates") {
        None if exact => Ok((true, None)),
        None => Err(invalid("\"numCandidates\" is required unless \"exact\" is true".to_owned())),
        Some(_) if exact => {
            Err(invalid("\"numCandidates\" must be omitted when \"exact\" is set to true".to_owned()))
        }
        Some(value) => match positive(value).filter(|_| value.is_number()) {
            Some(candidates) => Ok((false, Some(NearestQuery::at_most("numCandidates", candidates)?))),
            None => Err(invalid("\"numCandidates\" must be a whole number greater than 0".to_owned())),
        },
    }
}

impl Stage for VectorSearch {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let operand = document(stage)?;
        let fields = ["index", "path", "queryVector", "limit", "numCandidates", "exact", "filter"];
        known_fields(NAME, operand, &fields)?;
        let filter = match operand.get("filter") {
            None => Filter::all(),
            Some(Value::Document(filter)) => Filter::parse(raw(filter)?)?,
            Some(other) => {
                return Err(invalid(format!("\"filter\" must be an object, found {}", other.type_name())));
            }
        };
        let vector = operand.get("queryVector");
        let vector = vector.ok_or_else(|| invalid("\"queryVector\" is required".to_owned()))?;
        let (exact, candidates) = candidates(operand)?;
        Ok(VectorSearch(NearestQuery {
            index: string(operand, "index")?,
            path: Some(string(operand, "path")?),
            vector: query_vector(vector).map_err(|reason| invalid(format!("\"queryVector\" {reason}")))?,
            limit: limit(operand)?,
            candidates,
            exact,
            filter: Query::new(filter).collated(parser.names.collation())?,
            deadline: None,
        }))
    }

    fn open(self: Arc<Self>, _: BoxedStream, _: &[PlannedStage], _: &Context) -> Result<BoxedStream> {
        Err(failed("a stage that begins a pipeline cannot stand within one"))
    }

    fn role(&self) -> Role<'_> {
        Role::Source(self)
    }

    fn scores(&self) -> Scores {
        Scores::Given
    }
}

impl Source for VectorSearch {
    fn open_source(
        &self,
        namespace: &str,
        following: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let mut search = NearestQuery { deadline: context.deadline, ..self.0.clone() };
        // Most pipelines leave the vectors out, which are the most of a document.
        search.filter.used = used_fields(following, &search.filter.filter);
        let found = context.collections.vector_search(namespace, &search)?.into_iter();
        Ok(Box::new(FoundStream { found, score: context.globals.score.clone() }))
    }

    fn needs_collection(&self) -> bool {
        true
    }
}

/// The documents that were found, each with its score.
struct FoundStream {
    found: std::vec::IntoIter<Neighbor>,
    score: CurrentScore,
}

impl DocumentStream for FoundStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let next = self.found.next();
        self.score.set(next.as_ref().map(|found| found.score));
        Ok(next.map(|found| found.document))
    }
}
