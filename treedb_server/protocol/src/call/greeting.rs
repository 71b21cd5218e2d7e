//! The greeting and the ping.

use super::Call;
use crate::bytes::{Malformed, Reader, put_text};
use crate::frame::{MAGIC, opcode};

/// The first frame of a connection: magic, and the versions the client can speak.
///
/// ```text
/// 0   8    "TREEDB\r\n"
/// 8   u16  oldest version
/// 10  u16  newest version
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Oldest version the client speaks.
    pub oldest: u16,
    /// Newest version the client speaks.
    pub newest: u16,
}

/// The answer to the greeting.
///
/// ```text
/// 0   8     "TREEDB\r\n"
/// 8   u16   the version spoken from here on
/// 10  u32   longest body that the server accepts, in bytes
/// 14  u32   requests of one connection the server works on at a time
/// 18  text  the server's own version
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: u16,
    /// Longest body that the server accepts, in bytes.
    pub max_body: u32,
    /// Requests of one connection that the server executes concurrently; it does not read more meanwhile.
    pub max_requests: u32,
    /// The server's own version.
    pub server: String,
}

fn magic(body: &mut Reader<'_>) -> Result<(), Malformed> {
    let start = body.clone();
    match body.take("magic", MAGIC.len())? {
        found if found == MAGIC => Ok(()),
        found => Err(start.wrong(
            "magic",
            format!(
                "expected {:?}, found {:?}",
                MAGIC.escape_ascii().to_string(),
                found.escape_ascii().to_string()
            ),
        )),
    }
}

impl Hello {
    /// Reads the request, to its end.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut body = Reader::new(body);
        magic(&mut body)?;
        let hello = Hello { oldest: body.u16("oldest version")?, newest: body.u16("newest version")? };
        body.finish()?;
        Ok(hello)
    }
}

impl Call for Hello {
    const OPCODE: u16 = opcode::HELLO;
    type Answer = Welcome;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.oldest.to_le_bytes());
        out.extend_from_slice(&self.newest.to_le_bytes());
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Welcome, Malformed> {
        magic(body)?;
        Ok(Welcome {
            version: body.u16("version")?,
            max_body: body.u32("longest body")?,
            max_requests: body.u32("requests at a time")?,
            server: body.text("server")?.to_owned(),
        })
    }
}

impl Welcome {
    /// Appends the answer's body.
    pub fn answer(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.max_body.to_le_bytes());
        out.extend_from_slice(&self.max_requests.to_le_bytes());
        put_text(out, "server", &self.server)
    }
}

/// A request whose answer has the same body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping<'a> {
    /// Any bytes.
    pub payload: &'a [u8],
}

impl<'a> Ping<'a> {
    /// Reads the request.
    pub fn read(body: &mut Reader<'a>) -> Result<Self, Malformed> {
        let all = body.remaining();
        Ok(Ping { payload: body.take("payload", all)? })
    }
}

impl Call for Ping<'_> {
    const OPCODE: u16 = opcode::PING;
    type Answer = Vec<u8>;

    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        out.extend_from_slice(self.payload);
        Ok(())
    }

    fn read_answer(body: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
        let all = body.remaining();
        Ok(body.take("payload", all)?.to_vec())
    }
}
