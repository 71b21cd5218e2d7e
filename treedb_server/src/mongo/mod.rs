//! MongoDB's wire protocol.
//!
//! | module | what it is |
//! |---|---|
//! | [`wire`] | messages on the socket: header, size limits, stalls |
//! | [`op_msg`] | the message everything modern is in |
//! | [`op_query`] | what remains of the old one: the handshake |
//! | [`connection`](mod@connection) | one connection's loop |
//! | [`commands`] | the table of commands, one file each |
//! | [`args`] | reading a command's arguments |
//! | [`ignored_options`] | the options that are accepted and have no effect |
//! | [`reply`], [`error`] | what goes back |
//! | [`identity`] | as what drivers see the server: a standalone, or a replica set of one |
//! | [`place`] | where a statement writes: a collection, or a transaction |
//! | [`read_concern`] | reads at a time, outside of transactions |
//! | [`sessions`] | transactions, and writes that may be sent twice |
//! | [`cursors`] | results that take more than one message |
//!
//! A message whose frame cannot be trusted (length, opcode, sections, checksum) ends its connection, with an error
//! reply where there is somebody to read it. A message that is framed well and says something wrong gets an error
//! reply and the connection goes on.

pub(crate) mod args;
pub(crate) mod commands;
pub(crate) mod connection;
pub(crate) mod cursors;
pub(crate) mod error;
pub(crate) mod ignored_options;
pub(crate) mod op_msg;
pub(crate) mod op_query;
pub(crate) mod read_concern;
pub(crate) mod reply;
pub(crate) mod sessions;
pub(crate) mod topology;
pub(crate) mod wire;
pub(crate) mod write_target;

pub(crate) use connection::connection;
