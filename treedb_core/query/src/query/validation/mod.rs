//! Validation of documents: the collection options `validator`, `validationLevel` and `validationAction`.
//!
//! | file | what it holds |
//! |---|---|
//! | `error_info` | the details of a failed validation |

mod error_info;

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::{Collation, Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Filter;

/// A collection's validator, which refuses documents or reports them.
#[derive(Debug, Clone)]
pub struct Validator {
    filter: Filter,
    collation: Collation,
    /// Accept a document that does not match, and report it.
    warns: bool,
    /// A document that did not match before a change need not match after it.
    moderate: bool,
}

impl Validator {
    /// The validator in the options of a collection, comparing strings by `collation`; `None` if there is none, or if its
    /// level is `off`.
    ///
    /// # Errors
    /// Those of the filter; `BadValue` for a level or action that does not exist.
    pub fn from_options(options: &RawDocument, collation: &Collation) -> Result<Option<Self>> {
        let options = Doc::from(options);
        let option = |name: &str, known: &[&'static str]| match options.get(name) {
            None => Ok(None),
            Some(Value::String(value)) if known.iter().any(|one| one.as_bytes() == value) => {
                Ok(known.iter().find(|one| one.as_bytes() == value).copied())
            }
            _ => Err(QueryError::bad_value(format!(
                "Enumeration value for field '{name}' is not valid: it may be {}",
                known.join(", ")
            ))),
        };
        let level = option("validationLevel", &["off", "strict", "moderate"])?;
        let action = option("validationAction", &["error", "warn"])?;
        let filter = match options.get("validator") {
            None => return Ok(None),
            Some(Value::Document(filter)) => {
                Filter::parse(RawDocument::from_bytes(filter.as_bytes())?)?.collated(collation)?
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
            filter,
            collation: collation.clone(),
            warns: action == Some("warn"),
            moderate: level == Some("moderate"),
        }))
    }

    /// True if documents that do not match are accepted and reported.
    pub fn warns(&self) -> bool {
        self.warns
    }

    /// Refuses `new`, which replaces `old`, if it does not match. If such documents are accepted, returns what there is
    /// to report about it.
    ///
    /// # Errors
    /// `DocumentValidationFailure`, and those of expressions.
    pub fn check(&self, old: Option<&RawDocument>, new: &RawDocument) -> Result<Option<RawDocumentBuf>> {
        if self.filter.matches(new)? {
            return Ok(None);
        }
        if let (true, Some(old)) = (self.moderate, old)
            && !self.filter.matches(old)?
        {
            return Ok(None);
        }
        let info = error_info::info(self.filter.source(), &self.collation, new);
        if self.warns {
            return Ok(Some(info));
        }
        let mut error = QueryError::new(ErrorCode::DocumentValidationFailure, "Document failed validation");
        error.info = Some(Box::new(info));
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn validator(options: RawDocumentBuf) -> Result<Option<Validator>> {
        Validator::from_options(&options, &Collation::Simple)
    }

    #[test]
    fn level_and_action_decide_what_is_refused() {
        let (good, bad) = (rawdoc! { "n": 1 }, rawdoc! { "n": -1 });
        let rule = rawdoc! { "n": { "$gt": 0 } };
        let strict = validator(rawdoc! { "validator": rule.clone() }).unwrap().unwrap();
        assert_eq!(strict.check(None, &good).unwrap(), None);
        let error = strict.check(Some(&bad), &bad).unwrap_err();
        assert_eq!(error.code, ErrorCode::DocumentValidationFailure);
        assert!(error.info.unwrap().get_document("details").is_ok());
        let moderate = rawdoc! { "validator": rule.clone(), "validationLevel": "moderate" };
        let moderate = validator(moderate).unwrap().unwrap();
        assert_eq!(moderate.check(Some(&bad), &bad).unwrap(), None);
        assert!(moderate.check(Some(&good), &bad).is_err());
        let warning = rawdoc! { "validator": rule.clone(), "validationAction": "warn" };
        assert!(validator(warning).unwrap().unwrap().check(None, &bad).unwrap().is_some());
        assert!(validator(rawdoc! { "validator": rule, "validationLevel": "off" }).unwrap().is_none());
        for wrong in [rawdoc! { "validator": 1 }, rawdoc! { "validator": {}, "validationLevel": "high" }] {
            assert!(validator(wrong).is_err());
        }
    }
}
