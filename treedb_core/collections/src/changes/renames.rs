//! Renames of collections: records have the collection's id, and these entries tell which name it had at the time.
//!
//! They are in the table `changes/dropped`, behind the entry of their collection, and are removed with the record of the rename.

use bson::{Document, doc};

use treedb_query::error::Result;
use treedb_storage::{Reads, WriteTxn};

use super::log::Log;
use super::record::damaged;
use crate::catalog::namespace::Namespace;

/// A rename.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rename {
    /// The collection.
    pub(super) id: i64,
    /// The change that renamed it.
    pub(super) seq: u64,
    /// The name it had until then.
    pub(super) from: Namespace,
}

impl Rename {
    /// Length of a key; that of the entry of a dropped collection is 8.
    pub(super) const KEY: usize = 16;

    fn key(&self) -> [u8; Self::KEY] {
        let mut key = [0; Self::KEY];
        let (id, seq) = key.split_at_mut(8);
        id.copy_from_slice(&self.id.to_be_bytes());
        seq.copy_from_slice(&self.seq.to_be_bytes());
        key
    }

    pub(super) fn store(&self, txn: &mut WriteTxn, log: &Log) -> Result<()> {
        Ok(txn.put(&log.dropped, &self.key(), &doc! { "from": self.from.as_str() }.to_vec()?)?)
    }

    pub(super) fn remove(&self, txn: &mut WriteTxn, log: &Log) -> Result<()> {
        txn.delete(&log.dropped, &self.key())?;
        Ok(())
    }

    fn decode(key: &[u8], value: &[u8]) -> Result<Option<Rename>> {
        let Ok(key) = <[u8; Self::KEY]>::try_from(key) else { return Ok(None) };
        let read = || {
            let (id, seq) = key.split_at(8);
            let entry = Document::from_reader(value).ok()?;
            Some(Rename {
                id: i64::from_be_bytes(id.try_into().ok()?),
                seq: u64::from_be_bytes(seq.try_into().ok()?),
                from: Namespace::parse(entry.get_str("from").ok()?).ok()?,
            })
        };
        read().map(Some).ok_or_else(|| damaged("the entry of a rename"))
    }
}

impl Log {
    /// The renames that are kept, by collection and then in order.
    pub(super) fn renames(&self, reads: &impl Reads) -> Result<Vec<Rename>> {
        let mut found = Vec::new();
        for entry in reads.range(&self.dropped, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))? {
            let (key, value) = entry?;
            found.extend(Rename::decode(&key, value)?);
        }
        Ok(found)
    }

    /// The names that collections had before their first rename after change `seq`.
    pub(super) fn names_at(&self, reads: &impl Reads, seq: u64) -> Result<Vec<Rename>> {
        let mut renames = self.renames(reads)?;
        renames.retain(|rename| rename.seq > seq);
        renames.dedup_by_key(|rename| rename.id);
        Ok(renames)
    }
}
