//! A collection of the Postgres extension compared with a heap table of jsonb under the server's own indexes.
//!
//! Each workload is one statement, prepared once and executed again and again through libpq over a Unix socket, so that a
//! round trip counts on both sides. Parameters and rows are in text: a filter is a parameter of type `bson` or `jsonb`, and
//! arrives as JSON. What both sides return is compared before each round.

use std::ffi::CString;

use bench_common::Random;

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Samples, Unit, compare};
use crate::engines::{Postgres, WARM_UP};
use crate::report::{Goals, Row, THE_GOAL, progress, rows};

const DURABILITY: &str = super::pg::DURABILITY;

/// Names of the sides.
const OURS: &str = "TreeDB";
const BTREE: &str = "jsonb, btree";
const GIN: &str = "jsonb, GIN";
/// The statement that a call stands for, over the same table.
const SQL: &str = "its SQL";

/// Documents of the collection `c`, of `k`, which has an index in the order of a sort, the table `j` under btrees and the table `g` under GIN.
const TABLES: &str = r#"
CREATE FUNCTION document(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format('{"_id": %s, "n": %s, "g": %s, "a": %s, "b": %s, "v": %s, "name": "%s", "tags": ["t%s", "t%s"], "at": {"x": %s, "y": "%s"}}',
        n, shuffled(n), n % GROUPS, shuffled(n) % 100, (n * 7919) % 50, n % 1000, md5(n::text), n % 40, n % 7, n % 90, left(md5((n + 1)::text), 12)) $$;
CREATE TABLE source AS SELECT document(n) AS doc, n FROM generate_series(1, SIZE) n;
CREATE TABLE keys AS SELECT row_number() OVER () AS i, shuffled(n) AS n FROM generate_series(1, SIZE) n;
CREATE TABLE orders AS SELECT n AS i, shuffled(1 + n * 7) AS n FROM generate_series(0, SIZE / 8) n;
CREATE INDEX orders_i ON orders (i);
SELECT treedb.create_collection('c');
INSERT INTO c SELECT doc::treedb.bson FROM source;
SELECT treedb.create_index('c', '{"n": 1}'), treedb.create_index('c', '{"g": 1}'), treedb.create_index('c', '{"a": 1}'), treedb.create_index('c', '{"b": 1}');
SELECT treedb.create_collection('k');
INSERT INTO k SELECT doc::treedb.bson FROM source;
SELECT treedb.create_index('k', '{"g": 1, "n": 1}');
CREATE TABLE j (doc jsonb NOT NULL) USING heap;
INSERT INTO j SELECT doc::jsonb FROM source;
CREATE UNIQUE INDEX j_id ON j (((doc ->> '_id')::int));
CREATE INDEX j_n ON j (((doc ->> 'n')::int));
CREATE INDEX j_g ON j (((doc ->> 'g')::int));
CREATE INDEX j_a ON j (((doc ->> 'a')::int));
CREATE INDEX j_b ON j (((doc ->> 'b')::int));
CREATE TABLE g (doc jsonb NOT NULL) USING heap;
INSERT INTO g SELECT doc::jsonb FROM source;
CREATE INDEX g_doc ON g USING gin (doc jsonb_path_ops) WITH (fastupdate = off);
VACUUM ANALYZE;
"#;

/// Empty tables for COPY and INSERT with four indexes and that on `_id`.
const FILLED: &str = r#"
SELECT treedb.create_collection('fc');
SELECT treedb.create_index('fc', '{"n": 1}'), treedb.create_index('fc', '{"g": 1}'), treedb.create_index('fc', '{"a": 1}'), treedb.create_index('fc', '{"name": 1}');
CREATE TABLE fj (doc jsonb NOT NULL) USING heap;
CREATE UNIQUE INDEX fj_id ON fj (((doc ->> '_id')::int));
CREATE INDEX fj_n ON fj (((doc ->> 'n')::int));
CREATE INDEX fj_g ON fj (((doc ->> 'g')::int));
CREATE INDEX fj_a ON fj (((doc ->> 'a')::int));
CREATE INDEX fj_name ON fj ((doc ->> 'name'));
"#;

/// A side: its name, its statement, and the statement's parameters. In these `<k>` is a random number, `<n>` a random value of
/// the field `n`, `<n+>` one of which so many of 200,000 documents lie as [`BETWEEN`] says, and `<k+100>`, `<k-1>` and `<k%50>` are
/// computed from `<k>`.
type Side = (&'static str, &'static str, &'static [&'static str]);

/// A statement of each side.
struct Workload {
    name: &'static str,
    /// How often it is executed in a round.
    times: u64,
    /// The greatest value of `<k>`.
    keys: u64,
    /// How many parallel workers a statement may have.
    workers: u32,
    sides: &'static [Side],
    goals: Goals<'static>,
    /// The microseconds that one execution may take, if it is compared with a number.
    target: Option<f64>,
}

/// How many values the field `n` may have: 0 and more.
const VALUES: u64 = 2_147_483_647;
/// How many of 200,000 documents are in a range of that field.
const BETWEEN: u64 = 100;

/// Documents per value of `g`.
const PER_GROUP: u64 = 1_000;

/// Each execution has a connection of its own, whose process has loaded nothing yet.
const FIRST: Workload = Workload {
    name: "connect and find one document",
    times: 50,
    keys: 200_000,
    workers: 0,
    sides: &[
        (OURS, "SELECT doc FROM treedb.find('c', $1) doc", &[r#"{"n": <n>}"#]),
        (BTREE, "SELECT doc FROM j WHERE (doc ->> 'n')::int = $1", &["<n>"]),
    ],
    goals: &[],
    target: None,
};

const READS: &[Workload] = &[
    Workload {
        name: "find: one document by an indexed field",
        times: 3_000,
        keys: 200_000,
        workers: 0,
        sides: &[
            (OURS, "SELECT doc FROM treedb.find('c', $1) doc", &[r#"{"n": <n>}"#]),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'n')::int = $1", &["<n>"]),
        ],
        goals: &[(BTREE, 1.0)],
        target: None,
    },
    Workload {
        name: "doc @@ filter: one document by an indexed field",
        times: 3_000,
        keys: 200_000,
        workers: 0,
        sides: &[
            (OURS, "SELECT doc FROM c WHERE doc OPERATOR(treedb.@@) $1::treedb.bson", &[r#"{"n": <n>}"#]),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'n')::int = $1", &["<n>"]),
        ],
        goals: &[(BTREE, 1.0)],
        target: None,
    },
    Workload {
        name: "find: 100 documents in a range of _id",
        times: 400,
        keys: 199_000,
        workers: 0,
        sides: &[
            (
                OURS,
                "SELECT doc FROM treedb.find('c', $1) doc",
                &[r#"{"_id": {"$gte": <k>, "$lt": <k+100>}}"#],
            ),
            (
                BTREE,
                "SELECT doc FROM j WHERE (doc ->> '_id')::int >= $1 AND (doc ->> '_id')::int < $1 + 100",
                &["<k>"],
            ),
        ],
        goals: &[(BTREE, 1.3)],
        target: None,
    },
    Workload {
        name: "find: 100 documents in a range of an indexed field",
        times: 400,
        keys: 200_000,
        workers: 0,
        sides: &[
            (OURS, "SELECT doc FROM treedb.find('c', $1) doc", &[r#"{"n": {"$gte": <n>, "$lt": <n+>}}"#]),
            (
                BTREE,
                "SELECT doc FROM j WHERE (doc ->> 'n')::int >= $1 AND (doc ->> 'n')::int < $2",
                &["<n>", "<n+>"],
            ),
        ],
        goals: &[(BTREE, 1.3)],
        target: None,
    },
    Workload {
        name: "find: the first ten from a value on",
        times: 2_000,
        keys: 200_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('c', $1, '{"sort": {"n": 1}, "limit": 10}') doc"#,
                &[r#"{"n": {"$gte": <n>}}"#],
            ),
            (
                BTREE,
                "SELECT doc FROM j WHERE (doc ->> 'n')::int >= $1 ORDER BY (doc ->> 'n')::int LIMIT 10",
                &["<n>"],
            ),
        ],
        goals: &[(BTREE, 1.0)],
        target: None,
    },
    Workload {
        name: "find: the first ten of a group in the order of another field",
        times: 200,
        keys: 200,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('c', $1, '{"sort": {"n": 1}, "limit": 10}') doc"#,
                &[r#"{"g": <k-1>}"#],
            ),
            (
                GIN,
                "SELECT doc FROM g WHERE doc @> $1::jsonb ORDER BY (doc ->> 'n')::int LIMIT 10",
                &[r#"{"g": <k-1>}"#],
            ),
        ],
        goals: &[],
        target: None,
    },
    Workload {
        name: "find: the same by an index on both fields",
        times: 1_000,
        keys: 200,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('k', $1, '{"sort": {"n": 1}, "limit": 10}') doc"#,
                &[r#"{"g": <k-1>}"#],
            ),
            (
                GIN,
                "SELECT doc FROM g WHERE doc @> $1::jsonb ORDER BY (doc ->> 'n')::int LIMIT 10",
                &[r#"{"g": <k-1>}"#],
            ),
        ],
        goals: &[(GIN, 20.0)],
        target: None,
    },
    Workload {
        name: "count of 1,000 documents",
        times: 200,
        keys: 200,
        workers: 0,
        sides: &[
            (OURS, "SELECT treedb.count('c', $1) AS doc", &[r#"{"g": <k-1>}"#]),
            (BTREE, "SELECT count(*) AS doc FROM j WHERE (doc ->> 'g')::int = $1", &["<k-1>"]),
        ],
        goals: &[(BTREE, 1.3)],
        target: None,
    },
    Workload {
        name: "find: two predicates, 40 documents",
        times: 200,
        keys: 100,
        workers: 0,
        sides: &[
            (OURS, "SELECT doc FROM treedb.find('c', $1) doc", &[r#"{"a": <k-1>, "b": <k%50>}"#]),
            (
                BTREE,
                "SELECT doc FROM j WHERE (doc ->> 'a')::int = $1 AND (doc ->> 'b')::int = $2",
                &["<k-1>", "<k%50>"],
            ),
            (GIN, "SELECT doc FROM g WHERE doc @> $1::jsonb", &[r#"{"a": <k-1>, "b": <k%50>}"#]),
        ],
        goals: &[(BTREE, 1.0), (GIN, 1.0)],
        target: None,
    },
    Workload {
        name: "doc @@ filter: two predicates, 40 documents",
        times: 200,
        keys: 100,
        workers: 0,
        sides: &[
            (
                OURS,
                "SELECT doc FROM c WHERE doc OPERATOR(treedb.@@) $1::treedb.bson",
                &[r#"{"a": <k-1>, "b": <k%50>}"#],
            ),
            (
                BTREE,
                "SELECT doc FROM j WHERE (doc ->> 'a')::int = $1 AND (doc ->> 'b')::int = $2",
                &["<k-1>", "<k%50>"],
            ),
            (GIN, "SELECT doc FROM g WHERE doc @> $1::jsonb", &[r#"{"a": <k-1>, "b": <k%50>}"#]),
        ],
        goals: &[(BTREE, 1.0), (GIN, 1.0)],
        target: None,
    },
    Workload {
        name: "count by two predicates, 40 documents",
        times: 200,
        keys: 100,
        workers: 0,
        sides: &[
            (OURS, "SELECT treedb.count('c', $1) AS doc", &[r#"{"a": <k-1>, "b": <k%50>}"#]),
            (
                BTREE,
                "SELECT count(*) AS doc FROM j WHERE (doc ->> 'a')::int = $1 AND (doc ->> 'b')::int = $2",
                &["<k-1>", "<k%50>"],
            ),
            (GIN, "SELECT count(*) AS doc FROM g WHERE doc @> $1::jsonb", &[r#"{"a": <k-1>, "b": <k%50>}"#]),
        ],
        goals: &[(BTREE, 1.0), (GIN, 1.0)],
        target: None,
    },
    Workload {
        name: "join of 20 rows with find",
        times: 300,
        keys: 20_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT o.i, doc FROM orders o, treedb.find('c', format('{"n": %s}', o.n)::treedb.bson) doc WHERE o.i >= $1 AND o.i < $1 + 20"#,
                &["<k>"],
            ),
            (
                BTREE,
                "SELECT o.i, doc FROM orders o, j WHERE (doc ->> 'n')::int = o.n AND o.i >= $1 AND o.i < $1 + 20",
                &["<k>"],
            ),
        ],
        goals: &[(BTREE, 1.0 / 1.2)],
        target: None,
    },
    Workload {
        name: "join of 20 rows with doc @@ filter",
        times: 300,
        keys: 20_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT o.i, doc FROM orders o JOIN c ON doc OPERATOR(treedb.@@) format('{"n": %s}', o.n)::treedb.bson WHERE o.i >= $1 AND o.i < $1 + 20"#,
                &["<k>"],
            ),
            (
                BTREE,
                "SELECT o.i, doc FROM orders o, j WHERE (doc ->> 'n')::int = o.n AND o.i >= $1 AND o.i < $1 + 20",
                &["<k>"],
            ),
        ],
        goals: &[(BTREE, 1.0 / 1.2)],
        target: None,
    },
    Workload {
        name: "find: LIMIT 1 of all documents",
        times: 3_000,
        keys: 1,
        workers: 0,
        sides: &[
            (OURS, "SELECT doc FROM treedb.find('c') doc LIMIT 1", &[]),
            (BTREE, "SELECT doc FROM j LIMIT 1", &[]),
        ],
        goals: &[(THE_GOAL, 1.0)],
        target: Some(100.0),
    },
    Workload { name: "sums of 100 groups of all documents", workers: 0, ..GROUPS },
    Workload { name: "sums of 100 groups of all documents, 1 worker", workers: 1, ..GROUPS },
    Workload { name: "sums of 100 groups of all documents, 2 workers", workers: 2, ..GROUPS },
];

/// A group of all documents, with as many workers as the workloads say that are made of it.
const GROUPS: Workload = Workload {
    name: "",
    times: 1,
    keys: 1,
    workers: 0,
    sides: &[
        (
            OURS,
            r#"SELECT treedb.get_text(doc, 's')::bigint + treedb.get_text(doc, '_id')::int AS doc FROM treedb.aggregate('c', '[{"$group": {"_id": "$a", "s": {"$sum": "$v"}}}]') doc"#,
            &[],
        ),
        (
            BTREE,
            "SELECT sum((doc ->> 'v')::int) + (doc ->> 'a')::int AS doc FROM j GROUP BY (doc ->> 'a')::int",
            &[],
        ),
    ],
    goals: &[(BTREE, 1.2)],
    target: None,
};

/// What a change of one document does on both sides.
const UPDATE: Workload = Workload {
    name: "update_one by _id",
    times: 1_000,
    keys: 200_000,
    workers: 0,
    sides: &[
        (
            OURS,
            r#"SELECT treedb.update_one('c', $1, '{"$inc": {"v": 1}}') IS NOT NULL AS doc"#,
            &[r#"{"_id": <k>}"#],
        ),
        (
            BTREE,
            "UPDATE j SET doc = jsonb_set(doc, '{v}', to_jsonb((doc ->> 'v')::int + 1)) WHERE (doc ->> '_id')::int = $1",
            &["<k>"],
        ),
    ],
    goals: &[(BTREE, 1.0 / 1.1)],
    target: None,
};

/// Calls in a SELECT list, which are not planned as what they stand for, beside the statement that a user would write instead. The
/// target is how many microseconds longer a call may take.
const CALLS: &[Workload] = &[
    Workload {
        name: "find of one document in a SELECT list",
        sides: &[
            (OURS, "SELECT treedb.find('c', $1) AS doc", &[r#"{"n": <n>}"#]),
            (SQL, "SELECT doc FROM c WHERE doc OPERATOR(treedb.@@) $1::treedb.bson", &[r#"{"n": <n>}"#]),
        ],
        ..CALL
    },
    Workload {
        name: "count of one document in a SELECT list",
        sides: &[
            (OURS, "SELECT treedb.count('c', $1) AS doc", &[r#"{"n": <n>}"#]),
            (
                SQL,
                "SELECT count(*) AS doc FROM c WHERE doc OPERATOR(treedb.@@) $1::treedb.bson",
                &[r#"{"n": <n>}"#],
            ),
        ],
        ..CALL
    },
    // The statement writes the document as it was: a new version, for which nothing has to be computed.
    Workload {
        name: "find_one_and_update by _id",
        sides: &[
            (
                OURS,
                r#"SELECT treedb.find_one_and_update('c', $1, '{"$inc": {"v": 1}}') AS doc"#,
                &[r#"{"_id": <k>}"#],
            ),
            (
                SQL,
                "UPDATE c SET doc = doc WHERE doc OPERATOR(treedb.@@) $1::treedb.bson RETURNING doc",
                &[r#"{"_id": <k>}"#],
            ),
        ],
        ..CALL
    },
];

/// What they have in common.
const CALL: Workload = Workload {
    name: "",
    times: 3_000,
    keys: 200_000,
    workers: 0,
    sides: &[],
    goals: &[],
    target: Some(15.0),
};

/// A number that depends on what a statement returns, but not on the order or on how a document is written.
const CHECKSUM: &str = "SELECT coalesce(sum(('x' || left(md5((CASE WHEN left(d, 1) = '{' THEN d::jsonb ->> '_id' ELSE d END)), 15))::bit(60)::bigint), 0) \
    FROM (SELECT doc::text AS d FROM ($STATEMENT) answer) texts;";

/// Adds the workloads to `out`.
pub(super) fn run(pg: &Postgres, scale: Scale, out: &mut Vec<Row>) -> Result<()> {
    let size = scale.of(200_000);
    let groups = (size / PER_GROUP).max(1).to_string();
    let sized = |sql: &str| sql.replace("SIZE", &size.to_string()).replace("GROUPS", &groups);
    pg.run(&sized(TABLES))?;
    for workload in READS.iter().chain([&FIRST]) {
        measure(pg, scale, size, workload, out)?;
    }
    pg.run(FILLED)?;
    fill(pg, scale, out)?;
    measure(pg, scale, size, &UPDATE, out)?;
    for call in CALLS {
        measure_call(pg, scale, size, call, out)?;
    }
    Ok(())
}

/// Adds rows to `out`.
fn add(name: &str, samples: Vec<Samples>, goals: Goals<'_>, out: &mut Vec<Row>) {
    for row in rows(name, DURABILITY, Unit::Microseconds, samples, goals) {
        progress(&row);
        out.push(row);
    }
}

/// Runs one workload.
fn measure(pg: &Postgres, scale: Scale, size: u64, workload: &Workload, out: &mut Vec<Row>) -> Result<()> {
    if scale.wants(workload.name) {
        let mut samples = sample(pg, scale, size, workload)?;
        samples.extend(workload.target.map(Samples::target));
        add(workload.name, samples, workload.goals, out);
    }
    Ok(())
}

/// Runs a call and its statement; adds how long they take, and by how much the call takes longer.
fn measure_call(pg: &Postgres, scale: Scale, size: u64, call: &Workload, out: &mut Vec<Row>) -> Result<()> {
    /// A call that is not slower counts as this many microseconds: a ratio to a target needs more than 0.
    const LEAST: f64 = 0.1;
    if !scale.wants(call.name) {
        return Ok(());
    }
    let samples = sample(pg, scale, size, call)?;
    if let [ours, sql] = &samples[..] {
        let more = ours.rounds.iter().zip(&sql.rounds).map(|(ours, sql)| (ours - sql).max(LEAST));
        let mut cost = vec![Samples { name: OURS, rounds: more.collect() }];
        cost.extend(call.target.map(Samples::target));
        add(&format!("{}: longer than its SQL", call.name), cost, &[(THE_GOAL, 1.0)], out);
    }
    add(call.name, samples, call.goals, out);
    Ok(())
}

/// The samples of each side of a workload.
fn sample(pg: &Postgres, scale: Scale, size: u64, workload: &Workload) -> Result<Vec<Samples>> {
    eprintln!("pg: {}", workload.name);
    let times = scale.of(workload.times);
    let is_first = workload.name == FIRST.name;
    let warm_up = if is_first { 0 } else { WARM_UP };
    let keys = (workload.keys * size / 200_000).max(1);
    let changes = workload.sides.iter().any(|(_, statement, _)| statement.starts_with("UPDATE"));
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (name, statement, parameters) in workload.sides {
        let run = move |round| -> Result<Measurement> {
            let checksum = match changes {
                true => None,
                false => Some(checked(pg, statement, parameters, keys, round)?),
            };
            let values =
                |key| parameters.iter().map(|parameter| CString::new(value_of(parameter, key))).collect();
            let all: std::result::Result<Vec<Vec<CString>>, _> =
                keys_of(keys, round).skip(CHECKS).take(times as usize + warm_up).map(values).collect();
            let spent = match is_first {
                true => pg.execute_first(statement, &all?)?,
                false => pg.execute(statement, &all?, workload.workers)?,
            };
            Ok(Measurement { ops: times, spent, checksum })
        };
        candidates.push(Candidate { name, run: Box::new(run) });
    }
    compare(Unit::Microseconds, scale.rounds, &mut candidates)
}

/// What stands for `<k>` in the executions of a round.
fn keys_of(keys: u64, round: u64) -> impl Iterator<Item = u64> {
    Random::new(round + 1, keys).map(|key| key + 1)
}

/// A parameter with the values that belong to `key`.
fn value_of(parameter: &str, key: u64) -> String {
    // `shuffled` of SQL.
    let value = key * 2_654_435_761 % VALUES;
    let values = [
        ("<k>", key),
        ("<n>", value),
        ("<n+>", (value + VALUES * BETWEEN / 200_000).min(VALUES)),
        ("<k+100>", key + 100),
        ("<k-1>", key - 1),
        ("<k%50>", key % 50),
    ];
    values.iter().fold(parameter.to_owned(), |text, (name, value)| text.replace(name, &value.to_string()))
}

/// How many executions of a round are checked.
const CHECKS: usize = 5;

/// The sum of the checksums of a statement with several values, which depend on the round.
fn checked(pg: &Postgres, statement: &str, parameters: &[&str], keys: u64, round: u64) -> Result<u64> {
    let one = |key| {
        let mut statement = statement.to_owned();
        for (number, parameter) in parameters.iter().enumerate() {
            statement =
                statement.replace(&format!("${}", number + 1), &format!("'{}'", value_of(parameter, key)));
        }
        CHECKSUM.replace("$STATEMENT", &statement)
    };
    let sums = pg.run(&keys_of(keys, round).take(CHECKS).map(one).collect::<String>())?;
    let sum = |sum: &str| sum.parse::<i128>().map_err(|_| format!("{statement}: checksum {sum:?}"));
    sums.lines().try_fold(0_u64, |total, line| Ok(total.wrapping_add(sum(line)? as u64)))
}

/// Fills tables with four indexes and one on `_id`, by COPY.
fn fill(pg: &Postgres, scale: Scale, out: &mut Vec<Row>) -> Result<()> {
    let count = scale.of(20_000);
    let file = pg.file("documents.txt");
    pg.run(&format!("COPY (SELECT doc FROM source ORDER BY n LIMIT {count}) TO '{file}'"))?;
    for (name, unit, function) in [
        ("COPY with five indexes", Unit::Microseconds, "timed"),
        ("WAL of COPY with five indexes", Unit::BytesPerDocument, "logged"),
    ] {
        if !scale.wants(name) {
            continue;
        }
        eprintln!("pg: {name}");
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for (side, table) in [(OURS, "fc"), (BTREE, "fj")] {
            let sql =
                format!("TRUNCATE {table}; CHECKPOINT; SELECT {function}($$COPY {table} FROM '{file}'$$);");
            let counted = format!("SELECT count(*) FROM {table}");
            let run = move |_| -> Result<Measurement> {
                let measured = pg.measure(count, &sql)?;
                let rows = pg.run(&counted)?.parse().map_err(|_| "no number of rows")?;
                Ok(Measurement { checksum: Some(rows), ..measured })
            };
            candidates.push(Candidate { name: side, run: Box::new(run) });
        }
        let samples = compare(unit, scale.rounds, &mut candidates)?;
        for row in rows(name, DURABILITY, unit, samples, &[(BTREE, 1.0 / 1.5)]) {
            progress(&row);
            out.push(row);
        }
    }
    vacuum(pg, scale, count, out)
}

/// Vacuums tables of which every document was updated in an indexed field.
fn vacuum(pg: &Postgres, scale: Scale, count: u64, out: &mut Vec<Row>) -> Result<()> {
    let name = "vacuum after an update of every document, five indexes";
    if !scale.wants(name) {
        return Ok(());
    }
    eprintln!("pg: {name}");
    let file = pg.file("documents.txt");
    let sides = [
        (OURS, "fc", r#"SELECT treedb.update_many('fc', '{}', '{"$inc": {"n": 1}}') IS NOT NULL"#),
        (BTREE, "fj", "UPDATE fj SET doc = jsonb_set(doc, '{n}', to_jsonb((doc ->> 'n')::int + 1))"),
    ];
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (side, table, update) in sides {
        let sql = format!(
            "TRUNCATE {table}; COPY {table} FROM '{file}'; VACUUM {table}; {update}; CHECKPOINT; \
             SELECT clock_timestamp() AS since \\gset\nVACUUM {table}; SELECT nanos(:'since') || '|0';"
        );
        let run = move |_| pg.measure(count, &sql);
        candidates.push(Candidate { name: side, run: Box::new(run) });
    }
    let samples = compare(Unit::Microseconds, scale.rounds, &mut candidates)?;
    for row in rows(name, DURABILITY, Unit::Microseconds, samples, &[(BTREE, 1.0)]) {
        progress(&row);
        out.push(row);
    }
    Ok(())
}
