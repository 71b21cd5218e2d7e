//! A collection of the Postgres extension compared with a heap table of jsonb under the server's own indexes.
//!
//! Each workload is one statement, prepared once and executed again and again by the server's `pgbench` over a Unix
//! socket, so that a round trip counts on both sides. What both sides return is compared before each round.

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Measurement, Unit, compare};
use crate::engines::Postgres;
use crate::report::{Goals, Row, progress, rows};

const DURABILITY: &str = super::pg::DURABILITY;

/// Names of the sides.
const OURS: &str = "TreeDB";
const BTREE: &str = "jsonb, btree";
const GIN: &str = "jsonb, GIN";

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

/// A statement of each side. `:k` is a random number, and `:n` a random value of the field `n`.
struct Workload {
    name: &'static str,
    /// How often it is executed in a round.
    times: u64,
    /// The greatest value of `:k`.
    keys: u64,
    /// How many parallel workers a statement may have.
    workers: u32,
    sides: &'static [(&'static str, &'static str)],
    goals: Goals<'static>,
}

/// Documents per value of `g`.
const PER_GROUP: u64 = 1_000;

const READS: &[Workload] = &[
    Workload {
        name: "find: one document by an indexed field",
        times: 3_000,
        keys: 200_000,
        workers: 0,
        sides: &[
            (OURS, r#"SELECT doc FROM treedb.find('c', format('{"n": %s}', :n::int)::treedb.bson) doc"#),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'n')::int = :n"),
        ],
        goals: &[(BTREE, 1.0)],
    },
    Workload {
        name: "doc @@ filter: one document by an indexed field",
        times: 3_000,
        keys: 200_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM c WHERE doc OPERATOR(treedb.@@) format('{"n": %s}', :n::int)::treedb.bson"#,
            ),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'n')::int = :n"),
        ],
        goals: &[(BTREE, 1.0)],
    },
    Workload {
        name: "find: 100 documents in a range of _id",
        times: 400,
        keys: 199_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('c', format('{"_id": {"$gte": %s, "$lt": %s}}', :k::int, :k + 100)::treedb.bson) doc"#,
            ),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> '_id')::int >= :k AND (doc ->> '_id')::int < :k + 100"),
        ],
        goals: &[(BTREE, 1.3)],
    },
    Workload {
        name: "find: the first ten from a value on",
        times: 2_000,
        keys: 200_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('c', format('{"n": {"$gte": %s}}', :n::int)::treedb.bson, '{"sort": {"n": 1}, "limit": 10}') doc"#,
            ),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'n')::int >= :n ORDER BY (doc ->> 'n')::int LIMIT 10"),
        ],
        goals: &[(BTREE, 1.0)],
    },
    Workload {
        name: "find: the first ten of a group in the order of another field",
        times: 200,
        keys: 200,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('c', format('{"g": %s}', :k - 1)::treedb.bson, '{"sort": {"n": 1}, "limit": 10}') doc"#,
            ),
            (
                GIN,
                "SELECT doc FROM g WHERE doc @> format('{\"g\": %s}', :k - 1)::jsonb ORDER BY (doc ->> 'n')::int LIMIT 10",
            ),
        ],
        goals: &[],
    },
    Workload {
        name: "find: the same by an index on both fields",
        times: 1_000,
        keys: 200,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('k', format('{"g": %s}', :k - 1)::treedb.bson, '{"sort": {"n": 1}, "limit": 10}') doc"#,
            ),
            (
                GIN,
                "SELECT doc FROM g WHERE doc @> format('{\"g\": %s}', :k - 1)::jsonb ORDER BY (doc ->> 'n')::int LIMIT 10",
            ),
        ],
        goals: &[(GIN, 20.0)],
    },
    Workload {
        name: "count of 1,000 documents",
        times: 200,
        keys: 200,
        workers: 0,
        sides: &[
            (OURS, r#"SELECT treedb.count('c', format('{"g": %s}', :k - 1)::treedb.bson) AS doc"#),
            (BTREE, "SELECT count(*) AS doc FROM j WHERE (doc ->> 'g')::int = :k - 1"),
        ],
        goals: &[(BTREE, 1.3)],
    },
    Workload {
        name: "find: two predicates, 40 documents",
        times: 200,
        keys: 100,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM treedb.find('c', format('{"a": %s, "b": %s}', :k - 1, :k % 50)::treedb.bson) doc"#,
            ),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'a')::int = :k - 1 AND (doc ->> 'b')::int = :k % 50"),
            (GIN, r#"SELECT doc FROM g WHERE doc @> format('{"a": %s, "b": %s}', :k - 1, :k % 50)::jsonb"#),
        ],
        goals: &[(BTREE, 1.0), (GIN, 1.0)],
    },
    Workload {
        name: "doc @@ filter: two predicates, 40 documents",
        times: 200,
        keys: 100,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT doc FROM c WHERE doc OPERATOR(treedb.@@) format('{"a": %s, "b": %s}', :k - 1, :k % 50)::treedb.bson"#,
            ),
            (BTREE, "SELECT doc FROM j WHERE (doc ->> 'a')::int = :k - 1 AND (doc ->> 'b')::int = :k % 50"),
            (GIN, r#"SELECT doc FROM g WHERE doc @> format('{"a": %s, "b": %s}', :k - 1, :k % 50)::jsonb"#),
        ],
        goals: &[(BTREE, 1.0), (GIN, 1.0)],
    },
    Workload {
        name: "count by two predicates, 40 documents",
        times: 200,
        keys: 100,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT treedb.count('c', format('{"a": %s, "b": %s}', :k - 1, :k % 50)::treedb.bson) AS doc"#,
            ),
            (
                BTREE,
                "SELECT count(*) AS doc FROM j WHERE (doc ->> 'a')::int = :k - 1 AND (doc ->> 'b')::int = :k % 50",
            ),
            (
                GIN,
                r#"SELECT count(*) AS doc FROM g WHERE doc @> format('{"a": %s, "b": %s}', :k - 1, :k % 50)::jsonb"#,
            ),
        ],
        goals: &[(BTREE, 1.0), (GIN, 1.0)],
    },
    Workload {
        name: "join of 20 rows with find",
        times: 300,
        keys: 20_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT o.i, doc FROM orders o, treedb.find('c', format('{"n": %s}', o.n)::treedb.bson) doc WHERE o.i >= :k AND o.i < :k + 20"#,
            ),
            (
                BTREE,
                "SELECT o.i, doc FROM orders o, j WHERE (doc ->> 'n')::int = o.n AND o.i >= :k AND o.i < :k + 20",
            ),
        ],
        goals: &[(BTREE, 1.0 / 1.2)],
    },
    Workload {
        name: "join of 20 rows with doc @@ filter",
        times: 300,
        keys: 20_000,
        workers: 0,
        sides: &[
            (
                OURS,
                r#"SELECT o.i, doc FROM orders o JOIN c ON doc OPERATOR(treedb.@@) format('{"n": %s}', o.n)::treedb.bson WHERE o.i >= :k AND o.i < :k + 20"#,
            ),
            (
                BTREE,
                "SELECT o.i, doc FROM orders o, j WHERE (doc ->> 'n')::int = o.n AND o.i >= :k AND o.i < :k + 20",
            ),
        ],
        goals: &[(BTREE, 1.0 / 1.2)],
    },
    Workload {
        name: "find: LIMIT 1 of all documents",
        times: 3_000,
        keys: 1,
        workers: 0,
        sides: &[
            (OURS, "SELECT doc FROM treedb.find('c') doc LIMIT 1"),
            (BTREE, "SELECT doc FROM j LIMIT 1"),
        ],
        goals: &[],
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
        ),
        (
            BTREE,
            "SELECT sum((doc ->> 'v')::int) + (doc ->> 'a')::int AS doc FROM j GROUP BY (doc ->> 'a')::int",
        ),
    ],
    goals: &[(BTREE, 1.2)],
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
            r#"SELECT treedb.update_one('c', format('{"_id": %s}', :k::int)::treedb.bson, '{"$inc": {"v": 1}}') IS NOT NULL AS doc"#,
        ),
        (
            BTREE,
            "UPDATE j SET doc = jsonb_set(doc, '{v}', to_jsonb((doc ->> 'v')::int + 1)) WHERE (doc ->> '_id')::int = :k",
        ),
    ],
    goals: &[(BTREE, 1.0 / 1.1)],
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
    for workload in READS {
        measure(pg, scale, size, workload, out)?;
    }
    pg.run(FILLED)?;
    fill(pg, scale, out)?;
    measure(pg, scale, size, &UPDATE, out)
}

/// Runs one workload.
fn measure(pg: &Postgres, scale: Scale, size: u64, workload: &Workload, out: &mut Vec<Row>) -> Result<()> {
    if !scale.wants(workload.name) {
        return Ok(());
    }
    eprintln!("pg: {}", workload.name);
    let times = scale.of(workload.times);
    let keys = (workload.keys * size / 200_000).max(1);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (name, statement) in workload.sides {
        let run = move |round| -> Result<Measurement> {
            let checksum =
                if workload.name == UPDATE.name { None } else { Some(checked(pg, statement, keys, round)?) };
            // `shuffled` in the language of pgbench.
            let script =
                format!("\\set k random(1, {keys})\n\\set n (:k * 2654435761) % 2147483647\n{statement};\n");
            Ok(Measurement {
                ops: times,
                spent: pg.pgbench(&script, times, round + 1, workload.workers)?,
                checksum,
            })
        };
        candidates.push(Candidate { name, run: Box::new(run) });
    }
    let samples = compare(Unit::Microseconds, scale.rounds, &mut candidates)?;
    for row in rows(workload.name, DURABILITY, Unit::Microseconds, samples, workload.goals) {
        progress(&row);
        out.push(row);
    }
    Ok(())
}

/// The sum of the checksums of a statement with several values, which depend on the round.
fn checked(pg: &Postgres, statement: &str, keys: u64, round: u64) -> Result<u64> {
    let one = |step: u64| {
        let key = (round * 7_919 + step * 48_271) % keys + 1;
        let value = key * 2_654_435_761 % 2_147_483_647;
        let statement = statement.replace(":k", &key.to_string()).replace(":n", &value.to_string());
        CHECKSUM.replace("$STATEMENT", &statement)
    };
    let sums = pg.run(&(1..=5).map(one).collect::<String>())?;
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
