//! Groups in memory: their keys in one hash table and the states of their accumulators in one vector, so that a new group
//! costs no allocation.

use crate::doc::write::Writer;
use crate::error::Result;
use crate::query::borrow_document;

use bson::{RawDocument, RawDocumentBuf};

use crate::aggregate::accumulator::{Outputs, State};
use crate::aggregate::group_key::element_of_key;
use crate::aggregate::key_table::{Entry, HashSeed, KeyTable};

/// The groups of one range of key hashes.
#[derive(Debug)]
pub(super) struct GroupTable {
    /// The keys of the groups; with the `_id` (type and BSON) as payload if that is not the key.
    keys: KeyTable,
    /// One for each accumulator, group by group.
    states: Vec<State>,
    width: usize,
}

impl GroupTable {
    /// An empty table.
    pub(super) fn new(seed: HashSeed, outputs: &Outputs) -> Self {
        GroupTable { keys: KeyTable::new(seed), states: Vec::new(), width: outputs.0.len() }
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of memory, without what states have allocated.
    pub(super) fn size(&self) -> usize {
        self.keys.size() + self.states.len() * size_of::<State>()
    }

    /// The hash of a key.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.keys.hash(key)
    }

    /// Looks up a group.
    #[inline]
    pub(super) fn entry(&mut self, hash: u64, key: &[u8]) -> Entry {
        self.keys.entry(hash, key)
    }

    /// True if no group can be inserted.
    pub(super) fn is_full(&self) -> bool {
        self.keys.is_full()
    }

    /// Inserts a group in the vacant slot that [`Self::entry`] returned for it. Returns its number.
    pub(super) fn insert_at(
        &mut self,
        slot: usize,
        hash: u64,
        key: &[u8],
        id: &[u8],
        states: impl IntoIterator<Item = State>,
    ) -> u32 {
        self.states.extend(states);
        self.keys.insert_at(slot, hash, key, id)
    }

    /// The states of a group.
    #[inline]
    pub(super) fn states(&mut self, number: u32) -> &mut [State] {
        let start = number as usize * self.width;
        self.states.get_mut(start..start + self.width).unwrap_or_default()
    }

    /// Merges the groups of another table, whose documents all come after those of this one. Returns how many bytes the
    /// states have allocated.
    pub(super) fn merge(&mut self, other: GroupTable, outputs: &Outputs) -> Result<usize> {
        let (mut states, mut offset, mut grown) = (other.states.into_iter(), 0, 0);
        while let Some((key, id, next)) = other.keys.read(offset) {
            offset = next;
            grown += self.merge_group(key, id, states.by_ref().take(self.width), outputs)?;
        }
        Ok(grown)
    }

    /// Merges a group of another table: its key, its `_id` if that is not the key, and its states.
    pub(super) fn merge_group(
        &mut self,
        key: &[u8],
        id: &[u8],
        theirs: impl Iterator<Item = State>,
        outputs: &Outputs,
    ) -> Result<usize> {
        let (hash, mut grown) = (self.keys.hash(key), 0);
        match self.entry(hash, key) {
            Entry::Vacant(slot) => drop(self.insert_at(slot, hash, key, id, theirs)),
            Entry::Occupied(number) => {
                let own = self.states(number).iter_mut();
                for ((own, theirs), (_, accumulator)) in own.zip(theirs).zip(&outputs.0) {
                    grown += accumulator.merge(own, theirs)?;
                }
            }
        }
        Ok(grown)
    }

    /// Calls `each` with the groups in the order they were inserted: key, `_id` if that is not the key, and states.
    pub(super) fn groups(&self, mut each: impl FnMut(&[u8], &[u8], &[State]) -> Result<()>) -> Result<()> {
        let (mut offset, mut start) = (0, 0);
        while let Some((key, id, next)) = self.keys.read(offset) {
            let states = self.states.get(start..start + self.width).unwrap_or_default();
            each(key, id, states)?;
            (offset, start) = (next, start + self.width);
        }
        Ok(())
    }
}

/// The documents of finished groups, table by table in the order the groups were inserted.
#[derive(Debug, Default)]
pub(super) struct GroupOutput {
    tables: std::vec::IntoIter<GroupTable>,
    current: Option<(KeyTable, std::vec::IntoIter<State>, usize)>,
    offset: usize,
}

impl GroupOutput {
    pub(super) fn new(tables: Vec<GroupTable>) -> Self {
        GroupOutput { tables: tables.into_iter(), current: None, offset: 0 }
    }

    /// Writes the document of the next group; false after the last.
    fn write(&mut self, outputs: &Outputs, out: &mut Writer) -> bool {
        loop {
            if let Some((keys, states, width)) = &mut self.current
                && let Some((key, id, next)) = keys.read(self.offset)
            {
                self.offset = next;
                out.copy(&element_of_key(b"_id", if id.is_empty() { key } else { id }));
                outputs.write(states.take(*width), out);
                return true;
            }
            let Some(GroupTable { keys, states, width }) = self.tables.next() else { return false };
            (self.current, self.offset) = (Some((keys, states.into_iter(), width)), 0);
        }
    }

    /// The document of the next group.
    pub(super) fn next(&mut self, outputs: &Outputs) -> Result<Option<RawDocumentBuf>> {
        let mut out = Writer::new(64);
        if self.write(outputs, &mut out) { crate::query::finish_document(out).map(Some) } else { Ok(None) }
    }

    /// [`Self::next`], written to `out` over the one before.
    pub(super) fn next_in<'o>(
        &mut self,
        outputs: &Outputs,
        out: &'o mut Writer,
    ) -> Result<Option<&'o RawDocument>> {
        out.restart();
        if self.write(outputs, out) { borrow_document(out).map(Some) } else { Ok(None) }
    }
}
