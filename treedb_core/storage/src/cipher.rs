//! Encryption at rest: the user's key, the keys made of it, and sealing bytes with one.
//!
//! Everything is sealed with XChaCha20-Poly1305 under a random nonce of 24 bytes, so that nothing need be remembered to
//! keep nonces apart. A *seal* is the nonce and the tag, [`SEAL`] bytes that go with the ciphertext, which is as long as
//! the plaintext. What bytes are sealed for (which page, which frame, which record) is authenticated with them, so that
//! a piece of a file moved elsewhere is damage like any other.
//!
//! The user's key seals nothing itself. Each database has a random salt, in the clear in its meta pages, and
//! HKDF-SHA-256 makes of the two a key for each purpose: meta pages, pages, log frames, values.
//!
//! What this does not detect is a database set back as a whole, or a log cut at its end, to an older state: both have
//! been right once. Sizes of files, numbers of pages and frames and lengths of values are in the clear.

use std::fmt;

use chacha20poly1305::aead::generic_array::GenericArray;
use chacha20poly1305::{AeadInPlace, KeyInit, XChaCha20Poly1305};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{Error, Result};

/// Bytes of a nonce.
const NONCE: usize = 24;
/// Bytes of a seal: nonce and tag.
pub(crate) const SEAL: usize = NONCE + 16;
/// Bytes of a database's salt.
pub(crate) const SALT: usize = 32;

/// A database's key: 32 bytes that no one else knows. It is wiped from memory when it is dropped, and is not shown by
/// `Debug`.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; Key::LEN]>);

impl Key {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// The key of these bytes, which should have come from a good source of random bytes.
    pub fn new(bytes: [u8; Key::LEN]) -> Key {
        Key(Zeroizing::new(bytes))
    }

    /// A random key. It has to be kept: without it the database is lost.
    ///
    /// # Errors
    /// `Io` if the system has no random bytes.
    pub fn generate() -> Result<Key> {
        let mut key = Key::new([0; Key::LEN]);
        random(&mut *key.0)?;
        Ok(key)
    }

    /// The key in the contents of a key file: 32 bytes, or 64 hexadecimal digits that a line end may follow. `None` if
    /// they are neither.
    pub fn parse(contents: &[u8]) -> Option<Key> {
        if let Ok(bytes) = contents.try_into() {
            return Some(Key::new(bytes));
        }
        let digits = contents.trim_ascii_end();
        let mut key = Key::new([0; Key::LEN]);
        if digits.len() != 2 * Key::LEN {
            return None;
        }
        for (byte, pair) in key.0.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(key)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; Key::LEN] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Fills `bytes` from the system's source of random bytes.
pub(crate) fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| Error::Io {
        op: "getrandom",
        path: std::path::PathBuf::new(),
        source: error.into(),
    })
}

/// Seals bytes for one purpose. Its key is wiped when it is dropped.
pub(crate) struct Cipher(XChaCha20Poly1305);

impl Cipher {
    fn derive(key: &Key, salt: &[u8; SALT], purpose: &str) -> Result<Cipher> {
        let mut own = Zeroizing::new([0; Key::LEN]);
        Hkdf::<Sha256>::new(Some(salt), key.bytes())
            .expand(purpose.as_bytes(), &mut *own)
            .map_err(|_| Error::Invalid("a key of 32 bytes cannot be derived".into()))?;
        Ok(Cipher(XChaCha20Poly1305::new(GenericArray::from_slice(&*own))))
    }

    /// Encrypts `bytes` in place, for what `aad` says, and returns the seal.
    pub(crate) fn seal(&self, aad: &[u8], bytes: &mut [u8]) -> Result<[u8; SEAL]> {
        let mut seal = [0; SEAL];
        random(&mut seal[..NONCE])?;
        let tag = self
            .0
            .encrypt_in_place_detached(GenericArray::from_slice(&seal[..NONCE]), aad, bytes)
            .map_err(|_| Error::Invalid(format!("{} bytes are too many to encrypt at once", bytes.len())))?;
        seal[NONCE..].copy_from_slice(&tag);
        Ok(seal)
    }

    /// Decrypts `bytes` in place; false if they, or their seal, are not what [`Cipher::seal`] made for `aad`.
    #[must_use]
    pub(crate) fn open(&self, aad: &[u8], bytes: &mut [u8], seal: &[u8; SEAL]) -> bool {
        let (nonce, tag) = seal.split_at(NONCE);
        let (nonce, tag) = (GenericArray::from_slice(nonce), GenericArray::from_slice(tag));
        self.0.decrypt_in_place_detached(nonce, aad, bytes, tag).is_ok()
    }
}

/// A database's keys.
pub(crate) struct Keys {
    pub(crate) meta: Cipher,
    pub(crate) pages: Cipher,
    pub(crate) log: Cipher,
    pub(crate) values: Cipher,
}

impl Keys {
    /// The keys of the database with this salt, if `key` is its key.
    pub(crate) fn derive(key: &Key, salt: &[u8; SALT]) -> Result<Keys> {
        Ok(Keys {
            meta: Cipher::derive(key, salt, "treedb meta pages")?,
            pages: Cipher::derive(key, salt, "treedb pages")?,
            log: Cipher::derive(key, salt, "treedb log frames")?,
            values: Cipher::derive(key, salt, "treedb values")?,
        })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_page_opens_only_with_its_key_purpose_and_place() {
        let key = Key::new([7; 32]);
        let keys = Keys::derive(&key, &[1; SALT]).unwrap();
        let plain = b"a value nobody is to read".to_vec();
        let mut bytes = plain.clone();
        let seal = keys.pages.seal(b"page 3", &mut bytes).unwrap();
        assert_ne!(bytes, plain);
        let opens = |cipher: &Cipher, aad: &[u8], bytes: &[u8], seal: &[u8; SEAL]| {
            let mut bytes = bytes.to_vec();
            cipher.open(aad, &mut bytes, seal) && bytes == plain
        };
        assert!(opens(&keys.pages, b"page 3", &bytes, &seal));
        assert!(!opens(&keys.pages, b"page 4", &bytes, &seal));
        assert!(!opens(&keys.log, b"page 3", &bytes, &seal));
        for (key, salt) in [([8; 32], [1; SALT]), ([7; 32], [2; SALT])] {
            let others = Keys::derive(&Key::new(key), &salt).unwrap();
            assert!(!opens(&others.pages, b"page 3", &bytes, &seal));
        }
        for at in 0..SEAL {
            let mut seal = seal;
            seal[at] ^= 1;
            assert!(!opens(&keys.pages, b"page 3", &bytes, &seal));
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x80;
            assert!(!opens(&keys.pages, b"page 3", &bytes, &seal));
        }
    }

    #[test]
    fn a_key_file_has_32_bytes_or_64_digits() {
        let raw: [u8; 32] = std::array::from_fn(|i| 255 - i as u8);
        let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
        for contents in [raw.to_vec(), hex.clone().into_bytes(), format!("{}\r\n", hex.to_uppercase()).into()]
        {
            assert_eq!(Key::parse(&contents).unwrap().bytes(), &raw);
        }
        for bad in [&b""[..], &raw[1..], &hex.as_bytes()[1..], format!("{}g", &hex[1..]).as_bytes()] {
            assert!(Key::parse(bad).is_none());
        }
        assert_eq!(format!("{:?}", Key::new(raw)), "Key(..)");
    }
}
