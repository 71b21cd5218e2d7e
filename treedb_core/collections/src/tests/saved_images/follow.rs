//! Images from files that cannot follow what was written since, and searches, which leave the files alone.

use treedb_storage::Reads;

use super::*;

/// Searches for this vector, and compares with an exact search.
fn compare(db: &Database, vector: &[f32]) {
    let ids = |request: &VectorSearchRequest| -> Vec<i32> {
        let found = things(db).vector_search(request).unwrap();
        found.iter().map(|one| one.document.get_i32("_id").unwrap()).collect()
    };
    let request = VectorSearchRequest::new("near", vector.to_vec(), 3).candidates(100);
    assert_eq!(ids(&request), ids(&request.clone().exact()));
}

/// Replaces the record of the links of a row's node; what there was.
fn set_links(db: &Database, row: u64, record: &[u8]) -> Vec<u8> {
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table("index/1/1").unwrap().unwrap();
    let before = txn.row(&table, 2 * row).unwrap().unwrap().to_vec();
    txn.put_row(&table, 2 * row, record).unwrap();
    txn.commit().unwrap();
    before
}

#[test]
fn an_image_that_cannot_follow_a_write_is_dropped_and_no_search_gets_what_it_had() {
    for from_file in [true, false] {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(70));
        let mut db = saved(&disk, &mut rng);
        if from_file {
            db.close().unwrap();
            db = open(&disk).unwrap();
            (0..30).for_each(|_| search(&db, &mut rng));
        }
        let memory = db.vector_memory_use();
        assert_eq!((memory.built, memory.loaded), if from_file { (0, 1) } else { (1, 0) });
        // Ten are deleted, with another one in the place of each.
        let mut places = Vec::new();
        for id in 5..15 {
            let of_id = FindRequest { filter: Some(rawdoc! { "_id": id }), ..FindRequest::default() };
            let gone = things(&db).find(of_id).unwrap().next().unwrap().unwrap();
            let elements = Document::try_from(&*gone).unwrap().get_array("v").unwrap().clone();
            places
                .push(elements.iter().map(|element| element.as_f64().unwrap() as f32).collect::<Vec<f32>>());
            things(&db).delete(DeleteRequest::many(rawdoc! { "_id": id })).unwrap();
            things(&db).insert_one(raw(&doc! { "_id": 10_000 + id, "v": elements })).unwrap();
        }
        // Far from all others, so that no search but one for it reads its links.
        let far = doc! { "_id": DOCUMENTS, "v": vec![9.0; DIMENSIONS] };
        things(&db).insert_one(raw(&far)).unwrap();
        let row = DOCUMENTS as u64 + 11;
        let whole = set_links(&db, row, &[0, 200]);
        for place in &places {
            compare(&db, place);
            let now = db.vector_memory_use();
            assert_eq!((now.built, now.loaded), (memory.built, memory.loaded), "{from_file}");
        }
        // Nor can one be built of what there is.
        assert_eq!((db.vector_memory(), db.vector_memory_use().images), (0, 0), "{from_file}");
        // The file is of before: after a crash it is read, cannot follow either, and the table answers.
        let crashed = open(&disk.crash(Crash::Everything)).unwrap();
        (0..4).for_each(|_| places.iter().for_each(|place| compare(&crashed, place)));
        assert_eq!((crashed.vector_memory(), crashed.vector_memory_use().loaded), (0, 0));
        drop(crashed);
        // What is readable again is built, since its file was given up, which the image was in from its saving on, and saved by closing.
        set_links(&db, row, &whole);
        (0..30).for_each(|_| search(&db, &mut rng));
        check_all(&db, &mut rng);
        let now = db.vector_memory_use();
        assert_eq!((now.built, now.loaded), (memory.built + 1, memory.loaded), "{from_file}");
        db.close().unwrap();
        assert_eq!(reopened(&disk, &mut rng), (0, 1));
    }
}

#[test]
fn searches_change_nothing_on_the_disk_whatever_becomes_of_the_file() {
    type Prepare = fn(&SimDisk, &Database);
    let cases: [(&str, Prepare, (u64, u64)); 5] = [
        ("as it was", |_, _| {}, (0, 1)),
        (
            "damaged",
            |disk, _| {
                let file = &files(disk)[0];
                let mut bytes = disk.contents(file).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                disk.overwrite(file, bytes);
            },
            (1, 1),
        ),
        (
            "of an index that shrank",
            |_, db| {
                things(db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": 750 } })).unwrap();
            },
            (1, 0),
        ),
        ("too large", |_, db| db.set_vector_memory(20_000), (0, 0)),
        (
            "unable to follow",
            |_, db| {
                let far = doc! { "_id": DOCUMENTS, "v": vec![9.0; DIMENSIONS] };
                things(db).insert_one(raw(&far)).unwrap();
                set_links(db, DOCUMENTS as u64 + 1, &[0, 200]);
            },
            (0, 0),
        ),
    ];
    for (name, prepare, expected) in cases {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(71));
        saved(&disk, &mut rng).close().unwrap();
        let db = open(&disk).unwrap();
        prepare(&disk, &db);
        let (before, there) = (disk.tried(), files(&disk));
        (0..40).for_each(|_| compare(&db, &floats(&mut rng)));
        assert_eq!((disk.tried() - before, files(&disk)), (0, there), "{name}");
        let memory = db.vector_memory_use();
        assert_eq!((memory.built, memory.loaded), expected, "{name}");
    }
}
