//! Planning with ordered indexes: which ranges of keys answer a query.
//!
//! The conditions become intervals of values, and these become ranges of index keys. Conditions that the ranges do not cover
//! are evaluated on the keys, as far as the index has their fields.
//!
//! | file | what it holds |
//! |---|---|
//! | `point_lookup` | [`PointLookup`]: finds that need only one key of an index |
//! | `eligible_indexes` | which indexes can serve a query, and how |
//! | `interval` | intervals of encoded values, and the key ranges they become |
//! | `field_bounds` | the intervals that conditions allow for a field of an index |
//! | `candidate` | the best use of one index |
//! | `geo_cells` | ranges of cells, and the indexes that find documents by their distance |
//! | `index_filter` | conditions tested on keys |
//! | `covering` | documents built from keys alone |
//! | `index_order` | whether an index scan gives the requested order |
//! | `cost` | which candidate is cheapest |
//! | `bitmap` | rows found by several indexes |
//! | `searched_fields` | [`SearchedFields`]: by which fields an index is searched, whatever the values are |

mod bitmap;
mod candidate;
mod cost;
mod covering;
mod eligible_indexes;
mod field_bounds;
mod geo_cells;
mod index_filter;
mod index_order;
mod interval;
mod point_lookup;
mod searched_fields;

use std::borrow::Cow;

use crate::access::IndexInfo;
use crate::index::ordered::{IndexDef, Kind};
use crate::query::filter::Node;

pub(super) use bitmap::bitmap_plan;
pub(super) use candidate::{Candidate, candidates, relevant_indexes};
pub(super) use cost::{CostedCandidate, cheapest, entries as entries_in, with_costs};
pub(in crate::query) use covering::Cover;
pub(super) use field_bounds::field_bounds;
pub use geo_cells::NearSearch;
pub(super) use geo_cells::{entries_in_region, near_search};
pub use index_filter::IndexFilter;
pub(in crate::query) use index_filter::{KeyMatch, SplitKey};
pub(super) use point_lookup::choose as choose_point_lookup;
pub use point_lookup::{PointLookup, PointQuery};
pub use searched_fields::SearchedFields;
pub(super) use searched_fields::searched_fields;

pub(super) use interval::Interval;

/// An ordered index among those of a collection, as a query uses it: what [`IndexInfo`] says of one, or less.
#[derive(Debug, Clone)]
pub(in crate::query) struct OrderedIndex<'i> {
    pub(in crate::query) def: Cow<'i, IndexDef>,
    pub(in crate::query) multikey: bool,
    pub(in crate::query) ordered: bool,
}

impl<'i> OrderedIndex<'i> {
    /// `None` if it is of another kind.
    #[inline]
    pub(in crate::query) fn of(info: &'i IndexInfo) -> Option<Self> {
        let IndexInfo { def, multikey, ordered, .. } = info;
        let def = Cow::Borrowed(def.as_ordered()?);
        Some(OrderedIndex { def, multikey: *multikey, ordered: *ordered })
    }

    /// True if the keys are the complete encodings of the values, in index order.
    fn keys_are_values(&self) -> bool {
        self.ordered && self.def.holds_values()
    }
}

/// The intervals of values that conditions allow for each field of an index, in the notation of `explain`.
pub(in crate::query) fn bounds_of(index: &OrderedIndex<'_>, conditions: &[&Node]) -> Vec<Vec<String>> {
    let whole = || vec!["[MinKey, MaxKey]".to_owned()];
    let left = |(at, part)| match &index.def.options.kind {
        Kind::Geo(geo) if geo.has(at) => match geo_cells::cells_of(geo, part, conditions) {
            Some(cells) => cells.iter().map(|(low, high)| format!("[{low}, {high}]")).collect(),
            None => whole(),
        },
        _ => match field_bounds(part, conditions, index) {
            Some(left) => left.intervals.iter().map(Interval::notation).collect(),
            None => whole(),
        },
    };
    index.def.keys.iter().enumerate().map(left).collect()
}
