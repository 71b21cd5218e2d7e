//! Limits on failed log-ins, by user and by address: an address that has failed too often as one user has to wait before it tries this user
//! again; one that has failed too often as any users has to wait before it tries a user who has not logged in from there.
//!
//! The second limit is against guessing with many user names. It does not affect users who have logged in from the address before, and
//! a client that keeps trying one wrong password is slowed down by the first limit to less than the second permits. Certificates cannot be
//! guessed: users of `$external` are not delayed by the failures of others, nor do their failures delay others.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::user::QualifiedName;
use super::{EXTERNAL, network};

/// Failed log-ins of an address as one user after which it has to wait.
const FREE: u32 = 10;
/// How long an address waits then, after each further failure.
const PAUSE: Duration = Duration::from_secs(5);
/// After so long without a failure an address with a user is forgotten.
const MEMORY: Duration = Duration::from_secs(300);
/// Failed log-ins of an address, whatever the users, after which it has to wait.
const FREE_OF_ADDRESS: u32 = 100;
/// How long until the count goes down by one: five clients with wrong passwords are tolerated at one address, each of which fails once in [`PAUSE`].
const DRAIN: Duration = Duration::from_secs(1);
/// Addresses, or addresses with users, that are remembered of each kind.
const MOST: usize = 10_000;

/// Failed log-ins by address and user.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    known: Mutex<Known>,
    failed: AtomicU64,
    succeeded: AtomicU64,
}

/// What is remembered.
#[derive(Debug, Default)]
struct Known {
    failures: HashMap<Key, Failures>,
    /// When the last failure of an address will be forgotten, with those before it.
    addresses: HashMap<IpAddr, Instant>,
    /// The users who have logged in from an address, and when they last did.
    successes: HashMap<Key, Instant>,
}

/// An address, of version 6 its network of 64 bits, and who it tried to be.
type Key = (IpAddr, QualifiedName);

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

fn key(address: IpAddr, user: &QualifiedName) -> Key {
    (network(address), user.clone())
}

/// Makes room for `key`: of [`MOST`] that there are, the one with the least `age` goes.
fn make_room<K: Hash + Eq + Clone, V>(map: &mut HashMap<K, V>, key: &K, age: impl Fn(&V) -> Instant) {
    if map.len() < MOST || map.contains_key(key) {
        return;
    }
    let oldest = map.iter().min_by_key(|(_, value)| age(value)).map(|(key, _)| key.clone());
    oldest.and_then(|oldest| map.remove(&oldest));
}

impl Known {
    /// How long an address with a user has to wait for its own failures.
    fn wait_of_user(&self, key: &Key, now: Instant) -> Option<Duration> {
        let Failures { count, last } = *self.failures.get(key)?;
        if count < FREE {
            return None;
        }
        PAUSE.checked_sub(now.saturating_duration_since(last))
    }

    /// How long an address has to wait before it tries a user who has not logged in from there.
    fn wait_of_address(&self, key: &Key, now: Instant) -> Option<Duration> {
        if key.1.database == EXTERNAL || self.successes.contains_key(key) {
            return None;
        }
        let left = self.addresses.get(&key.0)?.saturating_duration_since(now);
        left.checked_sub(DRAIN * (FREE_OF_ADDRESS - 1))
    }
}

impl Throttle {
    /// How long an address has to wait before it may try to be this user.
    pub(crate) fn wait(&self, address: IpAddr, user: &QualifiedName, now: Instant) -> Option<Duration> {
        let (known, key) = (self.lock(), key(address, user));
        known.wait_of_user(&key, now).max(known.wait_of_address(&key, now)).filter(|wait| !wait.is_zero())
    }

    /// Log-ins that succeeded, and those that failed or had to wait, so far.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// A log-in had to wait, or its message was malformed.
    pub(crate) fn refused(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Remembers a failure.
    pub(crate) fn failed(&self, address: IpAddr, user: &QualifiedName, now: Instant) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let key = key(address, user);
        let mut known = self.lock();
        if user.database != EXTERNAL {
            let of_address = known.addresses.get(&key.0).map_or(now, |forgotten| now.max(*forgotten));
            make_room(&mut known.addresses, &key.0, |forgotten| *forgotten);
            // However many were tried at the same time, it is not longer before the address may try again.
            known.addresses.insert(key.0, (of_address + DRAIN).min(now + DRAIN * FREE_OF_ADDRESS));
        }
        make_room(&mut known.failures, &key, |failures| failures.last);
        let failures = known.failures.entry(key).or_insert(Failures { count: 0, last: now });
        if now.saturating_duration_since(failures.last) > MEMORY {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
    }

    /// Forgets the failures of an address with a user, whose password it knows.
    pub(crate) fn succeeded(&self, address: IpAddr, user: &QualifiedName, now: Instant) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        let key = key(address, user);
        let mut known = self.lock();
        known.failures.remove(&key);
        make_room(&mut known.successes, &key, |last| *last);
        known.successes.insert(key, now);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_often_waits_and_others_do_not() {
        let throttle = Throttle::default();
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (ann, bob) = (QualifiedName::new("admin", "ann"), QualifiedName::new("admin", "bob"));
        let now = Instant::now();
        for _ in 0..FREE {
            assert_eq!(throttle.wait(bad, &ann, now), None);
            throttle.failed(bad, &ann, now);
        }
        assert_eq!(throttle.wait(bad, &ann, now), Some(PAUSE));
        assert_eq!(throttle.wait(good, &ann, now), None);
        assert_eq!(throttle.wait(bad, &bob, now), None);
        // One's own password does not help to guess another's.
        throttle.succeeded(bad, &bob, now);
        assert_eq!(throttle.wait(bad, &ann, now), Some(PAUSE));
        let later = now + PAUSE;
        assert_eq!(throttle.wait(bad, &ann, later), None);
        throttle.failed(bad, &ann, later);
        assert_eq!(throttle.wait(bad, &ann, later), Some(PAUSE));
        throttle.succeeded(bad, &ann, later);
        assert_eq!(throttle.wait(bad, &ann, later), None);
        throttle.failed(good, &ann, now);
        throttle.failed(good, &ann, now + 2 * MEMORY);
        assert_eq!(throttle.lock().failures[&key(good, &ann)].count, 1);
    }

    #[test]
    fn addresses_of_one_network_are_one_and_what_is_remembered_is_limited() {
        let throttle = Throttle::default();
        let (ann, now) = (QualifiedName::new("admin", "ann"), Instant::now());
        for host in 0..FREE {
            throttle.failed(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host as u16]), &ann, now);
        }
        assert_eq!(throttle.wait(IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]), &ann, now), Some(PAUSE));
        for address in 0..MOST as u32 + 10 {
            throttle.failed(IpAddr::from(address.to_be_bytes()), &ann, now + Duration::from_secs(1));
        }
        assert_eq!(throttle.lock().failures.len(), MOST);
        assert_eq!(throttle.lock().addresses.len(), MOST);
        let last = IpAddr::from((MOST as u32 + 9).to_be_bytes());
        assert!(throttle.lock().failures.contains_key(&key(last, &ann)));
    }

    fn name(n: u32) -> QualifiedName {
        QualifiedName::new("admin", &format!("user{n}"))
    }

    #[test]
    fn an_address_that_tries_many_names_waits_and_who_was_there_before_does_not() {
        let throttle = Throttle::default();
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (known, now) = (QualifiedName::new("admin", "app"), Instant::now());
        throttle.succeeded(bad, &known, now);
        for n in 0..FREE_OF_ADDRESS {
            assert_eq!(throttle.wait(bad, &name(n), now), None, "{n}");
            throttle.failed(bad, &name(n), now);
        }
        assert_eq!(throttle.wait(bad, &name(FREE_OF_ADDRESS), now), Some(DRAIN));
        // Those whose password it guessed once too.
        assert_eq!(throttle.wait(bad, &name(0), now), Some(DRAIN));
        assert_eq!(throttle.wait(bad, &known, now), None);
        assert_eq!(throttle.wait(good, &name(0), now), None);
        assert_eq!(throttle.wait(bad, &name(FREE_OF_ADDRESS), now + DRAIN), None);
        throttle.failed(bad, &name(FREE_OF_ADDRESS), now + DRAIN);
        assert_eq!(throttle.wait(bad, &name(1_000), now + DRAIN), Some(DRAIN));
        // A user who has logged in from there is still limited by their own failures.
        for _ in 0..FREE {
            throttle.failed(bad, &known, now + DRAIN);
        }
        assert_eq!(throttle.wait(bad, &known, now + DRAIN), Some(PAUSE));
        assert_eq!(throttle.wait(bad, &name(1_000), now + DRAIN * 2 * FREE_OF_ADDRESS), None);
        assert_eq!(throttle.lock().successes.len(), 1);
        for _ in 0..10 * FREE_OF_ADDRESS {
            throttle.failed(good, &name(0), now);
        }
        assert_eq!(throttle.wait(good, &name(1), now), Some(DRAIN));
    }

    #[test]
    fn five_clients_that_never_stop_trying_one_wrong_password_hold_up_no_others() {
        let throttle = Throttle::default();
        let (address, begin) = (IpAddr::from([10, 0, 0, 1]), Instant::now());
        let mut failed = 0;
        for tenth in 0..36_000 {
            let now = begin + Duration::from_millis(100) * tenth;
            for user in (0..5).map(name) {
                if throttle.wait(address, &user, now).is_none() {
                    throttle.failed(address, &user, now);
                    failed += 1;
                }
            }
            // A user who has not logged in from there.
            assert!(throttle.wait(address, &name(99), now).is_none(), "{tenth}");
        }
        assert!(failed < 5 * (FREE + 3_600 / 5 + 1), "{failed}");
    }

    #[test]
    fn whom_addresses_have_been_is_limited_too() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for n in 0..MOST as u32 + 10 {
            throttle.succeeded(
                IpAddr::from(n.to_be_bytes()),
                &name(0),
                now + Duration::from_millis(n.into()),
            );
        }
        assert_eq!(throttle.lock().successes.len(), MOST);
        assert!(!throttle.lock().successes.contains_key(&key(IpAddr::from([0, 0, 0, 9]), &name(0))));
    }
}
