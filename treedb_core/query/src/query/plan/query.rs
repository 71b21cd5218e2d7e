//! [`Query`]: filter, order, skip, limit and projection of a `find`.

use bson::{RawDocument, RawDocumentBuf};

use crate::access::Direction;
use crate::doc::{Collation, Doc};
use crate::error::{QueryError, Result};
use crate::query::expr::Variables;
use crate::query::filter::Filter;
use crate::query::projection::{Projection, UsedFields};

use super::hint::{Hint, natural_direction};
use super::sort::Sort;

/// A parsed `find`.
#[derive(Debug, Clone)]
pub struct Query {
    /// Which documents match.
    pub filter: Filter,
    /// The sort order; `None` for any.
    pub sort: Option<Sort>,
    /// The number of documents to skip.
    pub skip: u64,
    /// The maximum number of documents to return; 0 for no limit.
    pub limit: u64,
    /// The fields returned; `None` for all.
    pub projection: Option<Projection>,
    /// The index to use; `None` lets the planner choose.
    pub hint: Option<Hint>,
    /// The collation that filter and sort were parsed for.
    pub collation: Collation,
    /// Whether a sort that exceeds its memory may spill to temporary files.
    pub spill: bool,
    /// The top-level fields the caller uses; returned documents may lack the others. `None` for all.
    pub used: Option<UsedFields>,
    /// The bounds of the keys of the index that the hint names; see [`KeyBounds`].
    pub bounds: KeyBounds,
    /// What is returned of each document found.
    pub returns: Returns,
}

/// Bounds of an index's keys: documents whose values for all of its fields, in the index's order. They select documents in addition to the
/// filter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyBounds {
    /// The least key.
    pub min: Option<RawDocumentBuf>,
    /// The least key that is too great.
    pub max: Option<RawDocumentBuf>,
}

impl KeyBounds {
    /// True if there are none.
    pub fn is_none(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }
}

/// What a find returns of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Returns {
    /// Only the fields of the index's key by which it was found; nothing of one that was found otherwise.
    pub key: bool,
    /// Also the number of its row, as `$recordId`.
    pub record_id: bool,
}

impl Query {
    /// A query for all documents that `filter` matches.
    pub fn new(filter: Filter) -> Self {
        Query {
            filter,
            sort: None,
            skip: 0,
            limit: 0,
            projection: None,
            hint: None,
            collation: Collation::Simple,
            spill: true,
            used: None,
            bounds: KeyBounds::default(),
            returns: Returns::default(),
        }
    }

    /// Parses filter, sort and projection of a `find`.
    ///
    /// # Errors
    /// `BadValue` and others, each naming the field.
    pub fn parse(
        filter: &RawDocument,
        sort: Option<&RawDocument>,
        projection: Option<&RawDocument>,
    ) -> Result<Self> {
        Self::parse_with(filter, sort, projection, Variables::NONE)
    }

    /// [`Self::parse`] with `variables` for the expressions of filter and projection.
    ///
    /// # Errors
    /// As there.
    pub fn parse_with(
        filter: &RawDocument,
        sort: Option<&RawDocument>,
        projection: Option<&RawDocument>,
        variables: &Variables,
    ) -> Result<Self> {
        let mut query = Query::new(Filter::parse_search(filter, variables)?);
        match sort.map(natural_order).transpose()?.flatten() {
            Some(direction) => query.hint = Some(Hint::Natural(direction)),
            None => query.sort = sort.map(Sort::parse).transpose()?.flatten(),
        }
        let parse = |projection: &RawDocument| Projection::parse_with(projection, &query.filter, variables);
        query.projection = projection.map(parse).transpose()?.flatten();
        Ok(query)
    }

    /// The same query with this hint.
    ///
    /// # Errors
    /// `BadValue` for a hint that contradicts a sort by `$natural`.
    pub fn hinted(self, hint: Option<Hint>) -> Result<Self> {
        match (&self.hint, &hint) {
            (Some(natural), Some(other)) if natural != other => Err(QueryError::bad_value(format!(
                "a sort by $natural cannot be combined with another order or with an index: remove the hint {other}"
            ))),
            (_, None) => Ok(self),
            _ => Ok(Query { hint, ..self }),
        }
    }

    /// True if it finds every document, by whatever index: it has neither filter, hint nor bounds, and compares strings by their bytes.
    pub fn is_unconditional(&self) -> bool {
        self.filter.is_all() && self.hint.is_none() && self.bounds.is_none() && self.collation.is_simple()
    }

    /// The number of documents that it needs from the beginning of the sort order.
    pub(in crate::query) fn wanted(&self) -> usize {
        match self.limit {
            0 => usize::MAX,
            limit => usize::try_from(self.skip.saturating_add(limit)).unwrap_or(usize::MAX),
        }
    }

    /// The same query with another collation.
    ///
    /// # Errors
    /// None: its parts were parsed before.
    pub fn collated(mut self, collation: &Collation) -> Result<Self> {
        self.filter = self.filter.collated(collation)?;
        self.sort = self.sort.map(|sort| sort.collated(collation));
        self.projection = self.projection.map(|fields| fields.collated(collation)).transpose()?;
        self.collation = collation.clone();
        Ok(self)
    }
}

/// The direction of a sort by `$natural`; `None` for any other sort.
fn natural_order(sort: &RawDocument) -> Result<Option<Direction>> {
    let sort = Doc::from(sort);
    let Some(value) = sort.get("$natural") else { return Ok(None) };
    if sort.elements().nth(1).is_some() {
        return Err(QueryError::bad_value("$natural sort cannot be combined with other sort fields"));
    }
    natural_direction(value)
        .map(Some)
        .ok_or_else(|| QueryError::bad_value("$natural sort cannot be set to a value other than -1 or 1."))
}
