//! The last argument of the SQL functions: a document of options.

use ::bson::{RawDocument, RawDocumentBuf};
use treedb_query::doc::{Doc, Value};
use treedb_query::query::{Hint, Query, Result};
use treedb_query::{ErrorCode, QueryError};

/// What may follow a filter.
#[derive(Default)]
pub(super) struct Options {
    pub(super) sort: Option<RawDocumentBuf>,
    pub(super) projection: Option<RawDocumentBuf>,
    pub(super) skip: u64,
    pub(super) limit: u64,
    pub(super) hint: Option<Hint>,
    pub(super) upsert: bool,
    pub(super) array_filters: Vec<RawDocumentBuf>,
    pub(super) name: Option<String>,
    pub(super) unique: bool,
}

impl Options {
    /// Reads `options`, of which only those in `allowed` may be there.
    pub(super) fn read(options: &RawDocument, allowed: &[&str]) -> Result<Options> {
        let mut read = Options::default();
        for element in Doc::from(options).elements() {
            let (name, value) = (element.name_str(), element.value());
            if !allowed.contains(&name) {
                return Err(QueryError::new(
                    ErrorCode::Location40415,
                    format!("unknown option '{name}'; there are: {}", allowed.join(", ")),
                ));
            }
            match name {
                "sort" => read.sort = document(name, value)?,
                "projection" => read.projection = document(name, value)?,
                "skip" => read.skip = count(name, value)?,
                "limit" => read.limit = count(name, value)?,
                "hint" => read.hint = Some(hint(name, value)?),
                "name" => read.name = Some(text(name, value)?),
                "arrayFilters" => read.array_filters = documents(name, value)?,
                "upsert" => read.upsert = value.truthy(),
                _ => read.unique = value.truthy(),
            }
        }
        Ok(read)
    }

    /// The query of `filter` with these options.
    pub(super) fn query(&self, filter: &RawDocument) -> Result<Query> {
        let mut query = Query::parse(filter, self.sort.as_deref(), self.projection.as_deref())?;
        query.skip = self.skip;
        query.limit = self.limit;
        query.hint = self.hint.clone();
        Ok(query)
    }
}

fn wrong(name: &str, needed: &str, value: Value<'_>) -> QueryError {
    QueryError::new(
        ErrorCode::TypeMismatch,
        format!("option '{name}' must be {needed}, not {}", treedb_query::doc::shown(value)),
    )
}

fn document(name: &str, value: Value<'_>) -> Result<Option<RawDocumentBuf>> {
    match value {
        Value::Document(doc) => Ok(Some(RawDocumentBuf::from_bytes(doc.as_bytes().to_vec())?)),
        Value::Null => Ok(None),
        other => Err(wrong(name, "a document", other)),
    }
}

fn documents(name: &str, value: Value<'_>) -> Result<Vec<RawDocumentBuf>> {
    let needed = || wrong(name, "an array of documents", value);
    let Value::Array(array) = value else { return Err(needed()) };
    array.elements().map(|element| document(name, element.value())?.ok_or_else(needed)).collect()
}

fn count(name: &str, value: Value<'_>) -> Result<u64> {
    value
        .as_integer()
        .and_then(|value| u64::try_from(value).ok())
        .ok_or_else(|| wrong(name, "a number that is not negative", value))
}

/// The name or the key pattern of an index.
fn hint(name: &str, value: Value<'_>) -> Result<Hint> {
    match document(name, value) {
        Ok(Some(pattern)) => Ok(Hint::from(pattern)),
        _ => text(name, value).map(Hint::from),
    }
}

fn text(name: &str, value: Value<'_>) -> Result<String> {
    match value {
        Value::String(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        other => Err(wrong(name, "a string", other)),
    }
}
