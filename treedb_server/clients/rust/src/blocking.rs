//! The blocking client: one call, one answer. Most of its calls are in `requests`.

use std::net::ToSocketAddrs;
use std::time::Duration;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use treedb_protocol::call::{
    Ack, Authenticate, Bound, Call, Find, FindWith, Insert, Ping, Prepared, Prove, Welcome,
};
use treedb_protocol::scram::{ClientExchange, Mechanism};

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::pipeline::Pipeline;
use crate::results::{Documents, Pairs, Stream};
#[cfg(feature = "tls")]
use crate::tls::Tls;
use crate::transport::Transport;

/// A connection to a server's native port.
#[derive(Debug)]
pub struct Client {
    pub(crate) connection: Connection,
    pub(crate) ack: Ack,
}

/// `{_id: id}`.
pub(crate) fn id_document(id: impl Into<RawBson>) -> RawDocumentBuf {
    let id: RawBson = id.into();
    rawdoc! { "_id": id }
}

impl Client {
    /// Connects to `address` and greets the server. Waits without limit.
    ///
    /// # Errors
    /// Nobody listens there, or not a TreeDB server's native port.
    pub fn connect(address: impl ToSocketAddrs) -> Result<Self> {
        Self::greet(Transport::connect(address, None)?, None)
    }

    /// [`Self::connect`], with a limit to each wait, then and later. When it has passed, the connection has ended.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_timeout(address: impl ToSocketAddrs, timeout: Duration) -> Result<Self> {
        Self::greet(Transport::connect(address, Some(timeout))?, Some(timeout))
    }

    /// [`Self::connect`] through TLS, with a limit to each wait if one is given.
    ///
    /// # Errors
    /// As [`Self::connect`]; the server's certificate is not to be trusted.
    #[cfg(feature = "tls")]
    pub fn connect_tls(address: impl ToSocketAddrs, timeout: Option<Duration>, tls: &Tls) -> Result<Self> {
        Self::greet(Transport::connect(address, timeout)?.secure(tls)?, timeout)
    }

    fn greet(transport: Transport, timeout: Option<Duration>) -> Result<Self> {
        Ok(Client { connection: Connection::open(transport, timeout)?, ack: Ack::Server })
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

    /// The documents that match a filter with these values, by a statement ([`Shape::Find`](crate::Shape::Find)), `limit` of them at most (0: all).
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

    /// The keys between two bounds with their values, in order, or from the last down. Fetched in batches while they
    /// are iterated, each batch from the newest state.
    pub fn kv_range(&mut self, table: &str, low: Bound<'_>, high: Bound<'_>, descending: bool) -> Pairs<'_> {
        Pairs::new(self, table, low, high, descending)
    }
}
