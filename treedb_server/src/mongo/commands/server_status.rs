//! `serverStatus`: the counters that shells and monitoring tools show. `/metrics` has all counters.

use bson::raw::cstr;
use bson::{DateTime, RawArrayBuf, RawDocumentBuf, rawdoc};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use super::Result;
use super::build_info::MONGODB_VERSION;
use super::host_info::hostname;
use super::request::Request;
use crate::metrics::Door;
use crate::mongo::topology::Topology;
use crate::operations::signed;

pub(super) fn run(request: &Request<'_>) -> Result {
    // Every other field names a section, which 0 leaves out: `{ serverStatus: 1, network: 0 }`.
    let mut left_out = Vec::new();
    for arg in request.args() {
        let arg = arg?;
        if arg.ignored_or_unknown().is_err() && !arg.bool()? {
            left_out.push(arg.name);
        }
    }
    let context = request.context;
    let metrics = &context.metrics;
    let current = of_both(&metrics.connections);
    let limit = i64::try_from(context.limits.connections).unwrap_or(i64::MAX);
    let bytes = |family: &Family<Door, Counter>| signed(family.get_or_create(&Door { door: "mongo" }).get());
    let open_cursors = of_both(&metrics.cursors);
    let transactions = context.sessions.transactions();
    let uptime = context.started.elapsed();
    let counts = context.operations.counts();
    let (active, readers, writers) = context.operations.active();
    let memory = Memory::read();
    let vectors = context.database.vector_memory_use();
    let mut all = rawdoc! {
        "host": hostname(),
        "version": MONGODB_VERSION,
        "process": "treedb",
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs_f64().floor(),
        "uptimeMillis": i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "uptimeEstimate": i64::try_from(uptime.as_secs()).unwrap_or(i64::MAX),
        "localTime": DateTime::now(),
        // Commands that returned an error are MongoDB's user assertions.
        "asserts": {
            "regular": 0, "warning": 0, "msg": 0, "user": i32::try_from(metrics.failures()).unwrap_or(i32::MAX), "tripwire": 0, "rollovers": 0,
        },
        "connections": {
            "current": current,
            "available": limit.saturating_sub(current),
            "totalCreated": i64::from(context.connections_so_far()),
            "active": active,
        },
        "extra_info": { "note": "fields vary by platform", "page_faults": memory.page_faults },
        // Nothing queues for a global lock: what waits for another writer is among the active.
        "globalLock": {
            "totalTime": i64::try_from(uptime.as_micros()).unwrap_or(i64::MAX),
            "currentQueue": { "total": 0, "readers": 0, "writers": 0 },
            "activeClients": { "total": active, "readers": readers, "writers": writers },
        },
        "logicalSessionRecordCache": { "activeSessionsCount": size(context.sessions.known().len()) },
        "mem": { "bits": 64, "resident": memory.resident >> 20, "virtual": memory.virtual_ >> 20, "supported": memory.known },
        "metrics": {
            "cursor": {
                "open": { "total": open_cursors },
                "timedOut": signed(context.cursors.timed_out()),
            },
            "document": {
                "deleted": counts.deleted,
                "inserted": counts.inserted,
                "returned": signed(context.cursors.returned() + metrics.native.returned.get()),
                "updated": counts.updated,
            },
        },
        "network": {
            "bytesIn": bytes(&metrics.received),
            "bytesOut": bytes(&metrics.sent),
            "numRequests": counts.requests,
        },
        "opLatencies": context.operations.latencies(),
        "opcounters": {
            "insert": counts.insert,
            "query": counts.query,
            "update": counts.update,
            "delete": counts.delete,
            "getmore": counts.getmore,
            "command": counts.command,
        },
        // No other member's writes are applied.
        "opcountersRepl": {
            "insert": 0_i64, "query": 0_i64, "update": 0_i64, "delete": 0_i64, "getmore": 0_i64, "command": 0_i64,
        },
        "storageEngine": { "name": "treedb", "persistent": true, "supportsCommittedReads": true },
        "transactions": {
            "currentOpen": signed(context.sessions.open() as u64),
            "totalStarted": signed(transactions.begun),
            "totalCommitted": signed(transactions.committed),
            "totalAborted": signed(transactions.aborted),
        },
        "treedb": {
            "version": env!("CARGO_PKG_VERSION"),
            "diskBytes": disk_bytes(request)?,
            "vectorMemory": {
                "bytes": signed(vectors.bytes),
                "mappedBytes": signed(vectors.mapped_bytes),
                "buildingBytes": signed(vectors.building_bytes),
                "limitBytes": signed(vectors.limit_bytes),
                "indexes": signed(vectors.images),
                "indexesNotInMemory": signed(vectors.without_image),
            },
        },
    };
    if let Topology::Member(member) = &context.topology {
        let mut hosts = RawArrayBuf::new();
        hosts.push(member.address());
        all.append(
            cstr!("repl"),
            rawdoc! {
                "setName": member.set(), "setVersion": 1, "isWritablePrimary": true, "secondary": false,
                "hosts": hosts, "primary": member.address(), "me": member.address(),
            },
        );
    }
    if left_out.is_empty() {
        return Ok(all);
    }
    let mut reply = RawDocumentBuf::new();
    for section in &all {
        let (name, value) = section?;
        if !left_out.contains(&name.as_str()) {
            reply.append(name, value);
        }
    }
    Ok(reply)
}

/// Bytes of the files in the database's directory.
pub(super) fn disk_bytes(request: &Request<'_>) -> Result<i64> {
    let mut total = 0;
    let mut folders = vec![request.context.dir.clone()];
    while let Some(folder) = folders.pop() {
        // Files may disappear meanwhile: those that cannot be read are not counted.
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => total += meta.len(),
                Err(_) => {}
            }
        }
    }
    Ok(i64::try_from(total).unwrap_or(i64::MAX))
}

/// The sum over both protocols.
fn of_both(gauges: &Family<Door, Gauge>) -> i64 {
    ["mongo", "native"].map(|door| gauges.get_or_create(&Door { door }).get()).iter().sum()
}

fn size(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// What the system says of the process; zeros where it does not.
#[derive(Debug, Default)]
struct Memory {
    known: bool,
    resident: i64,
    virtual_: i64,
    page_faults: i64,
}

impl Memory {
    fn read() -> Memory {
        let Ok(pages) = std::fs::read_to_string("/proc/self/statm") else { return Memory::default() };
        let page = i64::try_from(rustix::param::page_size()).unwrap_or(4096);
        let mut sizes = pages.split_whitespace().map(|pages| pages.parse().unwrap_or(0_i64) * page);
        let (virtual_, resident) = (sizes.next().unwrap_or(0), sizes.next().unwrap_or(0));
        // The name of the program, in parentheses, may have spaces. After it: state, parent, group, session, terminal, its
        // group, flags, minor faults, those of children, major faults.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let page_faults = fields.split_whitespace().nth(9).and_then(|n| n.parse().ok()).unwrap_or(0);
        Memory { known: true, resident, virtual_, page_faults }
    }
}
