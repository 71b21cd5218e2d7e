//! Images that there is no room for in memory, written into their files straight from the tables.

use treedb_query::error::ErrorCode;
use treedb_storage::ReadTxn;

use super::*;
use crate::catalog::namespace::Namespace;

/// Too little for the image in memory, and enough for what it needs with its file.
const LITTLE: u64 = 150_000;

/// Opens the database with little memory for images.
fn open_with_little(disk: &SimDisk) -> Database {
    let db = open(disk).unwrap();
    db.set_vector_memory(LITTLE);
    db
}

fn insert_all(db: &Database, rng: &mut Rng) {
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(id, rng)).collect();
    things(db).insert_many(&documents, true).unwrap();
}

fn create(db: &Database, of: &bson::RawDocumentBuf) -> treedb_query::error::Result<()> {
    things(db).create_index(IndexSpec::vector(of.clone()).name("near")).map(drop)
}

fn euclidean() -> bson::RawDocumentBuf {
    rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean" }
}

/// How many images were built, loaded and streamed.
fn made(db: &Database) -> (u64, u64, u64) {
    let memory = db.vector_memory_use();
    (memory.built, memory.loaded, memory.streamed)
}

/// Writes the file of the index as the thread of a database does.
fn write(db: &Database, goes_on: &dyn Fn() -> bool) -> treedb_query::error::Result<()> {
    let namespace = Namespace::parse("shop.things").unwrap();
    let meta_in = |reads: &ReadTxn| db.inner.catalog.find(reads, &namespace);
    let meta = meta_in(&db.store().begin_read().unwrap()).unwrap().unwrap();
    let table = meta.vector_tables().next().unwrap();
    db.inner.catalog.images().write_without_room(db.store(), &meta_in, (table, false), goes_on)
}

#[test]
fn images_of_all_kinds_answer_in_their_files_as_they_do_in_memory() {
    let of = |similarity: &str, quantization: &str| {
        rawdoc! {
            "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity,
            "quantization": quantization,
        }
    };
    for (at, of) in [
        euclidean(),
        of("cosine", "scalar"),
        of("cosine", "none"),
        of("dotProduct", "binary"),
        of("euclidean", "none"),
    ]
    .into_iter()
    .enumerate()
    {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(30 + at as u64));
        let db = open(&disk).unwrap();
        insert_all(&db, &mut rng);
        // Some rows are missing.
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": 100, "$lt": 140 } })).unwrap();
        create(&db, &of).unwrap();
        (0..30).for_each(|_| search(&db, &mut rng));
        assert_eq!((made(&db), files(&disk).len()), ((1, 0, 0), 0), "{of:?}");
        let queries: Vec<Vec<f32>> = (0..60).map(|_| floats(&mut rng)).collect();
        let answers = || -> Vec<Vec<(u32, i32)>> {
            let answer = |query: &Vec<f32>| {
                let found = things(&db).vector_search(&VectorSearchRequest::new("near", query.clone(), 10));
                let id = |one: &crate::Neighbor| one.document.get_i32("_id").unwrap();
                found.unwrap().iter().map(|one| (one.distance.to_bits(), id(one))).collect()
            };
            queries.iter().map(answer).collect()
        };
        let in_memory = answers();
        db.set_vector_memory(0);
        db.set_vector_memory(LITTLE);
        write(&db, &|| true).unwrap();
        let in_file = answers();
        assert_eq!(made(&db), (1, 1, 1), "{of:?}");
        // The order of the nodes is another one, by which those that are as near are put in order.
        let same = in_memory.iter().zip(&in_file).filter(|(memory, file)| memory == file).count();
        println!("{same} of 60 answers are the same: {of:?}");
        assert!(same >= 58, "{of:?}: {same}");
        // Under cosine, distances of an image differ in their last digits.
        if of.get_str("similarity").is_ok_and(|similarity| similarity == "euclidean") {
            check_all(&db, &mut rng);
        }
    }
}

#[test]
fn rows_with_several_vectors_are_found_by_each_in_a_file_that_was_written_without_room() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(40));
    let db = open_with_little(&disk);
    let vector = |rng: &mut Rng| -> Vec<f64> { floats(rng).into_iter().map(f64::from).collect() };
    let several = |id: i32, rng: &mut Rng| {
        let all: Vec<Vec<f64>> = (0..1 + id % 3).map(|_| vector(rng)).collect();
        raw(&doc! { "_id": id, "v": all })
    };
    let documents: Vec<_> = (0..DOCUMENTS / 2).map(|id| several(id, &mut rng)).collect();
    things(&db).insert_many(&documents, true).unwrap();
    create(&db, &euclidean()).unwrap();
    search(&db, &mut rng);
    check_all(&db, &mut rng);
    assert_eq!((db.vector_memory_use().images, made(&db)), (1, (0, 1, 1)));
    things(&db).insert_one(several(5_000, &mut rng)).unwrap();
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
    search(&db, &mut rng);
    check_all(&db, &mut rng);
    assert_eq!(made(&db), (0, 1, 1));
}

#[test]
fn a_writing_that_is_to_end_leaves_no_file_and_the_next_one_writes_it() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(41));
    let db = open(&disk).unwrap();
    insert_all(&db, &mut rng);
    create(&db, &euclidean()).unwrap();
    db.set_vector_memory(LITTLE);
    for asked in 0..12 {
        let left = std::cell::Cell::<u32>::new(asked);
        let done = write(&db, &|| left.replace(left.get().saturating_sub(1)) > 0);
        assert!(done.is_err(), "{asked}");
        if asked == 0 {
            assert_eq!(done.unwrap_err().code, ErrorCode::Interrupted);
        }
        assert!(files(&disk).is_empty(), "{asked}");
        search(&db, &mut rng);
        check_all(&db, &mut rng);
        assert_eq!(made(&db), (0, 0, 0));
    }
    write(&db, &|| true).unwrap();
    search(&db, &mut rng);
    assert_eq!(made(&db), (0, 1, 1));
    // A second request writes nothing: the file is of the newest state.
    write(&db, &|| true).unwrap();
    assert_eq!(made(&db), (0, 1, 1));
}

#[test]
fn what_takes_the_room_beside_a_file_is_written_into_it() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(44));
    let db = open_with_little(&disk);
    insert_all(&db, &mut rng);
    create(&db, &euclidean()).unwrap();
    search(&db, &mut rng);
    for round in 0..12 {
        let range = rawdoc! { "_id": { "$gte": 20 * round, "$lt": 20 * round + 20 } };
        things(&db).delete(DeleteRequest::many(range)).unwrap();
        let new: Vec<_> = (0..20).map(|id| document(10_000 + 20 * round + id, &mut rng)).collect();
        things(&db).insert_many(&new, true).unwrap();
        (0..3).for_each(|_| search(&db, &mut rng));
        // As the thread does when it was asked.
        write(&db, &|| true).unwrap();
        (0..3).for_each(|_| search(&db, &mut rng));
        check_all(&db, &mut rng);
        let memory = db.vector_memory_use();
        assert!(memory.images == 1 && memory.bytes < LITTLE && memory.built == 0, "{round}: {memory:?}");
    }
}

#[test]
fn a_power_cut_at_any_step_of_a_writing_without_room_leaves_a_file_that_is_right_or_none() {
    let base = SimDisk::new();
    {
        let (db, mut rng) = (open(&base).unwrap(), Rng::new(45));
        insert_all(&db, &mut rng);
        create(&db, &euclidean()).unwrap();
        db.close().unwrap();
    }
    let start = || {
        let disk = base.crash(Crash::Everything);
        let db = open_with_little(&disk);
        let mut rng = Rng::new(46);
        things(&db).insert_one(document(DOCUMENTS, &mut rng)).unwrap();
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 5 } })).unwrap();
        (disk, db, rng)
    };
    let work = |db: &Database, rng: &mut Rng| -> treedb_query::error::Result<()> {
        write(db, &|| true)?;
        things(db).insert_one(document(DOCUMENTS + 1, rng))?;
        things(db).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 9 } })).map(drop)
    };
    let (disk, db, mut rng) = start();
    let before = disk.boundaries();
    work(&db, &mut rng).unwrap();
    let steps = disk.boundaries() - before;
    let mut loads = 0;
    for step in 0..steps {
        let (disk, db, mut rng) = start();
        disk.cut_at(disk.boundaries() + step);
        assert!(work(&db, &mut rng).is_err(), "{step}");
        let crashes = [Crash::Everything, Crash::Nothing, Crash::variants(step, 3).pop().unwrap()];
        let crashed = disk.crash(crashes.into_iter().nth(step as usize % 3).unwrap());
        for _ in 0..2 {
            let db = open_with_little(&crashed);
            (0..3).for_each(|_| search(&db, &mut rng));
            check_all(&db, &mut rng);
            loads += made(&db).1;
            assert!(files(&crashed).iter().all(|file| !file.to_string_lossy().ends_with(".new")), "{step}");
            things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gt": 1100 } })).unwrap();
            search(&db, &mut rng);
            check_all(&db, &mut rng);
        }
    }
    assert!(loads > 0, "{steps}");
    println!("{steps} steps, {loads} files used");
}
