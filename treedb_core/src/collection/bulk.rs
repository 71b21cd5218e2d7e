//! Many documents at once: what an insert of several does as long as none is refused.
//!
//! The keys of all documents are put in order, index by index. So an index is asked once, in order, whether it has any of
//! them, and its entries go in leaf by leaf instead of one here and one there. Whether something is refused is known
//! before anything is written; then nothing is, and the caller inserts one by one, to find out what.

use std::sync::Arc;

use bson::RawDocument;

use crate::access::RowId;
use crate::code::Result;
use crate::kv::Reads;

use super::change::{check_document, check_key, marks};
use super::edit::Edit;
use super::view::entry;

/// Fewer documents than this are inserted one by one.
const LEAST: usize = 8;

/// A key, the position of its document, and what is to be kept with the entry.
struct Keyed {
    key: Vec<u8>,
    document: usize,
    marks: Vec<u8>,
}

/// The entries of one index, and the order they go in.
#[derive(Default)]
struct Entries {
    all: Vec<Keyed>,
    /// Eight bytes of each key, which decide most comparisons, and its position in `all`.
    order: Vec<(u64, usize)>,
}

impl Entries {
    /// Puts the entries in the order of their keys, those of equal keys in that of their documents.
    fn arrange(&mut self) {
        let Entries { all, order } = self;
        let common = |one: &[u8], other: &[u8]| one.iter().zip(other).take_while(|(a, b)| a == b).count();
        let first = all.first().map(|keyed| keyed.key.as_slice()).unwrap_or_default();
        let shared = all
            .iter()
            .fold(first.len(), |shared, keyed| common(first.get(..shared).unwrap_or_default(), &keyed.key));
        order.extend(all.iter().enumerate().map(|(at, keyed)| {
            let mut head = [0; 8];
            head.iter_mut().zip(keyed.key.iter().skip(shared)).for_each(|(to, from)| *to = *from);
            (u64::from_be_bytes(head), at)
        }));
        let key = |at: usize| all.get(at).map(|keyed| (&keyed.key, keyed.document));
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
    }

    fn in_order(&self) -> impl Iterator<Item = &Keyed> {
        self.order.iter().filter_map(|&(_, at)| self.all.get(at))
    }
}

/// Inserts `documents`, each valid, with an `_id` first. False, and nothing changed, if one of them would be refused, or
/// if they are few.
///
/// # Errors
/// Those of the storage engine.
pub(crate) fn insert_all(edit: &mut Edit<'_>, documents: &[&RawDocument]) -> Result<bool> {
    if documents.len() < LEAST
        || documents
            .iter()
            .any(|document| check_document(edit.meta.validator.as_ref(), None, document).is_err())
    {
        return Ok(false);
    }
    let Some((indexes, multikey)) = keys_in_order(edit, documents)? else { return Ok(false) };
    let mut rows = Vec::with_capacity(documents.len());
    for document in documents {
        rows.push(edit.append(document)?);
    }
    for (index, entries) in indexes.iter().enumerate() {
        for Keyed { key, document, marks } in entries.in_order() {
            let (Some(index), Some(row)) = (edit.meta.indexes.get(index), rows.get(*document)) else {
                continue;
            };
            let (key, mut value) = entry(index.def.unique, key, *row);
            value.extend_from_slice(marks);
            edit.txn.put(&index.table, &key, &value)?;
        }
    }
    edit.now_multikey(&multikey)?;
    Ok(true)
}

/// The entries that each index gets, in order, and the numbers of those that are multikey from now on. `None` if a key
/// cannot be had, is too long, or is there already.
fn keys_in_order(edit: &Edit<'_>, documents: &[&RawDocument]) -> Result<Option<(Vec<Entries>, Vec<usize>)>> {
    let (mut indexes, mut multikey) = (Vec::with_capacity(edit.meta.indexes.len()), Vec::new());
    let free = |_: &[u8]| -> Result<Option<RowId>> { Ok(None) };
    for (number, index) in edit.meta.indexes.iter().enumerate() {
        let mut entries = Entries::default();
        entries.all.reserve(documents.len());
        let mut several = false;
        for (position, document) in documents.iter().enumerate() {
            let Ok(keys) = index.def.keys(document) else { return Ok(None) };
            several |= keys.multikey;
            let kept = marks(&index.def, &keys, document);
            for key in keys.keys {
                if check_key(&edit.meta.namespace, &index.def, &key, None, document, &free).is_err() {
                    return Ok(None);
                }
                entries.all.push(Keyed { key, document: position, marks: kept.clone() });
            }
        }
        entries.arrange();
        if index.def.unique {
            let keys: Vec<&[u8]> = entries.in_order().map(|keyed| keyed.key.as_slice()).collect();
            let twice = keys.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
            if twice || edit.txn.get_many(&index.table, &keys)?.iter().any(Option::is_some) {
                return Ok(None);
            }
        }
        if several && !index.multikey {
            multikey.push(number);
        }
        indexes.push(entries);
    }
    Ok(Some((indexes, multikey)))
}

impl Edit<'_> {
    /// Notes that indexes have become multikey.
    pub(super) fn now_multikey(&mut self, numbers: &[usize]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let meta = Arc::make_mut(&mut self.meta);
        for &number in numbers {
            if let Some(index) = meta.indexes.get_mut(number) {
                index.multikey = true;
            }
        }
        meta.arrange();
        self.catalog.write(self.txn, meta)
    }
}
