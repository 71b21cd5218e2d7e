//! The Postgres extension beside what it replaces: `treedb_btree` beside the server's btree, tables `USING treedb`
//! beside heap.

use super::Scale;
use crate::Result;
use crate::contest::{Side, Unit, contest};
use crate::report::{Row, rows};
use crate::sides::Postgres;

pub(super) const ABOUT: &str = "Both sides in one server, timed inside it: index workloads on two heap tables that \
    differ in the access method of one index (int4 and 32-character text, \"C\" collation, all values different and in \
    no order), table workloads on two tables that differ in their own. No parallel workers, everything in shared \
    buffers, nothing flushed. Lookups are a prepared statement in a loop. Answers are sums over the rows found.";

/// A server for both sides promises both the same.
const DURABILITY: &str = "the same server, fsync off";

const FUNCTIONS: &str = "
CREATE FUNCTION nanos(since timestamptz) RETURNS bigint LANGUAGE sql AS
    $$ SELECT (extract(epoch FROM clock_timestamp() - since) * 1e9)::bigint $$;
-- Carries a statement out; what it took, and 0.
CREATE FUNCTION timed(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE since timestamptz := clock_timestamp();
BEGIN
    EXECUTE statement;
    RETURN nanos(since) || '|0';
END $$;
-- Carries a query of one number out.
CREATE FUNCTION timed_answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE since timestamptz := clock_timestamp(); answer bigint;
BEGIN
    EXECUTE query INTO answer;
    RETURN nanos(since) || '|' || answer;
END $$;
CREATE FUNCTION shuffled(n bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ((n * 2654435761) % 2147483647)::int $$;
";

/// The tables of a side, `{}` being its letter.
const TABLES: &str = "
CREATE TABLE {}i (k int, v int) USING heap;
INSERT INTO {}i SELECT shuffled(n), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}s (k text COLLATE \"C\", v int) USING heap;
INSERT INTO {}s SELECT md5(n::text), n FROM generate_series(1, SIZE) n;
CREATE TABLE {}n (k int, v int) USING heap;
CREATE INDEX {}n_k ON {}n USING AM (k);
CREATE TABLE {}m (k text COLLATE \"C\", v int) USING heap;
CREATE INDEX {}m_k ON {}m USING AM (k);
CREATE TABLE {}t (id int, k int, pad text) USING TABLEAM;
INSERT INTO {}t SELECT n, shuffled(n), md5(n::text) FROM generate_series(1, SIZE) n;
CREATE INDEX {}t_id ON {}t (id);
CREATE TABLE {}w (id int, k int, pad text) USING TABLEAM;
VACUUM ANALYZE;
CREATE FUNCTION {}points(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); answer bigint := 0; got int; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT v INTO got FROM {}i WHERE k = shuffled(step + 1);
        answer := answer + got;
    END LOOP;
    RETURN nanos(since) || '|' || answer;
END $$;
CREATE FUNCTION {}texts(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE since timestamptz := clock_timestamp(); answer bigint := 0; got int; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT v INTO got FROM {}s WHERE k = md5((step + 1)::text);
        answer := answer + got;
    END LOOP;
    RETURN nanos(since) || '|' || answer;
END $$;
CREATE FUNCTION {}ranges(n int, round bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE since timestamptz := clock_timestamp(); answer bigint := 0; got bigint; step bigint := round * 7919;
BEGIN
    FOR i IN 1..n LOOP
        step := (step * 48271 + 11) % SIZE;
        SELECT sum(k) INTO got FROM (SELECT k FROM {}i WHERE k >= shuffled(step + 1) ORDER BY k LIMIT 100) x;
        answer := answer + got;
    END LOOP;
    RETURN nanos(since) || '|' || answer;
END $$;
";

const SIDES: [(&str, &str, &str, &str); 2] =
    [("TreeDB", "t", "treedb_btree", "treedb"), ("Postgres", "b", "btree", "heap")];

pub(super) fn run(scale: Scale) -> Result<Vec<Row>> {
    let pg = Postgres::start()?;
    pg.run(FUNCTIONS)?;
    let size = scale.of(1_000_000);
    for (_, letter, index, table) in SIDES {
        let sql = TABLES.replace("{}", letter).replace("TABLEAM", table).replace("AM", index);
        pg.run(&sql.replace("SIZE", &size.to_string()))?;
    }
    let mut out = Vec::new();
    // `{}` is the side's letter, `$AM` its index access method, `$N` the operations, `$ROUND` the round. The last line of
    // what the statements answer is spent|answer.
    let mut add = |workload: &str, unit: Unit, ops: u64, sql: &str| -> Result<()> {
        eprintln!("pg: {workload}");
        let mut sides: Vec<Side<'_>> = SIDES
            .iter()
            .map(|(name, letter, index, _)| {
                let sql = sql.replace("{}", letter).replace("$AM", index).replace("$N", &ops.to_string());
                let pg = &pg;
                Side {
                    name,
                    turn: Box::new(move |round| {
                        pg.turn(ops, &sql.replace("$ROUND", &(round + 1).to_string()))
                    }),
                }
            })
            .collect();
        let figures = contest(unit, scale.rounds, &mut sides)?;
        out.extend(rows(workload, DURABILITY, unit, figures, &[]));
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
    add("point lookup, text", time, scale.of(100_000), "SELECT {}texts($N, $ROUND);")?;
    add("range of 100 in order, int4, index-only", time, scale.of(10_000), "SELECT {}ranges($N, $ROUND);")?;
    let rows = scale.of(100_000);
    add(
        "insert of rows with an index, int4",
        time,
        rows,
        "TRUNCATE {}n; SELECT timed('insert into {}n select shuffled(n), n from generate_series(1, $N) n');",
    )?;
    add(
        "insert of rows with an index, text",
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
    add(
        "table: sum over a scan",
        time,
        size,
        "SELECT timed_answer('select sum(k + length(pad)) from {}t');",
    )?;
    add(
        "table: insert of rows",
        time,
        size,
        "TRUNCATE {}w; SELECT timed('insert into {}w select n, n, ''0123456789012345678901234567890'' from generate_series(1, $N) n');",
    )?;
    add(
        "table: update of rows by an indexed key",
        time,
        rows,
        "VACUUM {}t; SELECT timed('update {}t set k = k + 1 where id <= $N');",
    )?;
    Ok(out)
}
