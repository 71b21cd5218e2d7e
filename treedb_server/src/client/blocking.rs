//! The blocking client: one call, one answer.

use std::net::ToSocketAddrs;
use std::time::Duration;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use super::connection::Connection;
use super::error::{Error, Result};
use super::pipeline::Pipeline;
use super::results::{Documents, Pairs, Stream};
use super::transport::Tls;
use crate::access::scram::{ClientExchange, Mechanism};
use crate::native::call::{
    Ack, Authenticate, Bound, Call, Count, CreateIndex, Delete, DropIndex, Execute, Execution, Find,
    FindWith, Forget, Get, GetWith, Insert, InsertWith, Inserted, KvBatch, KvDelete, KvGet, KvPut,
    ListIndexes, Neighbor, Op, Ping, Prepare, Prepared, Prove, Shape, Update, UpdateSearchIndex, UpdateWith,
    Updated, VectorSearch, Welcome, values,
};

/// A connection to a server's native port.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: Connection,
    ack: Ack,
}

/// `{_id: id}`.
pub(super) fn id_document(id: impl Into<RawBson>) -> RawDocumentBuf {
    let id: RawBson = id.into();
    rawdoc! { "_id": id }
}

impl Client {
    /// Connects to `address` and greets the server. Waits without limit.
    ///
    /// # Errors
    /// Nobody listens there, or not a TreeDB server's native port.
    pub fn connect(address: impl ToSocketAddrs) -> Result<Self> {
        Ok(Client { connection: Connection::open(address, None, None)?, ack: Ack::Server })
    }

    /// [`Self::connect`], with a limit to each wait, then and later. When it has passed, the connection has ended.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_timeout(address: impl ToSocketAddrs, timeout: Duration) -> Result<Self> {
        Ok(Client { connection: Connection::open(address, Some(timeout), None)?, ack: Ack::Server })
    }

    /// [`Self::connect`] through TLS, with a limit to each wait if one is given.
    ///
    /// # Errors
    /// As [`Self::connect`]; the server's certificate is not to be trusted.
    pub fn connect_tls(address: impl ToSocketAddrs, timeout: Option<Duration>, tls: &Tls) -> Result<Self> {
        Ok(Client { connection: Connection::open(address, timeout, Some(tls))?, ack: Ack::Server })
    }

    /// Authenticates as a user of `database`, by SCRAM-SHA-256.
    ///
    /// # Errors
    /// Code 18 for a wrong user or password; the server does not know the password; the connection's.
    pub fn authenticate(&mut self, database: &str, user: &str, password: &str) -> Result<()> {
        let mechanism = Mechanism::Sha256;
        let (mut exchange, first) = ClientExchange::new(mechanism, user, password)?;
        let begin = Authenticate { database, mechanism: mechanism.name(), payload: first.as_bytes() };
        let challenge = self.call(&begin)?;
        let proof = exchange.answer(&challenge.payload)?;
        let last = self.call(&Prove { exchange: challenge.exchange, payload: proof.as_bytes() })?;
        Ok(exchange.verify(&last.payload)?)
    }

    /// When the writes of this client are acknowledged, from now on.
    pub fn set_ack(&mut self, ack: Ack) {
        self.ack = ack;
    }

    /// What the server said of itself.
    pub fn server(&self) -> &Welcome {
        self.connection.welcome()
    }

    /// Makes any request and waits for its answer.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Answer> {
        let id = self.connection.submit(call)?;
        self.connection.wait::<C>(id)
    }

    /// Requests that do not wait for each other.
    pub fn pipeline(&mut self) -> Pipeline<'_> {
        Pipeline::new(&mut self.connection, self.ack)
    }

    /// Asks whether the server answers.
    ///
    /// # Errors
    /// It does not.
    pub fn ping(&mut self) -> Result<()> {
        self.call(&Ping { payload: &[] }).map(|_| ())
    }

    /// Inserts a document. Without an `_id` it gets one, which the server does not return.
    ///
    /// # Errors
    /// Code 11000 if the `_id`, or the key of a unique index, exists already.
    pub fn insert_one(&mut self, namespace: &str, document: &RawDocument) -> Result<()> {
        let insert = Insert { namespace, documents: vec![document], ordered: true, ack: self.ack };
        match self.call(&insert)?.errors.into_iter().next() {
            Some(failed) => Err(Error::Server(failed.error)),
            None => Ok(()),
        }
    }

    /// Inserts documents in one transaction. Refused documents are listed in the answer; if `ordered`, the
    /// first of them ends the insert, and those before it stay.
    ///
    /// # Errors
    /// Nothing was inserted.
    pub fn insert_many<D: AsRef<RawDocument>>(
        &mut self,
        namespace: &str,
        documents: &[D],
        ordered: bool,
    ) -> Result<Inserted> {
        let documents = documents.iter().map(AsRef::as_ref).collect();
        self.call(&Insert { namespace, documents, ordered, ack: self.ack })
    }

    /// The document with this `_id`.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn get(&mut self, namespace: &str, id: impl Into<RawBson>) -> Result<Option<RawDocumentBuf>> {
        self.call(&Get { namespace, id: &id_document(id) })
    }

    /// The documents that match, fetched in batches while they are iterated. All of them are of one snapshot.
    ///
    /// # Errors
    /// The filter, sort or projection is not valid.
    pub fn find(&mut self, find: &Find<'_>) -> Result<Documents<'_>> {
        Documents::new(self, find)
    }

    /// The same, but the server sends further batches while the first are iterated, as far as there is room for them here: no round trip
    /// for each. Better for many documents.
    ///
    /// What the server sends has to be taken: if the next document is not asked for in 30 seconds while the sockets are full of those before
    /// it, the server closes the connection. [`Self::find`] can be iterated as slowly as its cursor lives (10 minutes a batch). A stream that
    /// is dropped early reads what has been sent ahead, four batches at most.
    ///
    /// # Errors
    /// The filter, sort or projection is not valid.
    pub fn stream(&mut self, find: &Find<'_>) -> Result<Stream<'_>> {
        Stream::new(self, find)
    }

    /// Prepares a statement, to be executed on this connection with values only. See [`Shape`].
    ///
    /// # Errors
    /// A parameter is where it cannot be; the connection has too many statements.
    pub fn prepare(&mut self, namespace: &str, shape: Shape<'_>) -> Result<Prepared> {
        self.call(&Prepare { namespace, shape })
    }

    /// Forgets a statement; false if it had been forgotten.
    ///
    /// # Errors
    /// The connection's.
    pub fn forget(&mut self, statement: Prepared) -> Result<bool> {
        self.call(&Forget { statement: statement.statement })
    }

    /// Executes a statement of any kind with what it takes.
    ///
    /// # Errors
    /// Not as many values as the statement takes; as the request that was prepared.
    pub fn execute<E: Execution>(&mut self, statement: Prepared, with: E) -> Result<E::Answer> {
        self.call(&Execute { statement: statement.statement, with })
    }

    /// The document with this `_id`, by a statement ([`Shape::Get`]).
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_get(
        &mut self,
        statement: Prepared,
        id: impl Into<RawBson>,
    ) -> Result<Option<RawDocumentBuf>> {
        self.execute(statement, GetWith { values: &values([id]) })
    }

    /// The documents that match a filter with these values, by a statement ([`Shape::Find`]), `limit` of them at most (0: all).
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_find(
        &mut self,
        statement: Prepared,
        values: &RawDocument,
        limit: u64,
    ) -> Result<Documents<'_>> {
        let first = self.execute(statement, FindWith { batch: 0, skip: 0, limit, values })?;
        Ok(Documents::after(self, first))
    }

    /// Inserts documents of one shape, by a statement ([`Shape::Insert`]): for each the values. As [`Self::insert_many`].
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_insert<D: AsRef<RawDocument>>(
        &mut self,
        statement: Prepared,
        rows: &[D],
        ordered: bool,
    ) -> Result<Inserted> {
        let rows = rows.iter().map(AsRef::as_ref).collect();
        self.execute(statement, InsertWith { rows, ordered, ack: self.ack })
    }

    /// Changes the first document that matches, by a statement ([`Shape::Update`]).
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_update(&mut self, statement: Prepared, values: &RawDocument) -> Result<Updated> {
        self.execute(statement, UpdateWith { values, multi: false, upsert: false, ack: self.ack })
    }

    /// Changes the first document that matches: with operators (`{$set: {a: 1}}`), or as a replacement.
    ///
    /// # Errors
    /// The filter or the update is not valid.
    pub fn update_one(
        &mut self,
        namespace: &str,
        filter: &RawDocument,
        update: &RawDocument,
    ) -> Result<Updated> {
        self.call(&Update { ack: self.ack, ..Update::one(namespace, filter, update) })
    }

    /// Changes every document that matches.
    ///
    /// # Errors
    /// The filter or the update is not valid; nothing was changed then.
    pub fn update_many(
        &mut self,
        namespace: &str,
        filter: &RawDocument,
        update: &RawDocument,
    ) -> Result<Updated> {
        self.call(&Update { ack: self.ack, multi: true, ..Update::one(namespace, filter, update) })
    }

    /// Deletes the documents that match, `limit` of them at most (0: all), and returns how many they were.
    ///
    /// # Errors
    /// The filter is not valid.
    pub fn delete(&mut self, namespace: &str, filter: &RawDocument, limit: u64) -> Result<u64> {
        self.call(&Delete { namespace, limit, filter, ack: self.ack })
    }

    /// How many documents match.
    ///
    /// # Errors
    /// The filter is not valid.
    pub fn count(&mut self, namespace: &str, filter: &RawDocument) -> Result<u64> {
        self.call(&Count { namespace, skip: 0, limit: 0, filter })
    }

    /// The `limit` documents whose vectors are nearest to `vector` by a search index; see [`VectorSearch`] for a filter, a projection, a greatest distance and more.
    ///
    /// # Errors
    /// There is no such index, or it cannot compare the vector.
    pub fn vector_search(
        &mut self,
        namespace: &str,
        index: &str,
        vector: &[f32],
        limit: u32,
    ) -> Result<Vec<Neighbor>> {
        let (vector, filter) = (vector.to_vec(), &rawdoc! {});
        let (candidates, exact, projection, within) = (0, false, None, None);
        self.call(&VectorSearch {
            namespace,
            index,
            limit,
            candidates,
            exact,
            vector,
            filter,
            projection,
            within,
        })
    }

    /// Creates an index, waits until it is ready, and returns its name: `{key: {year: 1}}` as `createIndexes` takes it, or
    /// `{type: "vectorSearch", ..}` as `createSearchIndexes` does.
    ///
    /// # Errors
    /// The specification is not valid, or another index has its name.
    pub fn create_index(&mut self, namespace: &str, spec: &RawDocument) -> Result<String> {
        self.call(&CreateIndex { namespace, spec })
    }

    /// The indexes of a collection: those of `listIndexes`, then those of `$listSearchIndexes`.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn list_indexes(&mut self, namespace: &str) -> Result<Vec<RawDocumentBuf>> {
        self.call(&ListIndexes { namespace })
    }

    /// Drops an index of any kind.
    ///
    /// # Errors
    /// There is no such index, or it is the one on `_id`.
    pub fn drop_index(&mut self, namespace: &str, name: &str) -> Result<()> {
        self.call(&DropIndex { namespace, name })
    }

    /// Gives a search index another definition, `{fields: [..]}`, and waits until it is ready.
    ///
    /// # Errors
    /// There is no such index, or the definition is not valid.
    pub fn update_search_index(
        &mut self,
        namespace: &str,
        name: &str,
        definition: &RawDocument,
    ) -> Result<()> {
        self.call(&UpdateSearchIndex { namespace, name, definition })
    }

    /// The value of a key. A table that does not exist has no keys.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn kv_get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.call(&KvGet { table, key })
    }

    /// Sets the value of a key. Creates the table if it does not exist.
    ///
    /// # Errors
    /// The key is too long.
    pub fn kv_put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<()> {
        self.call(&KvPut { table, key, value, ack: self.ack })
    }

    /// Deletes a key; false if it was not there.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn kv_delete(&mut self, table: &str, key: &[u8]) -> Result<bool> {
        self.call(&KvDelete { table, key, ack: self.ack })
    }

    /// Puts and deletes that happen all or not at all.
    ///
    /// # Errors
    /// A key is too long; nothing happened then.
    pub fn kv_batch(&mut self, table: &str, ops: Vec<Op<'_>>) -> Result<()> {
        self.call(&KvBatch { table, ops, ack: self.ack })
    }

    /// The keys between two bounds with their values, in order, or from the last down. Fetched in batches while they
    /// are iterated, each batch from the newest state.
    pub fn kv_range<'c>(
        &'c mut self,
        table: &'c str,
        low: Bound<'_>,
        high: Bound<'_>,
        descending: bool,
    ) -> Pairs<'c> {
        Pairs::new(self, table, low, high, descending)
    }
}
