//! Updates by a pipeline: `$set $unset $project $replaceWith` and their other names.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::{Doc, MESSAGE, validate_with};
use crate::query::expr::{Arena, Globals, Names};
use crate::query::reshape::Reshape;

/// Stages, each of which makes a document of the one before.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    stages: Vec<Reshape>,
    globals: Globals,
}

impl Pipeline {
    /// Reads the stages.
    ///
    /// # Errors
    /// `InvalidOptions` for a stage that an update cannot have, `Location40323` for one that is not one field, and
    /// those of the stages.
    pub(super) fn parse(stages: &[RawDocumentBuf]) -> Result<Self> {
        let names = Names::default();
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
        Ok(Pipeline { stages: stages.iter().map(stage).collect::<Result<_>>()?, globals: Globals::now() })
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
