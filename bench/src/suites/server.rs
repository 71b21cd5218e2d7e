//! Servers behind MongoDB's protocol, and TreeDB's native protocol, under YCSB's workloads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::requests::{self, measure};
use super::{MIN_ROUNDS, Measured, Scale, number};
use crate::Result;
use crate::report::{Row, progress};
use crate::server::{
    Choice, DRIVER, Done, Length, Process, Protocol, RECORDS, Run, Setup, Workload, inserts, load,
    run as run_workload,
};

pub(super) const ABOUT: &str = "YCSB's core workloads: 200,000 records of ten fields of 100 bytes, by 1, 8 and 16 connections, each of which \
    sends a request when it has the reply to the one before. Records are chosen by a zipfian distribution, and in rows called `uniform` \
    all equally often. Loads insert one record with a request. The peer is WiredTiger behind MongoDB's protocol (`secantusd-rs --sync-on-commit`), with the same \
    client, which does as little as a client can: a driver adds the same to both. In rows called `Rust driver` both are asked by MongoDB's driver for Rust, with the options \
    that it has by default, by threads that wait for its answers. `TreeDB, MongoDB's protocol` is the same server as TreeDB, with the same records, through the other \
    protocol; the native client has prepared its statements, as one would that repeats them, and each turn of either begins after a checkpoint, so that none has more of these than the other (what is compared with WiredTiger next begins with that checkpoint behind it). Every record that is read is checked. Processor time is that of the server process, \
    per operation.\n\nAll write operations are flushed to disk before they are acknowledged, except in rows called `relaxed`: there TreeDB runs with `--durability relaxed`, and \
    WiredTiger without `--sync-on-commit`. Both servers are standalone, so that the driver does not number its writes, except in rows called `retryable`: there each is the only member of a replica \
    set, the driver's writes are such that they can be retried, and a server keeps a record of each.\n\nThe peer answers a scan by reading, and sorting, all records from the first one that is asked for on to the end of the collection, \
    and keeps 1 to 100 of them: that takes about a second. So its rows of workload E do not compare speeds. They are in the table, but in no picture, median, count of comparisons or \
    extreme, and there are none by 16 connections.\n\nIn rows with zipfian choices by 1 and 8 connections a side works for a second in each of 7 rounds; in all others, and under workload E, \
    for .7 seconds in each of 5 rounds. Operations that have begun by then are finished, which for the peer's scans by 8 connections takes about ten seconds.";

const DURABLE: &str = "flushed at commit";
const RELAXED: &str = "not flushed at commit";
const PEER: &str = "WiredTiger";
const GATEWAY: &str = "TreeDB, MongoDB's protocol";

/// A server under test, by one protocol.
struct Side<'a> {
    name: &'static str,
    server: &'a Process,
    protocol: Protocol,
    records: &'a AtomicU64,
    /// Whether each of its turns begins after a checkpoint.
    after_checkpoint: bool,
}

/// TreeDB's server and the peer's, set up alike and with the same records.
struct Servers {
    ours: Process,
    theirs: Process,
    /// How many records each of them has.
    records: [AtomicU64; 2],
    durability: &'static str,
}

impl Servers {
    /// Starts both, and inserts the records.
    fn start(setup: Setup, scale: Scale) -> Result<Servers> {
        let servers = Servers {
            ours: Process::treedb(setup)?,
            theirs: Process::wired_tiger(setup)?,
            records: [AtomicU64::new(0), AtomicU64::new(0)],
            durability: if setup == Setup::Relaxed { RELAXED } else { DURABLE },
        };
        let records = number("BENCH_RECORDS").unwrap_or_else(|| scale.of(RECORDS));
        for side in servers.by(Protocol::Mongo) {
            if side.server.is_member()? != (setup == Setup::ReplicaSet) {
                return Err(format!("{} is not what drivers were to see", side.name).into());
            }
            eprintln!("server: {records} records into {}", side.server.mongo);
            load(side.server, side.protocol, 1, 0, records, 1_000)?;
            side.records.store(records, Ordering::Relaxed);
        }
        Ok(servers)
    }

    /// TreeDB and the peer by a protocol that both have.
    fn by(&self, protocol: Protocol) -> [Side<'_>; 2] {
        let side = |name, server, records| Side { name, server, protocol, records, after_checkpoint: false };
        [side("TreeDB", &self.ours, &self.records[0]), side(PEER, &self.theirs, &self.records[1])]
    }

    /// TreeDB by its protocol and by MongoDB's. It is one server: two would differ in what has been done to them before, which updates feel. A
    /// checkpoint is made before each turn: else the one that falls due every few turns, when there is enough in the log, would be in the turns of
    /// one side again and again, since these come at regular times too.
    fn by_both(&self) -> [Side<'_>; 2] {
        let (server, records) = (&self.ours, &self.records[0]);
        let side = |name, protocol| Side { name, server, protocol, records, after_checkpoint: true };
        [side("TreeDB", Protocol::Native), side(GATEWAY, Protocol::Mongo)]
    }
}

/// What the sides are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Run(Workload),
    /// Inserts of a record each.
    Load,
}

/// In which way they are asked.
#[derive(Debug, Clone, Copy)]
struct Variant {
    /// What the names of its rows end with.
    called: &'static str,
    /// By what the peer is asked.
    protocol: Protocol,
    choice: Choice,
    connections: &'static [u64],
    /// Whether the goals that were set are for it. All others are to be at least equal.
    goals: bool,
}

/// A row: a task in one way, by so many connections.
#[derive(Debug, Clone, Copy)]
struct Case {
    task: Task,
    variant: Variant,
    connections: u64,
}

impl Case {
    fn name(&self) -> String {
        let task = match self.task {
            Task::Run(workload) => workload.name(self.variant.choice),
            Task::Load => "YCSB load".to_owned(),
        };
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{many} connections"),
        };
        format!("{task}, {connections}{}", self.variant.called)
    }

    fn is_scan(&self) -> bool {
        self.task == Task::Run(Workload::E)
    }

    /// Whether it is measured more thoroughly than others.
    fn is_core(&self) -> bool {
        let Variant { called, choice, .. } = self.variant;
        called.is_empty() && choice == Choice::Zipfian && self.connections <= 8 && !self.is_scan()
    }

    /// The ratio to reach of the gateway's throughput to the peer's.
    fn goal(&self) -> f64 {
        match (self.task, self.connections) {
            _ if !self.variant.goals => 1.0,
            (Task::Run(Workload::A | Workload::C), 1) => 1.5,
            (Task::Run(Workload::B | Workload::F) | Task::Load, 1) => 1.3,
            (Task::Run(Workload::A | Workload::F), 8) => 3.5,
            (Task::Run(Workload::B), 8) => 2.3,
            (Task::Run(Workload::C), 8) => 2.2,
            (Task::Load, 8) => 4.0,
            _ => 1.0,
        }
    }

    /// The ratio to reach of the native protocol's throughput to the gateway's.
    fn native_goal(&self) -> f64 {
        match self.task {
            _ if !self.variant.goals || self.connections > 8 => 1.0,
            Task::Run(Workload::C) => 1.5,
            Task::Load => 1.2,
            Task::Run(_) => 1.0,
        }
    }

    /// Does its work on a side.
    fn work(&self, scale: Scale, side: &Side<'_>, round: u64) -> Result<Done> {
        let Side { server, protocol, records, after_checkpoint, .. } = *side;
        if after_checkpoint {
            server.checkpoint()?;
        }
        let (threads, choice) = (self.connections, self.variant.choice);
        let time = Duration::from_millis(scale.of(if self.is_core() { 1_000 } else { 700 }));
        match self.task {
            Task::Load => inserts(server, protocol, threads, time, records),
            Task::Run(workload) => {
                let length = number("BENCH_OPERATIONS").map_or(Length::Time(time), Length::Operations);
                run_workload(server, protocol, Run { workload, choice, threads, length }, records, round)
            }
        }
    }

    /// Lets sides do it in turns, and returns rows that compare their throughput, latency and processor time. There are none if they are not
    /// wanted.
    fn compare(&self, scale: Scale, what: &Comparison<'_>) -> Result<Vec<Row>> {
        let Comparison { name, durability, sides, goal } = what;
        let durability = *durability;
        if !scale.wants(name) {
            return Ok(Vec::new());
        }
        eprintln!("server: {name}");
        let rounds = if self.is_core() { scale.rounds } else { scale.rounds.min(MIN_ROUNDS) };
        let working = sides.iter().map(|side| requests::Side {
            name: side.name,
            work: Box::new(move |round| self.work(scale, side, round)),
        });
        let measured = measure(rounds, 99, &mut working.collect::<Vec<_>>())?;
        let measured: Vec<&requests::Measured> = measured.iter().collect();
        let other = sides[1].name;
        let mut rows = requests::throughput(name, durability, &measured, &[(other, *goal)]);
        rows.extend(requests::latency(name, "99th percentile", durability, &measured, &[(other, 1.0)]));
        rows.extend(requests::server_cpu(name, durability, &measured, &[]));
        for row in &mut rows {
            row.aside = self.is_scan() && other == PEER;
            progress(row);
        }
        Ok(rows)
    }

    /// TreeDB compared with the peer, and its protocols with each other unless a driver is used.
    fn rows(&self, scale: Scale, servers: &Servers) -> Result<Vec<Row>> {
        let durability = servers.durability;
        let mut rows = Vec::new();
        if !self.is_scan() || self.connections <= 8 {
            let sides = servers.by(self.variant.protocol);
            let peer = Comparison { name: self.name(), durability, sides, goal: self.goal() };
            rows.extend(self.compare(scale, &peer)?);
        }
        if self.variant.protocol == Protocol::Mongo {
            let name = format!("{}, native", self.name());
            let native = Comparison { name, durability, sides: servers.by_both(), goal: self.native_goal() };
            rows.extend(self.compare(scale, &native)?);
        }
        Ok(rows)
    }
}

/// Two sides, and the ratio of their throughput to reach.
struct Comparison<'a> {
    name: String,
    durability: &'static str,
    sides: [Side<'a>; 2],
    goal: f64,
}

/// Tasks, each of them in all of these ways.
fn cases(tasks: &[Task], variants: &[Variant]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &task in tasks {
        // A load does not choose records.
        let variants =
            variants.iter().filter(|variant| task != Task::Load || variant.choice == Choice::Zipfian);
        for &variant in variants {
            let case = |&connections: &u64| Case { task, variant, connections };
            cases.extend(variant.connections.iter().map(case));
        }
    }
    cases
}

/// What is measured, with servers of its own for each setup.
fn plan() -> [(Setup, Vec<Case>); 3] {
    let plain = Variant {
        called: "",
        protocol: Protocol::Mongo,
        choice: Choice::Zipfian,
        connections: &[1, 8, 16],
        goals: true,
    };
    let uniform = Variant { choice: Choice::Uniform, connections: &[1, 8], ..plain };
    let driver =
        DRIVER.map(|protocol| Variant { called: ", Rust driver", protocol, connections: &[1, 8], ..plain });
    let retryable =
        driver.map(|driver| Variant { called: ", Rust driver, retryable", goals: false, ..driver });
    let relaxed = Variant { called: ", relaxed", goals: false, ..plain };

    let durable: Vec<Variant> = [plain, uniform].into_iter().chain(driver).collect();
    // In the order in which YCSB runs them over one set of records, but loads come last: they add the most records.
    let all: Vec<Task> = Workload::ALL.map(Task::Run).into_iter().chain([Task::Load]).collect();
    let writes = [Task::Run(Workload::A), Task::Run(Workload::F), Task::Load];
    [
        (Setup::Durable, cases(&all, &durable)),
        (Setup::ReplicaSet, cases(&writes, retryable.as_slice())),
        (Setup::Relaxed, cases(&[Task::Run(Workload::A), Task::Load], &[relaxed])),
    ]
}

pub(super) fn run(scale: Scale) -> Result<Measured> {
    let peers = vec![(PEER, Process::wired_tiger_version()?)];
    let mut rows = Vec::new();
    for (setup, cases) in plan() {
        let wanted = |case: &Case| {
            let name = case.name();
            scale.wants(&name) || scale.wants(&format!("{name}, native"))
        };
        if !cases.iter().any(wanted) {
            continue;
        }
        let servers = Servers::start(setup, scale)?;
        for case in cases {
            rows.extend(case.rows(scale, &servers)?);
        }
    }
    Ok(Measured { rows, peers, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: Vec<String> = plan().iter().flat_map(|(_, cases)| cases.iter().map(Case::name)).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for name in [
            "YCSB E, scans, 5 % inserts, uniform, 8 connections",
            "YCSB D, latest, 5 % inserts, 16 connections",
            "YCSB load, 1 connection, relaxed",
        ] {
            assert!(names.iter().any(|there| there == name), "{name}");
        }
        assert!(!names.iter().any(|name| name.starts_with("YCSB load") && name.contains("uniform")));
    }

    #[test]
    fn goals_that_were_set_are_for_durable_writes_and_every_row_has_one() {
        let [(_, durable), _, (_, relaxed)] = plan();
        let goal = |cases: &[Case], name: &str| {
            let case = cases.iter().find(|case| case.name() == name).unwrap();
            (case.goal(), case.native_goal())
        };
        assert_eq!(goal(&durable, "YCSB load, 8 connections"), (4.0, 1.2));
        assert_eq!(goal(&durable, "YCSB C, reads, uniform, 1 connection"), (1.5, 1.5));
        assert_eq!(goal(&durable, "YCSB C, reads, 16 connections"), (1.0, 1.0));
        assert_eq!(goal(&relaxed, "YCSB load, 8 connections, relaxed"), (1.0, 1.0));
    }
}
