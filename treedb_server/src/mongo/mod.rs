//! MongoDB's wire protocol.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | messages on the socket: header, size limits, stalls |
//! | [`op_msg`] | the message format of all current drivers |
//! | [`compression`] | compressed messages |
//! | [`streaming`] | commands with more than one reply: exhaust cursors, and the `hello` of drivers' monitors |
//! | [`op_query`] | the legacy message format, for the handshake only |
//! | [`connection`](mod@connection) | one connection's loop |
//! | [`commands`] | the table of commands, one file each |
//! | [`in_process`] | commands of the web page and of the shell, without a socket |
//! | [`args`] | reading a command's arguments |
//! | [`ignored_options`] | the options that are accepted and have no effect |
//! | [`reply`], [`error`] | replies and errors |
//! | [`topology`] | how the server presents itself: a standalone, or a replica set of one member |
//! | [`write_target`] | the target of a write statement: a collection, a transaction or a batch |
//! | [`read_concern`] | read concerns outside of transactions |
//! | [`sessions`] | transactions and retryable writes |
//! | [`running`] | a command among the [operations](crate::operations) of the server |
//! | [`fail_points`] | failures on request, for tests of drivers |
//! | [`cursors`] | cursors: results of more than one message |
//!
//! A message with an invalid frame (length, opcode, sections, checksum) ends its connection, with an error reply where the
//! client can read one. A message with a valid frame and invalid content gets an error reply, and the connection remains
//! open.

pub(crate) mod args;
pub(crate) mod commands;
pub(crate) mod common_fields;
pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod cursors;
pub(crate) mod error;
pub(crate) mod fail_points;
pub(crate) mod ignored_options;
pub(crate) mod in_process;
pub(crate) mod op_msg;
pub(crate) mod op_query;
pub(crate) mod protocol_code;
pub(crate) mod read_concern;
pub(crate) mod reply;
pub(crate) mod running;
pub(crate) mod sessions;
pub(crate) mod streaming;
pub(crate) mod topology;
pub(crate) mod wire;
pub(crate) mod write_target;

pub(crate) use connection::connection;
