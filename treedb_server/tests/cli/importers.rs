//! `treedb import --from`, of databases made by the real thing.

use std::fs;
use std::path::Path;

use super::{Bench, treedb};

/// What every test stores in a named table: enough for several pages and several transactions of the import.
const MANY: u32 = 30_000;

fn key(n: u32) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    vec![b'a' + (n % 26) as u8; 1 + n as usize % 300]
}

fn import(kind: &str, from: &Path, bench: &Bench) -> String {
    let done = treedb(&["import", "--from", kind, from.to_str().unwrap(), "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    done.err
}

fn lines(bench: &Bench, args: &[&str]) -> Vec<String> {
    let done = treedb(&[&["scan"], args, &["--dir", &bench.dir]].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    done.out.lines().map(str::to_owned).collect()
}

/// What `users`, `tags` and `main` hold in each of the databases.
fn all_there(bench: &Bench) {
    let users = lines(bench, &["users"]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let want = (0..MANY).map(|n| format!("{}\t{}", text(key(n)), text(value(n))));
    assert!(users.into_iter().eq(want));
    let tags: Vec<String> =
        (0..500).map(|n| format!("big\t{n:04}")).chain(["small\ta".into(), "small\tb".into()]).collect();
    assert_eq!(lines(bench, &["tags"]), tags);
    assert_eq!(lines(bench, &["main"]), ["plain\tentry"]);
    let list = lines(bench, &[]);
    assert!(list.contains(&"tags\t502 entries\tmany values a key".to_owned()), "{list:?}");
    let check = treedb(&["check", "--dir", &bench.dir]);
    assert_eq!(check.status, Some(0), "{check:?}");
}

#[test]
fn an_lmdb_database_with_named_and_dup_tables_is_imported() {
    use heed::types::Bytes;
    let bench = Bench::new();
    let from = bench.temp.path().join("lmdb");
    fs::create_dir(&from).unwrap();
    let mut options = heed::EnvOpenOptions::new();
    options.max_dbs(4).map_size(256 << 20);
    // SAFETY: a directory of this test alone.
    let env = unsafe { options.open(&from) }.unwrap();
    let mut txn = env.write_txn().unwrap();
    let main = env.create_database::<Bytes, Bytes>(&mut txn, None).unwrap();
    let users = env.create_database::<Bytes, Bytes>(&mut txn, Some("users")).unwrap();
    let mut dup = env.database_options().types::<Bytes, Bytes>();
    let tags = dup.flags(heed::DatabaseFlags::DUP_SORT).name("tags").create(&mut txn).unwrap();
    main.put(&mut txn, b"plain", b"entry").unwrap();
    for n in 0..MANY {
        users.put(&mut txn, &key(n), &value(n)).unwrap();
    }
    for n in 0..500 {
        tags.put(&mut txn, b"big", format!("{n:04}").as_bytes()).unwrap();
    }
    for value in [b"b", b"a"] {
        tags.put(&mut txn, b"small", value).unwrap();
    }
    txn.commit().unwrap();
    let message = import("lmdb", &from, &bench);
    assert!(message.contains("imported 30,503 entries into 3 tables"), "{message}");
    all_there(&bench);
    let again = treedb(&["import", "--from", "lmdb", from.to_str().unwrap(), "--dir", &bench.dir]);
    assert!(again.status == Some(1) && again.err.contains("already"), "{again:?}");
}

#[test]
fn an_mdbx_database_with_named_and_dup_tables_is_imported() {
    use libmdbx::{Database, DatabaseOptions, NoWriteMap, TableFlags, WriteFlags};
    let bench = Bench::new();
    let from = bench.temp.path().join("mdbx");
    let options = DatabaseOptions { max_tables: Some(4), ..DatabaseOptions::default() };
    let database = Database::<NoWriteMap>::open_with_options(&from, options).unwrap();
    let txn = database.begin_rw_txn().unwrap();
    let main = txn.open_table(None).unwrap();
    let users = txn.create_table(Some("users"), TableFlags::empty()).unwrap();
    let tags = txn.create_table(Some("tags"), TableFlags::DUP_SORT).unwrap();
    txn.put(&main, b"plain", b"entry", WriteFlags::empty()).unwrap();
    for n in 0..MANY {
        txn.put(&users, key(n), value(n), WriteFlags::empty()).unwrap();
    }
    for n in 0..500 {
        txn.put(&tags, b"big", format!("{n:04}"), WriteFlags::empty()).unwrap();
    }
    for value in [b"b", b"a"] {
        txn.put(&tags, b"small", value, WriteFlags::empty()).unwrap();
    }
    txn.commit().unwrap();
    drop(database);
    let message = import("mdbx", &from, &bench);
    assert!(message.contains("imported 30,503 entries into 3 tables"), "{message}");
    all_there(&bench);
}

#[test]
fn a_leveldb_database_is_imported_and_not_changed() {
    let bench = Bench::new();
    let from = bench.temp.path().join("leveldb");
    let options =
        || rusty_leveldb::Options { write_buffer_size: 1 << 20, ..rusty_leveldb::Options::default() };
    let mut database = rusty_leveldb::DB::open(&from, options()).unwrap();
    for n in 0..MANY {
        database.put(&key(n), b"first").unwrap();
    }
    for n in 0..MANY {
        database.put(&key(n), &value(n)).unwrap();
    }
    database.put(b"gone", b"").unwrap();
    database.delete(b"gone").unwrap();
    database.close().unwrap();
    drop(database);
    let state = || {
        let files = fs::read_dir(&from).unwrap().map(|file| file.unwrap());
        let mut files: Vec<_> =
            files.map(|file| (file.file_name(), file.metadata().unwrap().len())).collect();
        files.sort();
        files
    };
    let before = state();
    let message = import("leveldb", &from, &bench);
    assert!(message.contains("imported 30,000 entries into 1 tables"), "{message}");
    assert_eq!(state(), before);
    let main = lines(&bench, &["main", "--prefix", "key 0299"]);
    assert_eq!(main.len(), 100);
    assert_eq!(main[7], format!("key 029907\t{}", String::from_utf8(value(29907)).unwrap()));
}

#[test]
fn what_is_no_such_database_is_refused_by_name() {
    let bench = Bench::new();
    let place = bench.temp.path().to_str().unwrap();
    for (kind, path, why) in [
        ("lmdb", place, "no data.mdb"),
        ("mdbx", place, "no mdbx.dat"),
        ("leveldb", place, "no CURRENT"),
        ("lmdb", "/no/such/place", "nothing is there"),
        ("rocksdb", place, "lmdb, mdbx or leveldb"),
    ] {
        let done = treedb(&["import", "--from", kind, path, "--dir", &bench.dir]);
        assert!(done.status == Some(1) && done.err.contains(why), "{done:?}");
    }
    let through = treedb(&["import", "--from", "lmdb", place, "--native", "127.0.0.1:1"]);
    assert!(through.status == Some(1) && through.err.contains("--dir"), "{through:?}");
}
