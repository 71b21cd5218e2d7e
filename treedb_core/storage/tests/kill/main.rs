//! A writing process is repeatedly killed with SIGKILL at random times: every commit that was acknowledged as
//! durable or relaxed must be there, and of the others only the newest may be missing.
//!
//! The child process runs this program too. It commits transactions of all durabilities, with savepoints,
//! range deletes, large values, tables that are created and dropped, and concurrent checkpoints; a second
//! thread commits durable transactions. The content of transaction `n` is derived from `n`, so the parent
//! knows each valid state. `TREEDB_KILL_ROUNDS=N` sets the number of rounds.

// Clippy does not treat the helper functions of tests as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use treedb_storage::{Durability, Options, Reads, Store, Table, TableKind, WriteTxn};
use treedb_storage::{Error, Result};
use treedb_testing::Rng;

/// The environment variable that tells a child which directory to write to.
const DIRECTORY: &str = "TREEDB_KILL_DIRECTORY";
/// How long a child may take to open its directory.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

fn options() -> Options {
    let mut options = Options::default();
    // Small, so that every round has several segments and checkpoints.
    options.log_segment_bytes = 256 << 10;
    options.value_segment_bytes = 256 << 10;
    options.checkpoint_log_bytes = 300 << 10;
    options.checkpoint_dead_pages = 100;
    options.pending_bytes = 4000;
    options
}

/// A change in a transaction.
enum Change {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Delete {
        key: Vec<u8>,
    },
    DeleteRange {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// Drops the table `renewed` and creates it with this value.
    Renew {
        value: Vec<u8>,
    },
    /// A change after a savepoint, which is rolled back.
    Undone {
        key: Vec<u8>,
    },
}

/// The changes of transaction `n` and its durability.
fn transaction(n: u64) -> (Vec<Change>, Durability) {
    let mut rng = Rng::new(n);
    let durability =
        [Durability::Durable, Durability::Relaxed, Durability::Relaxed, Durability::None][rng.below(4)];
    let count = 1 + rng.below(8);
    let changes = (0..count).map(|_| change(n, &mut rng)).collect();
    (changes, durability)
}

fn change(n: u64, rng: &mut Rng) -> Change {
    let key = |rng: &mut Rng| format!("key {:04}", rng.below(1500)).into_bytes();
    let value = |rng: &mut Rng, len: usize| (0..len).map(|i| (n as usize + i + rng.below(2)) as u8).collect();
    match rng.below(40) {
        0..24 => {
            let len = rng.below(400);
            Change::Put { key: key(rng), value: value(rng, len) }
        }
        24..27 => {
            let len = 1200 + rng.below(30_000);
            Change::Put { key: key(rng), value: value(rng, len) }
        }
        27..34 => Change::Delete { key: key(rng) },
        34 => {
            let from = rng.below(1500);
            let to = from + rng.below(60);
            Change::DeleteRange {
                from: format!("key {from:04}").into_bytes(),
                to: format!("key {to:04}").into_bytes(),
            }
        }
        35 => Change::Renew { value: value(rng, 700) },
        _ => Change::Undone { key: key(rng) },
    }
}

/// The expected contents of the tables `keys` and `renewed`.
#[derive(Default)]
struct Model {
    done: u64,
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
    renewed: Option<Vec<u8>>,
}

impl Model {
    /// Applies the transactions up to number `upto`.
    fn apply_until(&mut self, upto: u64) {
        for n in self.done + 1..=upto {
            for change in transaction(n).0 {
                match change {
                    Change::Put { key, value } => drop(self.keys.insert(key, value)),
                    Change::Delete { key } => drop(self.keys.remove(&key)),
                    Change::DeleteRange { from, to } => self.keys.retain(|key, _| *key < from || *key >= to),
                    Change::Renew { value } => self.renewed = Some(value),
                    Change::Undone { .. } => {}
                }
            }
        }
        self.done = upto;
    }
}

fn put(txn: &mut WriteTxn, keys: &Table, change: &Change) -> Result<()> {
    match change {
        Change::Put { key, value } => txn.put(keys, key, value),
        Change::Delete { key } => txn.delete(keys, key).map(drop),
        Change::DeleteRange { from, to } => {
            txn.delete_range(keys, (Bound::Included(from), Bound::Excluded(to))).map(drop)
        }
        Change::Renew { value } => {
            txn.drop_table("renewed")?;
            let table = txn.create_table("renewed", TableKind::Rows)?;
            txn.append_row(&table, value).map(drop)
        }
        Change::Undone { key } => {
            let point = txn.savepoint()?;
            txn.put(keys, key, &[0; 3000])?;
            txn.delete_range(keys, (Bound::Excluded(key), Bound::Unbounded))?;
            txn.open_table("undone", TableKind::Ordered)?;
            txn.rollback_to(&point)
        }
    }
}

fn number(read: &dyn Reads, name: &str) -> Result<u64> {
    let Some(table) = read.table(name)? else { return Ok(0) };
    let number = read.get(&table, b"n")?.unwrap_or_default();
    Ok(number.try_into().map_or(0, u64::from_le_bytes))
}

/// Writes until it is killed. Each line that it prints acknowledges a commit: `a N` is printed after
/// transaction N has returned, `b N` after commit N of the second thread.
fn child(dir: &Path) -> Result<()> {
    let store = Store::open_with(dir, options())?;
    let print_line = |what: &str, n: u64| {
        // One write per line, so that a line is either complete or missing.
        let written = std::io::stdout().lock().write_all(format!("\n{what} {n}\n").as_bytes());
        written.map_err(|error| Error::Invalid(error.to_string()))
    };
    let read = store.begin_read()?;
    let (first, second) = (number(&read, "first")?, number(&read, "second")?);
    drop(read);
    print_line("opened-a", first)?;
    print_line("opened-b", second)?;
    std::thread::scope(|scope| {
        scope.spawn(|| -> Result<()> {
            for n in second + 1.. {
                let mut txn = store.begin_write()?;
                let table = txn.open_table("second", TableKind::Ordered)?;
                txn.put(&table, &(n % 500).to_be_bytes(), &n.to_le_bytes())?;
                txn.put(&table, b"n", &n.to_le_bytes())?;
                txn.commit_with(Durability::Durable)?;
                print_line("b", n)?;
            }
            Ok(())
        });
        for n in first + 1.. {
            let (changes, durability) = transaction(n);
            let mut txn = store.begin_write()?;
            let keys = txn.open_table("keys", TableKind::Ordered)?;
            changes.iter().try_for_each(|change| put(&mut txn, &keys, change))?;
            let table = txn.open_table("first", TableKind::Ordered)?;
            txn.put(&table, b"n", &n.to_le_bytes())?;
            txn.commit_with(durability)?;
            if durability != Durability::None {
                print_line("a", n)?;
            }
            if n % 97 == 0 {
                store.checkpoint()?;
                // After a checkpoint everything before it is durable.
                print_line("a", n)?;
            }
        }
        Ok(())
    })
}

/// Not a test by itself: the test below runs it in another process.
#[test]
fn the_child_writes_until_it_is_killed() {
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        panic!("the child ended: {:?}", child(Path::new(&dir)));
    }
}

/// The commits that were acknowledged by the children or found by the parent.
#[derive(Default)]
struct Acknowledged {
    first: u64,
    second: u64,
    acknowledged: u64,
}

impl Acknowledged {
    fn read_line(&mut self, line: &str) {
        let Some((what, n)) = line.split_once(' ') else { return };
        let Ok(n) = n.parse() else { return };
        match what {
            "a" => self.first = self.first.max(n),
            "b" => self.second = self.second.max(n),
            "opened-a" => assert!(n >= self.first, "{} was acknowledged, found {n}", self.first),
            "opened-b" => assert!(n >= self.second, "{} was acknowledged as durable, found {n}", self.second),
            _ => return,
        }
        self.acknowledged += u64::from(what.len() == 1);
    }
}

fn start(dir: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args(["the_child_writes_until_it_is_killed", "--exact", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Starts a child and kills it after it has been writing for `time`.
fn round(dir: &Path, time: Duration, expected: &mut Acknowledged) {
    let mut child = start(dir);
    let (send, receive) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        // An incomplete line acknowledges nothing.
        for line in out.split(b'\n').map_while(std::result::Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut until = Instant::now() + OPEN_TIMEOUT;
    let mut opened = false;
    loop {
        match receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                expected.read_line(&line);
                if !opened && line.starts_with("opened-b") {
                    (opened, until) = (true, Instant::now() + time);
                }
            }
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => panic!("the child ended by itself: {:?}", child.wait()),
        }
        if Instant::now() >= until {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    // The lines that it printed before it was killed.
    receive.iter().for_each(|line| expected.read_line(&line));
    assert!(opened, "the child did not open its directory in {OPEN_TIMEOUT:?}");
}

/// Opens the store and compares it with the state after the last transaction that it contains.
fn compare(dir: &Path, expected: &mut Acknowledged, model: &mut Model) -> Result<()> {
    let store = Store::open_with(dir, options())?;
    store.check()?;
    let read = store.snapshot()?;
    let (first, second) = (number(&read, "first")?, number(&read, "second")?);
    assert!(first >= expected.first && second >= expected.second, "{first} and {second}: commits are lost");
    model.apply_until(first);
    let keys = read.table("keys")?;
    let mut found = BTreeMap::new();
    if let Some(keys) = &keys {
        for entry in read.range(keys, (Bound::Unbounded, Bound::Unbounded))? {
            let (key, value) = entry?;
            found.insert(key, value.to_vec());
        }
    }
    assert!(found == model.keys, "not the state after transaction {first}");
    let renewed = read.table("renewed")?.map(|table| read.row(&table, 1).map(|row| row.map(<[u8]>::to_vec)));
    assert!(renewed.transpose()?.flatten() == model.renewed, "the table that is dropped and created");
    assert!(read.table("undone")?.is_none(), "a table that was rolled back");
    if let Some(table) = read.table("second")? {
        for n in second.saturating_sub(499).max(1)..=second {
            let found = read.get(&table, &(n % 500).to_be_bytes())?;
            assert!(found == Some(&n.to_le_bytes()), "commit {n} of the second thread, of {second}");
        }
    }
    (expected.first, expected.second) = (first, second);
    Ok(())
}

#[test]
fn a_process_killed_while_it_writes_loses_no_acknowledged_commit() {
    if std::env::var_os(DIRECTORY).is_some() {
        return;
    }
    let rounds = std::env::var("TREEDB_KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let (mut expected, mut model) = (Acknowledged::default(), Model::default());
    let mut rng = Rng::new(u64::from(std::process::id()));
    let started = Instant::now();
    let mut compared = 0;
    for n in 0..rounds {
        round(&dir, Duration::from_millis(1 + rng.below(150) as u64), &mut expected);
        // Otherwise the next child recovers the store, and may be killed during recovery.
        if n + 1 == rounds || rng.chance(50) {
            compare(&dir, &mut expected, &mut model).unwrap();
            compared += 1;
        }
    }
    let line = format!(
        "{rounds} rounds of kill -9 in {:.0?}: {} commits acknowledged, {} transactions, {compared} full comparisons, \
         0 violations",
        started.elapsed(),
        expected.acknowledged,
        expected.first + expected.second,
    );
    let _ = writeln!(std::io::stdout().lock(), "\nsummary: kill: {line}");
}
