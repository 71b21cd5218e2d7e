//! Many connections to a server, all of which are open before the time begins.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_common::Random;
use bson::rawdoc;

use super::client::{COLLECTION, Client, DATABASE, Protocol};
use super::done::{Beginning, Done, nanos};
use super::process::Process;
use super::record::{check, key, record};
use super::ycsb::{at_once, connect};
use crate::Result;

/// Sends requests for `time` on all of these connections. `request` makes one by the numbers of its connection, outside the time of the
/// request; `send` sends it and looks at its answer.
fn requests<R>(
    server: &Process,
    clients: Vec<Client>,
    time: Duration,
    numbers: impl Fn(u64) -> Random + Sync,
    request: impl Fn(&Client, u64) -> Result<R> + Sync,
    send: impl Fn(&mut Client, R) -> Result<()> + Sync,
) -> Result<Done> {
    let ready = Barrier::new(clients.len());
    let mut begun = Beginning::now(Some(server))?;
    let done_in = at_once(clients, |mut client, i| {
        let mut numbers = numbers(i);
        let mut latencies = Vec::new();
        ready.wait();
        let started = Instant::now();
        while started.elapsed() < time {
            let request = request(&client, numbers.next().unwrap_or(0))?;
            let began = Instant::now();
            send(&mut client, request)?;
            latencies.push(nanos(began));
        }
        Ok((started, latencies))
    })?;
    begun.at = done_in.iter().map(|(started, _)| *started).min().unwrap_or(begun.at);
    begun.done(done_in.into_iter().map(|(_, latencies)| latencies).collect())
}

/// Reads records, chosen evenly.
///
/// # Errors
/// The server's, or a record that is not as it must be.
pub(crate) fn reads(server: &Process, threads: u64, time: Duration, records: u64, seed: u64) -> Result<Done> {
    requests(
        server,
        connect(server, Protocol::Mongo, threads)?,
        time,
        |i| Random::new(seed * 1_000_000 + i, records),
        |_, n| Ok((n, key(n))),
        |client, (n, key)| client.read(&key, |found| check(found, Some(n))),
    )
}

/// Inserts records, one with a request. `records` is how many there are.
///
/// # Errors
/// The server's.
pub(crate) fn inserts(
    server: &Process,
    protocol: Protocol,
    threads: u64,
    time: Duration,
    records: &AtomicU64,
) -> Result<Done> {
    requests(
        server,
        connect(server, protocol, threads)?,
        time,
        |i| Random::new(i, 1),
        |client, _| record(records.fetch_add(1, Ordering::Relaxed), client.form()),
        |client, record| client.insert(&[record]),
    )
}

/// How many records there are.
///
/// # Errors
/// The server's.
pub(crate) fn count(server: &Process) -> Result<u64> {
    let reply = server.connect()?.command(&rawdoc! { "count": COLLECTION, "$db": DATABASE })?;
    let n = reply.get("n")?.and_then(|n| n.as_i64().or(n.as_i32().map(i64::from)));
    Ok(n.ok_or("no count")?.try_into()?)
}

/// Opens so many connections, reads a record by each, and keeps them open.
///
/// # Errors
/// As [`reads`].
pub(crate) fn open(server: &Process, count: u64, records: u64) -> Result<Vec<Client>> {
    let mut clients = connect(server, Protocol::Mongo, count)?;
    for (client, n) in clients.iter_mut().zip((0..records).cycle()) {
        client.read(&key(n), |found| check(found, Some(n)))?;
    }
    Ok(clients)
}
