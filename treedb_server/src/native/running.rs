//! A running request of the native protocol, among the [operations](crate::operations) of the server.
//!
//! What reads a document by its key is counted, but not listed: it has ended before anybody could look, and listing it would cost more than a
//! tenth of it. Where a key does not lead to the document, in a view, it is listed before it goes on in another way.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use treedb_collections::Collection;
use treedb_protocol::call::{Op, Request};
use treedb_protocol::frame::{Header, opcode};
use treedb_query::doc::Value;
use treedb_query::doc::write::Writer;
use treedb_query::query::interrupt::{Entered, Interrupt};

use super::execute::{Done as Carried, Session, checked};
use super::failure::Failure;
use super::permission::KEY_VALUE;
use super::prepared::{Kind as Prepared, Statement};
use crate::config::FREE_BYTES;
use crate::operations::{
    Access, Connection as _, Done, Ended, Info, Kind, SHOWN_BYTES, Usage, append_length, show, signed,
};

/// What a request is about, for those who count it.
struct About<'r> {
    kind: Kind,
    access: Access,
    /// What it does with its collection.
    lock: Access,
    statements: u64,
    /// `database.collection`; the database `kv` has the tables.
    namespace: Option<Cow<'r, str>>,
    returns: Returns,
}

/// Which documents an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returns {
    None,
    /// One, or none.
    One,
    /// Those that a search has found.
    Found,
    /// A batch of a find.
    Batch,
}

/// Where a request is executed.
#[derive(Clone, Copy)]
pub(crate) enum Place<'w> {
    /// On the thread that reads the requests of the connection: those after it wait.
    Reader,
    /// On a thread of its own, after it has waited, if it had to.
    Own(Option<&'w Waiting>),
}

impl<'w> Place<'w> {
    /// Whether others wait for it.
    pub(crate) fn is_reader(self) -> bool {
        matches!(self, Place::Reader)
    }

    /// What it was while it waited.
    fn waited(self) -> Option<&'w Waiting> {
        match self {
            Place::Reader => None,
            Place::Own(waited) => waited,
        }
    }
}

/// Why a request was not answered.
pub(super) enum Stop {
    /// It has failed.
    Failed(Failure),
    /// It takes longer than was thought, and is to be executed anew, on a thread of its own.
    Elsewhere,
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// A request that runs, until it is finished or dropped.
pub(super) struct Running<'r> {
    session: &'r Session,
    name: &'static str,
    about: About<'r>,
    place: Place<'r>,
    opid: i32,
    began: Instant,
    usage: Option<Arc<Usage>>,
    listed: Option<Listed>,
}

/// What a request has that others can see.
struct Listed {
    interrupt: Arc<Interrupt>,
    entered: Option<Entered>,
}

impl<'r> Running<'r> {
    /// Begins a request, whose body has so many bytes.
    pub(super) fn begin(
        session: &'r Session,
        header: &Header,
        request: &Request<'r>,
        statement: Option<&'r Statement>,
        (length, place): (usize, Place<'r>),
    ) -> Running<'r> {
        let (name, about) = (opcode::name(header.opcode), about(session, request, statement));
        let operations = session.operations();
        let usage = about.namespace.as_ref().map(|namespace| session.slots().usage(namespace, operations));
        // What has waited is the same operation.
        let opid = place.waited().map_or_else(|| operations.next(), |waited| waited.opid);
        let mut running =
            Running { session, name, about, place, opid, began: Instant::now(), usage, listed: None };
        // A long body holds a part of a budget: who waits for a transaction is asked for how much.
        let held = held(length);
        if held > 0 || is_listed(request, statement) {
            running.list(&command(name, running.about.namespace.as_deref(), request), held);
        }
        running
    }

    /// Lets others see it as this command, and stop it. It holds so many bytes of a budget.
    fn list(&mut self, command: &RawDocument, held: usize) {
        let interrupt = match self.place.waited() {
            Some(waited) => Arc::clone(&waited.interrupt),
            None => Arc::new(Interrupt::new(None).holding(held)),
        };
        let begun = (self.opid, self.began);
        list(self.session, self.name, &self.about, begun, &interrupt, command, false);
        let entered = Some(Arc::clone(&interrupt).enter());
        self.listed = Some(Listed { interrupt, entered });
    }

    /// Says that the request is not answered by looking up a key, as was thought. It is listed from now on.
    ///
    /// # Errors
    /// [`Stop::Elsewhere`], if it keeps others waiting.
    pub(super) fn takes_long(&mut self) -> Result<(), Stop> {
        if self.place.is_reader() {
            return Err(Stop::Elsewhere);
        }
        if self.listed.is_none() {
            self.list(&short(self.name, self.about.namespace.as_deref()), 0);
        }
        Ok(())
    }

    /// Says that the request reads a collection by its keys or by a plan, unless that is a view, whose pipeline may read anything.
    ///
    /// # Errors
    /// [`Stop::Elsewhere`], if it is a view and keeps others waiting.
    pub(super) fn beware_of_views(&mut self, collection: &Collection) -> Result<(), Stop> {
        let is_known = !self.place.is_reader() && self.listed.is_some();
        if !is_known && collection.is_view()? {
            self.takes_long()?;
        }
        Ok(())
    }

    /// Counts and logs what came of it; `answer` is the body of its answer.
    pub(super) fn finish(self, done: &Carried, answer: &[u8]) {
        let took = self.began.elapsed();
        let About { kind, access, lock, returns, .. } = self.about;
        // As the calls write their answers.
        let number = |at: usize, length: usize| {
            let bytes = answer.get(at..at + length).filter(|_| done.is_ok()).unwrap_or_default();
            bytes.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
        };
        let of_documents = !self.is_of_tables();
        let documents = match kind {
            Kind::Insert => number(0, 4),
            Kind::Update if of_documents => number(8, 8),
            Kind::Delete if of_documents => number(0, 8),
            _ => 0,
        };
        let returned = match returns {
            Returns::None => 0,
            Returns::One => number(0, 1),
            Returns::Found => number(0, 4),
            Returns::Batch => number(8, 4),
        };
        self.session.count_returned(returned);
        let statements = match (kind, done) {
            // Those that were inserted and those that were refused: how many the client has announced is not known to be true.
            (Kind::Insert, Ok(())) => documents + number(4, 4),
            (Kind::Insert, Err(_)) => 1,
            _ => self.about.statements,
        };
        let operations = self.session.operations();
        operations.count(self.usage.as_deref(), &Done { kind, access, lock, statements, documents, took });
        if !operations.wants(took) {
            return;
        }
        let namespace = self.about.namespace.as_deref().unwrap_or_default();
        let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
        let mut changed = RawDocumentBuf::new();
        match kind {
            Kind::Insert | Kind::Delete if of_documents => changed.append(cstr!("n"), signed(documents)),
            Kind::Update if of_documents => {
                changed.append(cstr!("n"), signed(number(0, 8)));
                changed.append(cstr!("nModified"), signed(documents));
            }
            _ => {}
        }
        let ended = Ended {
            connection: self.session,
            door: "native",
            name: self.name,
            kind,
            database,
            namespace,
            took,
            plan: self.listed.as_ref().and_then(|listed| listed.interrupt.plan()),
            waits: false,
            of_profile: collection == "system.profile",
            returned: (returns == Returns::Batch).then(|| signed(returned)),
            bytes: answer.len(),
            changed,
            error: done.as_ref().err().map(|Failure(error)| (error.code, &*error.name, &*error.message)),
        };
        let shown = self.listed.as_ref().and_then(|_| self.session.slots().command(self.opid));
        let shown = shown.unwrap_or_else(|| short(self.name, self.about.namespace.as_deref()));
        operations.record(&ended, &shown);
    }

    fn is_of_tables(&self) -> bool {
        self.name.starts_with("kv_")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(listed) = &mut self.listed {
            drop(listed.entered.take());
            self.session.slots().end(self.opid, None);
        }
    }
}

/// Bytes of a budget that a request holds whose body has so many.
fn held(length: usize) -> usize {
    if length > FREE_BYTES { length } else { 0 }
}

/// Lets others see a request as this command.
fn list(
    session: &Session,
    name: &'static str,
    about: &About<'_>,
    (opid, began): (i32, Instant),
    interrupt: &Arc<Interrupt>,
    command: &RawDocument,
    waits_for_lock: bool,
) {
    let slots = session.slots();
    let mut shown = slots.buffer();
    show(command, &mut shown);
    slots.add(Info {
        opid,
        kind: about.kind,
        lock: about.lock,
        name,
        namespace: about.namespace.as_deref().unwrap_or_default().to_owned(),
        began,
        session: None,
        interrupt: Arc::clone(interrupt),
        command: shown,
        waits_for_lock,
    });
}

/// A request that waits until it can begin, for others to see, until it is dropped or [runs](Running) as the same operation.
pub(crate) struct Waiting {
    session: Arc<Session>,
    opid: i32,
    interrupt: Arc<Interrupt>,
}

impl Waiting {
    /// Lists a request of somebody who may make it.
    pub(super) fn begin(
        session: &Arc<Session>,
        header: &Header,
        request: &Request<'_>,
        (length, statement): (usize, Option<&Statement>),
    ) -> Waiting {
        let (name, about) = (opcode::name(header.opcode), about(session, request, statement));
        let interrupt = Arc::new(Interrupt::new(None).holding(held(length)));
        let opid = session.operations().next();
        let command = command(name, about.namespace.as_deref(), request);
        list(session, name, &about, (opid, Instant::now()), &interrupt, &command, true);
        Waiting { session: Arc::clone(session), opid, interrupt }
    }

    /// Whether it may go on waiting.
    ///
    /// # Errors
    /// `Interrupted`; `ClientDisconnect` if its client has closed the connection, of which nothing more is executed then.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.session.look_for_peer() {
            return Err(Failure::disconnected());
        }
        Ok(self.interrupt.check()?)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.session.slots().end(self.opid, None);
    }
}

/// Whether `currentOp` is to show a request.
fn is_listed(request: &Request<'_>, statement: Option<&Statement>) -> bool {
    match request {
        Request::Ping(_)
        | Request::Authenticate(_)
        | Request::Prove(_)
        | Request::Prepare(_)
        | Request::Forget(_)
        | Request::Get(_)
        | Request::Close(_)
        | Request::Credit(_)
        | Request::KvGet(_) => false,
        Request::Execute(_) => statement.is_some_and(|statement| match statement.kind() {
            Prepared::Get => false,
            // See `Running::takes_long`.
            Prepared::Find { .. } => !statement.is_by_id(),
            // They may wait for a transaction.
            Prepared::Insert(_) | Prepared::Update { .. } | Prepared::Delete(_) => true,
            Prepared::Count(_) => true,
        }),
        _ => true,
    }
}

fn about<'r>(session: &Session, request: &Request<'r>, statement: Option<&'r Statement>) -> About<'r> {
    use Access::{Neither, Reads, Writes};
    let of = |kind, access, namespace: Option<Cow<'r, str>>| About {
        kind,
        access,
        lock: access,
        statements: 1,
        namespace,
        returns: Returns::None,
    };
    let on = |kind, access, namespace: &'r str| of(kind, access, Some(Cow::Borrowed(namespace)));
    let on_indexes = |lock, namespace| About { lock, ..on(Kind::Command, Neither, namespace) };
    let table =
        |kind, access, table: &str| of(kind, access, Some(Cow::Owned(format!("{KEY_VALUE}.{table}"))));
    let of_cursor = |cursor| About {
        returns: Returns::Batch,
        ..of(Kind::GetMore, Reads, session.namespace_of(cursor).map(Cow::Owned))
    };
    match request {
        Request::Ping(_)
        | Request::Authenticate(_)
        | Request::Prove(_)
        | Request::Forget(_)
        | Request::Close(_)
        | Request::Credit(_) => of(Kind::Command, Neither, None),
        Request::Prepare(prepare) => on(Kind::Command, Neither, prepare.namespace),
        Request::Execute(_) => match statement {
            None => of(Kind::Command, Neither, None),
            Some(statement) => {
                let (kind, access) = match statement.kind() {
                    Prepared::Get | Prepared::Find { .. } => (Kind::Query, Reads),
                    Prepared::Count(_) => (Kind::Command, Reads),
                    Prepared::Insert(_) => (Kind::Insert, Writes),
                    Prepared::Update { .. } => (Kind::Update, Writes),
                    Prepared::Delete(_) => (Kind::Delete, Writes),
                };
                let returns = match statement.kind() {
                    Prepared::Get => Returns::One,
                    Prepared::Find { .. } => Returns::Batch,
                    _ => Returns::None,
                };
                About { returns, ..on(kind, access, statement.namespace()) }
            }
        },
        Request::Insert(insert) => on(Kind::Insert, Writes, insert.namespace),
        Request::Get(get) => About { returns: Returns::One, ..on(Kind::Query, Reads, get.namespace) },
        Request::Find(find) => About { returns: Returns::Batch, ..on(Kind::Query, Reads, find.namespace) },
        Request::Next(next) => of_cursor(next.cursor),
        Request::Pull(pull) => of_cursor(pull.cursor),
        Request::Update(update) => on(Kind::Update, Writes, update.namespace),
        Request::Delete(delete) => on(Kind::Delete, Writes, delete.namespace),
        Request::Count(count) => on(Kind::Command, Reads, count.namespace),
        Request::VectorSearch(search) => {
            About { returns: Returns::Found, ..on(Kind::Command, Reads, search.namespace) }
        }
        Request::CreateIndex(create) => on_indexes(Writes, create.namespace),
        Request::ListIndexes(list) => on_indexes(Reads, list.namespace),
        Request::DropIndex(drop) => on_indexes(Writes, drop.namespace),
        Request::UpdateSearchIndex(update) => on_indexes(Writes, update.namespace),
        Request::KvGet(get) => table(Kind::Query, Reads, get.table),
        Request::KvRange(range) => table(Kind::Query, Reads, range.table),
        Request::KvPut(put) => table(Kind::Update, Writes, put.table),
        Request::KvDelete(delete) => table(Kind::Delete, Writes, delete.table),
        Request::KvBatch(batch) => About {
            statements: batch.ops.len() as u64,
            ..table(
                match batch.ops.iter().all(|op| matches!(op, Op::Delete(_))) {
                    true => Kind::Delete,
                    false => Kind::Update,
                },
                Writes,
                batch.table,
            )
        },
        _ => of(Kind::Command, Neither, None),
    }
}

/// A request as others see it, of which only the name and the collection are known.
fn short(name: &'static str, namespace: Option<&str>) -> RawDocumentBuf {
    let (database, collection) = namespace.and_then(|name| name.split_once('.')).unwrap_or(("admin", ""));
    // Made for each write: in one piece of memory.
    let mut command = Writer::new(name.len() + collection.len() + database.len() + 32);
    command.value(name.as_bytes(), Value::String(collection.as_bytes()));
    command.value(b"$db", Value::String(database.as_bytes()));
    command.finish()
}

/// A request as others see it: all of it, or its beginning if it is long, of which nothing more is copied. Documents are shown if they are
/// valid: an answer contains them.
fn command(name: &'static str, namespace: Option<&str>, request: &Request<'_>) -> RawDocumentBuf {
    let (filter, sort, projection, update) =
        (cstr!("filter"), cstr!("sort"), cstr!("projection"), cstr!("u"));
    let documents = match request {
        Request::Find(find) => [
            Some((filter, find.filter)),
            find.sort.map(|it| (sort, it)),
            find.projection.map(|it| (projection, it)),
        ],
        Request::Update(it) => [Some((filter, it.filter)), Some((update, it.update)), None],
        Request::Delete(delete) => [Some((filter, delete.filter)), None, None],
        Request::Count(count) => [Some((filter, count.filter)), None, None],
        Request::VectorSearch(search) => {
            [Some((filter, search.filter)), search.projection.map(|it| (projection, it)), None]
        }
        _ => [None; 3],
    };
    let mut command = short(name, namespace);
    let bytes: usize = documents.iter().flatten().map(|(_, document)| document.as_bytes().len()).sum();
    if command.as_bytes().len() + bytes > SHOWN_BYTES {
        append_length(&mut command, bytes);
        return command;
    }
    for (name, document) in documents.into_iter().flatten() {
        if checked(document).is_ok() {
            command.append(name, document);
        }
    }
    command
}
