//! Files of indexes that shrank, and what happens when the disk or the memory is full.

use treedb_query::error::ErrorCode;

use super::*;

/// The number of nodes in a file.
fn nodes(disk: &SimDisk) -> u32 {
    let [file] = &*files(disk) else { panic!("one file") };
    // The content begins with the numbers of the graph, of which that is the first.
    u32::from_le_bytes(disk.contents(file).unwrap()[4096..4100].try_into().unwrap())
}

fn another(db: &Database) -> Collection {
    db.collection("shop.z").unwrap()
}

/// Adds another collection with an index that has an image.
pub(super) fn with_another(db: &Database, rng: &mut Rng) {
    let documents: Vec<_> = (0..DOCUMENTS).map(|id| document(id, rng)).collect();
    another(db).insert_many(&documents, true).unwrap();
    let definition = rawdoc! { "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": "euclidean" };
    another(db).create_index(IndexSpec::vector(definition).name("near")).unwrap();
    for _ in 0..30 {
        another(db).vector_search(&VectorSearchRequest::new("near", floats(rng), 1)).unwrap();
    }
}

fn delete_from(db: &Database, id: i32) {
    things(db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": id } })).unwrap();
}

#[test]
fn an_index_that_shrank_is_saved_again_only_once_its_image_was_built_anew() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(40));
    let db = saved(&disk, &mut rng);
    assert_eq!(nodes(&disk), DOCUMENTS as u32);
    delete_from(&db, 900);
    (0..30).for_each(|_| search(&db, &mut rng));
    assert_eq!(db.vector_memory_use().built, 1);
    db.save_vector_images().unwrap();
    assert!(files(&disk).is_empty());
    assert_eq!(db.vector_memory_use().images, 0);
    // The record is gone too.
    assert_eq!(reopened(&disk.crash(Crash::Everything), &mut rng), (1, 0));
    (0..30).for_each(|_| search(&db, &mut rng));
    check_all(&db, &mut rng);
    db.close().unwrap();
    assert_eq!(nodes(&disk), 900);
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
    // So small that one search builds it.
    let db = open(&disk).unwrap();
    delete_from(&db, 600);
    (0..30).for_each(|_| search(&db, &mut rng));
    db.close().unwrap();
    assert!(files(&disk).is_empty());
    check_all(&open(&disk).unwrap(), &mut rng);
}

#[test]
fn the_file_of_an_index_that_shrank_since_is_not_read_and_closing_replaces_or_removes_it() {
    for (left, expected, nodes_then) in [(900, (0, 1), None), (750, (1, 0), Some(750)), (10, (1, 0), None)] {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(41));
        saved(&disk, &mut rng).close().unwrap();
        let db = open(&disk).unwrap();
        delete_from(&db, left);
        // No search: the file is as it was.
        drop(db);
        assert_eq!(nodes(&disk), DOCUMENTS as u32);
        assert_eq!(reopened(&disk, &mut rng), expected, "{left}");
        // Searches leave it there.
        assert_eq!(nodes(&disk), DOCUMENTS as u32);
        let db = open(&disk).unwrap();
        (0..30).for_each(|_| search(&db, &mut rng));
        db.close().unwrap();
        assert_eq!((!files(&disk).is_empty()).then(|| nodes(&disk)), nodes_then, "{left}");
    }
}

#[test]
fn an_image_that_turns_out_not_to_fit_is_read_from_its_file_once_at_most() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(42));
    let db = saved(&disk, &mut rng);
    let whole = db.vector_memory_use().bytes + db.vector_memory_use().mapped_bytes;
    db.close().unwrap();
    let db = open(&disk).unwrap();
    delete_from(&db, 850);
    drop(db);
    let mut seen = std::collections::BTreeSet::new();
    for part in (30..140).step_by(3) {
        let copy = disk.crash(Crash::Everything);
        let db = open(&copy).unwrap();
        db.set_vector_memory(whole * part / 100);
        (0..60).for_each(|_| search(&db, &mut rng));
        check_all(&db, &mut rng);
        let memory = db.vector_memory_use();
        assert!(memory.loaded <= 1 && memory.built <= 1, "{part}: {memory:?}");
        assert!(memory.bytes <= memory.limit_bytes, "{part}: {memory:?}");
        seen.insert((memory.built, memory.loaded));
    }
    assert!([(0, 0), (1, 1), (0, 1)].iter().all(|one| seen.contains(one)), "{seen:?}");
}

/// Some kind of write; the number is another one each time.
type Write = (&'static str, fn(&Database, u32) -> treedb_query::error::Result<()>);

/// Each makes a transaction of its own.
const WRITES: [Write; 8] = [
    ("insert", |db, n| db.collection("shop.texts")?.insert_one(text(n)).map(drop)),
    ("update", |db, n| {
        let set = raw(&doc! { "$set": { "text": "y".repeat(800) } });
        db.collection("shop.kept")?.update(UpdateRequest::one(rawdoc! { "_id": n as i32 }, set)).map(drop)
    }),
    ("insert and delete", |db, n| {
        let kept = db.collection("shop.kept")?;
        kept.insert_one(text(n + 1_000))?;
        kept.delete(DeleteRequest::many(rawdoc! { "_id": n as i32 + 1_000 })).map(drop)
    }),
    ("transaction", |db, n| {
        let mut txn = db.begin()?;
        txn.collection("shop.texts")?.insert_many(&[text(n), text(n + 100_000)])?;
        txn.commit()
    }),
    ("batch", |db, n| {
        let mut batch = db.write_batch()?;
        batch.insert_many("shop.texts", &[text(n), text(n + 100_000)], true)?;
        batch.commit_with(treedb_storage::Durability::Durable)
    }),
    ("create", |db, n| db.create_collection(&format!("shop.c{n}"), doc! {}).map(drop)),
    ("create, rename and drop", |db, n| {
        let (from, to) = (format!("shop.c{n}"), format!("shop.d{n}"));
        db.create_collection(&from, doc! {})?;
        db.rename_collection(&from, &to, false)?;
        db.drop_collection(&to).map(drop)
    }),
    ("key-value", |db, n| {
        let mut txn = db.store().begin_write()?;
        let own = txn.open_table("own", treedb_storage::TableKind::Ordered)?;
        txn.put(&own, &n.to_be_bytes(), &[1; 700])?;
        Ok(txn.commit()?)
    }),
];

fn text(id: u32) -> RawDocumentBuf {
    raw(&doc! { "_id": id as i32, "text": "x".repeat(700) })
}

#[test]
fn every_kind_of_write_that_finds_the_disk_full_gets_the_room_of_saved_images_and_is_done() {
    for (name, write) in WRITES {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(43));
        let db = saved(&disk, &mut rng);
        let kept: Vec<_> = (0..400).map(text).collect();
        db.collection("shop.kept").unwrap().insert_many(&kept, true).unwrap();
        disk.set_room(Some(disk.used()));
        let done = (0..400).find(|n| {
            write(&db, *n).unwrap_or_else(|error| panic!("{name} {n}: {error}"));
            files(&disk).is_empty()
        });
        assert!(done.is_some(), "{name}");
        check_all(&db, &mut rng);
        db.check().unwrap();
        db.close().unwrap();
        disk.set_room(None);
        assert_eq!(reopened(&disk, &mut rng).0, 1, "{name}");
    }
}

#[test]
fn a_full_disk_with_a_file_that_cannot_be_removed_ends_each_write_with_its_error_and_none_is_repeated() {
    for (name, write) in WRITES {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let kept: Vec<_> = (0..400).map(text).collect();
        db.collection("shop.kept").unwrap().insert_many(&kept, true).unwrap();
        let stays = Path::new("/data/documents/derived/vector-7");
        disk.create_dir(stays).unwrap();
        disk.set_room(Some(disk.used()));
        let refused = (0..400).find_map(|n| {
            let before = disk.tried();
            let error = write(&db, n).err()?;
            assert!(disk.tried() - before < 100, "{name}: {} calls", disk.tried() - before);
            Some((n, error))
        });
        let Some((n, error)) = refused else { panic!("{name}") };
        assert_eq!(error.code, ErrorCode::OutOfDiskSpace, "{name}");
        assert!(disk.exists(stays).unwrap());
        disk.set_room(None);
        write(&db, n + 1000).unwrap();
        db.check().unwrap();
    }
}

#[test]
fn an_index_without_room_for_its_file_leaves_the_files_of_the_others() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(45));
    let db = saved(&disk, &mut rng);
    with_another(&db, &mut rng);
    let others = another(&db);
    let find = |rng: &mut Rng| {
        others.vector_search(&VectorSearchRequest::new("near", floats(rng), 1)).unwrap();
    };
    db.save_vector_images().unwrap();
    let both = files(&disk);
    assert_eq!(both.len(), 2);
    others.delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
    find(&mut rng);
    db.checkpoint().unwrap();
    disk.set_room(Some(disk.used()));
    assert_eq!(db.save_vector_images().unwrap_err().code, ErrorCode::OutOfDiskSpace);
    let left = files(&disk);
    // Nor does it lose its own, which it uses: what was written since follows that.
    assert_eq!(left, both);
    disk.set_room(None);
    drop((others, db));
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

#[test]
fn a_power_cut_while_an_index_of_another_collection_is_saved_leaves_the_files_before() {
    let (base, mut rng) = (SimDisk::new(), Rng::new(46));
    let db = saved(&base, &mut rng);
    let first = files(&base)[0].clone();
    with_another(&db, &mut rng);
    db.close().unwrap();
    let second = files(&base).into_iter().find(|file| *file != first).unwrap().with_extension("new");
    let start = || {
        let disk = base.crash(Crash::Everything);
        let (mut rng, db) = (Rng::new(4), open(&disk).unwrap());
        for collection in [things(&db), another(&db)] {
            let mut find =
                || collection.vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 1));
            (0..30).for_each(|_| drop(find().unwrap()));
            collection.delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
            // What is in the file is listed first, a part each.
            (0..5).for_each(|_| drop(find().unwrap()));
        }
        assert_eq!(db.vector_memory_use().loaded, 2);
        db.checkpoint().unwrap();
        (disk, db)
    };
    let (disk, db) = start();
    let before = disk.boundaries();
    db.save_vector_images().unwrap();
    let steps = disk.boundaries() - before;
    let mut seen = 0;
    for step in 0..steps {
        let (disk, db) = start();
        disk.cut_at(disk.boundaries() + step);
        assert!(db.save_vector_images().is_err(), "{step}");
        let crashed = disk.crash(Crash::Everything);
        if crashed.exists(&second).unwrap() {
            seen += 1;
            assert_eq!(reopened(&crashed, &mut rng), (0, 1), "{step} of {steps}");
        }
    }
    assert!(seen > 3, "{seen} of {steps}");
}

#[test]
fn closing_saves_no_images_if_it_is_told_not_to() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(47));
    let db = saved(&disk, &mut rng);
    let before = disk.contents(&files(&disk)[0]).unwrap();
    things(&db).delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
    search(&db, &mut rng);
    db.set_save_vector_images_at_close(false);
    db.close().unwrap();
    assert!(disk.contents(&files(&disk)[0]).unwrap() == before);
    assert_eq!(reopened(&disk, &mut rng), (0, 1));
}

#[test]
fn a_full_disk_gets_the_room_of_a_file_that_searches_use_and_they_go_on_without_it() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(48));
    saved(&disk, &mut rng).close().unwrap();
    let db = open(&disk).unwrap();
    (0..5).for_each(|_| search(&db, &mut rng));
    assert!(db.vector_memory_use().mapped_bytes > 100_000);
    disk.set_room(Some(disk.used()));
    let texts = db.collection("shop.texts").unwrap();
    // Some are written before it is full; then as many more as the file gives room for.
    let full = (0..400).find(|n| {
        texts.insert_one(text(*n)).unwrap();
        files(&disk).is_empty()
    });
    (1_000..1_050).for_each(|n| drop(texts.insert_one(text(n)).unwrap()));
    assert!(full.is_some());
    assert_eq!(db.vector_memory_use().mapped_bytes, 0);
    check_all(&db, &mut rng);
    disk.set_room(None);
    (0..30).for_each(|_| search(&db, &mut rng));
    check_all(&db, &mut rng);
    assert_eq!((db.vector_memory_use().built, db.vector_memory_use().images), (1, 1));
}

#[test]
fn an_image_in_memory_gives_up_a_file_that_it_does_not_use_for_the_room_of_a_new_one() {
    for is_enough in [false, true] {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(50));
        saved(&disk, &mut rng).close().unwrap();
        let db = open(&disk).unwrap();
        delete_from(&db, 750);
        drop(db);
        let db = open(&disk).unwrap();
        // The file has many more nodes.
        (0..30).for_each(|_| search(&db, &mut rng));
        let memory = db.vector_memory_use();
        assert_eq!((memory.built, memory.mapped_bytes, nodes(&disk)), (1, 0, DOCUMENTS as u32));
        db.checkpoint().unwrap();
        let image = disk.contents(&files(&disk)[0]).unwrap().len() as u64;
        disk.set_room(Some(disk.used() + if is_enough { image } else { 0 }));
        let result = db.save_vector_images();
        if is_enough {
            result.unwrap();
            assert_eq!(nodes(&disk), 750);
        } else {
            assert_eq!(result.unwrap_err().code, ErrorCode::OutOfDiskSpace);
            assert!(files(&disk).is_empty());
            assert_eq!(db.vector_memory_use(), memory);
        }
        check_all(&db, &mut rng);
        assert_eq!(db.vector_memory_use().built, 1);
    }
}

#[test]
fn an_image_that_is_too_large_to_be_saved_stays_in_memory_and_answers() {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(49));
    let db = open(&disk).unwrap();
    with_another(&db, &mut rng);
    let before = db.vector_memory_use();
    db.checkpoint().unwrap();
    // Not for as much again as the file takes.
    disk.set_room(Some(disk.used() + before.bytes));
    for _ in 0..3 {
        assert_eq!(db.save_vector_images().unwrap_err().code, ErrorCode::OutOfDiskSpace);
        assert!(files(&disk).is_empty());
        another(&db).vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 1)).unwrap();
        assert_eq!(db.vector_memory_use(), before);
    }
    // With room it goes on in its file, and without it in the one that it has: nothing of what it has is lost.
    disk.set_room(None);
    db.save_vector_images().unwrap();
    let saved = db.vector_memory_use();
    assert!(saved.bytes < before.bytes / 2 && saved.mapped_bytes > before.bytes / 2, "{saved:?} {before:?}");
    another(&db).delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
    another(&db).vector_search(&VectorSearchRequest::new("near", floats(&mut rng), 1)).unwrap();
    let changed = db.vector_memory_use();
    db.checkpoint().unwrap();
    disk.set_room(Some(disk.used() + before.bytes));
    assert_eq!(db.save_vector_images().unwrap_err().code, ErrorCode::OutOfDiskSpace);
    assert_eq!((files(&disk).len(), db.vector_memory_use()), (1, changed));
    assert_eq!((changed.built, changed.loaded), (1, 0));
}
