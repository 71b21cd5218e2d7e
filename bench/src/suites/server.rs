//! Servers behind MongoDB's protocol, and TreeDB's native protocol, under YCSB's workloads.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::Scale;
use crate::Result;
use crate::comparison::{Samples, Unit};
use crate::report::{Goals, Row, progress, rows};
use crate::server::{Done, Process, Protocol, RECORDS, Workload, load, run as run_workload};

pub(super) const ABOUT: &str = "YCSB's core workloads: 200,000 records of ten fields of 100 bytes, by 1 and 8 connections, each of which \
    sends a request when it has the reply to the one before. All write operations are flushed to disk before they are \
    acknowledged. The peer is WiredTiger behind MongoDB's protocol (`secantusd-rs --sync-on-commit`), with the same client, which does as \
    little as a client can: a driver adds the same to both. `TreeDB, MongoDB's protocol` is the same server as TreeDB, with the same records, through the other \
    protocol; the native client has prepared its reads and scans, as one would that repeats them. Every record that is read is checked. Processor time is that of the server process, per operation.";

const DURABLE: &str = "flushed at commit";
const PEER: &str = "WiredTiger";
const GATEWAY: &str = "TreeDB, MongoDB's protocol";

/// A server under test, by one protocol.
struct Side<'a> {
    name: &'static str,
    server: &'a Process,
    protocol: Protocol,
    records: &'a AtomicU64,
}

/// What each side measured, a value per round.
#[derive(Default)]
struct Measured {
    per_second: Vec<f64>,
    p99_us: Vec<f64>,
    cpu_us: Vec<f64>,
}

/// Runs `work` on each side in turn, and returns rows that compare throughput, latency and processor time.
fn compare(
    name: &str,
    rounds: u64,
    sides: &[Side<'_>],
    goals: Goals<'_>,
    work: &dyn Fn(&Side<'_>, u64) -> Result<Done>,
) -> Result<Vec<Row>> {
    let mut measured: Vec<Measured> = sides.iter().map(|_| Measured::default()).collect();
    for round in 0..=rounds {
        for i in 0..sides.len() {
            let at = (i + round as usize) % sides.len();
            let side = &sides[at];
            let before = side.server.cpu_nanos()?;
            let done = work(side, round).map_err(|error| format!("{}: {error}", side.name))?;
            let cpu = side.server.cpu_nanos()? - before;
            if round > 0 {
                let ops = done.ops.max(1) as f64;
                measured[at].per_second.push(ops / done.time.as_secs_f64());
                measured[at].p99_us.push(done.p99.as_secs_f64() * 1e6);
                measured[at].cpu_us.push(cpu as f64 / ops / 1e3);
            }
        }
    }
    let samples = |pick: &dyn Fn(&Measured) -> &Vec<f64>| {
        let each = sides.iter().zip(&measured);
        each.map(|(side, measured)| Samples { name: side.name, rounds: pick(measured).clone() }).collect()
    };
    let at_least_equal: Vec<_> = goals.iter().map(|(peer, _)| (*peer, 1.0)).collect();
    let mut all = rows(name, DURABLE, Unit::OpsPerSecond, samples(&|m| &m.per_second), goals);
    all.extend(rows(
        &format!("{name}: 99th percentile"),
        DURABLE,
        Unit::Microseconds,
        samples(&|m| &m.p99_us),
        &at_least_equal,
    ));
    all.extend(rows(
        &format!("{name}: processor time per operation"),
        DURABLE,
        Unit::Microseconds,
        samples(&|m| &m.cpu_us),
        &[],
    ));
    all.iter().for_each(progress);
    Ok(all)
}

/// The ratios to reach: throughput of the gateway over the peer's by 1 and 8 connections.
fn goal(workload: Workload, threads: u64) -> Option<f64> {
    match (workload, threads) {
        (Workload::A, 1) => Some(1.5),
        (Workload::A, _) => Some(3.5),
        (Workload::B, 1) => Some(1.3),
        (Workload::B, _) => Some(2.3),
        (Workload::C, 1) => Some(1.5),
        (Workload::C, _) => Some(2.2),
        (Workload::F, 1) => Some(1.3),
        (Workload::F, _) => Some(3.5),
        (Workload::D | Workload::E, _) => None,
    }
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (ours, theirs) = (Process::treedb()?, Process::wired_tiger()?);
    let counters = [AtomicU64::new(0), AtomicU64::new(0)];
    let side = |name, server, protocol, at: usize| Side { name, server, protocol, records: &counters[at] };
    let gateway = [side("TreeDB", &ours, Protocol::Mongo, 0), side(PEER, &theirs, Protocol::Mongo, 1)];
    // One server: two would differ in what has been done to them before, which updates feel.
    let both = [side("TreeDB", &ours, Protocol::Native, 0), side(GATEWAY, &ours, Protocol::Mongo, 0)];
    let mut out = Vec::new();

    for side in &gateway {
        eprintln!("server: {} records into {}", scale.of(RECORDS), side.server.mongo);
        load(side.server, side.protocol, 1, 0, scale.of(RECORDS), 1_000)?;
        side.records.store(scale.of(RECORDS), std::sync::atomic::Ordering::Relaxed);
    }
    let time = Duration::from_millis(scale.of(1_500));
    for threads in [1, 8] {
        let name = format!("YCSB load, {threads} connections");
        if scale.wants(&name) {
            eprintln!("server: {name}");
            let count = scale.of(if threads == 1 { 500 } else { 4_000 });
            let insert = |side: &Side<'_>, _| {
                let first = side.records.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
                load(side.server, side.protocol, threads, first, count, 1)
            };
            let goals = [(PEER, if threads == 1 { 1.3 } else { 4.0 })];
            out.extend(compare(&name, scale.rounds, &gateway, &goals, &insert)?);
            out.extend(compare(&format!("{name}, native"), scale.rounds, &both, &[(GATEWAY, 1.2)], &insert)?);
        }
    }
    for workload in Workload::ALL {
        for threads in [1, 8] {
            let name = format!("{}, {threads} connections", workload.name());
            if !scale.wants(&name) {
                continue;
            }
            eprintln!("server: {name}");
            let work = |side: &Side<'_>, round| {
                run_workload(side.server, side.protocol, workload, threads, time, side.records, round)
            };
            let goals: Vec<_> = goal(workload, threads).map(|goal| (PEER, goal)).into_iter().collect();
            out.extend(compare(&name, scale.rounds, &gateway, &goals, &work)?);
            let goals: &[_] = if workload == Workload::C { &[(GATEWAY, 1.5)] } else { &[] };
            out.extend(compare(&format!("{name}, native"), scale.rounds, &both, goals, &work)?);
        }
    }
    Ok(out)
}
