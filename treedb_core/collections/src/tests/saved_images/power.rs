//! Power cuts at every boundary of a workload with vector indexes: while one has a saved image, while images are written, and while one is built. Whatever reached the disk:
//! what was acknowledged is there, and nothing that had not begun; every index agrees with the rows; and searches find what is
//! nearest, from the first one after the opening on, which reads the table, to those that use an image.

use std::collections::BTreeMap;

use bson::Binary;
use bson::spec::BinarySubtype;
use treedb_storage::Durability;

use super::*;

/// Few vectors of many dimensions: enough for a file, and soon opened, checked and searched.
const WIDE: usize = 640;
const FEW: i32 = 16;

/// How often each document was changed.
type Versions = BTreeMap<i32, u32>;

/// The vector that a version of a document has.
fn wide(id: i32, version: u32) -> Vec<f32> {
    let mut rng = Rng::new((id + 1) as u64 * 1000 + u64::from(version));
    (0..WIDE).map(|_| rng.below(2001) as f32 / 1000.0 - 0.9995).collect()
}

fn binary(vector: &[f32]) -> Binary {
    let elements = vector.iter().flat_map(|element| element.to_le_bytes());
    Binary { subtype: BinarySubtype::from(9), bytes: [0x27, 0].into_iter().chain(elements).collect() }
}

fn wide_document(id: i32, version: u32) -> RawDocumentBuf {
    rawdoc! { "_id": id, "n": version as i32, "v": binary(&wide(id, version)) }
}

fn index(name: &str, quantization: &str) -> IndexSpec {
    let definition = rawdoc! {
        "path": "v", "numDimensions": WIDE as i32, "similarity": "euclidean", "quantization": quantization,
    };
    IndexSpec::vector(definition).name(name)
}

/// Searches for all documents, which is exact with so many candidates.
fn find_all(db: &Database, name: &str) {
    let request = VectorSearchRequest::new(name, wide(-1, 0), 200).candidates(400);
    let all = |request: &VectorSearchRequest| -> Vec<(i32, u32)> {
        let found = things(db).vector_search(request).unwrap();
        found.iter().map(|one| (one.document.get_i32("_id").unwrap(), one.distance.to_bits())).collect()
    };
    assert_eq!(all(&request), all(&request.clone().exact()), "{name}");
}

/// A write, and when it happened, in boundaries of the disk.
struct Done {
    after: Versions,
    begun: u64,
    acked: u64,
}

struct Workload {
    disk: SimDisk,
    versions: Versions,
    done: Vec<Done>,
    next: i32,
}

impl Workload {
    /// One whose index has a saved image, and the database; what happens from here on is recorded.
    fn new() -> (Workload, Database) {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let documents: Vec<_> = (0..FEW).map(|id| wide_document(id, 0)).collect();
        things(&db).insert_many(&documents, true).unwrap();
        things(&db).create_index(index("near", "scalar")).unwrap();
        (0..5).for_each(|_| find_all(&db, "near"));
        db.close().unwrap();
        assert_eq!(files(&disk).len(), 1);
        let versions: Versions = (0..FEW).map(|id| (id, 0)).collect();
        let done = vec![Done { after: versions.clone(), begun: 0, acked: 0 }];
        disk.record();
        let db = open(&disk).unwrap();
        (Workload { disk, versions, done, next: FEW }, db)
    }

    /// Makes one write of a kind that changes with each.
    fn write(&mut self, db: &Database) {
        let begun = self.disk.boundaries();
        let shop = things(db).with_durability(Durability::Durable);
        let (id, old) = (self.next, self.next - FEW);
        self.next += 1;
        let set = |id: i32, version: u32| {
            let set = rawdoc! { "$set": { "n": version as i32, "v": binary(&wide(id, version)) } };
            UpdateRequest::one(rawdoc! { "_id": id }, set)
        };
        match id % 4 {
            0 => drop(shop.insert_one(wide_document(id, 0)).unwrap()),
            1 => drop(shop.update(set(old + 1, 1)).unwrap()),
            2 => drop(shop.delete(DeleteRequest::many(rawdoc! { "_id": old })).unwrap()),
            _ => {
                let mut txn = db.begin().unwrap();
                let mut mine = txn.collection("shop.things").unwrap();
                mine.insert_one(wide_document(id, 0)).unwrap();
                mine.update(set(old + 3, 2)).unwrap();
                txn.commit_with(Durability::Durable).unwrap();
            }
        }
        match id % 4 {
            0 => drop(self.versions.insert(id, 0)),
            1 => {
                self.versions.entry(old + 1).and_modify(|version| *version = 1);
            }
            2 => drop(self.versions.remove(&old)),
            _ => {
                self.versions.insert(id, 0);
                self.versions.entry(old + 3).and_modify(|version| *version = 2);
            }
        }
        self.done.push(Done { after: self.versions.clone(), begun, acked: self.disk.boundaries() });
    }

    /// Cuts the power at every boundary. Returns how many images were built then and how many were read from files.
    fn cut_at_every_boundary(self) -> (u64, u64) {
        let mut replay = self.disk.replay();
        let (mut boundaries, mut built, mut loaded) = (0, 0, 0);
        while let Some(point) = replay.next_point() {
            boundaries += 1;
            let acked = self.done.iter().rposition(|done| done.acked <= point).unwrap_or(0);
            let begun = self.done.iter().take_while(|done| done.begun <= point).count();
            // Others at the next boundary.
            for crash in Crash::variants(point, 1).into_iter().skip(point as usize % 3).step_by(3) {
                let what = format!("after {point} calls, {crash:?}");
                let disk = replay.crash(crash);
                let db = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
                db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
                let found: Versions = things(&db)
                    .find(FindRequest::default())
                    .unwrap()
                    .map(|found| found.unwrap())
                    .map(|found| (found.get_i32("_id").unwrap(), found.get_i32("n").unwrap() as u32))
                    .collect();
                let allowed = &self.done[acked..begun.max(acked + 1)];
                assert!(allowed.iter().any(|done| done.after == found), "{what}: {found:?}");
                let names = || things(&db).search_indexes().unwrap().unwrap_or_default();
                assert!(!names().is_empty(), "{what}");
                for round in 0..4 {
                    names().iter().for_each(|index| find_all(&db, &index.name));
                    if round == 2 {
                        things(&db).insert_one(wide_document(1_000, 0)).unwrap();
                    }
                }
                let memory = db.vector_memory_use();
                assert_eq!(memory.built + memory.loaded, names().len() as u64, "{what}");
                (built, loaded) = (built + memory.built, loaded + memory.loaded);
            }
        }
        println!(
            "{boundaries} boundaries, {} writes, {built} images built, {loaded} read",
            self.done.len() - 1
        );
        assert!(boundaries > 30, "{boundaries}");
        (built, loaded)
    }
}

#[test]
fn a_power_cut_at_any_boundary_while_an_index_has_a_saved_image_loses_nothing() {
    let (mut work, db) = Workload::new();
    for round in 0..10 {
        work.write(&db);
        // The image begins with the file, and follows.
        find_all(&db, "near");
        if round % 4 == 3 {
            db.checkpoint().unwrap();
        }
    }
    assert_eq!((db.vector_memory_use().built, db.vector_memory_use().loaded), (0, 1));
    db.set_save_vector_images_at_close(false);
    db.close().unwrap();
    let db = open(&work.disk).unwrap();
    (0..2).for_each(|_| work.write(&db));
    let (_, loaded) = work.cut_at_every_boundary();
    assert!(loaded > 50, "{loaded}");
}

#[test]
fn a_power_cut_at_any_boundary_while_images_are_written_loses_nothing() {
    let (mut work, db) = Workload::new();
    for round in 0..4 {
        (0..2).for_each(|_| work.write(&db));
        find_all(&db, "near");
        if round < 3 {
            db.save_vector_images().unwrap();
            work.write(&db);
        }
    }
    db.close().unwrap();
    let db = open(&work.disk).unwrap();
    work.write(&db);
    let (_, loaded) = work.cut_at_every_boundary();
    assert!(loaded > 50, "{loaded}");
}

#[test]
fn a_power_cut_at_any_boundary_while_an_index_is_built_beside_one_with_an_image_loses_nothing() {
    let (mut work, db) = Workload::new();
    let (shop, mut steps) = (things(&db), 0);
    for (name, quantization) in [("exact", "none"), ("bits", "binary")] {
        let specs = [index(name, quantization)];
        shop.create_indexes_with_progress(&specs, &mut |_| {
            steps += 1;
            work.write(&db);
            find_all(&db, "near");
            // Of the other index.
            db.save_vector_images().unwrap();
            work.write(&db);
        })
        .unwrap();
    }
    assert!(steps > 2, "{steps}");
    let field = rawdoc! {
        "type": "vector", "path": "v", "numDimensions": WIDE as i32, "similarity": "dotProduct",
    };
    shop.update_search_index("exact", &rawdoc! { "fields": [field] }).unwrap();
    shop.drop_index("bits").unwrap();
    work.write(&db);
    drop(shop);
    db.close().unwrap();
    let (built, loaded) = work.cut_at_every_boundary();
    assert!(built > 50 && loaded > 50, "{built} {loaded}");
}
