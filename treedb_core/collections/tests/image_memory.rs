//! The memory that images of damaged vector indexes take.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use treedb_collections::bson::rawdoc;
use treedb_collections::{Database, IndexSpec, VectorSearchRequest};
use treedb_storage::Reads;
use treedb_testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nodes_of_rows_that_a_collection_cannot_have_are_damage_and_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let things = db.collection("shop.things").unwrap();
    let document = |n: i32| rawdoc! { "_id": n, "v": [n % 17 + 1, n % 31] };
    things.insert_many(&(0..300).map(document).collect::<Vec<_>>(), true).unwrap();
    let definition =
        rawdoc! { "path": "v", "numDimensions": 2, "similarity": "euclidean", "quantization": "none" };
    things.create_index(IndexSpec::vector(definition).name("near")).unwrap();
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table("index/1/1").unwrap().unwrap();
    let record = txn.row(&table, 2 * 100 + 1).unwrap().unwrap().to_vec();
    // The greatest row that a number has room for; and position 999.
    for number in [(1_u64 << 40) - 1, (1000 << 40) - 1] {
        txn.put_row(&table, 2 * number + 1, &record).unwrap();
    }
    txn.commit().unwrap();
    let near = VectorSearchRequest::new("near", vec![3.0, 4.0], 3).candidates(10);
    let peak = Counting::peak(|| {
        for _ in 0..3 {
            assert_eq!(things.vector_search(&near).unwrap().len(), 3);
        }
    });
    assert_eq!(db.vector_memory(), 0);
    assert!(peak < 16 << 20, "{peak}");
    assert!(db.check().is_err());
}
