//! What a collection's documents must match: the options `validator`, `validationLevel` and `validationAction`.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::Collation;
use crate::query::Filter;

/// A validator that refuses documents.
#[derive(Debug, Clone)]
pub(crate) struct Validator {
    filter: Filter,
    /// A document that did not match before need not match after a change.
    moderate: bool,
}

impl Validator {
    /// The validator of a collection's options, its texts compared as `collation` says; `None` if there is none, or none that refuses.
    ///
    /// # Errors
    /// Those of the filter; `BadValue` for a level or action that does not exist.
    pub(crate) fn of(options: &Document, collation: &Collation) -> Result<Option<Self>> {
        let option = |name: &str, known: &[&str]| match options.get(name).map(|value| value.as_str()) {
            None => Ok(None),
            Some(Some(value)) if known.contains(&value) => Ok(Some(value)),
            _ => Err(QueryError::bad_value(format!(
                "Enumeration value for field '{name}' is not valid: it may be {}",
                known.join(", ")
            ))),
        };
        let level = option("validationLevel", &["off", "strict", "moderate"])?;
        let action = option("validationAction", &["error", "warn"])?;
        let filter = match options.get("validator") {
            None => return Ok(None),
            Some(bson::Bson::Document(filter)) => {
                Filter::parse(&RawDocumentBuf::try_from(filter)?)?.collated(collation)?
            }
            Some(_) => {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    "the option 'validator' must be an object",
                ));
            }
        };
        let refuses = level != Some("off") && action != Some("warn") && !filter.is_all();
        Ok(refuses.then_some(Validator { filter, moderate: level == Some("moderate") }))
    }

    /// Refuses `new`, which is to come in the place of `old`, if it does not match.
    ///
    /// # Errors
    /// `DocumentValidationFailure`, and those of expressions.
    pub(crate) fn check(&self, old: Option<&RawDocument>, new: &RawDocument) -> Result<()> {
        if self.filter.matches(new)? {
            return Ok(());
        }
        if let (true, Some(old)) = (self.moderate, old)
            && !self.filter.matches(old)?
        {
            return Ok(());
        }
        Err(QueryError::new(ErrorCode::DocumentValidationFailure, "Document failed validation"))
    }
}
