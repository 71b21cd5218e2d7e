//! Sessions: transactions and retryable writes.
//!
//! | file | what it holds |
//! |---|---|
//! | `transaction_number` | [`TransactionNumber`]: session, number and kind of a command |
//! | `registry` | [`Sessions`]: the sessions of a server, their limits, and running commands in them |
//! | `state` | one session: its current number and the state of that transaction or write |
//! | `open_transaction` | [`OpenTransaction`]: a transaction that has started |
//! | `retry` | [`Retries`]: retryable writes, whose statements are applied once |
//! | `record` | the record of both in the database, written in the transaction that it describes |
//!
//! A client generates the session's id and numbers its transactions and retryable writes. The server keeps only the last
//! number: a greater one starts a new transaction or write and ends the previous one, a smaller one is refused. Most
//! commands have an id and no number; they are not handled here.
//!
//! # Guarantees
//!
//! * A write that is retried with its number is not applied again and gets the same answer: also on another connection,
//!   also after `kill -9`. The outcome of its statements is recorded in the transaction that applied them.
//! * A retried `commitTransaction` gets the same answer, under the same conditions. (A transaction without changes leaves no
//!   record: after a restart it is `NoSuchTransaction`, and can be run again.)
//! * An abandoned transaction is aborted at its time limit, or when its session is ended.
//! * The commands of one session run sequentially.

mod open_transaction;
mod record;
mod registry;
mod retry;
mod state;
mod transaction_number;

pub(crate) use open_transaction::OpenTransaction;
pub(crate) use registry::{Sessions, TIMEOUT_MINUTES, Which};
pub(crate) use retry::{ApplyStatement, Retries, Statements};
pub(crate) use transaction_number::{ClientSession, SessionId, TransactionNumber};

use std::cell::RefCell;

/// The context that a command is executed in.
#[derive(Clone, Copy)]
pub(crate) enum CommandScope<'a> {
    /// Neither a transaction nor a retryable write.
    Standalone,
    /// A transaction.
    Transaction(&'a RefCell<OpenTransaction>),
    /// A retryable write, which may have been executed already.
    Retryable(&'a RefCell<Retries>),
}
