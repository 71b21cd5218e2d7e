//! Cursors: results of more than one message.
//!
//! A cursor owns its snapshot, so that later changes of the collection do not affect it, and any connection can request
//! the next batch (drivers use any connection of their pool). It is taken out of the registry while a batch is read;
//! killing it then takes effect when it is put back. Idle cursors are closed, because a snapshot keeps pages from being
//! reused.
//!
//! A cursor keeps which actions the command that opened it was permitted, and every `getMore` needs them again: of all that a pipeline reads, not only
//! of the collection in its name.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf};
use prometheus_client::metrics::gauge::Gauge;
use treedb_collections::{ChangeStream, Oplog, QueryError, Tail, TransactionCursor};
use treedb_query::access::Flow;
use treedb_query::query::{self, ErrorCode, PlanSummary, interrupt};

use super::error::CommandError;
use super::protocol_code::ProtocolCode;
use super::reply::BatchReply;
use super::sessions::{ClientSession, OpenTransaction, SessionId, Which};
use crate::access::action::Action;
use crate::access::identity::{Identity, UserId};
use crate::access::resource::OwnedTarget;

type Result<T> = std::result::Result<T, CommandError>;

/// The documents of a result, one after the other.
pub(crate) type Documents = Box<dyn Iterator<Item = Result<RawDocumentBuf>> + Send>;

/// Default number of documents in a first batch.
pub(crate) const FIRST_BATCH: usize = 101;

/// How long a change stream waits for an event when many others wait too.
const CROWDED: Duration = Duration::from_millis(20);

/// The time limit of a command: MongoDB's `maxTimeMS`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// No limit.
    pub(crate) const NEVER: Deadline = Deadline(None);

    /// `millis` from now; 0 is no limit.
    pub(crate) fn after(millis: u64) -> Self {
        Deadline(Instant::now().checked_add(Duration::from_millis(millis)).filter(|_| millis > 0))
    }

    /// The time, if there is a limit.
    pub(crate) fn instant(self) -> Option<Instant> {
        self.0
    }

    /// `MaxTimeMSExpired` when the time is up.
    pub(crate) fn check(self) -> Result<()> {
        match self.0 {
            Some(at) if Instant::now() >= at => {
                Err(CommandError::new(ErrorCode::MaxTimeMSExpired, "operation exceeded time limit"))
            }
            _ => Ok(()),
        }
    }
}

/// An action that a command needs, and on what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Permission {
    pub(crate) action: Action,
    pub(crate) target: OwnedTarget,
}

/// Who opens a cursor: a command.
pub(crate) trait Opener {
    /// Who the cursor belongs to; nobody, if clients do not authenticate.
    fn user(&self) -> Option<UserId>;

    /// The session of the command, if it has one.
    fn session(&self) -> Option<ClientSession>;

    /// What the command needed, and so the next batches do.
    ///
    /// # Errors
    /// The user may do that no longer.
    fn permissions(&self) -> Result<Vec<Permission>>;
}

/// A result and the position in it.
pub(crate) struct Cursor {
    namespace: String,
    content: Content,
    /// Not closed when idle, at the client's request.
    keep: bool,
    /// That of the command that opened it.
    plan: Option<PlanSummary>,
}

/// What a tailable cursor reads.
pub(crate) trait Tailed {
    /// The next document, waited for; without taking it.
    fn wait(&mut self, timeout: Duration) -> std::result::Result<Option<&RawDocument>, QueryError>;

    /// Takes it.
    fn take(&mut self) -> std::result::Result<Option<RawDocumentBuf>, QueryError>;

    /// True if there will be no others.
    fn is_closed(&self) -> bool;
}

/// A type with these methods.
macro_rules! tailed {
    ($($tailed:ty),*) => {
        $(impl Tailed for $tailed {
            fn wait(&mut self, timeout: Duration) -> std::result::Result<Option<&RawDocument>, QueryError> {
                <$tailed>::wait(self, timeout)
            }

            fn take(&mut self) -> std::result::Result<Option<RawDocumentBuf>, QueryError> {
                self.next_timeout(Duration::ZERO)
            }

            fn is_closed(&self) -> bool {
                <$tailed>::is_closed(self)
            }
        })*
    };
}
tailed!(Tail, Oplog);

enum Content {
    Documents {
        documents: Documents,
        /// Read already, for the next batch.
        ahead: Option<RawDocumentBuf>,
        /// Session and number of the transaction that opened it.
        key: Option<(SessionId, i64)>,
    },
    /// Of a transaction, in which it is read on.
    Transaction {
        documents: Box<TransactionCursor>,
        ahead: Option<RawDocumentBuf>,
        /// Which session's, and its number.
        key: (SessionId, i64),
    },
    /// Has no end, but for what it watches being dropped.
    Changes(Box<ChangeStream>),
    /// Of a capped collection or the oplog; and whether it waits for documents.
    Tail(Box<dyn Tailed + Send>, bool),
}

impl Cursor {
    /// A cursor over the events of a change stream.
    pub(crate) fn changes(namespace: impl Into<String>, stream: ChangeStream) -> Self {
        Cursor {
            namespace: namespace.into(),
            content: Content::Changes(Box::new(stream)),
            keep: false,
            plan: None,
        }
    }

    /// A tailable cursor, which waits for documents if `awaits`.
    pub(crate) fn tail(
        namespace: impl Into<String>,
        tail: impl Tailed + Send + 'static,
        awaits: bool,
    ) -> Self {
        Cursor {
            namespace: namespace.into(),
            content: Content::Tail(Box::new(tail), awaits),
            keep: false,
            plan: None,
        }
    }

    /// A cursor over what a find in the transaction `open` finds.
    pub(crate) fn of_transaction(
        namespace: impl Into<String>,
        documents: TransactionCursor,
        open: &OpenTransaction,
    ) -> Self {
        let documents = Box::new(documents);
        let content = Content::Transaction { documents, ahead: None, key: open.key };
        Cursor { namespace: namespace.into(), content, keep: true, plan: None }
    }

    /// A cursor over `documents`, called `namespace` in its replies.
    pub(crate) fn new(namespace: impl Into<String>, documents: Documents) -> Self {
        let content = Content::Documents { documents, ahead: None, key: None };
        Cursor { namespace: namespace.into(), content, keep: false, plan: None }
    }

    /// The same, to be read on in the transaction `open` alone, as long as that is.
    pub(crate) fn in_transaction(mut self, open: &OpenTransaction) -> Self {
        if let Content::Documents { key, .. } = &mut self.content {
            *key = Some(open.key);
        }
        self.kept(true)
    }

    /// The same, not closed when idle.
    pub(crate) fn kept(self, keep: bool) -> Self {
        Cursor { keep, ..self }
    }

    /// Refuses to continue outside of the transaction that opened it.
    fn belongs_to(&self, id: i64, open: Option<&OpenTransaction>) -> Result<()> {
        let own = match &self.content {
            Content::Transaction { key, .. } => Some(*key),
            Content::Documents { key, .. } => *key,
            Content::Changes(_) | Content::Tail(..) => None,
        };
        let refuse = |code: ProtocolCode, what: String| {
            Err(CommandError::new(code, format!("Cannot run getMore on cursor {id}, which was {what}")))
        };
        match (own, open.map(|open| open.key)) {
            (Some(own), Some(here)) if own == here => Ok(()),
            (None, None) => Ok(()),
            (None, Some((_, number))) => refuse(
                ProtocolCode::Location50739,
                format!("not created in a transaction, in transaction {number}"),
            ),
            (Some((_, own)), None) => refuse(
                ProtocolCode::Location50740,
                format!("created in transaction {own}, without a txnNumber"),
            ),
            (Some((own, _)), Some((here, _))) if own != here => {
                refuse(ProtocolCode::Location50738, format!("created in session {own}, in session {here}"))
            }
            (Some((_, own)), Some((_, here))) => refuse(
                ProtocolCode::Location50741,
                format!("created in transaction {own}, in transaction {here}"),
            ),
        }
    }

    /// Fills `reply` with up to `limit` documents (`None`: as many as fit). True if there are more. A change stream
    /// and a tailable cursor wait for their first document as long as `wait`; a cursor of a transaction needs that.
    fn fill(
        &mut self,
        reply: &mut BatchReply,
        limit: Option<usize>,
        until: Deadline,
        mut wait: Duration,
        open: Option<&OpenTransaction>,
    ) -> Result<bool> {
        type Next<'n> = Box<dyn FnMut() -> Result<Option<RawDocumentBuf>> + 'n>;
        let (mut next, ahead): (Next<'_>, _) = match &mut self.content {
            Content::Documents { documents, ahead, .. } => (Box::new(|| documents.next().transpose()), ahead),
            Content::Transaction { documents, ahead, .. } => match open {
                Some(open) => (Box::new(|| Ok(documents.next(&open.txn)?)), ahead),
                None => return Ok(false),
            },
            Content::Tail(tail, awaits) => {
                if !*awaits {
                    wait = Duration::ZERO;
                }
                while limit.is_none_or(|limit| reply.len() < limit)
                    && let Some(document) = tail.wait(wait)?
                    && reply.has_room_for(document)
                {
                    reply.push(document);
                    tail.take()?;
                    wait = Duration::ZERO;
                }
                return Ok(!tail.is_closed());
            }
            Content::Changes(stream) => {
                while limit.is_none_or(|limit| reply.len() < limit)
                    && let Some(event) = stream.wait(wait)?
                    && reply.has_room_for(event)
                {
                    reply.push(event);
                    stream.try_next()?;
                    wait = Duration::ZERO;
                }
                reply.resume_with(stream.resume_token());
                return Ok(!stream.is_closed());
            }
        };
        loop {
            until.check()?;
            // Reading one document ahead tells the client immediately that there are no more.
            let document = match ahead.take() {
                Some(document) => Some(document),
                None if limit == Some(0) => return Ok(true),
                None => next()?,
            };
            let Some(document) = document else { return Ok(false) };
            if limit.is_some_and(|limit| reply.len() >= limit) || !reply.has_room_for(&document) {
                *ahead = Some(document);
                return Ok(true);
            }
            reply.push(&document);
        }
    }
}

/// The open cursors of a server.
pub(crate) struct Cursors {
    slots: Mutex<HashMap<i64, Slot>>,
    ids: RandomState,
    limit: usize,
    gauge: Gauge,
    /// Batches being made, and how many of them may wait for long.
    waiting: AtomicUsize,
    waiters: usize,
    /// Documents in all batches so far.
    returned: AtomicU64,
    opened: AtomicU64,
    timed_out: AtomicU64,
}

struct Slot {
    namespace: String,
    /// The user who opened it; nobody, if clients do not authenticate.
    owner: Option<UserId>,
    /// The session in which it was opened.
    session: Option<ClientSession>,
    /// What its next batches need.
    permissions: Arc<[Permission]>,
    used: Instant,
    /// `None` while a batch is being made.
    cursor: Option<Cursor>,
}

/// The cursor `id` of a user.
fn own_slot<'s>(slots: &'s mut HashMap<i64, Slot>, id: i64, user: Option<&UserId>) -> Result<&'s mut Slot> {
    let Some(slot) = slots.get_mut(&id) else {
        return Err(CommandError::new(ErrorCode::CursorNotFound, format!("cursor id {id} not found")));
    };
    if slot.owner.as_ref() != user {
        return Err(CommandError::new(
            ErrorCode::Unauthorized,
            format!("cursor id {id} was not created by the authenticated user"),
        ));
    }
    Ok(slot)
}

impl Cursors {
    /// No cursors, at most `limit`, of which at most `waiters` wait for changes at a time; `gauge` follows their number.
    pub(crate) fn new(limit: usize, waiters: usize, gauge: Gauge) -> Self {
        Cursors {
            slots: Mutex::default(),
            ids: RandomState::new(),
            limit,
            gauge,
            waiting: AtomicUsize::new(0),
            waiters,
            returned: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
        }
    }

    /// The reply with the first batch of `cursor`, which is kept for the user of `opener` if there is more (and `single` does not forbid
    /// it).
    pub(crate) fn first(
        &self,
        opener: &dyn Opener,
        cursor: Cursor,
        batch: usize,
        single: bool,
        until: Deadline,
    ) -> Result<RawDocumentBuf> {
        self.first_in(None, opener, cursor, batch, single, until)
    }

    /// The reply of a find that needs no cursor: its documents are copied from where they lie into the reply. `None` if `lends` cannot lend
    /// them, or they are more than a batch.
    pub(crate) fn at_once(
        &self,
        namespace: &str,
        batch: usize,
        lends: impl FnOnce(&mut dyn FnMut(&RawDocument) -> query::Result<Flow>) -> Result<bool>,
    ) -> Result<Option<RawDocumentBuf>> {
        let mut reply = BatchReply::new("firstBatch");
        let mut fits = true;
        let lent = lends(&mut |document| {
            fits = reply.len() < batch && reply.has_room_for(document);
            if !fits {
                return Ok(Flow::Break(()));
            }
            reply.push(document);
            Ok(Flow::Continue(()))
        })?;
        if !lent || !fits {
            return Ok(None);
        }
        self.returned.fetch_add(reply.len() as u64, Ordering::Relaxed);
        reply.finish(0, namespace).map(Some)
    }

    /// The same, of a cursor of the transaction `open`.
    pub(crate) fn first_in(
        &self,
        mut open: Option<&mut OpenTransaction>,
        opener: &dyn Opener,
        mut cursor: Cursor,
        batch: usize,
        single: bool,
        until: Deadline,
    ) -> Result<RawDocumentBuf> {
        let mut reply = BatchReply::new("firstBatch");
        let more = cursor.fill(&mut reply, Some(batch), until, Duration::ZERO, open.as_deref())?;
        if more {
            cursor.plan = interrupt::current().and_then(|operation| operation.plan().cloned());
        }
        self.returned.fetch_add(reply.len() as u64, Ordering::Relaxed);
        let namespace = cursor.namespace.clone();
        let id = if more && !single { self.insert(cursor, opener)? } else { 0 };
        if let Some(open) = open.as_mut().filter(|_| id != 0) {
            open.cursors.push(id);
        }
        reply.finish(id, &namespace)
    }

    /// The reply with the next batch of the cursor `id`, which belongs to `owner`; `batch` documents at most (`None`: as many as fit). If it is a
    /// change stream, its first event is waited for as long as `wait`.
    pub(crate) fn next(
        &self,
        owner: &Identity,
        id: i64,
        namespace: &str,
        batch: Option<usize>,
        wait: Duration,
        open: Option<&OpenTransaction>,
    ) -> Result<RawDocumentBuf> {
        let mut cursor = self.take(id, namespace, owner.owner().as_ref())?;
        if let Err(error) = cursor.belongs_to(id, open) {
            self.put_back(id, cursor);
            return Err(error);
        }
        if let Some(plan) = &cursor.plan {
            interrupt::note_plan(|| plan.clone());
        }
        let mut reply = BatchReply::new("nextBatch");
        // A waiting stream occupies a thread. Some must remain for other commands.
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let wait = if waiting < self.waiters { wait } else { wait.min(CROWDED) };
        let filled = cursor.fill(&mut reply, batch.filter(|&batch| batch > 0), Deadline::NEVER, wait, open);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.returned.fetch_add(reply.len() as u64, Ordering::Relaxed);
        match filled {
            Ok(true) => {
                self.put_back(id, cursor);
                reply.finish(id, namespace)
            }
            Ok(false) => {
                self.remove(id);
                reply.finish(0, namespace)
            }
            Err(error) => {
                self.remove(id);
                Err(if matches!(cursor.content, Content::Changes(_)) {
                    error.of_change_stream()
                } else {
                    error
                })
            }
        }
    }

    /// Documents that were returned so far.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
    }

    /// Cursors that were opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Those of them that were closed because nobody used them.
    pub(crate) fn timed_out(&self) -> u64 {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// Whether there is a cursor `id`, and it belongs to another user.
    pub(crate) fn is_of_another(&self, owner: &Identity, id: i64) -> bool {
        self.lock().get(&id).is_some_and(|slot| slot.owner != owner.owner())
    }

    /// What the next batch of the cursor `id` needs.
    ///
    /// # Errors
    /// There is none, or it belongs to another user.
    pub(crate) fn permissions(&self, owner: &Identity, id: i64) -> Result<Arc<[Permission]>> {
        let user = owner.owner();
        Ok(Arc::clone(&own_slot(&mut self.lock(), id, user.as_ref())?.permissions))
    }

    /// Whether the cursor `id` waits for documents; `None` if there is none, or while a batch of it is being made.
    pub(crate) fn awaits_data(&self, id: i64) -> Option<bool> {
        let slots = self.lock();
        Some(match slots.get(&id)?.cursor.as_ref()?.content {
            Content::Changes(_) => true,
            Content::Tail(_, awaits) => awaits,
            Content::Documents { .. } | Content::Transaction { .. } => false,
        })
    }

    /// Closes the cursor `id`. False if there is none with that id and namespace.
    pub(crate) fn kill(&self, id: i64, namespace: &str) -> bool {
        let mut slots = self.lock();
        let found = slots.get(&id).is_some_and(|slot| slot.namespace == namespace);
        let killed = if found { slots.remove(&id) } else { None };
        self.count(&slots);
        // Dropping a cursor ends a snapshot: not under the lock.
        drop(slots);
        killed.is_some()
    }

    /// Closes the cursor `id`, if there still is one.
    pub(crate) fn close(&self, id: i64) {
        self.remove(id);
    }

    /// Closes the cursors that have not been used for `idle`. Returns how many.
    pub(crate) fn reap(&self, idle: Duration) -> usize {
        let mut slots = self.lock();
        let old = slots.extract_if(|_, slot| {
            slot.used.elapsed() >= idle && slot.cursor.as_ref().is_some_and(|cursor| !cursor.keep)
        });
        let old: Vec<(i64, Slot)> = old.collect();
        self.count(&slots);
        drop(slots);
        self.timed_out.fetch_add(old.len() as u64, Ordering::Relaxed);
        old.len()
    }

    /// Closes those that were opened in these sessions.
    pub(crate) fn kill_of_sessions(&self, which: &Which) {
        if which.is_empty() {
            return;
        }
        let mut slots = self.lock();
        let is_meant =
            |slot: &Slot| slot.session.is_some_and(|session| which.means(session, slot.owner.as_ref()));
        let killed: Vec<(i64, Slot)> = slots.extract_if(|_, slot| is_meant(slot)).collect();
        self.count(&slots);
        // Dropping a cursor ends a snapshot: not under the lock.
        drop(slots);
        drop(killed);
    }

    /// Closes all of them.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        self.gauge.set(0);
        drop(all);
    }

    fn insert(&self, cursor: Cursor, opener: &dyn Opener) -> Result<i64> {
        // Not under the lock: users may have to be read.
        let (owner, permissions) = (opener.user(), opener.permissions()?.into());
        let mut slots = self.lock();
        if slots.len() >= self.limit {
            return Err(CommandError::new(
                ErrorCode::ExceededMemoryLimit,
                format!("{} cursors are open already: close some, or raise the limit", self.limit),
            ));
        }
        let mut salt = slots.len();
        let id = loop {
            // Random, positive, not zero (which means "no cursor").
            let id = (self.ids.hash_one((Instant::now(), salt)) >> 1) as i64;
            if id != 0 && !slots.contains_key(&id) {
                break id;
            }
            salt += 1;
        };
        let namespace = cursor.namespace.clone();
        let (session, used) = (opener.session(), Instant::now());
        let slot = Slot { namespace, owner, session, permissions, used, cursor: Some(cursor) };
        slots.insert(id, slot);
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.count(&slots);
        Ok(id)
    }

    fn take(&self, id: i64, namespace: &str, user: Option<&UserId>) -> Result<Cursor> {
        let mut slots = self.lock();
        let slot = own_slot(&mut slots, id, user)?;
        if slot.namespace != namespace {
            return Err(CommandError::new(
                ErrorCode::Unauthorized,
                format!(
                    "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                    slot.namespace
                ),
            ));
        }
        slot.cursor.take().ok_or_else(|| {
            CommandError::new(ProtocolCode::CursorInUse, format!("cursor id {id} is already in use"))
        })
    }

    fn put_back(&self, id: i64, cursor: Cursor) {
        let mut slots = self.lock();
        match slots.get_mut(&id) {
            Some(slot) => {
                slot.used = Instant::now();
                slot.cursor = Some(cursor);
            }
            // Killed meanwhile.
            None => {
                drop(slots);
                drop(cursor);
            }
        }
    }

    fn remove(&self, id: i64) {
        let mut slots = self.lock();
        let removed = slots.remove(&id);
        self.count(&slots);
        drop(slots);
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Slot>> {
        // A panic while it was held cannot have left the map half changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, slots: &HashMap<i64, Slot>) {
        self.gauge.set(i64::try_from(slots.len()).unwrap_or(i64::MAX));
    }
}

impl std::fmt::Debug for Cursors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursors").field("open", &self.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, rawdoc};

    use super::*;

    fn cursors() -> Cursors {
        Cursors::new(3, 2, Gauge::default())
    }

    fn nobody() -> Identity {
        Identity::new("127.0.0.1:1".parse().unwrap())
    }

    impl Opener for Identity {
        fn user(&self) -> Option<UserId> {
            self.owner()
        }

        fn session(&self) -> Option<ClientSession> {
            None
        }

        fn permissions(&self) -> Result<Vec<Permission>> {
            Ok(Vec::new())
        }
    }

    fn numbers(n: i32) -> Cursor {
        Cursor::new("a.b", Box::new((0..n).map(|i| Ok(rawdoc! { "_id": i }))))
    }

    fn parts(reply: Result<RawDocumentBuf>) -> (i64, usize) {
        let reply = Document::try_from(&*reply.unwrap()).unwrap();
        let cursor = reply.get_document("cursor").unwrap();
        let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).unwrap();
        (cursor.get_i64("id").unwrap(), batch.len())
    }

    #[test]
    fn batches_add_up_and_the_last_one_closes_the_cursor() {
        let cursors = cursors();
        let (id, n) = parts(cursors.first(&nobody(), numbers(25), 10, false, Deadline::NEVER));
        assert!(id > 0 && n == 10);
        assert_eq!(parts(cursors.next(&nobody(), id, "a.b", Some(10), Duration::ZERO, None)), (id, 10));
        assert_eq!(parts(cursors.next(&nobody(), id, "a.b", None, Duration::ZERO, None)), (0, 5));
        assert_eq!(cursors.next(&nobody(), id, "a.b", None, Duration::ZERO, None).unwrap_err().code, 43);
        assert_eq!(parts(cursors.first(&nobody(), numbers(10), 10, false, Deadline::NEVER)), (0, 10));
        assert_eq!(parts(cursors.first(&nobody(), numbers(11), 10, true, Deadline::NEVER)), (0, 10));
    }

    #[test]
    fn a_batch_size_of_zero_opens_a_cursor_without_reading() {
        let cursors = cursors();
        let (id, n) = parts(cursors.first(&nobody(), numbers(2), 0, false, Deadline::NEVER));
        assert!(id > 0 && n == 0);
        assert_eq!(parts(cursors.next(&nobody(), id, "a.b", Some(0), Duration::ZERO, None)), (0, 2));
    }

    #[test]
    fn a_cursor_is_killed_reaped_and_limited() {
        let cursors = cursors();
        let (id, _) = parts(cursors.first(&nobody(), numbers(9), 1, false, Deadline::NEVER));
        assert!(!cursors.kill(id, "a.other"));
        assert_eq!(cursors.next(&nobody(), id, "a.other", None, Duration::ZERO, None).unwrap_err().code, 13);
        assert!(cursors.kill(id, "a.b"));
        assert!(!cursors.kill(id, "a.b"));
        cursors.first(&nobody(), numbers(9), 1, false, Deadline::NEVER).unwrap();
        cursors.first(&nobody(), numbers(9).kept(true), 1, false, Deadline::NEVER).unwrap();
        cursors.first(&nobody(), numbers(9), 1, false, Deadline::NEVER).unwrap();
        assert_eq!(cursors.first(&nobody(), numbers(9), 1, false, Deadline::NEVER).unwrap_err().code, 146);
        assert_eq!(cursors.reap(Duration::ZERO), 2);
        assert_eq!(cursors.gauge.get(), 1);
        cursors.clear();
        assert_eq!(cursors.gauge.get(), 0);
    }

    #[test]
    fn a_cursor_in_use_is_neither_used_twice_nor_reaped() {
        let cursors = cursors();
        let (id, _) = parts(cursors.first(&nobody(), numbers(9), 1, false, Deadline::NEVER));
        let taken = cursors.take(id, "a.b", None).unwrap();
        assert_eq!(cursors.next(&nobody(), id, "a.b", None, Duration::ZERO, None).unwrap_err().code, 143);
        assert_eq!(cursors.reap(Duration::ZERO), 0);
        assert!(cursors.kill(id, "a.b"));
        cursors.put_back(id, taken);
        assert_eq!(cursors.next(&nobody(), id, "a.b", None, Duration::ZERO, None).unwrap_err().code, 43);
    }

    #[test]
    fn a_result_that_takes_too_long_is_given_up() {
        let cursors = cursors();
        let slow = (0..100).map(|i| {
            std::thread::sleep(Duration::from_millis(2));
            Ok(rawdoc! { "_id": i })
        });
        let cursor = Cursor::new("a.b", Box::new(slow));
        assert_eq!(cursors.first(&nobody(), cursor, 100, false, Deadline::after(5)).unwrap_err().code, 50);
        assert_eq!(parts(cursors.first(&nobody(), numbers(5), 100, false, Deadline::after(60_000))), (0, 5));
    }

    #[test]
    fn a_failing_result_closes_its_cursor() {
        let cursors = cursors();
        let documents = (0..3).map(|i| match i {
            2 => Err(CommandError::protocol("broken")),
            _ => Ok(rawdoc! { "_id": i }),
        });
        let (id, _) = parts(cursors.first(
            &nobody(),
            Cursor::new("a.b", Box::new(documents)),
            1,
            false,
            Deadline::NEVER,
        ));
        assert_eq!(cursors.next(&nobody(), id, "a.b", None, Duration::ZERO, None).unwrap_err().code, 17);
        assert_eq!(cursors.next(&nobody(), id, "a.b", None, Duration::ZERO, None).unwrap_err().code, 43);
    }
}
