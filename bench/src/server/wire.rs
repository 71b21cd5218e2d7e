//! The least that a client of MongoDB's protocol can be: OP_MSG with one document, and its reply. It uses so little time
//! that a measurement is one of the server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Result;

const HEADER: usize = 16;
const OP_MSG: i32 = 2013;
/// The flag of a message that is not to be answered.
const MORE_TO_COME: i32 = 2;

/// The socket of a connection.
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// TLS with a server for `localhost` whose certificate, which is in a file, has been issued by itself.
    fn tls(stream: TcpStream, certificate: &Path) -> Result<Stream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate)?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let session = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
        }
    }
}

/// A connection.
pub(crate) struct Wire {
    stream: Stream,
    bytes: Vec<u8>,
    last: i32,
}

/// An insert of documents.
fn insertion<'d>(
    database: &str,
    collection: &str,
    documents: impl Iterator<Item = &'d RawDocument>,
) -> RawDocumentBuf {
    let documents: RawArrayBuf = documents.collect();
    rawdoc! { "insert": collection, "documents": documents, "$db": database }
}

impl Wire {
    /// Connects, and greets the server.
    pub(crate) fn connect(address: &str) -> Result<Wire> {
        Wire::connect_through(address, None)
    }

    /// The same, through TLS if the server has a certificate.
    pub(super) fn connect_through(address: &str, certificate: Option<&Path>) -> Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let stream = match certificate {
            None => Stream::Plain(stream),
            Some(certificate) => Stream::tls(stream, certificate)?,
        };
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
        self.command(&insertion(database, collection, documents))?;
        Ok(())
    }

    /// The same without an answer, which would say whether they were.
    pub(crate) fn insert_unacknowledged<'d>(
        &mut self,
        database: &str,
        collection: &str,
        documents: impl Iterator<Item = &'d RawDocument>,
    ) -> Result<()> {
        let mut insert = insertion(database, collection, documents);
        insert.append(cstr!("writeConcern"), rawdoc! { "w": 0_i32 });
        self.send(&insert, MORE_TO_COME)
    }

    /// Returns when the server has executed everything that it was sent before.
    pub(crate) fn ping(&mut self) -> Result<()> {
        self.command(&rawdoc! { "ping": 1_i32, "$db": "admin" }).map(drop)
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

    /// Sends a command.
    fn send(&mut self, command: &RawDocument, flags: i32) -> Result<()> {
        self.last += 1;
        let bytes = &mut self.bytes;
        bytes.clear();
        let length = i32::try_from(HEADER + 5 + command.as_bytes().len())?;
        for field in [length, self.last, 0, OP_MSG, flags] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(command.as_bytes());
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a command and returns its reply, which says `ok: 1` and has no write errors.
    pub(crate) fn command(&mut self, command: &RawDocument) -> Result<RawDocumentBuf> {
        self.send(command, 0)?;
        let bytes = &mut self.bytes;
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
