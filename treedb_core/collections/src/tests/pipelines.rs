//! Random pipelines compared with a naive evaluator: with and without indexes, in memory and with temporary
//! files.

use bson::{Bson, RawDocumentBuf, doc, rawdoc};
use treedb_testing::{Rng, oracle_factor, ranked, seeds};

use super::*;
use crate::{
    AggregateRequest, Aggregation, Collection, DeleteRequest, IndexSpec, Transaction, UpdateRequest,
};
use treedb_oracle::aggregate::{Case, case, writing, written};
use treedb_oracle::query::{document, pattern};

/// Counts of what was tested.
#[derive(Debug, Default)]
struct Tested {
    pipelines: usize,
    documents: usize,
    refused: usize,
    ordered: usize,
    by_index: usize,
    /// How often a pipeline was run in parts, and how often not.
    divided: usize,
    undivided: usize,
    wrong: Vec<String>,
}

fn answer(collection: &Collection, case: &Case, memory: usize, threads: usize) -> Result<Vec<Document>> {
    let mut request = AggregateRequest::new(case.stages.iter().map(raw));
    request.memory = memory;
    request.threads = Some(threads);
    answer_of(collection, &request)
}

fn answer_of(collection: &Collection, request: &AggregateRequest) -> Result<Vec<Document>> {
    collection.aggregate(request).and_then(all)
}

fn all(answer: Aggregation) -> Result<Vec<Document>> {
    answer.map(|doc| Ok(Document::try_from(&*doc?)?)).collect()
}

fn filled(db: &Database, name: &str, docs: &[Document]) -> Collection {
    let collection = db.collection(name).unwrap();
    let docs: Vec<RawDocumentBuf> = docs.iter().map(raw).collect();
    collection.insert_many(&docs, true).unwrap();
    collection
}

/// A transaction in which `db.docs` has the documents `docs` and `db.other` has `other`. Some were inserted before; the
/// transaction inserts, updates and deletes to get there.
fn changed_to(rng: &mut Rng, db: &Database, docs: &[Document], other: &[Document]) -> Transaction {
    let names = ["db.docs", "db.other"];
    let mut missing = Vec::new();
    for (name, docs) in names.into_iter().zip([docs, other]) {
        let collection = db.collection(name).unwrap();
        // Indexes of one field, since intermediate documents may have arrays in any field.
        for path in ["n", "a", "b.x"].into_iter().take(rng.below(4)) {
            collection.create_index(raw(&doc! { path: if rng.below(2) == 0 { 1 } else { -1 } })).unwrap();
        }
        for (number, doc) in docs.iter().enumerate() {
            let early = match rng.below(3) {
                0 => doc.clone(),
                1 => doc! { "_id": doc.get("_id").cloned().unwrap(), "n": number as i32, "a": "other" },
                _ => {
                    missing.push((name, doc.clone()));
                    continue;
                }
            };
            collection.insert_one(raw(&early)).unwrap();
            if early != *doc {
                missing.push((name, doc.clone()));
            }
        }
        collection.insert_one(rawdoc! { "_id": "gone", "n": 1, "a": [1, 2] }).unwrap();
    }
    let mut txn = db.begin().unwrap();
    for (name, doc) in missing {
        let same = rawdoc! { "_id": bson::RawBson::try_from(doc.get("_id").cloned().unwrap()).unwrap() };
        let change = UpdateRequest::one(same, raw(&doc)).upsert();
        txn.collection(name).unwrap().update(change).unwrap();
    }
    for name in names {
        let gone = DeleteRequest::one(rawdoc! { "_id": "gone" });
        assert_eq!(txn.collection(name).unwrap().delete(gone).unwrap(), 1);
    }
    txn
}

fn indexed(rng: &mut Rng, collection: &Collection) {
    const PATHS: &[&str] = &["n", "n", "a", "a.x", "b", "b.x", "c"];
    for _ in 0..rng.below(4) {
        // Parallel arrays are refused.
        let _ = collection.create_index(IndexSpec::new(raw(&pattern(rng, PATHS))));
    }
}

fn one_database(rng: &mut Rng, seen: &mut Tested) {
    let arrays: &[&str] = rng.pick::<&[&str]>(&[&["a", "b", "c"], &["a"], &["b"], &[]]);
    let docs: Vec<Document> = (0..30).map(|number| document(rng, number, arrays)).collect();
    let other: Vec<Document> = (0..12).map(|number| document(rng, number, arrays)).collect();
    let dbs = [(); 2].map(|()| open(&SimDisk::new()).unwrap());
    let [fast, plain] = dbs.each_ref().map(|db| filled(db, "db.docs", &docs));
    let [fast_other, _] = dbs.each_ref().map(|db| filled(db, "db.other", &other));
    indexed(rng, &fast);
    indexed(rng, &fast_other);
    let inside = open(&SimDisk::new()).unwrap();
    let mut txn = changed_to(rng, &inside, &docs, &other);
    for _ in 0..20 {
        let case = case(rng, &docs, &other);
        seen.pipelines += 1;
        seen.ordered += usize::from(case.ordered);
        let shown = || case.stages.iter().map(|stage| format!("\n  {stage}")).collect::<String>();
        // The memory limit of the last one fits only a few documents.
        let ways = [
            ("with indexes", &fast, 1 << 20, 1),
            ("without indexes, by threads", &plain, 1 << 20, 3),
            ("in little memory", if case.stages.len().is_multiple_of(2) { &fast } else { &plain }, 6000, 2),
        ];
        let mut answers: Vec<_> = ways
            .into_iter()
            .map(|(way, collection, memory, threads)| {
                (way, memory, answer(collection, &case, memory, threads))
            })
            .collect();
        let request = AggregateRequest::new(case.stages.iter().map(raw));
        let found = txn.collection("db.docs").unwrap().aggregate(&request).and_then(all);
        answers.push(("in a transaction", 1 << 20, found));
        // As several processes would, each over some of the documents.
        let mut deal = Rng::new(seen.pipelines as u64);
        let mut parts = vec![Vec::new(); 1 + deal.below(4)];
        for doc in &docs {
            let part = deal.below(parts.len());
            parts[part].push(raw(doc));
        }
        for memory in [1 << 20, 6000] {
            let request = AggregateRequest { memory, ..AggregateRequest::new(case.stages.iter().map(raw)) };
            if let Some(found) = dbs[1].aggregate_in_parts("db.docs", &request, parts.clone()).transpose() {
                seen.divided += 1;
                let found = found.and_then(|found| {
                    found.iter().map(|doc| Ok(Document::try_from(&**doc)?)).collect::<Result<Vec<_>>>()
                });
                answers.push(("in parts", memory, found));
            } else {
                seen.undivided += 1;
            }
        }
        for (way, memory, answer) in answers {
            match (answer, &case.answer) {
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
            found.plan().is_some_and(|plan| matches!(plan.path, treedb_query::query::Path::Index { .. }))
        });
        seen.by_index += usize::from(by_index);
    }
}

#[test]
fn every_pipeline_gives_the_same_as_the_naive_evaluator() {
    let mut seen = Tested::default();
    // 359: a filter that reads no field, moved before a `$unionWith`.
    for seed in seeds((0..60 * oracle_factor()).chain([359])) {
        one_database(&mut Rng::new(seed), &mut seen);
        if seen.wrong.len() > 5 {
            break;
        }
    }
    assert!(seen.wrong.is_empty(), "{}", seen.wrong.join("\n\n"));
    println!("{seen:?}");
    assert!(seen.documents > 2000 && seen.ordered > 200 && seen.by_index > 50, "{seen:?}");
    assert!(seen.divided > 50 && seen.undivided > 200, "{seen:?}");
}

#[test]
fn the_writes_of_a_pipeline_equal_those_of_the_naive_evaluator() {
    let (mut wrong, mut compared, mut documents) = (Vec::new(), 0, 0);
    for seed in seeds(0..12 * oracle_factor()) {
        let rng = &mut Rng::new(seed + 9000);
        let docs: Vec<Document> = (0..20).map(|number| document(rng, number, &["a"])).collect();
        let other: Vec<Document> = (0..12).map(|number| document(rng, number, &[])).collect();
        let db = open(&SimDisk::new()).unwrap();
        let collection = filled(&db, "db.docs", &docs);
        filled(&db, "db.other", &other);
        for _ in 0..15 {
            let (case, stage) = (case(rng, &docs, &other), writing(rng));
            let Some(wanted) = case.answer.as_deref().and_then(|made| written(&stage, made, &other)) else {
                continue;
            };
            db.drop_collection("db.target").unwrap();
            let target = filled(&db, "db.target", &other);
            let stages: Vec<Document> = case.stages.iter().cloned().chain([stage]).collect();
            let request = AggregateRequest::new(stages.iter().map(raw));
            let case = Case { answer: Some(wanted), ordered: false, loose: case.loose, stages };
            let problem = match answer_of(&collection, &request) {
                Ok(left) => {
                    let there = target.find(FindRequest::default()).unwrap();
                    let there: Vec<_> =
                        there.map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect();
                    documents += there.len();
                    if left.is_empty() { case.disagreement(&there) } else { Some(format!("{left:?}")) }
                }
                Err(error) if error.message.contains("parallel arrays") => None,
                Err(error) => Some(error.to_string()),
            };
            compared += 1;
            wrong.extend(problem.map(|problem| format!("{seed}: {:?}\n{problem}", case.stages)));
        }
        db.check().unwrap();
        if wrong.len() > 5 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("{compared} pipelines, {documents} documents");
    assert!(compared > 40 && documents > 400, "{compared} {documents}");
}

/// The string with its letters replaced by others that are equal at strength 1.
fn respelled_text(rng: &mut Rng, text: &str) -> String {
    let letter = |rng: &mut Rng, letter: char| match letter {
        'a' => *rng.pick(&['a', 'A', '\u{e1}', '\u{c1}']),
        'b' => *rng.pick(&['b', 'B']),
        other => other,
    };
    text.chars().map(|one| letter(rng, one)).collect()
}

/// The value without control characters in its strings, which a collation ignores.
fn printable(value: &Bson) -> Bson {
    let letters = |text: &str| text.chars().filter(|one| !one.is_control()).collect::<String>();
    match value {
        Bson::String(text) => letters(text).into(),
        Bson::Symbol(text) => Bson::Symbol(letters(text)),
        Bson::Array(all) => all.iter().map(printable).collect::<Vec<_>>().into(),
        Bson::Document(doc) => {
            doc.iter().map(|(name, one)| (name.clone(), printable(one))).collect::<Document>().into()
        }
        other => other.clone(),
    }
}

/// Applies [`respelled_text`] to all strings of a value, except for field paths in expressions.
fn respelled(rng: &mut Rng, value: &Bson) -> Bson {
    match value {
        Bson::String(text) if text.starts_with('$') => value.clone(),
        Bson::String(text) => respelled_text(rng, text).into(),
        Bson::Symbol(text) => Bson::Symbol(respelled_text(rng, text)),
        Bson::Array(all) => all.iter().map(|one| respelled(rng, one)).collect::<Vec<_>>().into(),
        Bson::Document(doc) => {
            let field = |(name, one): (&String, &Bson)| {
                let new = if name == "$type" { one.clone() } else { respelled(rng, one) };
                (name.clone(), new)
            };
            doc.iter().map(field).collect::<Document>().into()
        }
        other => other.clone(),
    }
}

/// A stage with respelled constants.
fn respelled_stage(rng: &mut Rng, value: &Bson) -> Bson {
    match value {
        Bson::Array(all) => all.iter().map(|one| respelled_stage(rng, one)).collect::<Vec<_>>().into(),
        Bson::Document(doc) => {
            let field = |(name, one): (&String, &Bson)| {
                let new = match name.as_str() {
                    "$match" | "$literal" => respelled(rng, one),
                    _ => respelled_stage(rng, one),
                };
                (name.clone(), new)
            };
            doc.iter().map(field).collect::<Document>().into()
        }
        other => other.clone(),
    }
}

fn documents(values: impl Iterator<Item = Bson>) -> Vec<Document> {
    values.map(|value| value.as_document().unwrap().clone()).collect()
}

#[test]
fn a_pipeline_with_a_collation_equals_one_over_normalized_strings() {
    let spec = doc! { "locale": "en", "strength": 1 };
    // A result is correct if it is the expected one except for the spelling of its strings.
    let same = |docs: &[Document]| docs.iter().map(|doc| ranked(doc, 1)).collect::<Vec<_>>();
    let (mut wrong, mut compared, mut by_index, mut with_text) = (Vec::new(), 0, 0, 0);
    for seed in seeds(0..40 * oracle_factor()) {
        let mut rng = Rng::new(seed + 5000);
        let rng = &mut rng;
        let arrays: &[&str] = rng.pick::<&[&str]>(&[&["a", "b", "c"], &["a"], &[]]);
        let [docs, other] =
            [30, 12].map(|count| (0..count).map(|number| document(rng, number, arrays)).collect::<Vec<_>>());
        // Half of the values are strings.
        let texts = |rng: &mut Rng, docs: Vec<Document>| {
            let text = |rng: &mut Rng| Bson::from(*rng.pick(&["a", "b", "ab", "ba", ""]));
            let one = |mut doc: Document| {
                for name in ["n", "b"] {
                    if rng.below(2) == 0 {
                        doc.insert(name, text(rng));
                    }
                }
                doc
            };
            documents(docs.into_iter().map(one).map(|doc| printable(&doc.into())))
        };
        let (docs, other) = (texts(rng, docs), texts(rng, other));
        let mut spell =
            |docs: &[Document]| documents(docs.iter().map(|doc| respelled(rng, &doc.clone().into())));
        let (spelled, spelled_other) = (spell(&docs), spell(&other));
        let [asked, own] = [(); 2].map(|()| open(&SimDisk::new()).unwrap());
        // One collection has the collation; for the other it is given in the request.
        own.create_collection("db.docs", doc! { "collation": spec.clone() }).unwrap();
        let [asked, own] = [asked, own].map(|db| {
            filled(&db, "db.other", &spelled_other);
            filled(&db, "db.docs", &spelled)
        });
        for _ in 0..3 {
            let index = IndexSpec::new(raw(&pattern(rng, &["n", "n", "a", "b", "b.x"])));
            let index = if rng.below(4) > 0 { index.collation(raw(&spec)) } else { index };
            let _ = asked.create_index(index);
            let _ = own.create_index(IndexSpec::new(raw(&pattern(rng, &["n", "b", "c"]))));
        }
        for _ in 0..12 {
            let case = case(rng, &docs, &other);
            let shown = format!("{:?}", case.stages);
            // These ignore collations, or compare control characters.
            if ["Regex", "$regex", "$jsonSchema", "\\0", "\\u{1}"].iter().any(|word| shown.contains(word)) {
                continue;
            }
            let stages =
                documents(case.stages.iter().map(|stage| respelled_stage(rng, &stage.clone().into())));
            with_text += usize::from(stages != case.stages);
            let mut request = AggregateRequest::new(stages.iter().map(raw));
            request.threads = Some(1 + rng.below(3));
            let answers = [
                ("collation of the collection", answer_of(&own, &request)),
                ("collation of the request", {
                    request.collation = Some(raw(&spec));
                    by_index += usize::from(asked.aggregate(&request).is_ok_and(|found| {
                        let path = found.plan().map(|plan| &plan.path);
                        matches!(path, Some(treedb_query::query::Path::Index { .. }))
                    }));
                    answer_of(&asked, &request)
                }),
            ];
            let wanted = case.answer.as_ref().map(|answer| same(answer));
            let case = Case { answer: wanted, ..case };
            for (way, found) in answers {
                compared += 1;
                let problem = match (found, &case.answer) {
                    (Ok(found), Some(_)) => case.disagreement(&same(&found)),
                    (Err(_), None) => None,
                    (Err(error), _) if error.message.contains("parallel arrays") => None,
                    (found, _) => Some(format!("{found:?}")),
                };
                wrong.extend(problem.map(|problem| format!("{seed} {way}: {stages:?}\n{problem}")));
            }
        }
        if wrong.len() > 5 {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("{compared} compared, {by_index} by an index, {with_text} with strings in the stages");
    assert!(compared > 300 && by_index > 10 && with_text > 15, "{compared} {by_index} {with_text}");
}
