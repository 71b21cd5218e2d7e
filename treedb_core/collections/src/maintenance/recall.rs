//! The recall of a vector index, measured with its own vectors.

use std::collections::BTreeSet;

use bson::raw::cstr;
use bson::{RawDocumentBuf, rawdoc};

use treedb_query::access::{Direction, Flow, RowId, Source};
use treedb_query::doc::Fields;
use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_query::query::interrupt::{self, InterruptTick};
use treedb_query::query::{NearestQuery, Neighbor};
use treedb_storage::Reads;
use treedb_vector::nearest::Nearest;

use crate::read::vector_search::vector_search;
use crate::read::view::View;
use crate::request::VectorSearchRequest;

/// Neighbours that a search asks for, besides the vector's own document.
const NEIGHBORS: usize = 10;
/// Searches that are worth measuring, whatever they cost.
const LEAST_SEARCHES: usize = 10;

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

/// A vector that is searched for, and the nearest of those of all documents.
struct Sample {
    vector: Vec<f32>,
    nearest: Nearest<RowId>,
}

/// Searches by each ready vector index of a collection for the neighbours of about `searches` of its vectors, which are evenly spread, and
/// compares what it finds with what exact comparison finds. There are fewer searches, but at least [`LEAST_SEARCHES`], if exact comparison would
/// multiply more elements than `most_elements`.
///
/// # Errors
/// Those of the searches; `Interrupted` and `MaxTimeMSExpired`.
pub(crate) fn recall(
    view: &View<'_, impl Reads>,
    searches: usize,
    most_elements: Option<u64>,
) -> Result<Vec<Recall>> {
    let candidates = NearestQuery::default_candidates(NEIGHBORS + 1);
    let mut measured = Vec::new();
    for index in view.meta.indexes.iter().filter(|index| index.building.is_none()) {
        let Some(def) = index.def.as_vector() else { continue };
        // Documents may have several vectors. The table of an index has two rows for each.
        let vectors = view.reads.len(&index.table)? / 2;
        let elements = view.estimated_rows().max(vectors).max(1).saturating_mul(def.dimensions as u64);
        let affordable = most_elements.map_or(usize::MAX, |most| {
            usize::try_from(most / elements).unwrap_or(usize::MAX).max(LEAST_SEARCHES)
        });
        let mut samples = samples(view, def, searches.min(affordable))?;
        compare(view, def, &mut samples)?;
        let (mut hits, mut wanted) = (0, 0);
        for sample in &mut samples {
            let request =
                VectorSearchRequest::new(&def.name, std::mem::take(&mut sample.vector), NEIGHBORS + 1)
                    .path(def.path.as_str())
                    .candidates(candidates)
                    .projection(rawdoc! { "_id": 1 });
            let found = vector_search(view, &view.context(), &request)?.neighbors;
            // Its own document is the nearest, or as near as the nearest.
            let exact = sample.nearest.sorted().get(1..).unwrap_or_default();
            let ids = exact.iter().map(|(_, row)| id_of(view, *row)).collect::<Result<Vec<_>>>()?;
            // Of equally distant ones, any will do. The last digits of distances may be others than those of documents.
            let most = exact.last().map_or(f32::NEG_INFINITY, |(distance, _)| *distance);
            let is_hit = |one: &&Neighbor| one.distance <= most || ids.contains(&one.document);
            hits += found.iter().skip(1).filter(is_hit).count().min(exact.len());
            wanted += exact.len();
        }
        let recall = if wanted == 0 { 1.0 } else { hits as f64 / wanted as f64 };
        let (index, path) = (def.name.clone(), def.path.as_str().to_owned());
        measured.push(Recall { index, path, searches: samples.len(), candidates, recall });
    }
    Ok(measured)
}

/// About so many of the vectors of an index, each of another row.
fn samples(view: &View<'_, impl Reads>, def: &VectorDef, count: usize) -> Result<Vec<Sample>> {
    let (mut last, mut interrupt) = (0, InterruptTick::default());
    view.scan_rows(Direction::Backward, None, &mut |row, _| {
        last = row.0;
        Ok(Flow::Break(()))
    })?;
    let (fields, mut rows, mut samples) = (def.fields(), BTreeSet::new(), Vec::new());
    for at in 0..count as u64 {
        let after = (u128::from(last) * u128::from(at) / count.max(1) as u128) as u64;
        // Where few documents have a vector, the next one was found from an earlier place already.
        if rows.last().is_some_and(|row: &RowId| row.0 > after) {
            continue;
        }
        let mut found = None;
        view.scan_rows(Direction::Forward, Some(RowId(after)), &mut |row, document| {
            interrupt.tick()?;
            let vectors = def.vectors(document.partial_document(&fields)?)?;
            found = vectors.iter().next().map(|(_, vector)| (row, vector.to_vec()));
            Ok(if found.is_some() { Flow::Break(()) } else { Flow::Continue(()) })
        })?;
        let Some((row, vector)) = found else { break };
        if rows.insert(row) {
            samples.push(Sample { vector, nearest: Nearest::new(NEIGHBORS + 1) });
        }
    }
    Ok(samples)
}

/// Compares all documents with all samples. Reading a document takes longer than comparing it.
fn compare(view: &View<'_, impl Reads>, def: &VectorDef, samples: &mut [Sample]) -> Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    let fields = def.fields();
    view.scan_rows(Direction::Forward, None, &mut |row, document| {
        // So many comparisons take long enough.
        interrupt::check()?;
        let vectors = def.vectors(document.partial_document(&fields)?)?;
        for sample in samples.iter_mut() {
            if let Some(distance) = vectors.distance(def.metric, &sample.vector) {
                sample.nearest.add(distance, row);
            }
        }
        Ok(Flow::Continue(()))
    })
}

/// The `_id` of a row's document, as a projection shows it.
fn id_of(view: &View<'_, impl Reads>, row: RowId) -> Result<RawDocumentBuf> {
    let (fields, mut id) = (Fields::new(std::iter::once(&b"_id"[..])), RawDocumentBuf::new());
    view.fetch_row(row, &mut |row| {
        if let Some(own) = row.partial_document(&fields)?.get("_id")? {
            id.append(cstr!("_id"), own);
        }
        Ok(())
    })?;
    Ok(id)
}
