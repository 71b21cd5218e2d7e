//! Groups, sorts and joins over a million documents beside SQLite's over native columns, and indexes created over them.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use rusqlite::{Connection, params};
use treedb_core::collection::{AggregateRequest, Collection, Database};
use treedb_storage::kv::{Durability, Options};

use super::{Scale, builds};
use crate::Result;
use crate::contest::{Answer, Side, Turn, Unit, contest};
use crate::report::{Goals, Row, rows};
use crate::sides::{Class, Folder};

pub(super) const ABOUT: &str = "A million people with a name, an address, one of 64 cities, an age, a score and a \
    filler, as documents that are not sealed and as rows of a table with native columns; no index but that of the key, \
    everything in memory; and 100,000 visits of theirs in no order, each with three tags (SQLite: a JSON text). The answer \
    is decoded inside the timer, and a checksum over it has to agree. One row says that TreeDB used one thread, as SQLite \
    does; the others let it use as many as it chooses. Figures are for each document of the collection that is begun with. \
    A stage may hold 1 GiB where nothing else is said. \
    Indexes are created over the same people while nobody else is there, and a range of each is counted through it, \
    which has to agree; SQLite may sort with as many threads as there are cores where TreeDB may read with as many (`PRAGMA threads`). \
    LMDB has the people as BSON under their numbers, reads a field of each, sorts the keys in memory and appends them to a sub-database, \
    with one thread. Logs are folded in outside the timer.";

const GOALS: Goals<'_> = &[("SQLite, columns", 1.0)];
const PEOPLE: u64 = 1_000_000;
const VISITS: u64 = 100_000;
const BATCH: u64 = 10_000;
const ROOMY: usize = 1 << 30;

/// A question: its name, TreeDB's stages and SQLite's statement. Each answer is a text or number and some numbers.
struct Question {
    name: &'static str,
    /// The collection that the stages begin with.
    over: &'static str,
    /// Bytes a stage may hold.
    memory: usize,
    stages: fn() -> Vec<RawDocumentBuf>,
    sql: &'static str,
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "match and group: count, mean and greatest of 64 cities",
        over: "people",
        memory: ROOMY,
        stages: || {
            vec![
                rawdoc! { "$match": { "age": { "$gte": 18 } } },
                rawdoc! { "$group": { "_id": "$city", "n": { "$sum": 1 }, "mean": { "$avg": "$score" }, "most": { "$max": "$age" } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT city, count(*), avg(score), max(age) FROM people WHERE age >= 18 GROUP BY city ORDER BY city",
    },
    Question {
        name: "group: sum of 90 ages",
        over: "people",
        memory: ROOMY,
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$age", "sum": { "$sum": "$score" } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT age, sum(score) FROM people GROUP BY age ORDER BY age",
    },
    Question {
        name: "group: every document a group of its own, the first ten",
        over: "people",
        memory: ROOMY,
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$email", "sum": { "$sum": "$age" } } },
                rawdoc! { "$sort": { "_id": 1 } },
                rawdoc! { "$limit": 10 },
            ]
        },
        sql: "SELECT email, sum(age) FROM people GROUP BY email ORDER BY email LIMIT 10",
    },
    Question {
        name: "group: every document a group of its own, the first ten, in 100 MB (default) and scratch files",
        over: "people",
        memory: treedb_query::aggregate::DEFAULT_MEMORY_LIMIT,
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$email", "sum": { "$sum": "$age" }, "mean": { "$avg": "$score" }, "who": { "$first": "$name" } } },
                rawdoc! { "$sort": { "_id": 1 } },
                rawdoc! { "$limit": 10 },
            ]
        },
        sql: "SELECT email, sum(age), avg(score), name FROM people GROUP BY email ORDER BY email LIMIT 10",
    },
    Question {
        name: "sort: the first ten by an address",
        over: "people",
        memory: ROOMY,
        stages: || {
            vec![
                rawdoc! { "$sort": { "email": 1 } },
                rawdoc! { "$limit": 10 },
                rawdoc! { "$project": { "_id": 0, "email": 1, "age": 1 } },
            ]
        },
        sql: "SELECT email, age FROM people ORDER BY email LIMIT 10",
    },
    Question {
        name: "unwind and group: count of 31 tags (SQLite: json_each)",
        over: "visits",
        memory: ROOMY,
        stages: || {
            vec![
                rawdoc! { "$unwind": "$tags" },
                rawdoc! { "$group": { "_id": "$tags", "n": { "$sum": 1 } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT t.value, count(*) FROM visits, json_each(visits.tags) AS t GROUP BY t.value ORDER BY t.value",
    },
    Question {
        name: "lookup by the key of a million and group: sum of 64 cities",
        over: "visits",
        memory: ROOMY,
        stages: || {
            vec![
                rawdoc! { "$lookup": { "from": "people", "localField": "person", "foreignField": "_id", "as": "person" } },
                rawdoc! { "$unwind": "$person" },
                rawdoc! { "$group": { "_id": "$person.city", "sum": { "$sum": "$amount" } } },
                rawdoc! { "$sort": { "_id": 1 } },
            ]
        },
        sql: "SELECT people.city, sum(amount) FROM visits JOIN people ON people.id = visits.person GROUP BY people.city \
              ORDER BY people.city",
    },
];

/// The number of the person of a visit, and its tags.
fn visit(n: u64) -> (i64, [String; 3]) {
    ((n.wrapping_mul(7919) % PEOPLE) as i64, [7, 11, 13].map(|of| format!("tag-{of}-{}", n % of)))
}

fn email(n: u64) -> String {
    // In no order.
    format!("user-{:09}@example.com", n.wrapping_mul(7919) % PEOPLE)
}

fn treedb(folder: &Folder, count: u64, visits: u64) -> Result<Database> {
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(folder.path().join("db"), options)?;
    let person = |n: u64| {
        rawdoc! {
            "_id": n as i64, "name": format!("user-{n:09}"), "email": email(n), "city": format!("city-{:02}", n % 64),
            "age": (n % 90) as i32, "score": (n % 1000) as f64 / 8.0, "pad": "01234567890123456789",
        }
    };
    let visit = |n: u64| {
        let (person, tags) = visit(n);
        let mut all = RawArrayBuf::new();
        tags.into_iter().for_each(|tag| all.push(tag));
        rawdoc! { "_id": n as i64, "person": person, "amount": (n % 50) as i32, "tags": all }
    };
    fill(&db.collection("bench.people")?, count, person)?;
    fill(&db.collection("bench.visits")?, visits, visit)?;
    db.checkpoint()?;
    Ok(db)
}

fn fill(collection: &Collection, count: u64, document: impl Fn(u64) -> RawDocumentBuf) -> Result<()> {
    for start in (0..count).step_by(BATCH as usize) {
        let batch: Vec<RawDocumentBuf> = (start..(start + BATCH).min(count)).map(&document).collect();
        if let Some((_, error)) = collection.insert_many(&batch, true)?.errors.into_iter().next() {
            return Err(error.into());
        }
    }
    Ok(())
}

fn sqlite(folder: &Folder, count: u64, visits: u64) -> Result<Connection> {
    let db = Connection::open(folder.path().join("db.sqlite"))?;
    db.execute_batch(
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1048576;
         PRAGMA mmap_size=1073741824; PRAGMA temp_store=MEMORY;
         CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL,
             age INTEGER NOT NULL, score REAL NOT NULL, pad TEXT NOT NULL);
         CREATE TABLE visits (id INTEGER PRIMARY KEY, person INTEGER NOT NULL, amount INTEGER NOT NULL, tags TEXT NOT NULL);
         BEGIN",
    )?;
    {
        let mut insert = db.prepare("INSERT INTO people VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
        for n in 0..count {
            let (name, city) = (format!("user-{n:09}"), format!("city-{:02}", n % 64));
            let (age, score) = ((n % 90) as i64, (n % 1000) as f64 / 8.0);
            insert.execute(params![n as i64, name, email(n), city, age, score, "01234567890123456789"])?;
        }
    }
    {
        let mut insert = db.prepare("INSERT INTO visits VALUES (?1, ?2, ?3, ?4)")?;
        for n in 0..visits {
            let (person, tags) = visit(n);
            let tags = tags.map(|tag| format!("\"{tag}\"")).join(",");
            insert.execute(params![n as i64, person, (n % 50) as i64, format!("[{tags}]")])?;
        }
    }
    db.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(db)
}

/// TreeDB's answer. All numbers are compared as doubles.
fn asked(db: &Database, question: &Question, threads: Option<usize>) -> Result<u64> {
    let mut request = AggregateRequest::new((question.stages)());
    request.memory = question.memory;
    request.threads = threads;
    let mut answer = Answer::default();
    for document in db.aggregate(&format!("bench.{}", question.over), &request)? {
        for field in &document? {
            let (_, value) = field?;
            match (value.as_str(), value.as_i32(), value.as_i64(), value.as_f64()) {
                (Some(text), ..) => answer.add(text.as_bytes()),
                (_, Some(number), ..) => answer.add(&f64::from(number).to_le_bytes()),
                (_, _, Some(number), _) => answer.add(&(number as f64).to_le_bytes()),
                (.., Some(number)) => answer.add(&number.to_le_bytes()),
                _ => return Err("an answer of another type".into()),
            }
        }
    }
    Ok(answer.finish())
}

fn selected(db: &Connection, question: &Question) -> Result<u64> {
    use rusqlite::types::ValueRef;
    let mut select = db.prepare_cached(question.sql)?;
    let columns = select.column_count();
    let (mut found, mut answer) = (select.query([])?, Answer::default());
    while let Some(row) = found.next()? {
        for column in 0..columns {
            match row.get_ref(column)? {
                ValueRef::Text(text) => answer.add(text),
                ValueRef::Integer(number) => answer.add(&(number as f64).to_le_bytes()),
                ValueRef::Real(number) => answer.add(&number.to_le_bytes()),
                _ => return Err("an answer of another type".into()),
            }
        }
    }
    Ok(answer.finish())
}

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let (people, visits) = (scale.of(PEOPLE), scale.of(VISITS));
    eprintln!("groups: filling");
    let folders = (Folder::new("treedb-groups")?, Folder::new("sqlite-groups")?);
    let db = treedb(&folders.0, people, visits)?;
    let other = sqlite(&folders.1, people, visits)?;
    let mut out = Vec::new();
    for (question, threads) in QUESTIONS.iter().flat_map(|question| [(question, Some(1)), (question, None)]) {
        let how = if threads.is_some() { "one thread" } else { "as many threads as it chooses" };
        let workload = format!("{}, {how}", question.name);
        if !scale.wants(&workload) {
            continue;
        }
        eprintln!("groups: {workload}");
        let count = if question.over == "visits" { visits } else { people };
        let mut sides = [
            Side {
                name: "TreeDB",
                turn: Box::new(|_| {
                    let work = || asked(&db, question, threads);
                    if threads.is_some() { Turn::single(count, work) } else { Turn::timed(count, work) }
                }),
            },
            Side {
                name: "SQLite, columns",
                turn: Box::new(|_| {
                    let work = || selected(&other, question);
                    if threads.is_some() { Turn::single(count, work) } else { Turn::timed(count, work) }
                }),
            },
        ];
        let figures = contest(Unit::NanosPerOp, scale.rounds, &mut sides)?;
        out.extend(rows(&workload, Class::Relaxed.label(), Unit::NanosPerOp, figures, GOALS));
    }
    out.extend(builds::run(scale, &db, &other)?);
    Ok(out)
}
