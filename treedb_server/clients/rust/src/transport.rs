//! The socket: plain, or through TLS.
//!
//! Reading waits; sending does not, whatever the socket would do: a connection has to read while it sends.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

#[cfg(unix)]
use rustix::net::{SendFlags, send};

use crate::error::{Error, Result};
#[cfg(feature = "tls")]
use crate::tls::{Tls, TlsStream};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream>),
}

/// Writes what there is room for.
struct Unwaiting<'s>(&'s TcpStream);

/// Says to `send` that it is not to wait, and not to end the process if the server has closed the connection.
#[cfg(all(unix, not(target_vendor = "apple")))]
const UNWAITING: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// The same. Of the second the standard library has told the socket, as there is no such flag.
#[cfg(all(unix, target_vendor = "apple"))]
const UNWAITING: SendFlags = SendFlags::DONTWAIT;

impl Write for Unwaiting<'_> {
    #[cfg(unix)]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, UNWAITING)?)
    }

    /// Windows has a mode of the socket for it, and no flag. Nothing else uses the socket meanwhile.
    #[cfg(not(unix))]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set_nonblocking(true)?;
        let sent = self.0.write(bytes);
        let back = self.0.set_nonblocking(false);
        // What has kept bytes from being sent matters more.
        let sent = sent?;
        back.map(|()| sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    /// Connects to one of the addresses. `timeout` bounds every wait from here on.
    pub(crate) fn connect(address: impl ToSocketAddrs, timeout: Option<Duration>) -> Result<Self> {
        let io = |op| move |source| Error::Io { op, source };
        let stream = match timeout {
            None => TcpStream::connect(address).map_err(io("connect"))?,
            Some(timeout) => {
                let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
                let mut stream = None;
                for address in address.to_socket_addrs().map_err(io("look up"))? {
                    match TcpStream::connect_timeout(&address, timeout) {
                        Ok(connected) => {
                            stream = Some(connected);
                            break;
                        }
                        Err(error) => last = error,
                    }
                }
                stream.ok_or(last).map_err(io("connect"))?
            }
        };
        stream.set_nodelay(true).map_err(io("set up"))?;
        stream.set_read_timeout(timeout).map_err(io("set up"))?;
        Ok(Transport::Plain(stream))
    }

    /// Begins TLS on a socket that is plain.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(self, tls: &Tls) -> Result<Self> {
        let Transport::Plain(stream) = self else { return Ok(self) };
        Ok(Transport::Tls(Box::new(tls.connect(stream)?)))
    }

    /// The socket, to wait for.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => tls.socket(),
        }
    }

    /// Whether something that [`Self::send`] has taken is not sent yet: it goes on with a call without bytes.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => tls.session.wants_write(),
        }
    }

    /// Sends some of `bytes`, and returns how many it has taken.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; the socket's.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => Unwaiting(stream).write(bytes),
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => {
                let TlsStream { session, socket: stream } = &mut **tls;
                let taken = session.writer().write(bytes)?;
                while session.wants_write() {
                    match session.write_tls(&mut Unwaiting(stream)) {
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(taken)
            }
        }
    }

    /// Waits for bytes; 0 when the server has closed the connection.
    ///
    /// # Errors
    /// The socket's, and those of TLS.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(bytes),
            #[cfg(feature = "tls")]
            Transport::Tls(tls) => {
                let TlsStream { session, socket: stream } = &mut **tls;
                loop {
                    match session.reader().read(bytes) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        done => return done,
                    }
                    session.read_tls(stream)?;
                    session.process_new_packets().map_err(io::Error::other)?;
                }
            }
        }
    }
}
