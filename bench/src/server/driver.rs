//! MongoDB's driver for Rust, used as a program would: one client with its pool of connections for all threads and tasks, and the options that
//! it has by default. With a server that is a member of a replica set, its writes have numbers, so that they can be retried; with a standalone
//! server they have none.

use bson::{RawDocument, RawDocumentBuf, doc};
use mongodb::{Collection, Database};

use super::runtime::runtime;
use crate::Result;

/// A client of a server, shared by all that use it.
#[derive(Debug)]
pub(crate) struct Driver(mongodb::Client);

impl Driver {
    /// Connects, as soon as something is asked.
    ///
    /// # Errors
    /// The address is not one.
    pub(crate) fn new(address: &str) -> Result<Driver> {
        let uri = format!("mongodb://{address}/?directConnection=true");
        Ok(Driver(runtime()?.block_on(mongodb::Client::with_uri_str(uri))?))
    }

    /// A database.
    pub(crate) fn database(&self, name: &str) -> Database {
        self.0.database(name)
    }

    /// What a thread asks of a collection.
    pub(crate) fn thread(&self, database: &str, collection: &str) -> Thread {
        Thread { collection: self.database(database).collection(collection) }
    }
}

/// A thread of a program that waits for each answer, which the driver's runtime receives.
#[derive(Debug)]
pub(crate) struct Thread {
    collection: Collection<RawDocumentBuf>,
}

impl Thread {
    /// Inserts documents.
    ///
    /// # Errors
    /// Not all of them were inserted.
    pub(crate) fn insert(&self, documents: &[RawDocumentBuf]) -> Result<()> {
        runtime()?.block_on(async { self.collection.insert_many(documents).await })?;
        Ok(())
    }

    /// The document with this `_id`.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn read(&self, id: &str) -> Result<Option<RawDocumentBuf>> {
        Ok(runtime()?.block_on(async { self.collection.find_one(doc! { "_id": id }).await })?)
    }

    /// Sets a field of the document with this `_id`, and tells how many there are.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn update(&self, id: &str, field: &str, value: &str) -> Result<u64> {
        let set = doc! { "$set": { field: value } };
        let updated =
            runtime()?.block_on(async { self.collection.update_one(doc! { "_id": id }, set).await })?;
        Ok(updated.matched_count)
    }

    /// Hands `count` documents, from this `_id` on, to `see`, in one batch.
    ///
    /// # Errors
    /// Those of the driver and of `see`.
    pub(crate) fn scan(
        &self,
        from: &str,
        count: u32,
        mut see: impl FnMut(&RawDocument) -> Result<()>,
    ) -> Result<()> {
        let filter = doc! { "_id": { "$gte": from } };
        runtime()?.block_on(async {
            let find = self.collection.find(filter).sort(doc! { "_id": 1 });
            let mut found = find.limit(i64::from(count)).batch_size(count).await?;
            while found.advance().await? {
                see(found.current())?;
            }
            Ok(())
        })
    }
}
