//! Updates with an aggregation pipeline: `$set`, `$unset`, `$project`, `$replaceWith` and their aliases.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::doc::{Collation, Doc, MESSAGE, validate_with};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Reshape;
use crate::query::expr::{Arena, Globals, Variables};

/// The stages of pipelines that are not updates.
pub(crate) const NOT_IN_UPDATES: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$rankFusion",
    "$redact",
    "$sample",
    "$search",
    "$searchMeta",
    "$setWindowFields",
    "$shardedDataDistribution",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
    "$vectorSearch",
];

/// The stages; each computes a document from the one before.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    stages: Vec<Reshape>,
    /// The stages as the client sent them.
    source: Vec<RawDocumentBuf>,
    variables: Variables,
    globals: Globals,
}

impl Pipeline {
    /// Parses the stages, which may use `variables`; `collation` is the one they compare strings by.
    ///
    /// # Errors
    /// `InvalidOptions` for a stage that is not allowed in an update, `Location40324` for one that does not exist, `Location40323` for a stage with other
    /// than one field, and the errors of the stages.
    pub(super) fn parse(
        stages: &[RawDocumentBuf],
        collation: &Collation,
        variables: &Variables,
    ) -> Result<Self> {
        let names = variables.names(collation);
        let stage = |stage: &RawDocumentBuf| {
            validate_with(stage.as_bytes(), MESSAGE)?;
            let mut elements = Doc::from(stage).elements();
            let (Some(element), None) = (elements.next(), elements.next()) else {
                return Err(QueryError::new(
                    ErrorCode::Location40323,
                    "A pipeline stage specification object must contain exactly one field.",
                ));
            };
            Reshape::parse(&element, &names)?.ok_or_else(|| match element.name_str() {
                name if NOT_IN_UPDATES.contains(&name) => QueryError::new(
                    ErrorCode::InvalidOptions,
                    format!("{name} is not allowed to be used within an update"),
                ),
                name => QueryError::unknown_stage(name),
            })
        };
        let parsed = stages.iter().map(stage).collect::<Result<_>>()?;
        let (source, globals) = (stages.to_vec(), variables.globals());
        Ok(Pipeline { stages: parsed, source, variables: variables.clone(), globals })
    }

    /// The same stages with another collation.
    pub(super) fn collated(&self, collation: &Collation) -> Result<Self> {
        Ok(Pipeline {
            globals: self.globals.clone(),
            ..Pipeline::parse(&self.source, collation, &self.variables)?
        })
    }

    /// Applies the stages to `document`.
    pub(super) fn apply(&self, document: &RawDocument) -> Result<Document> {
        let mut arena = Arena::new();
        let mut result = document.to_owned();
        for stage in &self.stages {
            result = stage.apply(&result, &self.globals, &arena)?;
            arena.clear();
        }
        Ok(Document::try_from(&*result)?)
    }
}
