//! The ways by which a program reaches one and the same kind of collection: the library, the native protocol, MongoDB's protocol.
//!
//! | file | what it is |
//! |---|---|
//! | `members` | the documents |
//! | `client` | what clients of all paths can do, and some of them at work at once |
//! | `library` | the library, in this process |
//! | `native` | TreeDB's protocol: plain requests, statements, tasks that share a connection, requests that do not wait for each other |
//! | `mongo` | MongoDB's protocol, by a client that does as little as it can |
//! | `driver` | the same by MongoDB's driver for Rust |
//! | `pymongo` | the same by PyMongo, in a process of its own |
//! | `stores` | the database and the server, and a path to a collection in either |

mod client;
#[cfg(feature = "mongo-driver")]
mod driver;
mod library;
mod members;
mod mongo;
mod native;
mod pymongo;
mod stores;

pub(crate) use client::{Key, Work};
pub(crate) use members::{Members, members};
pub(crate) use pymongo::PyMongo;
pub(crate) use stores::{Path, Stores};
