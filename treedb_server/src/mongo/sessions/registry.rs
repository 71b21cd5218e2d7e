//! The sessions of a server.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use treedb_collections::Database;
use treedb_query::query::ErrorCode;

use super::open_transaction::{OpenTransaction, SoFar, Usage};
use super::state::Session;
use super::transaction_number::Kind;
use super::{CommandScope, SessionId, TransactionNumber, record};
use crate::access::identity::UserId;
use crate::config::Limits;
use crate::mongo::commands::{Request, TransactionSupport, write_concern};
use crate::mongo::cursors::Cursors;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

type Result<T> = std::result::Result<T, CommandError>;

/// Minutes after which an unused session is removed, as reported to drivers.
pub(crate) const TIMEOUT_MINUTES: u32 = 30;
/// Sessions used more recently than this are kept even if there are too many.
const MIN_IDLE: Duration = Duration::from_secs(60);

/// The sessions of a server that have started a transaction or sent a retryable write.
#[derive(Debug)]
pub(crate) struct Sessions {
    slots: Mutex<HashMap<SessionId, Slot>>,
    usage: Arc<Usage>,
    limit: usize,
}

/// A session, and who began it: `None` without authentication.
#[derive(Debug, Clone)]
struct Slot {
    owner: Option<UserId>,
    session: Arc<Mutex<Session>>,
}

/// Which sessions are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// The one of this id.
    One(SessionId),
    /// Those of this user.
    Of(UserId),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A command that panicked has left its session with an aborted transaction, and the map whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// No sessions, at most `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Sessions { slots: Mutex::default(), usage: Arc::default(), limit }
    }

    /// The number of open transactions.
    pub(crate) fn open(&self) -> usize {
        self.usage.open()
    }

    /// Transactions so far.
    pub(crate) fn transactions(&self) -> SoFar {
        self.usage.so_far()
    }

    /// The ids of the sessions, and how long each has not been used. Those that run a command now are used.
    pub(crate) fn known(&self) -> Vec<(bson::Binary, Duration)> {
        let idle =
            |slot: &Slot| slot.session.try_lock().map_or(Duration::ZERO, |session| session.used.elapsed());
        locked(&self.slots).iter().map(|(id, slot)| (id.binary(), idle(slot))).collect()
    }

    /// Runs a command that has a transaction number.
    ///
    /// # Errors
    /// Those of the command, with the label of transactions that may be retried; those of invalid numbers.
    pub(crate) fn run(&self, request: &Request<'_>, txn_number: TransactionNumber) -> Result<RawDocumentBuf> {
        self.check(request, txn_number.kind)?;
        let context = request.context;
        let database = &context.database;
        let slot = self.slot(txn_number.session, || request.session.identity.owner())?;
        let mut session = locked(&slot);
        session.used = Instant::now();
        session.load(database)?;
        let number = txn_number.number;
        if txn_number.kind == Kind::Retryable {
            let (retries, before) = session.write(number, database)?;
            before.into_iter().for_each(|open| close(open, &context.cursors));
            let retries = RefCell::new(retries);
            let done = request.part_of(CommandScope::Retryable(&retries)).execute();
            session.has_written(&retries.into_inner());
            return done;
        }
        if request.transaction_support() == TransactionSupport::Commit && session.has_committed(number) {
            return Ok(RawDocumentBuf::new());
        }
        if txn_number.kind == Kind::Begin {
            let Limits { transactions, .. } = context.limits;
            let before = session.begin(number, database, &self.usage, transactions)?;
            before.into_iter().for_each(|open| close(open, &context.cursors));
        }
        let support = request.transaction_support();
        let ends = matches!(support, TransactionSupport::Commit | TransactionSupport::Abort);
        let labelled = |error: CommandError| error.of_transaction(ends);
        let open = session.take(number).map_err(labelled)?;
        match support {
            TransactionSupport::Commit => {
                let concern = request.body().get("writeConcern")?.and_then(|value| value.as_document());
                let requested = concern.map(write_concern).transpose();
                open.cursors.iter().for_each(|&id| context.cursors.close(id));
                let done = requested.and_then(|requested| {
                    session.commit(open, requested.flatten().unwrap_or(context.durability))
                });
                done.map(|()| RawDocumentBuf::new()).map_err(labelled)
            }
            TransactionSupport::Abort => {
                close(open, &context.cursors);
                Ok(RawDocumentBuf::new())
            }
            _ => {
                let open = RefCell::new(open);
                let done = request.part_of(CommandScope::Transaction(&open)).execute();
                let mut open = open.into_inner();
                let done =
                    done.and_then(|reply| open.count(context.limits.transaction_bytes).map(|()| reply));
                if done.is_ok() && !open.failed {
                    session.put_back(open);
                } else {
                    close(open, &context.cursors);
                }
                done.map_err(labelled)
            }
        }
    }

    /// Checks whether the command may have a number of this kind, and its arguments in that case.
    fn check(&self, request: &Request<'_>, kind: Kind) -> Result<()> {
        let name = request.command.name;
        let support = request.transaction_support();
        if kind == Kind::Retryable {
            return match support {
                TransactionSupport::Write => Ok(()),
                TransactionSupport::Commit | TransactionSupport::Abort => Err(CommandError::new(
                    ErrorCode::InvalidOptions,
                    format!("'{name}' ends a transaction: it needs 'autocommit': false"),
                )),
                _ => Err(CommandError::new(
                    ProtocolCode::Location50768,
                    format!(
                        "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                         autocommit:false was not provided, and {name} is not a retryable write command."
                    ),
                )),
            };
        }
        if support == TransactionSupport::Never {
            return Err(CommandError::new(
                ErrorCode::OperationNotSupportedInTransaction,
                format!("Cannot run '{name}' in a multi-document transaction."),
            ));
        }
        let invalid = |message: &str| Err(CommandError::new(ErrorCode::InvalidOptions, message));
        if matches!(support, TransactionSupport::Commit | TransactionSupport::Abort) {
            if kind == Kind::Begin {
                return invalid("a transaction cannot begin with the command that ends it");
            }
            for arg in request.args() {
                let arg = arg?;
                if arg.name != "writeConcern" {
                    arg.ignored_or_unknown()?;
                }
            }
            return Ok(());
        }
        if !request.is_about_cursors() && !request.names_its_databases() {
            CommandError::refuse_in_transaction(request.database)?;
        }
        if request.body().get("writeConcern")?.is_some() {
            return invalid(
                "writeConcern is not allowed within a multi-statement transaction: give it to commitTransaction",
            );
        }
        let Some(concern) = request.body().get("readConcern")? else { return Ok(()) };
        if kind == Kind::Continue {
            return invalid("Only the first command in a transaction may specify a readConcern");
        }
        let level = concern.as_document().map(|concern| concern.get("level")).transpose()?.flatten();
        if concern
            .as_document()
            .is_some_and(|concern| concern.get("atClusterTime").is_ok_and(|at| at.is_some()))
        {
            return invalid("atClusterTime is not supported in a transaction: it reads as of its beginning");
        }
        match level.map(|level| level.as_str()) {
            None | Some(Some("local" | "majority" | "snapshot")) => Ok(()),
            _ => invalid("The readConcern level in a transaction must be local, majority or snapshot"),
        }
    }

    fn slot(&self, id: SessionId, owner: impl FnOnce() -> Option<UserId>) -> Result<Arc<Mutex<Session>>> {
        let mut slots = locked(&self.slots);
        if let Some(slot) = slots.get(&id) {
            return Ok(Arc::clone(&slot.session));
        }
        if slots.len() >= self.limit {
            drop_idle(&mut slots, MIN_IDLE);
        }
        if slots.len() >= self.limit {
            return Err(CommandError::new(
                ErrorCode::TooManyLogicalSessions,
                format!("{} sessions are in use: end some", self.limit),
            ));
        }
        let session = Arc::new(Mutex::new(Session::new(id)));
        slots.insert(id, Slot { owner: owner(), session: Arc::clone(&session) });
        Ok(session)
    }

    /// Ends sessions: their open transactions are aborted. That of a busy session is aborted at its time limit.
    pub(crate) fn end(&self, which: &[Which], cursors: &Cursors) {
        let mut ended = Vec::new();
        let mut slots = locked(&self.slots);
        for which in which {
            match which {
                Which::All => ended.extend(slots.drain()),
                Which::One(id) => ended.extend(slots.remove_entry(id)),
                Which::Of(user) => ended.extend(slots.extract_if(|_, slot| slot.owner == Some(*user))),
            }
        }
        drop(slots);
        for (id, slot) in ended {
            match slot.session.try_lock() {
                Ok(mut session) => {
                    let open = session.end();
                    drop(session);
                    open.into_iter().for_each(|open| close(open, cursors));
                }
                Err(_) => {
                    locked(&self.slots).entry(id).or_insert_with(|| slot.clone());
                }
            }
        }
    }

    /// Aborts the transactions that started more than `life` ago. Returns their number.
    pub(crate) fn expire(&self, life: Duration, cursors: &Cursors) -> usize {
        if self.open() == 0 {
            return 0;
        }
        let slots: Vec<_> = locked(&self.slots).values().map(|slot| Arc::clone(&slot.session)).collect();
        let old = slots.iter().filter_map(|slot| slot.try_lock().ok()?.expire(life));
        let count = old.map(|open| close(open, cursors)).count();
        self.usage.have_timed_out(count);
        count
    }

    /// Removes the sessions that have not been used for [`TIMEOUT_MINUTES`], and their records.
    ///
    /// # Errors
    /// Those of deleting.
    pub(crate) fn forget(&self, database: &Database) -> Result<u64> {
        let age = Duration::from_secs(60 * u64::from(TIMEOUT_MINUTES));
        drop_idle(&mut locked(&self.slots), age);
        record::forget(database, age)
    }
}

/// Removes sessions without an open transaction that have not been used for `age`.
fn drop_idle(slots: &mut HashMap<SessionId, Slot>, age: Duration) {
    slots.retain(|_, Slot { session, .. }| {
        Arc::strong_count(session) > 1
            || session.try_lock().is_ok_and(|session| session.is_open() || session.used.elapsed() < age)
    });
}

/// Aborts a transaction.
fn close(open: OpenTransaction, cursors: &Cursors) {
    open.cursors.iter().for_each(|&id| cursors.close(id));
}
