//! Groups, sorts and joins over a million documents, compared with SQLite over native columns, and index builds over
//! the same documents.

use bench_common::Checksum;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use rusqlite::{Connection, params};

use super::{Scale, index_builds};
use crate::Result;
use crate::comparison::{Candidate, Measurement, Unit, compare};
use crate::engines::treedb::{DEFAULT_STAGE_MEMORY, TreeDbAnalytics};
use crate::engines::{DataDir, DurabilityClass};
use crate::report::{Goals, Row, rows};

pub(super) const ABOUT: &str = "A million users with a name, an e-mail address, one of 64 cities, an age, a score and \
    padding, stored as documents that are not sealed and as rows of a table with native columns. There is no index \
    except the primary key, and everything is in memory. 100,000 visits in random order refer to the users, each with \
    three tags (SQLite: a JSON array). Decoding the result is inside the timer, and a checksum over it has to agree. \
    Rows with `one thread` limit TreeDB to one, like SQLite; in the others TreeDB chooses. Times are per document of \
    the collection that the pipeline starts with. A stage may hold 1 GiB unless the row says otherwise. Indexes are \
    built over the same users without concurrent work, and a range of each is then counted through it, which has to \
    agree. Where TreeDB may use as many threads as there are cores, SQLite may sort with as many (`PRAGMA threads`). \
    LMDB stores the users as BSON under their numbers; it reads one field of each, sorts the keys in memory and \
    appends them to another database, in one thread. Checkpoints run outside the timer.";

const GOALS: Goals<'_> = &[("SQLite, columns", 1.0)];
const USERS: u64 = 1_000_000;
const VISITS: u64 = 100_000;
const BATCH: u64 = 10_000;
const LARGE_MEMORY: usize = 1 << 30;

/// A query as TreeDB's pipeline and as SQLite's statement. Each row of the result is a string or number, then numbers.
struct Query {
    name: &'static str,
    /// The collection that the pipeline starts with.
    collection: &'static str,
    /// Bytes a stage may hold.
    memory: usize,
    stages: fn() -> Vec<RawDocumentBuf>,
    sql: &'static str,
}

const QUERIES: &[Query] = &[
    Query {
        name: "match and group: count, mean and maximum for 64 cities",
        collection: "users",
        memory: LARGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$match": { "age": { "$gte": 18 } } },
                rawdoc! { "$group": { "_id": "$city", "n": { "$sum": 1 }, "mean": { "$avg": "$score" }, "most": { "$max": "$age" } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT city, count(*), avg(score), max(age) FROM users WHERE age >= 18 GROUP BY city ORDER BY city",
    },
    Query {
        name: "group: sum for 90 ages",
        collection: "users",
        memory: LARGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$age", "sum": { "$sum": "$score" } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT age, sum(score) FROM users GROUP BY age ORDER BY age",
    },
    Query {
        name: "group: one group per document, first ten",
        collection: "users",
        memory: LARGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$email", "sum": { "$sum": "$age" } } },
                rawdoc! { "$sort": { "_id": 1 } },
                rawdoc! { "$limit": 10 },
            ]
        },
        sql: "SELECT email, sum(age) FROM users GROUP BY email ORDER BY email LIMIT 10",
    },
    Query {
        name: "group: one group per document, first ten, 100 MB per stage (default) and spill files",
        collection: "users",
        memory: DEFAULT_STAGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$email", "sum": { "$sum": "$age" }, "mean": { "$avg": "$score" }, "who": { "$first": "$name" } } },
                rawdoc! { "$sort": { "_id": 1 } },
                rawdoc! { "$limit": 10 },
            ]
        },
        sql: "SELECT email, sum(age), avg(score), name FROM users GROUP BY email ORDER BY email LIMIT 10",
    },
    Query {
        name: "sort: first ten by e-mail address",
        collection: "users",
        memory: LARGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$sort": { "email": 1 } },
                rawdoc! { "$limit": 10 },
                rawdoc! { "$project": { "_id": 0, "email": 1, "age": 1 } },
            ]
        },
        sql: "SELECT email, age FROM users ORDER BY email LIMIT 10",
    },
    Query {
        name: "unwind and group: count of 31 tags (SQLite: json_each)",
        collection: "visits",
        memory: LARGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$unwind": "$tags" },
                rawdoc! { "$group": { "_id": "$tags", "n": { "$sum": 1 } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT t.value, count(*) FROM visits, json_each(visits.tags) AS t GROUP BY t.value ORDER BY t.value",
    },
    Query {
        name: "lookup by primary key among a million and group: sum for 64 cities",
        collection: "visits",
        memory: LARGE_MEMORY,
        stages: || {
            vec![
                rawdoc! { "$lookup": { "from": "users", "localField": "user", "foreignField": "_id", "as": "user" } },
                rawdoc! { "$unwind": "$user" },
                rawdoc! { "$group": { "_id": "$user.city", "sum": { "$sum": "$amount" } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT users.city, sum(amount) FROM visits JOIN users ON users.id = visits.user GROUP BY users.city \
              ORDER BY users.city",
    },
];

/// The number of the user of a visit, and its tags.
fn visit(n: u64) -> (i64, [String; 3]) {
    ((n.wrapping_mul(7919) % USERS) as i64, [7, 11, 13].map(|of| format!("tag-{of}-{}", n % of)))
}

fn email(n: u64) -> String {
    // In no order.
    format!("user-{:09}@example.com", n.wrapping_mul(7919) % USERS)
}

fn treedb(count: u64, visits: u64) -> Result<TreeDbAnalytics> {
    let db = TreeDbAnalytics::new()?;
    db.fill("users", count, BATCH, |n| {
        rawdoc! {
            "_id": n as i64, "name": format!("user-{n:09}"), "email": email(n), "city": format!("city-{:02}", n % 64),
            "age": (n % 90) as i32, "score": (n % 1000) as f64 / 8.0, "pad": "01234567890123456789",
        }
    })?;
    db.fill("visits", visits, BATCH, |n| {
        let (user, tags) = visit(n);
        let mut array = RawArrayBuf::new();
        tags.into_iter().for_each(|tag| array.push(tag));
        rawdoc! { "_id": n as i64, "user": user, "amount": (n % 50) as i32, "tags": array }
    })?;
    db.checkpoint()?;
    Ok(db)
}

fn sqlite(data_dir: &DataDir, count: u64, visits: u64) -> Result<Connection> {
    let db = Connection::open(data_dir.path().join("db.sqlite"))?;
    db.execute_batch(
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1048576;
         PRAGMA mmap_size=1073741824; PRAGMA temp_store=MEMORY;
         CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL,
             age INTEGER NOT NULL, score REAL NOT NULL, pad TEXT NOT NULL);
         CREATE TABLE visits (id INTEGER PRIMARY KEY, user INTEGER NOT NULL, amount INTEGER NOT NULL, tags TEXT NOT NULL);
         BEGIN",
    )?;
    {
        let mut insert = db.prepare("INSERT INTO users VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
        for n in 0..count {
            let (name, city) = (format!("user-{n:09}"), format!("city-{:02}", n % 64));
            let (age, score) = ((n % 90) as i64, (n % 1000) as f64 / 8.0);
            insert.execute(params![n as i64, name, email(n), city, age, score, "01234567890123456789"])?;
        }
    }
    {
        let mut insert = db.prepare("INSERT INTO visits VALUES (?1, ?2, ?3, ?4)")?;
        for n in 0..visits {
            let (user, tags) = visit(n);
            let tags = tags.map(|tag| format!("\"{tag}\"")).join(",");
            insert.execute(params![n as i64, user, (n % 50) as i64, format!("[{tags}]")])?;
        }
    }
    db.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(db)
}

/// Runs a query in SQLite and returns a checksum of its result. All numbers are added as doubles.
fn select(db: &Connection, query: &Query) -> Result<u64> {
    use rusqlite::types::ValueRef;
    let mut select = db.prepare_cached(query.sql)?;
    let columns = select.column_count();
    let (mut found, mut checksum) = (select.query([])?, Checksum::default());
    while let Some(row) = found.next()? {
        for column in 0..columns {
            match row.get_ref(column)? {
                ValueRef::Text(text) => checksum.add(text),
                ValueRef::Integer(number) => checksum.add(&(number as f64).to_le_bytes()),
                ValueRef::Real(number) => checksum.add(&number.to_le_bytes()),
                _ => return Err("a result has an unexpected type".into()),
            }
        }
    }
    Ok(checksum.finish())
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (users, visits) = (scale.of(USERS), scale.of(VISITS));
    eprintln!("groups: filling");
    let treedb = treedb(users, visits)?;
    let data_dir = DataDir::new("sqlite-groups")?;
    let sqlite = sqlite(&data_dir, users, visits)?;
    let mut out = Vec::new();
    for (query, threads) in QUERIES.iter().flat_map(|query| [(query, Some(1)), (query, None)]) {
        let how = if threads.is_some() { "one thread" } else { "default threads" };
        let workload = format!("{}, {how}", query.name);
        if !scale.wants(&workload) {
            continue;
        }
        eprintln!("groups: {workload}");
        let count = if query.collection == "visits" { visits } else { users };
        let measure = |work: &dyn Fn() -> Result<u64>| match threads {
            Some(_) => Measurement::single_threaded(count, work),
            None => Measurement::wall_clock(count, work),
        };
        let aggregate = || treedb.aggregate(query.collection, (query.stages)(), query.memory, threads);
        let select = || select(&sqlite, query);
        let mut candidates = [
            Candidate { name: "TreeDB", run: Box::new(|_| measure(&aggregate)) },
            Candidate { name: "SQLite, columns", run: Box::new(|_| measure(&select)) },
        ];
        let samples = compare(Unit::NanosPerOp, scale.rounds, &mut candidates)?;
        out.extend(rows(&workload, DurabilityClass::Relaxed.label(), Unit::NanosPerOp, samples, GOALS));
    }
    out.extend(index_builds::run(scale, &treedb, &sqlite)?);
    Ok(out)
}
