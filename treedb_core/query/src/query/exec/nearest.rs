//! Searches for the documents with the nearest vectors, among those that match a filter.
//!
//! Where an index finds the few rows that match, all of them are compared. Otherwise the vector index gives one candidate after
//! another until enough of them match; if too few do, all documents that match are compared. So a search finds as many documents as
//! there are, up to its limit.

use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};

use crate::access::{Direction, Flow, Probe, QueryContext, RowId, Source};
use crate::error::{ErrorCode, QueryError, Result};
use crate::index::vector::VectorDef;
use crate::query::plan::{Path, Plan};
use crate::query::{Deadline, Query};

use super::find_rows;

/// The least number of rows that match a filter, up to which all of them are compared.
const FEW: u64 = 100;
/// Rows whose distances an index tells in the time that one candidate takes.
const TOLD_PER_CANDIDATE: u64 = 10;
/// Rows of a walk that are matched against a filter before a scan of the collection is considered.
const FEW_SEEN: u64 = 1000;
/// Rows that a scan of the collection matches against a filter in the time that one candidate of an index takes.
const SCANNED_PER_CANDIDATE: u64 = 16;
/// Rows that are looked at for each one that is wanted, and at least, unless the request says otherwise.
const CANDIDATES_PER_ROW: usize = 10;
const MIN_CANDIDATES: usize = 100;

/// A search for the documents with the nearest vectors.
#[derive(Debug, Clone)]
pub struct NearestQuery {
    /// The name of a vector index.
    pub index: String,
    /// The field that the request takes it to be an index of; `None` if the request does not say.
    pub path: Option<String>,
    /// The vector to compare with.
    pub vector: Vec<f32>,
    /// Most documents to return; at least 1.
    pub limit: usize,
    /// Rows that the index looks at, at least `limit`: the more, the better the answer, and the longer it takes. Without it ten times
    /// `limit`, and at least 100.
    pub candidates: Option<usize>,
    /// Compare with all documents instead of using the index's graph.
    pub exact: bool,
    /// The documents that may be returned, with the filter's collation. Sort, limit and projection have no effect.
    pub filter: Query,
    /// When the search gives up, if it does.
    pub deadline: Option<Instant>,
}

impl NearestQuery {
    /// The greatest `limit` and `candidates` of `$vectorSearch` and of the native protocol: the documents found are in memory
    /// together.
    pub const MOST: usize = 10_000;

    /// The candidates of a search for so many documents that does not say how many.
    pub fn default_candidates(limit: usize) -> usize {
        limit.saturating_mul(CANDIDATES_PER_ROW).max(MIN_CANDIDATES)
    }

    /// Refuses a `limit` or `candidates`, by the name that it has in the request, above [`NearestQuery::MOST`].
    ///
    /// # Errors
    /// `BadValue`.
    pub fn at_most(name: &str, number: usize) -> Result<usize> {
        match number {
            0..=Self::MOST => Ok(number),
            _ => {
                let message = format!("\"{name}\" must be at most {}, found {number}", Self::MOST);
                Err(QueryError::bad_value(message))
            }
        }
    }
}

/// A document that a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbor {
    /// The document.
    pub document: RawDocumentBuf,
    /// Its distance by the metric of the index: the less, the nearer.
    pub distance: f32,
    /// MongoDB's `vectorSearchScore`: the greater, the nearer.
    pub score: f64,
}

/// The documents with the nearest vectors, the nearest first.
///
/// # Errors
/// `MaxTimeMSExpired`; `IndexNotFound` if there is no vector index of this name; `BadValue` for a vector that cannot be compared, which says
/// why, for a limit of 0, and for fewer candidates than the limit; those of the filter.
pub fn nearest(
    source: &dyn Source,
    context: &QueryContext<'_>,
    search: &NearestQuery,
) -> Result<Vec<Neighbor>> {
    run(source, context, search, None)
}

/// The documents whose vectors are no farther than `distance`, at most `limit` of them, the nearest first. The index's graph is left when as
/// many rows in a row as it looks at are farther, at least 100 unless the request says otherwise; they may be fewer than `limit`.
///
/// # Errors
/// Those of [`nearest`], and `BadValue` for a distance that is not a number.
pub fn within(
    source: &dyn Source,
    context: &QueryContext<'_>,
    search: &NearestQuery,
    distance: f32,
) -> Result<Vec<Neighbor>> {
    if distance.is_nan() {
        return Err(QueryError::bad_value("the distance must be a number"));
    }
    run(source, context, search, Some(distance))
}

fn run(
    source: &dyn Source,
    context: &QueryContext<'_>,
    search: &NearestQuery,
    within: Option<f32>,
) -> Result<Vec<Neighbor>> {
    let found = source.indexes().iter().enumerate();
    let found = { found }.find_map(|(number, info)| {
        Some((number, info.def.as_vector().filter(|def| def.name == search.index)?))
    });
    let Some((index, def)) = found else {
        let message = format!("vector index not found with name [{}]", search.index);
        return Err(QueryError::new(ErrorCode::IndexNotFound, message));
    };
    let ef = check(def, search, within)?;
    let deadline = Deadline::new(search.deadline);
    let mut nearest = Nearest { def, index, search, within, found: Vec::new(), deadline };
    let by_index = Plan::choose(source, context, &search.filter)?.path != Path::CollectionScan;
    let mut enough = false;
    if !search.exact {
        enough = by_index && nearest.compare_few(source, context, ef)? || nearest.walk(source, ef)?;
    }
    if !enough {
        nearest.compare_all(source, context, by_index)?;
    }
    nearest.documents(source)
}

/// Refuses what cannot be searched for; returns the number of candidates.
fn check(def: &VectorDef, search: &NearestQuery, within: Option<f32>) -> Result<usize> {
    if let Err(unfit) = def.metric.check_query(&search.vector, def.dimensions) {
        return Err(QueryError::bad_value(format!("vector index {}: {unfit}", def.name)));
    }
    if let Some(greatest) = def.greatest.filter(|_| !def.has_room_for(&search.vector)) {
        return Err(QueryError::bad_value(format!(
            "vector index {}: elements are numbers from -{greatest:e} to {greatest:e}",
            def.name
        )));
    }
    if let Some(path) = search.path.as_deref().filter(|path| *path != def.path.as_str()) {
        return Err(QueryError::bad_value(format!(
            "Path '{path}' needs to be indexed as vector: index {} is one of the field '{}'",
            def.name,
            def.path.as_str()
        )));
    }
    if search.limit == 0 {
        return Err(QueryError::bad_value("\"limit\" must be positive"));
    }
    match search.candidates {
        candidates if within.is_some() => Ok(candidates.unwrap_or(MIN_CANDIDATES)),
        None => Ok(NearestQuery::default_candidates(search.limit)),
        Some(candidates) if candidates >= search.limit => Ok(candidates),
        Some(_) => Err(QueryError::bad_value("\"numCandidates\" must be greater than or equal to \"limit\"")),
    }
}

/// The nearest rows of those that a search has compared.
struct Nearest<'s> {
    def: &'s VectorDef,
    /// The number of the index.
    index: usize,
    search: &'s NearestQuery,
    /// The greatest distance, if there is one.
    within: Option<f32>,
    found: Vec<(f32, RowId)>,
    deadline: Deadline,
}

impl Nearest<'_> {
    /// Compares the documents that match the filter, if they are few; false if they are not.
    ///
    /// Where `m` of `n` rows match, a walk looks at `limit * n / m` of them until `limit` match, at least `ef`. Comparing a document
    /// takes about as long: so few are those whose square is no more than that many times `n`, or so many times more where the index
    /// tells their distances.
    fn compare_few(&mut self, source: &dyn Source, context: &QueryContext<'_>, ef: usize) -> Result<bool> {
        let wanted = self.search.limit.max(ef / CANDIDATES_PER_ROW) as u64;
        let least = source.estimated_rows().saturating_mul(wanted);
        let few = least.isqrt().max(FEW);
        let most = least.saturating_mul(TOLD_PER_CANDIDATE).isqrt().max(FEW);
        let rows = find_rows(source, context, &self.search.filter, most + 1)?;
        let count = rows.len() as u64;
        if count > most {
            return Ok(false);
        }
        if !self.compare_told(source, &rows)? {
            if count > few {
                return Ok(false);
            }
            self.compare_rows(source, rows)?;
        }
        Ok(true)
    }

    /// Takes candidates from the index until enough of them match; false if so few match that comparing all that do takes less
    /// time.
    fn walk(&mut self, source: &dyn Source, ef: usize) -> Result<bool> {
        let (filter, limit) = (&self.search.filter.filter, self.search.limit);
        let all = filter.is_all();
        // Not all that are within a distance are wanted in exact order from the start.
        let k = if self.within.is_some() { limit.min(MIN_CANDIDATES) } else { limit };
        let most = (source.estimated_rows() / SCANNED_PER_CANDIDATE).max(FEW_SEEN);
        let (mut seen, mut farther, mut enough) = (0, 0, true);
        let (found, within, deadline) = (&mut self.found, self.within, &mut self.deadline);
        let visit = &mut |row, distance| {
            deadline.tick()?;
            if within.is_some_and(|most| distance > most) {
                farther += 1;
                return Ok(if farther >= ef.max(1) { Flow::Break(()) } else { Flow::Continue(()) });
            }
            farther = 0;
            let mut matches = all;
            if !all {
                if seen == most {
                    enough = false;
                    return Ok(Flow::Break(()));
                }
                seen += 1;
                source.fetch_row(row, &mut |row| {
                    matches = filter.admits(row)?;
                    Ok(())
                })?;
            }
            if matches {
                found.push((distance, row));
            }
            Ok(if found.len() >= limit { Flow::Break(()) } else { Flow::Continue(()) })
        };
        source.walk(self.index, Probe::Nearest { vector: &self.search.vector, k, ef, visit })?;
        Ok(enough)
    }

    /// Compares all documents that match the filter.
    fn compare_all(&mut self, source: &dyn Source, context: &QueryContext<'_>, by_index: bool) -> Result<()> {
        self.found.clear();
        if by_index {
            let rows = find_rows(source, context, &self.search.filter, 0)?;
            return if self.compare_told(source, &rows)? { Ok(()) } else { self.compare_rows(source, rows) };
        }
        let fields = self.def.fields();
        source.scan_rows(Direction::Forward, None, &mut |id, row| {
            self.deadline.tick()?;
            if self.search.filter.filter.admits(row)? {
                self.compare(id, row.partial_document(&fields)?)?;
            }
            Ok(Flow::Continue(()))
        })
    }

    /// Compares rows by what the index tells of them; false if it does not.
    fn compare_told(&mut self, source: &dyn Source, rows: &[RowId]) -> Result<bool> {
        let (index, vector) = (self.index, &self.search.vector);
        source.distances(index, vector, rows, &mut |row, distance| self.add(row, distance))
    }

    fn compare_rows(&mut self, source: &dyn Source, rows: Vec<RowId>) -> Result<()> {
        let fields = self.def.fields();
        for id in rows {
            self.deadline.tick()?;
            source.fetch_row(id, &mut |row| self.compare(id, row.partial_document(&fields)?))?;
        }
        Ok(())
    }

    /// Compares a document, if it has a vector: the nearest of its vectors counts.
    fn compare(&mut self, row: RowId, document: &RawDocument) -> Result<()> {
        let vectors = self.def.vectors(document)?;
        if let Some(distance) = vectors.distance(self.def.metric, &self.search.vector) {
            self.add(row, distance);
        }
        Ok(())
    }

    fn add(&mut self, row: RowId, distance: f32) {
        if self.within.is_some_and(|most| distance > most) {
            return;
        }
        self.found.push((distance, row));
        // Twice as many as are wanted, so that sorting them costs little for each.
        if self.found.len() >= self.search.limit.saturating_mul(2).saturating_add(MIN_CANDIDATES) {
            self.keep_nearest();
        }
    }

    fn keep_nearest(&mut self) {
        self.found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.found.truncate(self.search.limit);
    }

    fn documents(mut self, source: &dyn Source) -> Result<Vec<Neighbor>> {
        self.keep_nearest();
        let mut neighbors = Vec::with_capacity(self.found.len());
        for (distance, row) in self.found {
            source.fetch(row, &mut |document| {
                let score = self.def.score(distance);
                neighbors.push(Neighbor { document: document.to_owned(), distance, score });
                Ok(())
            })?;
        }
        Ok(neighbors)
    }
}
