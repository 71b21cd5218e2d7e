//! What closing a database does, in which order, and what may come between.

use std::sync::Mutex;

use treedb_storage::disk::DiskFile;

use super::*;

type Interruption = Box<dyn FnOnce() + Send>;

/// A disk that does something as soon as a file of an image has its name, once: before there is a record of the file.
#[derive(Clone)]
struct InterruptingDisk {
    disk: SimDisk,
    then: Arc<Mutex<Option<Interruption>>>,
}

impl Disk for InterruptingDisk {
    fn is_lasting(&self) -> bool {
        self.disk.is_lasting()
    }
    fn free_bytes(&self, dir: &Path) -> Option<u64> {
        self.disk.free_bytes(dir)
    }
    fn open(&self, path: &Path, create: bool) -> treedb_storage::Result<Arc<dyn DiskFile>> {
        self.disk.open(path, create)
    }
    fn exists(&self, path: &Path) -> treedb_storage::Result<bool> {
        self.disk.exists(path)
    }
    fn list(&self, dir: &Path) -> treedb_storage::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> treedb_storage::Result<()> {
        self.disk.create_dir(dir)
    }
    fn remove(&self, path: &Path) -> treedb_storage::Result<()> {
        self.disk.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> treedb_storage::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> treedb_storage::Result<()> {
        self.disk.rename(from, to)?;
        let is_image =
            to.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("vector-"));
        let then = self.then.lock().unwrap().take_if(|_| is_image);
        then.into_iter().for_each(|then| then());
        Ok(())
    }
    fn sync_dir(&self, dir: &Path) -> treedb_storage::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn lock(&self, dir: &Path) -> treedb_storage::Result<Box<dyn Send + Sync>> {
        self.disk.lock(dir)
    }
}

/// How many checkpoints there were.
fn checkpoints(disk: &SimDisk) -> u64 {
    let pages = disk.contents(Path::new(PAGES)).unwrap();
    checkpoint_at(&pages, newest_meta(&pages))
}

#[test]
fn what_others_write_between_the_saving_of_close_and_its_last_checkpoint_is_there_after_it() {
    for inserts in [false, true] {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(60));
        let then = Arc::<Mutex<Option<Interruption>>>::default();
        let mut options = options(&disk);
        options.disk = Arc::new(InterruptingDisk { disk: disk.clone(), then: then.clone() });
        let db = saved_in(Database::open_with("/data/documents", options).unwrap(), &mut rng);
        things(&db).delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
        search(&db, &mut rng);
        let (other, mut its_rng) = (db.clone(), Rng::new(61));
        *then.lock().unwrap() = Some(Box::new(move || {
            things(&other).delete(DeleteRequest::many(rawdoc! { "_id": { "$lt": 5 } })).unwrap();
            if inserts {
                let new: Vec<_> = (0..40).map(|id| document(DOCUMENTS + id, &mut its_rng)).collect();
                things(&other).insert_many(&new, true).unwrap();
            }
        }));
        let (kept, before) = (db.clone(), checkpoints(&disk));
        db.close().unwrap();
        assert!(then.lock().unwrap().is_none());
        assert_eq!(checkpoints(&disk), before + 2);
        assert_eq!(kept.stats().commits_since_checkpoint(), 0);
        // The power goes before the other handle does.
        for crash in [Crash::Nothing, Crash::Everything] {
            let crashed = disk.crash(crash);
            assert_eq!(reopened(&crashed, &mut rng), (0, 1));
            let there = things(&open(&crashed).unwrap()).len().unwrap();
            assert_eq!(there, if inserts { 1234 } else { 1194 });
        }
        drop(kept);
        assert_eq!(reopened(&disk, &mut rng), (0, 1));
    }
}

#[test]
fn closing_makes_one_checkpoint_and_one_more_if_it_saves_images_however_many() {
    for (images, saves, expected) in [(0, true, 1), (1, true, 2), (2, true, 2), (2, false, 1)] {
        for shared in [false, true] {
            let (disk, mut rng) = (SimDisk::new(), Rng::new(62));
            let db = saved(&disk, &mut rng);
            room::with_another(&db, &mut rng);
            db.save_vector_images().unwrap();
            assert_eq!(files(&disk).len(), 2);
            let change = |name: &str, rng: &mut Rng| {
                let collection = db.collection(name).unwrap();
                collection.delete(DeleteRequest::many(rawdoc! { "_id": 7 })).unwrap();
                collection.vector_search(&VectorSearchRequest::new("near", floats(rng), 1)).unwrap();
            };
            ["shop.things", "shop.z"].into_iter().take(images).for_each(|name| change(name, &mut rng));
            db.collection("shop.other").unwrap().insert_one(rawdoc! { "_id": 1 }).unwrap();
            db.set_save_vector_images_at_close(saves);
            let (before, kept) = (checkpoints(&disk), shared.then(|| db.clone()));
            db.close().unwrap();
            assert_eq!(checkpoints(&disk), before + expected, "{images} {saves} {shared}");
            drop(kept);
            // Nothing is new.
            let before = checkpoints(&disk);
            let db = open(&disk).unwrap();
            db.set_save_vector_images_at_close(saves);
            db.close().unwrap();
            assert!(checkpoints(&disk) <= before + 1, "{images} {saves} {shared}");
            assert_eq!(reopened(&disk, &mut rng), (0, 1));
        }
    }
}
