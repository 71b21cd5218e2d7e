//! The recall of a vector index, measured with its own vectors.

use std::collections::BTreeSet;

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::error::Result;
use treedb_query::query::{NearestQuery, Neighbor};
use treedb_storage::Reads;

use crate::read::vector_search::vector_search;
use crate::read::view::View;
use crate::request::VectorSearchRequest;

/// Neighbours that a search asks for, besides the vector's own document.
const NEIGHBORS: usize = 10;

/// What searches with some of an index's own vectors have found.
#[derive(Debug, Clone, PartialEq)]
pub struct Recall {
    /// The name of the index.
    pub index: String,
    /// The field, which is one of several if the index has them.
    pub path: String,
    /// Searches.
    pub searches: usize,
    /// How many candidates the index kept (`ef`): as many as a search has by default.
    pub candidates: usize,
    /// The part of the ten nearest other documents that the index finds, from 0 to 1.
    pub recall: f64,
}

/// Searches by each ready vector index of a collection for the neighbours of about `searches` of its vectors, which are evenly spread, and
/// compares what it finds with what exact comparison finds.
///
/// # Errors
/// Those of the searches.
pub(crate) fn recall(view: &View<'_, impl Reads>, searches: usize) -> Result<Vec<Recall>> {
    let (mut last, candidates) = (0, NearestQuery::default_candidates(NEIGHBORS + 1));
    view.scan_rows(Direction::Backward, None, &mut |row, _| {
        last = row.0;
        Ok(Flow::Break(()))
    })?;
    let mut measured = Vec::new();
    for def in view.meta.infos.iter().filter_map(|info| info.def.as_vector()) {
        let (fields, mut rows) = (def.fields(), BTreeSet::new());
        let (mut hits, mut wanted) = (0, 0);
        for at in 0..searches as u64 {
            let after = (u128::from(last) * u128::from(at) / searches.max(1) as u128) as u64;
            let mut found = None;
            view.scan_rows(Direction::Forward, Some(RowId(after)), &mut |row, document| {
                let vectors = def.vectors(document.partial_document(&fields)?)?;
                found = vectors.iter().next().map(|(_, vector)| (row, vector.to_vec()));
                Ok(if found.is_some() { Flow::Break(()) } else { Flow::Continue(()) })
            })?;
            let Some((row, vector)) = found else { break };
            if !rows.insert(row) {
                continue;
            }
            let request = VectorSearchRequest::new(&def.name, vector, NEIGHBORS + 1)
                .path(def.path.as_str())
                .candidates(candidates);
            // Its own document is the nearest, or as near as the nearest.
            let others = |found: Vec<Neighbor>| -> Vec<Neighbor> { found.into_iter().skip(1).collect() };
            let found = others(vector_search(view, &view.context(), &request)?.neighbors);
            let exact = others(vector_search(view, &view.context(), &request.exact())?.neighbors);
            // Of equally distant ones, any will do. The last digits of distances may be others than those of documents.
            let most = exact.last().map_or(f32::NEG_INFINITY, |farthest| farthest.distance);
            let is_hit = |one: &&Neighbor| {
                one.distance <= most || exact.iter().any(|other| other.document == one.document)
            };
            hits += found.iter().filter(is_hit).count();
            wanted += exact.len();
        }
        let recall = if wanted == 0 { 1.0 } else { hits as f64 / wanted as f64 };
        let (index, path) = (def.name.clone(), def.path.as_str().to_owned());
        measured.push(Recall { index, path, searches: rows.len(), candidates, recall });
    }
    Ok(measured)
}
