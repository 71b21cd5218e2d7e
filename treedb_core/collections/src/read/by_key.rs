//! The commonest of all finds, `{ field: value }` where an index has the field first: one look-up in the index and one for
//! each row, without planning and without parsing a filter.
//!
//! What is taken this way answers just as a plan by that index would: the value is one whose key no other value has, and
//! the index has an entry for every document with it. Everything else is left to the planner.

use std::sync::OnceLock;

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::{Direction, IndexInfo, KeyRange, Source};
use treedb_query::doc::{Doc, Element, Fields, MESSAGE, Value, validate_with};
use treedb_query::error::Result;
use treedb_query::index::ordered::Kind;
use treedb_query::query::{Counters, OnKeys, Path, Plan, Projection, project};
use treedb_storage::kv::Reads;

use crate::catalog::meta::{IndexMeta, Meta};
use crate::read::batch::{Batch, BatchLimit};
use crate::read::long_key::PREFIX_LEN;
use crate::read::view::{View, split_entry};
use crate::request::FindRequest;
use crate::write::row::with_scratch;

/// The one value of one field that a filter asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought<'f> {
    name: &'f [u8],
    value: Value<'f>,
}

impl<'f> Sought<'f> {
    /// What `filter` asks for, if it is that.
    ///
    /// # Errors
    /// Those of a filter that is no valid BSON.
    pub(crate) fn by(filter: &'f RawDocument) -> Result<Option<Self>> {
        let Some(element) = only_element(filter.as_bytes()) else { return Ok(None) };
        let value = element.value();
        if !is_plain(value) {
            return Ok(None);
        }
        if !is_valid(element, value) {
            validate_with(filter.as_bytes(), MESSAGE)?;
        }
        Ok(Some(Sought { name: element.name, value }))
    }

    /// The same of a request that asks for nothing else.
    ///
    /// # Errors
    /// As [`Sought::by`].
    pub(crate) fn in_request(request: &'f FindRequest) -> Result<Option<Self>> {
        let FindRequest {
            filter: Some(filter),
            sort: None,
            skip: 0,
            hint: None,
            as_of: None,
            collation: None,
            ..
        } = request
        else {
            return Ok(None);
        };
        Self::by(filter)
    }

    /// `value` of the field `name`, if the two are that.
    pub(crate) fn new(name: &'f [u8], value: Value<'f>) -> Option<Self> {
        is_plain(value).then_some(Sought { name, value })
    }

    /// The position of the index to look in: the one that a planner would take as well, if there is no question which.
    pub(crate) fn index(&self, meta: &Meta) -> Option<usize> {
        Self::index_on(self.name, meta)
    }

    /// The same, whatever the value.
    pub(crate) fn index_on(name: &[u8], meta: &Meta) -> Option<usize> {
        if !meta.collation.is_simple() {
            return None;
        }
        let mut only = None;
        for (at, info) in meta.infos.iter().enumerate() {
            let IndexInfo { def, multikey, .. } = info;
            let mut paths = def.keys.iter().map(|part| part.path.as_str().as_bytes());
            let wildcard = matches!(def.options.kind, Kind::Wildcard(_));
            if def.options.hidden || !wildcard && !paths.any(|path| path == name) {
                continue;
            }
            let [first, rest @ ..] = def.keys.as_slice() else { return None };
            let all_rows = def.options.kind == Kind::Values && def.options.partial.is_none();
            let plain = def.options.collation.is_simple() && !first.path.has_positions();
            // A row is met once: with several entries it has others under other keys.
            let once = !*multikey || rest.is_empty() && first.path.parts().len() == 1;
            if first.path.as_str().as_bytes() != name || !all_rows || !plain || !once {
                return None;
            }
            if def.unique && rest.is_empty() {
                return Some(at);
            }
            if only.replace(at).is_some() {
                return None;
            }
        }
        only
    }

    /// Writes the bytes that the entries begin with over `key`; false if they are so many that entries may have others.
    fn key(&self, index: &IndexMeta, key: &mut Vec<u8>) -> bool {
        key.clear();
        if let Some(first) = index.def.keys.first() {
            first.encode(self.value, key);
        }
        key.len() <= PREFIX_LEN
    }

    /// The first document that has the value, by index number `index`; nothing of it is said (`None`) if the value is so long
    /// that entries may not have all of it.
    #[inline]
    pub(crate) fn first(
        &self,
        index: usize,
        reads: &impl Reads,
        meta: &Meta,
    ) -> Result<Option<Option<RawDocumentBuf>>> {
        let Some(index) = meta.indexes.get(index) else { return Ok(None) };
        with_scratch(|scratch| {
            let key = &mut scratch.row;
            if !self.key(index, key) {
                return Ok(None);
            }
            if is_one_at_most(index) {
                return one(index, key, reads, meta).map(Some);
            }
            let mut cursor = reads.cursor(&index.table)?;
            let mut on = cursor.seek(key)?;
            while on
                && let Some((entry, value)) = cursor.entry()?
                && entry.starts_with(key)
            {
                let (_, row) = split_entry(index, entry, value)?;
                if let Some(document) = (View { reads, meta }).document(row)? {
                    return Ok(Some(Some(document.into_owned())));
                }
                on = cursor.next()?;
            }
            Ok(Some(None))
        })
    }
}

impl Sought<'_> {
    /// Lends the documents that have the value, found by index number `index`, to `visit`; of `fields`, if they are given, at
    /// least those. Returns how many entries led to them; `None`, without a call, if the value is so long that entries may
    /// not have all of it.
    ///
    /// # Errors
    /// Those of the index, of damaged rows and of `visit`.
    pub(crate) fn each(
        &self,
        index: usize,
        reads: &impl Reads,
        meta: &Meta,
        fields: Option<&Fields>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<Option<u64>> {
        let Some(index) = meta.indexes.get(index) else { return Ok(None) };
        with_scratch(|scratch| {
            let key = &mut scratch.row;
            if !self.key(index, key) {
                return Ok(None);
            }
            let view = View { reads, meta };
            let mut lend = |row| {
                view.fetch_row(row, &mut |found| match fields {
                    Some(fields) => visit(found.part(fields)?),
                    None => visit(found.document()?),
                })
            };
            if is_one_at_most(index) {
                let Some(value) = reads.get(&index.table, key)? else { return Ok(Some(0)) };
                lend(split_entry(index, key, value)?.1)?;
                return Ok(Some(1));
            }
            let mut cursor = reads.cursor(&index.table)?;
            let (mut on, mut entries) = (cursor.seek(key)?, 0);
            while on
                && let Some((entry, value)) = cursor.entry()?
                && entry.starts_with(key)
            {
                entries += 1;
                let (_, row) = split_entry(index, entry, value)?;
                lend(row)?;
                on = cursor.next()?;
            }
            Ok(Some(entries))
        })
    }
}

/// True if no two rows have the same key, of which all is asked for.
fn is_one_at_most(index: &IndexMeta) -> bool {
    index.def.unique && index.def.keys.len() == 1
}

/// The document under `key` of an index that has one at most.
pub(crate) fn one(
    index: &IndexMeta,
    key: &[u8],
    reads: &impl Reads,
    meta: &Meta,
) -> Result<Option<RawDocumentBuf>> {
    let Some(value) = reads.get(&index.table, key)? else { return Ok(None) };
    let (_, row) = split_entry(index, key, value)?;
    Ok(View { reads, meta }.document(row)?.map(|document| document.into_owned()))
}

/// A find that goes this way, batch by batch.
#[derive(Debug)]
pub(crate) struct ByKey {
    /// Position of the index.
    index: usize,
    /// What the entries begin with.
    key: Vec<u8>,
    /// The entry that was looked at last.
    last: Option<Vec<u8>>,
    projection: Option<Projection>,
    limit: u64,
    counters: Counters,
    name: String,
    /// Made when somebody asks.
    plan: OnceLock<Plan>,
}

impl ByKey {
    /// `request`, which asks for `asked`, as such a find over the collection, if it is one.
    ///
    /// # Errors
    /// Those of the projection.
    pub(crate) fn new(sought: &Sought<'_>, request: &FindRequest, meta: &Meta) -> Result<Option<ByKey>> {
        let Some(at) = sought.index(meta) else { return Ok(None) };
        // The planner may make the documents of the keys alone.
        if at > 0 && request.projection.is_some() {
            return Ok(None);
        }
        let Some(index) = meta.indexes.get(at) else { return Ok(None) };
        let mut key = Vec::new();
        if !sought.key(index, &mut key) {
            return Ok(None);
        }
        let projection = request.projection.as_deref().map(Projection::parse).transpose()?.flatten();
        Ok(Some(ByKey {
            index: at,
            key,
            last: None,
            projection,
            limit: request.limit,
            counters: Counters::default(),
            name: index.def.name.clone(),
            plan: OnceLock::new(),
        }))
    }

    /// True if there is one document at most.
    pub(crate) fn is_one(&self, meta: &Meta) -> bool {
        meta.indexes.get(self.index).is_none_or(is_one_at_most)
    }

    /// That one document, as `reads` has it.
    pub(crate) fn one(&mut self, reads: &impl Reads, meta: &Meta) -> Result<Option<RawDocumentBuf>> {
        let Some(index) = meta.indexes.get(self.index) else { return Ok(None) };
        let Some(document) = one(index, &self.key, reads, meta)? else { return Ok(None) };
        self.counters = Counters { keys_examined: 1, docs_examined: 1, returned: 1 };
        match &self.projection {
            None => Ok(Some(document)),
            projection => project(projection.as_ref(), &document).map(Some),
        }
    }

    /// The documents behind those of the batches before, the projection being none.
    pub(crate) fn fetch(&mut self, reads: &impl Reads, meta: &Meta, batch: &mut Batch) -> Result<()> {
        let ByKey { key, last, limit, counters, .. } = self;
        // Nothing is handed out behind an error: the place of the walk is no longer known.
        batch.more = false;
        let Some(index) = meta.indexes.get(self.index) else { return Ok(()) };
        let mut cursor = reads.cursor(&index.table)?;
        let mut on = match last {
            None => cursor.seek(key)?,
            Some(last) => {
                let on = cursor.seek(last)?;
                if on && cursor.key()? == Some(last.as_slice()) { cursor.next()? } else { on }
            }
        };
        let mut room = BatchLimit::default();
        while on
            && let Some((entry, value)) = cursor.entry()?
            && entry.starts_with(key)
        {
            let (_, row) = split_entry(index, entry, value)?;
            counters.keys_examined += 1;
            let mut document = Ok(None);
            reads.visit_row(&meta.rows, row.0, &mut |row| {
                document = meta.decode_row(row).map(|document| Some(document.into_owned()));
            })?;
            if let Some(document) = document? {
                counters.docs_examined += 1;
                counters.returned += 1;
                let full = room.add(&document);
                batch.ready.push_back(document);
                if *limit > 0 && counters.returned >= *limit {
                    return Ok(());
                }
                if full {
                    *last = Some(entry.to_vec());
                    batch.more = true;
                    return Ok(());
                }
            }
            on = cursor.next()?;
        }
        Ok(())
    }

    pub(crate) fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| {
            let path = Path::Index {
                index: self.index,
                name: self.name.clone(),
                ranges: vec![KeyRange::prefix(self.key.clone())],
                direction: Direction::Forward,
                distinct: true,
                keys: OnKeys { test: None, complete: true },
            };
            Plan::new(path, false)
        })
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}

/// The element of a document that has just one and is nothing else: length, element, NUL.
fn only_element(bytes: &[u8]) -> Option<Element<'_>> {
    let element = Doc::new(bytes).elements().next()?;
    let len = 4 + 1 + element.name.len() + 1 + element.bytes.len() + 1;
    let (prefix, end) = (bytes.first_chunk::<4>()?, bytes.last()?);
    (bytes.len() == len && u32::from_le_bytes(*prefix) as usize == len && *end == 0).then_some(element)
}

/// True if the only element of a document is seen to be valid at a glance; its name is that of a field if it is that of an
/// index's.
pub(crate) fn is_valid(element: Element<'_>, value: Value<'_>) -> bool {
    match value {
        Value::String(text) => element.bytes.last() == Some(&0) && std::str::from_utf8(text).is_ok(),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Date(_) | Value::ObjectId(_) => true,
        _ => false,
    }
}

/// True for values that equal just what has the same key: no operators, no arrays (whose elements count too), nothing
/// that a missing field equals.
pub(crate) fn is_plain(value: Value<'_>) -> bool {
    value.is_number()
        || matches!(
            value,
            Value::String(_) | Value::ObjectId(_) | Value::Bool(_) | Value::Date(_) | Value::Binary(..)
        )
}
