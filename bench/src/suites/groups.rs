//! Groups over a million documents beside SQLite's `GROUP BY` over native columns.

use bson::{RawDocumentBuf, rawdoc};
use rusqlite::{Connection, params};
use treedb_core::collection::{AggregateRequest, Collection, Database};
use treedb_core::kv::{Durability, Options};

use super::Scale;
use crate::Result;
use crate::contest::{Answer, Side, Turn, Unit, contest};
use crate::report::{Goals, Row, rows};
use crate::sides::{Class, Folder};

pub(super) const ABOUT: &str = "A million people with a name, an address, one of 64 cities, an age, a score and a \
    filler, as documents that are not sealed and as rows of a table with native columns; no index but that of the key, \
    everything in memory. The answer is decoded inside the timer, and a checksum over it has to agree. One row says that \
    TreeDB used one thread, as SQLite does; the others let it use as many as it chooses.";

const GOALS: Goals<'_> = &[("SQLite, columns", 1.0)];
const PEOPLE: u64 = 1_000_000;
const BATCH: u64 = 10_000;

/// A question: its name, TreeDB's stages and SQLite's statement. Each answer is a text or number and some numbers.
struct Question {
    name: &'static str,
    stages: fn() -> Vec<RawDocumentBuf>,
    sql: &'static str,
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "match and group: count, mean and greatest of 64 cities",
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
        stages: || {
            vec![
                rawdoc! { "$group": { "_id": "$email", "sum": { "$sum": "$age" } } },
                rawdoc! { "$sort": { "_id": 1 } },
                rawdoc! { "$limit": 10 },
            ]
        },
        sql: "SELECT email, sum(age) FROM people GROUP BY email ORDER BY email LIMIT 10",
    },
];

fn email(n: u64) -> String {
    // In no order.
    format!("user-{:09}@example.com", n.wrapping_mul(7919) % PEOPLE)
}

fn treedb(folder: &Folder, count: u64) -> Result<(Database, Collection)> {
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    let db = Database::open_with(folder.path().join("db"), options)?;
    let people = db.collection("bench.people")?;
    for start in (0..count).step_by(BATCH as usize) {
        let person = |n: u64| {
            rawdoc! {
                "_id": n as i64, "name": format!("user-{n:09}"), "email": email(n), "city": format!("city-{:02}", n % 64),
                "age": (n % 90) as i32, "score": (n % 1000) as f64 / 8.0, "pad": "01234567890123456789",
            }
        };
        let batch: Vec<RawDocumentBuf> = (start..(start + BATCH).min(count)).map(person).collect();
        if let Some((_, error)) = people.insert_many(&batch, true)?.errors.into_iter().next() {
            return Err(error.into());
        }
    }
    db.checkpoint()?;
    Ok((db, people))
}

fn sqlite(folder: &Folder, count: u64) -> Result<Connection> {
    let db = Connection::open(folder.path().join("db.sqlite"))?;
    db.execute_batch(
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1048576;
         PRAGMA mmap_size=1073741824; PRAGMA temp_store=MEMORY;
         CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL,
             age INTEGER NOT NULL, score REAL NOT NULL, pad TEXT NOT NULL); BEGIN",
    )?;
    {
        let mut insert = db.prepare("INSERT INTO people VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
        for n in 0..count {
            let (name, city) = (format!("user-{n:09}"), format!("city-{:02}", n % 64));
            let (age, score) = ((n % 90) as i64, (n % 1000) as f64 / 8.0);
            insert.execute(params![n as i64, name, email(n), city, age, score, "01234567890123456789"])?;
        }
    }
    db.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(db)
}

/// TreeDB's answer. All numbers are compared as doubles.
fn asked(people: &Collection, question: &Question, threads: Option<usize>) -> Result<u64> {
    let mut request = AggregateRequest::new((question.stages)());
    request.memory = 1 << 30;
    request.threads = threads;
    let mut answer = Answer::default();
    for document in people.aggregate(&request)? {
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
    let count = scale.of(PEOPLE);
    eprintln!("groups: filling");
    let folders = (Folder::new("treedb-groups")?, Folder::new("sqlite-groups")?);
    let (_db, people) = treedb(&folders.0, count)?;
    let other = sqlite(&folders.1, count)?;
    let mut out = Vec::new();
    for (question, threads) in QUESTIONS.iter().flat_map(|question| [(question, Some(1)), (question, None)]) {
        let how = if threads.is_some() { "one thread" } else { "as many threads as it chooses" };
        let workload = format!("{}, {how}", question.name);
        if !scale.wants(&workload) {
            continue;
        }
        eprintln!("groups: {workload}");
        let mut sides = [
            Side {
                name: "TreeDB",
                turn: Box::new(|_| {
                    let work = || asked(&people, question, threads);
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
    Ok(out)
}
