//! What the server stores instead of a password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::{Document, RawDocument, doc};

use super::{Mechanism, Refused};

/// What the server stores instead of a password, for one mechanism: enough to check a proof, not enough to make one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(super) mechanism: Mechanism,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
    pub(super) stored_key: Vec<u8>,
    pub(super) server_key: Vec<u8>,
}

impl Credentials {
    /// Those of a password, with a random salt.
    ///
    /// # Errors
    /// The password has characters that none may have; there is no randomness.
    pub(crate) fn new(mechanism: Mechanism, user: &str, password: &str) -> Result<Credentials, Refused> {
        let mut salt = vec![0; mechanism.bytes() - 4];
        getrandom::fill(&mut salt).map_err(|_| Refused::Malformed("the system has no random numbers"))?;
        Credentials::salted(mechanism, user, password, salt, mechanism.iterations())
    }

    /// Those of a password.
    pub(super) fn salted(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Result<Credentials, Refused> {
        let password = mechanism.prepared(user, password)?;
        if password.is_empty() {
            return Err(Refused::Malformed(
                "nothing is left of the password but characters that do not count",
            ));
        }
        let key = mechanism.salted_password(&password, &salt, iterations);
        Ok(Credentials {
            mechanism,
            salt,
            iterations,
            stored_key: mechanism.hash(&mechanism.hmac(&key, b"Client Key")),
            server_key: mechanism.hmac(&key, b"Server Key"),
        })
    }

    /// Those of a user that does not exist: every proof is wrong, but nobody can tell. The salt is always the same for a
    /// name, as that of a real user is.
    pub(crate) fn of_nobody(mechanism: Mechanism, secret: &[u8], user: &str) -> Credentials {
        let mut salt = mechanism.hmac(secret, user.as_bytes());
        salt.truncate(mechanism.bytes() - 4);
        let key = |name: &str| mechanism.hmac(secret, format!("{name}\0{user}").as_bytes());
        Credentials {
            mechanism,
            salt,
            iterations: mechanism.iterations(),
            stored_key: key("stored"),
            server_key: key("server"),
        }
    }

    /// The form that MongoDB stores them in.
    pub(crate) fn document(&self) -> Document {
        doc! {
            "iterationCount": i64::from(self.iterations) as i32,
            "salt": STANDARD.encode(&self.salt),
            "storedKey": STANDARD.encode(&self.stored_key),
            "serverKey": STANDARD.encode(&self.server_key),
        }
    }

    /// Reads that form; `None` if it is not that.
    pub(crate) fn read(mechanism: Mechanism, document: &RawDocument) -> Option<Credentials> {
        let bytes = |name: &str| STANDARD.decode(document.get_str(name).ok()?).ok();
        let credentials = Credentials {
            mechanism,
            salt: bytes("salt")?,
            iterations: u32::try_from(document.get_i32("iterationCount").ok()?).ok()?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        };
        let whole = [&credentials.stored_key, &credentials.server_key]
            .iter()
            .all(|key| key.len() == mechanism.bytes());
        whole.then_some(credentials)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the keys: with the server's anybody can pretend to be it.
        f.debug_struct("Credentials").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_they_are_stored_and_never_shown() {
        for mechanism in Mechanism::ALL {
            let credentials = Credentials::new(mechanism, "ann", "secret").unwrap();
            let stored = bson::RawDocumentBuf::try_from(&credentials.document()).unwrap();
            assert_eq!(Credentials::read(mechanism, &stored), Some(credentials.clone()));
            let other = Mechanism::ALL.into_iter().find(|other| *other != mechanism).unwrap();
            assert_eq!(Credentials::read(other, &stored), None);
            let shown = format!("{credentials:?}");
            assert!(!shown.contains(&STANDARD.encode(&credentials.server_key)) && !shown.contains("key"));
        }
        assert!(Credentials::new(Mechanism::Sha256, "ann", "bell\u{7}").is_err());
        assert!(Credentials::new(Mechanism::Sha256, "ann", "\u{ad}").is_err());
    }

    #[test]
    fn nobody_has_one_salt_for_each_name() {
        let nobody = |name| Credentials::of_nobody(Mechanism::Sha256, b"secret", name);
        assert_eq!(nobody("a").salt, nobody("a").salt);
        assert_ne!(nobody("a").salt, nobody("b").salt);
        assert_eq!(nobody("a").salt.len(), 28);
    }
}
