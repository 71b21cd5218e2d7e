//! Validation of documents: the collection options `validator`, `validationLevel` and `validationAction`.

use bson::{Document, RawDocument, RawDocumentBuf};

use treedb_query::doc::Collation;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::Filter;

use crate::catalog::namespace::Namespace;
use crate::catalog::validation_error;

/// A collection's validator, which refuses documents or logs a warning.
#[derive(Debug, Clone)]
pub(crate) struct Validator {
    namespace: Namespace,
    filter: Filter,
    collation: Collation,
    /// Accept a document that does not match, and log a warning.
    warns: bool,
    /// A document that did not match before a change need not match after it.
    moderate: bool,
}

impl Validator {
    /// The validator in the options of the collection `namespace`, comparing strings by `collation`; `None` if there is none.
    ///
    /// # Errors
    /// Those of the filter; `BadValue` for a level or action that does not exist.
    pub(crate) fn from_options(
        namespace: &Namespace,
        options: &Document,
        collation: &Collation,
    ) -> Result<Option<Self>> {
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
        let is_active = level != Some("off") && !filter.is_all();
        Ok(is_active.then(|| Validator {
            namespace: namespace.clone(),
            filter,
            collation: collation.clone(),
            warns: action == Some("warn"),
            moderate: level == Some("moderate"),
        }))
    }

    /// True if documents that do not match are accepted and logged.
    pub(crate) fn warns(&self) -> bool {
        self.warns
    }

    /// Refuses `new`, which replaces `old`, if it does not match, or logs a warning. A change that is retried is logged again.
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
        let info = validation_error::info(self.filter.source(), &self.collation, new);
        if self.warns {
            let info = Document::try_from(&*info)?;
            tracing::warn!(namespace = %self.namespace, %info, "document would fail validation");
            return Ok(());
        }
        let mut error = QueryError::new(ErrorCode::DocumentValidationFailure, "Document failed validation");
        error.info = Some(Box::new(info));
        Err(error)
    }
}
