//! Saving images in files, and taking them from there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Store, Table};

use super::slot::State;
use super::without_room::error_of_write;
use super::{Contents, Images, lock};
use crate::catalog::meta::Meta;
use crate::index::vector::follow::STEP_ELEMENTS;
use crate::index::vector::record::nodes_in;
use crate::index::vector::saved::SavedImages;
use crate::read::view::View;

/// What a file is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// The newest checkpoint: an index that was changed since has none.
    Checkpoint,
    /// A snapshot; a checkpoint is made when the file is written.
    Snapshot,
}

impl Images {
    /// Saves the images of a collection's indexes that are not as they are in their files, after a checkpoint. What was changed since the
    /// checkpoint, and what is not worth it, is left out. The error is that of the last one that could not be saved; each is logged.
    pub(crate) fn save(&self, store: &Store, meta: &Meta) -> Result<()> {
        let mut result = Ok(());
        let Some(saved) = self.saved() else { return result };
        for index in meta.indexes.iter().filter(|index| index.building.is_none()) {
            let Some(def) = index.def.as_vector() else { continue };
            let has_image =
                lock(&self.slots).by_table.get(&index.table.id()).is_some_and(|known| known.slot.has_image());
            if !has_image {
                continue;
            }
            if let Err(error) =
                self.save_one(saved, store, meta, (&index.table, def), (Since::Checkpoint, &|| true))
            {
                tracing::warn!(namespace = %meta.namespace, index = def.name, %error, "a vector index's image is not saved");
                result = Err(error);
            }
        }
        result
    }

    /// Saves the image of an index; `goes_on` is asked now and then.
    pub(super) fn save_one(
        &self,
        saved: &SavedImages,
        store: &Store,
        meta: &Meta,
        (table, def): (&Table, &VectorDef),
        (of, goes_on): (Since, &dyn Fn() -> bool),
    ) -> Result<()> {
        let _one = lock(&saved.saving);
        // In this order: the snapshot has all that the checkpoint has.
        let checkpoint = store.stats().checkpoint;
        let reads = store.begin_read()?;
        let view = View { reads: &reads, meta };
        let Some(version) = view.reads.version(table)? else { return Ok(()) };
        let elements = nodes_in(view.reads.len(table)?).saturating_mul(def.dimensions as u64);
        // What one search builds is not worth a file.
        if elements <= STEP_ELEMENTS as u64 {
            return saved.discard(store, table);
        }
        let since = match of {
            Since::Checkpoint if version.changed() > checkpoint => return Ok(()),
            Since::Checkpoint => checkpoint,
            Since::Snapshot => reads.txn(),
        };
        if saved.is_saved(table, def, version.changed()) {
            return Ok(());
        }
        let Some(image) = self.follow(def, &view, table, version)? else { return Ok(()) };
        let rows_end = reads.next_row(&meta.rows)?;
        // Writing takes a while, and a snapshot keeps pages from being used again.
        drop(reads);
        // One that is built anew is smaller.
        if image.contents.has_many_free_nodes() {
            let discarded = saved.discard(store, table);
            lock(&self.slots).by_table.remove(&table.id());
            return discarded;
        }
        let bytes = image.contents.bytes().saturating_add(image.contents.mapped_bytes());
        tracing::info!(namespace = %meta.namespace, index = def.name, bytes, "saving a vector index's image");
        let begun = Instant::now();
        let has_checkpoint = of == Since::Checkpoint;
        let written = saved.write(store, (table, def), (since, has_checkpoint), &image.contents, goes_on);
        written.map_err(|error| error_of_write(error, goes_on))?;
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(namespace = %meta.namespace, index = def.name, bytes, seconds, "saved a vector index's image");
        let file = || saved.written((table, def), rows_end);
        if let Err(error) = self.go_on_in_file(table, &image.contents, file) {
            tracing::warn!(index = def.name, %error, "a vector index's saved image cannot be used");
        }
        self.remove_if_dropped(saved, table.id());
        Ok(())
    }

    /// Lets the image of an index go on in the file that it was just written to, which `map` maps. Otherwise it would keep its own memory; or the file before,
    /// which has no name any more, and takes its room on the disk as long as it is mapped. Searches go on with the same versions of the image, which only are
    /// somewhere else: none builds, reads or lists anything for it, and one that comes meanwhile waits for some milliseconds at most. Searches of a version
    /// before, which has something in the file before that has changed since, read the table.
    ///
    /// # Errors
    /// The file was damaged since it was written: it is not read any more, and the next saving writes another one.
    fn go_on_in_file(
        &self,
        table: &Table,
        written: &Contents,
        map: impl FnOnce() -> io::Result<Option<Contents>>,
    ) -> io::Result<()> {
        let slot = || lock(&self.slots).by_table.get(&table.id()).map(|known| Arc::clone(&known.slot));
        // One that was dropped is read from the file when it is needed.
        let Some(own) = slot() else { return Ok(()) };
        let mut state = lock(&own.state);
        // In this order. When the disk is full, files are removed first, and then what uses one is dropped: if the file is there yet, this is
        // seen to use it.
        own.uses_file.store(true, Ordering::Relaxed);
        let file = map();
        let is_there = slot().is_some_and(|slot| Arc::ptr_eq(&slot, &own));
        let before = match &file {
            Ok(Some(file)) if is_there => state.go_on_in(written, file),
            _ => None,
        };
        own.note_bytes(&state);
        drop(state);
        // To give back a large one takes longer.
        drop(before);
        if file.is_err()
            && let Some(saved) = self.saved()
        {
            saved.forget(table);
        }
        file.map(drop)
    }

    /// Takes the saved image of an index of so many `nodes`, if there is one, and nothing else of the index yet. True if the search has to do
    /// without: it is of a later transaction than the search's.
    pub(super) fn load(
        &self,
        state: &mut State,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        (table, now): (&Table, u64),
        nodes: u64,
    ) -> Result<bool> {
        let Some(saved) = self.saved() else { return Ok(false) };
        if state.is_built || state.is_from_file || state.unfinished.is_some() {
            return Ok(false);
        }
        // The image would have what this search does not see, and rows that it does not know.
        if saved.saved(table).is_some_and(|since| since > now) {
            return Ok(true);
        }
        // One of many more is of an index that was much larger, and one that is built takes less memory.
        let (most, rows_end) = (nodes.saturating_add(nodes / 2), view.reads.next_row(&view.meta.rows)?);
        match saved.load((table, def), most, rows_end) {
            Ok(None) => {}
            Ok(Some((contents, follower))) => {
                (state.follower, state.unfinished, state.is_from_file) = (follower, Some(contents), true);
                // That was about the memory that it needs without.
                state.outgrown = None;
            }
            // It is built as if there were none.
            Err(error) => {
                tracing::warn!(index = def.name, %error, "a vector index's saved image is not used");
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use treedb_storage::ReadTxn;
    use treedb_storage::disk::SimDisk;
    use treedb_storage::disk::crash::Crash;
    use treedb_testing::Rng;

    use super::super::slot::let_go;
    use super::super::{Image, Workspace};
    use super::*;
    use crate::catalog::namespace::Namespace;
    use crate::tests::open;
    use crate::tests::saved_images::{build, check_all, files, reopened, search, things};
    use crate::{Database, DeleteRequest};

    /// Calls `call` with the images of a database, and what the index is now.
    fn with_index<T>(
        db: &Database,
        call: impl FnOnce(&Images, &VectorDef, &View<'_, ReadTxn>, &Table) -> T,
    ) -> T {
        let reads = db.store().begin_read().unwrap();
        let namespace = Namespace::parse("shop.things").unwrap();
        let meta = db.inner.catalog.find(&reads, &namespace).unwrap().unwrap();
        let view = View { reads: &reads, meta: &meta };
        let index = meta.indexes.iter().find_map(|index| Some((index.def.as_vector()?, &index.table)));
        let (def, table) = index.unwrap();
        call(&meta.images, def, &view, table)
    }

    /// The image that the next search of a thread with this workspace uses.
    fn image(db: &Database, workspace: &mut Workspace) -> Option<Arc<Image>> {
        with_index(db, |images, def, view, table| images.image(def, view, table, workspace).unwrap())
    }

    /// The same, after some searches if it has to follow first.
    fn complete_image(db: &Database, workspace: &mut Workspace) -> Arc<Image> {
        (0..30).find_map(|_| image(db, workspace)).unwrap()
    }

    /// The disk of a database with an index whose image was never saved.
    fn unsaved(rng: &mut Rng) -> SimDisk {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        build(&db, rng);
        db.set_save_vector_images_at_close(false);
        db.close().unwrap();
        disk
    }

    /// A copy of it, and the database, whose index has an image.
    fn opened(base: &SimDisk, rng: &mut Rng) -> (SimDisk, Database) {
        let disk = base.crash(Crash::Everything);
        let db = open(&disk).unwrap();
        (0..30).for_each(|_| search(&db, rng));
        assert_eq!(db.vector_memory_use().built, 1);
        (disk, db)
    }

    /// Saves an image of the newest state as [`Images::save`] does, but that something happens between the writing of the file and its mapping.
    fn save(db: &Database, image: &Image, meanwhile: impl FnOnce()) -> io::Result<()> {
        db.checkpoint().unwrap();
        with_index(db, |images, def, view, table| {
            let (saved, checkpoint) = (images.saved().unwrap(), db.store().stats().checkpoint);
            saved.write(db.store(), (table, def), (checkpoint, true), &image.contents, &|| true).unwrap();
            meanwhile();
            let rows_end = view.reads.next_row(&view.meta.rows).unwrap();
            images.go_on_in_file(table, &image.contents, || saved.written((table, def), rows_end))
        })
    }

    /// Changes the bytes of the only file.
    fn damage(disk: &SimDisk, damage: impl FnOnce(&mut Vec<u8>)) {
        let [file] = &*files(disk) else { panic!("one file") };
        let mut bytes = disk.contents(file).unwrap();
        damage(&mut bytes);
        disk.overwrite(file, bytes);
    }

    #[test]
    fn an_image_stays_where_it_is_if_its_file_is_cut_off_or_is_no_image_before_it_is_mapped() {
        type Damage = fn(&mut Vec<u8>);
        let damages: [Damage; 9] = [
            Vec::clear,
            |bytes| bytes.truncate(100),
            |bytes| bytes.truncate(4096),
            |bytes| bytes.truncate(bytes.len() / 2),
            |bytes| bytes.truncate(bytes.len() - 1),
            |bytes| bytes.push(0),
            // The head of the file, that of the graph, and the checksums.
            |bytes| bytes[20] ^= 1,
            |bytes| bytes[4096] ^= 1,
            |bytes| *bytes.last_mut().unwrap() ^= 1,
        ];
        let mut rng = Rng::new(62);
        let base = unsaved(&mut rng);
        for (at, wrong) in damages.into_iter().enumerate() {
            let (disk, db) = opened(&base, &mut rng);
            let (before, first) = (db.vector_memory_use(), image(&db, &mut Workspace::default()).unwrap());
            let _ = save(&db, &first, || damage(&disk, wrong));
            assert_eq!(db.vector_memory_use(), before, "{at}");
            assert!(Arc::ptr_eq(&first, &image(&db, &mut Workspace::default()).unwrap()), "{at}");
            check_all(&db, &mut rng);
            // Who opens what there is then builds an image.
            assert_eq!(reopened(&disk.crash(Crash::Everything), &mut rng), (1, 0), "{at}");
            // The next saving writes another file in its place.
            db.save_vector_images().unwrap();
            assert!(image(&db, &mut Workspace::default()).unwrap().is_mapped(), "{at}");
            check_all(&db, &mut rng);
            assert_eq!(reopened(&disk.crash(Crash::Everything), &mut rng), (0, 1), "{at}");
        }
    }

    #[test]
    fn an_image_that_goes_on_in_a_file_that_was_damaged_is_answered_from_the_table_and_built_anew() {
        let mut rng = Rng::new(63);
        let base = unsaved(&mut rng);
        let mut noticed = 0;
        for round in 0..24 {
            let (disk, db) = opened(&base, &mut rng);
            let first = image(&db, &mut Workspace::default()).unwrap();
            let went_on = save(&db, &first, || {
                damage(&disk, |bytes| {
                    // All of its records, or one byte of them.
                    let places = match round {
                        0 => (8192..bytes.len() - 8192).step_by(2048).collect(),
                        _ => vec![8192 + rng.below(bytes.len() - 16384)],
                    };
                    places.into_iter().for_each(|at| bytes[at] ^= 1 << rng.below(8));
                });
            });
            went_on.unwrap();
            assert!(image(&db, &mut Workspace::default()).unwrap().is_mapped(), "{round}");
            for _ in 0..3 {
                check_all(&db, &mut rng);
            }
            (0..30).for_each(|_| search(&db, &mut rng));
            check_all(&db, &mut rng);
            let memory = db.vector_memory_use();
            assert!(memory.images == 1 && !first.is_damaged(), "{round} {memory:?}");
            assert!(round > 0 || memory.built == 2 && memory.mapped_bytes == 0, "{memory:?}");
            noticed += memory.built - 1;
            // Nothing of it is saved but what is whole.
            things(&db).delete(DeleteRequest::many(bson::rawdoc! { "_id": 7 })).unwrap();
            (0..5).for_each(|_| search(&db, &mut rng));
            db.close().unwrap();
            let found = reopened(&disk, &mut rng);
            assert!(memory.built == 1 || found == (0, 1), "{round} {found:?}");
        }
        assert!(noticed > 15, "{noticed}");
    }

    #[test]
    fn the_next_search_leaves_an_image_that_another_one_still_has_once_it_is_in_a_new_file_or_dropped() {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(60));
        let (db, mut workspace) = (open(&disk).unwrap(), Workspace::default());
        build(&db, &mut rng);
        let first = image(&db, &mut workspace).unwrap();
        assert!(Arc::ptr_eq(&first, &image(&db, &mut workspace).unwrap()));
        db.save_vector_images().unwrap();
        let second = image(&db, &mut workspace).unwrap();
        assert!(second.is_of(first.version) && second.is_mapped() && !first.is_mapped());
        assert!(Arc::ptr_eq(&second, &image(&db, &mut workspace).unwrap()));
        // As a full disk does.
        assert!(let_go(&db.inner.catalog.images().slots));
        let third = complete_image(&db, &mut workspace);
        assert!(third.is_of(first.version) && !Arc::ptr_eq(&second, &third));
        let memory = db.vector_memory_use();
        db.set_vector_memory(memory.bytes / 2);
        assert!(image(&db, &mut workspace).is_none());
        drop((first, second, third));
        check_all(&db, &mut rng);
    }

    #[test]
    fn an_image_does_not_go_on_in_a_file_if_the_disk_was_full_since_it_was_mapped() {
        let (disk, mut rng) = (SimDisk::new(), Rng::new(61));
        let db = open(&disk).unwrap();
        build(&db, &mut rng);
        db.checkpoint().unwrap();
        let first = image(&db, &mut Workspace::default()).unwrap();
        with_index(&db, |images, def, view, table| {
            let (saved, slot) = (images.saved().unwrap(), images.slot(table).unwrap());
            let checkpoint = db.store().stats().checkpoint;
            saved.write(db.store(), (table, def), (checkpoint, true), &first.contents, &|| true).unwrap();
            let rows_end = view.reads.next_row(&view.meta.rows).unwrap();
            let map = || {
                let file = saved.written((table, def), rows_end);
                assert!(file.as_ref().is_ok_and(Option::is_some) && let_go(&images.slots));
                file
            };
            images.go_on_in_file(table, &first.contents, map).unwrap();
            assert!(!lock(&slot.state).uses_file());
        });
        check_all(&db, &mut rng);
    }
}
