//! Execution of requests: one function per request, from its fields to the bytes of its answer.
//!
//! Key/value tables of the wire are the store's tables `kv/NAME`, so that no request can touch the tables that
//! collections live in. A program that opens the directory itself finds them under that name.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bson::{Bson, RawDocument, RawDocumentBuf};
use treedb_collections::{
    Collection, Cursor, Database, DeleteRequest, ErrorCode, FindRequest, IndexSpec, QueryError, SearchIndex,
    UpdateRequest, VectorSearchRequest,
};
use treedb_protocol::call::{
    Ack, Authenticate, BatchWriter, Challenge, Count, CreateIndex, Delete, DocumentError, EntriesWriter,
    Find, Get, Insert, Inserted, KvBatch, KvDelete, KvGet, KvPut, KvRange, ListIndexes, Next, Op, Pull,
    Request, Update, Updated, VectorSearch,
};
use treedb_protocol::frame::{self, ANSWER, ERROR, Header, MAX_BODY, opcode};
use treedb_query::access::Flow;
use treedb_query::doc::{self, Doc, Limits, Origin, Value};
use treedb_query::query::{self, NearestQuery};
use treedb_storage::{Batch as KvChanges, Durability, Reads, TableKind};

use super::cursors::Cursors;
use super::failure::Failure;
use super::permission;
use super::prepared::{Kind, Statement, Statements};
use super::pull::Pulls;
use super::running::{Place, Running, Stop, Waiting};
use crate::access::Access;
use crate::access::identity::{Identity, Step};
use crate::metrics::NativeCounts;
use crate::operations::{Connection, Operations, Slots};
use crate::stream::Peer;

/// Bytes after which a batch of documents or entries ends.
const BATCH_BYTES: usize = 1 << 20;

/// Documents or entries of a batch whose size the client leaves to the server.
const BATCH_COUNT: u32 = 4096;

/// Nesting of a filter, update, sort or projection: a document's own, and a few operators around it.
const LIMITS: Limits = Limits { size: 2 * doc::MAX_DOCUMENT_SIZE, depth: doc::MAX_DEPTH + 8 };

/// Documents of a find that is tried without a cursor. If they are too long for one batch it is executed again, with one.
const LENT: u64 = 100;

/// Changes that a short batch of keys and values has at most.
const SHORT_BATCH: usize = 100;

pub(super) type Done = Result<(), Failure>;

/// A cursor, and the collection that it reads.
pub(crate) struct Opened {
    cursor: Cursor,
    namespace: Box<str>,
}

/// The state that the requests of one connection share.
pub(crate) struct Session {
    database: Database,
    access: Arc<Access>,
    identity: Identity,
    /// Of the connection, since the server started.
    number: i32,
    operations: Arc<Operations>,
    /// What it runs.
    slots: Slots,
    cursors: Cursors<Opened>,
    pub(super) statements: Statements,
    pub(super) pulls: Pulls,
    pace: Pace,
    counts: NativeCounts,
    /// The client, if this is a connection.
    peer: Option<Peer>,
    /// The client had closed its side when a write of it might have begun that had waited.
    client_hung_up: AtomicBool,
}

/// A request that took no longer than this is short.
const SHORT: Duration = Duration::from_millis(1);

/// Bytes of an insert that is short: it takes about a millisecond.
const SHORT_INSERT: u32 = 64 * 1024;

/// Opcodes are below this.
const OPCODES: usize = 0x40;

/// True for requests that change or read a few documents or entries, whatever there is besides.
fn is_small(header: &Header, body: &[u8]) -> bool {
    let by_id = |filter: &RawDocument| match filter.iter().next() {
        // A document may have operators, and a regular expression matches any number.
        Some(Ok((name, value))) => {
            name == "_id" && value.as_document().is_none() && value.as_regex().is_none()
        }
        _ => false,
    };
    match Request::read(header, body) {
        Ok(Some(Request::KvBatch(batch))) => batch.ops.len() <= SHORT_BATCH,
        Ok(Some(Request::Find(find))) => by_id(find.filter),
        Ok(Some(Request::Update(update))) => by_id(update.filter),
        Ok(Some(Request::Delete(delete))) => by_id(delete.filter),
        Ok(Some(Request::KvPut(_) | Request::KvDelete(_))) => true,
        _ => false,
    }
}

/// How long the last request of each kind took on a connection, which is the best guess at the next one.
struct Pace([AtomicU32; OPCODES]);

impl Pace {
    /// Nothing has been measured: everything is long.
    fn new() -> Self {
        Pace([const { AtomicU32::new(u32::MAX) }; OPCODES])
    }

    fn note(&self, opcode: u16, took: Duration) {
        if let Some(last) = self.0.get(usize::from(opcode)) {
            last.store(u32::try_from(took.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    fn is_short(&self, opcode: u16) -> bool {
        let last = self.0.get(usize::from(opcode)).map_or(u32::MAX, |last| last.load(Ordering::Relaxed));
        Duration::from_micros(u64::from(last)) <= SHORT
    }
}

impl Session {
    /// The state of the connection of this number, from this address. What it has open is counted by `counts`.
    pub(crate) fn new(
        database: Database,
        access: Arc<Access>,
        operations: Arc<Operations>,
        counts: NativeCounts,
        number: i32,
        peer: SocketAddr,
    ) -> Self {
        Session {
            database,
            access,
            identity: Identity::new(peer),
            number,
            operations,
            slots: Slots::default(),
            cursors: Cursors::new(counts.clone()),
            statements: Statements::new(counts.statements.clone()),
            pulls: Pulls::new(counts.pulls.clone()),
            pace: Pace::new(),
            counts,
            peer: None,
            client_hung_up: AtomicBool::new(false),
        }
    }

    /// The statement that a frame executes, whose body begins with `body`. It is looked up once, and goes with the frame.
    pub(crate) fn statement(&self, header: &Header, body: &[u8]) -> Option<Arc<Statement>> {
        match header.opcode {
            opcode::EXECUTE => self.statements.get(u32::from_le_bytes(*body.first_chunk()?)),
            _ => None,
        }
    }

    /// True for requests that read at most a few pages, or find out that they do not ([`Stop::Elsewhere`]): all of a connection may wait for
    /// them.
    pub(crate) fn is_quick(&self, header: &Header, statement: Option<&Statement>) -> bool {
        match header.opcode {
            opcode::EXECUTE => statement.is_some_and(|found| matches!(found.kind(), Kind::Get)),
            opcode::PREPARE | opcode::FORGET | opcode::CREDIT => true,
            opcode::PING | opcode::GET | opcode::KV_GET | opcode::CLOSE => true,
            _ => false,
        }
    }

    /// True for requests that are probably done soon. One that is alone on its connection is then executed by the thread that has read it: to
    /// hand it to another one costs more than most requests do. Inserts are short up to [`SHORT_INSERT`], whatever the last one took, while the
    /// connection sends no batches of a cursor. A guess may be wrong, as about a write that waits for a transaction: what the client sends
    /// meanwhile is read after it.
    pub(crate) fn is_short(&self, header: &Header, body: &[u8], statement: Option<&Statement>) -> bool {
        match header.opcode {
            opcode::INSERT => header.length <= SHORT_INSERT && !self.pulls.any(),
            opcode::EXECUTE => statement.is_some_and(|statement| match statement.kind() {
                Kind::Insert(_) => header.length <= SHORT_INSERT && !self.pulls.any(),
                _ => statement.last() <= SHORT || statement.is_by_id(),
            }),
            // Its answer is not one frame.
            opcode::PULL => false,
            // The last one says nothing about how long the next one takes.
            opcode::CREATE_INDEX | opcode::DROP_INDEX | opcode::UPDATE_SEARCH_INDEX => false,
            opcode => self.pace.is_short(opcode) || is_small(header, body),
        }
    }

    /// True for requests that write.
    pub(crate) fn is_write(&self, header: &Header, statement: Option<&Statement>) -> bool {
        match header.opcode {
            opcode::EXECUTE => statement.is_some_and(|statement| {
                matches!(statement.kind(), Kind::Insert(_) | Kind::Update { .. } | Kind::Delete(_))
            }),
            opcode::INSERT | opcode::UPDATE | opcode::DELETE => true,
            opcode::CREATE_INDEX | opcode::DROP_INDEX | opcode::UPDATE_SEARCH_INDEX => true,
            opcode::KV_PUT | opcode::KV_DELETE | opcode::KV_BATCH => true,
            _ => false,
        }
    }

    /// Remembers how long a request took.
    pub(crate) fn note(&self, header: &Header, statement: Option<&Statement>, took: Duration) {
        match statement {
            Some(statement) => statement.note(took),
            None => self.pace.note(header.opcode, took),
        }
    }

    /// The most bytes that a request builds from what it says, of which `body` is the beginning.
    pub(crate) fn builds(&self, header: &Header, body: &[u8]) -> usize {
        self.statement(header, body).map_or(0, |statement| statement.builds(body, header.length as usize))
    }

    /// The operations of the server.
    pub(super) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Counts documents that the client gets.
    pub(super) fn count_returned(&self, documents: u64) {
        self.counts.returned.inc_by(documents);
    }

    /// The collection that a cursor reads, unless it is being read.
    pub(super) fn namespace_of(&self, cursor: u64) -> Option<String> {
        self.cursors.look(cursor, |opened| opened.namespace.to_string())
    }

    /// Whether the client may send long frames.
    pub(crate) fn is_trusted(&self) -> bool {
        self.access.trusts(&self.identity)
    }

    /// The same, of this client.
    pub(super) fn with_peer(self, peer: Peer) -> Self {
        Session { peer: Some(peer), ..self }
    }

    /// Looks whether the client has closed its side.
    pub(super) fn look_for_peer(&self) -> bool {
        let hung_up = self.peer.as_ref().is_some_and(Peer::has_closed);
        if hung_up {
            self.client_hung_up.store(true, Ordering::Relaxed);
        }
        hung_up
    }

    /// Whether [`Self::look_for_peer`] has found that the client has closed its side.
    pub(super) fn client_hung_up(&self) -> bool {
        self.client_hung_up.load(Ordering::Relaxed)
    }

    /// Lists a request among the operations while it waits until it can begin.
    ///
    /// # Errors
    /// It cannot be read, or the client may not make it.
    pub(super) fn waits(
        self: &Arc<Self>,
        header: &Header,
        body: &[u8],
        statement: Option<&Statement>,
    ) -> Result<Waiting, Failure> {
        let Some(request) = Request::read(header, body)? else { return Err(Self::unknown(header)) };
        permission::check(&self.access, &self.identity, header.opcode, &request, statement)?;
        Ok(Waiting::begin(self, header, &request, (body.len(), statement)))
    }

    fn unknown(header: &Header) -> Failure {
        let message = format!("opcode {:#06x} does not exist in version {}", header.opcode, frame::VERSION);
        Failure::new(ErrorCode::CommandNotFound, message)
    }

    /// The connection's cursors.
    pub(crate) fn cursors(&self) -> &Cursors<Opened> {
        &self.cursors
    }

    /// Executes the request in a frame, with the statement that it executes, and appends the frame of the answer. Returns whether that is
    /// an error; `None` if nothing was appended, because the request is to be executed on a thread of its own.
    pub(crate) fn answer(
        &self,
        header: &Header,
        body: &[u8],
        statement: Option<&Statement>,
        place: Place<'_>,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let done = frame::put(out, header.opcode | ANSWER, 0, header.request, |out| {
            self.run(header, body, statement, place, out)
        });
        match done {
            Ok(()) => Some(false),
            Err(Stop::Elsewhere) => None,
            Err(Stop::Failed(error)) => {
                encode_error(&error, 0, header.request, out);
                Some(true)
            }
        }
    }

    fn run(
        &self,
        header: &Header,
        body: &[u8],
        statement: Option<&Statement>,
        place: Place<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let Some(request) = Request::read(header, body)? else { return Err(Self::unknown(header).into()) };
        // First: who may do nothing does not learn which statements there are.
        permission::check(&self.access, &self.identity, header.opcode, &request, statement)?;
        let (mut running, before) =
            (Running::begin(self, header, &request, statement, (body.len(), place)), out.len());
        let done = match self.carry_out(request, statement, &mut running, out) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
            // It is counted when it is executed.
            Err(Stop::Elsewhere) => return Err(Stop::Elsewhere),
        };
        running.finish(&done, out.get(before..).unwrap_or_default());
        Ok(done?)
    }

    /// Executes a request of somebody who may make it.
    fn carry_out(
        &self,
        request: Request<'_>,
        statement: Option<&Statement>,
        running: &mut Running<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let done = match request {
            Request::Prepare(prepare) => self.prepare(&prepare, out),
            Request::Execute(execute) => match statement {
                Some(statement) => return self.execute(statement, &execute, running, out),
                None => {
                    let number = execute.statement;
                    let message = format!("statement {number} does not exist on this connection: prepare it");
                    Err(Failure::new(ErrorCode::BadValue, message))
                }
            },
            Request::Forget(forget) => {
                out.push(u8::from(self.statements.forget(forget.statement)));
                Ok(())
            }
            Request::Pull(_) => {
                let message = "a pull is answered by frames of its own, which only a connection sends";
                Err(Failure::new(ErrorCode::IllegalOperation, message))
            }
            Request::Credit(credit) => {
                out.push(u8::from(self.pulls.credit(credit.cursor, credit.batches)?));
                Ok(())
            }
            Request::Ping(ping) => {
                out.extend_from_slice(ping.payload);
                Ok(())
            }
            Request::Authenticate(begin) => {
                let Authenticate { database, mechanism, payload } = begin;
                answered(self.identity.begin(&self.access, database, mechanism, payload, true)?, out)
            }
            Request::Prove(prove) => {
                answered(self.identity.proceed(&self.access, prove.exchange, prove.payload)?, out)
            }
            Request::Insert(insert) => self.insert(&insert, out),
            Request::Get(get) => return self.get(&get, running, out),
            Request::Find(find) => return self.find(&find, running, out),
            Request::Next(next) => self.next(next, out),
            Request::Close(close) => {
                self.pulls.close(close.cursor);
                let existed = self.cursors.close(close.cursor);
                out.push(u8::from(existed));
                Ok(())
            }
            Request::Update(update) => self.update(&update, out),
            Request::Delete(delete) => self.delete(&delete, out),
            Request::Count(count) => return self.count(&count, running, out),
            Request::VectorSearch(search) => self.vector_search(search, out),
            Request::CreateIndex(create) => self.create_index(&create, out),
            Request::ListIndexes(list) => self.list_indexes(&list, out),
            Request::DropIndex(drop) => {
                let collection = self.collection(drop.namespace, Ack::Server)?;
                let search = collection.search_indexes()?.unwrap_or_default();
                if search.iter().any(|index| index.name == drop.name) {
                    permission::check_drop_search_index(&self.access, &self.identity, drop.namespace)?;
                }
                Ok(collection.drop_index(drop.name)?)
            }
            Request::UpdateSearchIndex(update) => {
                let definition = valid(update.definition)?;
                let collection = self.collection(update.namespace, Ack::Server)?;
                Ok(collection.update_search_index(update.name, &definition)?)
            }
            Request::KvGet(get) => self.kv_get(&get, out),
            Request::KvPut(put) => self.kv_put(&put),
            Request::KvDelete(delete) => self.kv_delete(&delete, out),
            Request::KvRange(range) => self.kv_range(&range, out),
            Request::KvBatch(batch) => self.kv_batch(&batch),
            _ => Err(Failure::unknown()),
        };
        Ok(done?)
    }

    pub(super) fn collection(&self, namespace: &str, ack: Ack) -> Result<Collection, Failure> {
        let collection = self.database.collection(namespace)?;
        Ok(match durability(ack) {
            Some(durability) => collection.with_durability(durability),
            None => collection,
        })
    }

    fn insert(&self, insert: &Insert<'_>, out: &mut Vec<u8>) -> Done {
        let collection = self.collection(insert.namespace, insert.ack)?;
        self.insert_into(&collection, &insert.documents, insert.ordered, Origin::Program, out)
    }

    /// Inserts documents, and appends which were refused.
    pub(super) fn insert_into(
        &self,
        collection: &Collection,
        documents: &[&RawDocument],
        ordered: bool,
        origin: Origin,
        out: &mut Vec<u8>,
    ) -> Done {
        let outcome = collection.insert_many_of(documents, ordered, origin)?;
        let errors = outcome.errors.into_iter().map(|(index, error)| DocumentError {
            // A request holds fewer documents than a u32 can count.
            index: u32::try_from(index).unwrap_or(u32::MAX),
            error: Failure::from(error).0,
        });
        let count = u32::try_from(outcome.inserted).unwrap_or(u32::MAX);
        Ok(Inserted { count, errors: errors.collect() }.answer(out)?)
    }

    fn get(&self, get: &Get<'_>, running: &mut Running<'_>, out: &mut Vec<u8>) -> Result<(), Stop> {
        checked(get.id)?;
        let Some(id) = Doc::from(get.id).elements().next() else {
            return Err(Failure::new(ErrorCode::InvalidBSON, "the _id is damaged").into());
        };
        get_by_id(&self.collection(get.namespace, Ack::Server)?, id.value(), running, out)
    }

    fn find(&self, find: &Find<'_>, running: &mut Running<'_>, out: &mut Vec<u8>) -> Result<(), Stop> {
        let request = FindRequest {
            filter: Some(valid(find.filter)?),
            sort: find.sort.map(valid).transpose()?,
            projection: find.projection.map(valid).transpose()?,
            skip: find.skip,
            limit: find.limit,
            ..FindRequest::default()
        };
        let collection = self.collection(find.namespace, Ack::Server)?;
        running.beware_of_views(&collection)?;
        Ok(self.first_batch(&collection, request, find.batch, out)?)
    }

    /// Executes a find, and keeps its cursor if there is more than a batch.
    pub(super) fn first_batch(
        &self,
        collection: &Collection,
        request: FindRequest,
        wanted: u32,
        out: &mut Vec<u8>,
    ) -> Done {
        let fits = (1..=lent(wanted)).contains(&request.limit);
        if fits
            && lend_all(wanted, out, &mut |visit| Ok(collection.for_each(&request, visit).map(|()| true)?))?
        {
            return Ok(());
        }
        let mut cursor = collection.find(request)?;
        let batch = fill(&mut cursor, wanted, out)?;
        let id = match cursor.has_next()? {
            true => {
                let namespace = collection.namespace().as_str().into();
                self.cursors.keep(Opened { cursor, namespace })?
            }
            false => 0,
        };
        batch.finish(id, out);
        Ok(())
    }

    fn vector_search(&self, search: VectorSearch<'_>, out: &mut Vec<u8>) -> Done {
        let VectorSearch {
            namespace,
            index,
            limit,
            candidates,
            exact,
            vector,
            filter,
            projection,
            within,
            path,
        } = search;
        let request = VectorSearchRequest {
            candidates: match NearestQuery::at_most("candidates", candidates as usize)? {
                0 => None,
                candidates => Some(candidates),
            },
            path: path.map(str::to_owned),
            exact,
            within,
            projection: projection.map(valid).transpose()?,
            ..VectorSearchRequest::new(index, vector, NearestQuery::at_most("limit", limit as usize)?)
        };
        let request = request.filter(valid(filter)?);
        let found = self.collection(namespace, Ack::Server)?.vector_search(&request)?;
        fits(found.iter().map(|found| found.document.as_bytes().len() + 12).sum())?;
        let found = found.iter().map(|found| (found.distance, found.score, &*found.document));
        Ok(VectorSearch::answer(found, out)?)
    }

    fn create_index(&self, create: &CreateIndex<'_>, out: &mut Vec<u8>) -> Done {
        let spec = IndexSpec::from_document(&valid(create.spec)?);
        let name = self.collection(create.namespace, Ack::Server)?.create_index(spec)?;
        Ok(CreateIndex::answer(&name, out)?)
    }

    fn list_indexes(&self, list: &ListIndexes<'_>, out: &mut Vec<u8>) -> Done {
        let collection = self.collection(list.namespace, Ack::Server)?;
        let mut listed = Vec::new();
        for index in collection.indexes()?.unwrap_or_default() {
            listed.push(RawDocumentBuf::try_from(&index).map_err(QueryError::from)?);
        }
        if permission::may_list_search_indexes(&self.access, &self.identity, list.namespace)? {
            let search = collection.search_indexes()?.unwrap_or_default();
            listed.extend(search.iter().map(SearchIndex::listed));
        }
        Ok(ListIndexes::answer(&listed, out)?)
    }

    /// Closes cursors that have not been used for `idle`, and ends their pulls. Returns how many those were.
    pub(crate) fn close_idle(&self, idle: Duration) -> usize {
        let closed = self.cursors.reap(idle);
        closed.iter().for_each(|&cursor| self.pulls.expire(cursor));
        closed.len()
    }

    fn next(&self, next: Next, out: &mut Vec<u8>) -> Done {
        // The batches of a pull are its own.
        let cursor = self.pulls.unless_pulled(next.cursor, |_| self.cursors.take(next.cursor))?;
        self.batch_from(cursor, next, out).map(drop)
    }

    /// Refuses to let somebody pull who may not read.
    pub(super) fn may_pull(&self, header: &Header, pull: &Pull) -> Done {
        permission::check(&self.access, &self.identity, header.opcode, &Request::Pull(*pull), None)
    }

    /// Appends the next batch of a cursor that is pulled. True if there is another after it.
    pub(super) fn pulled_batch(
        &self,
        header: &Header,
        pull: &Pull,
        out: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        let request = Request::Pull(*pull);
        let running = Running::begin(self, header, &request, None, (0, Place::Own(None)));
        let before = out.len();
        let next = Next { cursor: pull.cursor, batch: pull.batch };
        let mut more = false;
        let done = self.cursors.take(next.cursor).and_then(|opened| {
            more = self.batch_from(opened, next, out)?;
            Ok(())
        });
        running.finish(&done, out.get(before..).unwrap_or_default());
        done.map(|()| more)
    }

    /// Appends the next batch of a cursor that has been taken out of its slot. True if there is another after it. Who may no longer read the
    /// collection gets none.
    fn batch_from(&self, mut opened: Opened, next: Next, out: &mut Vec<u8>) -> Result<bool, Failure> {
        if let Err(error) = permission::check_find(&self.access, &self.identity, &opened.namespace) {
            self.cursors.put_back(next.cursor, opened);
            return Err(error);
        }
        let cursor = &mut opened.cursor;
        let filled = fill(cursor, next.batch, out).and_then(|batch| Ok((batch, cursor.has_next()?)));
        match filled {
            Ok((batch, true)) => {
                self.cursors.put_back(next.cursor, opened);
                batch.finish(next.cursor, out);
                Ok(true)
            }
            Ok((batch, false)) => {
                self.cursors.close(next.cursor);
                batch.finish(0, out);
                Ok(false)
            }
            // Its position is lost, so it cannot be continued.
            Err(error) => {
                self.cursors.close(next.cursor);
                Err(error)
            }
        }
    }

    fn update(&self, update: &Update<'_>, out: &mut Vec<u8>) -> Done {
        let request = UpdateRequest {
            multi: update.multi,
            upsert: update.upsert,
            ..UpdateRequest::one(valid(update.filter)?, valid(update.update)?)
        };
        self.update_in(&self.collection(update.namespace, update.ack)?, request, out)
    }

    /// Updates documents, and appends how many.
    pub(super) fn update_in(
        &self,
        collection: &Collection,
        request: UpdateRequest,
        out: &mut Vec<u8>,
    ) -> Done {
        let outcome = collection.update(request)?;
        let upserted = outcome.upserted.map(id_document).transpose()?;
        Updated { matched: outcome.matched, modified: outcome.modified, upserted }.answer(out);
        Ok(())
    }

    fn delete(&self, delete: &Delete<'_>, out: &mut Vec<u8>) -> Done {
        let request = DeleteRequest { limit: delete.limit, ..DeleteRequest::many(valid(delete.filter)?) };
        let deleted = self.collection(delete.namespace, delete.ack)?.delete(request)?;
        out.extend_from_slice(&deleted.to_le_bytes());
        Ok(())
    }

    fn count(&self, count: &Count<'_>, running: &mut Running<'_>, out: &mut Vec<u8>) -> Result<(), Stop> {
        let request = FindRequest::filter(valid(count.filter)?).skip(count.skip).limit(count.limit);
        let collection = self.collection(count.namespace, Ack::Server)?;
        running.beware_of_views(&collection)?;
        let counted = collection.count(request)?;
        out.extend_from_slice(&counted.to_le_bytes());
        Ok(())
    }

    fn kv_get(&self, get: &KvGet<'_>, out: &mut Vec<u8>) -> Done {
        let reads = self.database.store().snapshot()?;
        let value = match reads.table(&table_name(get.table)?)? {
            Some(table) => reads.get(&table, get.key)?,
            None => None,
        };
        if let Some(value) = value.filter(|value| value.len() > MAX_BODY as usize / 2) {
            fits(value.len())?;
        }
        Ok(KvGet::answer(value, out)?)
    }

    fn kv_put(&self, put: &KvPut<'_>) -> Done {
        let mut txn = self.database.store().begin_write()?;
        let table = txn.open_table(&table_name(put.table)?, TableKind::Ordered)?;
        txn.put(&table, put.key, put.value)?;
        Ok(commit(txn, put.ack)?)
    }

    fn kv_delete(&self, delete: &KvDelete<'_>, out: &mut Vec<u8>) -> Done {
        let mut txn = self.database.store().begin_write()?;
        let existed = match txn.table(&table_name(delete.table)?)? {
            Some(table) => txn.delete(&table, delete.key)?,
            None => false,
        };
        if existed {
            commit(txn, delete.ack)?;
        }
        out.push(u8::from(existed));
        Ok(())
    }

    fn kv_batch(&self, batch: &KvBatch<'_>) -> Done {
        let mut txn = self.database.store().begin_write()?;
        let table = txn.open_table(&table_name(batch.table)?, TableKind::Ordered)?;
        let mut changes = KvChanges::new();
        for op in &batch.ops {
            match *op {
                Op::Put(key, value) => changes.put(&table, key, value)?,
                Op::Delete(key) => changes.delete(&table, key)?,
            }
        }
        txn.write(&changes)?;
        Ok(commit(txn, batch.ack)?)
    }

    fn kv_range(&self, range: &KvRange<'_>, out: &mut Vec<u8>) -> Done {
        let most = if range.entries == 0 { BATCH_COUNT } else { range.entries };
        let bytes = if range.bytes == 0 { BATCH_BYTES } else { BATCH_BYTES.min(range.bytes as usize) };
        let mut entries = EntriesWriter::new(out);
        let reads = self.database.store().snapshot()?;
        let Some(table) = reads.table(&table_name(range.table)?)? else {
            entries.finish(false, out);
            return Ok(());
        };
        let mut walk = reads.range(&table, (range.low, range.high))?;
        let more = loop {
            let entry = if range.descending { walk.next_back() } else { walk.next() };
            let Some(entry) = entry else { break false };
            let (key, value) = entry?;
            let longer = entries.bytes(out) + key.len() + value.len();
            if entries.count() > 0 && (entries.count() >= most || longer > bytes) {
                break true;
            }
            fits(key.len() + value.len())?;
            entries.push(&key, value, out)?;
        };
        entries.finish(more, out);
        Ok(())
    }
}

impl Connection for Session {
    fn number(&self) -> i32 {
        self.number
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn metadata(&self) -> Option<&RawDocument> {
        None
    }

    fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// The answer of a step of an authentication.
fn answered(step: Step, out: &mut Vec<u8>) -> Done {
    Ok(Challenge { exchange: step.id, payload: step.payload }.answer(out)?)
}

/// The error frame of `error`.
pub(crate) fn encode_error(error: &Failure, flags: u16, request: u64, out: &mut Vec<u8>) {
    // Writing an error fails only for a code name of 64 KiB, and then there is no answer.
    let _ = frame::put(out, ERROR, flags, request, |out| error.0.write(out));
}

/// The collection, to write with this acknowledgement.
pub(super) fn with_ack(collection: &Collection, ack: Ack) -> Cow<'_, Collection> {
    match durability(ack) {
        Some(durability) => Cow::Owned(collection.with_durability(durability)),
        None => Cow::Borrowed(collection),
    }
}

/// Appends the answer of a get: the document whose `_id` equals `id`, straight from where it lies, if it is in a collection.
pub(super) fn get_by_id(
    collection: &Collection,
    id: Value<'_>,
    running: &mut Running<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let found = collection.lend_by_id(id, &mut |document| {
        Get::answer(Some(document), out);
        Ok(())
    })?;
    match found {
        Some(true) => {}
        Some(false) => Get::answer(None, out),
        None => {
            running.takes_long()?;
            Get::answer(collection.find_by_id(id)?.as_deref(), out);
        }
    }
    Ok(())
}

/// Lends documents to the function that it is given until that breaks; false if it cannot.
type Lends<'l> = dyn FnMut(&mut dyn FnMut(&RawDocument) -> query::Result<Flow>) -> Result<bool, Failure> + 'l;

/// Appends the answer of a find whose documents all belong in one batch, straight from where they lie. False, and nothing appended, if `lends`
/// cannot lend them, they are too long for one batch, or there may be more than [`lent`].
pub(super) fn lend_all(wanted: u32, out: &mut Vec<u8>, lends: &mut Lends<'_>) -> Result<bool, Failure> {
    let before = out.len();
    let most = lent(wanted);
    let (mut batch, mut longer) = (BatchWriter::new(out), false);
    let lent = lends(&mut |document| {
        // The last document may be the one that is too much; a batch that begins with it would have it.
        longer = batch.bytes(out) >= BATCH_BYTES || u64::from(batch.count()) >= most;
        if longer {
            return Ok(Flow::Break(()));
        }
        batch.push(document, out);
        Ok(Flow::Continue(()))
    })?;
    if longer || !lent {
        out.truncate(before);
        return Ok(false);
    }
    batch.finish(0, out);
    Ok(true)
}

/// How many documents a find without a cursor has at most.
fn lent(wanted: u32) -> u64 {
    u64::from(batch_of(wanted)).min(LENT)
}

/// How many documents a batch has at most.
fn batch_of(wanted: u32) -> u32 {
    if wanted == 0 { BATCH_COUNT } else { wanted }
}

/// Appends documents until the batch is full, or there are no more.
fn fill(cursor: &mut Cursor, wanted: u32, out: &mut Vec<u8>) -> Result<BatchWriter, Failure> {
    let most = batch_of(wanted);
    let mut batch = BatchWriter::new(out);
    while batch.count() < most && batch.bytes(out) < BATCH_BYTES {
        let Some(document) = cursor.next() else { break };
        batch.push(&document?, out);
    }
    Ok(batch)
}

fn durability(ack: Ack) -> Option<Durability> {
    match ack {
        Ack::Server => None,
        Ack::Durable => Some(Durability::Durable),
        Ack::Relaxed => Some(Durability::Relaxed),
        Ack::None => Some(Durability::None),
    }
}

fn commit(txn: treedb_storage::WriteTxn, ack: Ack) -> Result<(), treedb_collections::Error> {
    match durability(ack) {
        Some(durability) => txn.commit_with(durability),
        None => txn.commit(),
    }
}

/// What the store's names of the wire's tables begin with.
pub(crate) const TABLES: &str = "kv/";

/// The store's name for a table of the wire.
fn table_name(table: &str) -> Result<String, Failure> {
    if table.is_empty() {
        return Err(Failure::new(ErrorCode::BadValue, "table: the name is empty"));
    }
    Ok(format!("{TABLES}{table}"))
}

/// Refuses what cannot be sent in one frame.
fn fits(bytes: usize) -> Done {
    let limit = MAX_BODY as usize - 64;
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the value of {bytes} bytes does not fit into a frame, which holds {limit}");
    Err(Failure::new(ErrorCode::InvalidLength, message))
}

/// Looks at all of a document of a request.
pub(super) fn checked(document: &RawDocument) -> Done {
    doc::validate_with(document.as_bytes(), LIMITS)?;
    Ok(())
}

/// A document of a request, after looking at all of it.
fn valid(document: &RawDocument) -> Result<RawDocumentBuf, Failure> {
    checked(document)?;
    Ok(document.to_owned())
}

fn id_document(id: Bson) -> Result<RawDocumentBuf, Failure> {
    let document = bson::doc! { "_id": id };
    RawDocumentBuf::try_from(&document)
        .map_err(|error| Failure::new(ErrorCode::InternalError, error.to_string()))
}
