//! Clients of the native protocol: one connection each. [`Client`] is blocking; with the cargo feature `async-client` there is
//! `AsyncClient` for tokio.
//!
//! ```no_run
//! use bson::rawdoc;
//! use treedb_server::client::{Client, Find};
//!
//! # fn main() -> Result<(), treedb_server::client::Error> {
//! let mut client = Client::connect("127.0.0.1:27117")?;
//! client.insert_one("shop.films", &rawdoc! { "_id": 1, "title": "Alien", "year": 1979 })?;
//! let alien = client.get("shop.films", 1)?;
//! let filter = rawdoc! { "year": { "$lt": 1990 } };
//! for film in client.find(&Find::new("shop.films", &filter).limit(10))? {
//!     println!("{:?}", film?);
//! }
//!
//! // Several concurrent requests; answers may be taken in any order.
//! let mut pipeline = client.pipeline();
//! let tickets = (0..100_u32)
//!     .map(|n| pipeline.kv_get("numbers", &n.to_be_bytes()))
//!     .collect::<Result<Vec<_>, _>>()?;
//! for ticket in tickets {
//!     println!("{:?}", pipeline.wait(ticket)?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `blocking` | [`Client`]: one call, one answer |
//! | `requests` | the calls with one answer of both clients |
//! | `pipeline` | [`Pipeline`]: calls that do not wait for each other |
//! | `results` | [`Documents`], [`Stream`] and [`Pairs`]: answers that come in batches |
//! | `asynchronous` | `AsyncClient`: any number of tasks on one connection |
//! | `transport` | the socket, plain or through TLS |
//! | `connection` | frames, and the requests without an answer |
//! | `error` | [`Error`] |
//!
//! A client is used by one thread at a time; concurrent threads open one each. After an error
//! of the connection itself every further call fails with the same reason: connect again.

#[cfg(feature = "async-client")]
mod asynchronous;
mod blocking;
mod connection;
mod error;
mod pipeline;
mod requests;
mod results;
#[cfg(test)]
mod tests;
mod transport;

pub use crate::native::ErrorFrame;
pub use crate::native::call::{
    Ack, Batch, Bound, Call, Close, Count, CountWith, CreateIndex, Credit, Delete, DeleteWith, DocumentError,
    DropIndex, Execute, Execution, Find, FindWith, Forget, Get, GetWith, Insert, InsertWith, Inserted,
    KvBatch, KvDelete, KvGet, KvPut, KvRange, Leaves, Left, ListIndexes, Neighbor, Next, Op, Ping, Prepare,
    Prepared, Pull, Shape, Update, UpdateSearchIndex, UpdateWith, Updated, VectorSearch, Welcome, values,
};
#[cfg(feature = "async-client")]
pub use asynchronous::{AsyncClient, DocumentStream, PairStream};
pub use blocking::Client;
pub use error::{Error, Result};
pub use pipeline::{Pipeline, Ticket};
pub use results::{Documents, Pairs, Stream};
pub use transport::Tls;
