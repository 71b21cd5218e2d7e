//! The library, in this process: what all other paths lead to.

use bson::{RawDocumentBuf, rawdoc};
use treedb_collections::{ChangeLogOptions, Collection, Database, Durability, IndexSpec, Options};

use super::client::{Client, Key};
use super::members::Member;
use crate::Result;
use crate::engines::DataDir;

/// A database that does what the server's does: commits are not flushed, and changes are recorded.
pub(super) struct Library {
    database: Database,
    /// Where it is, as long as this lives.
    _dir: DataDir,
}

impl Library {
    /// A new one.
    pub(super) fn open() -> Result<Library> {
        let dir = DataDir::new("treedb-library")?;
        let mut options = Options::default();
        options.durability = Durability::Relaxed;
        let database = Database::open_with(dir.path().join("db"), options)?;
        database.record_changes(Some(ChangeLogOptions::default()))?;
        Ok(Library { database, _dir: dir })
    }

    /// Creates the indexes of a collection, which is empty.
    pub(super) fn index(&self, namespace: &str) -> Result<()> {
        let collection = self.collection(namespace)?;
        collection.create_index(IndexSpec::new(rawdoc! { "email": 1 }).unique())?;
        collection.create_index(IndexSpec::new(rawdoc! { "city": 1 }))?;
        Ok(())
    }

    /// A collection.
    pub(super) fn collection(&self, namespace: &str) -> Result<Collection> {
        Ok(self.database.collection(namespace)?)
    }

    /// Drops a collection.
    pub(super) fn drop(&self, namespace: &str) -> Result<()> {
        self.database.drop_collection(namespace)?;
        Ok(())
    }
}

impl Client for Collection {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        match self.insert_many(members, true)?.errors.into_iter().next() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        Ok(Collection::find_one(self, key.filter(value))?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::client::{Runs, Work, together};
    use super::super::members::members;
    use super::*;

    const SOME: &str = "paths.some";

    #[test]
    fn a_load_inserts_every_document_once_and_a_find_notices_one_that_is_missing() {
        let library = Library::open().unwrap();
        let (all, more) = (members(2_400), members(2_500));
        for runs in [Runs::Threads, Runs::Tasks] {
            library.index(SOME).unwrap();
            let clients = || vec![library.collection(SOME).unwrap(); 3];
            let work = |members, work| together(None, runs, clients(), members, work);
            let done = work(&more, Work::Load { count: 2_400, batch: 1_000 }).unwrap();
            assert_eq!((done.ops, library.collection(SOME).unwrap().len().unwrap()), (2_400, 2_400));
            for key in [Key::Id, Key::Email] {
                let find = Work::Find { key, time: Duration::from_millis(50), seed: 1 };
                assert!(work(&all, find).unwrap().ops > 0);
                assert!(work(&more, find).unwrap_err().to_string().contains("was not found"));
            }
            library.drop(SOME).unwrap();
        }
    }
}
