//! The expected contents of a store, as a map, and its actual contents.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

use super::super::*;

/// The contents of a store: the entries of each table, by name.
pub(in super::super) type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A change that can be applied to the model.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Set {
        table: String,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Remove {
        table: String,
        key: Vec<u8>,
    },
    /// Removes the pairs of a dup table whose keys are in a range.
    RemovePairs {
        table: String,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    RemoveRange {
        table: String,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Clear {
        table: String,
    },
    Create {
        table: String,
    },
    Drop {
        table: String,
    },
    Rename {
        old: String,
        new: String,
    },
}

pub(super) fn apply(state: &mut State, ops: &[Op]) {
    for op in ops {
        match op.clone() {
            Op::Set { table, key, value } => {
                state.entry(table).or_default().insert(key, value);
            }
            Op::Remove { table, key } => {
                state.entry(table).or_default().remove(&key);
            }
            Op::RemovePairs { table, from, to } => {
                let within = |pair: &[u8]| (from.as_slice()..to.as_slice()).contains(&key_of(pair));
                state.entry(table).or_default().retain(|pair, _| !within(pair));
            }
            Op::RemoveRange { table, from, to } => {
                state.entry(table).or_default().retain(|key, _| *key < from || *key >= to);
            }
            Op::Clear { table } => {
                state.entry(table).or_default().clear();
            }
            Op::Create { table } => {
                state.insert(table, BTreeMap::new());
            }
            Op::Rename { old, new } => {
                let entries = state.remove(&old).unwrap_or_default();
                state.insert(new, entries);
            }
            Op::Drop { table } => {
                state.remove(&table);
            }
        }
    }
}

/// A pair as a key of the model.
pub(super) fn pair(key: &[u8], value: &[u8]) -> Vec<u8> {
    [&(key.len() as u16).to_be_bytes(), key, value].concat()
}

fn key_of(pair: &[u8]) -> &[u8] {
    let len = usize::from(u16::from_be_bytes([pair[0], pair[1]]));
    &pair[2..2 + len]
}

pub(super) fn digest(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Reads everything in a store.
pub(in super::super) fn dump(store: &Store) -> crate::Result<State> {
    let read = store.snapshot()?;
    let mut state = State::new();
    for table in read.tables()? {
        let mut entries = BTreeMap::new();
        match table.kind() {
            TableKind::Ordered => {
                for entry in read.range(&table, (Bound::Unbounded, Bound::Unbounded))? {
                    let (key, value) = entry?;
                    entries.insert(key, value.to_vec());
                }
            }
            TableKind::Dup => {
                for entry in read.pairs(&table, (Bound::Unbounded, Bound::Unbounded))? {
                    let (key, value) = entry?;
                    entries.insert(pair(&key, &value), Vec::new());
                }
            }
            TableKind::Rows => {
                for row in read.rows(&table, 0)? {
                    let (row, value) = row?;
                    entries.insert(row.to_be_bytes().to_vec(), value.to_vec());
                }
            }
        }
        state.insert(table.name().to_owned(), entries);
    }
    Ok(state)
}
