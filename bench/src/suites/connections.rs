//! Many connections to a server: what they cost in throughput and in memory.

use std::time::Duration;

use super::{MIN_ROUNDS, Scale};
use crate::Result;
use crate::comparison::{Samples, Unit};
use crate::report::{Row, THE_GOAL, progress, rows};
use crate::server::{Process, Protocol, load, open, reads};

pub(super) const ABOUT: &str = "Finds by `_id` through MongoDB's protocol, of 20,000 records of ten fields of 100 bytes, by a client that does \
    as little as a client can, in the same machine. Each connection sends a request when it has the reply to the one before; all are open before \
    the time begins. `TreeDB, 16 connections` is the same server. The peer is WiredTiger behind MongoDB's protocol. Memory is what the resident \
    set of a server that has just started grows by for each connection that has asked for one record and is idle then.";

const DURABILITY: &str = "reads only";
const PEER: &str = "WiredTiger";
const FEW: &str = "TreeDB, 16 connections";
const MANY: u64 = 1_000;
const RECORDS: u64 = 20_000;
/// Bytes that a connection may take.
const MEMORY_GOAL: f64 = 32.0 * 1024.0;

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let mut out = throughput(scale)?;
    out.extend(memory()?);
    out.iter().for_each(progress);
    Ok(out)
}

fn samples(name: &'static str) -> Samples {
    Samples { name, rounds: Vec::new() }
}

fn throughput(scale: Scale) -> Result<Vec<Row>> {
    let (ours, theirs) = (Process::treedb()?, Process::wired_tiger()?);
    for server in [&ours, &theirs] {
        load(server, Protocol::Mongo, 1, 0, RECORDS, 1_000)?;
    }
    let time = Duration::from_millis(scale.of(2_000));
    let sides = [("TreeDB", &ours, MANY), (FEW, &ours, 16), (PEER, &theirs, MANY)];
    let mut per_second = sides.map(|(name, ..)| samples(name));
    let mut p99 = sides.map(|(name, ..)| samples(name));
    for round in 0..=scale.rounds {
        for turn in 0..sides.len() {
            let at = (turn + round as usize) % sides.len();
            let (name, server, count) = sides[at];
            let done =
                reads(server, count, time, RECORDS, round).map_err(|error| format!("{name}: {error}"))?;
            if round > 0 {
                per_second[at].rounds.push(done.ops as f64 / done.time.as_secs_f64());
                p99[at].rounds.push(done.percentile(99).as_secs_f64() * 1e6);
            }
        }
    }
    let name = format!("find by _id, {MANY} connections");
    let goals = [(FEW, 0.8), (PEER, 1.0)];
    let mut out = rows(&name, DURABILITY, Unit::OpsPerSecond, per_second.into(), &goals);
    out.extend(rows(&format!("{name}: 99th percentile"), DURABILITY, Unit::Microseconds, p99.into(), &[]));
    Ok(out)
}

fn memory() -> Result<Vec<Row>> {
    let mut all = vec![samples("TreeDB"), samples(PEER)];
    for _ in 0..MIN_ROUNDS {
        for (samples, start) in all.iter_mut().zip([Process::treedb, Process::wired_tiger]) {
            let server = start()?;
            // As many records as have been read when the connections are counted.
            load(&server, Protocol::Mongo, 1, 0, 16, 16)?;
            let warm = open(&server, 16, 16)?;
            let before = server.resident_bytes()?;
            let many = open(&server, MANY, 16)?;
            // Until those that have nothing to do have given back what they can.
            std::thread::sleep(Duration::from_secs(1));
            let grown = server.resident_bytes()?.saturating_sub(before);
            samples.rounds.push(grown as f64 / MANY as f64);
            drop((warm, many));
        }
    }
    all.push(Samples::target(MEMORY_GOAL));
    Ok(rows("memory of an idle connection", DURABILITY, Unit::Bytes, all, &[(THE_GOAL, 1.0)]))
}
