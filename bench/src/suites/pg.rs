//! `treedb_btree` of the Postgres extension compared with the server's own btree.
//!
//! Collections are compared with jsonb in [`super::pg_documents`], in the same server.
//!
//! There are no rows for the table access method `treedb`: it is heap's with four callbacks replaced, so that a
//! comparison with heap would measure heap twice.

use super::{Scale, pg_documents};
use crate::Result;
use crate::comparison::{Candidate, Samples, Unit, compare};
use crate::engines::Postgres;
use crate::report::{Goals, Row, THE_GOAL, progress, rows};

pub(super) const ABOUT: &str = "Both indexes are in one server and are timed inside it: on two heap tables that differ \
    only in the access method of their index (int4 and 32-character text, \"C\" collation, all values distinct and in \
    random order; the paths are of some 40 characters and share most of them with their neighbours). No parallel workers unless a row says so, everything in shared buffers, no flushes, 256 MB of maintenance_work_mem. Lookups are a \
    prepared statement in a loop. Checksums are sums over the rows found. Under collations of ICU both sides index one table, by turns: 32 hexadecimal digits \
    under its root collation (und-x-icu), 32 letters, some of them with umlauts, under the German one (de-x-icu), and under one of the C library (en_US.UTF-8, or \
    C.UTF-8 where that is not installed). The rows from \"find\" on compare a collection with a heap table of jsonb \
    under btree indexes on expressions of the same paths, and, where the peer is called GIN, under a GIN index of \
    jsonb_path_ops: 200,000 documents, statements prepared once and executed by one client through libpq over a Unix socket, with parameters and \
    rows in text: a filter is a parameter, which arrives as JSON. Without parallel workers, client and server take turns on one processor, because \
    to wake another one up takes longer than a short statement on a virtual machine, on both sides; the first ten executions of a connection are \
    not timed, but in the row that connects. A row \"longer than its SQL\" is the difference between a call and the statement that it stands for, over the same collection. \
    What they return is compared before each round.";

/// Both sides use the same server.
pub(super) const DURABILITY: &str = "the same server, fsync off";

/// What takes times in SQL.
pub(super) const FUNCTIONS: &str = "
CREATE FUNCTION nanos(since timestamptz) RETURNS bigint LANGUAGE sql AS
    $$ SELECT (extract(epoch FROM clock_timestamp() - since) * 1e9)::bigint $$;
-- Runs a statement; returns its time and a checksum of 0.
CREATE FUNCTION timed(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE since timestamptz := clock_timestamp();
BEGIN
    EXECUTE statement;
    RETURN nanos(since) || '|0';
END $$;
-- Runs a statement; returns the bytes of WAL it wrote and a checksum of 0.
CREATE FUNCTION logged(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE before pg_lsn := pg_current_wal_insert_lsn();
BEGIN
    EXECUTE statement;
    RETURN pg_wal_lsn_diff(pg_current_wal_insert_lsn(), before) || '|0';
END $$;
-- What a database has whose locale is not C. Where that of the United States is not installed, the one without a language, which is
-- no order of bytes to the server before version 17 either.
DO $$
BEGIN
    EXECUTE format('CREATE COLLATION usual (provider = libc, locale = %L)',
        CASE WHEN EXISTS (SELECT FROM pg_collation WHERE collname = 'en_US.utf8') THEN 'en_US.utf8' ELSE 'C.UTF-8' END);
END $$;
CREATE FUNCTION shuffled(n bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ((n * 2654435761) % 2147483647)::int $$;
";

/// The tables of one side; `{}` stands for its letter.
const TABLES: &str = "
CREATE TABLE {}i (k int, v int) USING heap;
INSERT INTO {}i SELECT shuffled(n), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}s (k text COLLATE \"C\", v int) USING heap;
INSERT INTO {}s SELECT md5(n::text), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}p (k text COLLATE \"C\", v int) USING heap;
INSERT INTO {}p SELECT format('/srv/archive/%s/%s/document-%s.json', 2000 + n % 25, lpad((n / 25 % 4000)::text, 4, '0'), n), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}n (k int, v int) USING heap;
CREATE INDEX {}n_k ON {}n USING AM (k);
CREATE TABLE {}m (k text COLLATE \"C\", v int) USING heap;
CREATE INDEX {}m_k ON {}m USING AM (k);
CREATE TABLE {}u (k uuid, v int) USING heap;
CREATE INDEX {}u_k ON {}u USING AM (k);
CREATE TABLE {}f (k int, v int) USING heap;
INSERT INTO {}f SELECT shuffled(n) % 100, n FROM generate_series(1, SIZE) n;
CREATE TABLE {}w (k text COLLATE usual, v int) USING heap;
INSERT INTO {}w SELECT md5((shuffled(n) % 100)::text), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}d (k int, v int) USING heap;
INSERT INTO {}d SELECT shuffled(n), n FROM generate_series(1, SIZE / 10) n;
CREATE INDEX {}d_k ON {}d USING AM (k);
VACUUM ANALYZE;
CREATE FUNCTION {}points(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); total bigint := 0; got int; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT v INTO got FROM {}i WHERE k = shuffled(step + 1);
        total := total + got;
    END LOOP;
    RETURN nanos(since) || '|' || total;
END $$;
CREATE FUNCTION {}text_points(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); total bigint := 0; got int; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT v INTO got FROM {}s WHERE k = md5((step + 1)::text);
        total := total + got;
    END LOOP;
    RETURN nanos(since) || '|' || total;
END $$;
CREATE FUNCTION {}lists(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); total bigint := 0; got bigint; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % (SIZE - 20);
        SELECT sum(v) INTO got FROM {}i WHERE k = ANY (ARRAY(SELECT shuffled(step + m) FROM generate_series(1, 20) m));
        total := total + got;
    END LOOP;
    RETURN nanos(since) || '|' || total;
END $$;
-- Reads the whole index in order.
CREATE FUNCTION {}whole(way text) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE since timestamptz := clock_timestamp(); got bigint;
BEGIN
    EXECUTE 'SELECT sum(k::bigint) FROM (SELECT k FROM {}i ORDER BY k ' || way || ' OFFSET 0) x' INTO got;
    RETURN nanos(since) || '|' || got;
END $$;
-- The same rows by two workers and the backend.
CREATE FUNCTION {}divided() RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
    SET max_parallel_workers_per_gather = 2 SET parallel_setup_cost = 0 SET parallel_tuple_cost = 0 SET min_parallel_index_scan_size = 0 AS $$
DECLARE since timestamptz := clock_timestamp(); got bigint;
BEGIN
    EXECUTE 'SELECT sum(k::bigint) FROM {}i WHERE k >= 0' INTO got;
    RETURN nanos(since) || '|' || got;
END $$;
-- Runs of 1,000 keys with their rows.
CREATE FUNCTION {}rows_of_ranges(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); total bigint := 0; got bigint; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT sum(v) INTO got FROM {}i WHERE k BETWEEN shuffled(step + 1) AND least(shuffled(step + 1)::bigint + 2147483647 / (SIZE / 1000), 2147483647)::int;
        total := total + coalesce(got, 0);
    END LOOP;
    RETURN nanos(since) || '|' || total;
END $$;
CREATE FUNCTION {}bitmaps(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); total bigint := 0; got bigint; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT sum(v) INTO got FROM {}i WHERE k BETWEEN shuffled(step + 1) AND least(shuffled(step + 1)::bigint + 2147483647 / (SIZE / 1000), 2147483647)::int;
        total := total + coalesce(got, 0);
    END LOOP;
    RETURN nanos(since) || '|' || total;
END $$;
CREATE FUNCTION {}joined() RETURNS text LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off SET enable_nestloop = off SET enable_material = off AS $$
DECLARE since timestamptz := clock_timestamp(); got bigint;
BEGIN
    SELECT count(*) INTO got FROM {}i a JOIN {}d b ON a.k = b.k;
    RETURN nanos(since) || '|' || got;
END $$;
CREATE FUNCTION {}ranges(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE since timestamptz := clock_timestamp(); total bigint := 0; got bigint; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT sum(k) INTO got FROM (SELECT k FROM {}i WHERE k >= shuffled(step + 1) ORDER BY k LIMIT 100) x;
        total := total + got;
    END LOOP;
    RETURN nanos(since) || '|' || total;
END $$;
";

/// Name of the server's side.
const PEER: &str = "Postgres";

/// Name, letter and index access method of each side.
const SIDES: [(&str, &str, &str); 2] = [("TreeDB", "t", "treedb_btree"), (PEER, "b", "btree")];

/// A table of text for builds under a collation of the server's ICU.
const WORDS: &str = "
CREATE TABLE words (digits text COLLATE \"C\", letters text COLLATE \"C\") USING heap;
INSERT INTO words SELECT d, translate(d, '0123456789abcdef', 'enisratäöüßlcghd') FROM (SELECT md5(n::text) AS d FROM generate_series(1, SIZE) n) x;
VACUUM ANALYZE words;
";

/// The collation of libc that [`FUNCTIONS`] makes.
const USUAL: &str = "usual";

/// Columns of that table, with their collations and the ratios to reach.
const COLLATED: [(&str, &str, f64); 3] =
    [("digits", "und-x-icu", 0.8), ("letters", "de-x-icu", 0.8), ("letters", USUAL, 1.0)];

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let pg = Postgres::start()?;
    pg.run(FUNCTIONS)?;
    let mut out = Vec::new();
    if wants_indexes(scale) {
        indexes(&pg, scale, &mut out)?;
    }
    collated_builds(&pg, scale, &mut out)?;
    pg_documents::run(&pg, scale, &mut out)?;
    Ok(out)
}

/// Whether `BENCH_ONLY` asks for more than documents.
fn wants_indexes(scale: Scale) -> bool {
    std::env::var_os("BENCH_ONLY").is_none() || scale.wants("index")
}

/// Compares both sides in one workload. In its statements `{}` is the side's letter, `$AM` its index access method, `$N` the number of
/// operations, `$ROUND` the round. The last row that they return must be `nanoseconds|checksum`. A target is compared with like
/// another side.
fn measure(
    pg: &Postgres,
    scale: Scale,
    (workload, unit, ops): (&str, Unit, u64),
    sql: &str,
    goals: Goals<'_>,
    target: Option<f64>,
) -> Result<Vec<Row>> {
    eprintln!("pg: {workload}");
    let mut candidates: Vec<Candidate<'_>> = SIDES
        .iter()
        .map(|(name, letter, index)| {
            let sql = sql.replace("{}", letter).replace("$AM", index).replace("$N", &ops.to_string());
            Candidate {
                name,
                run: Box::new(move |round| pg.measure(ops, &sql.replace("$ROUND", &(round + 1).to_string()))),
            }
        })
        .collect();
    let mut samples = compare(unit, scale.rounds, &mut candidates)?;
    samples.extend(target.map(Samples::target));
    Ok(rows(workload, DURABILITY, unit, samples, goals))
}

/// Builds of indexes whose values are compared by a library.
fn collated_builds(pg: &Postgres, scale: Scale, out: &mut Vec<Row>) -> Result<()> {
    let name = |collation: &str| match collation {
        USUAL => "index build, text, libc collation".to_owned(),
        _ => format!("index build, text, ICU collation {collation}"),
    };
    let mut wanted = Vec::new();
    for (column, collation, ratio) in COLLATED.into_iter().filter(|of| scale.wants(&name(of.1))) {
        let there = format!(
            "SELECT count(*) FROM pg_collation WHERE collname = '{collation}' AND (collprovider = 'i' OR collname = '{USUAL}')"
        );
        match pg.run(&there)?.as_str() {
            "0" => eprintln!("pg: {}: left out, because the server was built without ICU", name(collation)),
            _ => wanted.push((column, collation, ratio)),
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let size = scale.of(1_000_000);
    pg.run(&WORDS.replace("SIZE", &size.to_string()))?;
    for (column, collation, ratio) in wanted {
        let index = format!("{{}}words_{column}");
        let created = format!("create index {index} on words using $AM ({column} collate \"{collation}\")");
        let sql = format!("DROP INDEX IF EXISTS {index}; CHECKPOINT; SELECT timed('{created}');");
        let workload = name(collation);
        for row in measure(pg, scale, (&workload, Unit::NanosPerOp, size), &sql, &[(PEER, ratio)], None)? {
            progress(&row);
            out.push(row);
        }
    }
    pg.run("DROP TABLE words")?;
    Ok(())
}

/// What a workload on indexes has to reach.
#[derive(Clone, Copy)]
enum Aim {
    /// A ratio to the server's own index.
    Ratio(f64),
    /// So many bytes of an operation.
    AtMost(f64),
    None,
}

/// The ratio of an index that is at most three quarters of the server's.
const SMALLER: f64 = 1.0 / 0.75;

/// The workloads on indexes.
fn indexes(pg: &Postgres, scale: Scale, out: &mut Vec<Row>) -> Result<()> {
    let size = scale.of(1_000_000);
    for (_, letter, index) in SIDES {
        let sql = TABLES.replace("{}", letter).replace("AM", index);
        pg.run(&sql.replace("SIZE", &size.to_string()))?;
    }
    // What a workload has to reach: a ratio to the server's index, or a number of bytes.
    let mut add = |workload: &str, unit: Unit, ops: u64, sql: &str, aim: Aim| -> Result<()> {
        let (goals, target): (Goals<'_>, _) = match aim {
            Aim::Ratio(ratio) => (&[(PEER, ratio)], None),
            Aim::AtMost(bytes) => (&[(THE_GOAL, 1.0)], Some(bytes)),
            Aim::None => (&[], None),
        };
        out.extend(measure(pg, scale, (workload, unit, ops), sql, goals, target)?);
        Ok(())
    };
    let time = Unit::NanosPerOp;
    let sizes =
        [("i", "int4", Aim::Ratio(SMALLER)), ("s", "text", Aim::None), ("p", "paths", Aim::Ratio(SMALLER))];
    for (table, kind, smaller) in sizes {
        let created = format!("create index {{}}{table}_k on {{}}{table} using $AM (k)");
        for (workers, told) in [(2, ", two workers"), (0, "")] {
            add(
                &format!("index build, {kind}{told}"),
                time,
                size,
                &format!(
                    "DROP INDEX IF EXISTS {{}}{table}_k; CHECKPOINT; SET max_parallel_maintenance_workers = {workers}; SELECT timed('{created}');"
                ),
                Aim::Ratio(1.0),
            )?;
        }
        add(
            &format!("size of a built index, {kind}"),
            Unit::BytesPerDocument,
            size,
            &format!("SELECT pg_relation_size('{{}}{table}_k') || '|0';"),
            smaller,
        )?;
    }
    pg.run("VACUUM ANALYZE")?;
    let point = Aim::Ratio(0.95);
    add("point lookup, int4", time, scale.of(100_000), "SELECT {}points($N, $ROUND);", point)?;
    add("point lookup, text", time, scale.of(100_000), "SELECT {}text_points($N, $ROUND);", point)?;
    let ranges = scale.of(500);
    add("1,000 rows of a range, int4", time, ranges, "SELECT {}rows_of_ranges($N, $ROUND);", Aim::None)?;
    add(
        "1,000 rows of a range, int4, bitmap scan",
        time,
        ranges,
        "SELECT {}bitmaps($N, $ROUND);",
        Aim::None,
    )?;
    let ordered = Aim::Ratio(0.9);
    add(
        "ordered range of 100, int4, index-only scan",
        time,
        scale.of(10_000),
        "SELECT {}ranges($N, $ROUND);",
        ordered,
    )?;
    add("20 keys in a list, int4", time, scale.of(5_000), "SELECT {}lists($N, $ROUND);", point)?;
    add("whole index in order, int4, index-only scan", time, size, "SELECT {}whole('asc');", ordered)?;
    add("whole index backward, int4, index-only scan", time, size, "SELECT {}whole('desc');", ordered)?;
    add("whole index, int4, index-only scan, two workers", time, size, "SELECT {}divided();", Aim::None)?;
    add("merge join of two indexes, int4", time, size, "SELECT {}joined();", ordered)?;
    let (table, created) =
        ("DROP INDEX IF EXISTS {}f_k; CHECKPOINT; ", "create index {}f_k on {}f using $AM (k)");
    add(
        "index build, int4, 100 different values",
        time,
        size,
        &format!("{table}SELECT timed('{created}');"),
        Aim::Ratio(1.0),
    )?;
    let bytes = Unit::BytesPerDocument;
    add(
        "size of a built index, int4, 100 different values",
        bytes,
        size,
        "SELECT pg_relation_size('{}f_k') || '|0';",
        Aim::Ratio(1.0),
    )?;
    let (table, created) =
        ("DROP INDEX IF EXISTS {}w_k; CHECKPOINT; ", "create index {}w_k on {}w using $AM (k)");
    add(
        "index build, text under a collation of libc, 100 different values",
        time,
        size,
        &format!("{table}SELECT timed('{created}');"),
        Aim::Ratio(1.0),
    )?;
    add(
        "size of a built index, text under a collation of libc, 100 different values",
        bytes,
        size,
        "SELECT pg_relation_size('{}w_k') || '|0';",
        Aim::Ratio(1.0),
    )?;
    let rows = scale.of(100_000);
    // A row may write so many bytes of WAL, that of the heap included.
    let logs = Aim::AtMost(220.0);
    for (what, table, value, speed, log) in [
        ("int4 in random order", "n", "shuffled(n)", 0.6, logs),
        ("int4 in ascending order", "n", "n", 0.6, logs),
        ("int4 of 100 different values", "n", "shuffled(n) % 100", 0.6, logs),
        ("uuid", "u", "md5(n::text)::uuid", 0.8, logs),
        ("text", "m", "md5(n::text)", 0.8, logs),
    ] {
        let insert = format!("insert into {{}}{table} select {value}, n from generate_series(1, $N) n");
        let empty = format!("TRUNCATE {{}}{table}; CHECKPOINT; ");
        add(
            &format!("insert into a table with an index, {what}"),
            time,
            rows,
            &format!("{empty}SELECT timed('{insert}');"),
            Aim::Ratio(speed),
        )?;
        add(
            &format!("WAL of such inserts, {what}"),
            bytes,
            rows,
            &format!("{empty}SELECT logged('{insert}');"),
            log,
        )?;
        add(
            &format!("size of an index filled by such inserts, {what}"),
            bytes,
            rows,
            &format!("SELECT pg_relation_size('{{}}{table}_k') || '|0';"),
            Aim::None,
        )?;
    }
    // Updates that change another column of an index: each row gets a new entry here too.
    let update = "update {}d set v = v + 1";
    pg.run("CREATE INDEX td_v ON td USING treedb_btree (v); CREATE INDEX bd_v ON bd USING btree (v);")?;
    let updated = scale.of(1_000_000) / 10;
    add(
        "update of every row, two indexes",
        time,
        updated,
        &format!("SELECT timed('{update}');"),
        Aim::Ratio(0.9),
    )?;
    add(
        "vacuum after an update of every row, two indexes",
        time,
        updated,
        &format!(
            "{update}; SELECT clock_timestamp() AS since \\gset\nVACUUM {{}}d; SELECT nanos(:'since') || '|0';"
        ),
        Aim::Ratio(1.0),
    )
}
