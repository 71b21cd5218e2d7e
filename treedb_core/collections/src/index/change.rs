//! [`IndexChange`]: what a change of a document does to an index of any kind.

use std::ops::Deref;

use bson::RawDocument;

use treedb_query::access::RowId;
use treedb_query::error::Result;
use treedb_query::index::Definition;
use treedb_query::index::ordered::TypeBits;

use super::{IndexKind, by_kind};
use crate::catalog::namespace::Namespace;

/// The entries that a row loses and gains in one index. What the bytes of an entry are, its kind decides: the key of an ordered
/// index, for example.
#[derive(Debug, Default)]
pub(crate) struct IndexChange {
    pub(crate) remove: EntryList,
    pub(crate) add: EntryList,
    /// The type bits of the entry, if it is the row's only one.
    pub(crate) type_bits: TypeBits,
    /// Keys whose entries stay but have other type bits.
    pub(crate) retyped: EntryList,
    /// The new document has, or may have, several entries.
    pub(crate) multikey: bool,
}

/// Entries in their order. Most rows have one in an index, for which no list is allocated.
#[derive(Debug, Default)]
pub(crate) enum EntryList {
    #[default]
    Empty,
    One(Vec<u8>),
    Many(Vec<Vec<u8>>),
}

impl Deref for EntryList {
    type Target = [Vec<u8>];

    #[inline]
    fn deref(&self) -> &[Vec<u8>] {
        match self {
            EntryList::Empty => &[],
            EntryList::One(entry) => std::slice::from_ref(entry),
            EntryList::Many(entries) => entries,
        }
    }
}

impl FromIterator<Vec<u8>> for EntryList {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        let Some(first) = entries.next() else { return EntryList::Empty };
        match entries.next() {
            None => EntryList::One(first),
            Some(second) => EntryList::Many([first, second].into_iter().chain(entries).collect()),
        }
    }
}

impl IntoIterator for EntryList {
    type Item = Vec<u8>;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Vec<u8>>, std::vec::IntoIter<Vec<u8>>>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            EntryList::Empty => (None, Vec::new()),
            EntryList::One(entry) => (Some(entry), Vec::new()),
            EntryList::Many(entries) => (None, entries),
        };
        one.into_iter().chain(many)
    }
}

/// A document before and after a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Versions<'v> {
    /// Its collection.
    pub(crate) namespace: &'v Namespace,
    /// Its row; `None` for a new one.
    pub(crate) row: Option<RowId>,
    /// `None` if it is inserted.
    pub(crate) old: Option<&'v RawDocument>,
    /// `None` if it is deleted.
    pub(crate) new: Option<&'v RawDocument>,
}

/// Finds the row that has an entry in a unique index.
pub(crate) type Holder<'h> = dyn Fn(&[u8]) -> Result<Option<RowId>> + 'h;

/// The same for the index at a position.
pub(crate) type HolderIn<'h> = dyn Fn(usize, &[u8]) -> Result<Option<RowId>> + 'h;

/// The changes of the indexes `defs` when a document changes. `holder` finds the row that has an entry in the unique index at a
/// position of `defs`.
pub(crate) fn index_changes<'d>(
    defs: impl ExactSizeIterator<Item = &'d Definition>,
    versions: &Versions<'_>,
    holder: &HolderIn<'_>,
) -> Result<Vec<IndexChange>> {
    let mut changes = Vec::with_capacity(defs.len());
    for (number, def) in defs.enumerate() {
        changes.push(by_kind!(def, kind => kind.difference(versions, &|key| holder(number, key)))?);
    }
    Ok(changes)
}
