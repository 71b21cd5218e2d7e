//! `treedb backup`, `treedb restore`, `treedb compact`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::{Bench, Server, done, numbers, treedb};

#[test]
fn a_backup_comes_back_as_directory_and_as_stream() {
    let bench = Bench::new();
    let file = bench.file("in.jsonl", &numbers(0..700));
    treedb(&["import", "a.b", &file, "--dir", &bench.dir]);
    let at = |name: &str| bench.temp.path().join(name).to_str().unwrap().to_owned();
    let all = bench.find(&[]);

    let copied = treedb(&["backup", "--dir", &bench.dir, &at("copy")]);
    assert!(copied.status == Some(0) && copied.err.contains(" entries to "), "{copied:?}");
    let again = treedb(&["backup", "--dir", &bench.dir, &at("copy")]);
    assert!(again.status == Some(1) && again.err.contains("name a directory that is empty"), "{again:?}");

    let stream = Command::new(env!("CARGO_BIN_EXE_treedb"))
        .args(["backup", "--dir", &bench.dir, "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(stream.status.success(), "{stream:?}");
    let file = at("stream");
    fs::write(&file, &stream.stdout).unwrap();

    for (from, to) in [(at("copy"), at("one")), (file.clone(), at("two"))] {
        let restored = treedb(&["restore", &from, "--dir", &to]);
        assert!(restored.status == Some(0) && restored.err.contains("restored "), "{restored:?}");
        let found = treedb(&["find", "a.b", "--dir", &to]);
        assert!(found.out.lines().eq(&all), "{found:?}");
        assert!(treedb(&["check", "--dir", &to]).out.contains("700 documents"));
    }

    fs::write(&file, &stream.stdout[..stream.stdout.len() - 1]).unwrap();
    let cut = treedb(&["restore", &file, "--dir", &at("three")]);
    assert!(cut.status == Some(1) && cut.err.contains("the stream's end"), "{cut:?}");
    assert!(!bench.temp.path().join("three").exists());
}

#[test]
fn a_backup_of_a_directory_in_use_says_who_uses_it() {
    let bench = Bench::new();
    let server = Server::start(std::path::Path::new(&bench.dir));
    let copy = bench.temp.path().join("copy");
    let refused = Command::new(env!("CARGO_BIN_EXE_treedb"))
        .args(["backup", "--dir", &bench.dir])
        .arg(&copy)
        .output()
        .map(done)
        .unwrap();
    let holder = format!("in use by process {}", server.0.id());
    assert!(refused.status == Some(1) && refused.err.contains(&holder), "{refused:?}");
    assert!(refused.err.contains("--uri"), "{refused:?}");
    assert!(!copy.exists());
}

#[test]
fn a_server_copies_its_database_while_it_is_written_to() {
    let bench = Bench::new();
    let at = |name: &str| bench.temp.path().join(name).to_str().unwrap().to_owned();
    let server = Server::start(std::path::Path::new(&bench.dir));
    let uri = format!("mongodb://{}", server.2);
    let file = bench.file("in.jsonl", &numbers(0..20_000));
    treedb(&["import", "a.b", &file, "--native", &server.1]);
    let writer = Command::new(env!("CARGO_BIN_EXE_treedb"))
        .args(["import", "a.c", "-", "--batch", "20", "--native", &server.1])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut writer = writer.unwrap();
    let mut lines = writer.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        // Until the reader is gone.
        for n in 0.. {
            if writeln!(lines, "{{\"_id\": {n}}}").is_err() {
                return;
            }
        }
    });
    let copied = treedb(&["backup", "--uri", &uri, &at("copy")]);
    assert!(copied.status == Some(0) && copied.err.contains(" entries to "), "{copied:?}");
    writer.kill().unwrap();
    writer.wait().unwrap();
    feeder.join().unwrap();

    let again = treedb(&["backup", "--uri", &uri, &at("copy")]);
    assert!(again.status == Some(1) && again.err.contains("name a directory that is empty"), "{again:?}");
    let stream = treedb(&["backup", "--uri", &uri, "-"]);
    assert!(stream.status == Some(1) && stream.err.contains("name a directory"), "{stream:?}");
    drop(server);
    let refused = treedb(&["backup", "--uri", &uri, &at("other")]);
    assert!(refused.status == Some(1) && refused.err.contains("start one with treedb serve"), "{refused:?}");

    let restored = treedb(&["restore", &at("copy"), "--dir", &at("new")]);
    assert_eq!(restored.status, Some(0), "{restored:?}");
    let found = |collection: &str, dir: &str| treedb(&["find", collection, "--dir", dir]).out;
    let new = at("new");
    assert_eq!(found("a.b", &new), found("a.b", &bench.dir));
    // What was written meanwhile is there up to one moment.
    let (then, now) = (found("a.c", &new), found("a.c", &bench.dir));
    assert!(now.starts_with(&then) && then.lines().count().is_multiple_of(20), "{}", then.lines().count());
    assert!(treedb(&["check", "--dir", &new]).out.contains("no damage in "));
}

#[test]
fn a_compaction_says_what_it_gained_and_keeps_everything() {
    let bench = Bench::new();
    let file = bench.file("in.jsonl", &numbers(0..3000));
    treedb(&["import", "a.b", &file, "--dir", &bench.dir]);
    let all = bench.find(&[]);
    let compacted = treedb(&["compact", "--dir", &bench.dir]);
    assert!(compacted.status == Some(0) && compacted.out.contains(" before, "), "{compacted:?}");
    assert_eq!(bench.find(&[]), all);
    assert!(treedb(&["check", "--dir", &bench.dir]).out.contains("3,000 documents"));
}
