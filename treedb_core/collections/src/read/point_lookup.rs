//! Point look-ups carried out: finds by the value of `_id`, of one indexed field, or of every field of a unique index.
//!
//! [`PointQuery`] says which finds these are, and which index answers. Here the index is read directly, without
//! parsing the filter or making a plan; the answer is that of the plan.

use std::sync::OnceLock;

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::{Flow, Source};
use treedb_query::doc::Fields;
use treedb_query::error::{QueryError, Result};
use treedb_query::query::{
    Counters, Plan, PlanSummary, PointLookup, PointQuery, Projection, Returns, interrupt, project,
};
use treedb_storage::Reads;

use crate::catalog::meta::{IndexMeta, Meta};
use crate::index::ordered::Ordered;
use crate::index::ordered::entry::split_entry;
use crate::index::ordered::long_key::PREFIX_LEN;
use crate::read::batch::{Batch, BatchLimit};
use crate::read::view::View;
use crate::request::FindRequest;
use crate::write::row::with_scratch;

/// `request` as a point query, if it asks for nothing else.
///
/// # Errors
/// Those of a filter that is not valid BSON.
pub(crate) fn of_request(request: &FindRequest) -> Result<Option<PointQuery<'_>>> {
    let FindRequest {
        filter: Some(filter),
        sort: None,
        skip: 0,
        hint: None,
        as_of: None,
        collation: None,
        variables: None,
        bounds,
        returns,
        ..
    } = request
    else {
        return Ok(None);
    };
    if !bounds.is_none() || *returns != Returns::default() {
        return Ok(None);
    }
    PointQuery::of_filter(filter)
}

/// Replaces `key` by the key that `lookup` seeks; false if it is so long that the entries have it shortened.
#[inline]
fn encode_key(lookup: PointLookup, query: &PointQuery<'_>, index: Ordered<'_>, key: &mut Vec<u8>) -> bool {
    lookup.encode_key(query, index.def, key);
    key.len() <= PREFIX_LEN
}

/// Says that the operation finds its rows by `lookup`, and counts one more use of its index.
#[inline]
fn begin(lookup: PointLookup, meta: &Meta) {
    if let Some(index) = meta.indexes.get(lookup.index) {
        index.uses.add();
    }
    interrupt::note_plan(|| PlanSummary::of_look_up(&lookup, &meta.infos));
}

/// The first document that `query` finds. The outer `None`: this is no point look-up in the collection.
///
/// # Errors
/// Those of the index and of a damaged row.
#[inline]
pub(crate) fn first(
    query: &PointQuery<'_>,
    reads: &impl Reads,
    meta: &Meta,
) -> Result<Option<Option<RawDocumentBuf>>> {
    let Some(lookup) = query.lookup(&meta.infos, &meta.collation) else { return Ok(None) };
    let Some(index) = meta.indexes.get(lookup.index).and_then(IndexMeta::ordered) else { return Ok(None) };
    with_scratch(|scratch| {
        let key = &mut scratch.row;
        if !encode_key(lookup, query, index, key) {
            return Ok(None);
        }
        begin(lookup, meta);
        if lookup.at_most_one {
            return one(index, key, reads, meta).map(Some);
        }
        let mut cursor = reads.cursor(index.table)?;
        let mut on = cursor.seek(key)?;
        while on
            && let Some((entry, value)) = cursor.entry()?
            && entry.starts_with(key)
        {
            let (_, row) = split_entry(index.def, entry, value)?;
            if let Some(document) = (View { reads, meta }).document(row)? {
                return Ok(Some(Some(document.into_owned())));
            }
            on = cursor.next()?;
        }
        Ok(Some(None))
    })
}

/// Lends the documents that `query` finds by `lookup` to `visit` until it breaks, with at least `fields` if they are given. Returns the
/// number of index entries; `None`, without a call, if the key is so long that the entries have it shortened.
///
/// # Errors
/// Those of the index, of damaged rows and of `visit`.
pub(crate) fn each(
    query: &PointQuery<'_>,
    lookup: PointLookup,
    reads: &impl Reads,
    meta: &Meta,
    fields: Option<&Fields>,
    visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
) -> Result<Option<u64>> {
    let Some(index) = meta.indexes.get(lookup.index).and_then(IndexMeta::ordered) else { return Ok(None) };
    with_scratch(|scratch| {
        let key = &mut scratch.row;
        if !encode_key(lookup, query, index, key) {
            return Ok(None);
        }
        let view = View { reads, meta };
        let mut lend = |row| {
            let mut flow = Flow::Continue(());
            view.fetch_row(row, &mut |found| {
                flow = match fields {
                    Some(fields) => visit(found.partial_document(fields)?)?,
                    None => visit(found.document()?)?,
                };
                Ok(())
            })?;
            Ok::<_, QueryError>(flow)
        };
        if lookup.at_most_one {
            let Some(value) = reads.get(index.table, key)? else { return Ok(Some(0)) };
            let _ = lend(split_entry(index.def, key, value)?.1)?;
            return Ok(Some(1));
        }
        let mut cursor = reads.cursor(index.table)?;
        let (mut on, mut entries) = (cursor.seek(key)?, 0);
        while on
            && let Some((entry, value)) = cursor.entry()?
            && entry.starts_with(key)
        {
            entries += 1;
            let (_, row) = split_entry(index.def, entry, value)?;
            if lend(row)?.is_break() {
                break;
            }
            on = cursor.next()?;
        }
        Ok(Some(entries))
    })
}

/// Lends the document that `query` finds in an index where there can be only one to `visit`; false if there is none. `None`, without a
/// call: no such index answers the query.
///
/// # Errors
/// As those of [`each`].
#[inline]
pub(crate) fn lend_one(
    query: &PointQuery<'_>,
    reads: &impl Reads,
    meta: &Meta,
    visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
) -> Result<Option<bool>> {
    let lookup = query.lookup(&meta.infos, &meta.collation).filter(|lookup| lookup.at_most_one);
    let Some(lookup) = lookup else { return Ok(None) };
    let entries = each(query, lookup, reads, meta, None, &mut |document| {
        visit(document)?;
        Ok(Flow::Continue(()))
    })?;
    if entries.is_some() {
        begin(lookup, meta);
    }
    Ok(entries.map(|entries| entries > 0))
}

/// When a look-up counts as a use of its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Always,
    /// Unless `visit` breaks.
    IfTaken,
}

/// Lends the documents that `query` finds to `visit` until it breaks, `limit` at most (0: all), in the order of
/// [`Collection::find`](crate::Collection::find). False, without a call: no index answers the query without a plan.
///
/// # Errors
/// As those of [`each`].
pub(crate) fn lend(
    query: &PointQuery<'_>,
    limit: u64,
    reads: &impl Reads,
    meta: &Meta,
    visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    counted: Counted,
) -> Result<bool> {
    let Some(lookup) = query.lookup(&meta.infos, &meta.collation) else { return Ok(false) };
    let (mut left, mut taken) = (if limit == 0 { u64::MAX } else { limit }, true);
    let entries = each(query, lookup, reads, meta, None, &mut |document| {
        let flow = visit(document)?;
        (left, taken) = (left - 1, flow.is_continue());
        Ok(if left == 0 { Flow::Break(()) } else { flow })
    })?;
    if entries.is_some() && (taken || counted == Counted::Always) {
        begin(lookup, meta);
    }
    Ok(entries.is_some())
}

/// The document under `key` of a unique index.
fn one(index: Ordered<'_>, key: &[u8], reads: &impl Reads, meta: &Meta) -> Result<Option<RawDocumentBuf>> {
    let Some(value) = reads.get(index.table, key)? else { return Ok(None) };
    let (_, row) = split_entry(index.def, key, value)?;
    Ok(View { reads, meta }.document(row)?.map(|document| document.into_owned()))
}

/// A find by a point look-up, batch by batch.
#[derive(Debug)]
pub(crate) struct PointFind {
    lookup: PointLookup,
    /// What the entries begin with.
    key: Vec<u8>,
    /// The entry of the last document returned.
    last: Option<Vec<u8>>,
    projection: Option<Projection>,
    limit: u64,
    counters: Counters,
    /// Made when it is asked for.
    plan: OnceLock<Plan>,
}

impl PointFind {
    /// The find that `request`, whose filter is `query`, asks for; `None` if it is no point look-up in the collection.
    ///
    /// # Errors
    /// Those of the projection.
    pub(crate) fn new(query: &PointQuery<'_>, request: &FindRequest, meta: &Meta) -> Result<Option<Self>> {
        let Some(lookup) = query.lookup(&meta.infos, &meta.collation) else { return Ok(None) };
        // A plan may build the documents from the keys alone.
        if lookup.index > 0 && request.projection.is_some() {
            return Ok(None);
        }
        let Some(index) = meta.indexes.get(lookup.index).and_then(IndexMeta::ordered) else {
            return Ok(None);
        };
        let mut key = Vec::new();
        if !encode_key(lookup, query, index, &mut key) {
            return Ok(None);
        }
        begin(lookup, meta);
        let projection = request.projection.as_deref().map(Projection::parse).transpose()?.flatten();
        let (limit, counters) = (request.limit, Counters::default());
        Ok(Some(PointFind { lookup, key, last: None, projection, limit, counters, plan: OnceLock::new() }))
    }

    /// True if there is one document at most.
    pub(crate) fn is_one(&self) -> bool {
        self.lookup.at_most_one
    }

    /// That one document, as `reads` has it.
    pub(crate) fn one(&mut self, reads: &impl Reads, meta: &Meta) -> Result<Option<RawDocumentBuf>> {
        let Some(index) = meta.indexes.get(self.lookup.index).and_then(IndexMeta::ordered) else {
            return Ok(None);
        };
        let Some(document) = one(index, &self.key, reads, meta)? else { return Ok(None) };
        self.counters = Counters { keys_examined: 1, docs_examined: 1, returned: 1 };
        match &self.projection {
            None => Ok(Some(document)),
            projection => project(projection.as_ref(), &document).map(Some),
        }
    }

    /// The next batch of documents. There is no projection where there may be several.
    pub(crate) fn fetch(&mut self, reads: &impl Reads, meta: &Meta, batch: &mut Batch) -> Result<()> {
        let PointFind { lookup, key, last, limit, counters, .. } = self;
        // After an error the position is not known: nothing more is returned.
        batch.more = false;
        let Some(index) = meta.indexes.get(lookup.index).and_then(IndexMeta::ordered) else { return Ok(()) };
        let mut cursor = reads.cursor(index.table)?;
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
            let (_, row) = split_entry(index.def, entry, value)?;
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

    /// The plan that the look-up stands for; `None` if the collection has not got the index.
    pub(crate) fn plan(&self, meta: &Meta) -> Option<&Plan> {
        let info = meta.infos.get(self.lookup.index)?;
        Some(self.plan.get_or_init(|| self.lookup.plan(info, self.key.clone())))
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}
