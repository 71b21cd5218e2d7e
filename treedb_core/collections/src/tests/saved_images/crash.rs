//! Power cuts while images are saved, and lost checkpoints.

use super::*;

/// What is written, searched and saved, in steps whose power is cut.
fn work(disk: &SimDisk, db: Database, rng: &mut Rng) -> treedb_query::error::Result<()> {
    let shop = db.collection("shop.things")?;
    let request = |rng: &mut Rng| VectorSearchRequest::new("near", floats(rng), 1);
    for round in 0..3 {
        shop.delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 30 * round } }))?;
        shop.vector_search(&request(rng))?;
        db.save_vector_images()?;
        shop.insert_one(document(5_000 + round, rng))?;
        shop.update(UpdateRequest::one(
            rawdoc! { "_id": 300 + round },
            raw(&doc! { "$set": { "v": floats(rng).into_iter().map(f64::from).collect::<Vec<_>>() } }),
        ))?;
        (0..5).try_for_each(|_| shop.vector_search(&request(rng)).map(drop))?;
    }
    // A handle of the collection is one of the database.
    drop(shop);
    db.close()?;
    let db = open(disk)?;
    (0..10).try_for_each(|_| db.collection("shop.things")?.vector_search(&request(rng)).map(drop))?;
    db.collection("shop.things")?.delete(DeleteRequest::many(rawdoc! { "_id": 400 }))?;
    db.close()
}

#[test]
fn a_power_cut_at_any_step_leaves_an_image_that_is_right_or_none() {
    let base = SimDisk::new();
    saved(&base, &mut Rng::new(3)).close().unwrap();
    let start = || {
        let disk = base.crash(Crash::Everything);
        let (mut rng, db) = (Rng::new(4), open(&disk).unwrap());
        (0..30).for_each(|_| search(&db, &mut rng));
        (disk, db, rng)
    };
    let (disk, db, mut rng) = start();
    let before = disk.boundaries();
    work(&disk, db, &mut rng).unwrap();
    let steps = disk.boundaries() - before;
    let (mut loads, mut builds) = (0, 0);
    for step in 0..steps {
        let (disk, db, mut rng) = start();
        disk.cut_at(disk.boundaries() + step);
        assert!(work(&disk, db, &mut rng).is_err(), "{step}");
        let crashes = [Crash::Everything, Crash::Nothing, Crash::variants(step, 3).pop().unwrap()];
        let crash = crashes.into_iter().nth(step as usize % 3).unwrap();
        let crashed = disk.crash(crash);
        let (built, loaded) = reopened(&crashed, &mut rng);
        assert_eq!(built + loaded, 1, "{step}");
        (builds, loads) = (builds + built, loads + loaded);
        // And after that, when what was left over is removed.
        let db = open(&crashed).unwrap();
        search(&db, &mut rng);
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gt": 1000 } })).unwrap();
        check_all(&db, &mut rng);
        assert!(files(&crashed).iter().all(|file| !file.to_string_lossy().ends_with(".new")), "{step}");
    }
    assert!(loads > 100 && builds > 0, "{loads} {builds} of {steps}");
}

/// Saves an image, with power cut at a step of it, some transactions after a checkpoint. Returns the disk, and the disk before the
/// last checkpoints.
fn interrupted(step: Option<u64>) -> (SimDisk, Vec<u8>, u64) {
    let (disk, mut rng) = (SimDisk::new(), Rng::new(11));
    // The log is one file, which is not cut: it reaches back to the checkpoint before the newest.
    let mut options = options(&disk);
    options.log_segment_bytes = 4 << 20;
    let db = saved_in(Database::open_with("/data/documents", options).unwrap(), &mut rng);
    for id in 0..40 {
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": id })).unwrap();
    }
    (0..10).for_each(|_| search(&db, &mut rng));
    let (pages, before) = (disk.contents(Path::new(PAGES)).unwrap(), disk.boundaries());
    if let Some(step) = step {
        disk.cut_at(before + step);
    }
    let _ = db.save_vector_images();
    let steps = disk.boundaries() - before;
    (disk.crash(Crash::Everything), pages, steps)
}

/// Writes more than there was between the checkpoints, most of it not in the index.
fn write_on(db: &Database, rng: &mut Rng) {
    let other: Vec<_> = (0..40).map(|id| raw(&doc! { "_id": id })).collect();
    things(db).delete(DeleteRequest::many(rawdoc! { "_id": { "$gte": 100, "$lt": 400 } })).unwrap();
    things(db).insert_many(&[document(9_000, rng)], true).unwrap();
    for one in other {
        db.collection("shop.other").unwrap().insert_one(one).unwrap();
    }
}

#[test]
fn an_image_of_a_checkpoint_that_was_lost_is_right_or_not_used_whatever_is_written_after() {
    let (_, _, steps) = interrupted(None);
    let mut damaged = 0;
    for step in 0..=steps {
        for (of_store, shows) in [(false, true), (true, true), (false, false)] {
            let (disk, old, _) = interrupted(Some(step));
            let mut pages = disk.contents(Path::new(PAGES)).unwrap();
            let (now, then) = (newest_meta(&pages), newest_meta(&old));
            if pages[..8192] == old[..8192] {
                continue;
            }
            if shows {
                pages[now + 100] ^= 1;
            } else if now != then {
                // The write of the page is lost, and the one before it is there.
                pages[now..now + 4096].copy_from_slice(&old[now..now + 4096]);
            } else {
                continue;
            }
            disk.overwrite(Path::new(PAGES), pages);
            // Pages of the checkpoint before may be in use again already: that is told, and no case of this test.
            if !open(&disk.crash(Crash::Everything)).is_ok_and(|db| db.check().is_ok()) {
                continue;
            }
            damaged += 1;
            let mut rng = Rng::new(12);
            if of_store {
                // By something that knows nothing of images.
                let store = treedb_storage::Store::open_with("/data/documents", options(&disk)).unwrap();
                for number in 0..60_u32 {
                    let mut txn = store.begin_write().unwrap();
                    let own = txn.open_table("own", treedb_storage::TableKind::Ordered).unwrap();
                    txn.put(&own, &number.to_be_bytes(), b"").unwrap();
                    txn.commit().unwrap();
                }
                drop(store);
            }
            for _ in 0..2 {
                let db = open(&disk).unwrap();
                write_on(&db, &mut rng);
                // No search, so nothing is saved.
                drop(db);
                let (built, loaded) = reopened(&disk, &mut rng);
                assert_eq!(built + loaded, 1, "{step} {of_store} {shows}");
                things(&open(&disk).unwrap()).delete(DeleteRequest::many(rawdoc! { "_id": 9_000 })).unwrap();
                open(&disk).unwrap().drop_collection("shop.other").unwrap();
            }
        }
    }
    assert!(damaged > 10, "{damaged} of {steps}");
}
