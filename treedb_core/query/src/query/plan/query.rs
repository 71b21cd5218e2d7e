//! [`Query`]: filter, order, skip, limit and projection of a `find`.

use bson::RawDocument;

use crate::doc::{Collation, Doc, Value};
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::projection::{Projection, UsedFields};

use super::hint::Hint;
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
        let mut query = Query::new(Filter::parse(filter)?);
        // Natural order is the order of a query without a sort.
        let natural = |sort: &RawDocument| {
            matches!(Doc::from(sort).get("$natural"), Some(Value::Int32(1) | Value::Int64(1)))
        };
        query.sort = sort.filter(|sort| !natural(sort)).map(Sort::parse).transpose()?.flatten();
        let parse = |projection: &RawDocument| Projection::parse_for(projection, &query.filter);
        query.projection = projection.map(parse).transpose()?.flatten();
        Ok(query)
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
