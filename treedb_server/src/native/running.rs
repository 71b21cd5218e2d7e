//! A running request of the native protocol, among the [operations](crate::operations) of the server.
//!
//! What reads or changes a document by its key is counted, but not listed: it has ended before anybody could look, and listing it would cost
//! more than a tenth of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use treedb_query::query::interrupt::{Entered, Interrupt};

use super::call::{Op, Request};
use super::execute::{Done as Carried, Session, checked};
use super::frame::{Header, opcode};
use super::permission::KEY_VALUE;
use super::prepared::{Kind as Prepared, Statement};
use crate::config::FREE_BYTES;
use crate::operations::{Access, Connection as _, Done, Ended, Info, Kind, Usage, show};

/// What a request is about, for those who count it.
struct About<'r> {
    kind: Kind,
    access: Access,
    statements: u64,
    /// `database.collection`; the database `kv` has the tables.
    namespace: Option<Cow<'r, str>>,
}

/// A request that runs, until it is finished or dropped.
pub(super) struct Running<'r> {
    session: &'r Session,
    name: &'static str,
    about: About<'r>,
    began: Instant,
    usage: Option<Arc<Usage>>,
    listed: Option<Listed>,
}

/// What a request has that others can see.
struct Listed {
    opid: i32,
    command: RawDocumentBuf,
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
        length: usize,
    ) -> Running<'r> {
        let (name, about) = (opcode::name(header.opcode), about(session, request, statement));
        let operations = session.operations();
        let usage = about.namespace.as_ref().map(|namespace| session.slots().usage(namespace, operations));
        let (opid, began) = (operations.next(), Instant::now());
        // A long body holds a part of a budget: who waits for a transaction is asked for how much.
        let listed = (length > FREE_BYTES || is_listed(request, statement)).then(|| {
            let held = if length > FREE_BYTES { length } else { 0 };
            let interrupt = Arc::new(Interrupt::new(None).holding(held));
            let command = command(name, about.namespace.as_deref(), request);
            let mut shown = session.slots().buffer();
            show(&command, &mut shown);
            session.slots().add(Info {
                opid,
                kind: about.kind,
                name,
                namespace: about.namespace.as_deref().unwrap_or_default().to_owned(),
                began,
                interrupt: Arc::clone(&interrupt),
                command: shown,
            });
            let entered = Some(Arc::clone(&interrupt).enter());
            Listed { opid, command, interrupt, entered }
        });
        Running { session, name, about, began, usage, listed }
    }

    /// Counts and logs what came of it; `answer` is the body of its answer.
    pub(super) fn finish(self, done: &Carried, answer: &[u8]) {
        let took = self.began.elapsed();
        let About { kind, access, statements, .. } = self.about;
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
        let operations = self.session.operations();
        operations.count(self.usage.as_deref(), &Done { kind, access, statements, documents, took });
        if !operations.wants(took) {
            return;
        }
        let namespace = self.about.namespace.as_deref().unwrap_or_default();
        let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let batched = matches!(self.name, "find" | "next" | "pull");
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
            returned: batched.then(|| signed(number(8, 4))),
            bytes: answer.len(),
            changed,
            error: done.as_ref().err().map(|error| (error.code, &*error.name, &*error.message)),
        };
        match &self.listed {
            Some(listed) => operations.record(&ended, &listed.command),
            None => operations.record(&ended, &short(self.name, self.about.namespace.as_deref())),
        }
    }

    fn is_of_tables(&self) -> bool {
        self.name.starts_with("kv_")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(listed) = &mut self.listed {
            drop(listed.entered.take());
            self.session.slots().end(listed.opid, None);
        }
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
        Request::Execute(_) => statement.is_some_and(|statement| !statement.is_by_id()),
        _ => true,
    }
}

fn about<'r>(session: &Session, request: &Request<'r>, statement: Option<&'r Statement>) -> About<'r> {
    use Access::{Neither, Reads, Writes};
    let on = |kind, access, namespace: &'r str| About {
        kind,
        access,
        statements: 1,
        namespace: Some(Cow::Borrowed(namespace)),
    };
    let table = |kind, access, table: &str| About {
        kind,
        access,
        statements: 1,
        namespace: Some(Cow::Owned(format!("{KEY_VALUE}.{table}"))),
    };
    let of_cursor = |cursor| About {
        kind: Kind::GetMore,
        access: Reads,
        statements: 1,
        namespace: session.namespace_of(cursor).map(Cow::Owned),
    };
    match request {
        Request::Ping(_)
        | Request::Authenticate(_)
        | Request::Prove(_)
        | Request::Forget(_)
        | Request::Close(_)
        | Request::Credit(_) => {
            About { kind: Kind::Command, access: Neither, statements: 1, namespace: None }
        }
        Request::Prepare(prepare) => on(Kind::Command, Neither, prepare.namespace),
        Request::Execute(execute) => match statement {
            None => About { kind: Kind::Command, access: Neither, statements: 1, namespace: None },
            Some(statement) => {
                let (kind, access) = match statement.kind() {
                    Prepared::Get | Prepared::Find { .. } => (Kind::Query, Reads),
                    Prepared::Count(_) => (Kind::Command, Reads),
                    Prepared::Insert(_) => (Kind::Insert, Writes),
                    Prepared::Update { .. } => (Kind::Update, Writes),
                    Prepared::Delete(_) => (Kind::Delete, Writes),
                };
                // What follows begins with their number.
                let rows = execute.rest.first_chunk().map_or(1, |rows| u64::from(u32::from_le_bytes(*rows)));
                let statements = if kind == Kind::Insert { rows } else { 1 };
                About { statements, ..on(kind, access, statement.namespace()) }
            }
        },
        Request::Insert(insert) => {
            About { statements: insert.documents.len() as u64, ..on(Kind::Insert, Writes, insert.namespace) }
        }
        Request::Get(get) => on(Kind::Query, Reads, get.namespace),
        Request::Find(find) => on(Kind::Query, Reads, find.namespace),
        Request::Next(next) => of_cursor(next.cursor),
        Request::Pull(pull) => of_cursor(pull.cursor),
        Request::Update(update) => on(Kind::Update, Writes, update.namespace),
        Request::Delete(delete) => on(Kind::Delete, Writes, delete.namespace),
        Request::Count(count) => on(Kind::Command, Reads, count.namespace),
        Request::VectorSearch(search) => on(Kind::Command, Reads, search.namespace),
        Request::CreateIndex(create) => on(Kind::Command, Neither, create.namespace),
        Request::ListIndexes(list) => on(Kind::Command, Neither, list.namespace),
        Request::DropIndex(drop) => on(Kind::Command, Neither, drop.namespace),
        Request::UpdateSearchIndex(update) => on(Kind::Command, Neither, update.namespace),
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
    }
}

/// A request as others see it, of which only the name and the collection are known.
fn short(name: &str, namespace: Option<&str>) -> RawDocumentBuf {
    let mut command = RawDocumentBuf::new();
    let (database, collection) = namespace.and_then(|name| name.split_once('.')).unwrap_or(("admin", ""));
    if let Ok(name) = bson::raw::CString::try_from(name) {
        command.append(name, collection);
    }
    command.append(cstr!("$db"), database);
    command
}

/// A request as others see it. Documents are shown if they are valid: an answer contains them.
fn command(name: &str, namespace: Option<&str>, request: &Request<'_>) -> RawDocumentBuf {
    let mut command = short(name, namespace);
    let mut document = |name: &bson::raw::CStr, document: &RawDocument| {
        if checked(document).is_ok() {
            command.append(name, document);
        }
    };
    match request {
        Request::Find(find) => {
            document(cstr!("filter"), find.filter);
            find.sort.into_iter().for_each(|sort| document(cstr!("sort"), sort));
            find.projection.into_iter().for_each(|projection| document(cstr!("projection"), projection));
        }
        Request::Update(update) => {
            document(cstr!("filter"), update.filter);
            document(cstr!("u"), update.update);
        }
        Request::Delete(delete) => document(cstr!("filter"), delete.filter),
        Request::Count(count) => document(cstr!("filter"), count.filter),
        Request::VectorSearch(search) => document(cstr!("filter"), search.filter),
        _ => {}
    }
    command
}
