//! Which filters match which documents, one case per line.

use bson::{RawDocumentBuf, rawdoc};

use super::Filter;
use crate::error::ErrorCode;

fn check(filter: RawDocumentBuf, doc: RawDocumentBuf, expected: bool) {
    let parsed = Filter::parse(&filter).unwrap();
    let json = crate::doc::json::to_json;
    assert_eq!(parsed.matches(&doc).unwrap(), expected, "{} on {}", json(&filter), json(&doc));
}

#[test]
fn equality_matches_values_and_elements_and_null_matches_missing() {
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
fn comparisons_only_match_values_of_the_same_type() {
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
fn conjuncts_and_equalities_flatten_every_and() {
    let filter =
        Filter::parse(&rawdoc! { "a": 1, "$and": [{ "b": { "$eq": 2 } }, { "c": { "$gt": 3 } }] }).unwrap();
    assert_eq!(filter.conjuncts().len(), 3);
    let known: Vec<_> = filter.equalities().iter().map(|(path, _)| path.as_str().to_owned()).collect();
    assert_eq!(known, ["a", "b"]);
}

fn regex(pattern: &str, options: &str) -> bson::RawBson {
    bson::RawBson::RegularExpression(bson::Regex {
        pattern: bson::raw::CString::try_from(pattern).unwrap(),
        options: bson::raw::CString::try_from(options).unwrap(),
    })
}

fn binary(bytes: &[u8]) -> bson::Binary {
    bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() }
}

#[test]
fn type_matches_values_and_elements_but_not_missing() {
    check(rawdoc! { "a": { "$type": "int" } }, rawdoc! { "a": 1 }, true);
    check(rawdoc! { "a": { "$type": "int" } }, rawdoc! { "a": 1.0 }, false);
    check(rawdoc! { "a": { "$type": "number" } }, rawdoc! { "a": 1_i64 }, true);
    check(rawdoc! { "a": { "$type": [2, "date"] } }, rawdoc! { "a": "x" }, true);
    check(rawdoc! { "a": { "$type": 16 } }, rawdoc! { "a": ["x", 1] }, true);
    check(rawdoc! { "a": { "$type": "array" } }, rawdoc! { "a": [] }, true);
    check(rawdoc! { "a": { "$type": "null" } }, rawdoc! {}, false);
    check(rawdoc! { "a": { "$type": -1 } }, rawdoc! { "a": bson::RawBson::MinKey }, true);
    check(rawdoc! { "a.b": { "$type": "string" } }, rawdoc! { "a": [{ "b": 1 }, { "b": "x" }] }, true);
}

#[test]
fn one_element_must_meet_all_conditions_of_an_elem_match() {
    let between = || rawdoc! { "a": { "$elemMatch": { "$gt": 2, "$lt": 5 } } };
    check(between(), rawdoc! { "a": [1, 4] }, true);
    check(between(), rawdoc! { "a": [1, 6] }, false);
    check(between(), rawdoc! { "a": 4 }, false);
    check(between(), rawdoc! { "a": [[4]] }, false);
    check(rawdoc! { "a": { "$elemMatch": { "$elemMatch": { "$gt": 3 } } } }, rawdoc! { "a": [[4]] }, true);
    check(rawdoc! { "a": { "$elemMatch": { "$size": 2 } } }, rawdoc! { "a": [[4, 5]] }, true);
    check(rawdoc! { "a": { "$elemMatch": { "$ne": 1 } } }, rawdoc! { "a": [1, 2] }, true);
    check(rawdoc! { "a": { "$elemMatch": { "$ne": 1 } } }, rawdoc! { "a": [1, 1] }, false);
    let both = || rawdoc! { "a": { "$elemMatch": { "x": 1, "y": { "$gt": 5 } } } };
    check(both(), rawdoc! { "a": [{ "x": 1, "y": 6 }] }, true);
    check(both(), rawdoc! { "a": [{ "x": 1, "y": 1 }, { "x": 2, "y": 6 }] }, false);
    check(both(), rawdoc! { "a": { "x": 1, "y": 6 } }, false);
    check(rawdoc! { "a": { "$elemMatch": { "0": 7 } } }, rawdoc! { "a": [[7]] }, true);
    check(rawdoc! { "a": { "$elemMatch": {} } }, rawdoc! { "a": [1] }, false);
    check(rawdoc! { "a": { "$elemMatch": {} } }, rawdoc! { "a": [{}] }, true);
    check(
        rawdoc! { "a": { "$elemMatch": { "$or": [{ "x": 1 }, { "x": 2 }] } } },
        rawdoc! { "a": [{ "x": 2 }] },
        true,
    );
    check(
        rawdoc! { "a.b": { "$elemMatch": { "$gt": 1 } } },
        rawdoc! { "a": [{ "b": [1] }, { "b": [2] }] },
        true,
    );
    check(rawdoc! { "a": { "$not": { "$elemMatch": { "$gt": 3 } } } }, rawdoc! { "a": [1, 4] }, false);
}

#[test]
fn all_and_size_are_conditions_on_whole_arrays() {
    check(rawdoc! { "a": { "$all": [1, 2] } }, rawdoc! { "a": [2, 3, 1] }, true);
    check(rawdoc! { "a": { "$all": [1, 2] } }, rawdoc! { "a": [1, 3] }, false);
    check(rawdoc! { "a": { "$all": [1] } }, rawdoc! { "a": 1 }, true);
    check(rawdoc! { "a": { "$all": [] } }, rawdoc! { "a": [1] }, false);
    check(rawdoc! { "a": { "$all": [[1, 2]] } }, rawdoc! { "a": [1, 2] }, true);
    check(rawdoc! { "a": { "$all": [regex("^x", ""), "y"] } }, rawdoc! { "a": ["xa", "y"] }, true);
    let pairs = rawdoc! { "a": { "$all": [{ "$elemMatch": { "x": 1 } }, { "$elemMatch": { "x": 2 } }] } };
    check(pairs.clone(), rawdoc! { "a": [{ "x": 1 }, { "x": 2 }] }, true);
    check(pairs, rawdoc! { "a": [{ "x": 1 }] }, false);
    check(rawdoc! { "a": { "$size": 2 } }, rawdoc! { "a": [1, 2] }, true);
    check(rawdoc! { "a": { "$size": 2.0 } }, rawdoc! { "a": [[1, 2]] }, false);
    check(rawdoc! { "a": { "$size": 0 } }, rawdoc! {}, false);
}

#[test]
fn patterns_match_strings_and_equal_patterns() {
    check(rawdoc! { "a": regex("b", "") }, rawdoc! { "a": "abc" }, true);
    check(rawdoc! { "a": regex("^b", "") }, rawdoc! { "a": ["x", "bc"] }, true);
    check(rawdoc! { "a": regex("B", "i") }, rawdoc! { "a": "abc" }, true);
    check(rawdoc! { "a": regex("b", "") }, rawdoc! { "a": regex("b", "") }, true);
    check(rawdoc! { "a": regex("b", "") }, rawdoc! { "a": regex("b", "i") }, false);
    check(rawdoc! { "a": regex("1", "") }, rawdoc! { "a": 1 }, false);
    check(rawdoc! { "a": { "$regex": "B", "$options": "i" } }, rawdoc! { "a": "abc" }, true);
    check(rawdoc! { "a": { "$options": "i", "$regex": "B" } }, rawdoc! { "a": "abc" }, true);
    check(rawdoc! { "a": { "$regex": regex("b", "") } }, rawdoc! { "a": "abc" }, true);
    check(rawdoc! { "a": { "$not": regex("b", "") } }, rawdoc! {}, true);
    check(rawdoc! { "a": { "$in": [1, regex("^b", "")] } }, rawdoc! { "a": "bc" }, true);
    check(rawdoc! { "a": { "$nin": [1, regex("^b", "")] } }, rawdoc! { "a": "bc" }, false);
    check(rawdoc! { "a": { "$eq": regex("b", "") } }, rawdoc! { "a": "abc" }, false);
    check(rawdoc! { "a": { "$eq": regex("b", "") } }, rawdoc! { "a": regex("b", "") }, true);
}

#[test]
fn mod_uses_the_integer_part() {
    check(rawdoc! { "a": { "$mod": [4, 1] } }, rawdoc! { "a": 5 }, true);
    check(rawdoc! { "a": { "$mod": [4, 1] } }, rawdoc! { "a": 5.9 }, true);
    check(rawdoc! { "a": { "$mod": [4, -1] } }, rawdoc! { "a": -5_i64 }, true);
    check(rawdoc! { "a": { "$mod": [4.9, 1] } }, rawdoc! { "a": 5 }, true);
    check(rawdoc! { "a": { "$mod": [-1, 0] } }, rawdoc! { "a": i64::MIN }, true);
    check(rawdoc! { "a": { "$mod": [4, 0] } }, rawdoc! { "a": "4" }, false);
    check(rawdoc! { "a": { "$mod": [4, 0] } }, rawdoc! { "a": f64::INFINITY }, false);
    check(
        rawdoc! { "a": { "$mod": [4, 1] } },
        rawdoc! { "a": "5.7".parse::<bson::Decimal128>().unwrap() },
        true,
    );
}

#[test]
fn bit_tests_apply_to_whole_numbers_and_binary_data() {
    check(rawdoc! { "a": { "$bitsAllSet": 6 } }, rawdoc! { "a": 7 }, true);
    check(rawdoc! { "a": { "$bitsAllSet": [1, 3] } }, rawdoc! { "a": 2 }, false);
    check(rawdoc! { "a": { "$bitsAllClear": [0, 3] } }, rawdoc! { "a": 6.0 }, true);
    check(rawdoc! { "a": { "$bitsAnySet": [200] } }, rawdoc! { "a": -1 }, true);
    check(rawdoc! { "a": { "$bitsAnySet": [200] } }, rawdoc! { "a": 1 }, false);
    check(rawdoc! { "a": { "$bitsAnyClear": 3 } }, rawdoc! { "a": 1_i64 }, true);
    check(rawdoc! { "a": { "$bitsAllSet": binary(&[0, 1]) } }, rawdoc! { "a": 256 }, true);
    check(rawdoc! { "a": { "$bitsAllSet": [8] } }, rawdoc! { "a": binary(&[0, 1]) }, true);
    check(rawdoc! { "a": { "$bitsAnySet": [80] } }, rawdoc! { "a": binary(&[0, 1]) }, false);
    check(rawdoc! { "a": { "$bitsAllSet": 0 } }, rawdoc! { "a": 1.5 }, false);
    check(rawdoc! { "a": { "$bitsAllSet": 0 } }, rawdoc! { "a": 1 }, true);
}

#[test]
fn a_schema_matches_valid_documents_only() {
    let film = || {
        rawdoc! { "$jsonSchema": {
            "bsonType": "object", "required": ["title", "year"], "additionalProperties": false,
            "properties": {
                "_id": {}, "title": { "bsonType": "string", "minLength": 1, "maxLength": 5, "pattern": "^[A-Z]" },
                "year": { "bsonType": ["int", "long"], "minimum": 1890, "maximum": 2100, "exclusiveMaximum": true },
                "cast": { "bsonType": "array", "items": { "type": "string" }, "uniqueItems": true, "maxItems": 2 },
                "kind": { "enum": ["short", null] }, "n": { "multipleOf": 5 },
            },
            "patternProperties": { "^x": { "not": { "type": "null" } } },
            "dependencies": { "kind": ["cast"] },
        } }
    };
    check(film(), rawdoc! { "_id": 1, "title": "Alien", "year": 1979 }, true);
    check(
        film(),
        rawdoc! { "title": "Größe", "year": 1979_i64, "cast": ["a", "b"], "kind": null, "n": 10 },
        true,
    );
    for bad in [
        rawdoc! { "title": "Alien" },
        rawdoc! { "title": "Aliens", "year": 1979 },
        rawdoc! { "title": "", "year": 1979 },
        rawdoc! { "title": "alien", "year": 1979 },
        rawdoc! { "title": "Alien", "year": 2100 },
        rawdoc! { "title": "Alien", "year": 1979.0 },
        rawdoc! { "title": "Alien", "year": 1979, "cast": ["a", 1] },
        rawdoc! { "title": "Alien", "year": 1979, "cast": ["a", "a"] },
        rawdoc! { "title": "Alien", "year": 1979, "cast": ["a", "b", "c"] },
        rawdoc! { "title": "Alien", "year": 1979, "cast": [], "kind": "long" },
        rawdoc! { "title": "Alien", "year": 1979, "kind": "short" },
        rawdoc! { "title": "Alien", "year": 1979, "n": 7 },
        rawdoc! { "title": "Alien", "year": 1979, "x1": null },
        rawdoc! { "title": "Alien", "year": 1979, "y": 1 },
    ] {
        check(film(), bad, false);
    }
    let choice = || rawdoc! { "$jsonSchema": { "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] } };
    check(choice(), rawdoc! { "a": 1 }, true);
    check(choice(), rawdoc! { "a": 1, "b": 1 }, false);
    let tuple = || {
        rawdoc! { "$jsonSchema": { "properties": { "a": {
            "items": [{ "type": "string" }, { "anyOf": [{ "type": "null" }, { "minimum": 3 }] }], "additionalItems": false,
        } } } }
    };
    check(tuple(), rawdoc! { "a": ["x", 3] }, true);
    check(tuple(), rawdoc! { "a": ["x", 2] }, false);
    check(tuple(), rawdoc! { "a": ["x", null, 1] }, false);
}

#[test]
fn an_expression_is_evaluated_for_the_whole_document() {
    check(rawdoc! { "$expr": { "$gt": ["$a", "$b"] } }, rawdoc! { "a": 2, "b": 1 }, true);
    check(rawdoc! { "$expr": { "$gt": ["$a", "$b"] } }, rawdoc! { "a": 1, "b": 1 }, false);
    check(rawdoc! { "x": 1, "$or": [{ "$expr": "$a" }, { "b": 1 }] }, rawdoc! { "x": 1, "a": true }, true);
    let divides = Filter::parse(&rawdoc! { "$expr": { "$divide": [1, "$a"] } }).unwrap();
    assert!(divides.matches(&rawdoc! { "a": 0 }).is_err());
    let nested = Filter::parse(&rawdoc! { "a": { "$elemMatch": { "$expr": true, "b": 1 } } });
    assert_eq!(nested.unwrap_err().code, ErrorCode::BadValue);
}

#[test]
fn the_position_is_that_of_the_element_that_met_the_last_condition() {
    for (filter, doc, position) in [
        (rawdoc! { "a": 5 }, rawdoc! { "a": [4, 5] }, Some(1)),
        (rawdoc! { "a": 5 }, rawdoc! { "a": 5 }, None),
        (rawdoc! { "a.b": { "$gt": 1 } }, rawdoc! { "a": [{ "b": 0 }, { "b": [0, 2] }] }, Some(1)),
        (rawdoc! { "a": { "$elemMatch": { "b": 2 } } }, rawdoc! { "a": [{}, {}, { "b": 2 }] }, Some(2)),
        (rawdoc! { "a": 1, "b": 2 }, rawdoc! { "a": [1], "b": [0, 2] }, Some(1)),
        (rawdoc! { "b": 2, "a": 1, "c": 1 }, rawdoc! { "a": [0, 0, 1], "b": [2], "c": 1 }, Some(2)),
        (rawdoc! { "$or": [{ "a": 9 }, { "b": 2 }] }, rawdoc! { "a": [1], "b": [0, 2] }, Some(1)),
        (rawdoc! { "a": { "$ne": 7 } }, rawdoc! { "a": [1] }, None),
        (rawdoc! { "a": 9 }, rawdoc! { "a": [1] }, None),
    ] {
        assert_eq!(Filter::parse(&filter).unwrap().position(&doc), position, "{filter:?}");
    }
}

#[test]
fn operators_with_wrong_operands_get_mongodbs_codes() {
    for (filter, code) in [
        (rawdoc! { "a": { "$type": "foo" } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$type": 0 } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$type": null } }, ErrorCode::TypeMismatch),
        (rawdoc! { "a": { "$type": [] } }, ErrorCode::FailedToParse),
        (rawdoc! { "a": { "$size": -1 } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$size": 1.5 } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$mod": [0, 1] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$mod": [1] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$mod": [1, 2, 3] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$mod": [f64::NAN, 2] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$elemMatch": 1 } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$all": 1 } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$all": [{ "$gt": 1 }] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$all": [{ "$elemMatch": {} }, 1] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$bitsAllSet": -1 } }, ErrorCode::FailedToParse),
        (rawdoc! { "a": { "$bitsAllSet": "x" } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$bitsAllSet": [-1] } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$regex": 1 } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$regex": "(" } }, ErrorCode::Location51091),
        (rawdoc! { "a": { "$options": "i" } }, ErrorCode::BadValue),
        (rawdoc! { "a": { "$regex": regex("a", "i"), "$options": "i" } }, ErrorCode::Location51075),
        (rawdoc! { "a": { "$regex": "a", "$options": "q" } }, ErrorCode::Location51108),
        (rawdoc! { "a": { "$gt": regex("a", "") } }, ErrorCode::BadValue),
        (rawdoc! { "$where": "true" }, ErrorCode::NotImplemented),
        (rawdoc! { "$jsonSchema": 1 }, ErrorCode::TypeMismatch),
        (rawdoc! { "$jsonSchema": { "foo": 1 } }, ErrorCode::FailedToParse),
        (rawdoc! { "$jsonSchema": { "minLength": -1 } }, ErrorCode::FailedToParse),
        (rawdoc! { "$jsonSchema": { "type": "integer" } }, ErrorCode::BadValue),
        (rawdoc! { "$jsonSchema": { "required": [] } }, ErrorCode::FailedToParse),
        (rawdoc! { "$jsonSchema": { "format": "date" } }, ErrorCode::FailedToParse),
    ] {
        assert_eq!(Filter::parse(&filter).unwrap_err().code, code, "{filter:?}");
    }
}

#[test]
fn a_schema_of_thousands_of_names_and_patterns_is_read_and_checked_in_time() {
    let mut named = bson::Document::new();
    let mut patterns = bson::Document::new();
    let mut document = bson::Document::new();
    for n in 0..4000 {
        patterns.insert(format!("^p{n}_"), bson::doc! { "bsonType": "int" });
    }
    for n in 0..40_000 {
        named.insert(format!("f{n}"), bson::doc! { "bsonType": "int" });
        document.insert(format!("f{n}"), n);
    }
    let required: Vec<_> = document.keys().cloned().collect();
    let begun = std::time::Instant::now();
    let parse = |schema: bson::Document| {
        Filter::parse(&RawDocumentBuf::try_from(&bson::doc! { "$jsonSchema": schema }).unwrap()).unwrap()
    };
    let by_pattern = parse(bson::doc! { "patternProperties": patterns });
    assert!(!by_pattern.matches(&rawdoc! { "p17_": "text" }).unwrap());
    let by_name =
        parse(bson::doc! { "properties": named, "required": required, "additionalProperties": false });
    assert!(by_name.matches(&RawDocumentBuf::try_from(&document).unwrap()).unwrap());
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
