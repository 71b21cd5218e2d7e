//! The native protocol: what TreeDB's own clients speak, on a port of its own.
//!
//! A connection is a stream of frames in both directions. A frame is a header of 16 bytes and a body; a request
//! carries an id the client chose, its answer carries the same id, and answers come in whatever order they are
//! ready: that is all there is to pipelining. `docs/native-protocol.md` describes every byte.
//!
//! | file | what it is |
//! |---|---|
//! | [`frame`] | the header, opcodes and limits |
//! | [`bytes`] | reading and writing the fields of a body |
//! | [`call`] | every request with its answer: both directions of both, so that client and server cannot disagree |
//! | [`error`] | what an error frame says |
//! | `connection` | one connection of the server: reading, working, writing |
//! | `execute` | requests carried out |
//! | `cursors` | the cursors of a connection |
//!
//! Invariants: a length is believed only after it was compared with a limit and with what is there; a body must be
//! used up to its last byte; unknown flags are refused. A request that cannot be read is answered with an error
//! frame and the connection goes on; a *frame* that cannot be read ends the connection, because nothing behind it
//! can be trusted.

pub mod bytes;
pub mod call;
pub mod error_frame;
pub mod frame;

mod connection;
mod cursors;
pub(crate) mod execute;
pub(crate) use execute::TABLES;

pub use bytes::Malformed;
pub use call::Call;
pub use error_frame::ErrorFrame;

pub(crate) use connection::connection;
