//! The hot paths. Each is one small function over the public API: opens what was prepared, warms up, and runs its
//! operations inside [`measured`]. It returns how many operations there were.

use std::path::Path;

use treedb_collections::bson::{RawDocumentBuf, rawdoc};
use treedb_collections::{
    AggregateRequest, Collection, Database, Durability, FindRequest, IndexSpec, Options, Store,
    UpdateRequest, VectorSearchRequest,
};
use treedb_storage::{Reads, Table, TableKind};

use crate::Result;
use crate::data::{
    DIMENSIONS, KEYS, PEOPLE, PLACES, POINTS_STEP, draw, email, id, key, person, place, value, vector,
};
use crate::measure::{expect, measured};

/// A hot path.
pub(crate) struct HotPath {
    pub(crate) name: &'static str,
    /// What is counted as one operation.
    pub(crate) operation: &'static str,
    /// Fills a directory with what the path needs.
    pub(crate) prepare: fn(&Path) -> Result<()>,
    /// Runs it in that directory; returns how many operations were measured.
    pub(crate) run: fn(&Path) -> Result<u64>,
}

const fn path(
    name: &'static str,
    operation: &'static str,
    prepare: fn(&Path) -> Result<()>,
    run: fn(&Path) -> Result<u64>,
) -> HotPath {
    HotPath { name, operation, prepare, run }
}

/// All of them, in the order they are shown in.
pub(crate) const PATHS: &[HotPath] = &[
    path("get", "one value of 100 bytes among 100,000 keys, in an open snapshot", keys, get),
    path("put", "one value, in a transaction of 1,000 whose keys are in no order", keys, put),
    path("scan", "one step of a cursor over 100,000 keys, key and value read", keys, scan),
    path("commit_relaxed", "a transaction with one put, committed as relaxed", keys, commit_relaxed),
    path("commit_durable", "a transaction with one put, committed as durable", keys, commit_durable),
    path("find_by_id", "find_one by _id among 10,000 documents of seven fields", people, find_by_id),
    path("find_by_unique_index", "find_one by a unique index", people, find_by_unique_index),
    path("find_by_range", "find of 20 documents by a range of a secondary index", people, find_by_range),
    path("insert_one", "insert_one with two secondary indexes, committed as relaxed", people, insert_one),
    path("insert_many", "one document of insert_many of 1,000, two secondary indexes", people, insert_many),
    path("update_by_id", "$inc of a field by _id, committed as relaxed", people, update_by_id),
    path(
        "group",
        "$group of 10,000 documents by a field of 64 values, a count and an average",
        people,
        group,
    ),
    path(
        "vector_search",
        "$vectorSearch of 10 among 4,000 documents with 96 dimensions, by 40 candidates",
        places,
        vector_search,
    ),
    path("vector_insert", "insert_one with a vector index, committed as relaxed", places, vector_insert),
];

/// The path of this name.
pub(crate) fn find(name: &str) -> Result<&'static HotPath> {
    PATHS.iter().find(|path| path.name == name).ok_or_else(|| format!("there is no path {name}").into())
}

/// No threads of the store's own: which of two threads does a piece of work would differ from run to run.
fn options() -> Options {
    let mut options = Options::default();
    options.background = false;
    options.durability = Durability::Relaxed;
    options
}

// The key/value store.

/// A store with a table of `KEYS` keys.
fn keys(dir: &Path) -> Result<()> {
    let store = Store::open_with(dir, options())?;
    let mut txn = store.begin_write()?;
    let table = txn.open_table("keys", TableKind::Ordered)?;
    for n in 0..KEYS {
        txn.put(&table, &key(n), &value(n))?;
    }
    txn.commit()?;
    Ok(store.close()?)
}

/// The prepared store, every page of which has been read: checksums are verified with the first read.
fn opened_keys(dir: &Path) -> Result<(Store, Table)> {
    let store = Store::open_with(dir, options())?;
    let read = store.snapshot()?;
    let table = read.table("keys")?.ok_or("there is no table: prepare the directory first")?;
    expect("keys in the table", KEYS, step_through(&read, &table, KEYS)?)?;
    drop(read);
    Ok((store, table))
}

/// Reads entries from the beginning, `most` at most; returns how many there were.
fn step_through(read: &impl Reads, table: &Table, most: u64) -> Result<u64> {
    let (mut cursor, mut count, mut bytes) = (read.cursor(table)?, 0, 0);
    while count < most && cursor.next()? {
        bytes += cursor.entry()?.map_or(0, |(key, value)| key.len() + value.len());
        count += 1;
    }
    expect("bytes of keys and values", count * 116, bytes as u64)?;
    Ok(count)
}

fn get(dir: &Path) -> Result<u64> {
    const GETS: u64 = 2000;
    let (store, table) = opened_keys(dir)?;
    let keys: Vec<Vec<u8>> = draw(1, GETS, KEYS).map(key).collect();
    let read = store.snapshot()?;
    let mut work = || {
        let mut bytes = 0;
        for key in &keys {
            bytes += read.get(&table, key)?.map_or(0, <[u8]>::len);
        }
        Ok(bytes as u64)
    };
    work()?;
    expect("bytes of values", GETS * 100, measured(&mut work)?)?;
    Ok(GETS)
}

/// Half of the keys are new. The commit is not counted.
fn put(dir: &Path) -> Result<u64> {
    const PUTS: u64 = 1000;
    let (store, table) = opened_keys(dir)?;
    let put = |seed: u64, count: bool| -> Result<u64> {
        let entries: Vec<_> = draw(seed, PUTS, 2 * KEYS).map(|n| (key(n), value(seed))).collect();
        let mut txn = store.begin_write()?;
        let mut work = || {
            for (key, value) in &entries {
                txn.put(&table, key, value)?;
            }
            Ok(entries.len() as u64)
        };
        let puts = if count { measured(&mut work)? } else { work()? };
        txn.commit()?;
        Ok(puts)
    };
    put(2, false)?;
    put(3, true)
}

fn scan(dir: &Path) -> Result<u64> {
    const STEPS: u64 = 20_000;
    let (store, table) = opened_keys(dir)?;
    let read = store.snapshot()?;
    let steps = measured(&mut || step_through(&read, &table, STEPS))?;
    expect("entries", STEPS, steps)?;
    Ok(steps)
}

fn commit_relaxed(dir: &Path) -> Result<u64> {
    commit(dir, Durability::Relaxed, 1000)
}

fn commit_durable(dir: &Path) -> Result<u64> {
    commit(dir, Durability::Durable, 100)
}

/// The same key each time, so that the put itself is the least part.
fn commit(dir: &Path, durability: Durability, commits: u64) -> Result<u64> {
    let (store, table) = opened_keys(dir)?;
    let (key, value) = (key(7), value(8));
    let mut work = || {
        for _ in 0..commits {
            let mut txn = store.begin_write()?;
            txn.put(&table, &key, &value)?;
            txn.commit_with(durability)?;
        }
        Ok(commits)
    };
    work()?;
    let before = store.stats().txn;
    measured(&mut work)?;
    expect("transactions", commits, store.stats().txn - before)?;
    Ok(commits)
}

// Documents.

const PEOPLE_NAME: &str = "app.people";

/// A collection of `PEOPLE` people with a unique index on `email` and an index on `points`.
fn people(dir: &Path) -> Result<()> {
    let db = Database::open_with(dir, options())?;
    let people = db.collection(PEOPLE_NAME)?;
    people.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
    people.create_index(rawdoc! { "points": 1 })?;
    insert(&people, &(0..PEOPLE).map(person).collect::<Vec<_>>())?;
    drop(people);
    Ok(db.close()?)
}

/// The prepared collection, every document of which has been read.
fn opened_people(dir: &Path) -> Result<(Database, Collection)> {
    let db = Database::open_with(dir, options())?;
    let people = db.collection(PEOPLE_NAME)?;
    expect("documents", PEOPLE, count(&people, FindRequest::default())?)?;
    Ok((db, people))
}

fn insert(people: &Collection, documents: &[RawDocumentBuf]) -> Result<u64> {
    let outcome = people.insert_many(documents, true)?;
    expect("documents refused", 0, outcome.errors.len() as u64)?;
    Ok(outcome.inserted)
}

/// Runs a find to its end; returns how many documents there were.
fn count(people: &Collection, request: FindRequest) -> Result<u64> {
    let mut count = 0;
    for document in people.find(request)? {
        document?;
        count += 1;
    }
    Ok(count)
}

/// `find_one` with each of these filters, each of which is to find a document.
fn find_each(people: &Collection, filters: &[RawDocumentBuf]) -> Result<u64> {
    let mut work = || {
        let mut found = 0;
        for filter in filters {
            found += u64::from(people.find_one(filter.clone())?.is_some());
        }
        Ok(found)
    };
    work()?;
    let found = measured(&mut work)?;
    expect("documents found", filters.len() as u64, found)?;
    Ok(found)
}

fn find_by_id(dir: &Path) -> Result<u64> {
    let (_db, people) = opened_people(dir)?;
    let filters: Vec<_> = draw(1, 1000, PEOPLE).map(|n| rawdoc! { "_id": id(n) }).collect();
    find_each(&people, &filters)
}

fn find_by_unique_index(dir: &Path) -> Result<u64> {
    let (_db, people) = opened_people(dir)?;
    let filters: Vec<_> = draw(2, 1000, PEOPLE).map(|n| rawdoc! { "email": email(n) }).collect();
    find_each(&people, &filters)
}

fn find_by_range(dir: &Path) -> Result<u64> {
    const FINDS: u64 = 100;
    const EACH: u64 = 20;
    let (_db, people) = opened_people(dir)?;
    let lows = draw(3, FINDS, PEOPLE - EACH).map(|n| n as i64 * POINTS_STEP);
    let range = |low| rawdoc! { "points": { "$gte": low, "$lt": low + EACH as i64 * POINTS_STEP } };
    let requests: Vec<_> = lows.map(|low| FindRequest::filter(range(low))).collect();
    let mut work =
        || requests.iter().try_fold(0, |found, request| Ok(found + count(&people, request.clone())?));
    work()?;
    expect("documents found", FINDS * EACH, measured(&mut work)?)?;
    Ok(FINDS)
}

fn insert_one(dir: &Path) -> Result<u64> {
    const INSERTS: u64 = 500;
    let (_db, people) = opened_people(dir)?;
    insert_each(&people, &(PEOPLE..PEOPLE + 2 * INSERTS).map(person).collect::<Vec<_>>())?;
    Ok(INSERTS)
}

/// `insert_one` of these documents, the first half to warm up.
fn insert_each(collection: &Collection, documents: &[RawDocumentBuf]) -> Result<()> {
    let expected = collection.len()? + documents.len() as u64;
    let (first, second) = documents.split_at(documents.len() / 2);
    let insert = |documents: &[RawDocumentBuf]| {
        for document in documents {
            collection.insert_one(document)?;
        }
        Ok(collection.len()?)
    };
    insert(first)?;
    expect("documents", expected, measured(&mut || insert(second))?)
}

fn insert_many(dir: &Path) -> Result<u64> {
    const BATCH: u64 = 1000;
    let (_db, people) = opened_people(dir)?;
    let documents: Vec<_> = (PEOPLE..PEOPLE + 4 * BATCH).map(person).collect();
    let (warm_up, documents) = documents.split_at(BATCH as usize);
    insert(&people, warm_up)?;
    let mut batches = documents.chunks(BATCH as usize);
    let inserted = measured(&mut || batches.try_fold(0, |sum, batch| Ok(sum + insert(&people, batch)?)))?;
    expect("documents inserted", 3 * BATCH, inserted)?;
    Ok(inserted)
}

fn update_by_id(dir: &Path) -> Result<u64> {
    const UPDATES: u64 = 500;
    let (_db, people) = opened_people(dir)?;
    let update = |n| UpdateRequest::one(rawdoc! { "_id": id(n) }, rawdoc! { "$inc": { "visits": 1 } });
    let requests: Vec<_> = draw(4, UPDATES, PEOPLE).map(update).collect();
    let mut work = || {
        requests
            .iter()
            .try_fold(0, |modified, request| Ok(modified + people.update(request.clone())?.modified))
    };
    work()?;
    expect("documents updated", UPDATES, measured(&mut work)?)?;
    Ok(UPDATES)
}

fn group(dir: &Path) -> Result<u64> {
    let (_db, people) = opened_people(dir)?;
    let stage = rawdoc! { "$group": {
        "_id": "$city", "people": { "$sum": 1 }, "balance": { "$avg": "$balance" },
    } };
    let request = AggregateRequest::new([stage]);
    let mut work = || {
        let mut counted = 0;
        for group in people.aggregate(&request)? {
            counted += group?.get_i32("people")? as u64;
        }
        Ok(counted)
    };
    work()?;
    expect("documents in groups", PEOPLE, measured(&mut work)?)?;
    Ok(1)
}

// Vectors.

const PLACES_NAME: &str = "app.places";

/// A collection of `PLACES` documents with vectors, and a vector index.
fn places(dir: &Path) -> Result<()> {
    let db = Database::open_with(dir, options())?;
    let places = db.collection(PLACES_NAME)?;
    let definition = rawdoc! { "path": "vector", "numDimensions": DIMENSIONS as i32, "similarity": "cosine" };
    places.create_index(IndexSpec::vector(definition).name("near"))?;
    insert(&places, &(0..PLACES).map(place).collect::<Vec<_>>())?;
    drop(places);
    Ok(db.close()?)
}

/// The prepared collection, whose index is in memory.
fn opened_places(dir: &Path) -> Result<(Database, Collection)> {
    let db = Database::open_with(dir, options())?;
    let places = db.collection(PLACES_NAME)?;
    expect("documents", PLACES, count(&places, FindRequest::default())?)?;
    search(&places, &requests(5, 10))?;
    Ok((db, places))
}

fn requests(seed: u64, count: u64) -> Vec<VectorSearchRequest> {
    let near = |n| VectorSearchRequest::new("near", vector(n), 10).candidates(40);
    draw(seed, count, PLACES).map(|n| near(PLACES + n)).collect()
}

/// How many documents all of them find.
fn search(places: &Collection, requests: &[VectorSearchRequest]) -> Result<u64> {
    requests.iter().try_fold(0, |found, request| Ok(found + places.vector_search(request)?.len() as u64))
}

fn vector_search(dir: &Path) -> Result<u64> {
    const SEARCHES: u64 = 200;
    let (_db, places) = opened_places(dir)?;
    let requests = requests(6, SEARCHES);
    let mut work = || search(&places, &requests);
    work()?;
    expect("documents found", 10 * SEARCHES, measured(&mut work)?)?;
    Ok(SEARCHES)
}

fn vector_insert(dir: &Path) -> Result<u64> {
    const INSERTS: u64 = 100;
    let (_db, places) = opened_places(dir)?;
    insert_each(&places, &(PLACES..PLACES + 2 * INSERTS).map(place).collect::<Vec<_>>())?;
    // The next search finds them in the index.
    let request = VectorSearchRequest::new("near", vector(PLACES + INSERTS), 1).candidates(40);
    let found = places.vector_search(&request)?;
    let found = found.first().map(|nearest| nearest.document.get_object_id("_id")).transpose()?;
    expect("documents found where one was inserted", 1, u64::from(found == Some(id(PLACES + INSERTS))))?;
    Ok(INSERTS)
}
