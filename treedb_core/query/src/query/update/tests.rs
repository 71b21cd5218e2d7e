//! Each test checks a rule of MongoDB's update language.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::*;

fn raw(document: Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&document).unwrap()
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

fn parse(update: Document) -> Result<Update> {
    Update::parse(&raw(update))
}

/// Applies `update` to `old`; `None` if nothing changes.
fn apply(old: Document, update: Document) -> Result<Option<Document>> {
    Ok(parse(update)?.apply(&raw(old), &Filter::all())?.map(|new| Document::try_from(&*new).unwrap()))
}

fn applied(old: Document, update: Document) -> Document {
    apply(old, update).unwrap().unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.unwrap_err().code
}

#[test]
fn set_creates_missing_documents_and_keeps_the_order_of_old_fields() {
    assert_eq!(
        applied(doc! { "_id": 1, "z": 1, "a": 2 }, doc! { "$set": { "z": 9, "n.m": 3, "b": 0 } }),
        doc! { "_id": 1, "z": 9, "a": 2, "b": 0, "n": { "m": 3 } }
    );
}

#[test]
fn numbers_in_a_path_index_arrays_and_pad_them_with_null() {
    let old = doc! { "a": [ { "x": 1 }, 2 ] };
    assert_eq!(applied(old.clone(), doc! { "$set": { "a.0.x": 5 } }), doc! { "a": [ { "x": 5 }, 2 ] });
    assert_eq!(
        applied(old.clone(), doc! { "$set": { "a.3": 5 } }),
        doc! { "a": [ { "x": 1 }, 2, Bson::Null, 5 ] }
    );
    assert_eq!(applied(old, doc! { "$unset": { "a.0": "" } }), doc! { "a": [ Bson::Null, 2 ] });
    assert_eq!(applied(doc! { "a": {} }, doc! { "$set": { "a.0": 5 } }), doc! { "a": { "0": 5 } });
}

#[test]
fn a_path_through_a_scalar_is_not_viable() {
    assert_eq!(code(apply(doc! { "a": 1 }, doc! { "$set": { "a.b": 2 } })), ErrorCode::PathNotViable);
    assert_eq!(code(apply(doc! { "a": [1] }, doc! { "$set": { "a.b": 2 } })), ErrorCode::PathNotViable);
    assert_eq!(code(apply(doc! { "a": [1] }, doc! { "$set": { "a.2000000": 2 } })), ErrorCode::BadValue);
}

#[test]
fn an_update_that_changes_nothing_returns_none() {
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$set": { "a": 1 } }).unwrap(), None);
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$unset": { "b": 1, "a.c": 1 } }).unwrap(), None);
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$setOnInsert": { "b": 1 } }).unwrap(), None);
    assert_eq!(apply(doc! { "_id": 1, "a": 1 }, doc! { "a": 1 }).unwrap(), None);
}

#[test]
fn inc_widens_on_overflow_and_refuses_values_that_are_not_numbers() {
    let sums = [
        (Bson::Int32(1), Bson::Int32(2), Bson::Int32(3)),
        (Bson::Int32(i32::MAX), Bson::Int32(1), Bson::Int64(1 << 31)),
        (Bson::Int32(1), Bson::Int64(2), Bson::Int64(3)),
        (Bson::Int64(1), Bson::Double(0.5), Bson::Double(1.5)),
        (decimal("0.10"), decimal("0.2"), decimal("0.30")),
        (Bson::Int32(1), decimal("0.5"), decimal("1.5")),
    ];
    for (old, by, sum) in sums {
        assert_eq!(applied(doc! { "a": old }, doc! { "$inc": { "a": by } }), doc! { "a": sum });
    }
    assert_eq!(applied(doc! {}, doc! { "$inc": { "a.b": 2 } }), doc! { "a": { "b": 2 } });
    assert_eq!(code(apply(doc! { "a": "x" }, doc! { "$inc": { "a": 1 } })), ErrorCode::TypeMismatch);
    assert_eq!(code(apply(doc! { "a": Bson::Null }, doc! { "$inc": { "a": 1 } })), ErrorCode::TypeMismatch);
    assert_eq!(code(apply(doc! { "a": i64::MAX }, doc! { "$inc": { "a": 1 } })), ErrorCode::BadValue);
    assert_eq!(code(parse(doc! { "$inc": { "a": "x" } })), ErrorCode::TypeMismatch);
}

#[test]
fn the_id_cannot_be_changed_but_may_be_named() {
    let old = doc! { "_id": 1, "a": 1 };
    for update in [
        doc! { "$set": { "_id": 2 } },
        doc! { "$unset": { "_id": 1 } },
        doc! { "$inc": { "_id": 1 } },
        doc! { "_id": 2, "a": 1 },
    ] {
        assert_eq!(code(apply(old.clone(), update)), ErrorCode::ImmutableField);
    }
    assert_eq!(applied(old.clone(), doc! { "$set": { "_id": 1, "a": 2 } }), doc! { "_id": 1, "a": 2 });
    assert_eq!(applied(old, doc! { "b": 1, "_id": 1 }), doc! { "_id": 1, "b": 1 });
}

#[test]
fn malformed_updates_have_mongodbs_error_codes() {
    let cases = [
        (doc! { "$foo": { "a": 1 } }, ErrorCode::FailedToParse),
        (doc! { "$set": 1 }, ErrorCode::FailedToParse),
        (doc! { "$set": { "a": 1 }, "b": 1 }, ErrorCode::FailedToParse),
        (doc! { "a": 1, "$set": { "b": 1 } }, ErrorCode::DollarPrefixedFieldName),
        (doc! { "$set": { "a": 1 }, "$inc": { "a": 1 } }, ErrorCode::ConflictingUpdateOperators),
        (doc! { "$set": { "a": 1, "a.b": 1 } }, ErrorCode::ConflictingUpdateOperators),
        (doc! { "$set": { "a.b": 1, "a-b": 1, "a": 1 } }, ErrorCode::ConflictingUpdateOperators),
        (doc! { "$set": { "a..b": 1 } }, ErrorCode::EmptyFieldName),
        (doc! { "$set": { "": 1 } }, ErrorCode::EmptyFieldName),
        (doc! { "$set": { "a.$b": 1 } }, ErrorCode::DollarPrefixedFieldName),
    ];
    for (update, expected) in cases {
        assert_eq!(code(parse(update.clone())), expected, "{update}");
    }
}

#[test]
fn documents_whose_id_is_not_a_number_can_be_changed() {
    let old = doc! { "_id": f64::NAN, "a": 1 };
    assert_eq!(applied(old.clone(), doc! { "$set": { "a": 2 } }).get_i32("a").unwrap(), 2);
    assert_eq!(applied(old.clone(), doc! { "_id": f64::NAN, "b": 2 }).get_i32("b").unwrap(), 2);
    assert_eq!(code(apply(old, doc! { "$set": { "_id": 2 } })), ErrorCode::ImmutableField);
}

#[test]
fn an_operator_may_occur_twice_but_not_with_the_same_path() {
    let mut update = bson::rawdoc! { "$set": { "a": 1 } };
    update.append(bson::raw::cstr!("$set"), bson::rawdoc! { "b": 2 });
    let new =
        Update::parse(&update).unwrap().apply(&raw(doc! { "_id": 1 }), &Filter::all()).unwrap().unwrap();
    assert_eq!(Document::try_from(&*new).unwrap(), doc! { "_id": 1, "a": 1, "b": 2 });
    update.append(bson::raw::cstr!("$inc"), bson::rawdoc! { "b": 2 });
    assert_eq!(code(Update::parse(&update)), ErrorCode::ConflictingUpdateOperators);
    let mut twice = bson::rawdoc! { "a": 1 };
    twice.append(bson::raw::cstr!("a"), 2);
    assert_eq!(code(Update::parse(&bson::rawdoc! { "$set": twice })), ErrorCode::ConflictingUpdateOperators);
}

#[test]
fn a_path_that_nests_too_deep_is_refused() {
    let deep = vec!["a"; 150].join(".");
    assert!(apply(doc! {}, doc! { "$set": { deep: 1 } }).is_err());
}

#[test]
fn a_path_as_long_as_a_message_is_refused_before_anything_is_built() {
    let endless = vec!["a"; 5_000_000].join(".");
    assert_eq!(code(parse(doc! { "$set": { endless.clone(): 1 } })), ErrorCode::Overflow);
    let filter = Filter::parse(&raw(doc! { endless: 1 })).unwrap();
    assert_eq!(code(parse(doc! { "$set": { "b": 1 } }).unwrap().upsert(&filter)), ErrorCode::Overflow);
}

#[test]
fn positions_and_names_sort_consistently() {
    // Positions by value and names by bytes alone would put 2 < 10 < 1a < 2.
    let names: Vec<String> = (0..40).flat_map(|n| [format!("{n}"), format!("{n}a")]).collect();
    let set: Document = names.iter().rev().map(|name| (format!("a.{name}"), Bson::Int32(1))).collect();
    let new = applied(doc! {}, doc! { "$set": set });
    let keys: Vec<&String> = new.get_document("a").unwrap().keys().collect();
    assert_eq!(keys[..3], ["0", "1", "2"]);
    assert_eq!(keys.len(), names.len());
}

#[test]
fn invalid_bson_is_refused() {
    let mut bytes = raw(doc! { "$set": { "a": "text" } }).into_bytes();
    let at = bytes.windows(4).position(|part| part == b"text").unwrap();
    bytes[at + 1] = 0xff;
    let invalid = RawDocumentBuf::from_bytes(bytes).unwrap();
    assert_eq!(code(Update::parse(&invalid)), ErrorCode::InvalidBSON);
}

#[test]
fn an_upsert_takes_the_equalities_of_its_filter() {
    let upsert = |filter: Document, update: Document| {
        parse(update)?.upsert(&Filter::parse(&raw(filter))?).map(|new| Document::try_from(&*new).unwrap())
    };
    assert_eq!(
        upsert(
            doc! { "a": 1, "b.c": { "$eq": 2 }, "$and": [ { "d": 3 } ], "e": { "$gt": 4 } },
            doc! { "$set": { "x": 1 }, "$setOnInsert": { "y": 2 }, "$inc": { "a": 1 } }
        )
        .unwrap(),
        doc! { "a": 2, "b": { "c": 2 }, "d": 3, "x": 1, "y": 2 }
    );
    assert_eq!(upsert(doc! { "_id": 7, "a": 1 }, doc! { "b": 2 }).unwrap(), doc! { "_id": 7, "b": 2 });
    assert_eq!(upsert(doc! { "a": 1 }, doc! { "$set": { "_id": 5 } }).unwrap(), doc! { "_id": 5, "a": 1 });
    assert_eq!(code(upsert(doc! { "_id": 1 }, doc! { "_id": 2 })), ErrorCode::ImmutableField);
    assert_eq!(
        code(upsert(doc! { "a": 1, "a.b": 2 }, doc! { "$set": { "x": 1 } })),
        ErrorCode::NotSingleValueField
    );
}

#[test]
fn mul_widens_on_overflow_and_a_missing_field_becomes_zero() {
    for (old, by, product) in [
        (Bson::Int32(3), Bson::Int32(2), Bson::Int32(6)),
        (Bson::Int32(1 << 30), Bson::Int32(4), Bson::Int64(1 << 32)),
        (Bson::Int64(3), Bson::Double(0.5), Bson::Double(1.5)),
        (decimal("1.10"), decimal("3"), decimal("3.30")),
        (decimal("9.999999999999999999999999999999999E+6144"), decimal("10"), decimal("Infinity")),
        (
            decimal("1.234567890123456789012345678901234"),
            decimal("1.000000000000000000000000000000001"),
            decimal("1.234567890123456789012345678901235"),
        ),
        (decimal("1E-6176"), decimal("0.5"), decimal("0E-6176")),
        (decimal("3E-6176"), decimal("0.5"), decimal("2E-6176")),
    ] {
        let result = applied(doc! { "a": old }, doc! { "$mul": { "a": by } });
        assert_eq!(result, doc! { "a": product });
    }
    assert_eq!(applied(doc! {}, doc! { "$mul": { "a": 5_i64 } }), doc! { "a": 0_i64 });
    assert_eq!(code(apply(doc! { "a": i64::MAX }, doc! { "$mul": { "a": 2 } })), ErrorCode::BadValue);
    assert_eq!(code(apply(doc! { "a": "x" }, doc! { "$mul": { "a": 2 } })), ErrorCode::TypeMismatch);
}

#[test]
fn min_and_max_compare_values_of_all_types() {
    assert_eq!(applied(doc! { "a": 5 }, doc! { "$min": { "a": 4.5 } }), doc! { "a": 4.5 });
    assert_eq!(apply(doc! { "a": 5 }, doc! { "$min": { "a": 5.0 } }).unwrap(), None);
    assert_eq!(apply(doc! { "a": 5 }, doc! { "$min": { "a": "x" } }).unwrap(), None);
    assert_eq!(applied(doc! { "a": 5 }, doc! { "$max": { "a": "x" } }), doc! { "a": "x" });
    assert_eq!(applied(doc! {}, doc! { "$max": { "a.b": 1 } }), doc! { "a": { "b": 1 } });
}

#[test]
fn bit_results_are_32_bit_if_both_operands_are() {
    assert_eq!(applied(doc! { "a": 13 }, doc! { "$bit": { "a": { "and": 10 } } }), doc! { "a": 8 });
    assert_eq!(applied(doc! { "a": 1 }, doc! { "$bit": { "a": { "or": 4, "xor": 1 } } }), doc! { "a": 4 });
    assert_eq!(applied(doc! { "a": 1 }, doc! { "$bit": { "a": { "or": 4_i64 } } }), doc! { "a": 5_i64 });
    assert_eq!(applied(doc! {}, doc! { "$bit": { "a": { "or": 4 } } }), doc! { "a": 4 });
    assert_eq!(code(apply(doc! { "a": 1.0 }, doc! { "$bit": { "a": { "or": 4 } } })), ErrorCode::BadValue);
    assert_eq!(code(parse(doc! { "$bit": { "a": { "not": 4 } } })), ErrorCode::BadValue);
    assert_eq!(code(parse(doc! { "$bit": { "a": { "or": 4.0 } } })), ErrorCode::BadValue);
}

#[test]
fn rename_moves_an_existing_value() {
    assert_eq!(
        applied(doc! { "a": 1, "b": 2, "c": 3 }, doc! { "$rename": { "a": "b" } }),
        doc! { "b": 1, "c": 3 }
    );
    assert_eq!(
        applied(doc! { "a": { "x": 1, "y": 2 } }, doc! { "$rename": { "a.x": "n.m" } }),
        doc! { "a": { "y": 2 }, "n": { "m": 1 } }
    );
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$rename": { "z": "a" } }).unwrap(), None);
    for (old, update, expected) in [
        (doc! { "a": [{ "b": 1 }] }, doc! { "$rename": { "a.0.b": "c" } }, ErrorCode::BadValue),
        (doc! { "a": 1, "b": [{}] }, doc! { "$rename": { "a": "b.0.c" } }, ErrorCode::BadValue),
        (doc! { "a": 1 }, doc! { "$rename": { "a": "a" } }, ErrorCode::BadValue),
        (doc! { "a": 1 }, doc! { "$rename": { "a": 1 } }, ErrorCode::BadValue),
        (doc! { "a": 1 }, doc! { "$rename": { "a": "a.b" } }, ErrorCode::ConflictingUpdateOperators),
        (
            doc! { "a": 1 },
            doc! { "$rename": { "a": "b" }, "$set": { "b": 1 } },
            ErrorCode::ConflictingUpdateOperators,
        ),
        (doc! { "_id": 1 }, doc! { "$rename": { "_id": "b" } }, ErrorCode::ImmutableField),
    ] {
        assert_eq!(code(apply(old, update.clone())), expected, "{update}");
    }
}

#[test]
fn the_current_date_is_a_date_or_a_timestamp() {
    let new = applied(
        doc! {},
        doc! { "$currentDate": { "a": true, "b": { "$type": "timestamp" }, "c": { "$type": "date" } } },
    );
    assert!(matches!(new.get("a"), Some(Bson::DateTime(at)) if at.timestamp_millis() > 1_600_000_000_000));
    assert!(matches!(new.get("b"), Some(Bson::Timestamp(at)) if at.time > 1_600_000_000));
    assert!(matches!(new.get("c"), Some(Bson::DateTime(_))));
    assert_eq!(code(parse(doc! { "$currentDate": { "a": 1 } })), ErrorCode::BadValue);
    assert_eq!(code(parse(doc! { "$currentDate": { "a": { "$type": "x" } } })), ErrorCode::BadValue);
}

#[test]
fn push_inserts_sorts_and_slices() {
    let push = |old: Document, operand: Bson| applied(old, doc! { "$push": { "a": operand } });
    assert_eq!(push(doc! { "a": [1] }, Bson::Int32(2)), doc! { "a": [1, 2] });
    assert_eq!(push(doc! {}, Bson::Int32(2)), doc! { "a": [2] });
    assert_eq!(push(doc! { "a": [1] }, doc! { "x": 1 }.into()), doc! { "a": [1, { "x": 1 }] });
    assert_eq!(push(doc! { "a": [1] }, bson::bson!([2, 3])), doc! { "a": [1, [2, 3]] });
    assert_eq!(
        push(doc! { "a": [5, 1] }, doc! { "$each": [3, 4], "$sort": 1, "$slice": -3 }.into()),
        doc! { "a": [3, 4, 5] }
    );
    assert_eq!(
        push(doc! { "a": [1, 2] }, doc! { "$each": [9, 8], "$position": 1 }.into()),
        doc! { "a": [1, 9, 8, 2] }
    );
    assert_eq!(
        push(doc! { "a": [1, 2] }, doc! { "$each": [9], "$position": -1 }.into()),
        doc! { "a": [1, 9, 2] }
    );
    assert_eq!(
        push(doc! { "a": [1, 2] }, doc! { "$each": [9], "$position": -9 }.into()),
        doc! { "a": [9, 1, 2] }
    );
    assert_eq!(push(doc! { "a": [1, 2] }, doc! { "$each": [], "$slice": 1 }.into()), doc! { "a": [1] });
    assert_eq!(
        push(
            doc! { "a": [{ "x": 1, "y": 1 }, { "x": 3 }] },
            doc! { "$each": [{ "x": 2 }, 7], "$sort": { "x": -1 } }.into()
        ),
        doc! { "a": [{ "x": 3 }, { "x": 2 }, { "x": 1, "y": 1 }, 7] }
    );
    for (old, update, expected) in [
        (doc! { "a": 1 }, doc! { "$push": { "a": 1 } }, ErrorCode::BadValue),
        (doc! {}, doc! { "$push": { "a": { "$each": 1 } } }, ErrorCode::BadValue),
        (doc! {}, doc! { "$push": { "a": { "$each": [], "$foo": 1 } } }, ErrorCode::BadValue),
        (doc! {}, doc! { "$push": { "a": { "$each": [], "$sort": 2 } } }, ErrorCode::BadValue),
        (doc! {}, doc! { "$push": { "a": { "$each": [], "$slice": "x" } } }, ErrorCode::BadValue),
        (doc! { "a": 1 }, doc! { "$push": { "a.b": 1 } }, ErrorCode::PathNotViable),
    ] {
        assert_eq!(code(apply(old, update.clone())), expected, "{update}");
    }
}

#[test]
fn add_to_set_adds_each_value_once() {
    let add = |old: Document, operand: Bson| apply(old, doc! { "$addToSet": { "a": operand } }).unwrap();
    assert_eq!(add(doc! { "a": [1] }, Bson::Int32(2)), Some(doc! { "a": [1, 2] }));
    assert_eq!(add(doc! { "a": [1] }, Bson::Double(1.0)), None);
    assert_eq!(add(doc! {}, doc! { "$each": [1, 1, 2] }.into()), Some(doc! { "a": [1, 2] }));
    assert_eq!(
        add(doc! { "a": [{ "x": 1, "y": 2 }] }, doc! { "y": 2, "x": 1 }.into()),
        Some(doc! { "a": [{ "x": 1, "y": 2 }, { "y": 2, "x": 1 }] })
    );
    assert_eq!(code(apply(doc! { "a": 1 }, doc! { "$addToSet": { "a": 1 } })), ErrorCode::BadValue);
    assert_eq!(code(parse(doc! { "$addToSet": { "a": { "$each": 1 } } })), ErrorCode::TypeMismatch);
}

#[test]
fn pop_and_pull_remove_elements() {
    assert_eq!(applied(doc! { "a": [1, 2, 3] }, doc! { "$pop": { "a": 1 } }), doc! { "a": [1, 2] });
    assert_eq!(applied(doc! { "a": [1, 2, 3] }, doc! { "$pop": { "a": -1 } }), doc! { "a": [2, 3] });
    assert_eq!(apply(doc! { "a": [] }, doc! { "$pop": { "a": 1, "b.c": 1 } }).unwrap(), None);
    assert_eq!(code(apply(doc! { "a": 1 }, doc! { "$pop": { "a": 1 } })), ErrorCode::TypeMismatch);
    assert_eq!(code(parse(doc! { "$pop": { "a": 2 } })), ErrorCode::FailedToParse);

    let pull = |old: Document, operand: Bson| apply(old, doc! { "$pull": { "a": operand } }).unwrap();
    assert_eq!(pull(doc! { "a": [1, 2, 1.0, [1]] }, Bson::Int32(1)), Some(doc! { "a": [2, [1]] }));
    assert_eq!(pull(doc! { "a": [1, 5, 9] }, doc! { "$gte": 5 }.into()), Some(doc! { "a": [1] }));
    assert_eq!(pull(doc! { "a": [1, [9], 2] }, doc! { "$gte": 5 }.into()), Some(doc! { "a": [1, 2] }));
    assert_eq!(
        pull(doc! { "a": [{ "x": 1, "y": 2 }, { "x": 2 }, 1] }, doc! { "x": 1 }.into()),
        Some(doc! { "a": [{ "x": 2 }, 1] })
    );
    assert_eq!(
        pull(doc! { "a": [{ "x": 1 }, { "x": 5 }] }, doc! { "$or": [{ "x": { "$gt": 3 } }] }.into()),
        Some(doc! { "a": [{ "x": 1 }] })
    );
    assert_eq!(
        pull(
            doc! { "a": ["ab", "b"] },
            Bson::RegularExpression(bson::Regex {
                pattern: bson::raw::cstr!("^a").into(),
                options: bson::raw::cstr!("").into()
            })
        ),
        Some(doc! { "a": ["b"] })
    );
    assert_eq!(pull(doc! { "b": 1 }, Bson::Int32(1)), None);
    assert_eq!(code(apply(doc! { "a": 1 }, doc! { "$pull": { "a": 1 } })), ErrorCode::BadValue);
    assert_eq!(applied(doc! { "a": [1, 2, 3, 2] }, doc! { "$pullAll": { "a": [2, 3] } }), doc! { "a": [1] });
    assert_eq!(code(parse(doc! { "$pullAll": { "a": 1 } })), ErrorCode::BadValue);
}

/// Applies `update` to a document that matches `filter`.
fn apply_matched(
    filter: Document,
    old: Document,
    update: Document,
    filters: &[Document],
) -> Result<Document> {
    let filters: Vec<RawDocumentBuf> = filters.iter().cloned().map(raw).collect();
    let update = Update::with_array_filters(&raw(update), &filters)?;
    let filter = Filter::parse(&raw(filter))?;
    assert!(filter.matches(&raw(old.clone()))?);
    let new = update.apply(&raw(old.clone()), &filter)?;
    Ok(new.map_or(old, |new| Document::try_from(&*new).unwrap()))
}

#[test]
fn a_dollar_stands_for_the_element_that_the_filter_matched() {
    assert_eq!(
        apply_matched(
            doc! { "a": { "$gt": 5 } },
            doc! { "a": [1, 7, 9] },
            doc! { "$set": { "a.$": 0 } },
            &[]
        )
        .unwrap(),
        doc! { "a": [1, 0, 9] }
    );
    assert_eq!(
        apply_matched(
            doc! { "a": { "$elemMatch": { "x": 2, "y": 1 } } },
            doc! { "a": [{ "x": 2 }, { "x": 2, "y": 1 }] },
            doc! { "$inc": { "a.$.y": 5 }, "$set": { "b": 1 } },
            &[]
        )
        .unwrap(),
        doc! { "a": [{ "x": 2 }, { "x": 2, "y": 6 }], "b": 1 }
    );
    assert_eq!(
        code(apply_matched(doc! {}, doc! { "a": [1] }, doc! { "$set": { "a.$": 0 } }, &[])),
        ErrorCode::BadValue
    );
    for update in [doc! { "$set": { "$": 1 } }, doc! { "$set": { "a.$.b.$": 1 } }] {
        assert_eq!(code(parse(update)), ErrorCode::BadValue);
    }
}

#[test]
fn all_elements_or_those_that_filters_match_are_changed() {
    let change =
        |old: Document, update: Document, filters: &[Document]| apply_matched(doc! {}, old, update, filters);
    assert_eq!(
        change(doc! { "a": [1, 2] }, doc! { "$inc": { "a.$[]": 10 } }, &[]).unwrap(),
        doc! { "a": [11, 12] }
    );
    assert_eq!(
        change(
            doc! { "a": [{ "x": 1, "y": [1, 2] }, { "x": 2, "y": [2] }] },
            doc! { "$set": { "a.$[e].y.$[f]": 0, "a.$[].z": 1 } },
            &[doc! { "e.x": { "$lt": 9 } }, doc! { "f": 2 }]
        )
        .unwrap(),
        doc! { "a": [{ "x": 1, "y": [1, 0], "z": 1 }, { "x": 2, "y": [0], "z": 1 }] }
    );
    assert_eq!(
        change(doc! { "a": [1, 2] }, doc! { "$unset": { "a.$[e]": 1 } }, &[doc! { "e": 2 }]).unwrap(),
        doc! { "a": [1, Bson::Null] }
    );
    let e = || doc! { "e": 1 };
    for (old, update, filters, expected) in [
        (doc! { "a": 1 }, doc! { "$set": { "a.$[]": 1 } }, vec![], ErrorCode::BadValue),
        (doc! {}, doc! { "$set": { "a.$[]": 1 } }, vec![], ErrorCode::BadValue),
        (doc! {}, doc! { "$set": { "a.$[e]": 1 } }, vec![], ErrorCode::BadValue),
        (doc! {}, doc! { "$set": { "a": 1 } }, vec![e()], ErrorCode::FailedToParse),
        (doc! {}, doc! { "a": 1 }, vec![e()], ErrorCode::FailedToParse),
        (doc! {}, doc! { "$set": { "a.$[e]": 1 } }, vec![e(), e()], ErrorCode::FailedToParse),
        (doc! {}, doc! { "$set": { "a.$[e]": 1 } }, vec![doc! { "e": 1, "f": 1 }], ErrorCode::FailedToParse),
        (doc! {}, doc! { "$set": { "a.$[E]": 1 } }, vec![doc! { "E": 1 }], ErrorCode::BadValue),
        (doc! {}, doc! { "$set": { "a.$[]": 1, "a.0": 2 } }, vec![], ErrorCode::ConflictingUpdateOperators),
        (
            doc! { "a": [1] },
            doc! { "$set": { "a.$[e]": 1 }, "$inc": { "a.$[]": 2 } },
            vec![e()],
            ErrorCode::ConflictingUpdateOperators,
        ),
    ] {
        assert_eq!(code(change(old, update.clone(), &filters)), expected, "{update}");
    }
    assert_eq!(
        change(
            doc! { "a": [1, 2] },
            doc! { "$set": { "a.$[e]": 5 }, "$inc": { "a.$[f]": 2 } },
            &[e(), doc! { "f": { "$ne": 1 } }]
        )
        .unwrap(),
        doc! { "a": [5, 4] }
    );
}

#[test]
fn a_pipeline_computes_the_new_document_from_the_old_one() {
    let change = |old: Document, stages: &[Document]| {
        let stages: Vec<RawDocumentBuf> = stages.iter().cloned().map(raw).collect();
        let new = Update::pipeline(&stages)?.apply(&raw(old), &Filter::all())?;
        Ok(new.map(|new| Document::try_from(&*new).unwrap()))
    };
    assert_eq!(
        change(
            doc! { "_id": 1, "a": 2, "b": 3 },
            &[doc! { "$set": { "sum": { "$add": ["$a", "$b"] }, "a": "$b" } }, doc! { "$unset": "b" }]
        )
        .unwrap(),
        Some(doc! { "_id": 1, "a": 3, "sum": 5 })
    );
    assert_eq!(
        change(doc! { "_id": 1, "a": { "x": 1 } }, &[doc! { "$replaceWith": "$a" }]).unwrap(),
        Some(doc! { "_id": 1, "x": 1 })
    );
    assert_eq!(change(doc! { "_id": 1, "a": 1 }, &[doc! { "$set": { "a": 1 } }]).unwrap(), None);
    let refused = |stage: Document| code(change(doc! { "_id": 1, "a": "x" }, &[stage]));
    assert_eq!(refused(doc! { "$match": {} }), ErrorCode::InvalidOptions);
    assert_eq!(refused(doc! { "$set": { "_id": 2 } }), ErrorCode::ImmutableField);
    assert_eq!(refused(doc! { "$set": { "a": 1 }, "$unset": "b" }), ErrorCode::Location40323);
    assert_eq!(refused(doc! { "$set": { "a": { "$add": ["$a", 1] } } }), ErrorCode::TypeMismatch);

    let upsert = Update::pipeline(&[raw(doc! { "$set": { "b": { "$add": ["$a", 1] } } })]).unwrap();
    let new = upsert.upsert(&Filter::parse(&raw(doc! { "a": 1 })).unwrap()).unwrap();
    assert_eq!(Document::try_from(&*new).unwrap(), doc! { "a": 1, "b": 2 });
}

#[test]
fn many_fields_are_removed_wherever_they_are_and_the_others_keep_their_order() {
    let (mut old, mut expected) = (doc! { "_id": 1 }, doc! { "_id": 1 });
    let (mut unset, mut set, mut rename) = (Document::new(), Document::new(), Document::new());
    for at in 0..60 {
        let name = format!("f{at:02}");
        old.insert(
            &name,
            doc! { "a": at, "b": [at, { "x": 1, "y": 2, "z": 3 }], "c": { "d": 1, "e": 2, "f": at } },
        );
        match at % 4 {
            0 => {
                unset.insert(&name, "");
                unset.insert(format!("missing.{name}"), "");
            }
            1 => {
                for path in ["b.0", "b.1.x", "b.1.z", "b.7", "c.d", "c.e", "c.nothing", "a.nothing"] {
                    unset.insert(format!("{name}.{path}"), "");
                }
                set.insert(format!("{name}.c.new"), at);
                let rest = doc! { "a": at, "b": [Bson::Null, { "y": 2 }], "c": { "f": at, "new": at } };
                expected.insert(&name, rest);
            }
            2 => {
                rename.insert(&name, format!("renamed{at:02}"));
            }
            _ => {
                expected.insert(&name, old.get(&name).unwrap().clone());
            }
        }
    }
    for (name, to) in &rename {
        expected.insert(to.as_str().unwrap(), old.get(name).unwrap().clone());
    }
    let update = doc! { "$unset": unset, "$set": set, "$rename": rename };
    assert_eq!(applied(old.clone(), update), expected);
    assert_eq!(apply(old, doc! { "$unset": { "nothing": "", "a.b": "", "_id.x": "" } }).unwrap(), None);
}

#[test]
fn the_time_of_removing_fields_grows_with_their_number_and_not_with_its_square() {
    let time = |fields: i32| {
        let name = |at: i32| format!("field{at:06}");
        let old = raw((0..fields).map(|at| (name(at), Bson::Int32(at))).collect());
        let unset: Document = (0..fields / 2).map(|at| (name(at * 2), Bson::from(""))).collect();
        let set: Document = (0..fields / 2).map(|at| (name(at * 2 + 1), Bson::Int32(-at))).collect();
        let update = parse(doc! { "$set": set, "$unset": unset }).unwrap();
        move || {
            let begun = std::time::Instant::now();
            let new = update.apply(&old, &Filter::all()).unwrap().unwrap();
            assert_eq!(new.iter().count(), fields as usize / 2);
            begun.elapsed()
        }
    };
    let (few, many) = (time(4_000), time(16_000));
    let (mut least_few, mut least_many) = (few(), many());
    // Four times as many take sixteen times as long if each removal moves the fields after it. Others may use the processor meanwhile.
    for round in 0..30 {
        (least_few, least_many) = (least_few.min(few()), least_many.min(many()));
        if round > 4 && least_many < least_few * 9 {
            return;
        }
    }
    panic!("4,000 fields: {least_few:?}, 16,000: {least_many:?}");
}
