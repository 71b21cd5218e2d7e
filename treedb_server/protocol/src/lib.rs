//! TreeDB's native protocol: what its clients and its server share, so that they cannot disagree. `docs/native-protocol.md` describes every byte.
//!
//! Programs that talk to a server want `treedb_client`; this is for those that make requests which no client of ours makes.
//!
//! | module | what it is |
//! |---|---|
//! | [`frame`] | the header, opcodes and limits |
//! | [`bytes`] | reading and writing the fields of a body |
//! | [`call`] | every request with its answer, both directions of both |
//! | [`error_frame`] | the fields of an error frame |
//! | [`scram`] | what authentication is made of, and the client's side of it |
//!
//! Invariants: a length is used only after it was checked against a limit and the available bytes; a body must be
//! consumed up to its last byte; unknown flags are refused.

pub mod bytes;
pub mod call;
pub mod error_frame;
pub mod frame;
pub mod scram;

pub use bytes::Malformed;
pub use call::Call;
pub use error_frame::ErrorFrame;
