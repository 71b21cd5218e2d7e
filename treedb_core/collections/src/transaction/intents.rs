//! [`Intents`]: what the open transactions have changed, so that other writers know before they commit.
//!
//! A transaction *claims* each document that it changes and each key that it adds to or removes from a unique index, before it checks
//! whether the document has changed since its snapshot. Until it ends, another transaction that claims the same gets nothing, and
//! fails; a write outside of transactions gives the write lock back and [waits](Intents::wait), holding nothing, so that there is no
//! deadlock. What a commit relies on is still the comparison of rows under the write lock: a claim that comes while a plain write is
//! in progress conflicts with it there.
//!
//! A write that has met two transactions one after the other could meet others for ever, because it begins again after each. So it
//! [keeps out](Intents::keep_out) those that have not changed anything yet: their first claim waits until the write is done, holding
//! nothing. A transaction that has claims goes on, because the write may be waiting for it.
//!
//! A commit is visible before it is durable, and its transaction ends when it is durable. In between its claims do not bind those who
//! see what it has committed: plain writes, and transactions whose snapshot is newer.
//!
//! Where no transaction has claimed anything, a write looks at one atomic number for it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treedb_query::access::RowId;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::interrupt;

use crate::catalog::namespace::Namespace;
use crate::database::Database;

/// How long a waiting write sleeps before it asks whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// How long a write keeps transactions out while it waits for one that may stay open for much longer.
const KEEP_OUT: Duration = Duration::from_millis(200);

/// How long a transaction that is to be retried waits for the one that it has met.
const RETRY_PATIENCE: Duration = Duration::from_secs(1);

/// Memory that a claim takes.
pub(super) const CLAIM_BYTES: usize = 64;

/// What a transaction claims of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Intent {
    /// A row of its snapshot.
    Row(u64),
    /// A key of a unique index, as a digest: two keys of the same digest would wait for each other, which does no harm.
    Key(u64),
    /// The collection itself, which it creates.
    Collection,
}

impl Intent {
    pub(crate) fn row(row: RowId) -> Self {
        Intent::Row(row.0)
    }

    /// A key of the index of this name.
    pub(crate) fn key(index: &str, key: &[u8]) -> Self {
        let mut digest = DefaultHasher::new();
        (index, key).hash(&mut digest);
        Intent::Key(digest.finish())
    }
}

/// An open transaction.
pub(crate) type Owner = u64;

/// How long plain writes wait for transactions.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For all transactions that one write meets.
    time: Duration,
    /// Writes that may wait at a time.
    writes: usize,
    /// Bytes of a budget that they may hold meanwhile ([`interrupt::held`]).
    bytes: usize,
}

/// The claims of all open transactions of a database.
#[derive(Debug)]
pub(crate) struct Intents {
    /// Transactions that have claimed something.
    owners: AtomicUsize,
    next: AtomicU64,
    table: Mutex<Table>,
    ended: Condvar,
}

#[derive(Debug)]
struct Table {
    /// The transactions that have claimed something, and for those that commit the last snapshot that does not see it.
    owners: HashMap<Owner, Option<u64>>,
    claims: HashMap<Namespace, Claimed>,
    /// The writes that keep transactions out: where, and how long at the most; `None` if it is being executed, with the write lock.
    gates: BTreeMap<u64, (Namespace, Option<Instant>)>,
    patience: Patience,
    /// Writes that wait, and the bytes that they hold.
    waiting: usize,
    held: usize,
}

/// What is claimed of a collection.
#[derive(Debug, Default)]
struct Claimed {
    by: HashMap<Intent, Owner>,
    /// How many are keys.
    keys: usize,
}

impl Default for Intents {
    fn default() -> Self {
        let patience = Patience { time: Duration::from_secs(60), writes: usize::MAX, bytes: usize::MAX };
        let table = Table {
            owners: HashMap::new(),
            claims: HashMap::new(),
            gates: BTreeMap::new(),
            patience,
            waiting: 0,
            held: 0,
        };
        Intents {
            owners: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            table: Mutex::new(table),
            ended: Condvar::new(),
        }
    }
}

impl Table {
    /// True if a write keeps the transactions out that have claimed nothing.
    fn is_closed(&self, namespace: &Namespace) -> bool {
        let closed = |until: &Option<Instant>| until.is_none_or(|until| Instant::now() < until);
        self.gates.values().any(|(gate, until)| gate == namespace && closed(until))
    }
}

impl Intents {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if no open transaction has claimed anything.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.load(Ordering::SeqCst) == 0
    }

    /// The transaction, other than `own`, that a write has to wait for. The caller has the write lock, so that it sees whatever was committed.
    pub(crate) fn owner(&self, namespace: &Namespace, intent: Intent, own: Option<Owner>) -> Option<Owner> {
        let table = self.table();
        let owner = *table.claims.get(namespace)?.by.get(&intent)?;
        let commits = table.owners.get(&owner).is_none_or(Option::is_some);
        (Some(owner) != own && !commits).then_some(owner)
    }

    /// True if keys of a collection are claimed.
    pub(crate) fn has_keys(&self, namespace: &Namespace) -> bool {
        !self.is_empty() && self.table().claims.get(namespace).is_some_and(|claimed| claimed.keys > 0)
    }

    /// Waits until a transaction has ended or committed. `since` is when the write first waited for one.
    ///
    /// # Errors
    /// `Interrupted` and `MaxTimeMSExpired` of the operation that waits; `WriteConflict` if it has waited for too long in all, or too
    /// many writes wait already.
    pub(crate) fn wait(&self, owner: Owner, namespace: &Namespace, since: Instant) -> Result<()> {
        let patience = self.table().patience;
        self.wait_for(owner, namespace, patience, since)
    }

    /// Keeps transactions out of a collection that have not claimed anything, until the result is dropped.
    fn keep_out(&self, namespace: &Namespace) -> Gate<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.table().gates.insert(number, (namespace.clone(), None));
        Gate { intents: self, number }
    }

    fn wait_for(
        &self,
        owner: Owner,
        namespace: &Namespace,
        patience: Patience,
        since: Instant,
    ) -> Result<()> {
        let Patience { time, writes, bytes } = patience;
        let held = interrupt::held();
        let mut table = self.table();
        let until = since.checked_add(time);
        let refused = |why: String| {
            QueryError::new(
                ErrorCode::WriteConflict,
                format!(
                    "WriteConflict: an open transaction has changed a document of {namespace} that this write changes, and {why}"
                ),
            )
        };
        if table.waiting >= writes {
            return Err(refused(format!("{writes} writes wait for transactions already: try again")));
        }
        if held > bytes.saturating_sub(table.held) {
            return Err(refused(
                "the writes that wait for transactions hold too much memory: try again".into(),
            ));
        }
        table.waiting += 1;
        table.held += held;
        let done = loop {
            if table.owners.get(&owner).is_none_or(Option::is_some) {
                break Ok(());
            }
            if let Err(stopped) = interrupt::check() {
                break Err(stopped);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                let seconds = time.as_secs_f32();
                break Err(refused(format!(
                    "after {seconds} s of waiting such a transaction is open: commit or abort it"
                )));
            }
            table = match self.ended.wait_timeout(table, NAP.min(time)) {
                Ok((table, _)) => table,
                Err(poisoned) => poisoned.into_inner().0,
            };
        };
        table.waiting -= 1;
        table.held -= held;
        done
    }
}

/// What keeps transactions out of a collection while it lives.
#[derive(Debug)]
struct Gate<'a> {
    intents: &'a Intents,
    number: u64,
}

impl Gate<'_> {
    /// From now on for so long; `None`: until it is dropped.
    fn close_for(&self, time: Option<Duration>) {
        if let Some((_, until)) = self.intents.table().gates.get_mut(&self.number) {
            *until = time.map(|time| Instant::now() + time);
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.intents.table().gates.remove(&self.number);
        self.intents.ended.notify_all();
    }
}

/// The turn of a write that waits for transactions and begins again after each, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    intents: &'a Intents,
    /// When it first waited.
    since: Option<Instant>,
    gate: Option<Gate<'a>>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(intents: &'a Intents) -> Self {
        Turn { intents, since: None, gate: None }
    }

    /// Waits for a transaction that the write has met: [`Intents::wait`].
    pub(crate) fn wait(&mut self, owner: Owner, namespace: &Namespace) -> Result<()> {
        let Some(since) = self.since else {
            let since = *self.since.insert(Instant::now());
            return self.intents.wait(owner, namespace, since);
        };
        let gate = self.gate.get_or_insert_with(|| self.intents.keep_out(namespace));
        gate.close_for(Some(KEEP_OUT));
        self.intents.wait(owner, namespace, since)?;
        gate.close_for(None);
        Ok(())
    }
}

/// The claims of one transaction, which end with it.
#[derive(Debug)]
pub(super) struct Claims {
    intents: Arc<Intents>,
    owner: Owner,
    made: BTreeMap<Namespace, Vec<Intent>>,
}

impl Claims {
    pub(super) fn new(intents: &Arc<Intents>) -> Self {
        let owner = intents.next.fetch_add(1, Ordering::Relaxed);
        Claims { intents: Arc::clone(intents), owner, made: BTreeMap::new() }
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Claims all of `wanted` for a transaction that reads the snapshot number `snapshot`, and returns how many are new; or the
    /// transaction that has claimed one of them. The first claim of a transaction waits for a write that keeps it out.
    pub(super) fn claim(
        &mut self,
        namespace: &Namespace,
        wanted: impl IntoIterator<Item = Intent>,
        snapshot: u64,
    ) -> Result<usize, Owner> {
        let mut wanted = wanted.into_iter().peekable();
        if wanted.peek().is_none() {
            return Ok(0);
        }
        let mut table = self.intents.table();
        // If it is to stop, its statement finds out by itself.
        while !table.owners.contains_key(&self.owner)
            && table.is_closed(namespace)
            && interrupt::check().is_ok()
        {
            table = match self.intents.ended.wait_timeout(table, NAP) {
                Ok((table, _)) => table,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let Table { owners, claims, .. } = &mut *table;
        if owners.insert(self.owner, None).is_none() {
            self.intents.owners.fetch_add(1, Ordering::SeqCst);
        }
        let claimed = claims.entry(namespace.clone()).or_default();
        let made = self.made.entry(namespace.clone()).or_default();
        let mut count = 0;
        for intent in wanted {
            match claimed.by.get(&intent) {
                Some(owner) if *owner == self.owner => continue,
                // It commits, and this transaction sees that.
                Some(owner)
                    if owners.get(owner).is_none_or(|last| last.is_some_and(|last| snapshot > last)) => {}
                Some(owner) => return Err(*owner),
                None => claimed.keys += usize::from(matches!(intent, Intent::Key(_))),
            }
            claimed.by.insert(intent, self.owner);
            made.push(intent);
            count += 1;
        }
        Ok(count)
    }

    /// The transaction is about to commit, with the write lock: `last` is the last snapshot that does not see it.
    pub(super) fn publish_after(&self, last: u64) {
        if let Some(state) = self.intents.table().owners.get_mut(&self.owner) {
            *state = Some(last);
        }
        self.intents.ended.notify_all();
    }

    /// Waits until the transaction that had what this one wanted has ended, but not long.
    pub(super) fn wait_for(&self, winner: Owner, namespace: &Namespace) {
        let patience = Patience { time: RETRY_PATIENCE, writes: usize::MAX, bytes: usize::MAX };
        // If it has not ended, this one fails again.
        let _ = self.intents.wait_for(winner, namespace, patience, Instant::now());
    }

    /// Gives all of them up.
    pub(super) fn release(&mut self) {
        let made = std::mem::take(&mut self.made);
        let mut table = self.intents.table();
        if table.owners.remove(&self.owner).is_none() {
            return;
        }
        for (namespace, intents) in made {
            let Some(claimed) = table.claims.get_mut(&namespace) else { continue };
            for intent in intents {
                // Another transaction may have it by now, if this one has committed.
                if claimed.by.get(&intent) == Some(&self.owner) {
                    claimed.by.remove(&intent);
                    claimed.keys -= usize::from(matches!(intent, Intent::Key(_)));
                }
            }
            if claimed.by.is_empty() {
                table.claims.remove(&namespace);
            }
        }
        self.intents.owners.fetch_sub(1, Ordering::SeqCst);
        drop(table);
        self.intents.ended.notify_all();
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.release();
    }
}

impl Database {
    /// Sets how long a write outside of transactions waits in all for open transactions that have changed documents that it changes, 60
    /// seconds by default, and how many writes may wait at a time, any number by default. Beyond that they fail with `WriteConflict`. A
    /// write of many documents may meet one transaction after another, and begins again after each; from the second on, it keeps
    /// transactions that have not changed anything yet from changing documents of its collection. A thread that changes a document in
    /// a transaction, and then outside of it before the transaction has ended, waits for itself.
    pub fn set_write_wait(&self, time: Duration, writes: usize) {
        let patience = &mut self.inner.intents.table().patience;
        (patience.time, patience.writes) = (time, writes);
    }

    /// Sets how many bytes of a budget the writes that wait for transactions may hold, as their operations say
    /// (`Interrupt::holding`): what they hold, the transactions may need to end. Any number by default.
    pub fn set_write_wait_bytes(&self, bytes: usize) {
        self.inner.intents.table().patience.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        Namespace::parse("shop.orders").unwrap()
    }

    #[test]
    fn nothing_is_left_when_all_transactions_have_ended() {
        let intents = Arc::new(Intents::default());
        let (mut one, mut two) = (Claims::new(&intents), Claims::new(&intents));
        let key = Intent::key("_id_", b"7");
        assert!(intents.is_empty());
        assert_eq!(one.claim(&namespace(), [Intent::Row(1), key, key], 5), Ok(2));
        assert!(intents.has_keys(&namespace()));
        assert_eq!(two.claim(&namespace(), [Intent::Row(2), Intent::Row(1)], 5), Err(one.owner()));
        assert_eq!(intents.owner(&namespace(), Intent::Row(1), None), Some(one.owner()));
        assert_eq!(intents.owner(&namespace(), Intent::Row(1), Some(one.owner())), None);
        drop(one);
        assert_eq!(intents.owner(&namespace(), Intent::Row(1), None), None);
        assert!(!intents.has_keys(&namespace()));
        two.release();
        assert!(intents.is_empty());
        let table = intents.table();
        assert!(table.claims.is_empty() && table.owners.is_empty());
    }

    #[test]
    fn a_commit_that_is_visible_binds_only_those_who_do_not_see_it() {
        let intents = Arc::new(Intents::default());
        let (mut one, mut old, mut new) =
            (Claims::new(&intents), Claims::new(&intents), Claims::new(&intents));
        let row = [Intent::Row(1)];
        assert_eq!(one.claim(&namespace(), row, 5), Ok(1));
        one.publish_after(7);
        assert_eq!(old.claim(&namespace(), row, 7), Err(one.owner()));
        assert_eq!(intents.owner(&namespace(), row[0], None), None);
        intents.wait(one.owner(), &namespace(), Instant::now()).unwrap();
        assert_eq!(new.claim(&namespace(), row, 8), Ok(1));
        drop(one);
        assert_eq!(intents.owner(&namespace(), row[0], None), Some(new.owner()));
    }

    #[test]
    fn from_the_second_transaction_on_a_write_keeps_those_out_that_have_changed_nothing() {
        let intents = Arc::new(Intents::default());
        let mut open = Claims::new(&intents);
        open.claim(&namespace(), [Intent::Row(1)], 5).unwrap();
        let claims_within = |millis| {
            let mut claims = Claims::new(&intents);
            let _operation =
                Arc::new(interrupt::Interrupt::new(Some(Instant::now() + Duration::from_millis(millis))))
                    .enter();
            let start = Instant::now();
            claims.claim(&namespace(), [Intent::Row(2)], 5).unwrap();
            start.elapsed() < Duration::from_millis(millis)
        };
        let mut turn = Turn::new(&intents);
        intents.table().patience.time = Duration::from_millis(20);
        turn.wait(open.owner(), &namespace()).unwrap_err();
        assert!(claims_within(1_000));
        intents.table().patience.time = Duration::from_secs(60);
        let mut ended = Claims::new(&intents);
        ended.claim(&namespace(), [Intent::Row(3)], 5).unwrap();
        let owner = ended.owner();
        drop(ended);
        turn.wait(owner, &namespace()).unwrap();
        assert!(!claims_within(100), "it was not kept out");
        // The write may have to wait for one that has claims.
        assert_eq!(open.claim(&namespace(), [Intent::Row(4)], 5), Ok(1));
        assert!(!intents.table().is_closed(&Namespace::parse("shop.other").unwrap()));
        drop(turn);
        assert!(claims_within(1_000));
        assert!(intents.table().gates.is_empty());
    }

    #[test]
    fn waiting_ends_by_the_operation_s_limit_the_database_s_limit_or_when_others_wait() {
        let intents = Arc::new(Intents::default());
        let mut one = Claims::new(&intents);
        one.claim(&namespace(), [Intent::Row(1)], 5).unwrap();
        let soon = Instant::now() + Duration::from_millis(30);
        {
            let _operation = Arc::new(interrupt::Interrupt::new(Some(soon))).enter();
            let ended = intents.wait(one.owner(), &namespace(), Instant::now()).unwrap_err();
            assert_eq!(ended.code, ErrorCode::MaxTimeMSExpired);
        }
        for (millis, writes) in [(10, 1), (60_000, 0)] {
            let time = Duration::from_millis(millis);
            intents.table().patience = Patience { time, writes, bytes: usize::MAX };
            let ended = intents.wait(one.owner(), &namespace(), Instant::now()).unwrap_err();
            assert_eq!(ended.code, ErrorCode::WriteConflict, "{ended}");
        }
        // It has waited for another transaction before.
        let minute = Duration::from_secs(60);
        intents.table().patience = Patience { time: minute, writes: 1, bytes: 100 };
        let ended = intents.wait(one.owner(), &namespace(), Instant::now() - minute).unwrap_err();
        assert_eq!(ended.code, ErrorCode::WriteConflict, "{ended}");
        // What it holds, the transaction may need.
        let _operation = Arc::new(interrupt::Interrupt::new(None).holding(101)).enter();
        let ended = intents.wait(one.owner(), &namespace(), Instant::now()).unwrap_err();
        assert!(ended.to_string().contains("memory"), "{ended}");
        let table = intents.table();
        assert_eq!((table.waiting, table.held), (0, 0));
    }
}
