//! Queries and indexes of collections with a default collation.

use bson::{RawDocument, doc, rawdoc};

use super::*;
use crate::{AggregateRequest, Collection, DeleteRequest, FindAndModifyRequest, IndexSpec, UpdateRequest};
use treedb_query::doc::Value;
use treedb_query::doc::key::encode_value;
use treedb_query::error::ErrorCode;
use treedb_storage::disk::crash::Crash;
use treedb_storage::{Reads, TableKind};

fn insensitive() -> Document {
    doc! { "collation": { "locale": "en", "strength": 2 } }
}

/// A collection of words with a case-insensitive collation.
fn words(disk: &SimDisk) -> Collection {
    let db = open(disk).unwrap();
    let words = db.create_collection("t.words", insensitive()).unwrap();
    let docs = ["Apple", "banana", "apples", "BANANA"];
    let docs: Vec<_> = docs
        .iter()
        .zip(0..)
        .map(|(word, n)| rawdoc! { "_id": format!("W{n}"), "w": *word, "n": n })
        .collect();
    assert_eq!(words.insert_many(&docs, true).unwrap().inserted, 4);
    words
}

fn simple() -> RawDocumentBuf {
    rawdoc! { "locale": "simple" }
}

fn index_of(cursor: &crate::Cursor) -> Option<&str> {
    match &cursor.plan()?.path {
        treedb_query::query::Path::Index { name, .. } => Some(name),
        _ => None,
    }
}

fn numbers(found: impl Iterator<Item = Result<RawDocumentBuf>>) -> Vec<i32> {
    found.map(|doc| doc.unwrap().get_i32("n").unwrap()).collect()
}

#[test]
fn queries_without_a_collation_use_that_of_the_collection() {
    let disk = SimDisk::new();
    let words = words(&disk);
    for indexed in [false, true] {
        if indexed {
            words.create_index(rawdoc! { "w": 1 }).unwrap();
        }
        let banana = FindRequest::filter(rawdoc! { "w": "Banana" });
        assert_eq!(numbers(words.find(banana.clone()).unwrap()), [1, 3]);
        assert_eq!(words.count(banana.clone()).unwrap(), 2);
        assert_eq!(words.count(banana.clone().collation(simple())).unwrap(), 0);
        assert_eq!(index_of(&words.find(banana).unwrap()).is_some(), indexed);
        let sorted = FindRequest::default().sort(rawdoc! { "w": 1, "n": 1 });
        assert_eq!(numbers(words.find(sorted.clone()).unwrap()), [0, 2, 1, 3]);
        assert_eq!(numbers(words.find(sorted.collation(simple())).unwrap()), [0, 3, 2, 1]);
        let expr = FindRequest::filter(rawdoc! { "$expr": { "$eq": ["$w", "APPLE"] } });
        assert_eq!(words.count(expr.clone()).unwrap(), 1);
        assert_eq!(words.count(expr.collation(simple())).unwrap(), 0);
    }
    let update = UpdateRequest::many(rawdoc! { "w": "APPLE" }, rawdoc! { "$set": { "seen": true } });
    assert_eq!(words.update(update).unwrap().modified, 1);
    let modify = FindAndModifyRequest {
        find: FindRequest::filter(rawdoc! { "w": "APPLES" }),
        update: Some(rawdoc! { "$set": { "seen": true } }.into()),
        after: true,
        ..FindAndModifyRequest::default()
    };
    let found = words.find_and_modify(modify).unwrap().document.unwrap();
    assert_eq!((found.get_i32("n").unwrap(), found.get_bool("seen").unwrap()), (2, true));
    let mut txn = words.database().begin().unwrap();
    let mut inside = txn.collection("t.words").unwrap();
    assert_eq!(inside.count(FindRequest::filter(rawdoc! { "w": "aPPLE" })).unwrap(), 1);
    assert_eq!(inside.delete(DeleteRequest::many(rawdoc! { "w": "bananA" })).unwrap(), 2);
    txn.commit().unwrap();
    assert_eq!(words.delete(DeleteRequest::many(rawdoc! { "_id": "w0" })).unwrap(), 1);
    assert_eq!(words.len().unwrap(), 1);
    words.database().check().unwrap();
}

/// How many documents an update would change, as it is explained.
fn would_modify(explained: &RawDocument) -> i32 {
    let stats = explained.get_document("executionStats").unwrap();
    stats.get_document("executionStages").unwrap().get_i32("nWouldModify").unwrap()
}

#[test]
fn updates_and_their_explanations_compare_by_the_collation_of_the_request_or_the_collection() {
    let db = open(&SimDisk::new()).unwrap();
    let cases = [
        (rawdoc! { "$pull": { "a": "X" } }, ["y", "Z"].as_slice(), ["x", "y", "Z"].as_slice()),
        (rawdoc! { "$pull": { "a": { "$in": ["X", "z"] } } }, &["y"], &["x", "y", "Z"]),
        (rawdoc! { "$pullAll": { "a": ["Y", "x"] } }, &["Z"], &["y", "Z"]),
        (
            rawdoc! { "$addToSet": { "a": { "$each": ["X", "w", "W"] } } },
            &["x", "y", "Z", "w"],
            &["x", "y", "Z", "X", "w", "W"],
        ),
        (
            rawdoc! { "$push": { "a": { "$each": ["W"], "$sort": 1 } } },
            &["W", "x", "y", "Z"],
            &["W", "Z", "x", "y"],
        ),
        (rawdoc! { "$max": { "a.0": "Y" } }, &["Y", "y", "Z"], &["x", "y", "Z"]),
        (rawdoc! { "$min": { "a.1": "Z" } }, &["x", "y", "Z"], &["x", "Z", "Z"]),
        (rawdoc! { "$set": { "a.$[e]": "q" } }, &["x", "y", "q"], &["q", "q", "q"]),
        (rawdoc! { "$set": { "a.$": "q" } }, &["x", "q", "Z"], &["q", "y", "Z"]),
    ];
    let own = db.create_collection("t.own", insensitive()).unwrap();
    let plain = db.create_collection("t.plain", doc! {}).unwrap();
    let collation = RawDocumentBuf::try_from(insensitive().get_document("collation").unwrap()).unwrap();
    for (update, folded, bytes) in cases {
        let shown = Document::try_from(&*update).unwrap().to_string();
        let filters = if shown.contains("$[e]") { vec![rawdoc! { "e": { "$gt": "Y" } }] } else { Vec::new() };
        for (collection, named, wanted) in [
            (&own, None, folded),
            (&own, Some(simple()), bytes),
            (&plain, None, bytes),
            (&plain, Some(collation.clone()), folded),
        ] {
            let changed = i32::from(wanted != ["x", "y", "Z"]);
            // With the collation the second element is the first to match, compared by bytes the first is.
            let filter = rawdoc! { "_id": 1, "a": { "$gte": "Y" } };
            for modify in [false, true] {
                collection.delete(DeleteRequest::many(rawdoc! {})).unwrap();
                collection.insert_one(rawdoc! { "_id": 1, "a": ["x", "y", "Z"] }).unwrap();
                if modify {
                    let find =
                        FindRequest { collation: named.clone(), ..FindRequest::filter(filter.clone()) };
                    let request = FindAndModifyRequest {
                        find,
                        update: Some(update.clone().into()),
                        array_filters: filters.clone(),
                        ..FindAndModifyRequest::default()
                    };
                    let explained = collection.explain_find_and_modify(request.clone(), true).unwrap();
                    assert_eq!(would_modify(&explained), changed, "{shown} {named:?}");
                    assert!(collection.find_and_modify(request).unwrap().matched);
                } else {
                    let mut request =
                        UpdateRequest::one(filter.clone(), update.clone()).array_filters(filters.clone());
                    request.collation.clone_from(&named);
                    let explained = collection.explain_update(request.clone(), true).unwrap();
                    assert_eq!(would_modify(&explained), changed, "{shown} {named:?}");
                    assert_eq!(collection.update(request).unwrap().matched, 1);
                }
                let found = collection.find_one(rawdoc! { "_id": 1 }).unwrap().unwrap();
                let found = Document::try_from(&*found).unwrap();
                assert_eq!(found, doc! { "_id": 1, "a": wanted }, "{shown} {named:?} {modify}");
            }
        }
    }
    // The same in the stages of a pipeline.
    let stages = vec![rawdoc! { "$set": { "same": { "$in": ["X", "$a"] } } }];
    for (named, same) in [(None, true), (Some(simple()), false)] {
        let mut request = UpdateRequest::one(rawdoc! { "_id": 1 }, stages.clone());
        request.collation = named;
        own.delete(DeleteRequest::many(rawdoc! {})).unwrap();
        own.insert_one(rawdoc! { "_id": 1, "a": ["x"] }).unwrap();
        own.update(request).unwrap();
        assert_eq!(own.find_one(rawdoc! {}).unwrap().unwrap().get_bool("same").unwrap(), same);
    }
}

#[test]
fn ids_are_compared_by_the_collation_of_the_collection() {
    let disk = SimDisk::new();
    let words = words(&disk);
    let again = words.insert_one(rawdoc! { "_id": "w0" }).unwrap_err();
    assert_eq!(again.code, ErrorCode::DuplicateKey);
    assert_eq!(words.find_one(rawdoc! { "_id": "w2" }).unwrap().unwrap().get_i32("n").unwrap(), 2);
    let searched = words.find(FindRequest::filter(rawdoc! { "_id": "w2" })).unwrap();
    assert_eq!(index_of(&searched), Some("_id_"));
    let exact = FindRequest::filter(rawdoc! { "_id": "w2" }).collation(simple());
    assert_eq!(words.count(exact).unwrap(), 0);
    // Numbers are not affected.
    words.insert_one(rawdoc! { "_id": 7, "n": 7 }).unwrap();
    assert!(words.find_one(rawdoc! { "_id": 7 }).unwrap().is_some());
    words.database().check().unwrap();
}

#[test]
fn indexes_inherit_the_collation_unless_they_name_another() {
    let disk = SimDisk::new();
    let words = words(&disk);
    let refused = words.create_index(IndexSpec::new(rawdoc! { "w": 1 }).unique()).unwrap_err();
    assert_eq!(refused.code, ErrorCode::DuplicateKey);
    words.create_index(IndexSpec::new(rawdoc! { "w": 1 }).unique().collation(simple())).unwrap();
    words.create_index(IndexSpec::new(rawdoc! { "w": 1 }).name("inherits")).unwrap();
    words
        .create_index(IndexSpec::new(rawdoc! { "w": 1 }).name("inherits").collation(rawdoc! {
            "locale": "en", "strength": 2
        }))
        .unwrap();
    let check = |words: &Collection| {
        let strength = |index: &Document| {
            index.get_document("collation").ok().map(|collation| collation.get_i32("strength").unwrap())
        };
        let listed = words.indexes().unwrap().unwrap();
        let listed: Vec<_> =
            listed.iter().map(|index| (index.get_str("name").unwrap(), strength(index))).collect();
        assert_eq!(listed, [("_id_", Some(2)), ("w_1", None), ("inherits", Some(2))]);
        let find = |request: FindRequest| {
            let found = words.find(request).unwrap();
            let name = index_of(&found).map(str::to_owned);
            (name, found.count())
        };
        let banana = FindRequest::filter(rawdoc! { "w": "BANANA" });
        assert_eq!(find(banana.clone()), (Some("inherits".to_owned()), 2));
        assert_eq!(find(banana.collation(simple())), (Some("w_1".to_owned()), 1));
    };
    check(&words);
    let collation = words.collation().unwrap();
    drop(words);
    // The catalog stores it; the entry has a version that older versions refuse.
    let db = open(&disk).unwrap();
    let words = db.collection("t.words").unwrap();
    check(&words);
    assert_eq!(words.collation().unwrap(), collation);
    let listed = db.list_collections("t").unwrap();
    let shown = listed[0].options.get_document("collation").unwrap();
    assert_eq!((shown.get_str("locale").unwrap(), shown.get_i32("strength").unwrap()), ("en", 2));
    let reads = db.store().begin_read().unwrap();
    let catalog = reads.table("catalog").unwrap().unwrap();
    let entry = Document::from_reader(reads.get(&catalog, b"t.words").unwrap().unwrap()).unwrap();
    assert_eq!(entry.get_i32("v").unwrap(), 5);
    for index in entry.get_array("indexes").unwrap() {
        let index = index.as_document().unwrap();
        assert_eq!(index.get_i32("sort_keys").is_ok(), index.contains_key("collation"));
    }
}

/// A database as TreeDB wrote it before it used ICU4X: catalog entries of version 3 without `sort_keys`, and
/// sort keys of version 1, which at strength 1 were the string in lower case without accents. `words` has the
/// `w` of each document and its old sort key; the row id is the position.
fn old_database(locale: &str, words: &[(&str, &str)]) -> SimDisk {
    let disk = SimDisk::new();
    let store = treedb_storage::Store::open_with("/data/documents", options(&disk)).unwrap();
    let mut txn = store.begin_write().unwrap();
    let catalog = txn.create_table("catalog", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows/1", TableKind::Rows).unwrap();
    let [ids, by_word, by_word_and_number] =
        [0, 1, 2].map(|index| txn.create_table(&format!("index/1/{index}"), TableKind::Ordered).unwrap());
    txn.put(&catalog, b"", &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let collation = doc! { "locale": locale, "caseLevel": false, "caseFirst": "off", "strength": 1,
    "numericOrdering": false, "alternate": "non-ignorable", "maxVariable": "punct",
    "normalization": false, "backwards": false, "version": "57.1" };
    let index = |id: i64, key: Document, name: &str, unique: bool| {
        doc! { "id": id, "key": key, "name": name, "unique": unique, "collation": collation.clone(),
        "multikey": false }
    };
    let entry = doc! {
        "v": 3, "id": 1_i64, "uuid": bson::Uuid::new(), "format": 0, "next_index": 3_i64,
        "options": { "collation": collation.clone() },
        "indexes": [
            index(0, doc! { "_id": 1 }, "_id_", true),
            index(1, doc! { "w": 1 }, "w_1", true),
            index(2, doc! { "w": -1, "n": 1 }, "both", false),
        ],
    };
    txn.put(&catalog, b"t.words", &entry.to_vec().unwrap()).unwrap();
    for ((word, old), n) in words.iter().zip(0..) {
        let document = rawdoc! { "_id": *word, "w": *word, "n": n };
        let row = txn.append_row(&rows, document.as_bytes()).unwrap().to_be_bytes();
        let (mut key, mut both) = (Vec::new(), Vec::new());
        encode_value(Value::String(old.as_bytes()), &mut key);
        both.extend(key.iter().map(|byte| !byte));
        encode_value(Value::Int32(n), &mut both);
        both.extend_from_slice(&row);
        txn.put(&ids, &key, &row).unwrap();
        txn.put(&by_word, &key, &row).unwrap();
        txn.put(&by_word_and_number, &both, &[]).unwrap();
    }
    txn.commit().unwrap();
    store.close().unwrap();
    disk
}

const OLD_WORDS: &[(&str, &str)] = &[
    ("Zebra", "zebra"),
    ("\u{c5}ngstr\u{f6}m", "angstrom"),
    ("\u{c9}t\u{e9}", "ete"),
    ("apple", "apple"),
    ("apple-tree", "apple-tree"),
    ("applet", "applet"),
];

/// Checks the results of queries on a rebuilt database.
fn assert_rebuilt(db: &Database) {
    let words = db.collection("t.words").unwrap();
    db.check().unwrap();
    for name in ["_id_", "w_1", "both"] {
        let field = if name == "_id_" { "_id" } else { "w" };
        for (asked, n) in [("zebra", 0), ("ANGSTROM", -1), ("\u{e5}ngstro\u{308}m", 1), ("ETE", 2)] {
            let request = FindRequest::filter(raw(&doc! { field: asked })).hint(name);
            let found = words.find(request).unwrap();
            assert_eq!(index_of(&found), Some(name));
            assert_eq!(numbers(found), if n < 0 { vec![] } else { vec![n] }, "{name} {asked}");
        }
    }
    // Swedish order, with å after z.
    let sorted = words.find(FindRequest::default().sort(rawdoc! { "w": 1 })).unwrap();
    assert_eq!(index_of(&sorted), Some("w_1"));
    assert_eq!(numbers(sorted), [3, 4, 5, 2, 0, 1]);
    let again = words.insert_one(rawdoc! { "_id": "\u{e9}t\u{e9}" }).unwrap_err();
    assert_eq!(again.code, ErrorCode::DuplicateKey);
    let listed = words.indexes().unwrap().unwrap();
    let names: Vec<_> = listed.iter().map(|index| index.get_str("name").unwrap()).collect();
    assert_eq!(names, ["_id_", "w_1", "both"]);
    let options = &db.list_collections("t").unwrap()[0].options;
    assert!(!options.get_document("collation").unwrap().contains_key("version"));
}

#[test]
fn indexes_with_keys_of_the_first_version_are_rebuilt_when_the_database_is_opened() {
    let disk = old_database("sv", OLD_WORDS);
    // Opening it a second time rebuilds nothing.
    let generations = [(); 2].map(|()| {
        let db = open(&disk).unwrap();
        assert_rebuilt(&db);
        let reads = db.store().begin_read().unwrap();
        db.inner.catalog.generation(&reads).unwrap()
    });
    assert_eq!(generations[0], generations[1]);
}

#[test]
fn after_a_power_loss_during_a_rebuild_the_next_opening_rebuilds_the_indexes() {
    let mut cuts = 0;
    for cut in (0..).step_by(3) {
        let disk = old_database("sv", OLD_WORDS);
        disk.cut_at(disk.boundaries() + cut);
        if open(&disk).is_ok() {
            break;
        }
        cuts += 1;
        for crash in [Crash::Nothing, Crash::Everything] {
            assert_rebuilt(&open(&disk.crash(crash)).unwrap());
        }
    }
    assert!(cuts > 5, "{cuts}");
}

#[test]
fn opening_fails_and_changes_nothing_if_a_unique_index_cannot_be_rebuilt() {
    // Control characters were significant in the first version's order; by the rules of Unicode they are
    // ignored.
    let disk = old_database("sv", &[("apple", "apple"), ("ap\u{1}ple", "ap\u{1}ple")]);
    for _ in 0..2 {
        let error = open(&disk).err().unwrap();
        assert_eq!(error.code, ErrorCode::DuplicateKey);
        assert!(error.message.contains("t.words: the index '_id_' has to be rebuilt"), "{error}");
        let store = treedb_storage::Store::open_with("/data/documents", options(&disk)).unwrap();
        let reads = store.begin_read().unwrap();
        let catalog = reads.table("catalog").unwrap().unwrap();
        let entry = Document::from_reader(reads.get(&catalog, b"t.words").unwrap().unwrap()).unwrap();
        let indexes = entry.get_array("indexes").unwrap();
        let ids: Vec<_> =
            indexes.iter().map(|index| index.as_document().unwrap().get_i64("id").unwrap()).collect();
        assert_eq!(ids, [0, 1, 2]);
        let ids = reads.table("index/1/0").unwrap().unwrap();
        assert_eq!(reads.len(&ids).unwrap(), 2);
        drop(reads);
        store.close().unwrap();
    }
}

#[test]
fn an_unsupported_collation_of_an_old_database_is_an_error_that_says_what_to_do() {
    let error = open(&old_database("en_GB", OLD_WORDS)).err().unwrap();
    assert_eq!(error.code, ErrorCode::BadValue);
    for part in ["t.words", "'_id_'", "Did you mean 'en'?", "the version that created it"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn a_pipeline_uses_its_own_collation_or_that_of_its_collection() {
    let disk = SimDisk::new();
    let words = words(&disk);
    let db = words.database();
    let plain = db.collection("t.plain").unwrap();
    plain.insert_many(&[rawdoc! { "_id": 0, "w": "banana" }, rawdoc! { "_id": 1, "w": "b" }], true).unwrap();
    let stages = [
        rawdoc! { "$match": { "w": { "$gte": "APPLES" } } },
        rawdoc! { "$lookup": { "from": "plain", "localField": "w", "foreignField": "w", "as": "l" } },
        rawdoc! { "$group": { "_id": "$w", "n": { "$sum": 1 }, "l": { "$sum": { "$size": "$l" } },
        "set": { "$addToSet": "$w" }, "in": { "$max": { "$in": ["$w", ["BaNaNa"]] } } } },
        rawdoc! { "$sort": { "_id": 1 } },
    ];
    let run = |collection: &Collection, collation: Option<RawDocumentBuf>| -> Vec<Document> {
        let mut request = AggregateRequest::new(stages.clone());
        request.collation = collation;
        let found = collection.aggregate(&request).unwrap();
        found.map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect()
    };
    let own = run(&words, None);
    assert_eq!(own, run(&words, Some(rawdoc! { "locale": "en", "strength": 2 })));
    let figures = |docs: &[Document]| -> Vec<(i32, i32, usize, bool)> {
        let figure = |doc: &Document| {
            let number = |name: &str| doc.get_i32(name).unwrap();
            (number("n"), number("l"), doc.get_array("set").unwrap().len(), doc.get_bool("in").unwrap())
        };
        docs.iter().map(figure).collect()
    };
    assert_eq!(figures(&own), [(1, 0, 1, false), (2, 2, 1, true)]);
    // Compared by bytes all words are at or above `APPLES`, and no two are equal.
    assert_eq!(
        figures(&run(&words, Some(simple()))),
        [(1, 0, 1, false), (1, 0, 1, false), (1, 0, 1, false), (1, 1, 1, false)]
    );
    // The other collection has no collation: its strings are compared by their bytes.
    assert_eq!(figures(&run(&plain, None)), [(1, 1, 1, false), (1, 1, 1, false)]);
    let mut merge = AggregateRequest::new([
        rawdoc! { "$match": { "w": "BANANA", "n": 3 } },
        rawdoc! { "$project": { "_id": 0, "w": 1, "merged": { "$literal": true } } },
        rawdoc! { "$merge": { "into": "plain", "on": "w", "whenNotMatched": "fail" } },
    ]);
    merge.collation = Some(simple());
    let failed = words.aggregate(&merge).unwrap().next().unwrap().unwrap_err();
    assert_eq!(failed.code, ErrorCode::MergeStageNoMatchingDocument);
    merge.collation = None;
    assert_eq!(words.aggregate(&merge).unwrap().count(), 0);
    let merged = plain.find_one(rawdoc! { "_id": 0 }).unwrap().unwrap();
    assert_eq!((merged.get_str("w").unwrap(), merged.get_bool("merged").unwrap()), ("BANANA", true));
}

#[test]
fn a_validator_uses_the_collation_and_a_schema_compares_bytes() {
    let db = open(&SimDisk::new()).unwrap();
    let mut options = insensitive();
    options.insert("validator", doc! { "kind": "Fruit", "$expr": { "$ne": ["$w", "NONE"] } });
    let fruit = db.create_collection("t.fruit", options.clone()).unwrap();
    fruit.insert_one(rawdoc! { "kind": "fruit", "w": "pear" }).unwrap();
    for refused in [rawdoc! { "kind": "nut", "w": "pear" }, rawdoc! { "kind": "FRUIT", "w": "none" }] {
        let error = fruit.insert_one(refused).unwrap_err();
        assert_eq!(error.code, ErrorCode::DocumentValidationFailure);
    }
    options.insert("validator", doc! { "$jsonSchema": { "properties": { "kind": { "enum": ["Fruit"] } } } });
    let schema = db.create_collection("t.schema", options).unwrap();
    schema.insert_one(rawdoc! { "kind": "Fruit" }).unwrap();
    assert_eq!(
        schema.insert_one(rawdoc! { "kind": "fruit" }).unwrap_err().code,
        ErrorCode::DocumentValidationFailure
    );
}

#[test]
fn unknown_collations_and_changes_of_a_collation_are_refused() {
    let db = open(&SimDisk::new()).unwrap();
    for (collation, code) in [
        (bson::Bson::from(doc! {}), ErrorCode::Location40414),
        (doc! { "locale": "en", "strength": 9 }.into(), ErrorCode::BadValue),
        ("en".into(), ErrorCode::TypeMismatch),
    ] {
        let error = db.create_collection("t.c", doc! { "collation": collation }).err().unwrap();
        assert_eq!(error.code, code);
    }
    let plain = db.create_collection("t.c", doc! { "collation": { "locale": "simple" } }).unwrap();
    assert!(plain.collation().unwrap().is_simple());
    assert!(db.list_collections("t").unwrap()[0].options.is_empty());
    let changed = db.modify_collection("t.c", insensitive()).unwrap_err();
    assert_eq!(changed.code, ErrorCode::InvalidOptions);
}
