//! A running command of MongoDB's protocol, among the operations of the server.
//!
//! A command costs some short locks that nobody else takes unless somebody looks, a copy of its beginning, and some relaxed counters.

use std::sync::Arc;
use std::time::Instant;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use treedb_query::query::interrupt::{Entered, Interrupt};

use super::args::{Arg, number};
use super::commands::Request;
use super::connection::Session;
use super::cursors::Deadline;
use super::error::CommandError;
use super::protocol_code::ProtocolCode;
use super::sessions::ClientSession;
use crate::operations::{Access, Done, Ended, Info, Kind, Usage, cut, show};

/// A command that runs, until it is finished or dropped.
pub(crate) struct Running<'r> {
    request: &'r Request<'r>,
    opid: i32,
    began: Instant,
    /// What it does with its collection.
    lock: Access,
    usage: Option<Arc<Usage>>,
    /// What the connection ran already: a command within a command.
    before: Option<Info>,
    interrupt: Arc<Interrupt>,
    entered: Option<Entered>,
}

impl<'r> Running<'r> {
    /// Begins the operation that `request` is.
    ///
    /// # Errors
    /// Those of a `maxTimeMS` that is none.
    pub(crate) fn begin(request: &'r Request<'r>) -> Result<Running<'r>, CommandError> {
        let (operations, slots) = (&request.context.operations, &request.session.operation);
        // What has waited is the same operation: it has its number, its time limit, and what it was told meanwhile.
        let (opid, interrupt) = match request.waited {
            Some(waited) => (waited.opid, Arc::clone(&waited.interrupt)),
            None => (operations.next(), interrupt(request)?),
        };
        let (namespace, counted) = namespace(request);
        let usage = counted.then(|| slots.usage(&namespace, operations));
        let info = info(request, opid, namespace, &interrupt, false);
        let (began, lock) = (info.began, info.lock);
        let before = slots.replace(info).filter(|before| before.opid != opid);
        let entered = Some(Arc::clone(&interrupt).enter());
        Ok(Running { request, opid, began, lock, usage, before, interrupt, entered })
    }

    /// Counts and logs what came of it.
    pub(crate) fn finish(self, done: &Result<RawDocumentBuf, CommandError>) {
        let took = self.began.elapsed();
        let request = self.request;
        let operations = &request.context.operations;
        let (name, kind) = (request.command.name, Kind::of(request.command.name));
        let (list, field) = match kind {
            Kind::Insert => ("documents", "n"),
            Kind::Update => ("updates", "nModified"),
            Kind::Delete => ("deletes", "n"),
            Kind::Query | Kind::GetMore | Kind::Command => ("", ""),
        };
        let statements = match done {
            Ok(reply) if !list.is_empty() => executed(reply, request, list),
            // Its operations count, each as what it is.
            _ if name == "bulkWrite" => 0,
            // A write that is refused as a whole counts once: how many statements it would have had is not known to be true.
            _ => 1,
        };
        let documents = match done {
            Ok(reply) if !field.is_empty() => {
                reply.get(field).ok().flatten().and_then(number).map_or(0, |n| n.max(0.0) as u64)
            }
            _ => 0,
        };
        let access = match name {
            "insert" | "update" | "delete" | "findAndModify" | "bulkWrite" => Access::Writes,
            "find" | "getMore" | "aggregate" | "count" | "distinct" => Access::Reads,
            _ => Access::Neither,
        };
        let done_by = Done { kind, access, lock: self.lock, statements, documents, took };
        operations.count(self.usage.as_deref(), &done_by);
        if !operations.wants(took) {
            return;
        }
        let (namespace, _) = namespace(request);
        let returned = done.as_ref().ok().and_then(|reply| documents_in(reply));
        let mut changed = RawDocumentBuf::new();
        for (field, shown) in [("n", cstr!("n")), ("nModified", cstr!("nModified"))] {
            if let Ok(Some(value)) = done.as_ref().map_or(Ok(None), |reply| reply.get(field)) {
                changed.append(shown, value);
            }
        }
        let ended = Ended {
            connection: request.session,
            door: "mongo",
            name,
            kind,
            database: request.database,
            namespace: &namespace,
            took,
            plan: self.interrupt.plan(),
            waits: matches!(name, "hello" | "isMaster") || name == "getMore" && returned == Some(0),
            of_profile: name == "profile"
                || request.collection_name().is_ok_and(|name| name == "system.profile"),
            returned,
            bytes: done.as_ref().map_or(0, |reply| reply.as_bytes().len()),
            changed,
            error: done.as_ref().err().map(|error| (error.code, &*error.name, &*error.message)),
        };
        operations.record(&ended, request.body());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        drop(self.entered.take());
        self.request.session.operation.end(self.opid, self.before.take());
    }
}

/// A command that waits until it can begin, for others to see, and then [runs](Running) as the same operation.
pub(crate) struct Waiting<'r> {
    session: &'r Session,
    opid: i32,
    before: Option<Info>,
    interrupt: Arc<Interrupt>,
    /// The client waits for a reply.
    answered: bool,
}

impl<'r> Waiting<'r> {
    /// Lists `request`, until the result is dropped.
    ///
    /// # Errors
    /// Those of a `maxTimeMS` that is none.
    pub(crate) fn begin(request: &Request<'r>) -> Result<Waiting<'r>, CommandError> {
        let (session, opid, interrupt) =
            (request.session, request.context.operations.next(), interrupt(request)?);
        let info = info(request, opid, namespace(request).0, &interrupt, true);
        let before = session.operation.replace(info);
        Ok(Waiting { session, opid, before, interrupt, answered: !request.message.more_to_come })
    }

    /// Whether it may go on waiting.
    ///
    /// # Errors
    /// `Interrupted`, `MaxTimeMSExpired`; `ClientDisconnect` if nobody waits for its reply any more, who may have sent it again. Then nothing that the
    /// client has sent after it is executed either.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.answered && self.session.client_hung_up() {
            self.session.hang_up();
            return Err(CommandError::new(ProtocolCode::ClientDisconnect, "the client has disconnected"));
        }
        Ok(self.interrupt.check()?)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.session.operation.end(self.opid, self.before.take());
    }
}

/// What stops a command.
///
/// # Errors
/// Those of a `maxTimeMS` that is none.
fn interrupt(request: &Request<'_>) -> Result<Arc<Interrupt>, CommandError> {
    Ok(Arc::new(Interrupt::new(time_limit(request)?).holding(request.message.reserved())))
}

/// What others see of a command.
fn info(
    request: &Request<'_>,
    opid: i32,
    namespace: String,
    interrupt: &Arc<Interrupt>,
    waits_for_lock: bool,
) -> Info {
    let mut command = request.session.operation.buffer();
    show(request.body(), &mut command);
    Info {
        opid,
        kind: Kind::of(request.command.name),
        lock: lock(request),
        name: request.command.name,
        namespace,
        began: Instant::now(),
        session: ClientSession::of(&request.fields),
        interrupt: Arc::clone(interrupt),
        command,
        waits_for_lock,
    }
}

/// Whether the last stage of an `aggregate` writes.
pub(crate) fn writes_its_result(command: &RawDocument) -> bool {
    // Of a field that is repeated the last counts, as where the command reads it.
    let pipeline =
        command.iter().filter_map(Result::ok).filter(|(name, _)| name.as_str() == "pipeline").last();
    let last = pipeline.and_then(|(_, stages)| stages.as_array()?.into_iter().last());
    let last = last.and_then(Result::ok).and_then(|stage| stage.as_document()?.iter().next()?.ok());
    last.is_some_and(|(name, _)| matches!(name.as_str(), "$out" | "$merge"))
}

/// What a command does with its collection.
fn lock(request: &Request<'_>) -> Access {
    match request.command.name {
        "find" | "getMore" | "count" | "distinct" | "explain" | "collStats" | "dataSize" | "dbHash"
        | "listIndexes" | "validate" => Access::Reads,
        "aggregate" if !writes_its_result(request.body()) => Access::Reads,
        "aggregate"
        | "bulkWrite"
        | "collMod"
        | "compact"
        | "convertToCapped"
        | "create"
        | "createIndexes"
        | "createSearchIndexes"
        | "delete"
        | "drop"
        | "dropDatabase"
        | "dropIndexes"
        | "dropSearchIndex"
        | "findAndModify"
        | "insert"
        | "reIndex"
        | "renameCollection"
        | "update"
        | "updateSearchIndex" => Access::Writes,
        _ => Access::Neither,
    }
}

/// How many statements of a write were executed: an ordered one ends with the first that fails.
fn executed(reply: &RawDocument, request: &Request<'_>, list: &str) -> u64 {
    let failed = reply.get_array("writeErrors").ok().and_then(|errors| errors.into_iter().last());
    let failed =
        failed.and_then(Result::ok).and_then(|error| error.as_document()?.get("index").ok().flatten());
    let is_ordered = request.body().get_bool("ordered").unwrap_or(true);
    match failed.and_then(number).filter(|_| is_ordered) {
        Some(index) => index as u64 + 1,
        None => request.statement_count(list),
    }
}

/// When a command has to end. Cursors have their own limit, which counts from batch to batch.
fn time_limit(request: &Request<'_>) -> Result<Option<Instant>, CommandError> {
    if request.command.name == "getMore" {
        return Ok(None);
    }
    match request.fields.max_time {
        Some(limit) => {
            let limit = Arg::new(request.command.name, "maxTimeMS", limit);
            Ok(Deadline::after(limit.count()?).instant())
        }
        None => Ok(None),
    }
}

/// The namespace of a command, and whether it is a collection whose operations are counted.
fn namespace(request: &Request<'_>) -> (String, bool) {
    let name = match request.command.name {
        "getMore" => request.body().get("collection").ok().flatten(),
        _ => request.subject().ok(),
    };
    let about = request.is_about_a_collection();
    match name.and_then(|name| name.as_str()) {
        Some(collection) if about => {
            let name = [request.database, ".", cut(collection)].concat();
            (name, !collection.starts_with("$cmd"))
        }
        _ => ([request.database, ".$cmd"].concat(), false),
    }
}

/// How many documents a reply has in its batch; `None` if it has no batch.
fn documents_in(reply: &RawDocument) -> Option<i64> {
    let cursor = reply.get_document("cursor").ok()?;
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch")).ok()?;
    Some(i64::try_from(batch.into_iter().count()).unwrap_or(i64::MAX))
}
