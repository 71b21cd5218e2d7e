//! The sessions of a server.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bson::RawDocumentBuf;
use treedb_collections::Database;
use treedb_query::query::ErrorCode;

use super::open_transaction::{OpenTransaction, SoFar, Usage};
use super::state::Session;
use super::transaction_number::Kind;
use super::{ClientSession, CommandScope, SessionId, TransactionNumber, record};
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
    session: Arc<Shared>,
}

/// A session, locked by the command that runs in it.
#[derive(Debug)]
struct Shared {
    session: Mutex<Session>,
    /// It was ended while a command ran in it: its transaction does not go on.
    ended: AtomicBool,
}

impl Shared {
    /// Whether it was ended since this was asked last.
    fn take_ended(&self) -> bool {
        self.ended.swap(false, Ordering::AcqRel)
    }
}

/// Which sessions are meant. Each session is looked up, however many are named: that is done under locks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Which {
    all: bool,
    /// Sessions of users, or without authentication of nobody, as their clients name them.
    own: HashSet<(ClientSession, Option<UserId>)>,
    /// Sessions as they are listed.
    ids: HashSet<SessionId>,
    /// All sessions of these users.
    users: HashSet<UserId>,
}

impl Which {
    /// All sessions.
    pub(crate) fn all() -> Self {
        Which { all: true, ..Which::default() }
    }

    /// All sessions of a user.
    pub(crate) fn of(user: UserId) -> Self {
        Which { users: HashSet::from([user]), ..Which::default() }
    }

    /// Adds all sessions.
    pub(crate) fn add_all(&mut self) {
        self.all = true;
    }

    /// Whether none is meant.
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.own.is_empty() && self.ids.is_empty() && self.users.is_empty()
    }

    /// Adds a client's session of a user.
    pub(crate) fn add_own(&mut self, session: ClientSession, user: Option<UserId>) {
        self.own.insert((session, user));
    }

    /// Adds the session that is listed by this id.
    pub(crate) fn add(&mut self, id: SessionId) {
        self.ids.insert(id);
    }

    /// Adds the sessions of a user.
    pub(crate) fn add_user(&mut self, user: UserId) {
        self.users.insert(user);
    }

    /// Whether a client's session of a user is meant.
    pub(crate) fn means(&self, session: ClientSession, user: Option<&UserId>) -> bool {
        self.all
            || user.is_some_and(|user| self.users.contains(user))
            || self.own.contains(&(session, user.copied()))
            // A digest for each session that is asked about: only an administrator names sessions as they are listed.
            || !self.ids.is_empty() && self.ids.contains(&session.id(user))
    }
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
        let idle = |slot: &Slot| {
            slot.session.session.try_lock().map_or(Duration::ZERO, |session| session.used.elapsed())
        };
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
        let mut session = locked(&slot.session);
        if slot.take_ended() {
            // After the command that ran in it then had kept its transaction open.
            session.end().into_iter().for_each(|open| close(open, &context.cursors));
        }
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
                // A short command may have ended without noticing that it is to stop.
                let done = done.and_then(|reply| if slot.take_ended() { Err(ended()) } else { Ok(reply) });
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

    fn slot(&self, id: SessionId, owner: impl FnOnce() -> Option<UserId>) -> Result<Arc<Shared>> {
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
        let session =
            Arc::new(Shared { session: Mutex::new(Session::new(id)), ended: AtomicBool::new(false) });
        slots.insert(id, Slot { owner: owner(), session: Arc::clone(&session) });
        Ok(session)
    }

    /// Ends sessions: their open transactions are aborted. That of a busy session is aborted when its command ends; if that is about to
    /// end, by the next command or by [`Self::expire`].
    pub(crate) fn end(&self, which: &Which, cursors: &Cursors) {
        if which.is_empty() {
            return;
        }
        // The digests are not computed under the lock.
        let own: Vec<_> = which.own.iter().map(|(session, user)| session.id(user.as_ref())).collect();
        let mut ended = Vec::new();
        let mut slots = locked(&self.slots);
        match which.all {
            true => ended.extend(slots.drain()),
            false => {
                ended.extend(own.iter().chain(&which.ids).filter_map(|id| slots.remove_entry(id)));
                if !which.users.is_empty() {
                    let is_meant = |slot: &Slot| slot.owner.is_some_and(|owner| which.users.contains(&owner));
                    ended.extend(slots.extract_if(|_, slot| is_meant(slot)));
                }
            }
        }
        drop(slots);
        for (id, slot) in ended {
            match slot.session.session.try_lock() {
                Ok(mut session) => {
                    let open = session.end();
                    drop(session);
                    open.into_iter().for_each(|open| close(open, cursors));
                }
                Err(_) => {
                    slot.session.ended.store(true, Ordering::Release);
                    locked(&self.slots).entry(id).or_insert_with(|| slot.clone());
                }
            }
        }
    }

    /// Aborts the transactions that started more than `life` ago, and those of sessions that were ended. Returns the number of the former.
    pub(crate) fn expire(&self, life: Duration, cursors: &Cursors) -> usize {
        if self.open() == 0 {
            return 0;
        }
        let slots: Vec<_> = locked(&self.slots).values().map(|slot| Arc::clone(&slot.session)).collect();
        let mut count = 0;
        for slot in &slots {
            let Ok(mut session) = slot.session.try_lock() else { continue };
            let ended = if slot.take_ended() { session.end() } else { None };
            let old = session.expire(life);
            drop(session);
            count += usize::from(old.is_some());
            ended.into_iter().chain(old).for_each(|open| close(open, cursors));
        }
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
            || session
                .session
                .try_lock()
                .is_ok_and(|session| session.is_open() || session.used.elapsed() < age)
    });
}

/// What a command in a transaction gets whose session was ended meanwhile.
fn ended() -> CommandError {
    CommandError::new(ErrorCode::Interrupted, "operation was interrupted: its session was ended")
}

/// Aborts a transaction.
fn close(open: OpenTransaction, cursors: &Cursors) {
    open.cursors.iter().for_each(|&id| cursors.close(id));
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, RawBsonRef, rawdoc};
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::mongo::common_fields::CommonFields;

    const ANN: UserId = [1; 16];
    const BOB: UserId = [2; 16];

    fn lsid(byte: u8) -> RawDocumentBuf {
        rawdoc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: vec![byte; 16] } }
    }

    fn id(byte: u8, user: Option<&UserId>) -> SessionId {
        SessionId::read(RawBsonRef::Document(&lsid(byte)), user).unwrap()
    }

    #[test]
    fn a_session_is_meant_by_its_id_or_its_user_and_not_by_the_id_of_another_users() {
        let body = rawdoc! { "ping": 1, "lsid": lsid(7) };
        let session = ClientSession::of(&CommonFields::read(&body, &mut Vec::new()).unwrap()).unwrap();
        let mut one = Which::default();
        (0..100).for_each(|byte| one.add(id(byte, Some(&ANN))));
        let mut own = Which::default();
        own.add_own(session, Some(ANN));
        for which in [&one, &own] {
            assert!(which.means(session, Some(&ANN)));
            assert!(!which.means(session, Some(&BOB)) && !which.means(session, None));
        }
        // Who chooses for an id what another's session is listed by means a session of his own.
        let listed = rawdoc! { "id": id(7, Some(&ANN)).binary() };
        let chosen = ClientSession::read(RawBsonRef::Document(&listed)).unwrap();
        let mut others = Which::default();
        others.add_own(chosen, None);
        assert!(others.means(chosen, None) && !others.means(session, Some(&ANN)));
        assert!(Which::default().is_empty() && !others.is_empty() && !one.is_empty());
        let user = Which::of(ANN);
        assert!(user.means(session, Some(&ANN)));
        assert!(!user.means(session, Some(&BOB)) && !user.means(session, None));
        for user in [None, Some(&BOB)] {
            assert!(Which::all().means(session, user) && !Which::default().means(session, user));
        }
    }

    #[test]
    fn a_session_that_is_ended_while_a_command_has_it_keeps_no_transaction() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let (sessions, cursors) = (Sessions::new(9), Cursors::new(3, 2, Gauge::default()));
        let slot = sessions.slot(id(7, None), || None).unwrap();
        let mut session = locked(&slot.session);
        session.begin(1, &database, &sessions.usage, 9).unwrap();
        let mut ended = Which::default();
        ended.add(id(7, None));
        sessions.end(&ended, &cursors);
        assert_eq!(sessions.open(), 1, "the command has it");
        drop(session);
        assert_eq!(sessions.expire(Duration::MAX, &cursors), 0, "it has not timed out");
        assert_eq!(sessions.open(), 0);
        // What begins after that is not meant.
        locked(&slot.session).begin(2, &database, &sessions.usage, 9).unwrap();
        sessions.expire(Duration::MAX, &cursors);
        assert_eq!(sessions.open(), 1);
    }
}
