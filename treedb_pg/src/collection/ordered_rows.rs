//! Rows that match a filter in the order of the value at a path of their documents, which is NULL where there is none: that of
//! `ORDER BY doc -> 'path'`.
//!
//! An index gives that order if no row has several entries in it, so that each entry has the value itself: SQL orders an array
//! as a whole, an index has its elements. The planner may only hope so, as the first array may come after it has planned, and
//! a plan is executed again and again. It is decided when the search begins, under its snapshot: an index says that rows may
//! have several entries before it gets the first of them, so a snapshot taken before the question shows no array.
//! The same holds for keys that are stored shortened. Where no index gives the order, addresses of rows are sorted.
//!
//! Null and no value have one key. So there are two searches, for the rows with a value and for those without, one after the
//! other as SQL orders NULL, and both leave out rows of the other one. Where the query asks for rows with a value, there is one.

use ::bson::RawDocument;
use pgrx::check_for_interrupts;
use treedb_query::access::{RowId, Source};
use treedb_query::doc::write::Writer;
use treedb_query::doc::{Collation, Doc, Path, Value, key};
use treedb_query::index::ordered::{KeyPart, Kind as KeyKind, SortOrder};
use treedb_query::query::{Filter, Path as PlanPath, Plan, Query, Result, RowCandidates, Sort};

use super::reader::{Reader, address, document};
use super::shown_plan::ShownPlan;
use super::spill::spilling;
use crate::shim::error::accept;
use crate::shim::row_order::RowOrder;
use crate::shim::sorted_bytes::SortedBytes;
use crate::shim::table::Slot;
use crate::shim::text;
use crate::types::bson;
use crate::types::value_range::filter_of_all;

/// How many candidates are looked at before they are sorted, at a time.
const AT_ONCE: usize = 1024;

/// A search that is being executed.
pub(super) struct OrderedRows {
    filter: Box<[u8]>,
    order: RowOrder,
    path: Path,
    rows: Rows,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each scan, in a box")]
enum Rows {
    /// As an index has them.
    InOrder {
        parts: Vec<Part>,
        /// The part that rows were found by last time.
        current: usize,
    },
    Sorted {
        candidates: RowCandidates,
        sort: SortedBytes,
        /// Whether all candidates are in the sort.
        filled: bool,
    },
}

/// The rows with a value, or those without.
struct Part {
    with_value: bool,
    candidates: RowCandidates,
}

impl OrderedRows {
    /// Begins a search of the table that `reader` reads. What it allocates is in the memory context that is current now.
    pub(super) fn begin(reader: &mut Reader, filter: &RawDocument, order: &RowOrder) -> OrderedRows {
        let query = sorted(accept(Filter::parse(filter).map(Query::new)), order);
        reader.open_for(&query);
        let mut plan = accept(Plan::choose(reader, &spilling(), &query));
        // The server says when it has enough.
        let query = Query { limit: 0, ..query };
        let path = path_of(order);
        let in_order = is_in_order(reader, &plan);
        let without = match in_order && !order.with_value {
            true => without_value(filter, &path).ok(),
            false => None,
        };
        let rows = if in_order && (order.with_value || without.is_some()) {
            let mut parts = vec![Part { with_value: true, candidates: RowCandidates::of(query, plan) }];
            if let Some(without) = without {
                let candidates = accept(RowCandidates::new(reader, &spilling(), without));
                let at = if order.absent_first { 0 } else { 1 };
                parts.insert(at, Part { with_value: false, candidates });
            }
            Rows::InOrder { parts, current: 0 }
        } else {
            plan.sort_in_memory = true;
            let candidates = RowCandidates::of(query, plan);
            Rows::Sorted { candidates, sort: SortedBytes::begin(), filled: false }
        };
        OrderedRows { filter: filter.as_bytes().into(), order: order.clone(), path, rows }
    }

    /// The bytes of the filter.
    pub(super) fn filter(&self) -> &[u8] {
        &self.filter
    }

    /// How many rows are likely to be read.
    pub(super) fn wanted(&self) -> usize {
        match self.order.wanted {
            0 => usize::MAX,
            wanted => wanted as usize,
        }
    }

    /// Begins again with the first row.
    pub(super) fn rewind(&mut self) {
        match &mut self.rows {
            Rows::InOrder { parts, current } => {
                parts.iter_mut().for_each(|part| part.candidates.rewind());
                *current = 0;
            }
            Rows::Sorted { candidates, sort, filled } => {
                candidates.rewind();
                (*sort, *filled) = (SortedBytes::begin(), false);
            }
        }
    }

    fn searches(&self) -> impl Iterator<Item = &RowCandidates> {
        let (parts, sorted) = match &self.rows {
            Rows::InOrder { parts, .. } => (parts.as_slice(), None),
            Rows::Sorted { candidates, .. } => ([].as_slice(), Some(candidates)),
        };
        parts.iter().map(|part| &part.candidates).chain(sorted)
    }

    /// Whether every row that is returned matches the filter, if the snapshot shows it.
    pub(super) fn are_matches(&self, reader: &Reader) -> bool {
        self.searches().all(|candidates| candidates.are_matches(reader))
    }

    /// Entries of indexes visited so far.
    pub(super) fn keys_examined(&self) -> u64 {
        self.searches().map(RowCandidates::keys_examined).sum()
    }

    /// The plan.
    pub(super) fn shown(&self, reader: &Reader) -> Option<ShownPlan> {
        let shown = match &self.rows {
            Rows::InOrder { parts, .. } => parts.iter().find(|part| part.with_value),
            Rows::Sorted { .. } => None,
        };
        let shown = shown.map(|part| &part.candidates).or_else(|| self.searches().next());
        shown.map(|rows| ShownPlan::of(reader, rows.query(), rows.plan()))
    }

    /// Appends the next rows to `found`, about `most`. True if there may be more.
    ///
    /// # Errors
    /// Those of `reader`.
    pub(super) fn next(&mut self, reader: &Reader, most: usize, found: &mut Vec<RowId>) -> Result<bool> {
        match &mut self.rows {
            Rows::InOrder { parts, current } => {
                // All rows of a batch are of one part.
                while let Some(part) = parts.get_mut(*current) {
                    let more = part.candidates.next(reader, most, found)?;
                    if more || !found.is_empty() {
                        return Ok(more || *current + 1 < parts.len());
                    }
                    *current += 1;
                }
                Ok(false)
            }
            Rows::Sorted { candidates, sort, filled } => {
                if !*filled {
                    *filled = true;
                    fill(reader, candidates, &self.path, &self.order, sort)?;
                }
                while found.len() < most {
                    let Some(next) = sort.next() else { return Ok(false) };
                    if let Some(row) = next.last_chunk() {
                        found.push(RowId(u64::from_be_bytes(*row)));
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether the row in a slot is one of those that were looked for last time: among candidates without a value may be rows
    /// with one, and the other way round.
    pub(super) fn takes(&self, reader: &Reader, slot: &Slot) -> bool {
        let Rows::InOrder { parts, current } = &self.rows else { return true };
        let matches_none = |part: &Part| part.candidates.plan().path == PlanPath::Empty;
        let Some(part) = parts.get(*current) else { return true };
        // Then the filter leaves out rows without a value, or other conditions do: all are evaluated unless keys decide.
        if part.with_value && parts.iter().all(|other| other.with_value || matches_none(other)) {
            return true;
        }
        let has_value = document(slot, &reader.table)
            .is_some_and(|bytes| self.path.select(Doc::from(bson::document(&bytes))).is_some());
        has_value == part.with_value
    }
}

/// Adds the rows that the snapshot shows to a sort: their sort keys and, behind, their addresses.
fn fill(
    reader: &Reader,
    candidates: &mut RowCandidates,
    path: &Path,
    order: &RowOrder,
    sort: &mut SortedBytes,
) -> Result<()> {
    let mut slot = Slot::new(reader.table.relation.get());
    let (mut rows, mut bytes, mut more) = (Vec::new(), Vec::new(), true);
    while more {
        rows.clear();
        more = candidates.next(reader, AT_ONCE, &mut rows)?;
        for row in &rows {
            check_for_interrupts!();
            if reader.read(address(*row), &mut slot)
                && let Some(found) = document(&slot, &reader.table)
            {
                bytes.clear();
                sort_key(bson::document(&found), path, order, &mut bytes);
                bytes.extend_from_slice(&row.0.to_be_bytes());
                sort.add(&bytes);
            }
        }
    }
    Ok(())
}

/// Appends the sort key of a document: keys compare as SQL orders the values. None is the beginning of another.
fn sort_key(document: &RawDocument, path: &Path, order: &RowOrder, out: &mut Vec<u8>) {
    const VALUE: u8 = 1;
    let Some(value) = path.select(Doc::from(document)) else {
        return out.push(if order.absent_first { VALUE - 1 } else { VALUE + 1 });
    };
    out.push(VALUE);
    let start = out.len();
    key::encode_value(value.value(), out);
    if order.descending {
        key::invert(out.get_mut(start..).unwrap_or_default());
    }
}

/// The path of an order.
fn path_of(order: &RowOrder) -> Path {
    Path::new(&text::to_utf8(&order.path))
}

/// `query` in an order.
pub(super) fn sorted(query: Query, order: &RowOrder) -> Query {
    let direction = if order.descending { SortOrder::Descending } else { SortOrder::Ascending };
    let keys = vec![KeyPart { path: path_of(order), direction }];
    let sort = Some(Sort { keys, collation: Collation::Simple });
    Query { sort, limit: u64::from(order.wanted), ..query }
}

/// The query for documents that match `filter` and have no value at a path, or null: an index has one key for both.
fn without_value(filter: &RawDocument, path: &Path) -> Result<Query> {
    let mut none = Writer::new(64);
    none.value(path.as_str().as_bytes(), Value::Null);
    let both = filter_of_all(&[filter.as_bytes(), none.finish().as_bytes()]);
    Filter::parse(bson::document(&both)).map(Query::new)
}

/// Whether the rows of a plan come in the order of its query as SQL has it.
pub(super) fn is_in_order(reader: &Reader, plan: &Plan) -> bool {
    !plan.sort_in_memory
        && match &plan.path {
            PlanPath::Empty => true,
            PlanPath::Index { index, .. } => {
                reader.indexes().get(*index).is_some_and(|index| !index.multikey)
            }
            PlanPath::CollectionScan | PlanPath::Bitmap(_) | PlanPath::Near(_) => false,
        }
}

/// Whether an index may give an order, if the filter is what it takes.
pub(super) fn may_be_in_order(reader: &Reader, order: &RowOrder) -> bool {
    let path = path_of(order);
    reader.indexes().iter().any(|index| {
        let Some(def) = index.def.as_ordered() else { return false };
        let options = &def.options;
        let whole = options.kind == KeyKind::Values && !options.sparse && options.partial.is_none();
        let plain = whole && !options.hidden && options.collation.is_simple();
        index.ordered && !index.multikey && plain && def.keys.iter().any(|part| part.path == path)
    })
}

/// The plan of a search that has not been executed.
pub(super) fn planned(reader: &Reader, query: Query, order: &RowOrder) -> Option<ShownPlan> {
    let query = sorted(query, order);
    let mut plan = Plan::choose(reader, &spilling(), &query).ok()?;
    plan.sort_in_memory = !is_in_order(reader, &plan);
    Some(ShownPlan::of(reader, &Query { limit: 0, ..query }, &plan))
}
