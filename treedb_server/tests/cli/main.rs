//! The `treedb` command: import, export, find, check, on a directory and through a server.

// Helpers of tests, which clippy does not know as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backup;
mod error_hints;
mod formats;
#[cfg(feature = "importers")]
mod importers;
mod scan;
mod settings;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// What a command did.
#[derive(Debug)]
struct Done {
    status: Option<i32>,
    out: String,
    err: String,
}

fn done(output: Output) -> Done {
    Done {
        status: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn treedb(args: &[&str]) -> Done {
    done(Command::new(env!("CARGO_BIN_EXE_treedb")).args(args).stdin(Stdio::null()).output().unwrap())
}

fn treedb_reading(args: &[&str], input: &str) -> Done {
    let mut child = Command::new(env!("CARGO_BIN_EXE_treedb"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    match child.stdin.take().unwrap().write_all(input.as_bytes()) {
        // It may have ended with an error before it has read everything.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    done(child.wait_with_output().unwrap())
}

/// A running server, where its native port is and where that of the drivers; it is killed when dropped.
struct Server(Child, String, String);

impl Server {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_treedb"))
            .args([
                "serve",
                "--mongo",
                "127.0.0.1:0",
                "--native",
                "127.0.0.1:0",
                "--log-level",
                "warn",
                "--dir",
            ])
            .arg(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut next = |door: &str| {
            let line =
                lines.find_map(|line| line.strip_prefix(&format!("listening {door} ")).map(str::to_owned));
            line.expect("the server says where it listens")
        };
        let mongo = next("mongo");
        let native = next("native");
        Server(child, native, mongo)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench {
    temp: TempDir,
    dir: String,
}

impl Bench {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("db").to_str().unwrap().to_owned();
        Bench { temp, dir }
    }

    /// A file of this content; its name.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.temp.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn find(&self, args: &[&str]) -> Vec<String> {
        let done = treedb(&[&["find", "a.b"], args, &["--dir", &self.dir]].concat());
        assert_eq!(done.status, Some(0), "{done:?}");
        done.out.lines().map(str::to_owned).collect()
    }
}

fn numbers(range: std::ops::Range<u32>) -> String {
    range.map(|n| format!("{{\"_id\": {n}, \"half\": {}.5}}\n", n / 2)).collect()
}

#[test]
fn what_is_imported_is_found_counted_exported_and_checked_in_a_directory() {
    let bench = Bench::new();
    let file = bench.file("in.jsonl", &numbers(0..2500));
    let done = treedb(&["import", "a.b", &file, "--dir", &bench.dir]);
    assert_eq!((done.status, done.out.as_str()), (Some(0), ""), "{done:?}");
    assert!(done.err.contains("imported 2,500 documents into a.b in "), "{done:?}");

    let found = bench.find(&[
        r#"{"_id": {"$gte": 2000}}"#,
        "--sort",
        r#"{"_id": -1}"#,
        "--skip",
        "1",
        "--limit",
        "2",
    ]);
    assert_eq!(found, [r#"{"_id":2498,"half":1249.5}"#, r#"{"_id":2497,"half":1248.5}"#]);
    assert_eq!(bench.find(&["--limit", "1", "--projection", r#"{"_id": 0}"#]), [r#"{"half":0.5}"#]);
    assert_eq!(bench.find(&[]).len(), 2500);

    let out = bench.temp.path().join("out.jsonl");
    let done = treedb(&["export", "a.b", out.to_str().unwrap(), "--dir", &bench.dir]);
    assert!(done.status == Some(0) && done.err.contains("exported 2,500 documents from a.b"), "{done:?}");
    assert_eq!(fs::read_to_string(&out).unwrap(), numbers(0..2500).replace(' ', ""));
    assert_eq!(fs::read_dir(bench.temp.path()).unwrap().count(), 3, "no partial file is left");

    let done = treedb(&["check", "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    for line in ["collection a.b: 2,500 documents", "index _id_: 2,500 entries", "no damage in "] {
        assert!(done.out.contains(line), "{line:?} in {done:?}");
    }
}

#[test]
fn a_check_measures_the_recall_of_vector_indexes_if_it_is_asked_to() {
    let bench = Bench::new();
    let index = r#"{"name": "near", "type": "vectorSearch", "definition": {"fields": [
        {"type": "vector", "path": "v", "numDimensions": 2, "similarity": "euclidean"}]}}"#;
    let index = bench.file("indexes.json", &index.replace('\n', " "));
    let lines: String =
        (0..400).map(|n| format!("{{\"_id\": {n}, \"v\": [{n}, {}]}}\n", n * n % 37)).collect();
    let lines = bench.file("in.jsonl", &lines);
    let done = treedb(&["import", "a.b", &lines, "--indexes", &index, "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(!treedb(&["check", "--dir", &bench.dir]).out.contains("recall"));
    for (option, searches) in [("--recall", 100), ("--recall=7", 7)] {
        let done = treedb(&["check", option, "--dir", &bench.dir]);
        let line = done
            .out
            .lines()
            .find(|line| line.contains("index near of v: recall@10 "))
            .unwrap_or_else(|| panic!("{done:?}"));
        let (_, rest) = line.split_once("recall@10 ").unwrap();
        let (recall, rest) = rest.split_once(' ').unwrap();
        assert!((0.9..=1.0).contains(&recall.parse::<f64>().unwrap()), "{line}");
        assert_eq!(rest, format!("with ef 110, {searches} searches"));
    }
    for option in ["--recall=0", "--recall=x"] {
        assert_ne!(treedb(&["check", option, "--dir", &bench.dir]).status, Some(0));
    }
    assert!(treedb(&["check", "--help"]).out.contains("recall@10"));
}

#[test]
fn the_same_commands_work_through_a_server() {
    let bench = Bench::new();
    let server = Server::start(Path::new(&bench.dir));
    let there = ["--native", &server.1];
    let done =
        treedb_reading(&[&["import", "a.b", "-", "--batch", "7"], &there[..]].concat(), &numbers(0..100));
    assert!(done.status == Some(0) && done.err.contains("imported 100 documents"), "{done:?}");
    let done = treedb(&[&["find", "a.b", r#"{"_id": 42}"#, "--time"], &there[..]].concat());
    assert_eq!(done.out, "{\"_id\":42,\"half\":21.5}\n");
    let (ms, rest) = done.err.split_once(' ').unwrap();
    assert!(ms.parse::<f64>().unwrap() > 0.0 && rest == "ms, 1 documents\n", "{done:?}");
    let done = treedb(&[&["export", "a.b", "--filter", r#"{"_id": {"$lt": 10}}"#], &there[..]].concat());
    assert_eq!(done.out, numbers(0..10).replace(' ', ""));

    let done = treedb(&["find", "a.b", "--dir", &bench.dir]);
    assert_eq!(done.status, Some(1));
    assert!(done.err.contains(&format!("in use by process {}", server.0.id())), "{done:?}");
}

#[test]
fn an_encrypted_directory_opens_with_its_key_file_only() {
    let bench = Bench::new();
    let lines = bench.file("in.jsonl", &numbers(0..300));
    let key = bench.file("key", &"0123456789abcdef".repeat(4));
    let other = bench.file("other", &format!("{}\n", "f".repeat(64)));
    let short = bench.file("short", "0123");
    let imported = treedb(&["import", "a.b", &lines, "--dir", &bench.dir, "--key-file", &key]);
    assert_eq!(imported.status, Some(0), "{imported:?}");
    let found = treedb(&["find", "a.b", "--dir", &bench.dir, "--key-file", &key]);
    assert_eq!(found.out.lines().count(), 300, "{found:?}");
    assert!(treedb(&["check", "--dir", &bench.dir, "--key-file", &key]).out.contains("300 documents"));
    let without = treedb(&["check", "--dir", &bench.dir]);
    assert!(without.status == Some(1) && without.err.contains("is encrypted"), "{without:?}");
    for (file, expected) in [(&other, "encrypted with another key"), (&short, "64 hexadecimal digits")] {
        let refused = treedb(&["check", "--dir", &bench.dir, "--key-file", file]);
        assert!(refused.status == Some(1) && refused.err.contains(expected), "{refused:?}");
    }
}

#[test]
fn a_bad_line_stops_the_import_with_its_number_and_everything_before_it_is_there() {
    let bench = Bench::new();
    for (number, bad, reason) in [
        (1, "[1]", "an object is needed"),
        (5, "{\"_id\": 5", "EOF while parsing"),
        (6, "{\"_id\": [1]}", "_id"),
        (7, "{\"_id\": 3}", "E11000 duplicate key"),
        (8, "\u{1}", "not a JSON document"),
    ] {
        let bench = Bench::new();
        let good = numbers(1..10);
        let mut lines: Vec<&str> = good.lines().collect();
        lines.insert(number - 1, bad);
        let file = bench.file("in.jsonl", &lines.join("\n"));
        for batch in ["100", "2"] {
            let dir = format!("{}{batch}", bench.dir);
            let done = treedb(&["import", "a.b", &file, "--dir", &dir, "--batch", batch]);
            assert_eq!(done.status, Some(1), "{done:?}");
            assert!(
                done.err.contains(&format!("treedb: line {number}: ")) && done.err.contains(reason),
                "{done:?}"
            );
            let found = treedb(&["find", "a.b", "--dir", &dir]);
            assert_eq!(found.out.lines().count(), number - 1, "{found:?}");
        }
    }
    drop(bench);
}

#[test]
fn with_skip_bad_lines_are_told_in_order_and_the_others_are_there() {
    let bench = Bench::new();
    let file = bench.file(
        "in.jsonl",
        "{\"_id\": 1}\nnonsense\n{\"_id\": 1, \"again\": true}\n\n{\"_id\": 2}\n{\"_id\": [2]}\n",
    );
    let done = treedb(&["import", "a.b", &file, "--dir", &bench.dir, "--on-error", "skip"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let expected: Vec<&str> = done.err.lines().filter_map(|line| line.strip_prefix("line ")).collect();
    assert!(
        matches!(expected[..], [a, b, c] if a.starts_with("2: not a JSON document")
        && b.starts_with("3: E11000") && c.starts_with("6: ")),
        "{done:?}"
    );
    assert!(
        done.err.contains("imported 2 documents") && done.err.contains("skipped 3 bad lines"),
        "{done:?}"
    );
    assert_eq!(bench.find(&[]), [r#"{"_id":1}"#, r#"{"_id":2}"#]);
}

#[test]
fn a_canonical_export_comes_back_as_the_very_same_documents() {
    let bench = Bench::new();
    let lines = [
        r#"{"_id":{"$numberInt":"1"},"long":{"$numberLong":"5"},"double":{"$numberDouble":"5.0"}}"#,
        r#"{"_id":{"$oid":"64b7f0f0f0f0f0f0f0f0f0f0"},"at":{"$date":{"$numberLong":"1700000000000"}},"nan":{"$numberDouble":"NaN"}}"#,
        r#"{"_id":"x","bin":{"$binary":{"base64":"AAEC","subType":"00"}},"list":[null,true,{"$minKey":1},{"z":{"$numberInt":"1"},"a":"b"}]}"#,
    ];
    let file = bench.file("in.jsonl", &lines.join("\n"));
    assert_eq!(treedb(&["import", "a.b", &file, "--dir", &bench.dir]).status, Some(0));
    let first = treedb(&["export", "a.b", "--canonical", "--dir", &bench.dir]).out;
    assert_eq!(first.lines().collect::<Vec<_>>(), lines);
    let relaxed = treedb(&["export", "a.b", "--dir", &bench.dir]).out;
    assert!(relaxed.starts_with(r#"{"_id":1,"long":5,"double":5.0}"#), "{relaxed}");
}

#[test]
fn a_directory_without_a_database_is_not_made_one_by_reading() {
    let bench = Bench::new();
    for args in [&["find", "a.b"][..], &["export", "a.b"], &["check"]] {
        let done = treedb(&[args, &["--dir", &bench.dir]].concat());
        assert_eq!(done.status, Some(1));
        assert!(done.err.contains("contains no database"), "{done:?}");
    }
    assert!(!Path::new(&bench.dir).exists());
}

#[test]
fn damage_is_found_and_told_with_file_and_place() {
    let bench = Bench::new();
    let file = bench.file("in.jsonl", &numbers(0..2000));
    assert_eq!(treedb(&["import", "a.b", &file, "--dir", &bench.dir]).status, Some(0));
    let pages = Path::new(&bench.dir).join("pages");
    let good = fs::read(&pages).unwrap();
    // Page by page, one bit in the middle: some pages are free, and nothing is wrong then.
    let mut found = 0;
    for page in (2..good.len() / 4096).step_by(good.len() / 4096 / 12) {
        let mut bad = good.clone();
        bad[page * 4096 + 2000] ^= 4;
        fs::write(&pages, &bad).unwrap();
        let done = treedb(&["check", "--dir", &bench.dir]);
        if done.status == Some(0) {
            continue;
        }
        found += 1;
        assert_eq!(done.status, Some(1), "{done:?}");
        assert!(done.err.contains("pages is damaged at byte ") && done.err.contains("expected"), "{done:?}");
        assert!(!done.out.contains("no damage"), "{done:?}");
    }
    assert!(found > 0);
}

#[test]
fn mistakes_on_the_command_line_are_told() {
    let bench = Bench::new();
    let file = bench.file("in.jsonl", r#"{"a": 1}"#);
    let missing = bench.temp.path().join("none").to_str().unwrap().to_owned();
    assert_eq!(treedb(&["import", "a.b", &file, "--dir", &bench.dir]).status, Some(0));
    for (args, status, message) in [
        (&["import", "a.b", &file][..], 2, "--dir <DIR>|--uri <mongodb://HOST:PORT>|--native <HOST:PORT>"),
        (&["import", "a.b", &file, "--dir", &bench.dir, "--native", "h:1"], 2, "cannot be used with"),
        (&["import", "a.b", &file, "--dir", &bench.dir, "--batch", "0"], 2, "1..=100000"),
        (&["import", "a.b", &missing, "--dir", &bench.dir], 1, "No such file"),
        (&["import", "nodot", &file, "--dir", &bench.dir], 2, "nodot"),
        (&["import", "a.b", bench.temp.path().to_str().unwrap(), "--dir", &bench.dir], 1, "is a directory"),
        (&["find", "a.b", "{year: 1}", "--dir", &bench.dir], 2, "not a JSON document"),
        (&["find", "a.b", r#"{"a": {"$no": 1}}"#, "--dir", &bench.dir], 1, "$no"),
        (&["find", "nodot", "--dir", &bench.dir], 2, "namespace"),
        (&["find", "a.b", "--native", "127.0.0.1:1"], 1, "127.0.0.1:1: connect: Connection refused"),
        (&["export", "a.b", "/no/such/place", "--dir", &bench.dir], 1, "/no/such/place"),
    ] {
        let done = treedb(args);
        assert_eq!(done.status, Some(status), "{args:?} {done:?}");
        assert!(done.err.contains(message), "{message:?} in {done:?}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["import", "export", "find"] {
        let done = treedb(&[command, "--help"]);
        assert_eq!(done.status, Some(0));
        for part in ["Usage: treedb", "DB.COLL", "--dir <DIR>", "--native <HOST:PORT>", "Example"] {
            assert!(done.out.contains(part), "{part:?} in {}", done.out);
        }
    }
    assert!(treedb(&["check", "--help"]).out.contains("exit status is 1"));
}
