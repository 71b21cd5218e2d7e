//! Index builds over the million users of the `groups` suite.

use bson::raw::RawDocument;
use bson::{RawDocumentBuf, rawdoc};
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{DatabaseFlags, Env, PutFlags};
use rusqlite::Connection;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Unit, compare};
use crate::engines::treedb::TreeDbAnalytics;
use crate::engines::{DataDir, DurabilityClass, lmdb};
use crate::report::{Goals, Row, rows};

const GOALS: Goals<'_> = &[("SQLite, columns", 1.0)];

/// An index, and a range of its keys that is counted to verify it.
struct Index {
    name: &'static str,
    keys: fn() -> RawDocumentBuf,
    unique: bool,
    range: fn() -> RawDocumentBuf,
    /// SQLite's columns and the same range.
    columns: &'static str,
    condition: &'static str,
    /// LMDB's index key of a document.
    lmdb_key: fn(&RawDocument, &mut Vec<u8>) -> Result<()>,
    /// The same range in LMDB, end exclusive.
    lmdb_range: fn() -> (Vec<u8>, Vec<u8>),
}

/// A non-negative number as bytes that sort like it.
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
    // Descending.
    out.push(!(document.get_i32("age")? as u8));
    Ok(())
}

const INDEXES: &[Index] = &[
    Index {
        name: "a number",
        keys: || rawdoc! { "score": 1 },
        unique: false,
        range: || rawdoc! { "score": { "$gte": 10.0, "$lt": 20.0 } },
        columns: "score",
        condition: "score >= 10.0 AND score < 20.0",
        lmdb_key: score,
        lmdb_range: || {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            number(10.0, &mut from);
            number(20.0, &mut to);
            (from, to)
        },
    },
    Index {
        name: "a string in random order",
        keys: || rawdoc! { "email": 1 },
        unique: false,
        range: || rawdoc! { "email": { "$gte": "user-0001", "$lt": "user-0002" } },
        columns: "email",
        condition: "email >= 'user-0001' AND email < 'user-0002'",
        lmdb_key: email,
        lmdb_range: || (b"user-0001".to_vec(), b"user-0002".to_vec()),
    },
    Index {
        name: "a string in random order, unique",
        keys: || rawdoc! { "email": 1 },
        unique: true,
        range: || rawdoc! { "email": { "$gte": "user-0001", "$lt": "user-0002" } },
        columns: "email",
        condition: "email >= 'user-0001' AND email < 'user-0002'",
        lmdb_key: email,
        lmdb_range: || (b"user-0001".to_vec(), b"user-0002".to_vec()),
    },
    Index {
        name: "city and descending age",
        keys: || rawdoc! { "city": 1, "age": -1 },
        unique: false,
        range: || rawdoc! { "city": "city-07", "age": { "$gt": 20, "$lte": 60 } },
        columns: "city, age DESC",
        condition: "city = 'city-07' AND age > 20 AND age <= 60",
        lmdb_key: city_and_age,
        lmdb_range: || (b"city-07\0\xc3".to_vec(), b"city-07\0\xeb".to_vec()),
    },
];

/// LMDB with the users as BSON under their numbers.
struct Lmdb {
    env: Env,
    users: heed::Database<U64<BigEndian>, Bytes>,
}

impl Lmdb {
    fn fill(data_dir: &DataDir, treedb: &TreeDbAnalytics) -> Result<Lmdb> {
        let env = lmdb::open(data_dir.path(), DurabilityClass::Relaxed)?;
        let mut txn = env.write_txn()?;
        let users = env.create_database(&mut txn, Some("users"))?;
        treedb.for_each("users", |document| {
            let id = document.get_i64("_id")? as u64;
            Ok(users.put_with_flags(&mut txn, PutFlags::APPEND, &id, document.as_bytes())?)
        })?;
        txn.commit()?;
        Ok(Lmdb { env, users })
    }

    /// Reads all users, sorts their keys, and appends them to a database.
    fn build(&self, index: &Index) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        let (mut bytes, mut positions) = (Vec::new(), Vec::new());
        for entry in self.users.iter(&txn)? {
            let (id, document) = entry?;
            let from = bytes.len();
            (index.lmdb_key)(RawDocument::from_bytes(document)?, &mut bytes)?;
            positions.push((from, bytes.len(), id));
        }
        let key = |&(from, to, _): &(usize, usize, u64)| bytes.get(from..to).unwrap_or_default();
        positions.sort_by(|a, b| key(a).cmp(key(b)).then(a.2.cmp(&b.2)));
        let mut options = self.env.database_options().types::<Bytes, U64<BigEndian>>();
        options.name("index");
        if !index.unique {
            options.flags(DatabaseFlags::DUP_SORT | DatabaseFlags::DUP_FIXED);
        }
        let table = options.create(&mut txn)?;
        let append = if index.unique { PutFlags::APPEND } else { PutFlags::APPEND_DUP };
        for position in &positions {
            table.put_with_flags(&mut txn, append, key(position), &position.2)?;
        }
        Ok(txn.commit()?)
    }

    /// Counts a range, and removes the index.
    fn count_and_remove(&self, index: &Index) -> Result<u64> {
        let mut txn = self.env.write_txn()?;
        let table: heed::Database<Bytes, U64<BigEndian>> =
            self.env.open_database(&txn, Some("index"))?.ok_or("there is no index")?;
        let (from, to) = (index.lmdb_range)();
        let range = (std::ops::Bound::Included(from.as_slice()), std::ops::Bound::Excluded(to.as_slice()));
        let mut count = 0;
        for entry in table.range(&txn, &range)? {
            entry?;
            count += 1;
        }
        // SAFETY: no other handle of this database is used from here on.
        unsafe { table.remove(&mut txn) }?;
        txn.commit()?;
        Ok(count)
    }
}

/// Restricts this thread, and threads it starts, to one core while it exists.
struct OneCore(CpuSet);

impl OneCore {
    fn pin() -> Result<OneCore> {
        let all = sched_getaffinity(None)?;
        let first =
            (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).ok_or("the process may not run on any core")?;
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

pub(super) fn run(scale: Scale, treedb: &TreeDbAnalytics, sqlite: &Connection) -> Result<Vec<Row>> {
    let count = treedb.len("users")?;
    let mut out = Vec::new();
    let workloads: Vec<(String, &Index, bool)> = INDEXES
        .iter()
        .flat_map(|index| [(index, true), (index, false)])
        .map(|(index, one)| {
            let how = if one { "one thread" } else { "default threads" };
            (format!("create an index on {}, {how}", index.name), index, one)
        })
        .filter(|(workload, ..)| scale.wants(workload))
        .collect();
    if workloads.is_empty() {
        return Ok(out);
    }
    let data_dir = DataDir::new("lmdb-index-builds")?;
    let lmdb = Lmdb::fill(&data_dir, treedb)?;
    // Checkpoints run outside the timer.
    sqlite.execute_batch("PRAGMA wal_autocheckpoint=0")?;
    let cores = std::thread::available_parallelism()?;
    for (workload, index, one) in workloads {
        eprintln!("groups: {workload}");
        let threads = if one { 0 } else { cores.get() };
        sqlite.execute_batch(&format!("PRAGMA threads={threads}"))?;
        let mut candidates = [
            Candidate {
                name: "TreeDB",
                run: Box::new(|_| {
                    let _one = if one { Some(OneCore::pin()?) } else { None };
                    let mut name = String::new();
                    let measured = Measurement::wall_clock(count, || {
                        name = treedb.create_index("users", (index.keys)(), index.unique)?;
                        Ok(0)
                    })?;
                    let found = treedb.count("users", (index.range)(), &name)?;
                    treedb.drop_index("users", &name)?;
                    treedb.checkpoint()?;
                    Ok(Measurement { checksum: Some(found), ..measured })
                }),
            },
            Candidate {
                name: "SQLite, columns",
                run: Box::new(|_| {
                    let (unique, columns) = (if index.unique { "UNIQUE" } else { "" }, index.columns);
                    let measured = Measurement::wall_clock(count, || {
                        sqlite.execute_batch(&format!("CREATE {unique} INDEX made ON users ({columns})"))?;
                        Ok(0)
                    })?;
                    let count_range =
                        format!("SELECT count(*) FROM users INDEXED BY made WHERE {}", index.condition);
                    let found: i64 = sqlite.query_row(&count_range, [], |row| row.get(0))?;
                    sqlite.execute_batch("DROP INDEX made; PRAGMA wal_checkpoint(TRUNCATE)")?;
                    Ok(Measurement { checksum: Some(found as u64), ..measured })
                }),
            },
            Candidate {
                name: "LMDB, sorted pairs",
                run: Box::new(|_| {
                    let measured = Measurement::wall_clock(count, || lmdb.build(index).map(|()| 0))?;
                    Ok(Measurement { checksum: Some(lmdb.count_and_remove(index)?), ..measured })
                }),
            },
        ];
        let samples = compare(Unit::NanosPerOp, scale.rounds, &mut candidates)?;
        out.extend(rows(&workload, DurabilityClass::Relaxed.label(), Unit::NanosPerOp, samples, GOALS));
    }
    Ok(out)
}
