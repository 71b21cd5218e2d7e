//! What a client can do, whatever its path, and some clients at work at once.
//!
//! Clients of all paths are asynchronous here, so that what they do is written once. Those that block do not await anything, and have
//! a thread each; the others are tasks of the [runtime](crate::server::runtime).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench_common::Random;
use bson::{RawDocumentBuf, rawdoc};

use super::members::{Member, Members};
use crate::Result;
use crate::server::{Beginning, Done, Process, nanos, runtime};

/// What documents are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// `_id`.
    Id,
    /// `email`, which has an index.
    Email,
}

impl Key {
    /// The filter for documents with this value.
    pub(super) fn filter(self, value: &str) -> RawDocumentBuf {
        match self {
            Key::Id => rawdoc! { "_id": value },
            Key::Email => rawdoc! { "email": value },
        }
    }

    fn of(self, member: &Member) -> &str {
        match self {
            Key::Id => &member.id,
            Key::Email => &member.email,
        }
    }
}

/// A client of one collection.
pub(super) trait Client: Send + 'static {
    /// Inserts documents with one request, or the like. It is an error if not all of them were inserted, unless nothing answers that.
    fn insert(&mut self, members: &[Member]) -> impl Future<Output = Result<()>> + Send;

    /// Returns when all documents that were inserted are there.
    fn finish(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The document with this key.
    fn find_one(
        &mut self,
        key: Key,
        value: &str,
    ) -> impl Future<Output = Result<Option<RawDocumentBuf>>> + Send;
}

/// Work for clients.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// Each finds documents, one after another, for some time. They are chosen evenly.
    Find {
        /// By which key.
        key: Key,
        /// For how long.
        time: Duration,
        /// Different in each round.
        seed: u64,
    },
    /// Together they insert the first `count` documents, `batch` with a request.
    Load {
        /// How many in all.
        count: usize,
        /// How many at once.
        batch: usize,
    },
}

/// Where clients run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    /// In a thread each: they block.
    Threads,
    /// As tasks of the runtime.
    Tasks,
}

/// Does the work of client `number`, and returns the nanoseconds that each request took. `next` is the first document that no client has
/// inserted.
async fn one<C: Client>(
    mut client: C,
    number: u64,
    members: Members,
    work: Work,
    next: Arc<AtomicUsize>,
) -> Result<Vec<u64>> {
    let mut latencies = Vec::new();
    match work {
        Work::Find { key, time, seed } => {
            let mut numbers = Random::new(seed * 1_000 + number, members.len() as u64);
            let started = Instant::now();
            while started.elapsed() < time {
                let member = &members[numbers.next().unwrap_or(0) as usize];
                let began = Instant::now();
                let found = client.find_one(key, key.of(member)).await?;
                latencies.push(nanos(began));
                member.check(found.as_deref())?;
            }
        }
        Work::Load { count, batch } => loop {
            let first = next.fetch_add(batch, Ordering::Relaxed);
            if first >= count {
                client.finish().await?;
                break;
            }
            let batch = &members[first..(first + batch).min(count)];
            let began = Instant::now();
            client.insert(batch).await?;
            latencies.push(nanos(began));
        },
    }
    Ok(latencies)
}

/// Lets clients, which are connected, work at once. The processor time of `server` is counted.
pub(super) fn together<C: Client>(
    server: Option<&Process>,
    runs: Runs,
    clients: Vec<C>,
    members: &Members,
    work: Work,
) -> Result<Done> {
    let runtime = runtime()?;
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Beginning::now(server)?;
    let each = clients
        .into_iter()
        .zip(0..)
        .map(|(client, number)| one(client, number, Arc::clone(members), work, Arc::clone(&next)));
    let latencies = match runs {
        Runs::Threads => std::thread::scope(|scope| {
            let threads: Vec<_> = each.map(|one| scope.spawn(move || runtime.block_on(one))).collect();
            let done = threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked")?);
            done.collect::<Result<Vec<_>>>()
        })?,
        Runs::Tasks => runtime.block_on(async {
            let tasks: Vec<_> = each.map(tokio::spawn).collect();
            let mut done = Vec::new();
            for task in tasks {
                done.push(task.await??);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(done)
        })?,
    };
    let mut done = begun.done(latencies)?;
    if let Work::Load { count, .. } = work {
        done.ops = count as u64;
    }
    Ok(done)
}
