//! Random pipelines give what their definitions give: with indexes and without, in memory and beyond it.

use bson::RawDocumentBuf;

use super::*;
use crate::aggregate::oracle::{Case, case};
use crate::collection::{AggregateRequest, Collection, IndexSpec};
use crate::doc::testing::Rng;
use crate::query::oracle::{document, pattern, rounds};

/// How often what was tried.
#[derive(Debug, Default)]
struct Seen {
    pipelines: usize,
    documents: usize,
    refused: usize,
    ordered: usize,
    by_index: usize,
    wrong: Vec<String>,
}

fn answer(collection: &Collection, case: &Case, memory: usize, threads: usize) -> Result<Vec<Document>> {
    let mut request = AggregateRequest::new(case.stages.iter().map(raw));
    request.memory = memory;
    request.threads = Some(threads);
    collection.aggregate(&request)?.map(|doc| Ok(Document::try_from(&*doc?)?)).collect()
}

fn filled(db: &Database, name: &str, docs: &[Document]) -> Collection {
    let collection = db.collection(name).unwrap();
    let docs: Vec<RawDocumentBuf> = docs.iter().map(raw).collect();
    collection.insert_many(&docs, true).unwrap();
    collection
}

fn indexed(rng: &mut Rng, collection: &Collection) {
    const PATHS: &[&str] = &["n", "n", "a", "a.x", "b", "b.x", "c"];
    for _ in 0..rng.below(4) {
        // Parallel arrays are refused.
        let _ = collection.create_index(IndexSpec::new(raw(&pattern(rng, PATHS))));
    }
}

fn one_database(rng: &mut Rng, seen: &mut Seen) {
    let arrays: &[&str] = rng.pick::<&[&str]>(&[&["a", "b", "c"], &["a"], &["b"], &[]]);
    let docs: Vec<Document> = (0..30).map(|number| document(rng, number, arrays)).collect();
    let other: Vec<Document> = (0..12).map(|number| document(rng, number, arrays)).collect();
    let dbs = [(); 2].map(|()| open(&SimDisk::new()).unwrap());
    let [fast, plain] = dbs.each_ref().map(|db| filled(db, "db.docs", &docs));
    let [fast_other, _] = dbs.each_ref().map(|db| filled(db, "db.other", &other));
    indexed(rng, &fast);
    indexed(rng, &fast_other);
    for _ in 0..20 {
        let case = case(rng, &docs, &other);
        seen.pipelines += 1;
        seen.ordered += usize::from(case.ordered);
        let shown = || case.stages.iter().map(|stage| format!("\n  {stage}")).collect::<String>();
        // The last one has room for a few documents at a time.
        let ways = [
            ("with indexes", &fast, 1 << 20, 1),
            ("without indexes, by threads", &plain, 1 << 20, 3),
            ("in little memory", if case.stages.len().is_multiple_of(2) { &fast } else { &plain }, 6000, 2),
        ];
        for (way, collection, memory, threads) in ways {
            match (answer(collection, &case, memory, threads), &case.answer) {
                (Ok(found), Some(wanted)) => {
                    seen.documents += wanted.len();
                    let wrong = case.disagreement(&found).map(|wrong| format!("{way}:{}\n{wrong}", shown()));
                    seen.wrong.extend(wrong);
                }
                (Err(_), None) => seen.refused += 1,
                (Err(error), _) if error.message.contains("parallel arrays") => {}
                (Err(error), _) if memory < 1 << 20 && error.message.contains("memory") => {}
                (Err(error), Some(_)) if error.message.contains("more than") && memory < 1 << 20 => {}
                (Err(error), Some(_)) => seen.wrong.push(format!("{way}:{}\n{error}", shown())),
                (Ok(_), None) => seen.wrong.push(format!("{way}: not refused:{}", shown())),
            }
        }
        let plan = fast.aggregate(&AggregateRequest::new(case.stages.iter().map(raw)));
        let by_index = plan.is_ok_and(|found| {
            found.plan().is_some_and(|plan| matches!(plan.path, crate::query::Path::Index { .. }))
        });
        seen.by_index += usize::from(by_index);
    }
}

#[test]
fn every_pipeline_gives_what_its_definition_gives() {
    let mut seen = Seen::default();
    for seed in 0..60 * rounds() {
        one_database(&mut Rng::new(seed), &mut seen);
        if seen.wrong.len() > 5 {
            break;
        }
    }
    assert!(seen.wrong.is_empty(), "{}", seen.wrong.join("\n\n"));
    println!("{seen:?}");
    assert!(seen.documents > 2000 && seen.ordered > 200 && seen.by_index > 50, "{seen:?}");
}
