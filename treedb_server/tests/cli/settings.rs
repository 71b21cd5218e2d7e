//! `treedb serve`: settings from a file, the environment and flags.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::{Bench, Done, done, treedb};

/// Runs `treedb serve` with settings in the environment.
fn serve(environment: &[(&str, &str)], args: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treedb"));
    command.arg("serve").args(args).envs(environment.iter().copied()).stdin(Stdio::null());
    done(command.output().unwrap())
}

#[test]
fn a_server_takes_its_settings_from_a_file_the_environment_and_flags() {
    let bench = Bench::new();
    let toml = format!(
        "dir = {:?}\nmongo = \"127.0.0.1:1\"\nreplica_set = \"fromfile\"\nlog_level = \"info\"\n",
        bench.dir
    );
    let file = bench.file("treedb.toml", &toml);
    let mut child = Command::new(env!("CARGO_BIN_EXE_treedb"))
        .args(["serve", "--mongo", "127.0.0.1:0"])
        .envs([
            ("TREEDB_CONFIG", file.as_str()),
            ("TREEDB_NATIVE", "127.0.0.1:0"),
            ("TREEDB_LOG_LEVEL", "warn"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let doors: Vec<String> = lines.by_ref().take(2).collect();
    let term = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(term, rustix::process::Signal::TERM).unwrap();
    let stopped = done(child.wait_with_output().unwrap());
    assert!(
        doors[0].starts_with("listening mongo 127.0.0.1:") && doors[1].starts_with("listening native"),
        "{doors:?}"
    );
    assert_eq!((stopped.status, stopped.err.as_str()), (Some(0), ""), "{stopped:?}");
    assert!(std::path::Path::new(&bench.dir).join("pages").is_file());
}

#[test]
fn a_configuration_is_checked_without_a_server() {
    let bench = Bench::new();
    let good = bench.file("good.toml", "dir = \"/nowhere\"\nmax_connections = 5\n");
    let done = serve(&[], &["--config", &good, "--check-config"]);
    assert_eq!(
        (done.status, done.out.as_str(), done.err.as_str()),
        (Some(0), "the configuration is valid\n", "")
    );
    let bad = bench.file("bad.toml", "dir = \"/nowhere\"\n\nmax_conections = 5\n");
    let password = bench.file("password", "secret\n");
    let certificate = bench.file("certificate", "no certificate");
    let missing = bench.temp.path().join("none").to_str().unwrap().to_owned();
    let dir = ["--dir", "/nowhere", "--check-config"];
    for (environment, args, message) in [
        (
            &[][..],
            &["--config", &bad, "--check-config"][..],
            "bad.toml:3: max_conections is not a setting; did you mean max_connections?",
        ),
        (&[], &["--config", &missing, "--check-config"], "none: No such file"),
        (&[("TREEDB_STALL_SECONDS", "5MiB")], &dir, "TREEDB_STALL_SECONDS: \"MiB\" is a unit of size"),
        (&[("TREEDB_MAX_CONNECTION", "5")], &dir, "did you mean TREEDB_MAX_CONNECTIONS?"),
        (&[("TREEDB_MONGO", "0.0.0.0:0")], &dir, "add --auth"),
        (&[("TREEDB_KEY_FILE", &missing)], &dir, "none: No such file"),
        (&[("TREEDB_ROOT_USER", "ann")], &dir, "TREEDB_ROOT_USER: root_user needs root_password_file too"),
        (&[("TREEDB_TLS_CERTIFICATE", &certificate), ("TREEDB_TLS_KEY", &certificate)], &dir, "certificate"),
        (&[], &["--check-config"], "dir is not set: give --dir, TREEDB_DIR, or a line in a file"),
    ] {
        let done = serve(environment, args);
        assert_eq!((done.status, done.out.as_str()), (Some(1), ""), "{done:?}");
        assert!(done.err.starts_with("treedb: ") && done.err.contains(message), "{message}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
    }
    let user = [("TREEDB_ROOT_USER", "ann"), ("TREEDB_ROOT_PASSWORD_FILE", password.as_str())];
    assert_eq!(serve(&user, &dir).status, Some(0));
}

#[test]
fn the_settings_in_effect_are_printed_with_their_origin_and_without_secrets() {
    let bench = Bench::new();
    let password = bench.file("password", "hunter2\n");
    let key = bench.file("key", &"ab".repeat(32));
    let file = bench.file("t.toml", &format!("dir = \"d\"\nkey_file = {key:?}\nroot_user = \"ann\"\n"));
    let environment = [("TREEDB_ROOT_PASSWORD_FILE", password.as_str())];
    let done = serve(&environment, &["--config", &file, "--max-connections", "7", "--print-config"]);
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{done:?}");
    for line in [
        "max_connections = 7  # --max-connections".to_owned(),
        format!("root_password_file = {password:?}  # TREEDB_ROOT_PASSWORD_FILE"),
        format!("root_user = \"ann\"  # {file}:3"),
        "mongo = \"127.0.0.1:27017\"  # default".to_owned(),
    ] {
        assert!(done.out.lines().any(|printed| printed == line), "{line} in {}", done.out);
    }
    assert!(!done.out.contains("hunter2") && !done.out.contains("abab"), "{}", done.out);
}

#[test]
fn a_bad_flag_is_told_with_what_was_expected() {
    for (flags, message) in [
        (["--max-inflight-bytes", "5"], "must be at least 48000000, the size of the largest message"),
        (["--durability", "strong"], "possible values: durable, relaxed, none"),
        (["--cache-bytes", "5m"], "is a unit of time"),
        (["--max-conections", "5"], "--max-connections"),
        (["--allow-unauthenticated", "clients,all"], "possible values: clients, admin"),
        (["--auth=yes", "--check-config"], "true, false"),
        (["--print-config", "--check-config"], "cannot be used with"),
    ] {
        let done = treedb(&[&["serve", "--dir", "/nowhere"], &flags[..]].concat());
        assert_eq!(done.status, Some(2), "{done:?}");
        assert!(done.err.contains(message), "{message}: {done:?}");
    }
}
