//! Indexes created over the million people of the groups.

use bson::raw::RawDocument;
use bson::{RawDocumentBuf, rawdoc};
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{DatabaseFlags, Env, PutFlags};
use rusqlite::Connection;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use treedb_collections::{Collection, Database};
use treedb_collections::{FindRequest, IndexSpec};

use super::Scale;
use crate::Result;
use crate::contest::{Side, Turn, Unit, contest};
use crate::report::{Goals, Row, rows};
use crate::sides::{Class, Folder, lmdb};

const GOALS: Goals<'_> = &[("SQLite, columns", 1.0)];
/// Documents to a transaction while LMDB's side is filled.
const BATCH: usize = 10_000;

/// An index, and a range of its keys of which the entries are counted through it.
struct Index {
    name: &'static str,
    spec: fn() -> IndexSpec,
    range: fn() -> RawDocumentBuf,
    /// SQLite's: its columns, `UNIQUE` or nothing, and the same range.
    columns: &'static str,
    unique: bool,
    condition: &'static str,
    /// LMDB's key of a document.
    key: fn(&RawDocument, &mut Vec<u8>) -> Result<()>,
    /// The same range of keys: from and to just below.
    keys: fn() -> (Vec<u8>, Vec<u8>),
}

/// The bytes of a number that is not negative, in its order.
fn number(value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_bits().to_be_bytes());
}

fn score(document: &RawDocument, out: &mut Vec<u8>) -> Result<()> {
    number(document.get_f64("score")?, out);
    Ok(())
}

fn email(document: &RawDocument, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(document.get_str("email")?.as_bytes());
    Ok(())
}

fn city_and_age(document: &RawDocument, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(document.get_str("city")?.as_bytes());
    out.push(0);
    // The oldest first.
    out.push(!(document.get_i32("age")? as u8));
    Ok(())
}

const INDEXES: &[Index] = &[
    Index {
        name: "a number",
        spec: || IndexSpec::new(rawdoc! { "score": 1 }),
        range: || rawdoc! { "score": { "$gte": 10.0, "$lt": 20.0 } },
        columns: "score",
        unique: false,
        condition: "score >= 10.0 AND score < 20.0",
        key: score,
        keys: || {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            number(10.0, &mut from);
            number(20.0, &mut to);
            (from, to)
        },
    },
    Index {
        name: "a text in no order",
        spec: || IndexSpec::new(rawdoc! { "email": 1 }),
        range: || rawdoc! { "email": { "$gte": "user-0001", "$lt": "user-0002" } },
        columns: "email",
        unique: false,
        condition: "email >= 'user-0001' AND email < 'user-0002'",
        key: email,
        keys: || (b"user-0001".to_vec(), b"user-0002".to_vec()),
    },
    Index {
        name: "a text in no order, unique",
        spec: || IndexSpec::new(rawdoc! { "email": 1 }).unique(),
        range: || rawdoc! { "email": { "$gte": "user-0001", "$lt": "user-0002" } },
        columns: "email",
        unique: true,
        condition: "email >= 'user-0001' AND email < 'user-0002'",
        key: email,
        keys: || (b"user-0001".to_vec(), b"user-0002".to_vec()),
    },
    Index {
        name: "a city and an age, downwards",
        spec: || IndexSpec::new(rawdoc! { "city": 1, "age": -1 }),
        range: || rawdoc! { "city": "city-07", "age": { "$gt": 20, "$lte": 60 } },
        columns: "city, age DESC",
        unique: false,
        condition: "city = 'city-07' AND age > 20 AND age <= 60",
        key: city_and_age,
        keys: || (b"city-07\0\xc3".to_vec(), b"city-07\0\xeb".to_vec()),
    },
];

/// LMDB with the people as BSON under their numbers.
struct Lmdb {
    env: Env,
    people: heed::Database<U64<BigEndian>, Bytes>,
}

impl Lmdb {
    fn fill(folder: &Folder, people: &Collection) -> Result<Lmdb> {
        let env = lmdb::open(folder.path(), Class::Relaxed)?;
        let mut txn = env.write_txn()?;
        let table = env.create_database(&mut txn, Some("people"))?;
        for (number, document) in people.find(FindRequest::default())?.enumerate() {
            let document = document?;
            let id = document.get_i64("_id")? as u64;
            table.put_with_flags(&mut txn, PutFlags::APPEND, &id, document.as_bytes())?;
            if number % BATCH == BATCH - 1 {
                txn.commit()?;
                txn = env.write_txn()?;
            }
        }
        txn.commit()?;
        Ok(Lmdb { env, people: table })
    }

    /// Reads everybody, puts the keys in order, and fills a sub-database from them.
    fn build(&self, index: &Index) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for entry in self.people.iter(&txn)? {
            let (id, document) = entry?;
            let from = bytes.len();
            (index.key)(RawDocument::from_bytes(document)?, &mut bytes)?;
            places.push((from, bytes.len(), id));
        }
        let key = |&(from, to, _): &(usize, usize, u64)| bytes.get(from..to).unwrap_or_default();
        places.sort_by(|a, b| key(a).cmp(key(b)).then(a.2.cmp(&b.2)));
        let mut options = self.env.database_options().types::<Bytes, U64<BigEndian>>();
        options.name("index");
        if !index.unique {
            options.flags(DatabaseFlags::DUP_SORT | DatabaseFlags::DUP_FIXED);
        }
        let table = options.create(&mut txn)?;
        let append = if index.unique { PutFlags::APPEND } else { PutFlags::APPEND_DUP };
        for place in &places {
            table.put_with_flags(&mut txn, append, key(place), &place.2)?;
        }
        Ok(txn.commit()?)
    }

    /// Counts a range, and removes the index.
    fn counted(&self, index: &Index) -> Result<u64> {
        let mut txn = self.env.write_txn()?;
        let table: heed::Database<Bytes, U64<BigEndian>> =
            self.env.open_database(&txn, Some("index"))?.ok_or("there is no index")?;
        let (from, to) = (index.keys)();
        let range = (std::ops::Bound::Included(from.as_slice()), std::ops::Bound::Excluded(to.as_slice()));
        let mut count = 0;
        for entry in table.range(&txn, &range)? {
            entry?;
            count += 1;
        }
        // SAFETY: no other handle of this sub-database is used from here on.
        unsafe { table.remove(&mut txn) }?;
        txn.commit()?;
        Ok(count)
    }
}

/// Keeps this thread, and those it begins, on one core while it lives.
struct OneCore(CpuSet);

impl OneCore {
    fn keep() -> Result<OneCore> {
        let all = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).ok_or("no core is allowed")?;
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one)?;
        Ok(OneCore(all))
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

pub(super) fn run(scale: Scale, db: &Database, sqlite: &Connection) -> Result<Vec<Row>> {
    let people = db.collection("bench.people")?;
    let count = people.len()?;
    let mut out = Vec::new();
    let workloads: Vec<(String, &Index, bool)> = INDEXES
        .iter()
        .flat_map(|index| [(index, true), (index, false)])
        .map(|(index, one)| {
            let how = if one { "one thread" } else { "as many threads as it chooses" };
            (format!("create an index on {}, {how}", index.name), index, one)
        })
        .filter(|(workload, ..)| scale.wants(workload))
        .collect();
    if workloads.is_empty() {
        return Ok(out);
    }
    let folder = Folder::new("lmdb-builds")?;
    let lmdb = Lmdb::fill(&folder, &people)?;
    // Logs are folded in outside the timer.
    sqlite.execute_batch("PRAGMA wal_autocheckpoint=0")?;
    let cores = std::thread::available_parallelism()?;
    for (workload, index, one) in workloads {
        eprintln!("groups: {workload}");
        let threads = if one { 0 } else { cores.get() };
        sqlite.execute_batch(&format!("PRAGMA threads={threads}"))?;
        let mut sides = [
            Side {
                name: "TreeDB",
                turn: Box::new(|_| {
                    let _one = if one { Some(OneCore::keep()?) } else { None };
                    let mut name = String::new();
                    let turn = Turn::timed(count, || {
                        name = people.create_index((index.spec)())?;
                        Ok(0)
                    })?;
                    let found = people.count(FindRequest::filter((index.range)()).hint(name.clone()))?;
                    people.drop_index(&name)?;
                    db.checkpoint()?;
                    Ok(Turn { answer: Some(found), ..turn })
                }),
            },
            Side {
                name: "SQLite, columns",
                turn: Box::new(|_| {
                    let (unique, columns) = (if index.unique { "UNIQUE" } else { "" }, index.columns);
                    let turn = Turn::timed(count, || {
                        sqlite.execute_batch(&format!("CREATE {unique} INDEX made ON people ({columns})"))?;
                        Ok(0)
                    })?;
                    let counted =
                        format!("SELECT count(*) FROM people INDEXED BY made WHERE {}", index.condition);
                    let found: i64 = sqlite.query_row(&counted, [], |row| row.get(0))?;
                    sqlite.execute_batch("DROP INDEX made; PRAGMA wal_checkpoint(TRUNCATE)")?;
                    Ok(Turn { answer: Some(found as u64), ..turn })
                }),
            },
            Side {
                name: "LMDB, sorted pairs",
                turn: Box::new(|_| {
                    let turn = Turn::timed(count, || lmdb.build(index).map(|()| 0))?;
                    Ok(Turn { answer: Some(lmdb.counted(index)?), ..turn })
                }),
            },
        ];
        let figures = contest(Unit::NanosPerOp, scale.rounds, &mut sides)?;
        out.extend(rows(&workload, Class::Relaxed.label(), Unit::NanosPerOp, figures, GOALS));
    }
    Ok(out)
}
