//! Searches for the documents with the nearest vectors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use treedb_query::access::{Flow, QueryContext, Source};
use treedb_query::error::Result;
use treedb_query::query::{
    NearestAnswer, NearestQuery, Neighbor, NeighborRef, SearchWork, for_each_nearest, nearest,
};
use treedb_storage::{ReadTxn, SharedReadTxn};

use crate::catalog::meta::Meta;
use crate::read::view::View;
use crate::request::{FindRequest, VectorSearchRequest};
use crate::write::statement::parse;

/// The documents that `request` asks for, and what the search did.
///
/// # Errors
/// Those of [`nearest`] and of the filter.
pub(crate) fn vector_search(
    source: &dyn Source,
    context: &QueryContext<'_>,
    request: &VectorSearchRequest,
) -> Result<NearestAnswer> {
    nearest(source, context, &query(context, request)?, request.within)
}

/// Shows the documents that `request` asks for to `visit`, until it breaks.
///
/// # Errors
/// Those of [`nearest`], of the filter and of `visit`.
pub(crate) fn for_each_neighbor(
    source: &dyn Source,
    context: &QueryContext<'_>,
    request: &VectorSearchRequest,
    visit: &mut dyn FnMut(NeighborRef<'_>) -> Result<Flow>,
) -> Result<SearchWork> {
    for_each_nearest(source, context, &query(context, request)?, request.within, visit)
}

fn query(context: &QueryContext<'_>, request: &VectorSearchRequest) -> Result<NearestQuery> {
    let VectorSearchRequest {
        index,
        path,
        vector,
        limit,
        candidates,
        exact,
        filter,
        collation,
        projection,
        ..
    } = request.clone();
    let filter = parse(&FindRequest { filter, collation, projection, ..FindRequest::default() })?
        .with_default_collation(context.collation)?;
    Ok(NearestQuery { index, path, vector, limit, candidates, exact, filter, deadline: None })
}

/// The answers to many requests in one snapshot, in their order, by as many threads as there are cores.
///
/// # Errors
/// Those of [`vector_search`].
pub(crate) fn vector_search_many(
    reads: ReadTxn,
    meta: &Meta,
    requests: &[VectorSearchRequest],
) -> Result<Vec<Vec<Neighbor>>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (reads, next) = (Arc::new(Mutex::new(reads)), AtomicUsize::new(0));
    let search = || -> Result<Vec<(usize, Vec<Neighbor>)>> {
        let (reads, mut answers) = (SharedReadTxn::new(&reads), Vec::new());
        let view = View { reads: &reads, meta };
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = requests.get(at) else { return Ok(answers) };
            answers.push((at, vector_search(&view, &view.context(), request)?.neighbors));
        }
    };
    let mut answers = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(requests.len())).map(|_| scope.spawn(search)).collect();
        let mut answers = search()?;
        for other in others {
            // A panic of a thread is this one's.
            answers.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok::<_, treedb_query::QueryError>(answers)
    })?;
    answers.sort_unstable_by_key(|(at, _)| *at);
    Ok(answers.into_iter().map(|(_, found)| found).collect())
}
