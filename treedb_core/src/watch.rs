//! Change streams.

use std::marker::PhantomData;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, Timestamp};
use serde::de::DeserializeOwned;
use treedb_collections as engine;

use crate::convert::{Deferred, IntoDocument, IntoPipeline};
use crate::cursor::decode;
use crate::error::Result;
use crate::target::Target;

pub use treedb_collections::{FullDocument, FullDocumentBeforeChange};

/// The action of [`Collection::watch`](crate::Collection::watch).
#[must_use = "an action does nothing until it is run"]
pub struct Watch<'c, T> {
    target: &'c Target,
    request: engine::WatchRequest,
    stages: Result<Vec<RawDocumentBuf>>,
    deferred: Deferred,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> Watch<'c, T> {
    pub(crate) fn new(target: &'c Target) -> Self {
        let (request, stages) = (engine::WatchRequest::default(), Ok(Vec::new()));
        Watch { target, request, stages, deferred: Deferred::default(), kind: PhantomData }
    }

    /// Stages that the events go through, such as `$match`.
    pub fn pipeline(mut self, stages: impl IntoPipeline) -> Self {
        self.stages = stages.into_pipeline();
        self
    }

    /// Whether an update's event has the whole document.
    pub fn full_document(mut self, which: FullDocument) -> Self {
        self.request.full_document = which;
        self
    }

    /// Whether events have the document as it was before the change.
    pub fn full_document_before_change(mut self, which: FullDocumentBeforeChange) -> Self {
        self.request.before = which;
        self
    }

    /// Begins after the event with this token, also one of an earlier run of the program.
    pub fn resume_after(mut self, token: impl IntoDocument) -> Self {
        if let Some(token) = self.deferred.take(token) {
            self.request.from = engine::WatchFrom::ResumeAfter(token);
        }
        self
    }

    /// Begins with the first change at or after this time.
    pub fn start_at_operation_time(mut self, time: Timestamp) -> Self {
        self.request.from = engine::WatchFrom::OperationTime(time);
        self
    }

    /// Whether there are events of collections and indexes that were created, changed or dropped too.
    pub fn show_expanded_events(mut self, shown: bool) -> Self {
        self.request.show_expanded_events = shown;
        self
    }

    /// Whether events of more than 16 MiB are split into several, with `splitEvent`.
    pub fn split_large_events(mut self, split: bool) -> Self {
        self.request.split_large_events = split;
        self
    }

    /// Opens the stream.
    ///
    /// # Errors
    /// `Location40573` if the database does not record changes; `ChangeStreamHistoryLost` if it no longer has those
    /// to resume with.
    pub fn run(mut self) -> Result<ChangeStream<T>> {
        self.deferred.check()?;
        for stage in self.stages? {
            self.request.pipeline.push(stage);
        }
        let stream = self.target.outside("watch")?.watch(self.request)?;
        Ok(ChangeStream { stream, kind: PhantomData })
    }
}

/// The changes of a collection, one after another. As an iterator it waits for the next one.
pub struct ChangeStream<T> {
    stream: engine::ChangeStream,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ChangeStream<T> {
    /// The next event, waiting for it no longer than `timeout`.
    ///
    /// # Errors
    /// `ChangeStreamHistoryLost` if the change log no longer has what comes next.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<ChangeStreamEvent<T>>> {
        self.stream.next_timeout(timeout)?.map(ChangeStreamEvent::read).transpose()
    }

    /// The token to resume with after the last event returned.
    pub fn resume_token(&self) -> RawDocumentBuf {
        self.stream.resume_token()
    }
}

impl<T: DeserializeOwned> Iterator for ChangeStream<T> {
    type Item = Result<ChangeStreamEvent<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.stream.next()?;
        Some(event.map_err(Into::into).and_then(ChangeStreamEvent::read))
    }
}

/// A change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChangeStreamEvent<T> {
    /// `insert`, `update`, `replace`, `delete`, `drop`, `invalidate` ..
    pub operation_type: String,
    /// The `_id` of the document.
    pub document_key: Option<Document>,
    /// The document after the change: of inserts and replacements always, of updates as [`Watch::full_document`] says.
    pub full_document: Option<T>,
    /// The document before the change, as [`Watch::full_document_before_change`] says.
    pub full_document_before_change: Option<T>,
    /// The whole event, in MongoDB's form: `updateDescription`, `clusterTime` and so on.
    pub raw: RawDocumentBuf,
}

impl<T: DeserializeOwned> ChangeStreamEvent<T> {
    fn read(raw: RawDocumentBuf) -> Result<Self> {
        let document = |name: &str| raw.get(name).map(|value| value.and_then(|value| value.as_document()));
        Ok(ChangeStreamEvent {
            operation_type: raw.get_str("operationType").unwrap_or_default().to_owned(),
            document_key: document("documentKey")?.map(decode).transpose()?,
            full_document: document("fullDocument")?.map(decode).transpose()?,
            full_document_before_change: document("fullDocumentBeforeChange")?.map(decode).transpose()?,
            raw,
        })
    }
}
