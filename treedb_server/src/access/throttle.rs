//! Limiting failed log-ins: an address that fails often has to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address after which it has to wait.
const FREE: u32 = 10;
/// How long an address waits then, after each further failure.
const PAUSE: Duration = Duration::from_secs(5);
/// After so long without a failure an address is forgotten.
const MEMORY: Duration = Duration::from_secs(300);
/// Addresses that are remembered.
const MOST_ADDRESSES: usize = 10_000;

/// Failed log-ins by address.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Throttle {
    /// How long an address has to wait before it may try.
    pub(crate) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let Failures { count, last } = *failures.get(&address)?;
        if count < FREE {
            return None;
        }
        PAUSE.checked_sub(now.saturating_duration_since(last)).filter(|left| !left.is_zero())
    }

    /// Remembers a failure.
    pub(crate) fn failed(&self, address: IpAddr, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MOST_ADDRESSES {
            failures.retain(|_, known| now.saturating_duration_since(known.last) < PAUSE);
        }
        let full = failures.len() >= MOST_ADDRESSES && !failures.contains_key(&address);
        if full {
            // So many addresses fail at a time: one more that is not counted makes no difference.
            return;
        }
        let known = failures.entry(address).or_insert(Failures { count: 0, last: now });
        if now.saturating_duration_since(known.last) > MEMORY {
            known.count = 0;
        }
        *known = Failures { count: known.count.saturating_add(1), last: now };
    }

    /// Forgets the failures of an address, which knows a password.
    pub(crate) fn succeeded(&self, address: IpAddr) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_often_waits_and_others_do_not() {
        let throttle = Throttle::default();
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        for _ in 0..FREE {
            assert_eq!(throttle.wait(bad, now), None);
            throttle.failed(bad, now);
        }
        assert_eq!(throttle.wait(bad, now), Some(PAUSE));
        assert_eq!(throttle.wait(good, now), None);
        let later = now + PAUSE;
        assert_eq!(throttle.wait(bad, later), None);
        throttle.failed(bad, later);
        assert_eq!(throttle.wait(bad, later), Some(PAUSE));
        throttle.succeeded(bad);
        assert_eq!(throttle.wait(bad, later), None);
        throttle.failed(good, now);
        throttle.failed(good, now + 2 * MEMORY);
        assert_eq!(throttle.failures.lock().unwrap()[&good].count, 1);
    }

    #[test]
    fn the_addresses_that_are_remembered_are_limited() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for address in 0..2 * MOST_ADDRESSES as u32 {
            throttle.failed(IpAddr::from(address.to_be_bytes()), now);
        }
        assert_eq!(throttle.failures.lock().unwrap().len(), MOST_ADDRESSES);
    }
}
