//! Index builds with concurrent writes between the steps of a build.

use bson::{doc, rawdoc};
use treedb_testing::Rng;

use super::*;
use crate::catalog::namespace::Namespace;
use crate::index::Progress;
use crate::maintenance::backfill::advance;
use crate::maintenance::index_build::add;
use crate::maintenance::index_rebuild::begin_on_request;
use crate::{ChangeLogOptions, Collection, DeleteRequest, FindRequest, IndexSpec, UpdateRequest};
use treedb_query::error::ErrorCode;
use treedb_storage::Reads;

const ROWS: i32 = 200;

struct Shop {
    db: Database,
    things: Collection,
    namespace: Namespace,
}

fn shop() -> Shop {
    let db = open(&SimDisk::new()).unwrap();
    let things = db.collection("shop.things").unwrap();
    Shop { db, things, namespace: Namespace::parse("shop.things").unwrap() }
}

fn vector(dice: &mut Rng) -> Vec<i32> {
    (0..3).map(|_| dice.below(40) as i32).collect()
}

fn thing(dice: &mut Rng, id: i32, serial: i32) -> Document {
    let vector = vector(dice);
    let tags: Vec<i32> = (0..dice.below(5)).map(|_| dice.below(9) as i32).collect();
    let word = ["a", "A", "bc", "Bc"][dice.below(4)];
    let mut thing = doc! {
        "_id": id, "n": dice.below(20) as i32, "serial": serial, "tags": tags,
        "word": word, "in": { "to": dice.below(7) as i32, "v": vector },
    };
    if dice.chance(50) {
        thing.insert("now and then", dice.below(4) as i32);
    }
    thing
}

impl Shop {
    fn fill(&self, docs: &[Document]) {
        let docs: Vec<_> = docs.iter().map(raw).collect();
        assert_eq!(self.things.insert_many(&docs, true).unwrap().inserted, docs.len() as u64);
    }

    /// Builds an index and calls `between` after every step but the last. Returns the number of steps.
    fn build(&self, spec: IndexSpec, mut between: impl FnMut()) -> Result<u32> {
        let id = self
            .db
            .edit(&self.namespace, false, None, |edit| add(edit, &spec.definition(&edit.meta.collation)?))?;
        let (id, mut steps) = (id.flatten().unwrap(), 0);
        loop {
            let progress = advance(&self.db, &self.namespace, id, |_| {
                steps += 1;
                between();
            })?;
            match progress {
                Progress::More => {}
                Progress::Ready => return Ok(steps),
                Progress::Dropped => panic!("the index was not dropped"),
            }
        }
    }
}

#[test]
fn every_kind_of_index_agrees_with_rows_that_change_during_its_build() {
    let covers = rawdoc! { "n": { "$gt": 6 } };
    let specs = [
        IndexSpec::new(rawdoc! { "n": 1 }),
        IndexSpec::new(rawdoc! { "serial": -1 }).unique(),
        IndexSpec::new(rawdoc! { "tags": 1 }),
        IndexSpec::new(rawdoc! { "tags": 1, "serial": 1 }).unique(),
        IndexSpec::new(rawdoc! { "word": 1, "n": -1 }).collation(rawdoc! { "locale": "en", "strength": 2 }),
        IndexSpec::new(rawdoc! { "now and then": 1 }).sparse(),
        IndexSpec::new(rawdoc! { "serial": 1 }).unique().partial(covers),
        IndexSpec::new(rawdoc! { "n": "hashed" }),
        IndexSpec::new(rawdoc! { "$**": 1 }),
        IndexSpec::vector(rawdoc! { "path": "in.v", "numDimensions": 3, "similarity": "cosine" }),
    ];
    for (seed, spec) in specs.into_iter().enumerate() {
        let (shop, mut dice) = (shop(), Rng::new(seed as u64));
        let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
        shop.fill(&docs);
        let (mut next, mut serial) = (ROWS, ROWS);
        let steps = shop
            .build(spec.clone(), || {
                for _ in 0..dice.below(6) {
                    let id = dice.below(next as usize) as i32;
                    let one = rawdoc! { "_id": id };
                    serial += 1;
                    let changes = [
                        doc! { "$set": { "n": dice.below(20) as i32 } },
                        doc! { "$set": { "serial": serial } },
                        doc! { "$push": { "tags": dice.below(9) as i32 } },
                        doc! { "$unset": { "now and then": 1, "tags": 1 } },
                        doc! { "$set": { "in.v": vector(&mut dice) } },
                        doc! { "$set": { "not in the index": serial } },
                    ];
                    match dice.below(9) {
                        at @ 0..6 => {
                            drop(shop.things.update(UpdateRequest::one(one, raw(&changes[at]))).unwrap())
                        }
                        6 => drop(shop.things.delete(DeleteRequest::one(one)).unwrap()),
                        7 => {
                            shop.things.insert_one(raw(&thing(&mut dice, next, serial))).unwrap();
                            next += 1;
                        }
                        // Changes a value and changes it back, or to another value.
                        _ => {
                            let there = rawdoc! { "$inc": { "n": 1 } };
                            let back = rawdoc! { "$inc": { "n": -1 } };
                            for change in [there, back] {
                                shop.things.update(UpdateRequest::one(one.clone(), change)).unwrap();
                            }
                        }
                    }
                }
            })
            .unwrap();
        assert!(steps > 10, "{spec:?}: {steps} steps");
        let checked = shop.db.check().unwrap();
        assert!(checked.collections.iter().any(|c| c.indexes.len() == 2), "{spec:?}");
    }
}

#[test]
fn a_duplicate_that_is_removed_before_the_build_reaches_it_does_not_matter() {
    for repair in [true, false] {
        let (shop, mut dice) = (shop(), Rng::new(7));
        // One document has the serial number of the first, which is the last of a batch in a descending
        // index.
        let serial = |id| if id == 5 { 0 } else { id };
        let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, serial(id))).collect();
        shop.fill(&docs);
        let mut first = true;
        let built = shop.build(IndexSpec::new(rawdoc! { "serial": -1 }).unique(), || {
            if std::mem::take(&mut first) && repair {
                let change = rawdoc! { "$set": { "serial": 10_000 } };
                shop.things.update(UpdateRequest::one(rawdoc! { "_id": 5 }, change)).unwrap();
            }
        });
        match (repair, built) {
            (true, built) => assert!(built.unwrap() > 10),
            (false, built) => {
                let error = built.unwrap_err();
                assert_eq!(error.code, ErrorCode::DuplicateKey);
                assert!(error.message.contains("dup key: { serial: 0 }"), "{}", error.message);
            }
        }
        shop.db.check().unwrap();
    }
}

#[test]
fn a_build_fails_on_a_duplicate_inserted_before_it_reaches_the_first() {
    let (shop, mut dice) = (shop(), Rng::new(8));
    let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
    shop.fill(&docs);
    let mut first = true;
    let built = shop.build(IndexSpec::new(rawdoc! { "serial": 1 }).unique(), || {
        if std::mem::take(&mut first) {
            // The build has not reached 150 yet, so the duplicate is not detected here.
            let change = rawdoc! { "$set": { "serial": 150 } };
            shop.things.update(UpdateRequest::one(rawdoc! { "_id": 0 }, change)).unwrap();
        }
    });
    assert_eq!(built.unwrap_err().code, ErrorCode::DuplicateKey);
    shop.db.check().unwrap();
}

#[test]
fn a_copy_is_opened_without_the_index_that_was_being_built_and_without_a_change_of_its_own() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    db.record_changes(Some(ChangeLogOptions::default())).unwrap();
    let (things, namespace) =
        (db.collection("shop.things").unwrap(), Namespace::parse("shop.things").unwrap());
    let (shop, mut dice) = (Shop { db: db.clone(), things, namespace }, Rng::new(13));
    let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
    shop.fill(&docs);
    shop.things.create_index(IndexSpec::new(rawdoc! { "serial": 1 }).unique()).unwrap();
    let serial = shop.db.edit(&shop.namespace, false, None, |edit| {
        let id = edit.meta.indexes.iter().find(|index| index.def.name() == "serial_1").unwrap().id;
        // One that is built anew, and two new ones.
        begin_on_request(edit, id)?;
        for spec in [IndexSpec::new(rawdoc! { "n": 1 }), near()] {
            add(edit, &spec.definition(&edit.meta.collation)?)?;
        }
        Ok(())
    });
    serial.unwrap().unwrap();
    let at = db.operation_time().unwrap();
    assert!(at.is_some());
    for name in ["/data/copy", "/data/other"] {
        db.store().backup_to(name, |_| {}).unwrap();
    }
    let opened = |db: Database| {
        let things = db.collection("shop.things").unwrap();
        let indexes = things.indexes().unwrap().unwrap();
        let names: Vec<_> = indexes.iter().map(|index| index.get_str("name").unwrap().to_owned()).collect();
        let search = things.search_indexes().unwrap().unwrap();
        db.check().unwrap();
        (names, search.len(), db.operation_time().unwrap())
    };
    let copy = opened(Database::open_copy("/data/copy", options(&disk)).unwrap());
    assert_eq!(copy, (vec!["_id_".to_owned(), "serial_1".to_owned()], 0, at));
    // As a crash would have left it, it is completed, which is a change.
    let (names, search, later) = opened(Database::open_with("/data/other", options(&disk)).unwrap());
    assert_eq!((names.len(), search), (3, 1));
    assert!(later > at);
}

#[test]
fn an_index_build_covers_rows_with_distant_ids() {
    let (shop, mut dice) = (shop(), Rng::new(9));
    let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
    shop.fill(&docs);
    let few = rawdoc! { "_id": { "$gte": 20, "$lt": 180 }, "n": { "$ne": 3 } };
    shop.things.delete(DeleteRequest::many(few)).unwrap();
    shop.build(IndexSpec::new(rawdoc! { "tags": 1, "serial": 1 }), || {}).unwrap();
    shop.db.check().unwrap();
}

#[test]
fn every_build_tells_how_far_it_is_with_nothing_locked_until_all_rows_are_done() {
    for spec in [IndexSpec::new(rawdoc! { "n": 1 }), near()] {
        let (shop, mut dice) = (shop(), Rng::new(12));
        let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
        shop.fill(&docs);
        let (specs, mut told) = ([spec], Vec::new());
        let created = shop.things.create_indexes_with_progress(&specs, &mut |build| {
            assert_eq!(
                (&build.namespace, &build.name, build.total),
                (&shop.namespace, &specs[0].index_name().unwrap(), ROWS as u64)
            );
            assert_eq!(shop.db.index_builds(), std::slice::from_ref(build));
            told.push(build.done);
            let id = ROWS + told.len() as i32;
            shop.things.insert_one(raw(&thing(&mut dice, id, id))).unwrap();
        });
        assert_eq!(created.unwrap().after, 2);
        assert!(told.is_sorted() && told.last() == Some(&(ROWS as u64)), "{told:?}");
        assert!(told.iter().filter(|done| (1..ROWS as u64).contains(done)).count() > 3, "{told:?}");
        // One that is there.
        shop.things.create_indexes_with_progress(&specs, &mut |_| panic!("nothing is built")).unwrap();
        shop.db.check().unwrap();
    }
}

fn near() -> IndexSpec {
    IndexSpec::vector(rawdoc! { "path": "in.v", "numDimensions": 3, "similarity": "euclidean" })
}

/// The names of the tables of a database.
fn tables(db: &Database) -> Vec<String> {
    let tables = db.store().begin_read().unwrap().tables().unwrap();
    tables.iter().map(|table| table.name().to_owned()).collect()
}

#[test]
fn a_vector_index_has_what_changed_while_its_graph_was_built_however_much_of_it_in_memory() {
    // All of it in memory, about half, nothing.
    for memory in [1 << 30, 60_000, 0] {
        let (shop, mut dice) = (shop(), Rng::new(10));
        shop.db.set_vector_memory(memory);
        let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
        shop.fill(&docs);
        let mut next = 0;
        let steps = shop
            .build(near(), || {
                let one = |id: i32| rawdoc! { "_id": (id * 37) % ROWS };
                let changed = rawdoc! { "$set": { "in.v": [1, 2, next] } };
                let without = rawdoc! { "$unset": { "in.v": 1 } };
                shop.things.update(UpdateRequest::one(one(next), changed)).unwrap();
                shop.things.update(UpdateRequest::one(one(next + 1), without)).unwrap();
                shop.things.delete(DeleteRequest::one(one(next + 2))).unwrap();
                shop.things.insert_one(raw(&thing(&mut dice, ROWS + next, 0))).unwrap();
                next += 3;
            })
            .unwrap();
        assert!(steps > 10, "{memory}: {steps} steps");
        let checked = shop.db.check().unwrap();
        let [collection] = &checked.collections[..] else { panic!("{checked:?}") };
        let (_, entries) = &collection.indexes[1];
        let has_vector = rawdoc! { "in.v": { "$exists": true } };
        let with_vectors = FindRequest::filter(has_vector);
        assert_eq!(*entries, shop.things.count(with_vectors).unwrap(), "{memory}");
        assert!(tables(&shop.db).iter().all(|name| !name.ends_with("/new")));
    }
}

#[test]
fn a_vector_index_that_is_dropped_while_it_is_built_leaves_nothing() {
    // While rows are read, while the graph is stored, while it is brought up to date.
    for steps in [2, 10, 17] {
        let (shop, mut dice) = (shop(), Rng::new(11));
        let docs: Vec<_> = (0..ROWS).map(|id| thing(&mut dice, id, id)).collect();
        shop.fill(&docs);
        let before = tables(&shop.db);
        let create =
            |edit: &mut crate::write::edit::Edit<'_>| add(edit, &near().definition(&edit.meta.collation)?);
        let id = shop.db.edit(&shop.namespace, false, None, create).unwrap().flatten().unwrap();
        let mut left = steps;
        let progress = loop {
            let progress = advance(&shop.db, &shop.namespace, id, |_| {
                left -= 1;
                if left == 0 {
                    shop.db
                        .edit(&shop.namespace, false, None, |edit| {
                            edit.remove_indexes(|index| index.id == id)
                        })
                        .unwrap();
                }
            });
            match progress.unwrap() {
                Progress::More => {}
                ended => break ended,
            }
        };
        assert_eq!(progress, Progress::Dropped, "{steps}");
        assert_eq!(tables(&shop.db), before, "{steps}");
    }
}
