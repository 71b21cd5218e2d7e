//! Updates by a pipeline: `$set`, `$unset`, `$project`, `$replaceWith` and their aliases.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::doc::{Collation, Doc, MESSAGE, validate_with};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Reshape;
use crate::query::expr::{Arena, Globals, Names};

/// Stages, each of which makes a document of the one before.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    stages: Vec<Reshape>,
    /// The stages as they were written.
    source: Vec<RawDocumentBuf>,
    globals: Globals,
}

impl Pipeline {
    /// Reads the stages, whose strings compare by `collation`.
    ///
    /// # Errors
    /// `InvalidOptions` for a stage that an update cannot have, `Location40323` for one that is not one field, and
    /// those of the stages.
    pub(super) fn parse(stages: &[RawDocumentBuf], collation: &Collation) -> Result<Self> {
        let names = Names::default().collated(collation.clone());
        let stage = |stage: &RawDocumentBuf| {
            validate_with(stage.as_bytes(), MESSAGE)?;
            let mut elements = Doc::from(stage).elements();
            let (Some(element), None) = (elements.next(), elements.next()) else {
                return Err(QueryError::new(
                    ErrorCode::Location40323,
                    "A pipeline stage specification object must contain exactly one field.",
                ));
            };
            Reshape::parse(&element, &names)?.ok_or_else(|| {
                QueryError::new(
                    ErrorCode::InvalidOptions,
                    format!("{} is not allowed to be used within an update", element.name_str()),
                )
            })
        };
        let parsed = stages.iter().map(stage).collect::<Result<_>>()?;
        Ok(Pipeline { stages: parsed, source: stages.to_vec(), globals: Globals::now() })
    }

    /// The same stages, their strings compared by `collation`.
    pub(super) fn collated(&self, collation: &Collation) -> Result<Self> {
        Ok(Pipeline { globals: self.globals.clone(), ..Pipeline::parse(&self.source, collation)? })
    }

    /// What the stages make of `document`.
    pub(super) fn apply(&self, document: &RawDocument) -> Result<Document> {
        let mut arena = Arena::new();
        let mut made = document.to_owned();
        for stage in &self.stages {
            made = stage.apply(&made, &self.globals, &arena)?;
            arena.clear();
        }
        Ok(Document::try_from(&*made)?)
    }
}
