//! Pipelined calls.

use std::marker::PhantomData;

use bson::RawBson;
use treedb_protocol::call::{Ack, Call, Execute, Get, GetWith, KvDelete, KvGet, KvPut, Prepared, values};

use crate::blocking::id_document;
use crate::connection::Connection;
use crate::error::Result;

/// Concurrent requests on one connection.
///
/// The server executes several at a time and answers each when it is done, so two requests of a pipeline may be
/// executed in either order: where one depends on the other, wait for the first. Answers may be taken in any order, or not
/// at all. Those that have not been taken when the pipeline is dropped are thrown away when they come, and the cursors and statements
/// that they bring are closed; the next find or statement waits for that.
#[derive(Debug)]
pub struct Pipeline<'c> {
    connection: &'c mut Connection,
    ack: Ack,
    pending: Vec<u64>,
}

/// Stands for the answer to one request of a [`Pipeline`].
#[derive(Debug)]
#[must_use = "an answer that is not waited for is thrown away, errors included"]
pub struct Ticket<C> {
    id: u64,
    call: PhantomData<fn() -> C>,
}

impl<'c> Pipeline<'c> {
    pub(crate) fn new(connection: &'c mut Connection, ack: Ack) -> Self {
        Pipeline { connection, ack, pending: Vec::new() }
    }

    /// Puts any request on its way.
    ///
    /// # Errors
    /// The request does not fit into a frame, or the connection fails.
    pub fn send<C: Call>(&mut self, call: &C) -> Result<Ticket<C>> {
        let id = self.connection.submit(call)?;
        self.pending.push(id);
        Ok(Ticket { id, call: PhantomData })
    }

    /// Waits for an answer. Sends first what has only been collected so far.
    ///
    /// # Errors
    /// The server's, or the connection's.
    pub fn wait<C: Call>(&mut self, ticket: Ticket<C>) -> Result<C::Answer> {
        self.connection.wait::<C>(ticket.id)
    }

    /// Sends what has only been collected so far, without waiting for any answer.
    ///
    /// # Errors
    /// The connection's.
    pub fn flush(&mut self) -> Result<()> {
        self.connection.flush()
    }

    /// Asks for a document by its `_id`.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn get(&mut self, namespace: &str, id: impl Into<RawBson>) -> Result<Ticket<Get<'static>>> {
        self.send(&Get { namespace, id: &id_document(id) }).map(Ticket::alone)
    }

    /// Asks for a document by its `_id`, by a statement.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn execute_get(
        &mut self,
        statement: Prepared,
        id: impl Into<RawBson>,
    ) -> Result<Ticket<Execute<GetWith<'static>>>> {
        let with = GetWith { values: &values([id]) };
        self.send(&Execute { statement: statement.statement, with }).map(Ticket::alone)
    }

    /// Asks for the value of a key.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn kv_get(&mut self, table: &str, key: &[u8]) -> Result<Ticket<KvGet<'static>>> {
        self.send(&KvGet { table, key }).map(Ticket::alone)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn kv_put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<Ticket<KvPut<'static>>> {
        self.send(&KvPut { table, key, value, ack: self.ack }).map(Ticket::alone)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn kv_delete(&mut self, table: &str, key: &[u8]) -> Result<Ticket<KvDelete<'static>>> {
        self.send(&KvDelete { table, key, ack: self.ack }).map(Ticket::alone)
    }
}

impl<C> Ticket<C> {
    /// The same ticket, without the lifetime of what the request borrowed: it has been written by now.
    fn alone<S: Call<Answer = C::Answer>>(self) -> Ticket<S>
    where
        C: Call,
    {
        Ticket { id: self.id, call: PhantomData }
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        for id in self.pending.drain(..) {
            self.connection.forget(id);
        }
        // A failure cannot be reported here; it has ended the connection.
        let _ = self.connection.flush();
    }
}
