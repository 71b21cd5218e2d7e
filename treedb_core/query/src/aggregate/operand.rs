//! Reading the operand of a stage, and the errors that stages share.

use bson::RawDocument;

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// The error of a stage that would hold more than its memory limit.
pub(crate) fn memory_exceeded(stage: &str, limit: usize) -> QueryError {
    QueryError::new(
        ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed,
        format!(
            "{stage} exceeded its memory limit of {limit} bytes: filter or project earlier in the pipeline, \
             or pass allowDiskUse: true where the stage can use it ($sort, $group)"
        ),
    )
}

/// The error of an operand that cannot be read.
pub(crate) fn failed(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorCode::FailedToParse, message)
}

/// The operand of a stage that takes a document.
pub(crate) fn document<'a>(stage: &Element<'a>) -> Result<Doc<'a>> {
    document_or(ErrorCode::FailedToParse, stage)
}

/// [`document`] of a stage whose error has a code of its own.
pub(crate) fn document_or<'a>(code: ErrorCode, stage: &Element<'a>) -> Result<Doc<'a>> {
    match stage.value() {
        Value::Document(doc) => Ok(doc),
        other => Err(QueryError::new(
            code,
            format!(
                "the {} stage specification must be an object, found {}",
                stage.name_str(),
                other.type_name()
            ),
        )),
    }
}

/// Refuses fields of an operand other than `known`.
pub(crate) fn known_fields(stage: &str, doc: Doc<'_>, known: &[&str]) -> Result<()> {
    known_fields_or(ErrorCode::Location40415, stage, doc, known)
}

/// [`known_fields`] of a stage whose error has a code of its own.
pub(crate) fn known_fields_or(code: ErrorCode, stage: &str, doc: Doc<'_>, known: &[&str]) -> Result<()> {
    match doc.elements().find(|element| !known.contains(&element.name_str())) {
        Some(unknown) => Err(QueryError::new(
            code,
            format!("BSON field '{stage}.{}' is an unknown field.", unknown.name_str()),
        )),
        None => Ok(()),
    }
}

/// The error of a required field that is missing, or null, where MongoDB's IDL reads the stage.
pub(crate) fn missing_field(stage: &str, name: &str) -> QueryError {
    QueryError::new(
        ErrorCode::Location40414,
        format!("BSON field '{stage}.{name}' is missing but a required field"),
    )
}

/// The error of a field of another type than is needed, where MongoDB's IDL reads the stage.
pub(crate) fn wrong_field(stage: &str, name: &str, wanted: &str, found: Value<'_>) -> QueryError {
    QueryError::new(
        ErrorCode::TypeMismatch,
        format!("BSON field '{stage}.{name}' is the wrong type '{}', expected {wanted}", found.type_name()),
    )
}

/// An optional field of an operand, which must be a string.
pub(crate) fn optional_string<'a>(stage: &str, doc: Doc<'a>, name: &str) -> Result<Option<&'a str>> {
    optional_string_or(ErrorCode::FailedToParse, stage, doc, name)
}

/// [`optional_string`] of a stage whose error has a code of its own.
pub(crate) fn optional_string_or<'a>(
    code: ErrorCode,
    stage: &str,
    doc: Doc<'a>,
    name: &str,
) -> Result<Option<&'a str>> {
    match doc.get(name) {
        None => Ok(None),
        Some(Value::String(string)) => Ok(Some(std::str::from_utf8(string).unwrap_or_default())),
        Some(other) => Err(QueryError::new(
            code,
            format!("{stage}: '{name}' must be a string, found {}", other.type_name()),
        )),
    }
}

/// A required field of an operand, which must be a string; the codes of the errors of another type, and if there is none.
pub(crate) fn required_string<'a>(
    (wrong, missing): (ErrorCode, ErrorCode),
    stage: &str,
    doc: Doc<'a>,
    name: &str,
) -> Result<&'a str> {
    optional_string_or(wrong, stage, doc, name)?
        .ok_or_else(|| QueryError::new(missing, format!("{stage} needs the field '{name}'")))
}

/// The codes of a string that MongoDB's IDL reads, for [`required_string`].
pub(crate) const IDL: (ErrorCode, ErrorCode) = (ErrorCode::TypeMismatch, ErrorCode::Location40414);

/// A document's bytes as the `bson` crate's type.
pub(crate) fn raw(doc: Doc<'_>) -> Result<&RawDocument> {
    Ok(RawDocument::from_bytes(doc.as_bytes())?)
}
