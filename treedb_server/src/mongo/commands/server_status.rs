//! `serverStatus`: the counters that shells and monitoring tools show. `/metrics` has all counters.

use bson::{DateTime, RawDocumentBuf, rawdoc};

use super::Result;
use super::build_info::MONGODB_VERSION;
use super::host_info::hostname;
use super::request::Request;
use crate::metrics::Door;

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
    let current: i64 =
        ["mongo", "native"].map(|door| metrics.connections.get_or_create(&Door { door }).get()).iter().sum();
    let limit = i64::try_from(context.limits.connections).unwrap_or(i64::MAX);
    let bytes =
        |family: &prometheus_client::metrics::family::Family<
            Door,
            prometheus_client::metrics::counter::Counter,
        >| { i64::try_from(family.get_or_create(&Door { door: "mongo" }).get()).unwrap_or(i64::MAX) };
    let uptime = context.started.elapsed();
    let all = rawdoc! {
        "host": hostname(),
        "version": MONGODB_VERSION,
        "process": "treedb",
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs_f64().floor(),
        "uptimeMillis": i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "localTime": DateTime::now(),
        "connections": {
            "current": current,
            "available": limit.saturating_sub(current),
            "totalCreated": i64::from(context.connections_so_far()),
        },
        "network": { "bytesIn": bytes(&metrics.received), "bytesOut": bytes(&metrics.sent) },
        "metrics": { "cursor": { "open": { "total": metrics.cursors.get() } } },
        "transactions": { "currentOpen": i64::try_from(context.sessions.open()).unwrap_or(i64::MAX) },
        "storageEngine": { "name": "treedb", "persistent": true, "supportsCommittedReads": true },
        "treedb": { "version": env!("CARGO_PKG_VERSION"), "diskBytes": disk_bytes(request)? },
    };
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
