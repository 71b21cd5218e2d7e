//! Searches for the documents with the nearest vectors.

use treedb_query::access::{QueryContext, Source};
use treedb_query::error::Result;
use treedb_query::query::{NearestQuery, Neighbor, nearest};

use crate::request::{FindRequest, VectorSearchRequest};
use crate::write::statement::parse;

/// The documents that `request` asks for.
///
/// # Errors
/// Those of [`nearest`] and of the filter.
pub(crate) fn vector_search(
    source: &dyn Source,
    context: &QueryContext<'_>,
    request: &VectorSearchRequest,
) -> Result<Vec<Neighbor>> {
    let VectorSearchRequest { index, vector, limit, candidates, exact, filter, collation } = request.clone();
    let filter = parse(&FindRequest { filter, collation, ..FindRequest::default() })?
        .with_default_collation(context.collation)?;
    nearest(source, context, &NearestQuery { index, path: None, vector, limit, candidates, exact, filter })
}
