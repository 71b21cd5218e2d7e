//! The failures that new users run into: each message says what to do.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bench, Server, done, numbers, treedb, treedb_reading};

fn serve(dir: &str, flags: &[&str]) -> super::Done {
    treedb(&[&["serve", "--dir", dir, "--mongo", "127.0.0.1:0"], flags].concat())
}

#[test]
fn a_server_that_cannot_start_says_why_and_what_to_do() {
    let bench = Bench::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = bench.file("file", "");
    let inside = format!("{file}/db");
    let full = bench.temp.path().join("letters");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letter.txt"), "mine").unwrap();
    for (dir, flags, reason, hint) in [
        (
            bench.dir.as_str(),
            &["--mongo", &taken][..],
            "Address already in use",
            "choose another port with --mongo",
        ),
        (&bench.dir, &["--native", &taken], "Address already in use", "choose another port with --native"),
        (&bench.dir, &["--admin", &taken], &taken, "port 0 lets the system choose"),
        (&file, &[], &file, "use another directory with --dir"),
        (&inside, &[], &inside, "use another directory with --dir"),
        ("/proc/db", &[], "/proc/db", "use another directory with --dir"),
        (
            full.to_str().unwrap(),
            &[],
            "\"letter.txt\" is in it, but no TreeDB database",
            "name an empty directory",
        ),
    ] {
        let done = serve(dir, flags);
        assert_eq!((done.status, done.out.as_str()), (Some(1), ""), "{done:?}");
        let last = done.err.lines().last().unwrap();
        assert!(last.starts_with("treedb: ") && last.contains(reason) && last.contains(hint), "{done:?}");
    }
    // Nothing was added to a directory with other files; the lost+found of a new file system does not count as one.
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
    let mount = bench.temp.path().join("mount");
    fs::create_dir_all(mount.join("lost+found")).unwrap();
    Server::start(&mount);
}

#[test]
fn an_encrypted_directory_without_its_key_is_told_how_the_key_is_named() {
    let bench = Bench::new();
    let key = bench.file("key", &"5a".repeat(32));
    let other = bench.file("other", &"5b".repeat(32));
    let documents = bench.file("films.jsonl", "{\"_id\": 1}\n");
    let import = treedb(&["import", "shop.films", &documents, "--dir", &bench.dir, "--key-file", &key]);
    assert_eq!(import.status, Some(0), "{import:?}");
    let names = ["--key-file FILE", "TREEDB_KEY_FILE", "key_file in its configuration file"];
    let commands: [&[&str]; 7] = [
        &["export", "shop.films", "--dir", &bench.dir],
        &["check", "--dir", &bench.dir],
        &["compact", "--dir", &bench.dir],
        &["scan", "--dir", &bench.dir],
        &["backup", "--dir", &bench.dir, "-"],
        &["dump", "--dir", &bench.dir, "/nowhere/dump"],
        &["serve", "--dir", &bench.dir, "--mongo", "127.0.0.1:0"],
    ];
    for command in commands {
        for (flags, reason) in [(&[][..], "is encrypted"), (&["--key-file", &other], "with another key")] {
            let done = treedb(&[command, flags].concat());
            let is_told = done.err.contains(reason) && names.iter().all(|name| done.err.contains(name));
            assert!(done.status == Some(1) && is_told, "{done:?}");
        }
    }
    let plain = bench.temp.path().join("plain");
    let plain = plain.to_str().unwrap();
    assert_eq!(treedb(&["import", "shop.films", &documents, "--dir", plain]).status, Some(0));
    let done = treedb(&["check", "--dir", plain, "--key-file", &key]);
    assert!(done.status == Some(1) && done.err.contains("leave out --key-file FILE"), "{done:?}");
}

#[test]
fn a_second_server_on_a_directory_gets_the_process_that_uses_it() {
    let bench = Bench::new();
    let server = Server::start(bench.dir.as_ref());
    let done = serve(&bench.dir, &[]);
    assert_eq!((done.status, done.out.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.err.contains(&format!("in use by process {}: stop it", server.0.id())), "{done:?}");
    assert_eq!(treedb(&["find", "a.b", "--native", &server.1]).status, Some(0));
}

#[test]
fn a_wrong_native_address_is_explained() {
    let bench = Bench::new();
    let server = Server::start(bench.dir.as_ref());
    for (address, hint) in [
        ("127.0.0.1:1", "no server listens on that port: start one with treedb serve --native 127.0.0.1:1"),
        ("nohost", "expected HOST:PORT"),
        (server.2.as_str(), "is it the native port (treedb serve --native)"),
    ] {
        let done = treedb(&["find", "a.b", "--native", address]);
        assert_eq!(done.status, Some(1));
        assert!(done.err.contains(address) && done.err.contains(hint), "{done:?}");
    }
}

#[test]
fn what_is_no_dump_and_no_backup_is_told_what_it_is() {
    let bench = Bench::new();
    let empty = bench.temp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = bench.temp.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (from, message) in [
        (
            empty.to_str().unwrap().to_owned(),
            "neither a dump, which has files DATABASE/COLLECTION.bson, nor a database",
        ),
        (write("archive", b"\x6d\xe2\x99\x81 and more"), "an archive of mongodump: load it by mongorestore"),
        (write("packed", b"\x1f\x8b and more"), "compressed: unpack it first"),
        (write("letter", &[b'x'; 200]), "not a TreeDB backup"),
    ] {
        let done = treedb(&["restore", &from, "--dir", &bench.dir]);
        assert!(done.status == Some(1) && done.err.contains(message), "{done:?}");
        assert!(!Path::new(&bench.dir).join("pages").exists());
    }
}

#[test]
fn the_flags_of_mongod_are_told_what_they_are_called_here() {
    let done = treedb(&["serve", "--dbpath", "data", "--port", "27018"]);
    assert!(done.status == Some(2) && done.err.contains("unexpected argument '--dbpath'"), "{done:?}");
    assert!(done.err.ends_with("here: --dir DIR\n"), "{done:?}");
}

#[test]
fn an_export_with_its_indexes_is_imported_with_them_in_a_directory_and_through_a_server() {
    let bench = Bench::new();
    let points = bench.file("points", "{\"_id\": 1, \"v\": [1, 2]}\n{\"_id\": 2, \"v\": [5, 6]}\n");
    let indexes = bench.file(
        "indexes",
        concat!(
            "{\"key\": {\"a\": 1}, \"name\": \"by_a\", \"sparse\": true}\n\n",
            "{\"name\": \"near\", \"type\": \"vectorSearch\", \"definition\": {\"fields\": [{\"type\": \"vector\", ",
            "\"path\": \"v\", \"numDimensions\": 2, \"similarity\": \"cosine\"}, {\"type\": \"filter\", \"path\": \"a\"}]}}\n",
        ),
    );
    let done = treedb(&["import", "a.b", &points, "--indexes", &indexes, "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let first = bench.file("first", "");
    let done = treedb(&["export", "a.b", &points, "--indexes", &first, "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let written = fs::read_to_string(&first).unwrap();
    assert!(written.lines().count() == 2 && written.contains("numDimensions"), "{written}");
    let broken = bench.file("broken", "{\"key\": {\"c\": 1}}\n{\"key\": 5}\n");
    let done = treedb(&["import", "x.y", &points, "--indexes", &broken, "--dir", &bench.dir]);
    assert!(done.status == Some(1) && done.err.contains("broken, line 2"), "{done:?}");
    let server = Server::start(Path::new(&bench.dir));
    let there = ["--native", &server.1];
    let done = treedb(&[&["import", "c.d", &points, "--indexes", &first], &there[..]].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    let second = bench.file("second", "");
    let done = treedb(&[&["export", "c.d", &points, "--indexes", &second], &there[..]].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    assert_eq!(fs::read_to_string(&second).unwrap(), written);
}

#[test]
fn import_export_and_find_work_through_the_port_of_drivers_as_through_the_native_one() {
    let bench = Bench::new();
    let server = Server::start(bench.dir.as_ref());
    let uri = format!("mongodb://{}", server.2);
    let (drivers, native) = (["--uri", &uri], ["--native", &server.1]);
    let lines = numbers(0..5000);
    let done = treedb_reading(&[&["import", "a.b", "-"], &drivers[..]].concat(), &lines);
    assert!(done.status == Some(0) && done.err.contains("imported 5,000 documents into a.b"), "{done:?}");
    // Lines that are refused have their numbers, wherever they are.
    let done = treedb_reading(
        &[&["import", "a.b", "-", "--on-error", "skip"], &drivers[..]].concat(),
        &numbers(4999..5002),
    );
    assert!(done.status == Some(0) && done.err.contains("line 1: E11000"), "{done:?}");
    let stopped = treedb_reading(&[&["import", "a.b", "-"], &drivers[..]].concat(), &numbers(0..3));
    assert!(stopped.status == Some(1) && stopped.err.contains("line 1: E11000"), "{stopped:?}");
    let specs = bench.file("specs", "{\"key\": {\"n\": 1}, \"name\": \"by_n\"}\n");
    let none = bench.file("none", "");
    let done = treedb(&[&["import", "a.b", &none, "--indexes", &specs], &drivers[..]].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    let (first, second) = (bench.file("first", ""), bench.file("second", ""));
    let by_drivers = treedb(&[&["export", "a.b", "--indexes", &first], &drivers[..]].concat());
    let by_native = treedb(&[&["export", "a.b", "--indexes", &second], &native[..]].concat());
    assert_eq!(by_drivers.out.lines().count(), 5002, "{by_drivers:?}");
    assert_eq!(by_drivers.out, by_native.out);
    assert_eq!(fs::read_to_string(&first).unwrap(), fs::read_to_string(&second).unwrap());
    assert!(fs::read_to_string(&first).unwrap().contains("by_n"));
    let missing = treedb(&[&["export", "a.none"], &drivers[..]].concat());
    assert!(
        missing.status == Some(1) && missing.err.contains("there is no collection a.none"),
        "{missing:?}"
    );
    let search = [
        "find",
        "a.b",
        r#"{"_id": {"$gt": 10}}"#,
        "--sort",
        r#"{"_id": -1}"#,
        "--skip",
        "1",
        "--limit",
        "300",
        "--projection",
        r#"{"_id": 1}"#,
    ];
    let found = treedb(&[&search[..], &drivers[..]].concat());
    assert_eq!(found.out, treedb(&[&search[..], &native[..]].concat()).out);
    assert_eq!(found.out.lines().count(), 300, "more than the first batch");
}

#[test]
fn an_export_into_an_import_is_the_same_collection() {
    let bench = Bench::new();
    let server = Server::start(bench.dir.as_ref());
    let there = ["--native", &server.1];
    let lines = numbers(0..3000)
        + r#"{"_id":"all","long":{"$numberLong":"7"},"date":{"$date":"2026-01-02T03:04:05.006Z"},"dec":{"$numberDecimal":"1.50"},"re":{"$regularExpression":{"pattern":"^a","options":"i"}},"bin":{"$binary":{"base64":"AAEC","subType":"80"}},"ts":{"$timestamp":{"t":5,"i":6}},"text":"\u0000 \ud83d\ude00 \"\\"}"#
        + "\n";
    assert_eq!(treedb_reading(&[&["import", "a.b", "-"], &there[..]].concat(), &lines).status, Some(0));
    let exported = treedb(&[&["export", "a.b", "--canonical"], &there[..]].concat());
    let imported = treedb_reading(&[&["import", "c.d", "-"], &there[..]].concat(), &exported.out);
    assert!(imported.err.contains("imported 3,001 documents into c.d"), "{imported:?}");
    assert_eq!(treedb(&[&["export", "c.d", "--canonical"], &there[..]].concat()).out, exported.out);
}

#[test]
fn a_reader_that_stops_early_is_no_failure_and_a_full_disk_is_one() {
    let bench = Bench::new();
    assert_eq!(
        treedb_reading(&["import", "a.b", "-", "--dir", &bench.dir], &numbers(0..20_000)).status,
        Some(0)
    );
    for command in ["export", "find"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_treedb"))
            .args([command, "a.b", "--dir", &bench.dir])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap();
        drop(out);
        let done = done(child.wait_with_output().unwrap());
        assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{done:?}");

        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_treedb"))
            .args([command, "a.b", "--dir", &bench.dir])
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("cannot write: No space left on device"), "{stderr}");
    }
}

#[test]
fn a_server_that_is_stopped_during_an_import_keeps_what_the_import_said_and_both_say_so() {
    let bench = Bench::new();
    let mut server = Server::start(bench.dir.as_ref());
    let file = bench.file("in.jsonl", &numbers(0..400_000));
    let import = Command::new(env!("CARGO_BIN_EXE_treedb"))
        .args(["import", "a.b", &file, "--native", &server.1])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while treedb(&["find", "a.b", r#"{"_id": 3000}"#, "--native", &server.1]).out.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "the import does not begin");
    }
    let stop = Command::new("kill").arg(server.0.id().to_string()).status().unwrap();
    assert!(stop.success());
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    let output = import.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains('\u{1b}'), "no terminal, no escape sequences: {stderr:?}");
    let imported = stderr.split_once("imported ").unwrap().1.split_once(" documents into a.b").unwrap().0;
    let imported: usize = imported.replace(',', "").parse().unwrap();
    assert!(stderr.lines().last().unwrap().starts_with("treedb: "), "{stderr}");
    let found = treedb(&["find", "a.b", "--projection", r#"{"_id": 1}"#, "--dir", &bench.dir]);
    // The batch in progress may have been stored without being reported.
    let found = found.out.lines().count();
    assert!(found == imported || found == imported + 1000, "{found} found, {imported} acknowledged");
    assert_eq!(treedb(&["check", "--dir", &bench.dir]).status, Some(0));
}
