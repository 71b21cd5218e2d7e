//! Searches for the documents with the nearest vectors, among those that match a filter.
//!
//! Where an index finds the rows that match, and they are not too many, the vector index finds the nearest among them, or their documents
//! are compared. Otherwise the vector index gives one candidate after another until enough of them match; if too few do, all that
//! match are compared. So a search finds as many documents as there are, up to its limit. [`SearchWork`] tells which of that it did.

use std::borrow::Cow;
use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};
use treedb_vector::memory::Way;
use treedb_vector::nearest::Nearest as NearestOf;

use crate::access::{Among, Comparisons, Direction, Flow, Probe, QueryContext, Row, RowId, Source};
use crate::error::{QueryError, Result};
use crate::index::vector::VectorDef;
use crate::query::filter::Filter;
use crate::query::plan::{Path, Plan};
use crate::query::{Deadline, Projection, Query, UsedFields};

use super::count::{FoundRows, rows_of};
use super::execution::project;
use super::search_work::{SearchEnd, SearchPath, SearchWork};

/// The least number of rows that match a filter, up to which all of them are compared.
const FEW: u64 = 100;
/// Rows that an index finds, and the vector index compares, in the time that one candidate takes whose document is matched against a
/// filter.
const TOLD_PER_CANDIDATE: u64 = 60;
/// Ranges of an index whose entries are estimated before they are read.
const ESTIMATED_RANGES: usize = 8;
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
    /// The field that the request takes it to be an index of; `None` if the request does not say, which it has to if the index has several.
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
    /// The documents that may be returned, with the filter's collation, and what is returned of them. Sort and limit have no effect.
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

/// A document that a search has found, as it is shown to a caller that keeps none.
#[derive(Debug, Clone, Copy)]
pub struct NeighborRef<'d> {
    /// The document.
    pub document: &'d RawDocument,
    /// See [`Neighbor::distance`].
    pub distance: f32,
    /// See [`Neighbor::score`].
    pub score: f64,
}

/// The documents that a search has found, the nearest first, and what it did for that.
#[derive(Debug, Clone, PartialEq)]
pub struct NearestAnswer {
    /// The documents.
    pub neighbors: Vec<Neighbor>,
    /// How the search was done.
    pub work: SearchWork,
}

/// The documents with the nearest vectors, the nearest first; those that are no farther than `within`, if that is given.
///
/// Without a distance they are as many as match the filter, up to the limit. With one, the index's graph is left when as many rows in a row
/// as it looks at are farther, at least 100 unless the request says otherwise; so some may be missing.
///
/// # Errors
/// `MaxTimeMSExpired`; `IndexNotFound` if there is no vector index of this name; `BadValue` for a vector that cannot be compared, which says
/// why, for a field that the index does not have, for none if it has several, for a limit of 0, for fewer candidates than the limit, and for a distance that is not a number; those of the filter.
pub fn nearest(
    source: &dyn Source,
    context: &QueryContext<'_>,
    search: &NearestQuery,
    within: Option<f32>,
) -> Result<NearestAnswer> {
    let mut run = run(source, context, search, within)?;
    let (def, returned) = (run.def, Returned::of_query(&search.filter));
    let found = run.found.sorted();
    let mut neighbors = Vec::with_capacity(found.len());
    source.fetch_rows(&mut found.iter().map(|(_, row)| *row), &mut |place, row| {
        if let Some((distance, _)) = found.get(place) {
            let (distance, score) = (*distance, def.score(*distance));
            neighbors.push(Neighbor { document: returned.of(row)?, distance, score });
        }
        Ok(Flow::Continue(()))
    })?;
    Ok(NearestAnswer { neighbors, work: run.work })
}

/// The same, shown to `visit` one after another, until it breaks or fails.
///
/// # Errors
/// Those of [`nearest`] and of `visit`.
pub fn for_each_nearest(
    source: &dyn Source,
    context: &QueryContext<'_>,
    search: &NearestQuery,
    within: Option<f32>,
    visit: &mut dyn FnMut(NeighborRef<'_>) -> Result<Flow>,
) -> Result<SearchWork> {
    let mut run = run(source, context, search, within)?;
    let (def, returned) = (run.def, Returned::of_query(&search.filter));
    let found = run.found.sorted();
    source.fetch_rows(&mut found.iter().map(|(_, row)| *row), &mut |place, row| {
        let Some((distance, _)) = found.get(place) else { return Ok(Flow::Continue(())) };
        let (distance, score) = (*distance, def.score(*distance));
        let mut shown = |document: &RawDocument| visit(NeighborRef { document, distance, score });
        match returned.is_whole() {
            true => shown(row.document()?),
            false => shown(&returned.of(row)?),
        }
    })?;
    Ok(run.work)
}

/// What is returned of the rows that are found.
struct Returned<'q> {
    projection: Option<&'q Projection>,
    used: Option<Cow<'q, UsedFields>>,
}

impl<'q> Returned<'q> {
    fn of_query(query: &'q Query) -> Self {
        let projection = query.projection.as_ref();
        let used = query.used.as_ref().map(Cow::Borrowed);
        Returned { projection, used: used.or_else(|| projection?.used(&Filter::all()).map(Cow::Owned)) }
    }

    fn is_whole(&self) -> bool {
        self.projection.is_none() && self.used.is_none()
    }

    fn of(&self, row: &mut dyn Row) -> Result<RawDocumentBuf> {
        let document = match &self.used {
            Some(used) => row.partial_document(used.fields())?,
            None if self.projection.is_none() => return row.owned_document(),
            None => row.document()?,
        };
        project(self.projection, document)
    }
}

/// Finds the rows.
fn run<'s>(
    source: &'s dyn Source,
    context: &QueryContext<'_>,
    search: &'s NearestQuery,
    within: Option<f32>,
) -> Result<Run<'s>> {
    if within.is_some_and(f32::is_nan) {
        return Err(QueryError::bad_value("the distance must be a number"));
    }
    let indexes = source.indexes().iter().enumerate();
    let vectors = indexes.filter_map(|(number, info)| Some((number, info.def.as_vector()?)));
    let (index, def) = VectorDef::chosen(vectors, &search.index, search.path.as_deref())?;
    let ef = check(def, search, within)?;
    let (deadline, work) = (Deadline::new(search.deadline), SearchWork::default());
    let found = NearestOf::new(search.limit);
    let mut run = Run { def, index, search, within, ef, found, deadline, work };
    // Which index leads to the rows that match, if one does.
    let by_index = match search.filter.filter.is_all() {
        true => None,
        false => Some(Plan::choose(source, context, &search.filter)?),
    };
    let by_index = by_index.filter(|plan| plan.path != Path::CollectionScan);
    let mut enough = false;
    if !search.exact {
        source.indexes().get(index).inspect(|index| index.uses.add());
        enough = match &by_index {
            Some(plan) => run.compare_few(source, plan)?,
            None => false,
        } || run.walk(source)?;
    }
    if !enough {
        run.compare_all(source, by_index.as_ref())?;
    }
    Ok(run)
}

/// Refuses what cannot be searched for; returns the number of candidates.
fn check(def: &VectorDef, search: &NearestQuery, within: Option<f32>) -> Result<usize> {
    def.check_query(&search.vector)?;
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

/// A search under way.
struct Run<'s> {
    def: &'s VectorDef,
    /// The number of the index.
    index: usize,
    search: &'s NearestQuery,
    /// The greatest distance, if there is one.
    within: Option<f32>,
    /// Rows that the index looks at.
    ef: usize,
    /// The nearest rows of those that were compared.
    found: NearestOf<RowId>,
    deadline: Deadline,
    work: SearchWork,
}

impl Run<'_> {
    /// Compares the rows that match the filter, if they are few; false if they are not.
    ///
    /// Where `m` of `n` rows match, a walk looks at `limit * n / m` of them until `limit` match, at least `ef`. Comparing a document
    /// takes about as long: so few are those whose square is no more than that many times `n`, or so many times more where the index
    /// compares them without their documents.
    fn compare_few(&mut self, source: &dyn Source, plan: &Plan) -> Result<bool> {
        let (filter, mut found) = (&self.search.filter, FoundRows::default());
        // Where each entry is a row that matches, so many are read sooner than it is known about how many there are.
        let sure = plan.finds_only_matches(source);
        if sure {
            found.find(source, plan, filter, FEW + 1)?;
        }
        if !sure || found.rows.len() as u64 > FEW {
            let wanted = self.search.limit.max(self.ef / CANDIDATES_PER_ROW) as u64;
            let least = source.estimated_rows().saturating_mul(wanted);
            let told = self.compare_told(source, &[], Some(self.ef))?;
            let most = if told { least.saturating_mul(TOLD_PER_CANDIDATE) } else { least };
            let most = most.isqrt().max(FEW);
            if is_above(source, plan, most) {
                return Ok(false);
            }
            found.find(source, plan, filter, most + 1)?;
            if found.rows.len() as u64 > most {
                return Ok(false);
            }
        }
        if !self.compare_told(source, &found.rows, Some(self.ef))? {
            self.compare_rows(source, found.rows)?;
        }
        Ok(true)
    }

    /// Takes candidates from the index until enough of them match; false if so few match that comparing all that do takes less
    /// time.
    fn walk(&mut self, source: &dyn Source) -> Result<bool> {
        let Run { def, index, search, within, ef, found, deadline, work } = self;
        let (filter, limit, ef) = (&search.filter.filter, search.limit, *ef);
        let all = filter.is_all();
        // Not all that are within a distance are wanted in exact order from the start.
        let k = if within.is_some() { limit.min(MIN_CANDIDATES) } else { limit };
        // Of few bits, the index reads several documents for each row that it leads to.
        let documents = 4 / def.quantization.few_bits().unwrap_or(4) as u64;
        let most = (source.estimated_rows() / SCANNED_PER_CANDIDATE / documents).max(FEW_SEEN);
        let (mut seen, mut farther, mut end) = (0, 0, SearchEnd::NoMore);
        let visit = &mut |row, distance| {
            deadline.tick()?;
            if within.is_some_and(|most| distance > most) {
                farther += 1;
                if farther >= ef.max(1) {
                    end = SearchEnd::Farther;
                    return Ok(Flow::Break(()));
                }
                return Ok(Flow::Continue(()));
            }
            farther = 0;
            let mut matches = all;
            if !all {
                if seen == most {
                    end = SearchEnd::Budget;
                    return Ok(Flow::Break(()));
                }
                seen += 1;
                source.fetch_row(row, &mut |row| {
                    matches = filter.admits(row)?;
                    Ok(())
                })?;
            }
            if matches {
                found.add(distance, row);
            }
            if found.len() >= limit {
                end = SearchEnd::Limit;
                return Ok(Flow::Break(()));
            }
            Ok(Flow::Continue(()))
        };
        let (mut done, discards) = (Comparisons::default(), !all || within.is_some());
        let vector = &search.vector;
        source.walk(*index, Probe::Nearest { vector, k, ef, discards, done: &mut done, visit })?;
        work.add(done);
        work.documents_examined += seen;
        (work.path, work.end) = (SearchPath::Graph, end);
        Ok(end != SearchEnd::Budget)
    }

    /// Compares all documents that match the filter; where an index finds their rows and an approximate answer will do, those that the vector
    /// index thinks are near.
    fn compare_all(&mut self, source: &dyn Source, by_index: Option<&Plan>) -> Result<()> {
        self.found.reset(self.search.limit);
        let after_budget = self.work.end == SearchEnd::Budget;
        if let Some(plan) = by_index {
            let rows = rows_of(source, plan, &self.search.filter, 0)?;
            let ef = (!self.search.exact).then_some(self.ef);
            if !self.compare_told(source, &rows, ef)? {
                self.compare_rows(source, rows)?;
            }
        } else {
            let fields = self.def.fields();
            (self.work.path, self.work.end) = (SearchPath::AllDocuments, SearchEnd::All);
            source.scan_rows(Direction::Forward, None, &mut |id, row| {
                self.deadline.tick()?;
                self.work.documents_examined += 1;
                if self.search.filter.filter.admits(row)? {
                    self.compare(id, row.partial_document(&fields)?)?;
                }
                Ok(Flow::Continue(()))
            })?;
        }
        if after_budget && self.work.end == SearchEnd::All {
            self.work.end = SearchEnd::Budget;
        }
        Ok(())
    }

    /// Finds the nearest of rows by the index alone, looking at `ef` of them, or at all; false if it cannot.
    fn compare_told(&mut self, source: &dyn Source, rows: &[RowId], ef: Option<usize>) -> Result<bool> {
        let Run { index, search, within, found, deadline, work, .. } = self;
        let among = Among { rows, k: search.limit, ef };
        let compared = source.nearest_among(*index, &search.vector, &among, &mut |row, distance| {
            deadline.tick()?;
            if within.is_none_or(|most| distance <= most) {
                found.add(distance, row);
            }
            Ok(())
        })?;
        let Some(compared) = compared else { return Ok(false) };
        work.add(compared.done);
        work.path = match compared.way {
            Way::OneByOne | Way::AfterWalk => SearchPath::MatchingRows,
            Way::Walk => SearchPath::GraphOfMatchingRows,
        };
        work.end = match compared.way {
            Way::OneByOne | Way::AfterWalk if !compared.passes_over => SearchEnd::All,
            _ => SearchEnd::Candidates,
        };
        Ok(true)
    }

    fn compare_rows(&mut self, source: &dyn Source, rows: Vec<RowId>) -> Result<()> {
        let fields = self.def.fields();
        (self.work.path, self.work.end) = (SearchPath::MatchingDocuments, SearchEnd::All);
        for id in rows {
            self.deadline.tick()?;
            self.work.documents_examined += 1;
            source.fetch_row(id, &mut |row| self.compare(id, row.partial_document(&fields)?))?;
        }
        Ok(())
    }

    /// Compares a document, if it has a vector: the nearest of its vectors counts.
    fn compare(&mut self, row: RowId, document: &RawDocument) -> Result<()> {
        let vectors = self.def.vectors(document)?;
        self.work.vectors_compared += vectors.len() as u64;
        if let Some(distance) = vectors.distance(self.def.metric, &self.search.vector)
            && self.within.is_none_or(|most| distance <= most)
        {
            self.found.add(distance, row);
        }
        Ok(())
    }
}

/// Whether an index has more entries than `most` in the ranges of a plan, as far as that is known without reading them.
fn is_above(source: &dyn Source, plan: &Plan, most: u64) -> bool {
    let Path::Index { index, ranges, .. } = &plan.path else { return false };
    let estimates = ranges.iter().take(ESTIMATED_RANGES).filter_map(|range| source.estimate(*index, range));
    estimates.fold(0, u64::saturating_add) > most
}

#[cfg(test)]
mod tests {
    use treedb_vector::metric::Metric;

    use super::*;
    use crate::access::{Compared, IndexInfo, VisitRow};
    use crate::error::ErrorCode;

    /// A collection whose vector index tells how far each of the rows is.
    struct Told;

    impl Source for Told {
        fn indexes(&self) -> &[IndexInfo] {
            &[]
        }

        fn fetch(&self, _: RowId, _: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<bool> {
            Ok(false)
        }

        fn scan(&self, _: Direction, _: Option<RowId>, _: &mut VisitRow<'_>) -> Result<()> {
            Ok(())
        }

        fn walk(&self, index: usize, _: Probe<'_>) -> Result<()> {
            Err(Probe::refused(index))
        }

        fn estimated_rows(&self) -> u64 {
            0
        }

        fn nearest_among(
            &self,
            _: usize,
            _: &[f32],
            among: &Among<'_>,
            visit: &mut dyn FnMut(RowId, f32) -> Result<()>,
        ) -> Result<Option<Compared>> {
            for row in among.rows {
                visit(*row, row.0 as f32)?;
            }
            let done = Comparisons { vectors: among.rows.len() as u64, documents: 0 };
            Ok(Some(Compared { done, way: Way::OneByOne, passes_over: false }))
        }
    }

    #[test]
    fn the_time_limit_ends_a_comparison_of_rows_by_the_index_alone() {
        let def = VectorDef::new("v", 2, Metric::L2);
        let rows: Vec<RowId> = (0..1000).map(RowId).collect();
        let compare = |deadline| {
            let search = NearestQuery {
                index: def.name.clone(),
                path: None,
                vector: vec![0.0; 2],
                limit: 10,
                candidates: None,
                exact: true,
                filter: Query::new(Filter::all()),
                deadline,
            };
            let (found, deadline) = (NearestOf::new(search.limit), Deadline::new(search.deadline));
            let work = SearchWork::default();
            let mut run =
                Run { def: &def, index: 0, search: &search, within: None, ef: 100, found, deadline, work };
            run.compare_told(&Told, &rows, None).map(|told| (told, run.found.len()))
        };
        assert_eq!(compare(None).unwrap(), (true, 10));
        assert_eq!(compare(Some(Instant::now())).unwrap_err().code, ErrorCode::MaxTimeMSExpired);
    }
}
