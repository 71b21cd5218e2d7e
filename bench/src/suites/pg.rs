//! `treedb_btree` of the Postgres extension compared with the server's own btree.
//!
//! There are no rows for the table access method `treedb`: it is heap's with four callbacks replaced, so that a
//! comparison with heap would measure heap twice.

use super::Scale;
use crate::Result;
use crate::comparison::{Candidate, Unit, compare};
use crate::engines::Postgres;
use crate::report::{Row, rows};

pub(super) const ABOUT: &str = "Both indexes are in one server and are timed inside it: on two heap tables that differ \
    only in the access method of their index (int4 and 32-character text, \"C\" collation, all values distinct and in \
    random order). No parallel workers, everything in shared buffers, no flushes. Lookups are a prepared statement in a \
    loop. Checksums are sums over the rows found.";

/// Both sides use the same server.
const DURABILITY: &str = "the same server, fsync off";

const FUNCTIONS: &str = "
CREATE FUNCTION nanos(since timestamptz) RETURNS bigint LANGUAGE sql AS
    $$ SELECT (extract(epoch FROM clock_timestamp() - since) * 1e9)::bigint $$;
-- Runs a statement; returns its time and a checksum of 0.
CREATE FUNCTION timed(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE since timestamptz := clock_timestamp();
BEGIN
    EXECUTE statement;
    RETURN nanos(since) || '|0';
END $$;
CREATE FUNCTION shuffled(n bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ((n * 2654435761) % 2147483647)::int $$;
";

/// The tables of one side; `{}` stands for its letter.
const TABLES: &str = "
CREATE TABLE {}i (k int, v int) USING heap;
INSERT INTO {}i SELECT shuffled(n), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}s (k text COLLATE \"C\", v int) USING heap;
INSERT INTO {}s SELECT md5(n::text), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}n (k int, v int) USING heap;
CREATE INDEX {}n_k ON {}n USING AM (k);
CREATE TABLE {}m (k text COLLATE \"C\", v int) USING heap;
CREATE INDEX {}m_k ON {}m USING AM (k);
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

/// Name, letter and index access method of each side.
const SIDES: [(&str, &str, &str); 2] = [("TreeDB", "t", "treedb_btree"), ("Postgres", "b", "btree")];

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let pg = Postgres::start()?;
    pg.run(FUNCTIONS)?;
    let size = scale.of(1_000_000);
    for (_, letter, index) in SIDES {
        let sql = TABLES.replace("{}", letter).replace("AM", index);
        pg.run(&sql.replace("SIZE", &size.to_string()))?;
    }
    let mut out = Vec::new();
    // `{}` is the side's letter, `$AM` its index access method, `$N` the number of operations, `$ROUND` the round. The last
    // row that the statements return must be `nanoseconds|checksum`.
    let mut add = |workload: &str, unit: Unit, ops: u64, sql: &str| -> Result<()> {
        eprintln!("pg: {workload}");
        let mut candidates: Vec<Candidate<'_>> = SIDES
            .iter()
            .map(|(name, letter, index)| {
                let sql = sql.replace("{}", letter).replace("$AM", index).replace("$N", &ops.to_string());
                let pg = &pg;
                Candidate {
                    name,
                    run: Box::new(move |round| {
                        pg.measure(ops, &sql.replace("$ROUND", &(round + 1).to_string()))
                    }),
                }
            })
            .collect();
        let samples = compare(unit, scale.rounds, &mut candidates)?;
        out.extend(rows(workload, DURABILITY, unit, samples, &[]));
        Ok(())
    };
    let time = Unit::NanosPerOp;
    for (table, kind) in [("i", "int4"), ("s", "text")] {
        add(
            &format!("index build, {kind}"),
            time,
            size,
            &format!(
                "DROP INDEX IF EXISTS {{}}{table}_k; CHECKPOINT; SELECT timed('create index {{}}{table}_k on {{}}{table} using $AM (k)');"
            ),
        )?;
        add(
            &format!("size of a built index, {kind}"),
            Unit::BytesPerDocument,
            size,
            &format!("SELECT pg_relation_size('{{}}{table}_k') || '|0';"),
        )?;
    }
    pg.run("VACUUM ANALYZE")?;
    add("point lookup, int4", time, scale.of(100_000), "SELECT {}points($N, $ROUND);")?;
    add("point lookup, text", time, scale.of(100_000), "SELECT {}text_points($N, $ROUND);")?;
    add(
        "ordered range of 100, int4, index-only scan",
        time,
        scale.of(10_000),
        "SELECT {}ranges($N, $ROUND);",
    )?;
    let rows = scale.of(100_000);
    add(
        "insert into a table with an index, int4",
        time,
        rows,
        "TRUNCATE {}n; SELECT timed('insert into {}n select shuffled(n), n from generate_series(1, $N) n');",
    )?;
    add(
        "insert into a table with an index, text",
        time,
        rows,
        "TRUNCATE {}m; SELECT timed('insert into {}m select md5(n::text), n from generate_series(1, $N) n');",
    )?;
    add(
        "size of an index filled by inserts, text",
        Unit::BytesPerDocument,
        rows,
        "SELECT pg_relation_size('{}m_k') || '|0';",
    )?;
    Ok(out)
}
