//! The least that a client of MongoDB's protocol can be: OP_MSG with one document, and its reply. It uses so little time
//! that a measurement is one of the server.

use std::io::{Read, Write};
use std::net::TcpStream;

use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use crate::Result;

const HEADER: usize = 16;
const OP_MSG: i32 = 2013;

/// A connection.
pub(crate) struct Wire {
    stream: TcpStream,
    bytes: Vec<u8>,
    last: i32,
}

impl Wire {
    /// Connects, and greets the server.
    pub(crate) fn connect(address: &str) -> Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut wire = Wire { stream, bytes: Vec::new(), last: 0 };
        wire.command(&rawdoc! { "hello": 1, "$db": "admin" })?;
        Ok(wire)
    }

    /// Inserts documents. It is an error if not all of them were.
    pub(crate) fn insert<'d>(
        &mut self,
        database: &str,
        collection: &str,
        documents: impl Iterator<Item = &'d RawDocument>,
    ) -> Result<()> {
        let documents: RawArrayBuf = documents.collect();
        self.command(&rawdoc! { "insert": collection, "documents": documents, "$db": database })?;
        Ok(())
    }

    /// Hands the first document that matches to `see`, and returns what that makes of it; `None` if none matches.
    pub(crate) fn find_one<T>(
        &mut self,
        database: &str,
        collection: &str,
        filter: RawDocumentBuf,
        see: impl FnOnce(&RawDocument) -> Result<T>,
    ) -> Result<Option<T>> {
        let find = rawdoc! {
            "find": collection, "filter": filter, "limit": 1_i32, "singleBatch": true, "$db": database
        };
        let reply = self.command(&find)?;
        match reply.get_document("cursor")?.get_array("firstBatch")?.into_iter().next().transpose()? {
            None => Ok(None),
            Some(RawBsonRef::Document(document)) => see(document).map(Some),
            Some(_) => Err("no document".into()),
        }
    }

    /// Sends a command and returns its reply, which says `ok: 1` and has no write errors.
    pub(crate) fn command(&mut self, command: &RawDocument) -> Result<RawDocumentBuf> {
        self.last += 1;
        let bytes = &mut self.bytes;
        bytes.clear();
        let length = i32::try_from(HEADER + 5 + command.as_bytes().len())?;
        for field in [length, self.last, 0, OP_MSG, 0] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(command.as_bytes());
        self.stream.write_all(bytes)?;
        // Most replies arrive in one piece.
        bytes.resize(bytes.capacity().max(4096), 0);
        let mut have = 0;
        let mut want = HEADER;
        while have < want {
            let got = self.stream.read(&mut bytes[have..])?;
            if got == 0 {
                return Err("the server has closed the connection".into());
            }
            have += got;
            if want == HEADER && have >= HEADER {
                want = i32::from_le_bytes(bytes[..4].try_into()?).try_into()?;
                if bytes.len() < want {
                    bytes.resize(want, 0);
                }
            }
        }
        let reply = RawDocumentBuf::from_bytes(bytes.get(HEADER + 5..want).ok_or("a short reply")?.to_vec())?;
        let ok = reply.get("ok")?.is_some_and(|ok| ok.as_f64() == Some(1.0) || ok.as_i32() == Some(1));
        if !ok || reply.get("writeErrors")?.is_some() {
            return Err(format!("a command failed: {reply:?}").into());
        }
        Ok(reply)
    }
}
