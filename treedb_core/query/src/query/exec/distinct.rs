//! `distinct` with an index: seeks from one value of a field to the next, without reading the documents.

use crate::access::{Direction, Flow, KeyRange, Source, after_prefix};
use crate::doc::key_decode::encoded_length;
use crate::doc::{Doc, OwnedValue, Path};
use crate::error::Result;
use crate::index::ordered::{SortOrder, restored};
use crate::query::interrupt;
use crate::query::plan::{OrderedIndex, PlanSummary};

use super::Counters;

/// The number of entries with the same value that are skipped one by one before the scan seeks past the
/// value.
const PASSED: usize = 8;

/// The distinct values at `path` among all documents, in the order of an index; `None` if no index has keys
/// that contain them. Where entries are not exact, rows are asked for until the snapshot shows one that has the value.
///
/// # Errors
/// Those of the index and of rows that have to be fetched.
pub fn distinct_by_index(source: &dyn Source, path: &str) -> Result<Option<Vec<OwnedValue>>> {
    index_of_values(source, path).map(|index| Ok(walk(source, index, path)?.0)).transpose()
}

/// The index that has the distinct values at `path` among all documents; `None` if the documents have to be read.
pub(super) fn index_of_values(source: &dyn Source, path: &str) -> Option<usize> {
    let tells = |info: &OrderedIndex<'_>| {
        let options = &info.def.options;
        let whole = !options.sparse && options.partial.is_none() && !options.hidden;
        whole
            && info.ordered
            && !info.multikey
            && info.def.holds_values()
            && info.def.keys.first().is_some_and(|part| part.path.as_str() == path)
    };
    let all = source.indexes().iter().enumerate();
    let ordered = all.filter_map(|(number, info)| Some((number, OrderedIndex::of(info)?)));
    let found = { ordered }.find(|(_, info)| tells(info));
    let exact = source.entries_are_exact();
    let tell = |index: usize| exact || source.keys_decide(index) && source.keys_have_types(index);
    found.map(|(index, _)| index).filter(|index| tell(*index))
}

/// The distinct values at `path` that an index has, and the work that it takes to find them.
pub(super) fn walk(source: &dyn Source, index: usize, path: &str) -> Result<(Vec<OwnedValue>, Counters)> {
    let exact = source.entries_are_exact();
    if let Some(used) = source.indexes().get(index) {
        used.uses.add();
        interrupt::note_plan(|| PlanSummary::of_distinct(used));
    }
    let first_key = source.indexes().get(index).and_then(|info| info.def.as_ordered()?.keys.first());
    let descending = first_key.is_some_and(|part| part.direction == SortOrder::Descending);
    let path = Path::new(path);
    let mut values: Vec<OwnedValue> = Vec::new();
    let mut counters = Counters::default();
    // The encoding of the current value, whether it was added, and how many of its entries were skipped.
    let (mut last, mut taken, mut passed) = (Vec::new(), false, 0);
    let mut range = KeyRange::ALL;
    loop {
        let mut sought = false;
        source.index_range_typed(index, &range, Direction::Forward, None, &mut |row, key, type_bits| {
            counters.keys_examined += 1;
            let first = encoded_length(key, descending).and_then(|length| key.get(..length));
            let first = first.unwrap_or(key);
            if first != last {
                last = first.to_vec();
                (taken, passed) = (false, 0);
            } else {
                passed += 1;
            }
            if taken {
                sought = passed >= PASSED;
                return Ok(if sought { Flow::Break(()) } else { Flow::Continue(()) });
            }
            let (mut plain, mut text) = (first.to_vec(), Vec::new());
            if descending {
                crate::doc::key::invert(&mut plain);
            }
            // A missing field has the key of null: the next entry may be a real null.
            let value = match restored(&plain, type_bits, 0, &mut text) {
                Some(value) if exact || source.shows(row)? => value.map(OwnedValue::from_value),
                Some(_) => None,
                None => {
                    let mut value = None;
                    counters.docs_examined += 1;
                    source.fetch(row, &mut |document| {
                        value = path.get(Doc::from(document)).map(OwnedValue::from_value);
                        Ok(())
                    })?;
                    value
                }
            };
            taken = value.is_some();
            values.extend(value);
            Ok(Flow::Continue(()))
        })?;
        match after_prefix(&last).filter(|_| sought) {
            Some(low) => range = KeyRange { low, high: None },
            None => {
                counters.returned = values.len() as u64;
                return Ok((values, counters));
            }
        }
    }
}
