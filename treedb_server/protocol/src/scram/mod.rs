//! SCRAM (RFC 5802, RFC 7677): a client proves that it knows a password, and the server that it has been told it, without
//! sending it.
//!
//! | file | what it holds |
//! |---|---|
//! | `mechanism` | the two mechanisms: their hashes, and how a password is prepared |
//! | `client` | the client's side of an exchange |
//!
//! ```text
//! client   n,,n=USER,r=NONCE
//! server   r=NONCE SERVERNONCE,s=SALT,i=ITERATIONS
//! client   c=biws,r=NONCE SERVERNONCE,p=PROOF
//! server   v=SIGNATURE
//! ```
//!
//! There is no channel binding. The hashes are those of the RustCrypto crates. The server's side is in the server, with what it stores.

mod client;
mod mechanism;

pub use client::ClientExchange;
pub use mechanism::Mechanism;

/// Why an exchange ended: an answer does not say it, so that nobody learns which users there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not the mechanism's message.
    #[error("the message is not one of SCRAM: {0}")]
    Malformed(&'static str),
    /// The client does not know the password.
    #[error("wrong password")]
    WrongProof,
    /// The server does not know the password: it is not the one it claims to be.
    #[error("the server does not know the password")]
    WrongServer,
}

/// The value of the attribute that a message has next: `r=..`.
///
/// # Errors
/// It has another one next, or none: `missing` says so.
pub fn attribute<'m>(
    parts: &mut impl Iterator<Item = &'m str>,
    name: char,
    missing: &'static str,
) -> Result<&'m str, Refused> {
    parts
        .next()
        .and_then(|part| part.strip_prefix(name)?.strip_prefix('='))
        .ok_or(Refused::Malformed(missing))
}

/// A nonce: 18 random bytes, of characters without a comma.
///
/// # Errors
/// There is no randomness.
pub fn nonce() -> Result<String, getrandom::Error> {
    use base64::Engine;
    let mut bytes = [0; 18];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_does_not_believe_a_server_that_does_not_know_the_password() {
        let (mut client, _) = ClientExchange::new(Mechanism::Sha256, "a", "p").unwrap();
        assert!(client.verify(b"v=AAAA").is_err());
        assert!(client.answer(b"r=other,s=AAAA,i=4096").is_err());
        let (mut client, first) = ClientExchange::new(Mechanism::Sha256, "a", "p").unwrap();
        let own = first.split_once("r=").unwrap().1;
        // Too few iterations would give the password away, too many would keep the client busy for ever.
        for iterations in ["1", "4095", "4294967295", "x"] {
            assert!(client.answer(format!("r={own}abc,s=AAAA,i={iterations}").as_bytes()).is_err());
        }
        assert!(client.answer(format!("r={own}abc,s=AAAA,i=4096").as_bytes()).is_ok());
        assert_eq!(client.verify(b"v=AAAA"), Err(Refused::WrongServer));
        assert_eq!(client.verify(b"e=other-error"), Err(Refused::WrongServer));
    }
}
