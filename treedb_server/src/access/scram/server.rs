//! The server's side of an exchange.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;
use treedb_protocol::scram::{attribute, nonce};

use super::{Credentials, Refused};

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientFirst {
    /// The user's name.
    pub(crate) user: String,
    /// `n,,` or `y,,`: no channel binding.
    header: String,
    /// The message without the header, which is part of what is signed.
    bare: String,
    nonce: String,
}

impl ClientFirst {
    /// Reads it.
    ///
    /// # Errors
    /// It has another shape, or asks for channel binding.
    pub(crate) fn parse(message: &[u8]) -> Result<ClientFirst, Refused> {
        let message = std::str::from_utf8(message).map_err(|_| Refused::Malformed("it is not UTF-8"))?;
        let (header, bare) = ["n,,", "y,,"]
            .into_iter()
            .find_map(|header| Some((header, message.strip_prefix(header)?)))
            .ok_or(Refused::Malformed("it does not begin with n,, or y,,"))?;
        let mut parts = bare.split(',');
        let user = attribute(&mut parts, 'n', "it has no user")?;
        let nonce = attribute(&mut parts, 'r', "it has no nonce")?;
        if user.is_empty() || nonce.is_empty() {
            return Err(Refused::Malformed("the user or the nonce is empty"));
        }
        Ok(ClientFirst {
            user: unescape(user)?,
            header: header.to_owned(),
            bare: bare.to_owned(),
            nonce: nonce.to_owned(),
        })
    }
}

/// A name without its `=2C` for a comma and `=3D` for an equals sign.
fn unescape(name: &str) -> Result<String, Refused> {
    let mut parts = name.split('=');
    let mut user = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(Refused::Malformed("the user has an unknown escape")),
        };
        user.push(character);
        user.push_str(rest);
    }
    Ok(user)
}

/// An exchange after the server's first answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    first: ClientFirst,
    credentials: Credentials,
    /// The nonces of both.
    nonce: String,
    answered: String,
}

impl Exchange {
    /// The exchange that a client has begun, and the answer to its message.
    ///
    /// # Errors
    /// There is no randomness.
    pub(crate) fn new(first: ClientFirst, credentials: Credentials) -> Result<(Exchange, String), Refused> {
        let nonce = nonce().map_err(|_| Refused::Malformed("the system has no random numbers"))?;
        Ok(Exchange::with_nonce(first, credentials, &nonce))
    }

    /// The same with a nonce of the caller's.
    pub(super) fn with_nonce(
        first: ClientFirst,
        credentials: Credentials,
        nonce: &str,
    ) -> (Exchange, String) {
        let nonce = format!("{}{nonce}", first.nonce);
        let salt = STANDARD.encode(&credentials.salt);
        let answered = format!("r={nonce},s={salt},i={}", credentials.iterations);
        (Exchange { first, credentials, nonce, answered: answered.clone() }, answered)
    }

    /// What the client has to know the password of.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The answer to the client's last message, if that proves that it knows the password.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn finish(&self, message: &[u8]) -> Result<String, Refused> {
        let message = std::str::from_utf8(message).map_err(|_| Refused::Malformed("it is not UTF-8"))?;
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or(Refused::Malformed("it has no proof"))?;
        let mut parts = without_proof.split(',');
        let header = attribute(&mut parts, 'c', "it has no channel binding")?;
        if header != STANDARD.encode(&self.first.header) {
            return Err(Refused::Malformed("its channel binding is not that of its first message"));
        }
        if attribute(&mut parts, 'r', "it has no nonce")? != self.nonce {
            return Err(Refused::Malformed("its nonce is another one"));
        }
        let proof = STANDARD.decode(proof).map_err(|_| Refused::Malformed("its proof is not base64"))?;
        let Credentials { mechanism, stored_key, server_key, .. } = &self.credentials;
        let signed = format!("{},{},{without_proof}", self.first.bare, self.answered);
        let signature = mechanism.hmac(stored_key, signed.as_bytes());
        if proof.len() != signature.len() {
            return Err(Refused::WrongProof);
        }
        let key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if !bool::from(mechanism.hash(&key).ct_eq(stored_key)) {
            return Err(Refused::WrongProof);
        }
        Ok(format!("v={}", STANDARD.encode(mechanism.hmac(server_key, signed.as_bytes()))))
    }
}
