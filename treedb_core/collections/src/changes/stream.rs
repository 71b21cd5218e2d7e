//! Change streams: reading the log as it grows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bson::{RawArray, RawDocument, RawDocumentBuf, Timestamp};

use treedb_query::aggregate::{
    BoxedStream, Context, DEFAULT_MEMORY_LIMIT, Pipeline, Target, VecStream, WriteBody,
};
use treedb_query::doc::{Doc, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::expr::{Globals, Names};
use treedb_storage::ReadTxn;

use super::dropped_collections::CollectionsById;
use super::event::{EventBuilder, cluster_time, history_lost};
use super::log::Log;
use super::record::{Operation, Record};
use super::resume_token::ResumeToken;
use super::split::split_large;
use super::watch::{WatchFrom, WatchRequest, Watched};
use crate::Collection;
use crate::catalog::namespace::{Namespace, check_database};
use crate::catalog::view_def::not_a_collection;
use crate::database::Database;

/// The most events in a batch.
const MAX_EVENTS: usize = 256;
/// Bytes of events after which a batch is full.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// The most records read in one snapshot.
const MAX_RECORDS: usize = 4096;

/// The changes of a collection, a database or all databases, as they are committed: events as in MongoDB's change streams
/// (`_id`, `operationType`, `fullDocument`, ...).
///
/// An idle stream holds only its position and no snapshot. Another stream can be opened at that position
/// ([`Self::resume_token`]) for as long as changes are kept. An event is available as soon as a reader of the collection
/// would see its change.
pub struct ChangeStream {
    db: Database,
    watched: Watched,
    request: WatchRequest,
    pipeline: Option<(Pipeline, Context)>,
    names: HashMap<i64, Namespace>,
    /// The next change to read.
    next: u64,
    /// When the change before it was committed.
    time: i64,
    ready: VecDeque<RawDocumentBuf>,
    /// The position before the events in `ready`.
    before: ResumeToken,
    /// The `_id` of the event returned last.
    last: Option<RawDocumentBuf>,
    /// Of which change the client has seen fragments of the event, and how many.
    seen_fragments: (u64, usize),
    /// The resume token of the stream's end, once it is reached: there are no events after those in `ready`.
    ended: Option<RawDocumentBuf>,
}

/// The events of some records, and the position after them.
struct Batch {
    events: Vec<RawDocumentBuf>,
    next: u64,
    time: i64,
    ended: Option<RawDocumentBuf>,
    /// The log's end was reached.
    all: bool,
}

impl Database {
    /// Opens a change stream.
    ///
    /// # Errors
    /// `Location40573` if changes are not recorded ([`Database::record_changes`]), `ChangeStreamHistoryLost` if changes after the
    /// starting position are no longer kept, `InvalidResumeToken` and others for an invalid request.
    pub fn watch(&self, watched: Watched, request: WatchRequest) -> Result<ChangeStream> {
        if let Watched::Database(name) = &watched {
            check_database(name)?;
        }
        request.check_stages()?;
        let reads = self.inner.store.begin_read()?;
        if let Watched::Collection(name) = &watched
            && self.inner.catalog.view(&reads, name)?.is_some()
        {
            return Err(not_a_collection(name));
        }
        let Some(log) = Log::find(&reads)? else {
            return Err(QueryError::new(
                ErrorCode::Location40573,
                "The $changeStream stage is only supported where changes are recorded, and they are not: switch the change \
                 log on (record_changes; the server's --change-log)",
            ));
        };
        let (next, time, seen_fragments) = start_position(&reads, &log, &request.from)?;
        if seen_fragments > 0 && !request.split_large_events {
            return Err(QueryError::new(
                ErrorCode::InvalidResumeToken,
                "the resume token is of a fragment: the stream needs the stage $changeStreamSplitLargeEvent",
            ));
        }
        let pipeline = match request.pipeline.as_bytes().len() {
            0..=5 => None,
            _ => Some((pipeline(&request.pipeline)?, self.context(&watched))),
        };
        Ok(ChangeStream {
            db: self.clone(),
            watched,
            request,
            pipeline,
            names: HashMap::new(),
            next,
            time,
            ready: VecDeque::new(),
            before: ResumeToken { seq: next.saturating_sub(1), time, invalidated: false, fragment: None },
            last: None,
            seen_fragments: (next, seen_fragments),
            ended: None,
        })
    }

    fn context(&self, watched: &Watched) -> Context {
        let database = match watched {
            Watched::Collection(namespace) => namespace.database(),
            Watched::Database(name) => name,
            Watched::Everything => "admin",
        };
        Context {
            collections: Arc::new(NoCollections),
            database: database.to_owned(),
            globals: Arc::new(Globals::now()),
            memory_limit: DEFAULT_MEMORY_LIMIT,
            allow_disk_use: false,
            deadline: None,
            threads: Some(1),
        }
    }
}

impl Collection {
    /// Opens a change stream of the collection: see [`Database::watch`].
    ///
    /// # Errors
    /// As there.
    pub fn watch(&self, request: WatchRequest) -> Result<ChangeStream> {
        self.database().watch(Watched::Collection(self.namespace().clone()), request)
    }
}

/// Parses the stages after `$changeStream`.
fn pipeline(stages: &RawArray) -> Result<Pipeline> {
    let stages = RawDocument::from_bytes(stages.as_bytes())?;
    treedb_query::doc::validate_with(stages.as_bytes(), treedb_query::doc::MESSAGE)?;
    Pipeline::parse(Value::Array(Doc::from(stages)), &Names::default())
}

/// The next change of a stream that starts at `from`, when the change before it was committed, and how many fragments of its event the
/// client has seen.
fn start_position(reads: &ReadTxn, log: &Log, from: &WatchFrom) -> Result<(u64, i64, usize)> {
    let end = log.end(reads)?;
    let (token, resumed) = match from {
        WatchFrom::Now => return Ok((end.next, end.time, 0)),
        WatchFrom::OperationTime(at) => {
            let (next, time) = at_operation_time(reads, log, *at)?;
            return Ok((next, time, 0));
        }
        WatchFrom::ResumeAfter(token) => (ResumeToken::decode(token)?, true),
        WatchFrom::StartAfter(token) => (ResumeToken::decode(token)?, false),
    };
    if resumed && token.invalidated {
        return Err(QueryError::new(
            ErrorCode::InvalidResumeToken,
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification: use \
             'startAfter'",
        ));
    }
    if token.seq >= end.next {
        return Err(history_lost("its change was lost in a power loss"));
    }
    let min_seq = log.min_seq(reads)?;
    if token.seq + 1 < min_seq {
        return Err(history_lost("the changes after it are no longer kept"));
    }
    if token.seq >= min_seq {
        let mut same = false;
        log.walk(reads, token.seq, &mut |record| {
            same = record.head.first <= token.seq && record.head.time == token.time;
            Ok(false)
        })?;
        if !same {
            return Err(history_lost("its change was lost in a power loss"));
        }
    }
    match token.fragment {
        None => Ok((token.seq + 1, token.time, 0)),
        Some(_) if token.seq < min_seq => Err(history_lost("its change is no longer kept")),
        Some(seen) => Ok((token.seq, time_before(reads, log, token.seq)?, usize::from(seen))),
    }
}

pub(super) fn at_operation_time(reads: &ReadTxn, log: &Log, at: Timestamp) -> Result<(u64, i64)> {
    let before = i64::from(at.time).saturating_mul(1000).saturating_sub(1);
    let seq = log.at_time(reads, before)?;
    let min_seq = log.min_seq(reads)?;
    // No older change is kept: a change that is not kept may be later than the time given.
    let cut = min_seq > log.settings.from;
    if seq < min_seq && (cut || before.saturating_add(1000) < log.settings.since) {
        return Err(history_lost("changes of that time are not kept"));
    }
    let mut next = seq + 1;
    log.walk(reads, next, &mut |record| {
        for change in record.changes_from(next) {
            if cluster_time(record.head.time, change?.seq) >= at {
                return Ok(false);
            }
            next += 1;
        }
        Ok(true)
    })?;
    Ok((next, time_before(reads, log, next)?))
}

/// When the change before `next` was committed.
fn time_before(reads: &ReadTxn, log: &Log, next: u64) -> Result<i64> {
    let mut time = log.settings.since;
    log.walk(reads, next.saturating_sub(1), &mut |record| {
        if record.head.first < next {
            time = record.head.time;
        }
        Ok(false)
    })?;
    Ok(time)
}

impl ChangeStream {
    /// The next event, waiting for it until `timeout`. `None` if there was none; [`Self::is_closed`] tells whether there can be
    /// one later.
    ///
    /// # Errors
    /// `ChangeStreamHistoryLost` if the stream was so slow that its next changes are no longer kept; `NoMatchingDocument` if a
    /// required document is missing; those of the pipeline.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<RawDocumentBuf>> {
        self.wait(timeout)?;
        let Some(event) = self.ready.pop_front() else { return Ok(None) };
        self.last = event.get_document("_id").ok().map(ToOwned::to_owned);
        Ok(Some(event))
    }

    /// The event that [`Self::next_timeout`] would return, without taking it.
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<&RawDocument>> {
        if self.ready.is_empty() && self.ended.is_none() {
            let db = self.db.clone();
            db.inner.changes.wait(timeout, || {
                self.fill()?;
                Ok((!self.ready.is_empty() || self.ended.is_some()).then_some(()))
            })?;
        }
        Ok(self.ready.front().map(|event| &**event))
    }

    /// The next event, if there is one already.
    ///
    /// # Errors
    /// As [`Self::next_timeout`].
    pub fn try_next(&mut self) -> Result<Option<RawDocumentBuf>> {
        self.next_timeout(Duration::ZERO)
    }

    /// True if the watched collection or database was dropped, and all events were returned.
    pub fn is_closed(&self) -> bool {
        self.ready.is_empty() && self.ended.is_some()
    }

    /// The position from which another stream can continue: after the event returned last or, if there are no more events yet,
    /// after all changes that were read.
    pub fn resume_token(&self) -> RawDocumentBuf {
        match (self.ready.is_empty(), &self.ended, &self.last) {
            (true, Some(end), _) => end.clone(),
            (true, None, _) => self.resume_position().encode(),
            (false, _, Some(last)) => last.clone(),
            (false, _, None) => self.before.encode(),
        }
    }

    /// The position after all changes that were read.
    fn resume_position(&self) -> ResumeToken {
        ResumeToken { seq: self.next.saturating_sub(1), time: self.time, invalidated: false, fragment: None }
    }

    /// Reads until some events are ready or the end of the log is reached.
    fn fill(&mut self) -> Result<()> {
        while self.ready.is_empty() && self.ended.is_none() {
            (self.before, self.last) = (self.resume_position(), None);
            let batch = self.read()?;
            let events = match &self.pipeline {
                Some((pipeline, context)) if !batch.events.is_empty() => {
                    apply_pipeline(pipeline, context, batch.events)?
                }
                _ => batch.events,
            };
            (self.next, self.time, self.ended) = (batch.next, batch.time, batch.ended);
            match self.request.split_large_events {
                false => self.ready.extend(events),
                true => {
                    for event in events {
                        // The pipeline may have dropped the event whose fragments were seen.
                        let seen = match std::mem::take(&mut self.seen_fragments) {
                            (seq, seen) if seen > 0 => {
                                let token = ResumeToken::decode(event.get_document("_id")?)?;
                                if token.seq == seq { seen } else { 0 }
                            }
                            _ => 0,
                        };
                        self.ready.extend(split_large(event)?.into_iter().skip(seen));
                    }
                }
            }
            if batch.all {
                break;
            }
        }
        Ok(())
    }

    /// The events of the next records.
    fn read(&mut self) -> Result<Batch> {
        let reads = self.db.inner.store.begin_read()?;
        let Some(log) = Log::find(&reads)? else {
            return Err(history_lost("changes are no longer recorded"));
        };
        if self.next < log.min_seq(&reads)? {
            return Err(history_lost("the stream was too slow, and its next changes are no longer kept"));
        }
        let mut batch =
            Batch { events: Vec::new(), next: self.next, time: self.time, ended: None, all: true };
        let mut collections = CollectionsById::new(&self.db.inner.catalog, &mut self.names);
        let builder = EventBuilder {
            db: &self.db,
            reads: &reads,
            log: &log,
            full_document: self.request.full_document,
            before: self.request.before,
            expanded: self.request.show_expanded_events,
        };
        let (mut records, mut bytes) = (0, 0);
        log.walk(&reads, self.next, &mut |record: Record<'_>| {
            let head = record.head;
            if records >= MAX_RECORDS {
                batch.all = false;
                return Ok(false);
            }
            records += 1;
            let namespace = match head.collection {
                0 => None,
                id => Some(collections.name(&reads, &log, id, head.first.max(batch.next))?.clone()),
            };
            // A rename is a record of its own, which concerns both names.
            let renamed_to = match record.changes().next().transpose()?.map(|change| change.operation) {
                Some(Operation::Rename { to, .. }) => {
                    collections.renamed(head.collection);
                    Some(Namespace::parse(to)?)
                }
                _ => None,
            };
            let concerns = |name: &Namespace| match &self.watched {
                Watched::Everything => true,
                Watched::Database(watched) => name.database() == watched,
                Watched::Collection(watched) => watched == name,
            };
            let is_watched = match &namespace {
                Some(namespace) => concerns(namespace) || renamed_to.as_ref().is_some_and(concerns),
                None => !matches!(self.watched, Watched::Collection(_)),
            };
            if is_watched {
                for change in record.changes_from(batch.next) {
                    let change = change?;
                    let seq = change.seq;
                    if batch.events.len() >= MAX_EVENTS || bytes >= MAX_BATCH_BYTES {
                        batch.all = false;
                        return Ok(false);
                    }
                    let namespace_of_event = match (&change.operation, &namespace, &self.watched) {
                        (Operation::DropDatabase(dropped), _, Watched::Database(name)) if dropped != name => {
                            None
                        }
                        (Operation::DropDatabase(dropped), ..) => Some(Namespace::new(dropped, "all")?),
                        (Operation::Defined(..), ..) if !builder.expanded => None,
                        // They are no events in MongoDB.
                        (operation, ..) if operation.search_index().is_some() => None,
                        (_, namespace, _) => namespace.clone(),
                    };
                    if let Some(namespace) = namespace_of_event {
                        let event = builder.event(&mut collections, &namespace, &head, &change)?;
                        bytes += event.as_bytes().len();
                        batch.events.push(event);
                        let ends = matches!(
                            (&change.operation, &self.watched),
                            (Operation::Drop(_) | Operation::Rename { .. }, Watched::Collection(_))
                                | (Operation::DropDatabase(_), Watched::Database(_))
                        );
                        if ends {
                            batch.events.push(builder.invalidate(&head, seq));
                            batch.ended = Some(
                                ResumeToken { seq, time: head.time, invalidated: true, fragment: None }
                                    .encode(),
                            );
                        }
                    }
                    (batch.next, batch.time) = (seq + 1, head.time);
                    if batch.ended.is_some() {
                        return Ok(false);
                    }
                }
            }
            (batch.next, batch.time) = (head.first + head.count, head.time);
            Ok(true)
        })?;
        Ok(batch)
    }
}

/// Applies a pipeline to events. It must not change their `_id`s.
fn apply_pipeline(
    pipeline: &Pipeline,
    context: &Context,
    events: Vec<RawDocumentBuf>,
) -> Result<Vec<RawDocumentBuf>> {
    let ids: Vec<RawDocumentBuf> =
        events.iter().filter_map(|event| event.get_document("_id").ok().map(ToOwned::to_owned)).collect();
    let mut left = ids.iter();
    let mut docs = pipeline.open_over(Box::new(VecStream::new(events)), context)?;
    let mut passed = Vec::new();
    while let Some(event) = docs.next()? {
        // They are in order, possibly with some missing.
        if !event.get_document("_id").is_ok_and(|id| left.any(|known| **known == *id)) {
            return Err(QueryError::new(
                ErrorCode::ChangeStreamFatalError,
                "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. \
                 Modifying the _id field of an event makes it impossible to resume the stream from that point. Only \
                 transformations that retain the unmodified _id field are allowed.",
            ));
        }
        passed.push(event);
    }
    Ok(passed)
}

impl Iterator for ChangeStream {
    type Item = Result<RawDocumentBuf>;

    /// The next event, however long it takes; `None` when the stream is over.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_timeout(Duration::from_secs(3600)) {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) if self.is_closed() => return None,
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl std::fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeStream")
            .field("watched", &self.watched)
            .field("next", &self.next)
            .field("over", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// The stages of a change stream cannot read collections.
struct NoCollections;

impl treedb_query::aggregate::Collections for NoCollections {
    fn find(&self, _: &str, _: treedb_query::query::Query) -> Result<BoxedStream> {
        Ok(Box::new(VecStream::new(Vec::new())))
    }

    fn provides_order(&self, _: &str, _: &treedb_query::query::Query) -> Result<bool> {
        Ok(true)
    }

    fn write(&self, namespace: &str, _: Target<'_>, _: &mut WriteBody<'_>) -> Result<()> {
        Err(QueryError::new(
            ErrorCode::IllegalOperation,
            format!("a change stream cannot write to {namespace}"),
        ))
    }

    fn document_count(&self, _: &str) -> Result<u64> {
        Ok(0)
    }

    fn storage_stats(&self, _: &str, _: f64) -> Result<RawDocumentBuf> {
        Ok(RawDocumentBuf::new())
    }

    fn index_stats(&self, _: &str) -> Result<Vec<RawDocumentBuf>> {
        Ok(Vec::new())
    }

    fn temp_file(&self) -> Result<Option<Box<dyn treedb_query::aggregate::TempFile>>> {
        Ok(None)
    }
}
