//! Finds in views: a find becomes the last stages of the view's pipeline.

use bson::{RawDocumentBuf, rawdoc};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::expr::Variables;
use treedb_query::query::{Filter, Projection, Returns};

use crate::collection::Collection;
use crate::read::aggregate::{AggregateRequest, Aggregation};
use crate::request::FindRequest;

/// The documents of a find in a view.
pub(crate) struct FoundInView {
    documents: Aggregation,
    projection: Option<Projection>,
}

impl FoundInView {
    /// Runs `request`, which was about a view, as the pipeline that `aggregate` runs over it.
    ///
    /// # Errors
    /// `InvalidPipelineOperator` for what only a collection has; those of the pipeline.
    pub(crate) fn new(
        request: &FindRequest,
        aggregate: impl FnOnce(&AggregateRequest) -> Result<Aggregation>,
    ) -> Result<Self> {
        let pipeline = pipeline_of(request)?;
        let projection = match &request.projection {
            None => None,
            Some(projection) => {
                let variables = match &request.variables {
                    Some(given) => Variables::parse(given, &treedb_query::doc::Collation::Simple)?,
                    None => Variables::default(),
                };
                let filter = match &request.filter {
                    Some(filter) => Filter::parse_with(filter, &variables)?,
                    None => Filter::all(),
                };
                Projection::parse_with(projection, &filter, &variables)?
            }
        };
        Ok(FoundInView { documents: aggregate(&pipeline)?, projection })
    }

    /// The next document.
    pub(crate) fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.documents.next().transpose()? else { return Ok(None) };
        match &self.projection {
            Some(projection) => projection.apply(&document).map(Some),
            None => Ok(Some(document)),
        }
    }
}

impl Collection {
    /// The pipeline that a find in this view is run as, without its projection; `None` if this is not a view.
    ///
    /// # Errors
    /// `InvalidPipelineOperator` for what only a collection has.
    pub(crate) fn pipeline_of_find(&self, request: &FindRequest) -> Result<Option<AggregateRequest>> {
        if self.is_view()? { pipeline_of(request).map(Some) } else { Ok(None) }
    }
}

/// The stages that do what a find does, but for its projection.
///
/// # Errors
/// `InvalidPipelineOperator` for what only a collection has.
pub(crate) fn pipeline_of(request: &FindRequest) -> Result<AggregateRequest> {
    let unsupported = [
        (!request.bounds.is_none(), "min and max"),
        (request.returns != Returns::default(), "returnKey and showRecordId"),
    ];
    if let Some((_, what)) = unsupported.iter().find(|(asked, _)| *asked) {
        return Err(QueryError::new(
            ErrorCode::InvalidPipelineOperator,
            format!("{what} cannot be used with a view"),
        ));
    }
    let mut stages = Vec::new();
    let (mut hint, mut sort) = (request.hint.clone(), request.sort.clone());
    if let Some(natural) = sort.take_if(|sort| matches!(sort.get("$natural"), Ok(Some(_)))) {
        hint = Some(natural.into());
    }
    stages.extend(request.filter.clone().map(|filter| rawdoc! { "$match": filter }));
    stages.extend(sort.map(|sort| rawdoc! { "$sort": sort }));
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if request.skip > 0 {
        stages.push(rawdoc! { "$skip": number(request.skip) });
    }
    if request.limit > 0 {
        stages.push(rawdoc! { "$limit": number(request.limit) });
    }
    Ok(AggregateRequest {
        hint,
        variables: request.variables.clone(),
        collation: request.collation.clone(),
        allow_disk_use: !request.in_memory,
        as_of: request.as_of,
        ..AggregateRequest::new(stages)
    })
}
