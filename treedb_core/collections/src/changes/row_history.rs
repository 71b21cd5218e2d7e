//! The row history, which lists the changes of each row: the table `changes/trail`. The format of its keys is described in the header
//! of [`super`].

use treedb_query::error::Result;
use treedb_storage::{Cursor, Reads, Table, WriteTxn};

use super::record::damaged;

/// Low bits of a sequence number, which are not part of its epoch.
const EPOCH_BITS: u32 = 16;
/// Bytes of a key.
const KEY_LEN: usize = 24;

/// The key of change `seq` of a row.
pub(super) fn key(collection: i64, row: u64, seq: u64) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    let (epoch, rest) = key.split_at_mut(6);
    epoch.copy_from_slice(seq.to_be_bytes().get(..6).unwrap_or_default());
    rest[..8].copy_from_slice(&collection.to_be_bytes());
    rest[8..16].copy_from_slice(&row.to_be_bytes());
    rest[16..].copy_from_slice(&(seq as u16).to_be_bytes());
    key
}

/// The collection, row and change of a key.
pub(super) fn decode_key(key: &[u8]) -> Result<(i64, u64, u64)> {
    let key: &[u8; KEY_LEN] = key.try_into().map_err(|_| damaged("a key of the row history"))?;
    let word =
        |from: usize| key.get(from..from + 8).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 8]);
    let epoch = u64::from_be_bytes(word(0)) >> EPOCH_BITS;
    let low = u64::from_be_bytes(word(16)) & 0xffff;
    Ok((i64::from_be_bytes(word(6)), u64::from_be_bytes(word(14)), epoch << EPOCH_BITS | low))
}

/// Adds change `seq` of a row.
pub(super) fn add(txn: &mut WriteTxn, table: &Table, collection: i64, row: u64, seq: u64) -> Result<()> {
    Ok(txn.put(table, &key(collection, row, seq), &[])?)
}

/// Removes the epochs that end before change `seq`.
pub(super) fn trim(txn: &mut WriteTxn, table: &Table, seq: u64) -> Result<()> {
    use std::ops::Bound;
    let epoch = seq.to_be_bytes();
    let epoch = epoch.get(..6).unwrap_or_default();
    txn.delete_range(table, (Bound::Unbounded, Bound::Excluded(epoch)))?;
    Ok(())
}

/// The changes of a row after a given one, in order.
pub(super) struct LaterChanges<'a> {
    cursor: Cursor<'a>,
    collection: i64,
    row: u64,
    /// The least change that may be next.
    from: u64,
}

impl<'a> LaterChanges<'a> {
    pub(super) fn new(
        reads: &'a impl Reads,
        table: &Table,
        collection: i64,
        row: u64,
        seq: u64,
    ) -> Result<Self> {
        Ok(LaterChanges { cursor: reads.cursor(table)?, collection, row, from: seq.saturating_add(1) })
    }

    /// The next change. Epochs without changes of the row are skipped one by one, those without any changes all at once.
    pub(super) fn next(&mut self) -> Result<Option<u64>> {
        while self.cursor.seek(&key(self.collection, self.row, self.from))? {
            let Some(found) = self.cursor.key()? else { return Ok(None) };
            let (collection, row, seq) = decode_key(found)?;
            if (collection, row) == (self.collection, self.row) && seq >= self.from {
                self.from = seq.saturating_add(1);
                return Ok(Some(seq));
            }
            let epoch = self.from >> EPOCH_BITS;
            let next = (seq >> EPOCH_BITS).max(epoch);
            // If the epoch found is a later one, the row may have entries in it before the key found.
            self.from = if next > epoch { next << EPOCH_BITS } else { (epoch + 1) << EPOCH_BITS };
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_decode_to_collection_row_and_change_and_sort_by_epoch_first() {
        for seq in [0, 1, 0xffff, 0x10000, 0x1_0001, u64::MAX >> 1] {
            assert_eq!(decode_key(&key(5, 9, seq)).unwrap(), (5, 9, seq));
        }
        assert!(key(9, 9, 0xffff) < key(1, 1, 0x10000));
        assert!(key(1, 1, 7) < key(1, 1, 8) && key(1, 1, 8) < key(1, 2, 7));
    }
}
