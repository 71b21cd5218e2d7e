//! The cost of recording changes: inserts, updates and deletes of documents with two secondary indexes, with and without a change
//! log, interleaved in one process, in thread CPU time; and the cost of reading the log.
//! `cargo run --release -p treedb_collections --example change_log_cost`

use std::error::Error;

use bson::{RawDocumentBuf, rawdoc};
use rustix::time::{ClockId, clock_gettime};
use treedb_collections::{
    ChangeLogOptions, Collection, Database, DeleteRequest, Durability, IndexSpec, Options, UpdateRequest,
    WatchFrom, WatchRequest,
};

const DOCUMENTS: i32 = 48_000;
const SINGLE: i32 = 4_000;
const ROUNDS: usize = 5;
const WORK: [&str; 6] = [
    "insert, batches of 16,000",
    "insert, batches of 1,000",
    "insert, one by one",
    "update of one field by _id",
    "update of all",
    "delete by _id",
];

/// Nanoseconds of this thread.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn document(n: i32) -> RawDocumentBuf {
    rawdoc! {
        "_id": n, "email": format!("user{n}@example.com"), "age": n % 90, "name": format!("user number {n}"),
        "city": "Reykjavik", "active": n % 2 == 0, "score": f64::from(n) / 7.0,
    }
}

/// The figures of one round, in nanoseconds a document.
fn round(collection: &Collection) -> Result<[u64; WORK.len()], Box<dyn Error>> {
    let mut figures = [0; WORK.len()];
    let mut time = |at: usize, documents: i32, work: &mut dyn FnMut() -> treedb_query::error::Result<()>| {
        let begun = now();
        work()?;
        figures[at] = (now() - begun) / documents as u64;
        Ok::<_, Box<dyn Error>>(())
    };
    let all: Vec<_> = (0..DOCUMENTS).map(document).collect();
    time(0, DOCUMENTS, &mut || {
        all.chunks(16_000).try_for_each(|batch| collection.insert_many(batch, true).map(drop))
    })?;
    collection.delete(DeleteRequest::many(rawdoc! {}))?;
    time(1, DOCUMENTS, &mut || {
        all.chunks(1_000).try_for_each(|batch| collection.insert_many(batch, true).map(drop))
    })?;
    time(2, SINGLE, &mut || {
        (0..SINGLE).try_for_each(|n| collection.insert_one(document(DOCUMENTS + n)).map(drop))
    })?;
    let spread = |n: i32| n.wrapping_mul(7919).rem_euclid(DOCUMENTS);
    time(3, SINGLE, &mut || {
        (0..SINGLE).try_for_each(|n| {
            let set = rawdoc! { "$set": { "score": f64::from(n) } };
            collection.update(UpdateRequest::one(rawdoc! { "_id": spread(n) }, set)).map(drop)
        })
    })?;
    time(4, DOCUMENTS + SINGLE, &mut || {
        collection.update(UpdateRequest::many(rawdoc! {}, rawdoc! { "$inc": { "age": 1 } })).map(drop)
    })?;
    time(5, SINGLE, &mut || {
        (0..SINGLE)
            .try_for_each(|n| collection.delete(DeleteRequest::one(rawdoc! { "_id": spread(n) })).map(drop))
    })?;
    collection.delete(DeleteRequest::many(rawdoc! {}))?;
    Ok(figures)
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mut sides = Vec::new();
    for recorded in [false, true] {
        let mut options = Options::default();
        options.durability = Durability::Relaxed;
        let db = Database::open_with(dir.path().join(recorded.to_string()), options)?;
        if recorded {
            db.record_changes(Some(ChangeLogOptions::default()))?;
        }
        let collection = db.collection("a.people")?;
        collection.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
        collection.create_index(IndexSpec::new(rawdoc! { "age": 1 }))?;
        sides.push((db, collection, Vec::new()));
    }
    for at in 0..2 * ROUNDS {
        let (_, collection, figures) = &mut sides[at % 2];
        figures.push(round(collection)?);
    }
    println!("{:28}{:>14}{:>14}{:>9}", "ns a document, CPU", "no log", "log", "ratio");
    for (at, work) in WORK.iter().enumerate() {
        let median = |side: usize| {
            let mut all: Vec<u64> = sides[side].2.iter().map(|figures| figures[at]).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        let (off, on) = (median(0), median(1));
        println!("{work:28}{off:>14}{on:>14}{:>9.2}", on as f64 / off as f64);
    }
    let (db, collection, _) = &sides[1];
    let Some(status) = db.change_log()? else { return Err("no log".into()) };
    let changes = status.next - status.first;
    println!("{changes} changes in {} KiB: {} bytes each", status.bytes / 1024, status.bytes / changes);
    let from = bson::Timestamp { time: u32::try_from(status.oldest / 1000)?, increment: 0 };
    let mut stream =
        collection.watch(WatchRequest { from: WatchFrom::OperationTime(from), ..WatchRequest::default() })?;
    let (begun, mut events) = (now(), 0_u64);
    while events < 200_000 && stream.try_next()?.is_some() {
        events += 1;
    }
    println!("read by a stream that is far behind: {} ns an event", (now() - begun) / events.max(1));
    Ok(())
}
