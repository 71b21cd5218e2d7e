//! Events: changes as the documents that a change stream returns.

use bson::raw::{RawBsonRef, cstr};
use bson::{RawBson, RawDocument, RawDocumentBuf, Timestamp, rawdoc};

use treedb_query::doc::Doc;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_storage::Reads;

use super::dropped_collections::{CollectionsById, RetainedRows};
use super::log::{Log, Version};
use super::record::{Change, Head, Operation, damaged, document};
use super::resume_token::ResumeToken;
use super::update_description::describe;
use super::watch::{FullDocument, FullDocumentBeforeChange};
use crate::catalog::namespace::Namespace;
use crate::catalog::view_def::is_about_a_view;
use crate::database::Database;

/// The cluster time of a change, as MongoDB has it: seconds, and the lower half of the change's sequence number.
pub(super) fn cluster_time(time: i64, seq: u64) -> Timestamp {
    let seconds = u32::try_from(time.max(0) / 1000).unwrap_or(u32::MAX);
    Timestamp { time: seconds, increment: seq as u32 }
}

/// Builds the events of a stream.
pub(super) struct EventBuilder<'a, R> {
    pub(super) db: &'a Database,
    pub(super) reads: &'a R,
    pub(super) log: &'a Log,
    pub(super) full_document: FullDocument,
    pub(super) before: FullDocumentBeforeChange,
    /// Events have what `showExpandedEvents` asks for.
    pub(super) expanded: bool,
}

/// The error of a position from which the log can no longer be read.
pub(super) fn history_lost(why: &str) -> QueryError {
    QueryError::new(
        ErrorCode::ChangeStreamHistoryLost,
        format!(
            "Resume of change stream was not possible, as the resume point may no longer be in the oplog: {why}. \
             Open the stream anew and read the collection again, or keep changes for longer"
        ),
    )
}

impl<R: Reads> EventBuilder<'_, R> {
    /// The event of a change in `namespace`.
    pub(super) fn event(
        &self,
        collections: &mut CollectionsById<'_>,
        namespace: &Namespace,
        head: &Head,
        change: &Change<'_>,
    ) -> Result<RawDocumentBuf> {
        let after = |collections: &mut CollectionsById<'_>| match self.log.version(
            self.reads,
            collections,
            head.collection,
            change.row,
            change.seq,
        )? {
            Version::Document(document) => Ok(document),
            Version::Absent => Err(damaged("a change of a missing row")),
            Version::Discarded => {
                Err(history_lost(&format!("{namespace} was dropped, and its documents are no longer kept")))
            }
        };
        let (kind, old, new, update) = match &change.operation {
            Operation::Insert => ("insert", None, Some(after(collections)?), false),
            Operation::Update(earlier) | Operation::Replace(earlier) => {
                let new = after(collections)?;
                let old = earlier.restore(Some(&new))?;
                let update = matches!(change.operation, Operation::Update(_));
                (if update { "update" } else { "replace" }, Some(old), Some(new), update)
            }
            Operation::Delete(old) => ("delete", Some(document(old)?), None, false),
            Operation::Drop(_) => ("drop", None, None, false),
            Operation::DropDatabase(_) => ("dropDatabase", None, None, false),
            Operation::Rename { .. } => ("rename", None, None, false),
            Operation::Defined(defined, _) => (defined.name(), None, None, false),
        };
        let mut event = self.header(kind, head, change.seq, false);
        if self.expanded
            && let RetainedRows::Available(meta) = self.collection(collections, head.collection)?
        {
            event.append(cstr!("collectionUUID"), bson::Binary::from(meta.uuid));
        }
        if let Some(new) = &new {
            self.append_full_document(collections, &mut event, namespace, head, change.seq, new, update)?;
        }
        match &change.operation {
            Operation::DropDatabase(name) => event.append(cstr!("ns"), rawdoc! { "db": *name }),
            Operation::Rename { from, to } => {
                event.append(cstr!("ns"), parts(&Namespace::parse(from)?));
                event.append(cstr!("to"), parts(&Namespace::parse(to)?));
                if self.expanded {
                    let mut description = rawdoc! { "to": parts(&Namespace::parse(to)?) };
                    self.log.append_drop_target(self.reads, change.seq, &mut description)?;
                    event.append(cstr!("operationDescription"), description);
                }
            }
            Operation::Defined(_, description) => {
                event.append(cstr!("ns"), parts(namespace));
                event.append(cstr!("operationDescription"), document(description)?);
            }
            _ => event.append(cstr!("ns"), parts(namespace)),
        }
        if let Some(document) = new.as_ref().or(old.as_ref()) {
            event.append(cstr!("documentKey"), document_key(document)?);
        }
        if let (true, Some(old), Some(new)) = (update, &old, &new) {
            let description = describe(Doc::from(old), Doc::from(new), self.expanded)?;
            event.append(cstr!("updateDescription"), description);
        }
        if let Some(old) = old
            && self.before != FullDocumentBeforeChange::Off
        {
            let there = self.has_images(collections, head.collection)?;
            if !there && self.before == FullDocumentBeforeChange::Required {
                return Err(image_missing("pre-image", &event));
            }
            event.append(cstr!("fullDocumentBeforeChange"), or_null(there.then_some(old)));
        }
        Ok(event)
    }

    /// The event that ends a stream because of a change.
    pub(super) fn invalidate(&self, head: &Head, seq: u64) -> RawDocumentBuf {
        self.header("invalidate", head, seq, true)
    }

    fn header(&self, kind: &str, head: &Head, seq: u64, invalidated: bool) -> RawDocumentBuf {
        rawdoc! {
            "_id": ResumeToken { seq, time: head.time, invalidated, fragment: None }.encode(),
            "operationType": kind,
            "clusterTime": cluster_time(head.time, seq),
            "wallTime": bson::DateTime::from_millis(head.time),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one event")]
    fn append_full_document(
        &self,
        collections: &mut CollectionsById<'_>,
        event: &mut RawDocumentBuf,
        namespace: &Namespace,
        head: &Head,
        seq: u64,
        new: &RawDocument,
        update: bool,
    ) -> Result<()> {
        let append_full_document = match self.full_document {
            _ if !update => RawBson::Document(new.to_owned()),
            FullDocument::Default => return Ok(()),
            FullDocument::UpdateLookup => {
                let key = document_key(new)?;
                let same = match key.get("_id")? {
                    Some(id) => rawdoc! { "_id": rawdoc! { "$eq": RawBson::from(id) } },
                    None => key,
                };
                // By its name another collection may be meant by now, or a view.
                let live = match self.db.inner.catalog.find(&self.db.inner.store.snapshot()?, namespace) {
                    Err(error) if is_about_a_view(&error) => None,
                    found => found?.filter(|meta| meta.id == head.collection),
                };
                let found = match live {
                    Some(_) => self.db.collection(namespace.as_str())?.find_one(same)?,
                    None => None,
                };
                or_null(found)
            }
            FullDocument::WhenAvailable | FullDocument::Required => {
                let there = self.has_images(collections, head.collection)?;
                if !there && self.full_document == FullDocument::Required {
                    return Err(image_missing("post-image", &self.header("update", head, seq, false)));
                }
                or_null(there.then(|| new.to_owned()))
            }
        };
        event.append(cstr!("fullDocument"), append_full_document);
        Ok(())
    }

    /// The entry of a collection; that of a database has none.
    fn collection(&self, collections: &mut CollectionsById<'_>, id: i64) -> Result<RetainedRows> {
        match id {
            0 => Ok(RetainedRows::Discarded),
            id => collections.meta(self.reads, self.log, id),
        }
    }

    /// Whether the collection provides documents as they were before and after a change.
    fn has_images(&self, collections: &mut CollectionsById<'_>, id: i64) -> Result<bool> {
        Ok(match collections.meta(self.reads, self.log, id)? {
            RetainedRows::Available(meta) => meta
                .options
                .get_document("changeStreamPreAndPostImages")
                .is_ok_and(|images| images.get_bool("enabled").unwrap_or(false)),
            RetainedRows::Discarded => false,
        })
    }
}

/// A name as events have it.
fn parts(namespace: &Namespace) -> RawDocumentBuf {
    rawdoc! { "db": namespace.database(), "coll": namespace.collection() }
}

fn or_null(document: Option<RawDocumentBuf>) -> RawBson {
    document.map_or(RawBson::Null, RawBson::Document)
}

fn image_missing(what: &str, event: &RawDocument) -> QueryError {
    QueryError::new(
        ErrorCode::NoMatchingDocument,
        format!(
            "Change stream was configured to require a {what} for all update, delete and replace events, but the {what} \
             was not found for event: {event:?}: enable changeStreamPreAndPostImages of the collection"
        ),
    )
}

fn document_key(document: &RawDocument) -> Result<RawDocumentBuf> {
    let id: RawBsonRef<'_> = document.get("_id")?.ok_or_else(|| damaged("a document without _id"))?;
    Ok(rawdoc! { "_id": RawBson::from(id) })
}
