//! The client's side of an exchange.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::{Mechanism, Refused, attribute, nonce};

/// How often a server may let a client hash a password. Fewer times would give it away, more would keep the client busy.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=10_000_000;

/// An exchange that a client has begun.
pub struct ClientExchange {
    mechanism: Mechanism,
    password: String,
    bare: String,
    nonce: String,
    /// What the server has to answer at the end.
    expected: Option<Vec<u8>>,
}

impl ClientExchange {
    /// An exchange, and its first message.
    ///
    /// # Errors
    /// The password has characters that none may have; there is no randomness.
    pub fn new(
        mechanism: Mechanism,
        user: &str,
        password: &str,
    ) -> Result<(ClientExchange, String), Refused> {
        let nonce = nonce().map_err(|_| Refused::Malformed("the system has no random numbers"))?;
        let user_escaped = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={user_escaped},r={nonce}");
        let first = format!("n,,{bare}");
        let password = mechanism.prepared(user, password)?;
        Ok((ClientExchange { mechanism, password, bare, nonce, expected: None }, first))
    }

    /// The answer to the server's first message.
    ///
    /// # Errors
    /// It has another shape, or its values are not safe.
    pub fn answer(&mut self, message: &[u8]) -> Result<String, Refused> {
        let message = std::str::from_utf8(message).map_err(|_| Refused::Malformed("it is not UTF-8"))?;
        let mut parts = message.split(',');
        let nonce = attribute(&mut parts, 'r', "it has no nonce")?;
        let salt = attribute(&mut parts, 's', "it has no salt")?;
        let iterations = attribute(&mut parts, 'i', "it has no number of iterations")?;
        if !nonce.starts_with(&self.nonce) || nonce == self.nonce {
            return Err(Refused::Malformed("its nonce is another one"));
        }
        let salt = STANDARD.decode(salt).map_err(|_| Refused::Malformed("its salt is not base64"))?;
        let iterations = iterations.parse().ok().filter(|count| ITERATIONS.contains(count));
        let iterations = iterations.ok_or(Refused::Malformed("its number of iterations is not safe"))?;
        let mechanism = self.mechanism;
        let key = mechanism.salted_password(&self.password, &salt, iterations);
        let client_key = mechanism.hmac(&key, b"Client Key");
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{message},{without_proof}", self.bare);
        let signature = mechanism.hmac(&mechanism.hash(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = mechanism.hmac(&key, b"Server Key");
        self.expected = Some(mechanism.hmac(&server_key, signed.as_bytes()));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Checks that the server knows the password too.
    ///
    /// # Errors
    /// It does not.
    pub fn verify(&self, message: &[u8]) -> Result<(), Refused> {
        let expected = self.expected.as_ref().ok_or(Refused::WrongServer)?;
        let signature = message.strip_prefix(b"v=").and_then(|signature| STANDARD.decode(signature).ok());
        match signature {
            Some(signature) if bool::from(signature.ct_eq(expected)) => Ok(()),
            _ => Err(Refused::WrongServer),
        }
    }
}

impl std::fmt::Debug for ClientExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientExchange").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}
