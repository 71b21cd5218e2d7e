//! The collections that records refer to: existing ones, and dropped ones whose rows are kept while the log may need them.

use std::collections::HashMap;
use std::sync::Arc;

use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawBson, RawDocumentBuf, doc};

use treedb_query::error::{QueryError, Result};
use treedb_storage::{Reads, WriteTxn};

use super::log::Log;
use super::record::damaged;
use super::renames::Rename;
use crate::catalog::Catalog;
use crate::catalog::meta::Meta;
use crate::catalog::namespace::Namespace;
use crate::catalog::view_def::is_about_a_view;

/// An entry of the table `changes/dropped`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DroppedCollection {
    pub(super) id: i64,
    pub(super) namespace: Namespace,
    /// The change that dropped it.
    pub(super) seq: u64,
    /// When it was dropped: milliseconds since 1970.
    pub(super) time: i64,
    /// Bytes of its rows, while they are kept.
    pub(super) bytes: u64,
    /// The catalog entry without indexes; `None` once the rows are removed.
    pub(super) entry: Option<Vec<u8>>,
}

impl DroppedCollection {
    fn decode(key: &[u8], value: &[u8]) -> Result<DroppedCollection> {
        let read = || {
            let id = i64::from_be_bytes(key.try_into().ok()?);
            let entry = Document::from_reader(value).ok()?;
            Some(DroppedCollection {
                id,
                namespace: Namespace::parse(entry.get_str("ns").ok()?).ok()?,
                seq: entry.get_i64("seq").ok()?.cast_unsigned(),
                time: entry.get_i64("time").ok()?,
                bytes: entry.get_i64("bytes").ok()?.cast_unsigned(),
                entry: entry.get_binary_generic("entry").ok().cloned(),
            })
        };
        read().ok_or_else(|| damaged("the entry of a dropped collection"))
    }

    pub(super) fn store(&self, txn: &mut WriteTxn, log: &Log) -> Result<()> {
        let mut entry = doc! {
            "ns": self.namespace.as_str(), "seq": self.seq.cast_signed(), "time": self.time,
            "bytes": self.bytes.cast_signed(),
        };
        if let Some(bytes) = &self.entry {
            let bytes = Binary { subtype: BinarySubtype::Generic, bytes: bytes.clone() };
            entry.insert("entry", Bson::Binary(bytes));
        }
        Ok(txn.put(&log.dropped, &self.id.to_be_bytes(), &entry.to_vec()?)?)
    }

    pub(super) fn meta(&self, reads: &impl Reads) -> Result<Option<Meta>> {
        let decode = |bytes: &Vec<u8>| Meta::decode(self.namespace.clone(), bytes, reads);
        self.entry.as_ref().map(decode).transpose()
    }
}

impl Log {
    /// The dropped collections in the log, by id.
    pub(super) fn dropped_collections(&self, reads: &impl Reads) -> Result<Vec<DroppedCollection>> {
        let mut found = Vec::new();
        for entry in reads.range(&self.dropped, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded))? {
            let (key, value) = entry?;
            if key.len() != Rename::KEY {
                found.push(DroppedCollection::decode(&key, value)?);
            }
        }
        Ok(found)
    }

    /// Appends `dropTarget` to the description of the rename that is change `seq`, if it dropped a collection: that one's UUID, or `true` if it
    /// is no longer known.
    pub(super) fn append_drop_target(
        &self,
        reads: &impl Reads,
        seq: u64,
        description: &mut RawDocumentBuf,
    ) -> Result<()> {
        if let Some(dropped) = self.dropped_collections(reads)?.iter().find(|dropped| dropped.seq == seq) {
            let target = match dropped.meta(reads)? {
                Some(meta) => RawBson::from(Binary::from(meta.uuid)),
                None => RawBson::Boolean(true),
            };
            description.append(cstr!("dropTarget"), target);
        }
        Ok(())
    }
}

/// A collection's rows, if they are kept.
#[derive(Debug, Clone)]
pub(crate) enum RetainedRows {
    Available(Arc<Meta>),
    Discarded,
}

/// The collections of a snapshot by id.
#[derive(Debug)]
pub(crate) struct CollectionsById<'c> {
    catalog: &'c Catalog,
    /// The name that each had at the change where the log is read, kept from one snapshot to the next.
    names: &'c mut HashMap<i64, Namespace>,
    found: HashMap<i64, RetainedRows>,
}

impl<'c> CollectionsById<'c> {
    pub(crate) fn new(catalog: &'c Catalog, names: &'c mut HashMap<i64, Namespace>) -> Self {
        CollectionsById { catalog, names, found: HashMap::new() }
    }

    /// The name that the collection `id`, which the log refers to, had at change `seq`. Changes are asked for in their order.
    pub(crate) fn name(&mut self, reads: &impl Reads, log: &Log, id: i64, seq: u64) -> Result<&Namespace> {
        if !self.names.contains_key(&id) {
            for (id, name) in self.present_names(reads, log)? {
                self.names.entry(id).or_insert(name);
            }
            for rename in log.names_at(reads, seq.saturating_sub(1))? {
                self.names.insert(rename.id, rename.from);
            }
        }
        self.names.get(&id).ok_or_else(|| damaged("changes of an unknown collection"))
    }

    /// Must be called when the log has been read up to a rename.
    pub(crate) fn renamed(&mut self, id: i64) {
        self.names.remove(&id);
    }

    /// The names of all collections in the snapshot, those of dropped ones included.
    fn present_names(&self, reads: &impl Reads, log: &Log) -> Result<HashMap<i64, Namespace>> {
        let mut names = HashMap::new();
        for namespace in self.catalog.list(reads, "")? {
            if let Some(meta) = self.catalog.find(reads, &namespace)? {
                names.insert(meta.id, namespace);
            }
        }
        for dropped in log.dropped_collections(reads)? {
            names.insert(dropped.id, dropped.namespace);
        }
        Ok(names)
    }

    /// The entry of a collection whose rows are still available.
    pub(crate) fn meta(&mut self, reads: &impl Reads, log: &Log, id: i64) -> Result<RetainedRows> {
        if let Some(kept) = self.found.get(&id) {
            return Ok(kept.clone());
        }
        let called = |catalog: &Catalog, name: Option<&Namespace>| match name {
            Some(name) => match catalog.find(reads, name) {
                // The name is a view's now.
                Err(error) if is_about_a_view(&error) => Ok(None),
                found => Ok(found?.filter(|meta| meta.id == id)),
            },
            None => Ok::<_, QueryError>(None),
        };
        let live = match called(self.catalog, self.names.get(&id))? {
            Some(meta) => Some(meta),
            // It was dropped, or renamed since.
            None => called(self.catalog, self.present_names(reads, log)?.get(&id))?,
        };
        let kept = match live {
            Some(meta) => RetainedRows::Available(meta),
            None => {
                let entry = reads.get(&log.dropped, &id.to_be_bytes())?;
                let dropped =
                    entry.map(|entry| DroppedCollection::decode(&id.to_be_bytes(), entry)).transpose()?;
                match dropped.map(|dropped| dropped.meta(reads)).transpose()?.flatten() {
                    Some(meta) => RetainedRows::Available(Arc::new(meta)),
                    None => RetainedRows::Discarded,
                }
            }
        };
        self.found.insert(id, kept.clone());
        Ok(kept)
    }
}
