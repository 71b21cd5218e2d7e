//! Groups and what their accumulators have seen: the keys in one table, the states in one list, so that a new group
//! costs no allocation of its own.

use crate::doc::write::Writer;
use crate::error::Result;
use crate::query::lent;

use bson::{RawDocument, RawDocumentBuf};

use super::accumulator::{Outputs, State};
use super::identity::element;
use super::table::{Look, Seed, Table};

/// The groups whose keys' hashes fall together.
#[derive(Debug)]
pub(super) struct Shard {
    /// Of each group what tells it apart, and the `_id` (type and BSON) if that is something else.
    keys: Table,
    /// As many for each group as there are accumulators.
    states: Vec<State>,
    width: usize,
}

impl Shard {
    /// No groups.
    pub(super) fn new(seed: Seed, outputs: &Outputs) -> Self {
        Shard { keys: Table::new(seed), states: Vec::new(), width: outputs.0.len() }
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes it takes, without what states hold elsewhere.
    pub(super) fn size(&self) -> usize {
        self.keys.size() + self.states.len() * size_of::<State>()
    }

    /// The hash of a key.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.keys.hash(key)
    }

    /// Looks for a group.
    #[inline]
    pub(super) fn look(&mut self, hash: u64, key: &[u8]) -> Look {
        self.keys.look(hash, key)
    }

    /// True if there can be no further group.
    pub(super) fn is_full(&self) -> bool {
        self.keys.is_full()
    }

    /// Adds a group where it was missed.
    pub(super) fn fill(
        &mut self,
        slot: usize,
        hash: u64,
        key: &[u8],
        id: &[u8],
        states: impl IntoIterator<Item = State>,
    ) -> u32 {
        self.states.extend(states);
        self.keys.fill(slot, hash, key, id)
    }

    /// The states of a group.
    #[inline]
    pub(super) fn states(&mut self, number: u32) -> &mut [State] {
        let start = number as usize * self.width;
        self.states.get_mut(start..start + self.width).unwrap_or_default()
    }

    /// Takes in the groups of another, all of whose documents come behind those of this one. Returns how many bytes the
    /// states have grown by elsewhere.
    pub(super) fn merge(&mut self, other: Shard, outputs: &Outputs) -> Result<usize> {
        let (mut states, mut place, mut grown) = (other.states.into_iter(), 0, 0);
        while let Some((key, id, next)) = other.keys.at(place) {
            place = next;
            let hash = self.keys.hash(key);
            let theirs = states.by_ref().take(self.width);
            match self.look(hash, key) {
                Look::Free(slot) => drop(self.fill(slot, hash, key, id, theirs)),
                Look::At(number) => {
                    for ((own, theirs), (_, accumulator)) in
                        self.states(number).iter_mut().zip(theirs).zip(&outputs.0)
                    {
                        grown += accumulator.merge(own, theirs)?;
                    }
                }
            }
        }
        Ok(grown)
    }
}

/// Groups on their way out, in the order they were found in.
#[derive(Debug, Default)]
pub(super) struct Ready {
    shards: std::vec::IntoIter<Shard>,
    current: Option<(Table, std::vec::IntoIter<State>, usize)>,
    place: usize,
}

impl Ready {
    pub(super) fn new(shards: Vec<Shard>) -> Self {
        Ready { shards: shards.into_iter(), current: None, place: 0 }
    }

    /// Writes the next group's document; false behind the last.
    fn write(&mut self, outputs: &Outputs, out: &mut Writer) -> bool {
        loop {
            if let Some((keys, states, width)) = &mut self.current
                && let Some((key, id, next)) = keys.at(self.place)
            {
                self.place = next;
                out.copy(&element(b"_id", if id.is_empty() { key } else { id }));
                outputs.write(states.take(*width), out);
                return true;
            }
            let Some(Shard { keys, states, width }) = self.shards.next() else { return false };
            (self.current, self.place) = (Some((keys, states.into_iter(), width)), 0);
        }
    }

    /// The next group's document.
    pub(super) fn next(&mut self, outputs: &Outputs) -> Result<Option<RawDocumentBuf>> {
        let mut out = Writer::new(64);
        if self.write(outputs, &mut out) { crate::query::finished(out).map(Some) } else { Ok(None) }
    }

    /// The same, written over the one before.
    pub(super) fn lend<'o>(
        &mut self,
        outputs: &Outputs,
        out: &'o mut Writer,
    ) -> Result<Option<&'o RawDocument>> {
        out.restart();
        if self.write(outputs, out) { lent(out).map(Some) } else { Ok(None) }
    }
}
