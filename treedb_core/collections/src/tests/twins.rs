//! The same operations on two collections, with and without indexes, give the same results.

use bson::doc;
use treedb_testing::{Rng, seeds};

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest};

fn document(rng: &mut Rng, id: i32) -> Document {
    let mut doc = doc! { "_id": id, "n": rng.below(6) as i32 };
    match rng.below(4) {
        0 => doc.insert("a", rng.below(5) as i32),
        1 => doc.insert("a", (0..rng.below(4)).map(|_| rng.below(5) as i32).collect::<Vec<_>>()),
        2 => doc.insert("a", vec![doc! { "x": rng.below(3) as i32 }, doc! { "x": "y" }]),
        _ => None,
    };
    if rng.below(2) == 0 {
        doc.insert("b", doc! { "c": rng.below(4) as f64 / 2.0, "d": *rng.pick(&["", "p", "q"]) });
    }
    doc
}

fn filter(rng: &mut Rng) -> Document {
    let n = rng.below(6) as i32;
    match rng.below(9) {
        0 => doc! { "_id": rng.below(120) as i32 },
        1 => doc! { "n": n },
        2 => doc! { "n": { "$gte": n }, "a": rng.below(5) as i32 },
        3 => doc! { "a": { "$gt": 1, "$lt": 4 } },
        4 => doc! { "a.x": { "$in": [1, "y"] }, "n": { "$ne": n } },
        5 => doc! { "b.c": { "$lte": 1 }, "b.d": { "$gt": "" } },
        6 => doc! { "a": null },
        7 => doc! { "$or": [{ "n": n }, { "b.d": "q" }] },
        _ => doc! { "b": { "$exists": false }, "n": { "$in": [n, n + 1] } },
    }
}

fn all(collection: &Collection, request: FindRequest) -> Vec<Document> {
    collection.find(request).unwrap().map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect()
}

#[test]
fn indexes_do_not_change_the_result_of_operations() {
    let mut used = 0;
    for seed in seeds(0..12) {
        let mut rng = Rng::new(seed);
        let db = open(&SimDisk::new()).unwrap();
        let (fast, plain) = (db.collection("t.fast").unwrap(), db.collection("t.plain").unwrap());
        let mut next = 0;
        for step in 0..150 {
            match rng.below(12) {
                0..4 => {
                    // Some ids exist already: both refuse these and insert the others.
                    let docs: Vec<_> = (0..1 + rng.below(6))
                        .map(|_| {
                            next += 1;
                            let id = if rng.below(8) == 0 { rng.below(next as usize) as i32 } else { next };
                            raw(&document(&mut rng, id))
                        })
                        .collect();
                    let ordered = rng.below(2) == 0;
                    let done =
                        [&fast, &plain].map(|collection| collection.insert_many(&docs, ordered).unwrap());
                    let errors =
                        done.each_ref().map(|done| done.errors.iter().map(|(at, _)| *at).collect::<Vec<_>>());
                    assert_eq!((done[0].inserted, &errors[0]), (done[1].inserted, &errors[1]));
                }
                4..7 => {
                    let filter = raw(&filter(&mut rng));
                    let update = match rng.below(4) {
                        0 => doc! { "$inc": { "n": 1 } },
                        1 => doc! { "$set": { "a": [rng.below(5) as i32, 7], "b.c": 1 } },
                        2 => doc! { "$unset": { "a": "", "b.d": "" } },
                        _ => doc! { "$set": { "a": { "x": 1 } }, "$inc": { "n": -2 } },
                    };
                    // Updates many, because the first match depends on the plan; a path through a scalar
                    // fails in both.
                    let request = UpdateRequest::many(filter, raw(&update));
                    let done = [&fast, &plain]
                        .map(|collection| collection.update(request.clone()).map_err(|error| error.code));
                    assert_eq!(done[0], done[1]);
                }
                7 => {
                    let filter = raw(&doc! { "$and": [filter(&mut rng), { "n": { "$gt": 3 } }] });
                    let done = [&fast, &plain]
                        .map(|collection| collection.delete(DeleteRequest::many(filter.clone())).unwrap());
                    assert_eq!(done[0], done[1]);
                }
                8 => {
                    let specs = [
                        doc! { "key": { "n": 1 } },
                        doc! { "key": { "a": -1 } },
                        doc! { "key": { "n": -1, "a": 1 } },
                        doc! { "key": { "a.x": 1, "n": 1 } },
                        doc! { "key": { "b.c": 1, "b.d": -1 } },
                        doc! { "key": { "a": 1 }, "name": "sparse", "sparse": true },
                        doc! { "key": { "b.d": 1, "a.x": 1 }, "sparse": true },
                        doc! { "key": { "n": 1 }, "name": "some", "partialFilterExpression": { "n": { "$gte": 3 } } },
                        doc! { "key": { "a": 1 }, "name": "few", "partialFilterExpression": { "b.d": "q" } },
                        doc! { "key": { "n": "hashed" } },
                        doc! { "key": { "$**": 1 } },
                        doc! { "key": { "b.$**": 1 } },
                    ];
                    fast.create_index(IndexSpec::from_document(&raw(rng.pick(&specs)))).unwrap();
                }
                9 if rng.below(3) == 0 => {
                    let names: Vec<String> = fast
                        .indexes()
                        .unwrap()
                        .into_iter()
                        .flatten()
                        .map(|index| index.get_str("name").unwrap().to_owned())
                        .collect();
                    if let Some(name) = names.get(1) {
                        fast.drop_index(name).unwrap();
                    }
                }
                _ => {
                    let sort = doc! { *rng.pick(&["n", "a", "b.c"]): if rng.below(2) == 0 { 1 } else { -1 }, "_id": 1 };
                    let request = FindRequest::filter(raw(&filter(&mut rng)))
                        .sort(raw(&sort))
                        .skip(rng.below(3) as u64)
                        .limit(rng.below(20) as u64);
                    assert_eq!(all(&fast, request.clone()), all(&plain, request.clone()), "{request:?}");
                    assert_eq!(fast.count(request.clone()).unwrap(), plain.count(request.clone()).unwrap());
                    let plan = fast.explain(request).unwrap().map(|(plan, _)| plan);
                    used +=
                        usize::from(plan.is_some_and(|plan| {
                            matches!(plan.path, treedb_query::query::Path::Index { .. })
                        }));
                }
            }
            if step % 50 == 49 {
                db.check().unwrap();
                let state = dump(&db).unwrap();
                let docs =
                    |name: &str| state.get(name).map(|contents| contents.docs.clone()).unwrap_or_default();
                assert_eq!(docs("t.fast"), docs("t.plain"), "seed {seed}, step {step}");
            }
        }
    }
    println!("{used} finds by an index");
    assert!(used > 100, "{used}");
}
