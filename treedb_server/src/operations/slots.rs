//! What each connection runs, for `currentOp` and `killOp`.
//!
//! A connection of MongoDB's protocol runs one command at a time; a command within it takes its place. One of the native protocol runs
//! several requests.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bson::raw::cstr;
use bson::{DateTime, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::Namespace;
use treedb_query::query::interrupt::Interrupt;

use super::counters::{Access, Kind, Usage};
use super::{Operations, locked};
use crate::access::identity::{Identity, UserId};
use crate::mongo::commands::hostname;
use crate::mongo::sessions::{ClientSession, Which};

/// Longer commands are shown by their first field and their length.
pub(crate) const SHOWN_BYTES: usize = 1024;
/// Bytes of a text that is shown: more than a namespace can have.
const SHOWN_TEXT: usize = 256;

/// A connection, as others see it.
pub(crate) trait Connection: Send + Sync {
    /// Its number since the server started.
    fn number(&self) -> i32;

    /// Who its client is.
    fn identity(&self) -> &Identity;

    /// What the client says of itself.
    fn metadata(&self) -> Option<&RawDocument>;

    /// What it runs.
    fn slots(&self) -> &Slots;
}

/// The name of the program that the client is, if it has given one.
pub(crate) fn app_name(connection: &dyn Connection) -> Option<&str> {
    connection.metadata()?.get_document("application").ok()?.get_str("name").ok()
}

/// The user of a connection, in a list that is empty if there is none.
pub(super) fn users(connection: &dyn Connection) -> RawArrayBuf {
    let mut users = RawArrayBuf::new();
    if let Some(user) = connection.identity().user() {
        users.push(rawdoc! { "user": user.name.as_str(), "db": user.database.as_str() });
    }
    users
}

/// An operation that runs.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    pub(crate) opid: i32,
    pub(crate) kind: Kind,
    /// What it does with its collection.
    pub(crate) lock: Access,
    /// The name of the command.
    pub(crate) name: &'static str,
    pub(crate) namespace: String,
    pub(crate) began: Instant,
    /// The session of a command of MongoDB's protocol that has one.
    pub(crate) session: Option<ClientSession>,
    pub(crate) interrupt: Arc<Interrupt>,
    /// The command, or its beginning: see [`show`].
    pub(crate) command: Vec<u8>,
    /// It has not begun, as writes are locked out.
    pub(crate) waits_for_lock: bool,
}

/// The operations that a connection runs.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    operations: Vec<Info>,
    /// The collection of the last operation, whose counters the next one probably needs too.
    usage: Option<(String, Arc<Usage>)>,
    /// Of an operation that has ended, for the next one.
    spare: Vec<u8>,
}

impl Slots {
    /// The counters of a collection.
    pub(crate) fn usage(&self, namespace: &str, operations: &Operations) -> Arc<Usage> {
        let mut running = locked(&self.0);
        match &running.usage {
            Some((last, usage)) if last == namespace && !usage.is_forgotten() => Arc::clone(usage),
            // What no collection can be called is refused, and not counted.
            _ if Namespace::parse(namespace).is_err() => Arc::default(),
            _ => {
                let usage = operations.usage_of(namespace);
                running.usage = Some((namespace.to_owned(), Arc::clone(&usage)));
                usage
            }
        }
    }

    /// An empty buffer for a command.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        std::mem::take(&mut locked(&self.0).spare)
    }

    /// Begins an operation beside others.
    pub(crate) fn add(&self, info: Info) {
        locked(&self.0).operations.push(info);
    }

    /// Begins an operation in the place of the one that runs, which is returned.
    pub(crate) fn replace(&self, info: Info) -> Option<Info> {
        let mut running = locked(&self.0);
        let before = running.operations.pop();
        running.operations.push(info);
        before
    }

    /// Ends an operation. What it has taken the place of runs on.
    pub(crate) fn end(&self, opid: i32, before: Option<Info>) {
        let mut running = locked(&self.0);
        let Some(at) = running.operations.iter().position(|info| info.opid == opid) else { return };
        let Info { command: mut spare, .. } = running.operations.swap_remove(at);
        spare.clear();
        running.spare = spare;
        running.operations.extend(before);
    }

    /// Tells the operation of this number to stop, if the connection runs it.
    pub(crate) fn kill(&self, opid: i32) {
        for info in locked(&self.0).operations.iter().filter(|info| info.opid == opid) {
            info.interrupt.kill();
        }
    }

    /// Tells what the connection of `user` runs in these sessions to stop.
    pub(super) fn kill_of_sessions(&self, which: &Which, user: Option<&UserId>) {
        let running = locked(&self.0);
        let is_meant = |info: &&Info| info.session.is_some_and(|session| which.means(session, user));
        running.operations.iter().filter(is_meant).for_each(|info| info.interrupt.kill());
    }

    /// Tells whatever the connection runs to stop.
    pub(crate) fn kill_all(&self) {
        locked(&self.0).operations.iter().for_each(|info| info.interrupt.kill());
    }

    /// The command of an operation, as it is shown.
    pub(crate) fn command(&self, opid: i32) -> Option<RawDocumentBuf> {
        let running = locked(&self.0);
        let info = running.operations.iter().find(|info| info.opid == opid)?;
        RawDocumentBuf::from_bytes(info.command.clone()).ok()
    }

    /// Whether the connection runs the operation of this number.
    pub(super) fn runs(&self, opid: i32) -> bool {
        locked(&self.0).operations.iter().any(|info| info.opid == opid)
    }

    /// What each of those that it runs does with its collection.
    pub(super) fn locks(&self) -> Vec<Access> {
        locked(&self.0).operations.iter().map(|info| info.lock).collect()
    }

    fn all(&self) -> Vec<Info> {
        locked(&self.0).operations.clone()
    }
}

/// Appends a command as it is shown: all of it, or its beginning.
pub(crate) fn show(command: &RawDocument, to: &mut Vec<u8>) {
    if command.as_bytes().len() <= SHOWN_BYTES {
        to.extend_from_slice(command.as_bytes());
    } else {
        to.extend_from_slice(beginning(command).as_bytes());
    }
}

/// What `currentOp` shows of a connection: a document for each operation; one if it runs none, if `idle`.
pub(super) fn shown(connection: &dyn Connection, idle: bool) -> Vec<RawDocumentBuf> {
    let running = connection.slots().all();
    match running.is_empty() {
        true if idle => vec![of_connection(connection, false)],
        _ => running.into_iter().map(|info| of_operation(connection, info)).collect(),
    }
}

fn of_connection(connection: &dyn Connection, active: bool) -> RawDocumentBuf {
    let mut found = rawdoc! {
        "type": "op",
        "host": hostname(),
        "desc": format!("conn{}", connection.number()),
        "connectionId": connection.number(),
        "client": connection.identity().peer().to_string(),
    };
    if let Some(name) = app_name(connection) {
        found.append(cstr!("appName"), name);
    }
    if let Some(metadata) = connection.metadata() {
        found.append(cstr!("clientMetadata"), metadata);
    }
    let users = users(connection);
    if (&*users as &bson::RawArray).into_iter().next().is_some() {
        found.append(cstr!("effectiveUsers"), users);
    }
    found.append(cstr!("active"), active);
    found.append(cstr!("currentOpTime"), DateTime::now());
    found
}

fn of_operation(connection: &dyn Connection, info: Info) -> RawDocumentBuf {
    let mut found = of_connection(connection, true);
    let Info { opid, kind, name, namespace, began, interrupt, command, waits_for_lock, .. } = info;
    let took = began.elapsed();
    found.append(cstr!("opid"), opid);
    found.append(cstr!("secs_running"), i64::try_from(took.as_secs()).unwrap_or(i64::MAX));
    found.append(cstr!("microsecs_running"), i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
    found.append(cstr!("op"), kind.name());
    found.append(cstr!("ns"), namespace);
    let command = RawDocumentBuf::from_bytes(command).unwrap_or_default();
    if let Ok(Some(lsid)) = command.get("lsid") {
        found.append(cstr!("lsid"), lsid);
    }
    found.append(cstr!("command"), without_credentials(name, command));
    if let Some(plan) = interrupt.plan() {
        found.append(cstr!("planSummary"), plan.to_string());
    }
    found.append(cstr!("numYields"), 0);
    found.append(cstr!("waitingForLock"), waits_for_lock);
    if interrupt.is_killed() {
        found.append(cstr!("killPending"), true);
    }
    found
}

/// The beginning of a text, which is whole for all names that a collection can have.
pub(crate) fn cut(text: &str) -> &str {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= SHOWN_TEXT);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The beginning of a long command, as MongoDB shows it.
fn beginning(body: &RawDocument) -> RawDocumentBuf {
    let mut short = RawDocumentBuf::new();
    if let Some(Ok((name, value))) = body.iter().next()
        && matches!(value, RawBsonRef::String(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_))
    {
        match value {
            RawBsonRef::String(text) => short.append(name, cut(text)),
            value => short.append(name, value),
        }
    }
    for kept in ["lsid", "$db", "comment"] {
        if let (Ok(Some(value)), Ok(name)) = (body.get(kept), bson::raw::CString::try_from(kept))
            && !matches!(value, RawBsonRef::String(text) if text.len() > SHOWN_TEXT)
            && !matches!(value, RawBsonRef::Document(document) if document.as_bytes().len() > SHOWN_TEXT)
            && !matches!(value, RawBsonRef::Array(array) if array.as_bytes().len() > SHOWN_TEXT)
        {
            short.append(name, value);
        }
    }
    append_length(&mut short, body.as_bytes().len());
    short
}

/// Says how long the command is of which a document is the beginning.
pub(crate) fn append_length(short: &mut RawDocumentBuf, bytes: usize) {
    short.append(cstr!("$truncated"), format!("{bytes} bytes"));
}

/// A command as others may see it.
pub(super) fn without_credentials(name: &str, command: RawDocumentBuf) -> RawDocumentBuf {
    match name {
        "saslStart" | "saslContinue" | "createUser" | "updateUser" | "hello" | "isMaster" => {
            let mut short = RawDocumentBuf::new();
            if let Some(Ok((name, value))) = command.iter().next() {
                short.append(name, value);
            }
            short
        }
        _ => command,
    }
}
