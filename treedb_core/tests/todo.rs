//! Runs the example `todo` as a user does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;

/// Cargo builds examples in a folder next to that of this test.
fn program() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    deps.parent().unwrap().parent().unwrap().join("examples").join("todo")
}

#[test]
fn tasks_are_added_listed_counted_and_completed() {
    let dir = tempfile::tempdir().unwrap();
    let todo = |args: &[&str]| {
        let done = Command::new(program()).arg(dir.path()).args(args).output().unwrap();
        let answer =
            String::from_utf8(if done.status.success() { done.stdout } else { done.stderr }).unwrap();
        answer.trim_end().to_owned()
    };
    assert_eq!(todo(&["add", "Buy milk", "--tag", "home"]), "added 1");
    assert_eq!(
        todo(&["add", "Write to Ann", "--due", "2026-12-24", "--tag", "home", "--tag", "mail"]),
        "added 2"
    );
    assert_eq!(todo(&["list"]), "  1 Buy milk\n  2 Write to Ann (due 2026-12-24)");
    assert_eq!(todo(&["list", "mail"]), "  2 Write to Ann (due 2026-12-24)");
    assert_eq!(todo(&["tags"]), "  2 home\n  1 mail");
    assert_eq!(todo(&["done", "1"]), "done 1");
    assert_eq!(todo(&["done", "1"]), "there is no open task 1");
    assert_eq!(todo(&["tags"]), "  1 home\n  1 mail");
    assert!(todo(&["done", "x"]).starts_with("usage: todo DIR add"));
}
