//! Many connections to a server: what they cost in throughput and in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::requests::{self, Side, measure};
use super::{MIN_ROUNDS, Measured, Scale};
use crate::Result;
use crate::comparison::{Samples, Unit};
use crate::report::{Row, THE_GOAL, progress, rows};
use crate::server::{Done, Process, Protocol, Setup, count, inserts, load, open, reads};

pub(super) const ABOUT: &str = "Finds by `_id` through MongoDB's protocol, of 20,000 records of ten fields of 100 bytes, and inserts of one such record each, flushed \
    to disk before they are acknowledged, by a client that does as little as a client can, in the same machine. Each connection sends a request when it has the reply \
    to the one before; all are open before the time begins. `TreeDB, 16 connections` is the same server. The peer is WiredTiger behind MongoDB's protocol \
    (`secantusd-rs --sync-on-commit`). Processor time is that of the server process, per request. Memory is what the resident \
    set of a server that has just started grows by for each connection that has asked for one record and is idle then; in the row called `TLS` clients connect through TLS.";

const READS: &str = "reads only";
const DURABLE: &str = "flushed at commit";
const PEER: &str = "WiredTiger";
const FEW: &str = "TreeDB, 16 connections";
const MANY: u64 = 1_000;
const RECORDS: u64 = 20_000;
/// Bytes that a connection may take.
const MEMORY_GOAL: f64 = 32.0 * 1024.0;

/// A server with so many records.
type Filled = (Process, AtomicU64);

pub(super) fn run(scale: Scale) -> Result<Measured> {
    let peers = vec![(PEER, Process::wired_tiger_version()?)];
    let mut rows = throughput(scale)?;
    if scale.wants(MEMORY) {
        rows.extend(memory()?);
    }
    Ok(Measured { rows, peers, ..Measured::default() })
}

fn throughput(scale: Scale) -> Result<Vec<Row>> {
    let (ours, theirs) = (Process::treedb(Setup::Durable)?, Process::wired_tiger(Setup::Durable)?);
    let servers: [Filled; 2] = [(ours, AtomicU64::new(RECORDS)), (theirs, AtomicU64::new(RECORDS))];
    for (server, _) in &servers {
        load(server, Protocol::Mongo, 1, 0, RECORDS, 1_000)?;
    }
    let time = Duration::from_millis(scale.of(2_000));
    let find = |(server, _): &Filled, count, round| reads(server, count, time, RECORDS, round);
    let insert =
        |(server, records): &Filled, count, _: u64| inserts(server, Protocol::Mongo, count, time, records);
    let mut out = compare(scale, "find by _id", READS, &servers, &find)?;
    out.extend(compare(scale, "insert", DURABLE, &servers, &insert)?);
    for (server, records) in &servers {
        let (there, inserted) = (count(server)?, records.load(Ordering::Relaxed));
        if there != inserted {
            return Err(format!("{there} records instead of {inserted}").into());
        }
    }
    Ok(out)
}

/// Rows that compare what 1,000 connections do to TreeDB with what 16 do to it, and with what they do to the peer.
fn compare(
    scale: Scale,
    what: &str,
    durability: &'static str,
    [ours, theirs]: &[Filled; 2],
    work: &dyn Fn(&Filled, u64, u64) -> Result<Done>,
) -> Result<Vec<Row>> {
    let name = format!("{what}, {MANY} connections");
    if !scale.wants(&name) {
        return Ok(Vec::new());
    }
    eprintln!("connections: {name}");
    let sides = [("TreeDB", ours, MANY), (FEW, ours, 16), (PEER, theirs, MANY)];
    let mut sides = sides
        .map(|(name, server, count)| Side { name, work: Box::new(move |round| work(server, count, round)) });
    let measured = measure(scale.rounds, 99, &mut sides)?;
    let measured: Vec<&requests::Measured> = measured.iter().collect();
    let goals = [(FEW, 0.8), (PEER, 1.0)];
    let mut out = requests::throughput(&name, durability, &measured, &goals);
    out.extend(requests::latency(&name, "99th percentile", durability, &measured, &[(PEER, 1.0)]));
    out.extend(requests::server_cpu(&name, durability, &measured, &[]));
    out.iter().for_each(progress);
    Ok(out)
}

const MEMORY: &str = "memory of an idle connection";

/// What each connection that has asked for a record adds to the memory of a server that has just started, in bytes.
fn grown(server: &Process) -> Result<f64> {
    // As many records as have been read when the connections are counted.
    load(server, Protocol::Mongo, 1, 0, 16, 16)?;
    let warm = open(server, 16, 16)?;
    let before = server.resident_bytes()?;
    let many = open(server, MANY, 16)?;
    // Until those that have nothing to do have given back what they can.
    std::thread::sleep(Duration::from_secs(1));
    let grown = server.resident_bytes()?.saturating_sub(before);
    drop((warm, many));
    Ok(grown as f64 / MANY as f64)
}

fn memory() -> Result<Vec<Row>> {
    eprintln!("connections: {MEMORY}");
    let samples = |name| Samples { name, rounds: Vec::new() };
    let (mut plain, mut encrypted) = (vec![samples("TreeDB"), samples(PEER)], vec![samples("TreeDB")]);
    for _ in 0..MIN_ROUNDS {
        plain[0].rounds.push(grown(&Process::treedb(Setup::Durable)?)?);
        plain[1].rounds.push(grown(&Process::wired_tiger(Setup::Durable)?)?);
        encrypted[0].rounds.push(grown(&Process::encrypted_treedb()?)?);
    }
    let mut out = Vec::new();
    for (name, mut samples) in [(MEMORY.to_owned(), plain), (format!("{MEMORY}, TLS"), encrypted)] {
        samples.push(Samples::target(MEMORY_GOAL));
        out.extend(rows(&name, READS, Unit::Bytes, samples, &[(THE_GOAL, 1.0)]));
    }
    out.iter().for_each(progress);
    Ok(out)
}
