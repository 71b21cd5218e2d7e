//! Saving images in files, and reading them.

use std::sync::atomic::Ordering;
use std::time::Instant;

use treedb_query::error::Result;
use treedb_query::index::vector::VectorDef;
use treedb_storage::{Reads, Store, Table};

use super::{Images, STEP_ELEMENTS, State, lock};
use crate::catalog::meta::Meta;
use crate::index::vector::record::nodes_in;
use crate::index::vector::saved::{Loaded, SavedImages};
use crate::read::view::View;

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
            if let Err(error) = self.save_one(saved, store, meta, (&index.table, def)) {
                tracing::warn!(namespace = %meta.namespace, index = def.name, %error, "a vector index's image is not saved");
                result = Err(error);
            }
        }
        result
    }

    fn save_one(
        &self,
        saved: &SavedImages,
        store: &Store,
        meta: &Meta,
        (table, def): (&Table, &VectorDef),
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
        if version.changed() > checkpoint || saved.is_saved(table, def, version.changed()) {
            return Ok(());
        }
        let Some(image) = self.follow(def, &view, table, version)? else { return Ok(()) };
        // Writing takes a while, and a snapshot keeps pages from being used again.
        drop(reads);
        // One that is built anew is smaller.
        if image.contents.has_many_free_nodes() {
            let discarded = saved.discard(store, table);
            lock(&self.slots).by_table.remove(&table.id());
            return discarded;
        }
        let bytes = image.contents.bytes();
        tracing::info!(namespace = %meta.namespace, index = def.name, bytes, "saving a vector index's image");
        let begun = Instant::now();
        saved.write(store, (table, def), checkpoint, &image.contents)?;
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(namespace = %meta.namespace, index = def.name, bytes, seconds, "saved a vector index's image");
        // It may have been dropped meanwhile.
        if lock(&self.slots).dropped.contains(&table.id()) {
            saved.remove(table.id());
        }
        Ok(())
    }

    /// Reads more of the saved image of an index of so many `nodes`, if there is one, and nothing else of the index yet. True if the search
    /// has to do without: it is not complete, or of a later transaction than the search's.
    pub(super) fn load(
        &self,
        state: &mut State,
        def: &VectorDef,
        view: &View<'_, impl Reads>,
        (table, now): (&Table, u64),
        (nodes, room): (u64, u64),
    ) -> Result<bool> {
        let Some(saved) = self.saved() else { return Ok(false) };
        if state.is_built || state.unfinished.is_some() {
            return Ok(false);
        }
        // The image would have what this search does not see, and rows that it does not know.
        let since = state.loading.as_ref().map(|loading| loading.since()).or_else(|| saved.saved(table));
        if since.is_some_and(|since| since > now) {
            return Ok(true);
        }
        let Some(loading) = state.loading.take().or_else(|| saved.begin(table, def)) else {
            return Ok(false);
        };
        // It is of an index that was much larger, and one that is built takes less memory.
        if loading.nodes() as u64 > nodes.saturating_add(nodes / 2) {
            saved.forget(table);
            return Ok(false);
        }
        match loading.advance(view.reads.next_row(&view.meta.rows)?) {
            // The next opening has more room, maybe.
            Ok(Loaded::Partly(loading)) if loading.bytes() > room => {
                saved.forget(table);
                return Ok(false);
            }
            Ok(Loaded::Partly(loading)) => state.loading = Some(loading),
            Ok(Loaded::Whole(whole)) => {
                let (contents, follower) = *whole;
                (state.follower, state.unfinished) = (follower, Some(contents));
                (state.is_built, state.is_from_file) = (true, true);
                self.loaded.fetch_add(1, Ordering::Relaxed);
                return Ok(state.follower.sees(view).is_none());
            }
            // It is built as if there were none.
            Err(error) => {
                tracing::warn!(index = def.name, %error, "a vector index's saved image is not used");
                saved.forget(table);
                return Ok(false);
            }
        }
        Ok(true)
    }
}
