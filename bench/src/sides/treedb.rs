//! TreeDB, through its library.

use treedb_core::kv::{Durability, Options, Reads, Store, Table, TableKind};

use super::{Class, Folder, Keys, Order, key, value};
use crate::Result;
use crate::contest::Answer;

fn options(class: Class) -> Options {
    let mut options = Options::default();
    options.durability = match class {
        Class::Durable => Durability::Durable,
        Class::Relaxed => Durability::Relaxed,
    };
    options
}

/// TreeDB as a key/value store.
pub struct TreeDbKeys {
    store: Store,
    table: Table,
    _folder: Folder,
}

impl TreeDbKeys {
    /// An empty store.
    ///
    /// # Errors
    /// From the store and the file system.
    pub fn new(class: Class) -> Result<TreeDbKeys> {
        let folder = Folder::new("treedb-keys")?;
        let store = Store::open_with(folder.path().join("db"), options(class))?;
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", TableKind::Ordered)?;
        txn.commit()?;
        Ok(TreeDbKeys { store, table, _folder: folder })
    }
}

impl Keys for TreeDbKeys {
    fn name(&self) -> &'static str {
        "TreeDB"
    }

    fn put(&self, order: &mut Order<'_>, count: u64, batch: u64, version: u64) -> Result<()> {
        for start in (0..count).step_by(batch as usize) {
            let mut txn = self.store.begin_write()?;
            for n in order.take(batch.min(count - start) as usize) {
                txn.put(&self.table, &key(n), &value(n, version))?;
            }
            txn.commit()?;
        }
        Ok(())
    }

    fn get(&self, order: &mut Order<'_>, count: u64, batch: u64) -> Result<u64> {
        let mut answer = Answer::default();
        for start in (0..count).step_by(batch as usize) {
            let txn = self.store.snapshot()?;
            for n in order.take(batch.min(count - start) as usize) {
                let found = txn.get(&self.table, &key(n))?.ok_or("a key is missing")?;
                answer.add(&found[..16]);
            }
        }
        Ok(answer.finish())
    }

    fn scan(&self) -> Result<u64> {
        let mut answer = Answer::default();
        let txn = self.store.snapshot()?;
        let mut cursor = txn.cursor(&self.table)?;
        let mut more = cursor.first()?;
        while more {
            if let Some((key, value)) = cursor.entry()? {
                answer.add(key);
                answer.add(&value[..16]);
            }
            more = cursor.next()?;
        }
        Ok(answer.finish())
    }
}
