//! Who has logged in at the page: tokens and secrets, of which only hashes are kept, and the identities that they stand for.
//!
//! The token is in a cookie, which no script can read, and the secret in the storage of the page. Each alone is of no use: browsers send
//! a cookie to every port of a host, behind which other users of the machine may have servers, but storage belongs to one port.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use treedb_query::query::ErrorCode;

use super::MOST_OF_LOGIN;
use crate::access::Access;
use crate::access::identity::Identity;
use crate::access::scram::{ClientExchange, Credentials, Mechanism};
use crate::access::throttle::Throttle;
use crate::access::user::QualifiedName;
use crate::mongo::error::CommandError;

/// Log-ins at a time; of more, those that have not been used for longest are forgotten.
const MOST: usize = 500;
/// How long a log-in lives without being used.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// How long one lives at all.
const LIFE: Duration = Duration::from_secs(12 * 3600);
/// Attempts that are checked at a time: each costs some milliseconds of hashing.
const ATTEMPTS: usize = 1;

type Hash = [u8; 32];

/// What somebody has proved to know: with another password the log-in ends.
#[derive(Debug, Clone)]
pub(super) struct Proof {
    user: QualifiedName,
    credentials: Vec<(Mechanism, Credentials)>,
    /// The version of users and roles at which they were these.
    version: u64,
}

impl Proof {
    /// Whether the user still has these credentials.
    ///
    /// # Errors
    /// Those of reading users.
    fn holds(&mut self, access: &Access) -> Result<bool, CommandError> {
        let version = access.store.version();
        if version == self.version {
            return Ok(true);
        }
        let holds = access.store.user(&self.user)?.is_some_and(|user| user.credentials == self.credentials);
        if holds {
            self.version = version;
        }
        Ok(holds)
    }
}

#[derive(Debug)]
struct Login {
    identity: Identity,
    proof: Proof,
    /// Of the secret.
    secret: Hash,
    turns: Arc<Semaphore>,
    began: Instant,
    used: Instant,
}

/// The log-ins.
#[derive(Debug)]
pub(super) struct Logins {
    by_token: Mutex<HashMap<Hash, Login>>,
    pub(super) attempts: Semaphore,
    /// Failures of addresses, whatever names they tried.
    throttle: Throttle,
}

impl Default for Logins {
    fn default() -> Self {
        Logins {
            by_token: Mutex::default(),
            attempts: Semaphore::new(ATTEMPTS),
            throttle: Throttle::default(),
        }
    }
}

/// What failures are counted for, besides the address.
fn anybody() -> QualifiedName {
    QualifiedName::new("", "")
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

/// 32 random bytes as hexadecimal digits.
fn random() -> Result<String, getrandom::Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a log-in is known by.
#[derive(Debug)]
pub(super) struct Keys {
    /// In the cookie.
    pub(super) token: String,
    /// In the storage of the page.
    pub(super) secret: String,
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, Login>> {
        // Nothing panics while it is held.
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses an address that has failed too often.
    pub(super) fn check(&self, address: IpAddr, now: Instant) -> Result<(), CommandError> {
        let Some(wait) = self.throttle.wait(address, &anybody(), now) else { return Ok(()) };
        let seconds = wait.as_secs() + 1;
        let message = format!("too many failed log-ins from this address: try again in {seconds} s");
        Err(CommandError::new(ErrorCode::AuthenticationFailed, message))
    }

    /// Counts a failure of an address.
    pub(super) fn failed(&self, address: IpAddr, now: Instant) {
        self.throttle.failed(address, &anybody(), now);
    }

    /// Forgets the failures of an address.
    pub(super) fn succeeded(&self, address: IpAddr, now: Instant) {
        self.throttle.succeeded(address, &anybody(), now);
    }

    /// Keeps an identity that has authenticated.
    pub(super) fn keep(
        &self,
        identity: Identity,
        proof: Proof,
        now: Instant,
    ) -> Result<Keys, getrandom::Error> {
        let keys = Keys { token: random()?, secret: random()? };
        let mut all = self.lock();
        all.retain(|_, login| login.lives(now));
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, login)| login.used).map(|(token, _)| *token);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let (secret, turns) = (hash(&keys.secret), Arc::new(Semaphore::new(MOST_OF_LOGIN)));
        all.insert(hash(&keys.token), Login { identity, proof, secret, turns, began: now, used: now });
        Ok(keys)
    }

    /// The identity of a token and its secret, for a request from this address, and its turns to run commands. `used`: a person has asked
    /// for it.
    pub(super) fn find(
        &self,
        (token, secret): (&str, &str),
        peer: SocketAddr,
        access: &Access,
        used: bool,
        now: Instant,
    ) -> Option<(Identity, Arc<Semaphore>)> {
        // By a hash, so that how long it takes tells nothing about tokens.
        let (secret, hash) = (hash(secret), hash(token));
        let is_of = |login: &&Login| login.lives(now) && bool::from(login.secret.ct_eq(&secret));
        let mut proof = self.lock().get(&hash).filter(is_of)?.proof.clone();
        // Not while it is locked: users may have to be read.
        let holds = proof.holds(access);
        let mut all = self.lock();
        match holds {
            Ok(true) => {}
            Ok(false) => {
                all.remove(&hash);
                return None;
            }
            Err(_) => return None,
        }
        let login = all.get_mut(&hash)?;
        login.proof = proof;
        if used {
            login.used = now;
        }
        Some((login.identity.at(peer), Arc::clone(&login.turns)))
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
) -> Result<(Identity, Proof), CommandError> {
    let identity = Identity::new(peer);
    let refused = |_| CommandError::new(ErrorCode::AuthenticationFailed, "Authentication failed.");
    // Of a user that may only use the other one, this one fails.
    let mut last = None;
    let user = QualifiedName::new(database, name);
    // Read before: what is checked below is this or newer, and then the log-in ends with its first use.
    let version = access.store.version();
    let known = access.store.user(&user)?;
    for mechanism in [Mechanism::Sha256, Mechanism::Sha1] {
        if known.as_ref().is_some_and(|user| !user.mechanisms().any(|own| own == mechanism)) {
            continue;
        }
        let (mut exchange, first) = ClientExchange::new(mechanism, name, password).map_err(refused)?;
        let step = identity.begin(access, database, mechanism.name(), first.as_bytes(), true)?;
        let proof = exchange.answer(&step.payload).map_err(refused)?;
        match identity.proceed(access, step.id, proof.as_bytes()) {
            Ok(_) => {
                let credentials = known.map(|user| user.credentials).unwrap_or_default();
                return Ok((identity, Proof { user, credentials, version }));
            }
            Err(error) => {
                last = Some(CommandError::from(error));
                break;
            }
        }
    }
    Err(last.unwrap_or_else(|| CommandError::new(ErrorCode::AuthenticationFailed, "Authentication failed.")))
}

#[cfg(test)]
mod tests {
    use treedb_collections::Database;

    use super::*;
    use crate::access::set_password;
    use crate::access::user::User;

    fn peer() -> SocketAddr {
        ([127, 0, 0, 1], 5).into()
    }

    fn access() -> (Access, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Access::new(Database::open(dir.path()).unwrap(), true).unwrap(), dir)
    }

    fn put(access: &Access, user: &mut User, password: &str) {
        set_password(user, password, &[Mechanism::Sha256]).unwrap();
        access.store.change(|change| change.put_user(user)).unwrap();
    }

    #[test]
    fn tokens_end_when_they_are_not_used_or_old_or_forgotten() {
        let (access, _dir) = access();
        put(&access, &mut User::new(QualifiedName::new("admin", "ann")), "secret");
        let (_, proof) = authenticate(&access, peer(), "admin", "ann", "secret").unwrap();
        let logins = Logins::default();
        let begin = Instant::now();
        let keep = |now| logins.keep(Identity::new(peer()), proof.clone(), now).unwrap();
        let found = |token: &str, secret: &str, used, now| {
            logins.find((token, secret), peer(), &access, used, now).is_some()
        };
        let find = |keys: &Keys, used, now| found(&keys.token, &keys.secret, used, now);
        let (idle, used, forgotten, polled) = (keep(begin), keep(begin), keep(begin), keep(begin));
        let random = [&used.token, &used.secret, &idle.token, &idle.secret];
        assert!(random.iter().all(|text| text.len() == 64));
        assert!(random.iter().enumerate().all(|(at, text)| !random[..at].contains(text)));
        assert!(find(&used, true, begin));
        for (token, secret) in [
            ("", ""),
            (used.token.as_str(), ""),
            ("", used.secret.as_str()),
            (used.token.as_str(), idle.secret.as_str()),
            (used.token.as_str(), used.token.as_str()),
            (used.token.to_uppercase().as_str(), used.secret.as_str()),
            (used.token.as_str(), &used.secret[..63]),
        ] {
            assert!(!found(token, secret, true, begin), "{token} {secret}");
        }
        logins.forget(&forgotten.token);
        assert!(!find(&forgotten, true, begin));
        let mut now = begin;
        while now < begin + LIFE {
            assert!(find(&used, true, now));
            // A page that nobody looks at asks as well.
            assert_eq!(find(&polled, false, now), now < begin + IDLE);
            now += IDLE / 2;
        }
        assert!(!find(&idle, true, begin + IDLE));
        assert!(!find(&used, true, now), "it is used, but too old");
        for _ in 0..MOST + 10 {
            keep(now);
        }
        assert_eq!(logins.lock().len(), MOST);
    }

    #[test]
    fn a_log_in_ends_with_the_password_and_not_with_other_changes() {
        let (access, _dir) = access();
        let mut ann = User::new(QualifiedName::new("admin", "ann"));
        put(&access, &mut ann, "secret");
        let (identity, proof) = authenticate(&access, peer(), "admin", "ann", "secret").unwrap();
        let (logins, now) = (Logins::default(), Instant::now());
        let Keys { token, secret } = logins.keep(identity, proof, now).unwrap();
        let find = || logins.find((&token, &secret), peer(), &access, true, now).is_some();
        put(&access, &mut User::new(QualifiedName::new("admin", "bob")), "x");
        assert!(find());
        ann.roles.push(QualifiedName::new("admin", "root"));
        access.store.change(|change| change.put_user(&ann)).unwrap();
        assert!(find());
        put(&access, &mut ann, "another");
        assert!(!find());
        assert_eq!(logins.lock().len(), 0);
        assert!(authenticate(&access, peer(), "admin", "ann", "secret").is_err());
    }

    #[test]
    fn an_address_waits_whatever_names_it_tries_and_others_do_not() {
        let (logins, now) = (Logins::default(), Instant::now());
        let (bad, good) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        while logins.check(bad, now).is_ok() {
            logins.failed(bad, now);
        }
        assert!(logins.check(good, now).is_ok());
        logins.succeeded(bad, now);
        assert!(logins.check(bad, now).is_ok());
    }
}
