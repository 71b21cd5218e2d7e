//! What matches what: one line a claim.

use bson::{RawDocumentBuf, rawdoc};

use super::Filter;
use crate::code::ErrorCode;

fn check(filter: RawDocumentBuf, doc: RawDocumentBuf, expected: bool) {
    let parsed = Filter::parse(&filter).unwrap();
    let shown = crate::doc::json::to_json;
    assert_eq!(parsed.matches(&doc), expected, "{} on {}", shown(&filter), shown(&doc));
}

#[test]
fn equality_meets_values_elements_and_nothing_for_null() {
    check(rawdoc! { "a": 1 }, rawdoc! { "a": 1.0 }, true);
    check(rawdoc! { "a": 1 }, rawdoc! { "a": [3, 1] }, true);
    check(rawdoc! { "a": [3, 1] }, rawdoc! { "a": [3, 1] }, true);
    check(rawdoc! { "a": [3, 1] }, rawdoc! { "a": [[3, 1]] }, true);
    check(rawdoc! { "a": [1, 3] }, rawdoc! { "a": [3, 1] }, false);
    check(rawdoc! { "a": { "b": 1, "c": 2 } }, rawdoc! { "a": { "b": 1, "c": 2 } }, true);
    check(rawdoc! { "a": { "c": 2, "b": 1 } }, rawdoc! { "a": { "b": 1, "c": 2 } }, false);
    check(rawdoc! { "a": null }, rawdoc! {}, true);
    check(rawdoc! { "a": null }, rawdoc! { "a": null }, true);
    check(rawdoc! { "a": null }, rawdoc! { "a": [1, null] }, true);
    check(rawdoc! { "a": null }, rawdoc! { "a": [] }, false);
    check(rawdoc! { "a": null }, rawdoc! { "a": 0 }, false);
    check(rawdoc! { "a.b": null }, rawdoc! { "a": 5 }, true);
    check(rawdoc! { "a.b": null }, rawdoc! { "a": [5] }, false);
    check(rawdoc! { "a.b": null }, rawdoc! { "a": [{ "b": 1 }, { "c": 1 }] }, true);
    check(rawdoc! { "a.b": 1 }, rawdoc! { "a": [{ "b": 1 }, { "c": 1 }] }, true);
    check(rawdoc! { "a.1": 7 }, rawdoc! { "a": [5, 7] }, true);
    check(rawdoc! { "a.0": 7 }, rawdoc! { "a": [5, 7] }, false);
    check(rawdoc! {}, rawdoc! { "x": 1 }, true);
    check(rawdoc! { "a": f64::NAN }, rawdoc! { "a": f64::NAN }, true);
    check(rawdoc! { "a": { "$ref": "x", "$id": 1 } }, rawdoc! { "a": { "$ref": "x", "$id": 1 } }, true);
}

#[test]
fn comparisons_stay_within_the_type() {
    check(rawdoc! { "a": { "$gt": 5 } }, rawdoc! { "a": 6.5 }, true);
    check(rawdoc! { "a": { "$gt": 5 } }, rawdoc! { "a": "x" }, false);
    check(rawdoc! { "a": { "$gt": 5 } }, rawdoc! {}, false);
    check(rawdoc! { "a": { "$lt": 5 } }, rawdoc! { "a": null }, false);
    check(rawdoc! { "a": { "$lt": 5 } }, rawdoc! { "a": f64::NAN }, false);
    check(rawdoc! { "a": { "$gte": f64::NAN } }, rawdoc! { "a": f64::NAN }, true);
    check(rawdoc! { "a": { "$gte": null } }, rawdoc! {}, true);
    check(rawdoc! { "a": { "$gt": null } }, rawdoc! { "a": 1 }, false);
    check(rawdoc! { "a": { "$gt": "a", "$lte": "c" } }, rawdoc! { "a": "c" }, true);
    check(rawdoc! { "a": { "$gt": 5, "$lt": 3 } }, rawdoc! { "a": [2, 6] }, true);
    check(rawdoc! { "a": { "$gt": 5, "$lt": 3 } }, rawdoc! { "a": 4 }, false);
    check(rawdoc! { "a": { "$gt": [1] } }, rawdoc! { "a": [2] }, true);
    check(rawdoc! { "a": { "$gt": bson::RawBson::MinKey } }, rawdoc! { "a": "x" }, true);
    check(rawdoc! { "a": { "$lt": bson::RawBson::MaxKey } }, rawdoc! {}, true);
    check(rawdoc! { "a": { "$gte": { "b": 1 } } }, rawdoc! { "a": { "b": 2 } }, true);
}

#[test]
fn lists_logic_and_existence_work_as_in_mongodb() {
    check(rawdoc! { "a": { "$in": [1, "x"] } }, rawdoc! { "a": ["x"] }, true);
    check(rawdoc! { "a": { "$in": [] } }, rawdoc! { "a": 1 }, false);
    check(rawdoc! { "a": { "$in": [null] } }, rawdoc! {}, true);
    check(rawdoc! { "a": { "$nin": [1, null] } }, rawdoc! { "a": 2 }, true);
    check(rawdoc! { "a": { "$nin": [1] } }, rawdoc! { "a": [1, 2] }, false);
    check(rawdoc! { "a": { "$ne": 1 } }, rawdoc! {}, true);
    check(rawdoc! { "a": { "$ne": 1 } }, rawdoc! { "a": [1, 2] }, false);
    check(rawdoc! { "a": { "$not": { "$gt": 5 } } }, rawdoc! {}, true);
    check(rawdoc! { "a": { "$not": { "$gt": 5, "$lt": 9 } } }, rawdoc! { "a": 10 }, true);
    check(rawdoc! { "a": { "$exists": true } }, rawdoc! { "a": null }, true);
    check(rawdoc! { "a": { "$exists": true } }, rawdoc! { "a": [] }, true);
    check(rawdoc! { "a": { "$exists": 0 } }, rawdoc! { "b": 1 }, true);
    check(rawdoc! { "a.b": { "$exists": true } }, rawdoc! { "a": [{ "c": 1 }, { "b": 1 }] }, true);
    check(rawdoc! { "a.b": { "$exists": false } }, rawdoc! { "a": [1] }, true);
    check(rawdoc! { "$or": [{ "a": 1 }, { "b": 2 }] }, rawdoc! { "b": 2 }, true);
    check(rawdoc! { "$nor": [{ "a": 1 }, { "b": 2 }] }, rawdoc! { "b": 2 }, false);
    check(rawdoc! { "$and": [{ "a": 1 }, { "b": 2 }], "c": 3 }, rawdoc! { "a": 1, "b": 2, "c": 3 }, true);
    check(rawdoc! { "$comment": "why", "a": 1 }, rawdoc! { "a": 1 }, true);
}

#[test]
fn bad_filters_get_mongodbs_code_and_name_the_field() {
    for (filter, part) in [
        (rawdoc! { "a": { "$foo": 1 } }, "unknown operator: $foo (field 'a')"),
        (rawdoc! { "a.b": { "$gt": 1, "c": 1 } }, "unknown operator: c (field 'a.b')"),
        (rawdoc! { "$foo": 1 }, "unknown top level operator: $foo"),
        (rawdoc! { "$or": [] }, "$or argument must be a non-empty array"),
        (rawdoc! { "$and": 1 }, "$and must be an array"),
        (rawdoc! { "$nor": [1] }, "$nor argument's entries must be objects"),
        (rawdoc! { "a": { "$in": 1 } }, "$in needs an array (field 'a')"),
        (rawdoc! { "a": { "$nin": [{ "$gt": 1 }] } }, "cannot nest $ under $nin (field 'a')"),
        (rawdoc! { "a": { "$not": 1 } }, "$not needs a regex or a document (field 'a')"),
        (rawdoc! { "a": { "$not": {} } }, "$not cannot be empty (field 'a')"),
        (rawdoc! { "$or": [{ "x": { "$not": { "$bar": 1 } } }] }, "unknown operator: $bar (field 'x')"),
        (rawdoc! { "a": bson::RawBson::Undefined }, "cannot compare to undefined (field 'a')"),
    ] {
        let error = Filter::parse(&filter).unwrap_err();
        assert_eq!(error.code, ErrorCode::BadValue);
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn conjuncts_and_equalities_look_through_every_and() {
    let filter =
        Filter::parse(&rawdoc! { "a": 1, "$and": [{ "b": { "$eq": 2 } }, { "c": { "$gt": 3 } }] }).unwrap();
    assert_eq!(filter.conjuncts().len(), 3);
    let known: Vec<_> = filter.equalities().iter().map(|(path, _)| path.as_str().to_owned()).collect();
    assert_eq!(known, ["a", "b"]);
}
