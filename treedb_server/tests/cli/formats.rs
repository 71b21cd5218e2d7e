//! `treedb import` of JSON arrays and of tables, and `treedb check` by several threads.

use super::{Bench, numbers, treedb, treedb_reading};

#[test]
fn an_array_of_documents_is_imported_like_lines() {
    let bench = Bench::new();
    let lines = numbers(0..2500);
    let array = format!("[\n{}]\n", lines.trim_end().replace('\n', ",\n"));
    let file = bench.file("in.json", &array);
    let done = treedb(&["import", "a.b", &file, "--dir", &bench.dir, "--batch", "700"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.err.contains("imported 2,500 documents"), "{done:?}");
    assert_eq!(bench.find(&["--limit", "1", "--skip", "2499"]), [r#"{"_id":2499,"half":1249.5}"#]);
    // Lines are found out too, whatever the name.
    let done = treedb_reading(&["import", "a.c", "-", "--dir", &bench.dir], " [{\"_id\": 1}]");
    assert_eq!(done.status, Some(0), "{done:?}");
    let done = treedb_reading(&["import", "a.c", "-", "--dir", &bench.dir], "{\"_id\": 2}\n");
    assert_eq!(done.status, Some(0), "{done:?}");
}

#[test]
fn a_bad_element_of_an_array_stops_the_import_with_its_line_or_is_skipped() {
    let bench = Bench::new();
    let file = bench.file("in.json", "[{\"_id\": 1},\n{\"_id\": 1},\n{\"_id\": \n x},\n{\"_id\": 2}]");
    let done = treedb(&["import", "a.b", &file, "--dir", &bench.dir, "--on-error", "skip"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    for message in ["line 2: E11000", "line 4: ", "skipped 2 bad lines"] {
        assert!(done.err.contains(message), "{message}: {done:?}");
    }
    assert_eq!(bench.find(&[]), [r#"{"_id":1}"#, r#"{"_id":2}"#]);
    let cut = bench.file("cut.json", "[{\"_id\": 3},\n{\"_id\": 4}");
    let done = treedb(&["import", "a.b", &cut, "--dir", &bench.dir]);
    assert!(
        done.status == Some(1) && done.err.contains("line 2: the file ends before the array does"),
        "{done:?}"
    );
    assert_eq!(bench.find(&[]).len(), 4, "what was before the end is there");
}

#[test]
fn a_header_whose_dots_lead_deeper_than_documents_can_is_refused() {
    let bench = Bench::new();
    for parts in [101, 100_001] {
        let name = vec!["a"; parts].join(".");
        let csv = bench.file("in.csv", &format!("{name}\n1\n"));
        let done = treedb(&["import", "a.b", &csv, "--dir", &bench.dir]);
        assert!(
            done.status == Some(1)
                && done.err.contains("line 1: ")
                && done.err.contains("more than 100 parts"),
            "{parts}: {done:?}"
        );
        assert!(done.err.len() < 500, "{}", done.err.len());
    }
    let done = treedb_reading(
        &["import", "a.b", "-", "--type", "csv", "--fields", &vec!["a"; 1000].join("."), "--dir", &bench.dir],
        "1\n",
    );
    assert!(done.status == Some(2) && done.err.contains("more than 100 parts"), "{:?}", done.status);
    let csv = bench.file("in.csv", &format!("{}\n1\n", vec!["a"; 99].join(".")));
    assert_eq!(treedb(&["import", "a.b", &csv, "--dir", &bench.dir]).status, Some(0));
}

#[test]
fn rows_of_a_table_are_imported_with_the_types_that_are_given() {
    let bench = Bench::new();
    let csv = bench.file("in.csv", "_id,name,at.city,seen,zip\n1,\"a, b\",Rome,2026-01-02,01\n2,c,,,\n");
    let done = treedb(&["import", "a.b", &csv, "--types", "seen:date,zip:string", "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert_eq!(
        bench.find(&[]),
        [
            r#"{"_id":1,"name":"a, b","at":{"city":"Rome"},"seen":{"$date":"2026-01-02T00:00:00Z"},"zip":"01"}"#,
            r#"{"_id":2,"name":"c","at":{"city":""},"zip":""}"#,
        ]
    );
    let tsv = "3\tx\n4\ty\nbad\tz\n5\n";
    let args = ["import", "a.b", "-", "--type", "tsv", "--fields", "_id:int,name", "--dir", &bench.dir];
    let done = treedb_reading(&[&args[..], &["--on-error", "skip"]].concat(), tsv);
    assert_eq!(done.status, Some(0), "{done:?}");
    for message in
        ["line 3: _id: \"bad\" is not an int", "line 4: 1 cells, but there are 2 fields", "imported 2 "]
    {
        assert!(done.err.contains(message), "{message}: {done:?}");
    }
    assert_eq!(bench.find(&["--skip", "2"]), [r#"{"_id":3,"name":"x"}"#, r#"{"_id":4,"name":"y"}"#]);
    for (flags, status, message) in [
        (&["--fields", "a,a.b"][..], 1, "one is within the other"),
        (&["--fields", "a:int", "--types", "a:int"], 2, "cannot be used with"),
        (&["--types", "nosuch:int"], 1, "the header has no field \"nosuch\""),
        (&["--type", "json", "--ignore-blanks"], 1, "are for --type csv and tsv"),
    ] {
        let done = treedb(&[&["import", "a.c", &csv, "--dir", &bench.dir], flags].concat());
        assert!(done.status == Some(status) && done.err.contains(message), "{message}: {done:?}");
    }
}

#[test]
fn an_export_of_a_collection_that_does_not_exist_is_an_error() {
    let bench = Bench::new();
    let file = bench.file("in.jsonl", &numbers(0..1));
    assert_eq!(treedb(&["import", "a.b", &file, "--dir", &bench.dir]).status, Some(0));
    let to = bench.temp.path().join("out.jsonl");
    let done = treedb(&["export", "a.c", to.to_str().unwrap(), "--dir", &bench.dir]);
    assert!(done.status == Some(1) && done.err.contains("there is no collection a.c"), "{done:?}");
    assert!(!to.exists());
    let server = super::Server::start(bench.dir.as_ref());
    let done = treedb(&["export", "a.c", "--native", &server.1]);
    assert!(done.status == Some(1) && done.err.contains("there is no collection a.c"), "{done:?}");
    assert_eq!(treedb(&["export", "a.b", "--native", &server.1]).out.lines().count(), 1);
}

#[test]
fn a_check_by_many_threads_finds_what_one_finds() {
    let bench = Bench::new();
    let line = |n: u32| {
        format!(
            "{{\"_id\": {n}, \"half\": {}, \"tags\": [{}, \"t{}\"], \"long\": \"{}\"}}\n",
            n / 2,
            n % 7,
            n % 900,
            "x".repeat((n % 3) as usize)
        )
    };
    let file = bench.file("in.jsonl", &(0..70_000).map(line).collect::<String>());
    let specs = [
        "{\"key\": {\"half\": -1}}",
        "{\"key\": {\"tags\": 1, \"long\": 1}}",
        "{\"key\": {\"nothing\": 1}, \"sparse\": true}",
    ];
    let indexes = bench.file("indexes", &specs.join("\n"));
    let done =
        treedb(&["import", "a.b", &file, "--indexes", &indexes, "--batch", "10000", "--dir", &bench.dir]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let check = |threads: &str| {
        let done = treedb(&["check", "--threads", threads, "--dir", &bench.dir]);
        assert_eq!(done.status, Some(0), "{done:?}");
        // Of entries, each counts when its page is checked, and those of documents and indexes again when they are compared.
        let end = done.err.lines().last().unwrap_or_default();
        let counted =
            end.strip_prefix("checked ").and_then(|rest| rest.split_once(" entries in ")).unwrap().0;
        assert!(counted.replace(',', "").parse::<u32>().unwrap() > 2 * (70_000 * 4), "{end}");
        // The last line has the time that it took.
        done.out.lines().filter(|line| !line.starts_with("no damage")).map(str::to_owned).collect::<Vec<_>>()
    };
    let alone = check("1");
    assert!(
        alone[0].contains("70,000 documents") && alone.iter().any(|line| line.contains(": 140,000 entries")),
        "{alone:?}"
    );
    assert_eq!(alone, check("2"));
    assert_eq!(alone, check("7"));
}
