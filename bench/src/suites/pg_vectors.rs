//! `treedb_hnsw` of the Postgres extension compared with pgvector's `hnsw` in one server, at equal recall.

use std::time::Instant;

use super::{MIN_ROUNDS, Measured, Scale, pg};
use crate::Result;
use crate::comparison::{Candidate, Clock, Measurement, Samples, Unit, compare};
use crate::engines::{OneProcessor, Postgres};
use crate::report::{Goals, progress, rows};
use crate::vectors::{
    EFS, K, Plan, Questions, RECALL_EF, SIDES, Search, Set, Sweep, Tables, VectorSearch, recalls, sweep,
    table_sets,
};

pub(super) const ABOUT: &str = "Two tables of one server have the same rows, of pgvector's type `vector`, normalised and under cosine distance: \
    one with an index `USING treedb_hnsw`, one `USING hnsw` of pgvector, both with m of 16 and ef_construction of 64, which are the defaults of both, made \
    by statements that differ in the name of the access method. shared_buffers of 1 GB hold everything, and the graphs fit into maintenance_work_mem. \
    One client asks for the 10 nearest of 300 held-out vectors by a statement that is prepared once, through libpq over a Unix socket, with the vector as a \
    binary parameter; client and server take turns on one processor. ef_search is swept on both sides until both find 99.9 %, and the time at a recall is interpolated between the two \
    values on either side of it; it is that of the least, 10, if that finds more. An engine that does not reach a recall with any up to 640 has no row for it, only its curve in the pictures. \
    A query without a search is sent the same vector, which it does not look at, and returns the first 10 rows in the order of a B-tree index: what is left \
    to any index. Recall is checked against an exact search. The condition keeps 10 of each 1,000 rows, in no index: \
    the row of a goal is at the greatest of several recalls that TreeDB and pgvector both reach; \
    pgvector scans with `hnsw.iterative_scan = relaxed_order`, TreeDB with `treedb.hnsw_strict_order = off`, which promises as much, and also in strict order, its default. \
    Indexes are built by one process, and by two: a worker process of pgvector's, a thread of TreeDB's backend. Rows are inserted one by one into full indexes, \
    each in a transaction of its own, without flushes.";

/// Everything in shared buffers, graphs in memory. Where workers share a graph, the memory for it is there from the start,
/// whatever the size of /dev/shm.
const SETTINGS: &str = "shared_buffers = 1GB\nmaintenance_work_mem = 512MB\nmin_dynamic_shared_memory = 600MB\nwork_mem = 16MB\n";
/// The major version of the server.
const SERVER: u32 = 18;

const RECALLS: [f64; 3] = [0.95, 0.98, 0.99];
/// The recall that goals are set for.
const GOAL_RECALL: f64 = 0.98;
/// Where both sides find so many, a greater `ef` is not tried.
const ENOUGH: f64 = 0.999;
/// Queries of a set that are asked.
const QUERIES: usize = 300;
/// The same with a condition, which take longer.
const FILTERED_QUERIES: usize = 100;
/// Values of `ef` with a condition: a scan that finds too few rows goes on, whatever the first value is.
const FILTERED_EFS: [usize; 5] = [10, 20, 40, 80, 160];
/// With a condition the engines are compared at the greatest of these that TreeDB and pgvector both reach.
const FILTERED_RECALLS: [f64; 6] = [0.98, 0.95, 0.9, 0.85, 0.8, 0.7];
/// How many of a thousand rows match the condition.
const PART: u32 = 10;

/// The ratio to reach in searches, by the set's dimensions.
fn search_goal(set: &Set) -> Goals<'static> {
    match set.dimensions {
        64 => &[("pgvector", 3.0)],
        128 | 384 => &[("pgvector", 5.0)],
        1536 => &[("pgvector", 2.0)],
        _ => &[],
    }
}

const BUILD_GOAL: Goals<'static> = &[("pgvector", 3.0)];
/// An index may be two and a half times as large.
const SIZE_GOAL: Goals<'static> = &[("pgvector", 1.0 / 2.5)];
const FILTERED_GOAL: Goals<'static> = &[("pgvector", 3.0)];
const INSERT_GOAL: Goals<'static> = &[("pgvector", 1.5)];

/// Searches of all rows.
const SEARCHES: [Search; 2] = [
    Search { name: "TreeDB", side: &SIDES[0], part: None, setting: "" },
    Search { name: "pgvector", side: &SIDES[1], part: None, setting: "" },
];
/// Searches with a condition.
const FILTERED: [Search; 3] = [
    Search { name: "TreeDB", side: &SIDES[0], part: Some(PART), setting: "treedb.hnsw_strict_order = off" },
    Search {
        name: "pgvector",
        side: &SIDES[1],
        part: Some(PART),
        setting: "hnsw.iterative_scan = relaxed_order",
    },
    Search {
        name: "TreeDB, strict order",
        side: &SIDES[0],
        part: Some(PART),
        setting: "treedb.hnsw_strict_order = on",
    },
];

/// A set in the server, and what has been measured so far.
struct Run<'p> {
    set: Set,
    tables: Tables<'p>,
    scale: Scale,
    out: &'p mut Measured,
    /// Why there is no result, in spite of what has been measured.
    problems: &'p mut Vec<String>,
}

pub(super) fn run(scale: Scale) -> Result<Measured> {
    let pg = Postgres::start_version(SERVER, SETTINGS)?;
    pg.run(pg::FUNCTIONS)?;
    pg.run("CREATE EXTENSION vector; SELECT treedb.enable_pgvector()")?;
    let (mut out, mut problems) = (Measured::default(), Vec::new());
    out.peers.push(("PostgreSQL", pg.run("SHOW server_version")?));
    out.peers.push(("pgvector", pg.run("SELECT extversion FROM pg_extension WHERE extname = 'vector'")?));
    for set in table_sets(scale.divide) {
        let set = set()?;
        if !scale.wants(&set.name) {
            continue;
        }
        eprintln!("pg_vectors: {}", set.name);
        let begun = Instant::now();
        let tables = Tables::load(&pg, &set)?;
        let mut run = Run { set, tables, scale, out: &mut out, problems: &mut problems };
        run.build(2)?;
        run.build(1)?;
        run.search()?;
        run.search_beside_floor()?;
        run.search_filtered()?;
        // The last, because it adds rows.
        run.insert()?;
        eprintln!("pg_vectors: {} took {} s", run.set.name, begun.elapsed().as_secs());
    }
    // Without their rows, goals would be missed unseen. What else there is has been printed.
    if problems.is_empty() { Ok(out) } else { Err(problems.join("\n").into()) }
}

impl Run<'_> {
    fn add(&mut self, workload: &str, unit: Unit, samples: Vec<Samples>, goals: Goals<'_>) {
        eprintln!("{workload}");
        let rows = rows(workload, pg::DURABILITY, unit, samples, goals);
        rows.iter().for_each(progress);
        self.out.rows.extend(rows);
    }

    fn searchers(&self, searches: &[Search], processor: &OneProcessor) -> Result<Vec<Box<dyn VectorSearch>>> {
        searches.iter().map(|search| self.tables.searcher(search, processor)).collect()
    }

    /// Builds both indexes by so many processes once per round; the last ones stay.
    fn build(&mut self, processes: usize) -> Result<()> {
        let mut times = SIDES.map(|side| Samples { name: side.name, rounds: Vec::new() });
        let mut sizes = times.clone();
        for round in 0..self.scale.rounds.min(MIN_ROUNDS) as usize {
            for turn in 0..SIDES.len() {
                let i = (turn + round) % SIDES.len();
                times[i].rounds.push(self.tables.build(&SIDES[i], processes)?);
                sizes[i].rounds.push(self.tables.index_bytes(&SIDES[i])?);
            }
        }
        let found = {
            let processor = OneProcessor::take()?;
            recalls(&self.set.questions(QUERIES), &mut self.searchers(&SEARCHES, &processor)?)?
        };
        let by = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
        let name = format!("build by {by}, {}, per row ({found})", self.set.name);
        self.add(&name, Unit::Microseconds, times.to_vec(), BUILD_GOAL);
        if processes == 1 {
            let name = format!("size, {}", self.set.name);
            self.add(&name, Unit::BytesPerDocument, sizes.to_vec(), SIZE_GOAL);
        }
        Ok(())
    }

    fn search(&mut self) -> Result<()> {
        let efs: Vec<usize> = EFS.into_iter().filter(|ef| *ef >= K).collect();
        let sweeps = self.sweep(&SEARCHES, &self.set.questions(QUERIES), &efs, ENOUGH)?;
        for recall in RECALLS {
            let goal = if recall == GOAL_RECALL { search_goal(&self.set) } else { &[] };
            let name = format!("search at recall@10 of {recall}, {}", self.set.name);
            self.add_at(&name, recall, &sweeps, goal);
        }
        self.out.curves.extend(sweeps.iter().map(|sweep| sweep.curve(&self.set.name)));
        Ok(())
    }

    /// What a query costs that is sent the same vector and returns as many rows, without a search: no index makes searches faster than that.
    fn search_beside_floor(&mut self) -> Result<()> {
        let (rounds, least) = (self.scale.rounds, EFS.into_iter().min().unwrap_or(K).max(K));
        let queries = self.set.queries.get(..QUERIES).unwrap_or(&self.set.queries);
        let processor = OneProcessor::take()?;
        let [ours, _] = &SEARCHES;
        let searchers =
            [(least, self.tables.searcher(ours, &processor)?), (0, self.tables.floor(&processor)?)];
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for (ef, mut searcher) in searchers {
            let name = searcher.name();
            let run = move |_| -> Result<Measurement> {
                let start = Instant::now();
                searcher.search(queries, K, ef, &mut |_, _| ())?;
                let spent = start.elapsed().as_nanos() as u64;
                Ok(Measurement { ops: queries.len() as u64, spent, checksum: None })
            };
            candidates.push(Candidate { name, run: Box::new(run) });
        }
        let samples = compare(Unit::Microseconds, rounds, &mut candidates)?;
        drop(candidates);
        self.tables.drop_floor()?;
        let name = format!("search at ef {least} beside a query without a search, {}", self.set.name);
        self.add(&name, Unit::Microseconds, samples, &[]);
        Ok(())
    }

    fn search_filtered(&mut self) -> Result<()> {
        let questions = self.set.filtered_questions(FILTERED_QUERIES, PART);
        let sweeps = self.sweep(&FILTERED, &questions, &FILTERED_EFS, f64::INFINITY)?;
        let fewest: Vec<String> =
            sweeps.iter().map(|sweep| format!("{} {}", sweep.name, sweep.fewest)).collect();
        let of_ours = sweeps.iter().filter(|sweep| sweep.name.starts_with("TreeDB"));
        if of_ours.map(|sweep| sweep.fewest).min().is_none_or(|fewest| fewest < questions.rows) {
            let name = &self.set.name;
            let wanted = questions.rows;
            self.problems.push(format!("{name}: a query should find {wanted} rows: {}", fewest.join(", ")));
        }
        let what = "search WHERE 1 % of the rows match";
        let compared = |sweep: &&Sweep| {
            FILTERED_GOAL.iter().any(|(peer, _)| *peer == sweep.name) || sweep.name == "TreeDB"
        };
        let reached = sweeps.iter().filter(compared).map(Sweep::best).fold(1.0, f64::min);
        let recall = FILTERED_RECALLS.into_iter().find(|recall| *recall <= reached);
        let recall = recall.unwrap_or(FILTERED_RECALLS[FILTERED_RECALLS.len() - 1]);
        let name = format!(
            "{what}, at recall@10 of {recall}, {} (fewest rows for a query: {})",
            self.set.name,
            fewest.join(", ")
        );
        self.add_at(&name, recall, &sweeps, FILTERED_GOAL);
        let at_default: Option<Vec<_>> = sweeps.iter().map(|sweep| sweep.with(RECALL_EF)).collect();
        if let Some(at_default) = at_default {
            let words: Vec<String> =
                at_default.iter().map(|(recall, samples)| format!("{} {recall:.3}", samples.name)).collect();
            let name =
                format!("{what}, {} (recall@10 at ef {RECALL_EF}: {})", self.set.name, words.join(", "));
            let samples = at_default.into_iter().map(|(_, samples)| samples).collect();
            self.add(&name, Unit::Microseconds, samples, &[]);
        }
        let name = format!("{}, 1 % match", self.set.name);
        self.out.curves.extend(sweeps.iter().map(|sweep| sweep.curve(&name)));
        Ok(())
    }

    fn sweep(
        &self,
        searches: &[Search],
        questions: &Questions<'_>,
        efs: &[usize],
        enough: f64,
    ) -> Result<Vec<Sweep>> {
        let processor = OneProcessor::take()?;
        let mut searchers = self.searchers(searches, &processor)?;
        // The server does the work.
        let plan = Plan { efs, rounds: self.scale.rounds, clock: Clock::Wall, enough };
        sweep(questions, &mut searchers, &plan)
    }

    /// A row for the times at a recall.
    fn add_at(&mut self, name: &str, recall: f64, sweeps: &[Sweep], goals: Goals<'_>) {
        let samples: Vec<Samples> = sweeps.iter().filter_map(|sweep| sweep.at(recall)).collect();
        if samples.first().is_some_and(|samples| samples.name == "TreeDB") {
            self.add(name, Unit::Microseconds, samples, goals);
        } else if goals.is_empty() {
            eprintln!("{name}: TreeDB does not reach it");
        } else {
            let best: Vec<String> =
                sweeps.iter().map(|sweep| format!("{} {:.3}", sweep.name, sweep.best())).collect();
            self.problems.push(format!("{name}: TreeDB does not reach it; the best are {}", best.join(", ")));
        }
    }

    /// Inserts queries, which are no rows yet, one by one.
    fn insert(&mut self) -> Result<()> {
        let rounds = self.scale.rounds as usize + 1;
        let each = (self.set.queries.len() / rounds).max(1);
        let processor = OneProcessor::take()?;
        let (set, tables) = (&self.set, &self.tables);
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        for side in &SIDES {
            let inserter = tables.inserter(side, &processor)?;
            let run = move |round: u64| -> Result<Measurement> {
                let from = round as usize * each;
                let vectors = set.queries.get(from..from + each).ok_or("there are too few queries")?;
                let start = Instant::now();
                for (i, vector) in vectors.iter().enumerate() {
                    inserter.insert(set.vectors.len() + from + i, vector)?;
                }
                let spent = start.elapsed().as_nanos() as u64;
                Ok(Measurement { ops: each as u64, spent, checksum: None })
            };
            candidates.push(Candidate { name: side.name, run: Box::new(run) });
        }
        let samples = compare(Unit::Microseconds, self.scale.rounds, &mut candidates)?;
        drop(candidates);
        let name = format!("insert of one row, {}", self.set.name);
        self.add(&name, Unit::Microseconds, samples, INSERT_GOAL);
        Ok(())
    }
}
