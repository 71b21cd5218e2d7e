//! The last argument of the SQL functions: a document of options.

use std::time::Duration;

use ::bson::{RawDocument, RawDocumentBuf};
use treedb_query::doc::{Collation, Doc, Value};
use treedb_query::query::{Hint, Query, Result};
use treedb_query::{ErrorCode, QueryError};

/// What may follow a filter, a document or operations.
pub(super) struct Options {
    pub(super) sort: Option<RawDocumentBuf>,
    pub(super) projection: Option<RawDocumentBuf>,
    pub(super) skip: u64,
    pub(super) limit: u64,
    pub(super) hint: Option<Hint>,
    pub(super) collation: Option<Collation>,
    pub(super) upsert: bool,
    pub(super) array_filters: Vec<RawDocumentBuf>,
    /// Return a document as it is after a change, not as it was before.
    pub(super) after: bool,
    /// Stop at the first operation that fails.
    pub(super) ordered: bool,
    /// Candidates of a search for vectors.
    pub(super) num_candidates: Option<u64>,
    /// Compare with all vectors.
    pub(super) exact: bool,
    /// The greatest distance of a document that is found.
    pub(super) within: Option<f32>,
    /// What expressions may use as `$$name`.
    pub(super) variables: Option<RawDocumentBuf>,
    /// How long a pipeline may take.
    pub(super) max_time: Option<Duration>,
    /// Whether stages may use temporary files.
    pub(super) allow_disk_use: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sort: None,
            projection: None,
            skip: 0,
            limit: 0,
            hint: None,
            collation: None,
            upsert: false,
            array_filters: Vec::new(),
            after: false,
            ordered: true,
            num_candidates: None,
            exact: false,
            within: None,
            variables: None,
            max_time: None,
            allow_disk_use: true,
        }
    }
}

impl Options {
    /// Reads `options`, of which only those in `allowed` may be there.
    pub(super) fn read(options: &RawDocument, allowed: &[&str]) -> Result<Options> {
        let mut read = Options::default();
        for element in Doc::from(options).elements() {
            let (name, value) = (element.name_str(), element.value());
            if !allowed.contains(&name) {
                return Err(unknown(name, allowed));
            }
            read.set(name, value)?;
        }
        Ok(read)
    }

    /// Sets an option. One of another name than those below is an error, too.
    pub(super) fn set(&mut self, name: &str, value: Value<'_>) -> Result<()> {
        match name {
            "sort" => self.sort = document(name, value)?,
            "projection" => self.projection = document(name, value)?,
            "skip" => self.skip = count(name, value)?,
            "limit" => self.limit = count(name, value)?,
            "hint" => self.hint = Some(hint(name, value)?),
            "collation" => {
                self.collation = document(name, value)?.map(|spec| Collation::parse(&spec)).transpose()?;
            }
            "upsert" => self.upsert = flag(name, value)?,
            "arrayFilters" => self.array_filters = documents(name, value)?,
            "ordered" => self.ordered = flag(name, value)?,
            "numCandidates" => self.num_candidates = Some(count(name, value)?),
            "exact" => self.exact = flag(name, value)?,
            "within" => self.within = Some(number(name, value)?),
            "let" => self.variables = document(name, value)?,
            "maxTimeMS" => {
                let millis = count(name, value)?;
                self.max_time = (millis > 0).then(|| Duration::from_millis(millis));
            }
            "allowDiskUse" => self.allow_disk_use = flag(name, value)?,
            "returnNewDocument" => self.after = flag(name, value)?,
            "returnDocument" => {
                self.after = match value {
                    Value::String(b"after") => true,
                    Value::String(b"before") => false,
                    other => return Err(wrong(name, "\"before\" or \"after\"", other)),
                }
            }
            other => return Err(unknown(other, &[])),
        }
        Ok(())
    }

    /// The query of `filter` with these options.
    pub(super) fn query(&self, filter: &RawDocument) -> Result<Query> {
        let mut query = Query::parse(filter, self.sort.as_deref(), self.projection.as_deref())?;
        query.skip = self.skip;
        query.limit = self.limit;
        query.hint = self.hint.clone();
        match &self.collation {
            Some(collation) => query.collated(collation),
            None => Ok(query),
        }
    }
}

/// The error for an option that there is not.
pub(super) fn unknown(name: &str, allowed: &[&str]) -> QueryError {
    let message = if allowed.is_empty() {
        format!("unknown option '{name}'; there are none")
    } else {
        format!("unknown option '{name}'; there are: {}", allowed.join(", "))
    };
    QueryError::new(ErrorCode::Location40415, message)
}

/// The error for an option of another type than `needed` says.
pub(super) fn wrong(name: &str, needed: &str, value: Value<'_>) -> QueryError {
    QueryError::new(
        ErrorCode::TypeMismatch,
        format!("option '{name}' must be {needed}, not {}", treedb_query::doc::shown(value)),
    )
}

/// A document; `None` for null.
pub(super) fn document(name: &str, value: Value<'_>) -> Result<Option<RawDocumentBuf>> {
    match value {
        Value::Document(doc) => Ok(Some(RawDocumentBuf::from_bytes(doc.as_bytes().to_vec())?)),
        Value::Null => Ok(None),
        other => Err(wrong(name, "a document", other)),
    }
}

/// The documents of an array.
pub(super) fn documents(name: &str, value: Value<'_>) -> Result<Vec<RawDocumentBuf>> {
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

/// A number, as a distance is one.
fn number(name: &str, value: Value<'_>) -> Result<f32> {
    match value {
        Value::Double(number) => Ok(number as f32),
        Value::Int32(number) => Ok(number as f32),
        Value::Int64(number) => Ok(number as f32),
        other => Err(wrong(name, "a number", other)),
    }
}

/// A truth value, or a number.
pub(super) fn flag(name: &str, value: Value<'_>) -> Result<bool> {
    match value {
        value if value.is_number() || matches!(value, Value::Bool(_)) => Ok(value.truthy()),
        Value::Null => Ok(false),
        other => Err(wrong(name, "true or false", other)),
    }
}

/// The name or the key pattern of an index.
fn hint(name: &str, value: Value<'_>) -> Result<Hint> {
    match document(name, value) {
        Ok(Some(pattern)) => Ok(Hint::from(pattern)),
        _ => text(name, value).map(Hint::from),
    }
}

/// A string.
pub(super) fn text(name: &str, value: Value<'_>) -> Result<String> {
    match value {
        Value::String(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        other => Err(wrong(name, "a string", other)),
    }
}
