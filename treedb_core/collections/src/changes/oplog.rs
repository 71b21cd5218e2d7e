//! The change log as MongoDB's `local.oplog.rs` shows changes, for tools that tail it: [`Database::oplog`].
//!
//! | `op` | |
//! |---|---|
//! | `i`, `d` | the document, its `_id` |
//! | `u` | the new document, if the whole was replaced; otherwise `{ $v: 2, diff: .. }`: see `document_diff` |
//! | `c` | `create`, `drop`, `dropDatabase`, `renameCollection`, `createIndexes`, `dropIndexes`, `collMod`, `convertToCapped` |
//! | `n` | the beginning of the log, as long as nothing has been removed from it; `createSearchIndexes` and `dropSearchIndex`, for `treedb restore` |
//!
//! A transaction's changes are entries of their own. `ts` is the `clusterTime` of the change's event in a change stream.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bson::raw::cstr;
use bson::{Document, RawArrayBuf, RawDocument, RawDocumentBuf, Timestamp, rawdoc};

use treedb_query::access::Direction;
use treedb_query::aggregate::DocumentStream;
use treedb_query::doc::{Doc, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::SortOrder;
use treedb_query::query::filter::{Node, Op};
use treedb_query::query::{Hint, KeyBounds, PlanSummary, Query, Returns, Sort, interrupt, project};
use treedb_storage::ReadTxn;

use super::document_diff::document_diff;
use super::dropped_collections::{CollectionsById, RetainedRows};
use super::event::cluster_time;
use super::log::{Log, Version};
use super::record::{Change, Defined, Head, Operation, Record, damaged, document};
use super::stream::at_operation_time;
use crate::catalog::namespace::Namespace;
use crate::database::Database;
use crate::maintenance::stats::{CappedLimits, CollectionStats};
use crate::read::batch::BatchLimit;
use crate::request::FindRequest;
use crate::write::statement::parse;

/// Entries of the oplog that match a filter; see [`Database::oplog`].
pub struct Oplog {
    db: Database,
    query: Query,
    /// What the filter says that entries are not earlier than, and not later than.
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// The names of collections at the change that was read last.
    names: HashMap<i64, Namespace>,
    /// The next change to read; `None` before the first.
    next: Option<u64>,
    backward: bool,
    tailable: bool,
    to_skip: u64,
    left: Option<u64>,
    ready: VecDeque<RawDocumentBuf>,
    /// There will be no more entries.
    ended: bool,
}

/// The collection that shows the change log. Nothing is stored in it.
const NAME: &str = "local.oplog.rs";

/// True for the name of the collection that shows the change log.
pub(crate) fn is_oplog(namespace: &str) -> bool {
    namespace == NAME
}

impl Namespace {
    /// True for `local.oplog.rs`, which shows the change log: see [`Database::oplog`].
    pub fn is_oplog(&self) -> bool {
        is_oplog(self.as_str())
    }

    /// `IllegalOperation` if it is `local.oplog.rs`.
    pub(crate) fn check_not_oplog(&self) -> Result<()> {
        match self.is_oplog() {
            true => Err(QueryError::new(
                ErrorCode::IllegalOperation,
                "local.oplog.rs shows the change log: it can be read, and cannot be written",
            )),
            false => Ok(()),
        }
    }
}

impl Database {
    /// The changes that were recorded, as entries of MongoDB's oplog, in their order or from the last on (`sort` by `$natural` or `ts`); with
    /// `tailable` also those that come later. Nothing, if changes are not recorded.
    ///
    /// # Errors
    /// `BadValue` for another order, a hint or an earlier time; those of the filter.
    pub fn oplog(&self, request: &FindRequest, tailable: bool) -> Result<Oplog> {
        if request.as_of.is_some() {
            return Err(unordered());
        }
        let query = parse(request)?.with_default_collation(&treedb_query::doc::Collation::Simple)?;
        self.query_oplog(query, tailable)
    }

    /// Sizes of the oplog: those of the change log, of which each change counts as a document. `None` if changes are not recorded.
    pub(crate) fn oplog_stats(&self) -> Result<Option<CollectionStats>> {
        let Some(log) = self.change_log()? else { return Ok(None) };
        Ok(Some(CollectionStats {
            documents: log.next.saturating_sub(log.first),
            data_bytes: log.bytes,
            storage_bytes: log.bytes,
            estimated: true,
            capped: Some(CappedLimits { size: log.options.bytes, max: None }),
            indexes: Vec::new(),
        }))
    }

    /// [`Self::oplog`] of a query.
    pub(crate) fn query_oplog(&self, query: Query, tailable: bool) -> Result<Oplog> {
        let direction = match (&query.hint, &query.sort) {
            (None, None) => Direction::Forward,
            (None, Some(sort)) => by_time(sort).ok_or_else(unordered)?,
            (Some(Hint::Natural(direction)), None) => *direction,
            _ => return Err(unordered()),
        };
        let backward = direction == Direction::Backward;
        let others = query.bounds != KeyBounds::default() || query.returns != Returns::default();
        if others || backward && tailable {
            return Err(unordered());
        }
        interrupt::note_plan(|| PlanSummary::COLLECTION_SCAN);
        let (skip, limit) = (query.skip, query.limit);
        Ok(Oplog {
            db: self.clone(),
            since: bound(&query, &[Op::Gt, Op::Gte, Op::Eq]).max(),
            until: bound(&query, &[Op::Lt, Op::Lte, Op::Eq]).min().filter(|_| !tailable),
            query,
            names: HashMap::new(),
            next: None,
            backward,
            tailable,
            to_skip: skip,
            left: Some(limit).filter(|limit| *limit > 0),
            ready: VecDeque::new(),
            ended: false,
        })
    }
}

impl Oplog {
    /// The next entry, waiting for it until `timeout` if it is tailable. `None` if there was none.
    ///
    /// # Errors
    /// `CappedPositionLost` if entries were removed before they were read.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<RawDocumentBuf>> {
        self.wait(timeout)?;
        Ok(self.ready.pop_front())
    }

    /// The entry that [`Self::next_timeout`] would return, without taking it.
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<&RawDocument>> {
        if self.ready.is_empty() && !self.ended {
            let db = self.db.clone();
            db.inner.changes.wait(timeout, || {
                self.fill()?;
                Ok((!self.ready.is_empty() || self.ended).then_some(()))
            })?;
        }
        Ok(self.ready.front().map(|entry| &**entry))
    }

    /// True if all entries were returned and there will be no others.
    pub fn is_closed(&self) -> bool {
        self.ready.is_empty() && self.ended
    }

    /// Bytes of the entries that are ready.
    #[cfg(test)]
    pub(super) fn bytes_ready(&self) -> usize {
        self.ready.iter().map(|entry| entry.as_bytes().len()).sum()
    }

    /// Reads until entries are ready or the end is reached.
    fn fill(&mut self) -> Result<()> {
        let db = self.db.clone();
        while self.ready.is_empty() && !self.ended {
            interrupt::check()?;
            let reads = db.inner.store.begin_read()?;
            let Some(log) = Log::find(&reads)? else {
                self.ended = true;
                return Ok(());
            };
            let all = match self.backward {
                true => self.read_back(&reads, &log)?,
                false => self.read(&reads, &log)?,
            };
            self.ended |= all && !self.tailable;
            if all {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads some records forward. True if these are all.
    fn read(&mut self, reads: &ReadTxn, log: &Log) -> Result<bool> {
        let min_seq = log.min_seq(reads)?;
        let mut limit = BatchLimit::default();
        let from = match self.next {
            Some(next) if next < min_seq => return Err(position_lost("removed before they were read")),
            Some(next) => next,
            None => {
                let first = self.first(reads, log)?.max(min_seq);
                if first == log.settings.from && min_seq == first {
                    self.take(beginning(log), &mut limit)?;
                    if self.ended {
                        return Ok(true);
                    }
                }
                first
            }
        };
        self.next = Some(from);
        let mut names = std::mem::take(&mut self.names);
        let db = self.db.clone();
        let mut collections = CollectionsById::new(&db.inner.catalog, &mut names);
        let (mut all, mut records) = (true, 0);
        log.walk(reads, from, &mut |record: Record<'_>| {
            let head = record.head;
            records += 1;
            if records > MAX_RECORDS {
                all = false;
                return Ok(false);
            }
            let first = head.first.max(from);
            for change in record.changes_from(from) {
                let change = change?;
                let seq = change.seq;
                if self.until.is_some_and(|until| cluster_time(head.time, seq) > until) {
                    self.ended = true;
                    return Ok(false);
                }
                let entry = entry(reads, log, &mut collections, first, &head, &change)?;
                self.next = Some(seq + 1);
                if self.take(entry, &mut limit)? {
                    all = false;
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        self.names = names;
        Ok(all)
    }

    /// Reads a record, or the last part of a long one, from the last on. True if there is none before.
    fn read_back(&mut self, reads: &ReadTxn, log: &Log) -> Result<bool> {
        let end = match self.next {
            Some(next) => next,
            None => log.end(reads)?.next,
        };
        let min_seq = log.min_seq(reads)?;
        let mut limit = BatchLimit::default();
        if end <= min_seq {
            if end == log.settings.from {
                self.take(beginning(log), &mut limit)?;
            }
            self.ended = true;
            return Ok(true);
        }
        let mut names = std::mem::take(&mut self.names);
        let db = self.db.clone();
        let mut collections = CollectionsById::new(&db.inner.catalog, &mut names);
        log.walk(reads, end - 1, &mut |record: Record<'_>| {
            let head = record.head;
            let part = record.changes_from(end.saturating_sub(MAX_BACK));
            let part = part.take_while(|change| change.as_ref().map_or(true, |change| change.seq < end));
            for change in part.collect::<Result<Vec<_>>>()?.iter().rev() {
                let at = cluster_time(head.time, change.seq);
                if self.since.is_some_and(|since| at < since) {
                    self.ended = true;
                    break;
                }
                self.next = Some(change.seq);
                if self.until.is_some_and(|until| at > until) {
                    if let Operation::Rename { .. } = change.operation {
                        collections.renamed(head.collection);
                    }
                    continue;
                }
                let entry = entry(reads, log, &mut collections, change.seq, &head, change)?;
                if self.take(entry, &mut limit)? {
                    break;
                }
            }
            Ok(false)
        })?;
        self.names = names;
        if !self.ended && self.next.is_none_or(|next| next >= end) {
            return Err(damaged("a missing change"));
        }
        Ok(false)
    }

    /// Adds an entry, if it matches and is wanted. True if there are enough for now.
    fn take(&mut self, entry: RawDocumentBuf, limit: &mut BatchLimit) -> Result<bool> {
        if self.ended || !self.query.filter.matches(&entry)? {
            return Ok(self.ended);
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return Ok(false);
        }
        let entry = project(self.query.projection.as_ref(), &entry)?;
        let full = limit.add(&entry);
        self.ready.push_back(entry);
        if let Some(left) = &mut self.left {
            *left -= 1;
            self.ended = *left == 0;
        }
        Ok(full || self.ended)
    }

    /// The first change that can match.
    fn first(&self, reads: &ReadTxn, log: &Log) -> Result<u64> {
        match self.since {
            // What is no longer kept is not there, as in MongoDB: those who ask compare the first entry that they get.
            Some(since) => match at_operation_time(reads, log, since) {
                Ok((next, _)) => Ok(next),
                Err(error) if error.code == ErrorCode::ChangeStreamHistoryLost => log.min_seq(reads),
                Err(error) => Err(error),
            },
            None => log.min_seq(reads),
        }
    }
}

/// Records that are read in one snapshot.
const MAX_RECORDS: usize = 4096;
/// Changes that are read at a time from the end.
const MAX_BACK: u64 = 256;

/// The direction of a sort by `ts`, of which no two entries have the same; `None` for another one.
pub(crate) fn by_time(sort: &Sort) -> Option<Direction> {
    let first = sort.keys.first().filter(|first| first.path.as_str() == "ts")?;
    Some(match first.direction {
        SortOrder::Ascending => Direction::Forward,
        SortOrder::Descending => Direction::Backward,
    })
}

fn unordered() -> QueryError {
    QueryError::bad_value(
        "local.oplog.rs is read in the order of $natural or ts, as it is now, and forward by a tailable cursor",
    )
}

/// The times that the filter compares `ts` with by one of these operators.
fn bound(query: &Query, operators: &[Op]) -> impl Iterator<Item = Timestamp> {
    let conjuncts = query.filter.conjuncts().into_iter();
    conjuncts.filter_map(|node| match node {
        Node::Compare { path, op, value } if path.as_str() == "ts" && operators.contains(op) => {
            match value.value() {
                Value::Timestamp(at) => Some(Timestamp { time: (at >> 32) as u32, increment: at as u32 }),
                _ => None,
            }
        }
        _ => None,
    })
}

fn position_lost(why: &str) -> QueryError {
    QueryError::new(
        ErrorCode::CappedPositionLost,
        format!(
            "the next entries of local.oplog.rs were {why}: read the collections again, or keep changes for longer"
        ),
    )
}

/// The entry before all changes.
fn beginning(log: &Log) -> RawDocumentBuf {
    let first = log.settings.from.saturating_sub(1);
    let entry = rawdoc! { "op": "n", "ns": "", "o": { "msg": "the change log begins" } };
    with_time(entry, log.settings.since, first)
}

/// Adds the fields that every entry ends with.
fn with_time(mut entry: RawDocumentBuf, time: i64, seq: u64) -> RawDocumentBuf {
    entry.append(cstr!("ts"), cluster_time(time, seq));
    entry.append(cstr!("t"), 1_i64);
    entry.append(cstr!("v"), 2_i64);
    entry.append(cstr!("wall"), bson::DateTime::from_millis(time));
    entry
}

/// The entry of a change. Changes are asked for in their order, from number `first` of the record on.
fn entry(
    reads: &ReadTxn,
    log: &Log,
    collections: &mut CollectionsById<'_>,
    first: u64,
    head: &Head,
    change: &Change<'_>,
) -> Result<RawDocumentBuf> {
    let namespace = match head.collection {
        0 => None,
        id => Some(collections.name(reads, log, id, first)?.clone()),
    };
    let uuid = match head.collection {
        0 => None,
        id => match collections.meta(reads, log, id)? {
            RetainedRows::Available(meta) => Some(meta.uuid),
            RetainedRows::Discarded => None,
        },
    };
    let after = |collections: &mut CollectionsById<'_>| match log.version(
        reads,
        collections,
        head.collection,
        change.row,
        change.seq,
    )? {
        Version::Document(document) => Ok(document),
        Version::Absent => Err(damaged("a change of a missing row")),
        Version::Discarded => {
            Err(position_lost("of a dropped collection, whose documents are no longer kept"))
        }
    };
    let key = |document: &RawDocument| match document.get("_id") {
        Ok(Some(id)) => {
            let mut key = RawDocumentBuf::new();
            key.append(cstr!("_id"), id);
            Ok(key)
        }
        _ => Err(damaged("a document without _id")),
    };
    let database = |name: &Namespace| format!("{}.$cmd", name.database());
    let own = || namespace.clone().ok_or_else(|| damaged("changes of an unknown collection"));
    let (op, ns, o, o2) = match &change.operation {
        Operation::Insert => {
            let new = after(collections)?;
            let id = key(&new)?;
            ("i", own()?.to_string(), new, Some(id))
        }
        Operation::Update(earlier) | Operation::Replace(earlier) => {
            let new = after(collections)?;
            let id = key(&new)?;
            let difference = match change.operation {
                Operation::Update(_) => {
                    let old = earlier.restore(Some(&new))?;
                    document_diff(Doc::from(&old), Doc::from(&new))
                }
                _ => None,
            };
            let o = match difference {
                Some(difference) => rawdoc! { "$v": 2, "diff": difference },
                None => new,
            };
            ("u", own()?.to_string(), o, Some(id))
        }
        Operation::Delete(old) => ("d", own()?.to_string(), key(&document(old)?)?, None),
        Operation::Drop(name) => {
            let name = Namespace::parse(name)?;
            ("c", database(&name), rawdoc! { "drop": name.collection() }, None)
        }
        Operation::DropDatabase(name) => ("c", format!("{name}.$cmd"), rawdoc! { "dropDatabase": 1 }, None),
        Operation::Rename { from, to } => {
            let name = Namespace::parse(from)?;
            collections.renamed(head.collection);
            let mut command = rawdoc! { "renameCollection": *from, "to": *to, "stayTemp": false };
            log.append_drop_target(reads, change.seq, &mut command)?;
            ("c", database(&name), command, None)
        }
        Operation::Defined(defined, description) => {
            let name = own()?;
            match change.operation.search_index() {
                Some(index) => ("n", database(&name), search_index(*defined, &name, index)?, None),
                None => {
                    let command =
                        defined_by(*defined, &name, &Document::try_from(&*document(description)?)?)?;
                    ("c", database(&name), command, None)
                }
            }
        }
    };
    let mut entry = rawdoc! { "op": op, "ns": ns };
    if let Some(uuid) = uuid {
        entry.append(cstr!("ui"), bson::Binary::from(uuid));
    }
    entry.append(cstr!("o"), o);
    if let Some(o2) = o2 {
        entry.append(cstr!("o2"), o2);
    }
    Ok(with_time(entry, head.time, change.seq))
}

/// The command that has created or dropped a search index. MongoDB has none in its oplog, so that the entry is one that other programs pass over.
fn search_index(defined: Defined, name: &Namespace, index: &RawDocument) -> Result<RawDocumentBuf> {
    let own = index.get_str("name").map_err(|_| damaged("the name of a search index"))?;
    Ok(match defined {
        Defined::DropIndexes => rawdoc! { "dropSearchIndex": name.collection(), "name": own },
        _ => {
            let mut indexes = RawArrayBuf::new();
            indexes.push(index.to_owned());
            rawdoc! { "createSearchIndexes": name.collection(), "indexes": indexes }
        }
    })
}

/// The command that has changed a definition.
fn defined_by(defined: Defined, name: &Namespace, description: &Document) -> Result<RawDocumentBuf> {
    let index = || {
        let indexes = description.get_array("indexes").ok();
        indexes.and_then(|all| all.first()).and_then(bson::Bson::as_document).cloned().unwrap_or_default()
    };
    let mut command = Document::new();
    match defined {
        Defined::Create => {
            command.insert("create", name.collection());
            command.extend(description.clone());
        }
        Defined::CreateIndexes => {
            command.insert("createIndexes", name.collection());
            command.extend(index());
        }
        Defined::DropIndexes => {
            command.insert("dropIndexes", name.collection());
            command.insert("index", index().get_str("name").unwrap_or_default());
        }
        // The limits of a capped collection have names of their own in each command.
        Defined::Modify if description.contains_key("capped") => {
            command.insert("convertToCapped", name.collection());
            command.extend(description.clone());
            command.remove("capped");
        }
        Defined::Modify => {
            command.insert("collMod", name.collection());
            command.extend(description.iter().map(|(field, value)| {
                let field = match field.as_str() {
                    "size" => "cappedSize",
                    "max" => "cappedMax",
                    other => other,
                };
                (field.to_owned(), value.clone())
            }));
        }
    }
    Ok(RawDocumentBuf::try_from(&command)?)
}

impl DocumentStream for Oplog {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        Iterator::next(self).transpose()
    }
}

impl Iterator for Oplog {
    type Item = Result<RawDocumentBuf>;

    /// The next entry that there is now.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_timeout(Duration::ZERO).transpose()
    }
}

impl std::fmt::Debug for Oplog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Oplog")
            .field("next", &self.next)
            .field("backward", &self.backward)
            .finish_non_exhaustive()
    }
}
