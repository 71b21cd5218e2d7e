//! Authentication: the two steps of SCRAM.

use super::Call;
use crate::bytes::{Malformed, Reader, put_bytes, put_text};
use crate::frame::opcode;

/// Begins to authenticate.
///
/// ```text
/// text   the database that the user belongs to
/// text   the mechanism: SCRAM-SHA-256 or SCRAM-SHA-1
/// bytes  the client's first message
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authenticate<'a> {
    /// The database that the user belongs to.
    pub database: &'a str,
    /// `SCRAM-SHA-256` or `SCRAM-SHA-1`.
    pub mechanism: &'a str,
    /// The client's first message.
    pub payload: &'a [u8],
}

/// The answer of the server in an authentication.
///
/// ```text
/// i32    the number of the exchange
/// bytes  the server's message
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The number of the exchange.
    pub exchange: i32,
    /// The server's message.
    pub payload: Vec<u8>,
}

impl Challenge {
    /// Appends the answer's body.
    pub fn answer(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.exchange.to_le_bytes());
        put_bytes(out, "payload", &self.payload)
    }

    fn read(body: &mut Reader<'_>) -> Result<Challenge, Malformed> {
        Ok(Challenge { exchange: body.i32("exchange")?, payload: body.bytes("payload")?.to_vec() })
    }
}

impl<'a> Authenticate<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Authenticate {
            database: body.text("database")?,
            mechanism: body.text("mechanism")?,
            payload: body.bytes("payload")?,
        })
    }
}

impl Call for Authenticate<'_> {
    const OPCODE: u16 = opcode::AUTHENTICATE;
    type Answer = Challenge;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        put_text(out, "database", self.database)?;
        put_text(out, "mechanism", self.mechanism)?;
        put_bytes(out, "payload", self.payload)
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Challenge, Malformed> {
        Challenge::read(body)
    }
}

/// Proves that the client knows the password. The answer is the server's last message: it proves that it does too.
///
/// ```text
/// i32    the number of the exchange
/// bytes  the client's last message
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prove<'a> {
    /// The number of the exchange.
    pub exchange: i32,
    /// The client's last message.
    pub payload: &'a [u8],
}

impl<'a> Prove<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Prove { exchange: body.i32("exchange")?, payload: body.bytes("payload")? })
    }
}

impl Call for Prove<'_> {
    const OPCODE: u16 = opcode::PROVE;
    type Answer = Challenge;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&self.exchange.to_le_bytes());
        put_bytes(out, "payload", self.payload)
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Challenge, Malformed> {
        Challenge::read(body)
    }
}
