//! Which fields of an index the conditions of a query search by, whatever the values are.

use super::OrderedIndex;
use super::candidate::candidate;
use super::eligible_indexes::index_uses;
use crate::access::Source;
use crate::query::Query;
use crate::query::filter::Node;
use crate::query::plan::Path;

/// The fields by which an index is searched in one way to use it, by their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedFields {
    /// Those that bound the ranges of keys that are read, in the order of the keys; of a wildcard index, the one path.
    pub bounding: Vec<String>,
    /// Those that are tested on the keys in the ranges.
    pub tested: Vec<String>,
    /// True if a document may have several keys: of several conditions on a field, only one bounds the ranges.
    pub multikey: bool,
}

/// The fields by which index number `number` is searched for `conditions`, for each way to use it; `None` if the conditions contradict each
/// other, so that nothing is searched.
pub(in crate::query) fn searched_fields(
    source: &dyn Source,
    number: usize,
    query: &Query,
    conditions: &[&Node],
) -> Option<Vec<SearchedFields>> {
    let Some(index) = source.indexes().get(number).and_then(OrderedIndex::of) else {
        return Some(Vec::new());
    };
    let uses = index_uses(&index, query, conditions);
    let fields = uses.iter().map(|way| {
        let found = candidate(source, number, way, query);
        let Path::Index { keys, .. } = &found.plan.path else { return None };
        let bounded = found.equalities + usize::from(found.bounds > 0);
        let parts = || way.index.def.keys.iter().map(|part| part.path.as_str().to_owned());
        let is_tested = |at: usize| keys.test.as_ref().is_some_and(|test| test.tests(at));
        let tested = parts().enumerate().skip(bounded).filter(|(at, _)| is_tested(*at));
        let tested = tested.map(|(_, path)| path).collect();
        Some(SearchedFields {
            bounding: parts().take(bounded).collect(),
            tested,
            multikey: way.index.multikey,
        })
    });
    let fields = fields.collect::<Option<Vec<_>>>()?;
    Some(fields.into_iter().filter(|fields| !fields.bounding.is_empty()).collect())
}
