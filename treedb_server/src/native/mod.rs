//! The native protocol of TreeDB's own clients, on a separate port.
//!
//! A connection is a stream of frames in both directions. A frame is a header of 16 bytes and a body; a request
//! carries an id chosen by the client, its answer carries the same id, and answers are sent in the order in which they
//! are ready. `docs/native-protocol.md` describes every byte; frames and requests are in [`treedb_protocol`].
//!
//! | file | what it is |
//! |---|---|
//! | `connection` | one connection of the server: reading, working, writing |
//! | `failure` | why a request failed |
//! | `permission` | what a request needs |
//! | `execute` | execution of requests |
//! | `cursors` | the cursors of a connection |
//! | `pull` | cursors whose batches are sent as long as there is credit |
//! | `prepared` | requests of which all but the values has been sent before |
//!
//! Invariants: a length is used only after it was checked against a limit and the available bytes; a body must be
//! consumed up to its last byte; unknown flags are refused. A request that cannot be read is answered with an error
//! frame and the connection remains open; a *frame* that cannot be read ends the connection, because nothing after it
//! can be trusted.

mod connection;
mod cursors;
pub(crate) mod execute;
mod failure;
mod permission;
mod prepared;
mod pull;
pub(crate) mod running;
pub(crate) use execute::TABLES;

pub(crate) use connection::connection;
