//! The cost of the row formats: bytes on disk, and time to insert, to find by `_id`, and to count by a scan.
//!
//! `cargo run --release --example formats`. The formats take turns; each figure is the best of the rounds.

use std::path::Path;
use std::time::Instant;

use treedb_collections::bson::{RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, Database, Durability, FindRequest, Format, IndexSpec};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const COUNT: u32 = 100_000;
const FORMATS: [Format; 2] = [Format::Template, Format::Bson];

fn document(n: u32) -> RawDocumentBuf {
    rawdoc! {
        "_id": format!("u-{n:09}"), "name": format!("user-{n:09}"), "email": format!("user-{n:09}@example.com"),
        "city": format!("city-{:02}", n % 64), "pad": "01234567890123456789",
    }
}

/// Bytes of a file, or of the files in a folder.
fn bytes(path: &Path) -> Result<u64> {
    if path.is_file() {
        return Ok(std::os::unix::fs::MetadataExt::blocks(&path.metadata()?) * 512);
    }
    std::fs::read_dir(path)?.map(|entry| bytes(&entry?.path())).sum()
}

fn nanos(count: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(count))
}

fn insert(dir: &Path, format: Format) -> Result<(Database, Collection, f64)> {
    let db = Database::open(dir)?;
    let people = db.create_collection("db.people", format.options())?.with_durability(Durability::Relaxed);
    people.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
    people.create_index(IndexSpec::new(rawdoc! { "city": 1 }))?;
    let documents: Vec<_> = (0..COUNT).map(document).collect();
    let spent = nanos(COUNT, || {
        for batch in documents.chunks(16_000) {
            people.insert_many(batch, true)?;
        }
        Ok(())
    })?;
    Ok((db, people, spent))
}

fn main() -> Result<()> {
    let mut best = [[f64::MAX; 5]; 2];
    for _ in 0..5 {
        for (format, best) in FORMATS.into_iter().zip(&mut best) {
            let dir = tempfile::tempdir()?;
            let (db, people, spent) = insert(dir.path(), format)?;
            let mut note = |at: usize, figure: f64| best[at] = best[at].min(figure);
            note(0, spent);
            let find = nanos(COUNT, || {
                for n in 0..COUNT {
                    let id = format!("u-{:09}", n.wrapping_mul(7919) % COUNT);
                    people.find_one(rawdoc! { "_id": id })?.ok_or("a document is missing")?;
                }
                Ok(())
            })?;
            note(1, find);
            let scan = nanos(COUNT, || {
                let request = FindRequest::filter(rawdoc! { "pad": { "$regex": "x$" } });
                if people.count(request)? == 0 { Ok(()) } else { Err("too many".into()) }
            })?;
            note(2, scan);
            db.checkpoint()?;
            note(3, bytes(&dir.path().join("pages"))? as f64 / f64::from(COUNT));
            let all: f64 = bytes(dir.path())? as f64;
            note(4, all / f64::from(COUNT));
        }
    }
    println!("{COUNT} documents, two indexes; the best of 5 rounds");
    println!("format     insert ns   find by _id ns   scan ns   page file bytes   all bytes (per document)");
    for (format, [insert, find, scan, pages, all]) in FORMATS.into_iter().zip(best) {
        println!("{:9} {insert:10.0} {find:16.0} {scan:9.0} {pages:17.1} {all:11.1}", format.name());
    }
    Ok(())
}
