//! One session: its current number, and the state of that transaction or retryable write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use treedb_collections::Database;
use treedb_query::query::ErrorCode;
use treedb_storage::Durability;

use super::open_transaction::{OpenTransaction, Usage};
use super::retry::{RecordState, Retries};
use super::{SessionId, record};
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

type Result<T> = std::result::Result<T, CommandError>;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    id: SessionId,
    /// The greatest so far; -1 before the first.
    number: i64,
    state: State,
    written: RecordState,
    /// Its record has been read from the database.
    loaded: bool,
    /// When it was last used.
    pub(super) used: Instant,
}

/// The state of the current number.
#[derive(Debug)]
enum State {
    /// A retryable write; or nothing, before the first number.
    Writes,
    Open(Box<OpenTransaction>),
    Committed,
    Aborted,
}

impl Session {
    pub(super) fn new(id: SessionId) -> Self {
        Session {
            id,
            number: -1,
            state: State::Writes,
            written: RecordState::default(),
            loaded: false,
            used: Instant::now(),
        }
    }

    /// Reads its record from the database, if that has not been done.
    pub(super) fn load(&mut self, database: &Database) -> Result<()> {
        if self.loaded {
            return Ok(());
        }
        if let Some(record) = record::load(database, self.id)? {
            self.number = record.number;
            self.state = if record.committed { State::Committed } else { State::Writes };
            self.written = RecordState { number: record.number, parts: record.parts };
        }
        self.loaded = true;
        Ok(())
    }

    /// Starts the transaction `number`. The caller closes the returned previous transaction.
    ///
    /// # Errors
    /// `TransactionTooOld`, `ConflictingOperationInProgress` if the number was used; those of [`OpenTransaction::begin`].
    pub(super) fn begin(
        &mut self,
        number: i64,
        database: &Database,
        usage: &Arc<Usage>,
        limit: usize,
    ) -> Result<Option<OpenTransaction>> {
        self.not_too_old(number)?;
        if number == self.number {
            return Err(CommandError::new(
                ProtocolCode::ConflictingOperationInProgress,
                format!(
                    "transaction {number} of session {} has begun already: take a greater number",
                    self.id
                ),
            ));
        }
        let before = self.end();
        self.number = number;
        self.state = State::Aborted;
        self.state =
            State::Open(Box::new(OpenTransaction::begin((self.id, number), database, usage, limit)?));
        Ok(before)
    }

    /// The transaction `number`. It counts as aborted until it is [put back](Self::put_back).
    ///
    /// # Errors
    /// `TransactionTooOld`, `TransactionCommitted`, `NoSuchTransaction`.
    pub(super) fn take(&mut self, number: i64) -> Result<OpenTransaction> {
        self.not_too_old(number)?;
        let no_such = |message: String| CommandError::new(ErrorCode::NoSuchTransaction, message);
        if number > self.number || matches!(self.state, State::Writes) {
            return Err(no_such(format!(
                "Given transaction number {number} does not match any in-progress transactions. The active transaction \
                 number is {}",
                self.number
            )));
        }
        match std::mem::replace(&mut self.state, State::Aborted) {
            State::Open(open) => Ok(*open),
            State::Committed => {
                self.state = State::Committed;
                Err(CommandError::new(
                    ErrorCode::TransactionCommitted,
                    format!("Transaction {number} has been committed."),
                ))
            }
            State::Writes | State::Aborted => Err(no_such(format!("Transaction {number} has been aborted."))),
        }
    }

    /// Puts back a transaction that continues.
    pub(super) fn put_back(&mut self, open: OpenTransaction) {
        self.state = State::Open(Box::new(open));
    }

    /// Commits a transaction that was taken. It is aborted if that fails.
    pub(super) fn commit(&mut self, open: OpenTransaction, durability: Durability) -> Result<()> {
        let OpenTransaction { key, mut txn, mut share, .. } = open;
        let changes = txn.changes() > 0;
        if changes {
            record::write(&mut txn, key, 0, self.written.parts, record::committed())?;
        }
        txn.commit_with(durability)?;
        share.has_committed();
        if changes {
            self.written = RecordState { number: key.1, parts: 1 };
        }
        self.state = State::Committed;
        Ok(())
    }

    /// True if the transaction `number` was committed.
    pub(super) fn has_committed(&self, number: i64) -> bool {
        number == self.number && matches!(self.state, State::Committed)
    }

    /// Starts or continues the write `number`. The caller closes the returned previous transaction.
    ///
    /// # Errors
    /// `TransactionTooOld`, `IncompleteTransactionHistory` if the number is a transaction's.
    pub(super) fn write(
        &mut self,
        number: i64,
        database: &Database,
    ) -> Result<(Retries, Option<OpenTransaction>)> {
        self.not_too_old(number)?;
        let seen_before = number == self.number;
        if seen_before && !matches!(self.state, State::Writes) {
            return Err(CommandError::new(
                ErrorCode::IncompleteTransactionHistory,
                format!(
                    "number {number} of session {} is a transaction's, and not a retryable write's",
                    self.id
                ),
            ));
        }
        let before = self.end();
        self.number = number;
        self.state = State::Writes;
        Ok((Retries::new((self.id, number), database.clone(), self.written, seen_before), before))
    }

    /// Stores the record's state after a write of [`Self::write`].
    pub(super) fn has_written(&mut self, retries: &Retries) {
        self.written = retries.written();
    }

    /// Takes the open transaction, if there is one; the caller closes it.
    pub(super) fn end(&mut self) -> Option<OpenTransaction> {
        if !self.is_open() {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Aborted) {
            State::Open(open) => Some(*open),
            _ => None,
        }
    }

    /// The same, if it began more than `life` ago.
    pub(super) fn expire(&mut self, life: Duration) -> Option<OpenTransaction> {
        match &self.state {
            State::Open(open) if open.began.elapsed() >= life => self.end(),
            _ => None,
        }
    }

    /// True while a transaction is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    fn not_too_old(&self, number: i64) -> Result<()> {
        if number < self.number {
            return Err(CommandError::new(
                ErrorCode::TransactionTooOld,
                format!(
                    "Cannot start transaction {number} on session {} because a newer transaction {} has already started.",
                    self.id, self.number
                ),
            ));
        }
        Ok(())
    }
}
