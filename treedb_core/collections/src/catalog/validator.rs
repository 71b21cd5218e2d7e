//! Validation of documents: the collection options `validator`, `validationLevel` and `validationAction`.

use bson::{Document, RawDocument, RawDocumentBuf};

use treedb_query::doc::Collation;
use treedb_query::error::Result;
use treedb_query::query;

use crate::catalog::namespace::Namespace;

/// A collection's validator, which refuses documents or logs a warning.
#[derive(Debug, Clone)]
pub(crate) struct Validator {
    namespace: Namespace,
    validator: query::Validator,
}

impl Validator {
    /// The validator in the options of the collection `namespace`, comparing strings by `collation`; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`query::Validator::from_options`].
    pub(crate) fn from_options(
        namespace: &Namespace,
        options: &Document,
        collation: &Collation,
    ) -> Result<Option<Self>> {
        let validator = query::Validator::from_options(&RawDocumentBuf::try_from(options)?, collation)?;
        Ok(validator.map(|validator| Validator { namespace: namespace.clone(), validator }))
    }

    /// True if documents that do not match are accepted and logged.
    pub(crate) fn warns(&self) -> bool {
        self.validator.warns()
    }

    /// Refuses `new`, which replaces `old`, if it does not match, or logs a warning. A change that is retried is logged again.
    ///
    /// # Errors
    /// `DocumentValidationFailure`, and those of expressions.
    pub(crate) fn check(&self, old: Option<&RawDocument>, new: &RawDocument) -> Result<()> {
        if let Some(info) = self.validator.check(old, new)? {
            let info = Document::try_from(&*info)?;
            tracing::warn!(namespace = %self.namespace, %info, "document would fail validation");
        }
        Ok(())
    }
}
