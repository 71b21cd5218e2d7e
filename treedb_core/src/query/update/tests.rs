//! Each claim is a rule of MongoDB's update language.

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

/// The document `update` makes of `old`, `None` if nothing changes.
fn apply(old: Document, update: Document) -> Result<Option<Document>> {
    Ok(parse(update)?.apply(&raw(old))?.map(|new| Document::try_from(&*new).unwrap()))
}

fn applied(old: Document, update: Document) -> Document {
    apply(old, update).unwrap().unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    result.unwrap_err().code
}

#[test]
fn set_creates_the_documents_on_its_way_and_keeps_the_order_of_old_fields() {
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
fn an_update_that_changes_nothing_says_so() {
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$set": { "a": 1 } }).unwrap(), None);
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$unset": { "b": 1, "a.c": 1 } }).unwrap(), None);
    assert_eq!(apply(doc! { "a": 1 }, doc! { "$setOnInsert": { "b": 1 } }).unwrap(), None);
    assert_eq!(apply(doc! { "_id": 1, "a": 1 }, doc! { "a": 1 }).unwrap(), None);
}

#[test]
fn inc_widens_as_it_must_and_refuses_what_is_no_number() {
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
fn malformed_updates_have_mongodbs_codes() {
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
        (doc! { "$set": { "a.$[]": 1 } }, ErrorCode::NotImplemented),
    ];
    for (update, expected) in cases {
        assert_eq!(code(parse(update.clone())), expected, "{update}");
    }
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
fn positions_and_names_have_one_order() {
    // Positions by value and names by bytes alone would put 2 < 10 < 1a < 2.
    let names: Vec<String> = (0..40).flat_map(|n| [format!("{n}"), format!("{n}a")]).collect();
    let set: Document = names.iter().rev().map(|name| (format!("a.{name}"), Bson::Int32(1))).collect();
    let new = applied(doc! {}, doc! { "$set": set });
    let found: Vec<&String> = new.get_document("a").unwrap().keys().collect();
    assert_eq!(found[..3], ["0", "1", "2"]);
    assert_eq!(found.len(), names.len());
}

#[test]
fn bytes_that_are_no_document_are_refused() {
    let mut bytes = raw(doc! { "$set": { "a": "text" } }).into_bytes();
    let at = bytes.windows(4).position(|part| part == b"text").unwrap();
    bytes[at + 1] = 0xff;
    let hostile = RawDocumentBuf::from_bytes(bytes).unwrap();
    assert_eq!(code(Update::parse(&hostile)), ErrorCode::InvalidBSON);
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
