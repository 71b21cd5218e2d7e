//! Clients of TreeDB's native protocol, which `treedb serve --native HOST:PORT` speaks: one connection each. [`Client`] is blocking; with
//! the feature `async` there is `AsyncClient` for tokio, whose calls are the same, without pipelines and streams: its tasks do not wait for each other
//! anyway. Tested on Linux; it compiles for other Unix systems and Windows.
//!
#![doc = concat!("```no_run\n", include_str!("../examples/films.rs"), "```")]
//!
//! The same asynchronously:
//!
#![cfg_attr(feature = "async", doc = concat!("```no_run\n", include_str!("../examples/films_async.rs"), "```"))]
#![cfg_attr(not(feature = "async"), doc = "see `examples/films_async.rs`.")]
//!
//! | feature | what it adds |
//! |---|---|
//! | `tls` (default) | `Client::connect_tls`, with rustls |
//! | `async` | `AsyncClient` |
//! | `async-tls` | `AsyncClient::connect_tls`; both of the above |
//!
//! Documents are those of the crate [`bson`], version 3. Filters, updates, sorts and projections are MongoDB's. Where a method is missing, the
//! structs of requests, which are exported here too, can be sent by [`Client::call`] and [`Pipeline::send`].
//!
//! | file | what it is |
//! |---|---|
//! | `blocking` | [`Client`]: one call, one answer |
//! | `requests` | the calls with one answer of both clients |
//! | `pipeline` | [`Pipeline`]: calls that do not wait for each other |
//! | `results` | [`Documents`], [`Stream`] and [`Pairs`]: answers that come in batches |
//! | `asynchronous` | `AsyncClient`: any number of tasks on one connection |
//! | `transport` | the socket, plain or through TLS |
//! | `tls` | whom a client trusts, and a socket through TLS for other protocols |
//! | `connection` | frames, and the requests without an answer |
//! | `error` | [`Error`] |
//!
//! A client is used by one thread at a time; concurrent threads open one each. After an error
//! of the connection itself every further call fails with the same reason: connect again.

#[cfg(feature = "async")]
mod asynchronous;
mod blocking;
#[cfg(feature = "tls")]
mod certificate;
mod connection;
mod error;
mod pipeline;
mod requests;
mod results;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod transport;

pub use bson;

#[cfg(feature = "async")]
pub use asynchronous::{AsyncClient, DocumentStream, PairStream};
pub use blocking::Client;
pub use error::{Error, Result};
pub use pipeline::{Pipeline, Ticket};
pub use results::{Documents, Pairs, Stream};
#[cfg(feature = "tls")]
pub use tls::{Tls, TlsStream};
pub use treedb_protocol::call::{
    Ack, Batch, Bound, Call, Close, Count, CountWith, CreateIndex, Credit, Delete, DeleteWith, DocumentError,
    DropIndex, Entries, Execute, Execution, Find, FindWith, Forget, Get, GetWith, Insert, InsertWith,
    Inserted, KvBatch, KvDelete, KvGet, KvPut, KvRange, ListIndexes, Neighbor, Next, Op, Ping, Prepare,
    Prepared, Pull, Resource, ResourceOf, Shape, Update, UpdateSearchIndex, UpdateWith, Updated,
    VectorSearch, Welcome, values,
};
pub use treedb_protocol::{ErrorFrame, Malformed};
