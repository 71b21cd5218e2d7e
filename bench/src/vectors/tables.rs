//! A set as two tables of a Postgres server, with the same rows in the same order: TreeDB indexes the one, pgvector the
//! other. Statements differ in the names of table and access method only.
//!
//! A row has its number, that number's rest by 1,000 (`part`), and the vector in pgvector's type. The server needs the
//! extension `vector` and the function `nanos` of suite `pg`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use super::index::VectorSearch;
use super::sets::{K, Set};
use crate::Result;
use crate::engines::{OneProcessor, Postgres, Session};

/// An access method, and the table that it indexes.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub name: &'static str,
    table: &'static str,
    method: &'static str,
    /// The setting of how many candidates a search keeps.
    ef: &'static str,
}

/// TreeDB first.
pub(crate) const SIDES: [Side; 2] = [
    Side { name: "TreeDB", table: "ours", method: "treedb_hnsw", ef: "treedb.hnsw_ef_search" },
    Side { name: "pgvector", table: "theirs", method: "hnsw", ef: "hnsw.ef_search" },
];

/// Both sides have the defaults that they have in common.
const GRAPH: &str = "m = 16, ef_construction = 64";

/// How a table is searched.
pub(crate) struct Search {
    /// The engine's name in tables.
    pub name: &'static str,
    pub side: &'static Side,
    /// Only rows that match, if so many of a thousand do.
    pub part: Option<u32>,
    /// What is set before; may be empty.
    pub setting: &'static str,
}

/// The tables of a set. Those of another one in this server are dropped.
pub(crate) struct Tables<'p> {
    pg: &'p Postgres,
    rows: usize,
}

impl<'p> Tables<'p> {
    pub(crate) fn load(pg: &'p Postgres, set: &Set) -> Result<Tables<'p>> {
        let path = pg.file("vectors.txt");
        let mut file = BufWriter::new(File::create(&path)?);
        let mut line = String::new();
        for (number, vector) in set.vectors.iter().enumerate() {
            line.clear();
            write!(line, "{number}\t{}\t[", number % 1000)?;
            for (i, element) in vector.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                write!(line, "{comma}{element}")?;
            }
            line.push_str("]\n");
            file.write_all(line.as_bytes())?;
        }
        file.into_inner().map_err(|e| e.to_string())?;
        let [ours, theirs] = SIDES.map(|side| side.table);
        let dimensions = set.dimensions;
        pg.run(&format!(
            "DROP TABLE IF EXISTS {ours}, {theirs};
             CREATE TABLE {ours} (id int, part int, v vector({dimensions})) WITH (parallel_workers = 1);
             COPY {ours} FROM '{path}';
             CREATE TABLE {theirs} (LIKE {ours} INCLUDING ALL) WITH (parallel_workers = 1);
             INSERT INTO {theirs} TABLE {ours};
             VACUUM ANALYZE {ours}; VACUUM ANALYZE {theirs};"
        ))?;
        std::fs::remove_file(path)?;
        Ok(Tables { pg, rows: set.vectors.len() })
    }

    /// Builds the index of a side by one process or by two; microseconds for each row.
    pub(crate) fn build(&self, side: &Side, processes: usize) -> Result<f64> {
        let Side { table, method, .. } = side;
        let sql = format!(
            "SET max_parallel_maintenance_workers = {}; DROP INDEX IF EXISTS {table}_v; CHECKPOINT;
             SET client_min_messages = debug1;
             SELECT clock_timestamp() AS since \\gset
             CREATE INDEX {table}_v ON {table} USING {method} (v vector_cosine_ops) WITH ({GRAPH});
             SELECT nanos(:'since') || '|0';",
            processes - 1
        );
        let (measured, messages) = self.pg.measure_with_messages(self.rows as u64, &sql)?;
        if side.built_by(&messages) != processes || messages.contains("maintenance_work_mem") {
            return Err(format!("{} should build in memory by {processes}: {messages}", side.name).into());
        }
        Ok(measured.spent as f64 / 1e3 / self.rows as f64)
    }

    /// Bytes of a side's index for each row.
    pub(crate) fn index_bytes(&self, side: &Side) -> Result<f64> {
        let bytes = self.pg.run(&format!("SELECT pg_relation_size('{}_v')", side.table))?;
        Ok(bytes.parse::<f64>()? / self.rows as f64)
    }

    /// A client that searches.
    pub(crate) fn searcher(
        &self,
        search: &Search,
        processor: &OneProcessor,
    ) -> Result<Box<dyn VectorSearch>> {
        let Side { table, ef, .. } = *search.side;
        let filter = search.part.map_or_else(String::new, |part| format!(" WHERE part < {part}"));
        let statement = format!("SELECT id FROM {table}{filter} ORDER BY v <=> $1 LIMIT {K}");
        let session = self.pg.session(processor, &statement)?;
        // Small tables would be sorted.
        session.run("SET enable_seqscan = off")?;
        session.run("SET enable_sort = off")?;
        if !search.setting.is_empty() {
            session.run(&format!("SET {}", search.setting))?;
        }
        let plan = session.run(&format!("EXPLAIN (GENERIC_PLAN, COSTS OFF) {statement}"))?;
        if !plan.iter().any(|line| line.contains(&format!("Index Scan using {table}_v"))) {
            return Err(format!("{} does not use its index: {}", search.name, plan.join("\n")).into());
        }
        Ok(Box::new(Searcher { name: search.name, session, ef }))
    }

    /// A client that asks for as many rows in the order of a B-tree index, and sends vectors that are of no use.
    pub(crate) fn floor(&self, processor: &OneProcessor) -> Result<Box<dyn VectorSearch>> {
        let [Side { table, ef, .. }, _] = SIDES;
        let statement = format!("SELECT id FROM {table} WHERE $1::vector IS NOT NULL ORDER BY id LIMIT {K}");
        self.pg.run(&format!("CREATE INDEX {table}_id ON {table} (id)"))?;
        let session = self.pg.session(processor, &statement)?;
        session.run("SET enable_seqscan = off")?;
        Ok(Box::new(Searcher { name: "nbtree, no search", session, ef }))
    }

    /// Drops that index: who inserts later has no use for it.
    pub(crate) fn drop_floor(&self) -> Result<()> {
        self.pg.run(&format!("DROP INDEX {}_id", SIDES[0].table)).map(drop)
    }

    /// A client that inserts.
    pub(crate) fn inserter(&self, side: &Side, processor: &OneProcessor) -> Result<Inserter> {
        let statement = format!("INSERT INTO {} VALUES ($1, $2, $3)", side.table);
        Ok(Inserter(self.pg.session(processor, &statement)?))
    }
}

impl Side {
    /// How many processes, or threads of one, have built an index, by what the server said meanwhile.
    fn built_by(&self, messages: &str) -> usize {
        // Both count those beside the backend, pgvector only if there are any.
        let (before, after) = match self.method {
            "hnsw" => ("using ", " parallel workers"),
            _ => (" with ", " threads beside"),
        };
        let told = messages.lines().find_map(|line| {
            let (words, _) = line.split_once(after)?;
            words.rsplit_once(before)?.1.parse::<usize>().ok()
        });
        told.map_or(1, |told| told + 1)
    }
}

/// A client with a prepared search.
struct Searcher {
    name: &'static str,
    session: Session,
    ef: &'static str,
}

impl VectorSearch for Searcher {
    fn name(&self) -> &'static str {
        self.name
    }

    fn search(
        &mut self,
        queries: &[Vec<f32>],
        k: usize,
        ef: usize,
        each: &mut dyn FnMut(usize, &[u32]),
    ) -> Result<()> {
        if k != K {
            return Err(format!("the statement has a limit of {K}, not {k}").into());
        }
        if ef > 0 {
            self.session.run(&format!("SET {} = {ef}", self.ef))?;
        }
        let mut rows = Vec::with_capacity(k);
        for (i, query) in queries.iter().enumerate() {
            rows.clear();
            // An `int4` has four bytes.
            self.session.execute(&[&binary(query)], &mut |id| {
                rows.extend(id.try_into().map(u32::from_be_bytes));
            })?;
            each(i, &rows);
        }
        Ok(())
    }
}

/// A client with a prepared `INSERT`.
pub(crate) struct Inserter(Session);

impl Inserter {
    /// Inserts a row, in a transaction of its own.
    pub(crate) fn insert(&self, number: usize, vector: &[f32]) -> Result<()> {
        let [number, part] = [number, number % 1000].map(|n| (n as u32).to_be_bytes());
        self.0.execute(&[&number, &part, &binary(vector)], &mut |_| {})
    }
}

/// A vector in the binary form of pgvector's type: the number of dimensions, two bytes of zero, the elements.
fn binary(vector: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 4 * vector.len());
    bytes.extend((vector.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(vector.iter().flat_map(|element| element.to_be_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_a_build_are_in_what_the_server_says() {
        let [ours, theirs] = SIDES;
        let told = "DEBUG:  building index \"ours_v\" with 1 threads beside the backend's own";
        assert_eq!(ours.built_by(told), 2);
        assert_eq!(ours.built_by(&told.replace("with 1", "with 0")), 1);
        let core = "DEBUG:  building index \"theirs_v\" on table \"theirs\" serially";
        assert_eq!(theirs.built_by(core), 1);
        assert_eq!(theirs.built_by(&format!("{core}\nDEBUG:  using 1 parallel workers")), 2);
    }

    #[test]
    fn vectors_are_sent_in_the_binary_form_of_pgvector() {
        assert_eq!(binary(&[1.0, -2.0]), [0, 2, 0, 0, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0]);
    }
}
