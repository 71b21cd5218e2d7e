//! The mechanisms.

use hmac::{Hmac, Mac};
#[cfg(feature = "scram-sha-1")]
use md5::Md5;
#[cfg(feature = "scram-sha-1")]
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::Refused;

/// A mechanism of authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// `SCRAM-SHA-1`, over MongoDB's old digest of user and password.
    #[cfg(feature = "scram-sha-1")]
    Sha1,
    /// `SCRAM-SHA-256`.
    Sha256,
}

impl Mechanism {
    /// All, the one that clients should prefer first.
    #[cfg(feature = "scram-sha-1")]
    pub const ALL: [Mechanism; 2] = [Mechanism::Sha256, Mechanism::Sha1];
    /// All there are without the feature `scram-sha-1`.
    #[cfg(not(feature = "scram-sha-1"))]
    pub const ALL: [Mechanism; 1] = [Mechanism::Sha256];

    /// The name that clients ask for it by.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism of this name.
    pub fn named(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// How often a password is hashed: MongoDB's numbers.
    pub const fn iterations(self) -> u32 {
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => 10_000,
            Mechanism::Sha256 => 15_000,
        }
    }

    /// Bytes of a hash.
    pub const fn bytes(self) -> usize {
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => 20,
            Mechanism::Sha256 => 32,
        }
    }

    /// The hash of a message.
    pub fn hash(self, message: &[u8]) -> Vec<u8> {
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => Sha1::digest(message).to_vec(),
            Mechanism::Sha256 => Sha256::digest(message).to_vec(),
        }
    }

    /// The keyed hash of a message.
    pub fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        fn keyed<M: Mac + hmac::digest::KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
            // A key of any length is accepted.
            <M as Mac>::new_from_slice(key)
                .map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec())
                .unwrap_or_default()
        }
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => keyed::<Hmac<Sha1>>(key, message),
            Mechanism::Sha256 => keyed::<Hmac<Sha256>>(key, message),
        }
    }

    /// The key that a password is hashed to.
    pub fn salted_password(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut key = vec![0; self.bytes()];
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password.as_bytes(), salt, iterations, &mut key),
            Mechanism::Sha256 => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut key)
            }
        }
        key
    }

    /// A password in the form that is hashed.
    #[cfg_attr(
        not(feature = "scram-sha-1"),
        expect(unused_variables, reason = "SCRAM-SHA-256 hashes the password alone")
    )]
    pub fn prepared(self, user: &str, password: &str) -> Result<String, Refused> {
        match self {
            #[cfg(feature = "scram-sha-1")]
            Mechanism::Sha1 => {
                let digest = Md5::digest(format!("{user}:mongo:{password}"));
                Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            Mechanism::Sha256 => stringprep::saslprep(password)
                .map(std::borrow::Cow::into_owned)
                .map_err(|_| Refused::Malformed("the password has characters that no password may have")),
        }
    }
}
