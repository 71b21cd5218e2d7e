//! Servers behind MongoDB's protocol, and TreeDB's native protocol, under YCSB's workloads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::requests::{self, Measured, measure};
use super::{Scale, number};
use crate::Result;
use crate::report::{Goals, Row, progress};
use crate::server::{
    Choice, DRIVER, Done, Length, Process, Protocol, RECORDS, Run, Workload, load, run as run_workload,
};

pub(super) const ABOUT: &str = "YCSB's core workloads: 200,000 records of ten fields of 100 bytes, by 1 and 8 connections, each of which \
    sends a request when it has the reply to the one before. Records are chosen by a zipfian distribution, and in rows called `uniform` \
    all equally often. All write operations are flushed to disk before they are \
    acknowledged. The peer is WiredTiger behind MongoDB's protocol (`secantusd-rs --sync-on-commit`), with the same client, which does as \
    little as a client can: a driver adds the same to both. In rows called `Rust driver` both are asked by MongoDB's driver for Rust, with the options \
    that it has by default, by threads that wait for its answers. `TreeDB, MongoDB's protocol` is the same server as TreeDB, with the same records, through the other \
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

/// Runs `work` on each side in turn, and returns rows that compare throughput, latency and processor time.
fn compare(
    name: &str,
    rounds: u64,
    sides: &[Side<'_>],
    goals: Goals<'_>,
    work: &dyn Fn(&Side<'_>, u64) -> Result<Done>,
) -> Result<Vec<Row>> {
    let sides = sides
        .iter()
        .map(|side| requests::Side { name: side.name, work: Box::new(move |round| work(side, round)) });
    let measured = measure(rounds, 99, &mut sides.collect::<Vec<_>>())?;
    let measured: Vec<&Measured> = measured.iter().collect();
    let at_least_equal: Vec<_> = goals.iter().map(|(peer, _)| (*peer, 1.0)).collect();
    let mut all = requests::throughput(name, DURABLE, &measured, goals);
    all.extend(requests::latency(name, "99th percentile", DURABLE, &measured, &at_least_equal));
    all.extend(requests::server_cpu(name, DURABLE, &measured, &[]));
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

/// The workloads, with how they choose records, in their order: those that insert come last.
fn runs() -> impl Iterator<Item = (Workload, Choice)> {
    Workload::ALL.into_iter().flat_map(|workload| {
        let uniform = matches!(workload, Workload::A | Workload::C).then_some((workload, Choice::Uniform));
        [(workload, Choice::Zipfian)].into_iter().chain(uniform)
    })
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (ours, theirs) = (Process::treedb()?, Process::wired_tiger()?);
    let counters = [AtomicU64::new(0), AtomicU64::new(0)];
    let side = |name, server, protocol, at: usize| Side { name, server, protocol, records: &counters[at] };
    let gateway = [side("TreeDB", &ours, Protocol::Mongo, 0), side(PEER, &theirs, Protocol::Mongo, 1)];
    // One server: two would differ in what has been done to them before, which updates feel.
    let both = [side("TreeDB", &ours, Protocol::Native, 0), side(GATEWAY, &ours, Protocol::Mongo, 0)];
    let driven = DRIVER.map(|driver| [side("TreeDB", &ours, driver, 0), side(PEER, &theirs, driver, 1)]);
    let mut out = Vec::new();

    let records = number("BENCH_RECORDS").unwrap_or_else(|| scale.of(RECORDS));
    for side in &gateway {
        eprintln!("server: {records} records into {}", side.server.mongo);
        load(side.server, side.protocol, 1, 0, records, 1_000)?;
        side.records.store(records, Ordering::Relaxed);
    }
    for threads in [1, 8] {
        let name = format!("YCSB load, {threads} connections");
        if scale.wants(&name) {
            eprintln!("server: {name}");
            let count = scale.of(if threads == 1 { 500 } else { 4_000 });
            let insert = |side: &Side<'_>, _| {
                let first = side.records.fetch_add(count, Ordering::Relaxed);
                load(side.server, side.protocol, threads, first, count, 1)
            };
            let goals = [(PEER, if threads == 1 { 1.3 } else { 4.0 })];
            out.extend(compare(&name, scale.rounds, &gateway, &goals, &insert)?);
            out.extend(compare(&format!("{name}, native"), scale.rounds, &both, &[(GATEWAY, 1.2)], &insert)?);
        }
    }
    let length = match number("BENCH_OPERATIONS") {
        Some(count) => Length::Operations(count),
        None => Length::Time(Duration::from_millis(scale.of(1_500))),
    };
    for (workload, choice) in runs() {
        for threads in [1, 8] {
            let uniform = if choice == Choice::Uniform { ", uniform" } else { "" };
            let name = format!("{}{uniform}, {threads} connections", workload.name());
            if !scale.wants(&name) {
                continue;
            }
            eprintln!("server: {name}");
            let what = Run { workload, choice, threads, length };
            let work =
                |side: &Side<'_>, round| run_workload(side.server, side.protocol, what, side.records, round);
            let goals: Vec<_> = goal(workload, threads).map(|goal| (PEER, goal)).into_iter().collect();
            out.extend(compare(&name, scale.rounds, &gateway, &goals, &work)?);
            let native: &[_] = if workload == Workload::C { &[(GATEWAY, 1.5)] } else { &[] };
            out.extend(compare(&format!("{name}, native"), scale.rounds, &both, native, &work)?);
            if let (Some(driven), Workload::A | Workload::C, Choice::Zipfian) = (&driven, workload, choice) {
                let name = format!("{name}, Rust driver");
                out.extend(compare(&name, scale.rounds, driven, &goals, &work)?);
            }
        }
    }
    Ok(out)
}
