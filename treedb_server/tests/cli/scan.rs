//! `treedb scan`, and what `treedb import --from` says without the importers.

use treedb_collections::Store;
use treedb_storage::TableKind;

use super::{Bench, treedb};

#[test]
fn tables_are_listed_and_their_entries_printed() {
    let bench = Bench::new();
    let store = Store::open(&bench.dir).unwrap();
    let mut txn = store.begin_write().unwrap();
    let users = txn.create_table("kv/users", TableKind::Ordered).unwrap();
    let tags = txn.create_table("kv/tags", TableKind::Dup).unwrap();
    txn.create_table("not of the wire", TableKind::Rows).unwrap();
    for (key, value) in [("user:1", "ada"), ("user:2", "b\tob\n"), ("zone", "x")] {
        txn.put(&users, key.as_bytes(), value.as_bytes()).unwrap();
    }
    for value in ["new", "old", "\u{1}"] {
        txn.put_pair(&tags, b"tag", value.as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    store.close().unwrap();
    let list = treedb(&["scan", "--dir", &bench.dir]);
    assert_eq!(
        list.out, "tags\t3 entries\tmany values a key\nusers\t3 entries\tone value a key\n",
        "{list:?}"
    );
    let some = treedb(&["scan", "users", "--dir", &bench.dir, "--prefix", "user:"]);
    assert_eq!(some.out, "user:1\tada\nuser:2\tb\\tob\\n\n", "{some:?}");
    let two = treedb(&["scan", "tags", "--dir", &bench.dir, "--limit", "2"]);
    assert_eq!(two.out, "tag\t\\x01\ntag\tnew\n", "{two:?}");
    let none = treedb(&["scan", "nothing", "--dir", &bench.dir]);
    assert!(none.status == Some(1) && none.err.contains("there is no table \"nothing\""), "{none:?}");
    let check = treedb(&["check", "--dir", &bench.dir]);
    assert!(check.status == Some(0) && check.out.contains("tables: 4 with "), "{check:?}");
}

#[cfg(not(feature = "importers"))]
#[test]
fn without_the_importers_an_import_from_another_database_says_how_to_get_them() {
    let bench = Bench::new();
    let done = treedb(&["import", "--from", "lmdb", "/tmp", "--dir", &bench.dir]);
    assert!(done.status == Some(1) && done.err.contains("--features importers"), "{done:?}");
    let both = treedb(&["import", "a.b", "file", "--from", "lmdb", "/tmp", "--dir", &bench.dir]);
    assert!(both.status == Some(2) && both.err.contains("cannot be used with"), "{both:?}");
}
