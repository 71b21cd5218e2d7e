//! Who has logged in at the page: tokens, of which only hashes are kept, and the identities that they stand for.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::access::identity::Identity;
use crate::access::scram::{ClientExchange, Mechanism};
use crate::mongo::error::CommandError;

/// Log-ins at a time; of more, those that have not been used for longest are forgotten.
const MOST: usize = 500;
/// How long a log-in lives without being used.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// How long one lives at all.
const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Attempts that are checked at a time: each costs some milliseconds of hashing.
pub(super) const ATTEMPTS: usize = 2;

type Hash = [u8; 32];

#[derive(Debug)]
struct Login {
    identity: Identity,
    began: Instant,
    used: Instant,
}

/// The log-ins.
#[derive(Debug)]
pub(super) struct Logins {
    by_token: Mutex<HashMap<Hash, Login>>,
    pub(super) attempts: Semaphore,
}

impl Default for Logins {
    fn default() -> Self {
        Logins { by_token: Mutex::default(), attempts: Semaphore::new(ATTEMPTS) }
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, Login>> {
        // Nothing panics while it is held.
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an identity that has authenticated. Returns its token.
    pub(super) fn keep(&self, identity: Identity, now: Instant) -> Result<String, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all = self.lock();
        all.retain(|_, login| login.lives(now));
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, login)| login.used).map(|(token, _)| *token);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        all.insert(hash(&token), Login { identity, began: now, used: now });
        Ok(token)
    }

    /// The identity of a token, for a request from this address.
    pub(super) fn find(&self, token: &str, peer: SocketAddr, now: Instant) -> Option<Identity> {
        let mut all = self.lock();
        // By a hash, so that how long it takes tells nothing about tokens.
        let login = all.get_mut(&hash(token)).filter(|login| login.lives(now))?;
        login.used = now;
        Some(login.identity.at(peer))
    }

    /// Forgets a token.
    pub(super) fn forget(&self, token: &str) {
        drop(self.lock().remove(&hash(token)));
    }
}

impl Login {
    fn lives(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE && now.saturating_duration_since(self.began) < LIFE
    }
}

/// Authenticates as drivers do, with both sides of the exchange here: the same limits on failures, the same log lines. It computes
/// for some milliseconds.
///
/// # Errors
/// `AuthenticationFailed`, also for an address that has to wait.
pub(super) fn authenticate(
    access: &Access,
    peer: SocketAddr,
    database: &str,
    name: &str,
    password: &str,
) -> Result<Identity, CommandError> {
    let identity = Identity::new(peer);
    let refused = |_| CommandError::named(18, "AuthenticationFailed", "Authentication failed.");
    // Of a user that may only use the other one, this one fails.
    let mut last = None;
    for mechanism in [Mechanism::Sha256, Mechanism::Sha1] {
        let known = access.store.user(&crate::access::user::QualifiedName::new(database, name))?;
        if known.is_some_and(|user| !user.mechanisms().any(|own| own == mechanism)) {
            continue;
        }
        let (mut exchange, first) = ClientExchange::new(mechanism, name, password).map_err(refused)?;
        let step = identity.begin(access, database, mechanism.name(), first.as_bytes(), true)?;
        let proof = exchange.answer(&step.payload).map_err(refused)?;
        match identity.proceed(access, step.id, proof.as_bytes()) {
            Ok(_) => return Ok(identity),
            Err(error) => {
                last = Some(CommandError::from(error));
                break;
            }
        }
    }
    Err(last.unwrap_or_else(|| CommandError::named(18, "AuthenticationFailed", "Authentication failed.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> SocketAddr {
        ([127, 0, 0, 1], 5).into()
    }

    #[test]
    fn tokens_end_when_they_are_not_used_or_old_or_forgotten() {
        let logins = Logins::default();
        let begin = Instant::now();
        let keep = |now| logins.keep(Identity::new(peer()), now).unwrap();
        let (idle, used, forgotten) = (keep(begin), keep(begin), keep(begin));
        assert!(used.len() == 64 && used != idle);
        assert!(logins.find(&used, peer(), begin).is_some());
        assert!(logins.find("", peer(), begin).is_none());
        assert!(logins.find(&used.to_uppercase(), peer(), begin).is_none());
        logins.forget(&forgotten);
        assert!(logins.find(&forgotten, peer(), begin).is_none());
        let mut now = begin;
        while now < begin + LIFE {
            assert!(logins.find(&used, peer(), now).is_some());
            now += IDLE / 2;
        }
        assert!(logins.find(&idle, peer(), begin + IDLE).is_none());
        assert!(logins.find(&used, peer(), now).is_none(), "it is used, but too old");
        for _ in 0..MOST + 10 {
            keep(now);
        }
        assert_eq!(logins.lock().len(), MOST);
    }
}
