//! Checks that reading allocates no memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use treedb_collections::bson::{RawDocumentBuf, doc, rawdoc};
use treedb_collections::{Database, FindRequest, Format, IndexSpec};
use treedb_query::query::Filter;
use treedb_storage::{Reads, Store, TableKind};
use treedb_testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations of the second run of `work`: the first run fills caches that a thread keeps.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();
    let before = Counting::allocations();
    work();
    Counting::allocations() - before
}

#[test]
fn snapshots_gets_rows_and_cursor_steps_allocate_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("keys", TableKind::Ordered).unwrap();
    let rows = txn.create_table("rows", TableKind::Rows).unwrap();
    let key = |n: u64| [&b"some/prefix/"[..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat();
    let keys: Vec<Vec<u8>> = (0..20_000).map(key).collect();
    for (n, key) in keys.iter().enumerate() {
        // Every hundredth value is in the value log.
        txn.put(&table, key, &vec![n as u8; if n % 100 == 0 { 5000 } else { 100 }]).unwrap();
        txn.append_row(&rows, &[n as u8; 50]).unwrap();
    }
    txn.commit().unwrap();

    let snapshots = allocations(|| {
        for _ in 0..100 {
            drop(store.snapshot().unwrap());
            drop(store.begin_read().unwrap());
        }
    });
    assert_eq!(snapshots, 0, "snapshots");

    let gets = allocations(|| {
        let read = store.snapshot().unwrap();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(read.get(&table, key).unwrap().map(|value| value[0]), Some(n as u8));
            assert!(read.get(&table, &key[1..]).unwrap().is_none());
            assert_eq!(read.row(&rows, n as u64 + 1).unwrap().map(|value| value[0]), Some(n as u8));
        }
    });
    assert_eq!(gets, 0, "gets");

    let read = store.snapshot().unwrap();
    let mut cursor = read.cursor(&table).unwrap();
    let steps = allocations(|| {
        let (mut on, mut seen) = (cursor.first().unwrap(), 0);
        while on {
            let (key, value) = cursor.entry().unwrap().unwrap();
            seen += usize::from(key.len() == 20 && value.len() >= 100);
            on = cursor.next().unwrap();
        }
        while cursor.prev().unwrap() {
            seen += usize::from(cursor.key().unwrap().is_some());
        }
        for key in &keys {
            assert!(cursor.seek_exact(key).unwrap());
        }
        assert_eq!(seen, 2 * keys.len());
    });
    assert_eq!(steps, 0, "cursor steps");
}

#[test]
fn matching_a_document_allocates_nothing() {
    let film = rawdoc! {
        "_id": 7, "title": "Alien", "year": 1979, "by": { "name": "Scott", "born": 1937_i64 },
        "cast": [{ "name": "Weaver", "role": "Ripley" }, { "name": "Holm", "role": "Ash" }], "tags": ["space", "fear"],
    };
    for (filter, expected) in [
        (rawdoc! { "year": 1979, "by.name": "Scott" }, true),
        (rawdoc! { "year": { "$gte": 1970, "$lt": 1979.5 }, "by.born": { "$ne": 1938 } }, true),
        (rawdoc! { "title": { "$in": ["Alien", "Brazil"] }, "tags": { "$nin": ["joy"] } }, true),
        (rawdoc! { "cast.name": "Holm", "tags": { "$all": ["fear", "space"] } }, true),
        (rawdoc! { "cast": { "$elemMatch": { "name": "Holm", "role": "Ripley" } } }, false),
        (rawdoc! { "tags": { "$elemMatch": { "$gt": "e", "$lt": "g" } } }, true),
        (rawdoc! { "$or": [{ "year": { "$mod": [2, 0] } }, { "tags": { "$size": 2 } }] }, true),
        (rawdoc! { "year": { "$type": "number", "$bitsAllSet": 3 }, "none": { "$exists": false } }, true),
        (rawdoc! { "title": { "$regex": "^al", "$options": "i" } }, true),
        (
            rawdoc! { "$jsonSchema": { "required": ["title"], "properties": { "year": { "bsonType": "int" } } } },
            true,
        ),
    ] {
        let parsed = Filter::parse(&filter).unwrap();
        let asked = allocations(|| {
            for _ in 0..100 {
                assert_eq!(parsed.matches(&film).unwrap(), expected, "{filter:?}");
            }
        });
        assert_eq!(asked, 0, "{filter:?}");
    }
}

#[test]
fn scanning_rows_of_binary_formats_allocates_nothing_per_row() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    for format in [Format::Template, Format::Bson] {
        let mut spent = Vec::new();
        for (name, count) in [("few", 100), ("many", 2000)] {
            let films = db.create_collection(&format!("{}.{name}", format.name()), format.options()).unwrap();
            let film = |n: i32| {
                let by = if n % 3 == 0 {
                    rawdoc! { "name": "Scott" }
                } else {
                    rawdoc! { "name": "Lang", "born": 1890 }
                };
                rawdoc! { "_id": n, "title": format!("film {n}"), "year": 1900 + n % 100, "by": by, "tags": ["a", "b"] }
            };
            films.insert_many(&(0..count).map(film).collect::<Vec<_>>(), true).unwrap();
            let filter = rawdoc! { "by.name": "Scott", "year": { "$gte": 1950 }, "tags": "b" };
            let request = FindRequest::filter(filter);
            spent.push(allocations(|| assert!(films.count(request.clone()).unwrap() > 0)));
        }
        assert_eq!(spent[0], spent[1], "{format:?}");
    }
}

#[test]
fn finding_a_document_by_an_indexed_value_allocates_only_the_document() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let people = db.collection("test.people").unwrap();
    people.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique()).unwrap();
    people.create_index(rawdoc! { "city": 1 }).unwrap();
    let email = |n: i32| format!("user-{n:09}@example.com");
    let person =
        |n: i32| rawdoc! { "_id": n, "email": email(n), "city": n % 50, "score": f64::from(n), "ok": true };
    people.insert_many(&(0..2000).map(person).collect::<Vec<_>>(), true).unwrap();
    // Scanning an index with many rows for a key allocates memory for the path to the leaf and for the key.
    for (filter, each) in
        [(rawdoc! { "_id": 1234 }, 1), (rawdoc! { "email": email(1234) }, 1), (rawdoc! { "city": 34 }, 3)]
    {
        let mut filters = vec![filter.clone(); 200];
        let spent = allocations(|| {
            for filter in filters.drain(..100) {
                assert!(people.find_one(filter).unwrap().is_some());
            }
        });
        assert_eq!(spent, 100 * each, "{filter:?}");
    }
}

#[test]
fn a_searcher_of_a_vector_index_in_memory_allocates_nothing_and_sees_each_commit() {
    const DIMENSIONS: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    for (similarity, elements, quantization) in [
        ("cosine", Some("float32"), "scalar"),
        ("euclidean", Some("float32"), "scalar"),
        ("dotProduct", Some("float16"), "scalar"),
        ("manhattan", Some("bfloat16"), "none"),
        ("euclidean", Some("int8"), "none"),
        ("hamming", None, "none"),
    ] {
        let vector = |n: i32| -> Vec<f32> {
            let element = |at: i32| f32::from(((n * 31 + at * at * 7 + n * at) % 101) as i16) - 50.0;
            let bit =
                |number: f32| if elements.is_none() { f32::from(u8::from(number > 0.0)) } else { number };
            (0..DIMENSIONS as i32).map(|at| bit(element(at))).collect()
        };
        let document = |id: String, n: i32| {
            let vector: Vec<f64> = vector(n).iter().map(|number| f64::from(*number)).collect();
            RawDocumentBuf::try_from(&doc! { "_id": id, "v": vector }).unwrap()
        };
        let things = db.collection(&format!("{similarity}.{}", elements.unwrap_or("bits"))).unwrap();
        let documents: Vec<_> = (0..1500).map(|n| document(format!("thing {n}"), n)).collect();
        things.insert_many(&documents, true).unwrap();
        let mut field = doc! {
            "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": quantization,
        };
        field.extend(elements.map(|name| ("elements".to_owned(), name.into())));
        let spec = IndexSpec::vector(RawDocumentBuf::try_from(&field).unwrap());
        things.create_index(spec.name("near")).unwrap();
        let queries: Vec<Vec<f32>> = (0..20).map(|n| vector(7 * n)).collect();
        let mut searcher = things.vector_searcher("near");
        let search = || {
            for query in &queries {
                let (mut found, mut last) = (0, f32::MIN);
                searcher
                    .search(query, 10, 100, |id, distance| {
                        assert!(id.as_str().is_some_and(|id| id.starts_with("thing")) && distance >= last);
                        (found, last) = (found + 1, distance);
                    })
                    .unwrap();
                assert_eq!(found, 10);
            }
        };
        assert_eq!(allocations(search), 0, "{similarity} {elements:?}");
        things.insert_one(document("new".to_owned(), 7 * 3)).unwrap();
        let mut found = Vec::new();
        // Every hundredth vector is the same.
        searcher.search(&queries[3], 100, 200, |id, _| found.push(id.as_str() == Some("new"))).unwrap();
        assert!(found.contains(&true), "{similarity} {elements:?}");
    }
    let mut searcher = db.collection("hamming.bits").unwrap().vector_searcher("none");
    assert!(searcher.search(&[1.0; DIMENSIONS], 1, 1, |_, _| ()).unwrap_err().to_string().contains("none"));
}
