//! Sessions: what clients number, transactions and writes that may be sent twice.
//!
//! | file | what it holds |
//! |---|---|
//! | `numbered` | [`TransactionNumber`]: the fields of a command that say session, number, and what it is about |
//! | `registry` | [`Sessions`]: the sessions of a server, their limits, and running a numbered command |
//! | `state` | one session: which number it is at, and what has become of it |
//! | `open` | [`OpenTransaction`]: a transaction that has begun |
//! | `retry` | [`Retries`]: statements that are applied once however often they arrive |
//! | `record` | what is kept of both in the database, in the transaction that it tells of |
//!
//! A client makes up a session's id and counts its transactions and retryable writes. The server has to know of the
//! last number only: a greater one is a new thing and ends the one before, a smaller one comes too late. Most commands
//! carry an id and no number; they never get here.
//!
//! # What is promised
//!
//! * A write that is sent again under its number is not applied again and gets the answer it got: also from another
//!   connection, also after `kill -9`. What became of its statements is written in the very transaction that applied them.
//! * A `commitTransaction` that is sent again gets the answer it got, on the same terms. (A transaction that has changed
//!   nothing leaves no record: after a restart it is `NoSuchTransaction`, and can be run again.)
//! * A transaction that nobody goes on with is undone when its time is over, or when its session is ended.
//! * The commands of one session run one after the other.

mod open_transaction;
mod record;
mod registry;
mod retry;
mod state;
mod transaction_number;

pub(crate) use open_transaction::OpenTransaction;
pub(crate) use registry::{Sessions, TIMEOUT_MINUTES};
pub(crate) use retry::{ApplyStatement, Retries, Statements};
pub(crate) use transaction_number::{SessionId, TransactionNumber};

use std::cell::RefCell;

/// What a command is part of.
#[derive(Clone, Copy)]
pub(crate) enum CommandScope<'a> {
    /// Nothing else.
    Standalone,
    /// A transaction.
    Transaction(&'a RefCell<OpenTransaction>),
    /// A write that may have been carried out already.
    Retryable(&'a RefCell<Retries>),
}
