//! What it costs to save the image of a vector index when a database is closed, and what that saves the first searches after the next opening. Vectors of
//! 128 dimensions in clusters, under Euclidean distance, as floats; the file is in the system's cache.
//! `cargo run --release -p treedb_collections --example saved_image_cost [VECTORS] [DIRECTORY] [SEARCHES]`
//!
//! With a number of searches it only opens a directory that was made before, and searches with the image in its file, and with one that it builds:
//! `valgrind --tool=callgrind --toggle-collect='*with_the_file*'` (`'*without_the_file*'`) counts their instructions.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use bson::spec::BinarySubtype;
use bson::{Binary, RawDocumentBuf, rawdoc};
use rustix::time::{ClockId, clock_gettime};
use treedb_collections::{Database, Durability, IndexSpec, Options, VectorSearchRequest};
use treedb_testing::Clusters;

const DIMENSIONS: usize = 128;
const CLUSTERS: usize = 500;
/// Directions in which a cluster varies.
const LATENT: usize = 24;
const ROUNDS: usize = 3;

type Failure = Box<dyn Error>;

/// Seconds on the clock, and of the processors.
struct Taken {
    clock: f64,
    processor: f64,
}

impl Taken {
    fn by<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(Taken, T), Failure> {
        let processor = || {
            let time = clock_gettime(ClockId::ProcessCPUTime);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        let (begun, before) = (Instant::now(), processor());
        let done = work()?;
        Ok((Taken { clock: begun.elapsed().as_secs_f64(), processor: processor() - before }, done))
    }
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} s ({:.3} s of processor time)", self.clock, self.processor)
    }
}

fn document(vectors: &mut Clusters, id: i32) -> RawDocumentBuf {
    let elements = vectors.vector().into_iter().flat_map(f32::to_le_bytes);
    let bytes = [0x27, 0].into_iter().chain(elements).collect();
    rawdoc! { "_id": id, "v": Binary { subtype: BinarySubtype::from(9), bytes } }
}

fn open(dir: &Path) -> Result<Database, Failure> {
    let mut options = Options::default();
    options.durability = Durability::Relaxed;
    Ok(Database::open_with(dir, options)?)
}

/// Memory of the process in MB: `RssAnon` is what is no file's, `RssFile` what is mapped of files.
fn memory(kind: &str) -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(':')).ok_or("no such memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1e3)
}

fn ready(db: &Database) -> bool {
    let memory = db.vector_memory_use();
    memory.built + memory.loaded > 0
}

/// Opens a database and searches it, until an image answers. Prints what took how long.
fn first_answers(dir: &Path, query: &[f32]) -> Result<(Database, f64), Failure> {
    let search = |db: &Database| -> Result<(), Failure> {
        db.collection("shop.things")?.vector_search(&VectorSearchRequest::new("near", query.to_vec(), 10))?;
        Ok(())
    };
    let (first, db) = Taken::by(|| {
        let db = open(dir)?;
        search(&db)?;
        Ok(db)
    })?;
    let (rest, searches) = Taken::by(|| {
        let mut searches = 1;
        while !ready(&db) {
            search(&db)?;
            searches += 1;
        }
        Ok(searches)
    })?;
    let whole = first.processor + rest.processor;
    println!(
        "  open and first answer {first}; until an image answers {searches} searches, {whole:.3} s of processor time; {:.0} MB of own memory, {:.0} MB mapped",
        memory("RssAnon")?,
        memory("RssFile")?
    );
    Ok((db, whole))
}

/// Searches for so many vectors, of which the file's or the built image has all that is needed.
fn searches(db: &Database, queries: &[Vec<f32>]) -> Result<f64, Failure> {
    let mut searcher = db.collection("shop.things")?.vector_searcher("near");
    let mut sum = 0.0;
    for query in queries {
        searcher.search(query, 10, 64, |_, distance| sum += f64::from(distance))?;
    }
    Ok(sum)
}

#[inline(never)]
fn with_the_file(db: &Database, queries: &[Vec<f32>]) -> Result<f64, Failure> {
    searches(db, queries)
}

#[inline(never)]
fn without_the_file(db: &Database, queries: &[Vec<f32>]) -> Result<f64, Failure> {
    searches(db, queries)
}

/// Searches in the image of the file, and in one that is built. Each is searched for the same vectors before, so that all of it is checked.
fn compare_searches(dir: &Path, queries: &[Vec<f32>]) -> Result<(), Failure> {
    let mut sums = Vec::new();
    for (name, has_file, search) in [
        ("in the file", true, with_the_file as fn(&Database, &[Vec<f32>]) -> Result<f64, Failure>),
        ("built", false, without_the_file),
    ] {
        let derived = dir.join("derived");
        let aside = dir.join("aside");
        if !has_file {
            std::fs::rename(&derived, &aside)?;
        }
        let db = open(dir)?;
        while !ready(&db) {
            searches(&db, queries)?;
        }
        searches(&db, queries)?;
        let (taken, sum) = Taken::by(|| search(&db, queries))?;
        println!(
            "{} searches, image {name}: {taken}; {:.0} MB of own memory",
            queries.len(),
            memory("RssAnon")?
        );
        sums.push(sum);
        db.set_save_vector_images_at_close(false);
        db.close()?;
        if !has_file {
            let _ = std::fs::remove_dir_all(&derived);
            std::fs::rename(&aside, &derived)?;
        }
    }
    if sums.first() == sums.last() { Ok(()) } else { Err("other answers".into()) }
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let count: i32 = args.next().map_or(Ok(100_000), |count| count.parse())?;
    let temporary = tempfile::tempdir()?;
    let dir = args.next().map_or(temporary.path().to_path_buf(), Into::into);
    let mut vectors = Clusters::new(1, DIMENSIONS, CLUSTERS, LATENT);
    let query = vectors.vector();
    if let Some(count) = args.next() {
        let queries: Vec<Vec<f32>> = (0..count.parse()?).map(|_| vectors.vector()).collect();
        return compare_searches(&dir, &queries);
    }
    if !dir.join("pages").exists() {
        let db = open(&dir)?;
        let things = db.collection("shop.things")?;
        let documents: Vec<_> = (0..count).map(|id| document(&mut vectors, id)).collect();
        documents.chunks(1_000).try_for_each(|batch| things.insert_many(batch, true).map(drop))?;
        let field = rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean", "quantization": "none" };
        let (built, _) = Taken::by(|| Ok(things.create_index(IndexSpec::vector(field).name("near"))?))?;
        println!("{count} vectors of {DIMENSIONS} dimensions; index built in {built}");
        drop(things);
        db.close()?;
    }
    let (mut without, mut with) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        // The files are derived: nothing else is lost with them.
        let _ = std::fs::remove_dir_all(dir.join("derived"));
        println!("without a saved image:");
        let (db, taken) = first_answers(&dir, &query)?;
        without = without.min(taken);
        let (closing, ()) = Taken::by(|| Ok(db.close()?))?;
        let mut bytes = 0;
        for file in std::fs::read_dir(dir.join("derived"))? {
            bytes += file?.metadata()?.len();
        }
        println!(
            "  closing, which saves it, {closing}: a file of {:.1} MB, {} bytes a vector",
            bytes as f64 / 1e6,
            bytes / count as u64
        );
        println!("with it:");
        let (db, taken) = first_answers(&dir, &query)?;
        with = with.min(taken);
        let (closing, ()) = Taken::by(|| Ok(db.close()?))?;
        println!("  closing, with nothing to save, {closing}");
    }
    println!(
        "from opening to an answer by an image, processor time, least of {ROUNDS}: {without:.3} s without a saved image, {with:.3} s with it: ratio {:.1}",
        without / with
    );
    Ok(())
}
