//! Which fields of an index the conditions of a query search by, whatever the values are.

use super::OrderedIndex;
use super::candidate::candidate;
use super::eligible_indexes::{IndexUse, index_uses};
use super::field_bounds::{field_bounds, points};
use crate::access::IndexInfo;
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

/// The fields by which index number `number` is searched for `conditions`, for each way to use it; none if what is `known` does not say
/// that it has all documents that meet them. None either if the index has a collation of its own: a value that is not known may be a text,
/// for which it is of no use, whatever is known of the same field.
pub(in crate::query) fn searched_fields(
    indexes: &[IndexInfo],
    number: usize,
    query: &Query,
    conditions: &[&Node],
    known: &[&Node],
) -> Vec<SearchedFields> {
    let Some(index) = indexes.get(number).and_then(OrderedIndex::of) else { return Vec::new() };
    if index.def.options.collation != query.collation {
        return Vec::new();
    }
    let fields = index_uses(&index, query, conditions, known).into_iter().filter_map(|way| {
        let way = without_contradictions(way);
        let found = candidate(number, &way, query);
        let Path::Index { keys, .. } = &found.plan.path else { return None };
        let bounded = found.equalities + usize::from(found.bounds > 0);
        let parts = || way.index.def.keys.iter().map(|part| part.path.as_str().to_owned());
        let is_tested = |at: usize| keys.test.as_ref().is_some_and(|test| test.tests(at));
        let tested = parts().enumerate().skip(bounded).filter(|(at, _)| is_tested(*at));
        let tested = tested.map(|(_, path)| path).collect();
        let bounding = parts().take(bounded).collect();
        Some(SearchedFields { bounding, tested, multikey: way.index.multikey })
    });
    fields.filter(|fields| !fields.bounding.is_empty()).collect()
}

/// Keeps one of the conditions on a field that contradict each other, of which each bounds it alone: one that
/// leaves single values, if there is one. That bounds the field as all of them do for values that do not contradict each other.
fn without_contradictions(mut way: IndexUse<'_>) -> IndexUse<'_> {
    let IndexUse { index, conditions, .. } = &mut way;
    for part in &index.def.keys {
        if field_bounds(part, conditions, index).is_none_or(|left| !left.intervals.is_empty()) {
            continue;
        }
        let alone = |condition: &&Node| field_bounds(part, std::slice::from_ref(condition), index);
        let bounding = conditions.iter().enumerate().filter_map(|(at, condition)| {
            let left = alone(condition)?.intervals;
            (!left.is_empty()).then(|| (at, points(&left)))
        });
        let kept = bounding.min_by_key(|(_, points)| !points).map(|(at, _)| at);
        let of_others = |at: usize, condition: &&Node| Some(at) == kept || alone(condition).is_none();
        let all = conditions.iter().enumerate();
        *conditions = all
            .filter(|(at, condition)| of_others(*at, condition))
            .map(|(_, condition)| *condition)
            .collect();
    }
    way
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::index::ordered::IndexDef;
    use crate::query::Filter;
    use crate::query::plan::{Plan, index_of};

    /// By which fields indexes are searched for a filter of which a part is known: those that bound, then those that are tested.
    fn searched(
        indexes: Vec<IndexInfo>,
        filter: &RawDocumentBuf,
        known: &RawDocumentBuf,
    ) -> Vec<(String, String)> {
        let query = Query::parse(filter, None, None).unwrap();
        let known = Filter::parse(known).unwrap();
        let all = Plan::searched_fields(&indexes, &query, &known);
        all.into_iter().map(|fields| (fields.bounding.join(" "), fields.tested.join(" "))).collect()
    }

    fn on(keys: RawDocumentBuf) -> IndexInfo {
        IndexInfo::new(IndexDef::parse(&keys, None, false).unwrap(), false)
    }

    fn pair(bounding: &str, tested: &str) -> (String, String) {
        (bounding.to_owned(), tested.to_owned())
    }

    #[test]
    fn conditions_that_contradict_each_other_bound_a_field_as_others_do() {
        let filter = rawdoc! { "$and": [{ "kind": "k1", "n": { "$gte": 100 } }, { "n": 1 }] };
        let indexes =
            vec![on(rawdoc! { "kind": 1, "n": 1 }), on(rawdoc! { "n": 1 }), on(rawdoc! { "kind": 1 })];
        let expected = [pair("kind n", ""), pair("n", ""), pair("kind", "")];
        assert_eq!(searched(indexes, &filter, &rawdoc! {}), expected);
        let empty = rawdoc! { "$and": [{ "n": { "$in": [] } }, { "kind": 1 }] };
        assert_eq!(searched(vec![on(rawdoc! { "n": 1 })], &empty, &rawdoc! {}), []);
    }

    #[test]
    fn a_single_value_among_contradictions_lets_the_next_field_bound_too() {
        let indexes = || vec![on(rawdoc! { "n": 1, "kind": -1 })];
        for contradiction in [
            rawdoc! { "$and": [{ "n": { "$gt": 7 } }, { "n": 1 }, { "kind": { "$gt": 1 } }] },
            rawdoc! { "$and": [{ "n": { "$in": [1, 2] } }, { "n": { "$gt": 7 } }, { "kind": 1 }] },
            rawdoc! { "$and": [{ "n": "text" }, { "n": 1 }, { "kind": 1 }, { "kind": 2 }] },
        ] {
            assert_eq!(searched(indexes(), &contradiction, &rawdoc! {}), [pair("n kind", "")]);
        }
        let ranges = rawdoc! { "$and": [{ "n": { "$gt": 7 } }, { "n": { "$lt": 2 } }, { "kind": 1 }] };
        assert_eq!(searched(indexes(), &ranges, &rawdoc! {}), [pair("n", "kind")]);
    }

    #[test]
    fn that_a_value_is_there_is_known_whatever_it_is() {
        let partial = rawdoc! { "key": { "n": 1 }, "name": "n", "partialFilterExpression": { "n": { "$exists": true } } };
        let sparse = rawdoc! { "key": { "n": 1 }, "name": "n", "sparse": true };
        for spec in [partial, sparse] {
            for multikey in [false, true] {
                let indexes = || vec![IndexInfo::new(index_of(&spec).unwrap(), multikey)];
                let one = rawdoc! { "n": 1 };
                assert_eq!(searched(indexes(), &one, &rawdoc! { "n": { "$exists": true } }), [pair("n", "")]);
                assert_eq!(searched(indexes(), &one, &rawdoc! { "other": { "$exists": true } }), []);
            }
        }
    }

    #[test]
    fn values_that_stand_for_others_do_not_undo_what_is_known() {
        let spec =
            rawdoc! { "key": { "n": 1 }, "name": "n", "partialFilterExpression": { "n": { "$gt": 3 } } };
        let indexes = || vec![IndexInfo::new(index_of(&spec).unwrap(), false)];
        let known = rawdoc! { "n": { "$gte": 5, "$lte": 10 } };
        for stands in [rawdoc! { "n": 1 }, rawdoc! { "n": { "$gte": 0, "$lte": 2 } }] {
            assert_eq!(searched(indexes(), &stands, &known), [pair("n", "")]);
            assert_eq!(searched(indexes(), &stands, &rawdoc! { "n": { "$lte": 10 } }), []);
        }
    }

    #[test]
    fn an_index_with_another_collation_is_searched_for_no_value_that_is_not_known() {
        let spec = rawdoc! { "key": { "kind": 1, "n": 1 }, "name": "n", "collation": { "locale": "fr" } };
        let indexes = || vec![IndexInfo::new(index_of(&spec).unwrap(), false)];
        let both = rawdoc! { "kind": 2, "n": 1 };
        assert_eq!(searched(indexes(), &both, &rawdoc! {}), []);
        assert_eq!(searched(indexes(), &both, &rawdoc! { "kind": 2 }), []);
        // What is known of the field of the other value does not make that one known.
        let range = rawdoc! { "$and": [{ "kind": 1 }, { "kind": { "$lt": 5 } }] };
        assert_eq!(searched(indexes(), &range, &rawdoc! { "kind": { "$lt": 5 } }), []);
    }

    #[test]
    fn only_conditions_that_are_known_say_that_a_partial_index_has_all() {
        let partial = |filter: RawDocumentBuf| {
            let spec = rawdoc! { "key": { "n": 1 }, "name": "n", "partialFilterExpression": filter };
            vec![IndexInfo::new(index_of(&spec).unwrap(), false)]
        };
        let positive = || partial(rawdoc! { "n": { "$gt": 0 } });
        let one = rawdoc! { "n": 1 };
        assert_eq!(searched(positive(), &one, &rawdoc! {}), []);
        assert_eq!(searched(positive(), &one, &rawdoc! { "other": 1 }), []);
        assert_eq!(searched(positive(), &one, &rawdoc! { "n": { "$gt": 5 } }), [pair("n", "")]);
        let of_part = partial(rawdoc! { "part": { "$gt": 1 } });
        let both = rawdoc! { "n": 1, "part": 3 };
        assert_eq!(searched(of_part, &both, &rawdoc! { "part": 3 }), [pair("n", "")]);
    }
}
