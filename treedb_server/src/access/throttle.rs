//! Limiting failed log-ins: an address that often fails to be a user has to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::network;
use super::user::QualifiedName;

/// Failures after which an address has to wait.
const FREE: u32 = 10;
/// How long an address waits then, after each further failure.
const PAUSE: Duration = Duration::from_secs(5);
/// After so long without a failure an address is forgotten.
const MEMORY: Duration = Duration::from_secs(300);
/// Addresses with users that are remembered.
const MOST: usize = 10_000;

/// Failed log-ins by address and user.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<Key, Failures>>,
    failed: AtomicU64,
    succeeded: AtomicU64,
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

impl Throttle {
    /// How long an address has to wait before it may try to be this user.
    pub(crate) fn wait(&self, address: IpAddr, user: &QualifiedName, now: Instant) -> Option<Duration> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Failures { count, last } = *failures.get(&key(address, user))?;
        if count < FREE {
            return None;
        }
        PAUSE.checked_sub(now.saturating_duration_since(last)).filter(|left| !left.is_zero())
    }

    /// Log-ins that succeeded, and those that failed or had to wait, so far.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.succeeded.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// One had to wait.
    pub(crate) fn waited(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Remembers a failure.
    pub(crate) fn failed(&self, address: IpAddr, user: &QualifiedName, now: Instant) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let key = key(address, user);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MOST && !failures.contains_key(&key) {
            let oldest = failures.iter().min_by_key(|(_, known)| known.last).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| failures.remove(&oldest));
        }
        let known = failures.entry(key).or_insert(Failures { count: 0, last: now });
        if now.saturating_duration_since(known.last) > MEMORY {
            known.count = 0;
        }
        *known = Failures { count: known.count.saturating_add(1), last: now };
    }

    /// Forgets the failures of an address with a user, whose password it knows.
    pub(crate) fn succeeded(&self, address: IpAddr, user: &QualifiedName) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(address, user));
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
        throttle.succeeded(bad, &bob);
        assert_eq!(throttle.wait(bad, &ann, now), Some(PAUSE));
        let later = now + PAUSE;
        assert_eq!(throttle.wait(bad, &ann, later), None);
        throttle.failed(bad, &ann, later);
        assert_eq!(throttle.wait(bad, &ann, later), Some(PAUSE));
        throttle.succeeded(bad, &ann);
        assert_eq!(throttle.wait(bad, &ann, later), None);
        throttle.failed(good, &ann, now);
        throttle.failed(good, &ann, now + 2 * MEMORY);
        assert_eq!(throttle.failures.lock().unwrap()[&key(good, &ann)].count, 1);
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
        assert_eq!(throttle.failures.lock().unwrap().len(), MOST);
        let last = IpAddr::from((MOST as u32 + 9).to_be_bytes());
        assert!(throttle.failures.lock().unwrap().contains_key(&key(last, &ann)));
    }
}
