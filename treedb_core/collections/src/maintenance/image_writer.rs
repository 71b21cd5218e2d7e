//! Files of images of vector indexes that there is no room for in memory, written beside searches.
//!
//! A thread waits for those that searches ask for. It is started with the first vector index, and has the store, but no handle of the database: what ends
//! the database ends the thread and waits for that, which takes as long as some hundred nodes.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use treedb_query::error::Result;
use treedb_query::query::interrupt;
use treedb_storage::{ReadTxn, Store};

use crate::catalog::Catalog;
use crate::catalog::meta::{IndexMeta, Meta};
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::index::{Asks, log_writing};

/// What fails rests as what has taken so long: a full disk stays full for a while.
const FAILED: Duration = Duration::from_secs(8);

/// The thread, if there is one.
#[derive(Debug, Default)]
pub(crate) struct ImageWriter {
    running: Mutex<Option<(Arc<Asks>, JoinHandle<()>)>>,
}

impl ImageWriter {
    /// Starts the thread, unless it is running or the database has no such files.
    fn start(&self, db: &Database) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, catalog) = (db.inner.store.clone(), Arc::clone(&db.inner.catalog));
        if running.is_some() || !store.works_in_background() || !catalog.images().may_be_in_files() {
            return;
        }
        let asks = Arc::clone(catalog.images().asks());
        let work = move || run(&store, &catalog);
        // If the thread cannot be started, the next index or opening of the database tries again.
        let thread = std::thread::Builder::new().name("treedb-images".into()).spawn(work);
        *running = thread.ok().map(|thread| (asks, thread));
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((asks, thread)) = running {
            asks.stop();
            let _ = thread.join();
        }
    }
}

impl Drop for ImageWriter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(store: &Store, catalog: &Catalog) {
    let images = catalog.images();
    while let Some((table, namespace)) = images.asks().next() {
        let begun = Instant::now();
        let meta = |reads: &ReadTxn| catalog.find(reads, &namespace);
        let done = images.write_without_room(store, &meta, (table, false), &|| images.asks().goes_on());
        let took = if done.is_err() { begun.elapsed().max(FAILED) } else { begun.elapsed() };
        images.asks().rest(table, took);
        log_writing(&namespace, done);
    }
}

/// Whether an index is of vectors, and ready.
fn is_ready(index: &IndexMeta) -> bool {
    index.building.is_none() && index.def.as_vector().is_some()
}

impl Database {
    /// Starts the thread if there is a vector index.
    pub(crate) fn start_image_writer(&self) -> Result<()> {
        if self.has_index(is_ready)? {
            self.inner.image_writer.start(self);
        }
        Ok(())
    }

    /// Writes the image of an index that was just built, if it is one of vectors that there is no room for. The index is complete without, so nothing that
    /// fails is an error.
    pub(crate) fn write_image_of_built(&self, namespace: &Namespace, id: i64) {
        log_writing(namespace, self.try_write_image_of_built(namespace, id));
    }

    fn try_write_image_of_built(&self, namespace: &Namespace, id: i64) -> Result<()> {
        let meta_in = |reads: &ReadTxn| self.inner.catalog.find(reads, namespace);
        let meta: Option<Arc<Meta>> = meta_in(&self.inner.store.begin_read()?)?;
        let index = meta.as_ref().and_then(|meta| meta.indexes.iter().find(|index| index.id == id));
        let Some(index) = index.filter(|index| is_ready(index)) else { return Ok(()) };
        self.inner.image_writer.start(self);
        let (images, goes_on) = (self.inner.catalog.images(), || interrupt::check().is_ok());
        images.write_without_room(&self.inner.store, &meta_in, (index.table.id(), true), &goes_on)
    }
}
