//! One and the same kind of collection, reached by all ways that TreeDB has: what each of them costs.

use std::time::Duration;

use super::Scale;
use super::requests::{Measured, Side, cpu_rows, latency, measure, server_cpu, throughput};
use crate::Result;
use crate::comparison::Samples;
use crate::paths::{Key, Members, Path, PyMongo, Stores, Work, members};
use crate::report::{Row, THE_GOAL, progress};
use crate::server::Done;

pub(super) const ABOUT: &str = "TreeDB compared with itself: the ways to reach a collection. Documents have eight fields, two of them nested, in about 290 \
    bytes of BSON, a unique index on `email` and an index on `city`. Loads insert 100,000 of them into an empty collection, 1,000 with a request. Finds are \
    of one document out of 200,000, chosen evenly, by clients that send a request when they have the reply to the one before. Each \
    document that is found is compared with the one that was inserted, byte by byte, and the documents of a load are counted. Commits are not \
    flushed, and changes are recorded for change streams, in the library as in the server.\n\nTreeDB is the library, in the process of the benchmark. In rows called \
    `native` it is the native protocol with prepared statements, and `plain` that without them; each client is a thread with a connection, except in \
    `async`, where all of them are tasks that share one connection, and `pipelined`, where one client has 32 to 64 requests on their way. `TreeDB, MongoDB's protocol` \
    is a client that does as little as a client can; with `w: 0` it sends its inserts without an answer to each, and asks at the end whether the server has executed them, which is part of the time: \
    its percentiles are those of sending. `Rust driver` is MongoDB's driver for Rust with the options that it has by default, one client for all \
    tasks: `insert_many` and `find_one`, and in `commands` the same commands by `run_raw_command`. PyMongo has one \
    connection and a process of its own. All of them ask one server on the same machine, with whose cores they have to make do. Processor time is that of the server \
    process, per document or find; percentiles are of requests.";

const DURABILITY: &str = "not flushed at commit";
const MEMBERS: u64 = 200_000;
const LOADED: u64 = 100_000;
const BATCH: usize = 1_000;
/// The collection that finds are asked of.
const FILLED: &str = "members";
/// The collection of a load.
const EMPTY: &str = "loaded";
const PIPELINED: &str = "TreeDB, native, pipelined";
const PYMONGO: &str = "TreeDB, PyMongo";

/// Microseconds of the server that an operation may take, by a way.
struct Limit {
    side: &'static str,
    /// The way in the name of the row.
    way: &'static str,
    microseconds: f64,
}

/// So many clients, in the name of a row.
fn by(clients: u64) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

/// How many times the native protocol has to beat MongoDB's: so many by 1 and 8 clients, for which that was set.
fn goal(set: f64, clients: u64) -> f64 {
    if clients <= 8 { set } else { 1.0 }
}

/// A side by a path.
fn side<'a>(path: Path, work: impl Fn(u64) -> Result<Done> + 'a) -> Side<'a> {
    Side { name: path.name(), work: Box::new(work) }
}

/// Those of the sides that have these names, in the order of the names.
fn named<'m>(measured: &'m [Measured], names: &[&str]) -> Vec<&'m Measured> {
    let named = |name: &&str| measured.iter().find(|side| side.per_second.name == *name);
    names.iter().filter_map(named).collect()
}

/// The rows of a workload: all ways compared with the library; those with a server compared by its processor time; the native protocol compared
/// with MongoDB's, which it has to beat so many times; and processor times compared with their limits.
fn compared(name: &str, measured: &[Measured], native_goal: f64, limits: &[Limit]) -> Vec<Row> {
    let all: Vec<&Measured> = measured.iter().collect();
    let mut out = throughput(name, DURABILITY, &all, &[]);
    out.extend(latency(name, "95th percentile", DURABILITY, &all, &[]));
    let native = format!("{name}, native");
    let both = named(measured, &[Path::Statements.name(), Path::Bare.name()]);
    out.extend(throughput(&native, DURABILITY, &both, &[(Path::Bare.name(), native_goal)]));
    out.extend(server_cpu(&native, DURABILITY, &all, &[]));
    for limit in limits {
        let used = named(measured, &[limit.side]).into_iter().filter_map(|side| side.server_cpu.clone());
        let samples = used.chain([Samples::target(limit.microseconds)]).collect();
        out.extend(cpu_rows(&format!("{name}, {}", limit.way), DURABILITY, samples, &[(THE_GOAL, 1.0)]));
    }
    out.iter().for_each(progress);
    out
}

fn loads(scale: Scale, stores: &Stores, members: &Members) -> Result<Vec<Row>> {
    let count = scale.of(LOADED);
    let mut out = Vec::new();
    for (clients, indexed) in [(1, true), (8, true), (16, true), (8, false)] {
        let indexes = if indexed { "two indexes" } else { "no index but that on _id" };
        let name = format!("load, {indexes}, {}", by(clients));
        if !scale.wants(&name) {
            continue;
        }
        eprintln!("access_paths: {name}");
        let load = |path| {
            let work = Work::Load { count: count as usize, batch: BATCH };
            side(path, move |_| {
                stores.create(path, EMPTY, indexed)?;
                let done = stores.run(path, EMPTY, clients, members, work)?;
                let there = stores.count(path, EMPTY)?;
                stores.drop(path, EMPTY)?;
                if there == count {
                    Ok(done)
                } else {
                    Err(format!("{there} documents instead of {count}").into())
                }
            })
        };
        let measured =
            measure(scale.rounds, 95, &mut Path::ALL.iter().copied().map(load).collect::<Vec<_>>())?;
        let limit = Limit { side: Path::Bare.name(), way: "MongoDB's protocol", microseconds: 2.0 };
        out.extend(compared(&name, &measured, goal(1.2, clients), &[limit]));
    }
    Ok(out)
}

fn finds(scale: Scale, stores: &Stores, members: &Members) -> Result<Vec<Row>> {
    let time = Duration::from_millis(scale.of(700));
    let mut pymongo = PyMongo::start(stores.server(), FILLED, members.len())?;
    let mut out = Vec::new();
    for (key, field) in [(Key::Id, "_id"), (Key::Email, "e-mail address")] {
        for clients in [1, 8, 16] {
            let name = format!("find by {field}, {}", by(clients));
            if !scale.wants(&name) {
                continue;
            }
            eprintln!("access_paths: {name}");
            let find = |path| {
                side(path, move |seed| {
                    stores.run(path, FILLED, clients, members, Work::Find { key, time, seed })
                })
            };
            // A find without an answer would be none.
            let paths = Path::ALL.iter().copied().filter(|path| *path != Path::Unacknowledged);
            let mut sides: Vec<Side<'_>> = paths.map(find).collect();
            let mut limits = Vec::new();
            if key == Key::Id && clients == 8 {
                limits.push(Limit { side: Path::Bare.name(), way: "MongoDB's protocol", microseconds: 12.0 });
            }
            if key == Key::Id && clients == 1 {
                let work = move |seed| stores.pipelined(FILLED, members, time, seed);
                sides.push(Side { name: PIPELINED, work: Box::new(work) });
                limits.push(Limit { side: PIPELINED, way: "native, pipelined", microseconds: 4.0 });
                if let Some(pymongo) = &mut pymongo {
                    let work = move |seed| pymongo.finds(stores.server(), time, seed);
                    sides.push(Side { name: PYMONGO, work: Box::new(work) });
                    limits.push(Limit { side: PYMONGO, way: "PyMongo", microseconds: 25.0 });
                }
            }
            let measured = measure(scale.rounds, 95, &mut sides)?;
            out.extend(compared(&name, &measured, goal(1.5, clients), &limits));
        }
    }
    Ok(out)
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let stores = Stores::open()?;
    let members = members(scale.of(MEMBERS));
    let mut out = loads(scale, &stores, &members)?;
    for path in [Path::Library, Path::Bare] {
        stores.create(path, FILLED, true)?;
        let work = Work::Load { count: members.len(), batch: BATCH };
        stores.run(path, FILLED, 1, &members, work)?;
    }
    out.extend(finds(scale, &stores, &members)?);
    Ok(out)
}
