//! A connection's bytes: plain, or through TLS.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::access::certificate::subject;
use crate::threads::{self, LINGER};

/// Bytes that are received at once at most.
const RECEIVED: usize = 64 * 1024;

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// The subject of the certificate that the peer has, if it was asked for one.
    pub(crate) fn peer_subject(&self) -> Option<String> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => subject(tls.get_ref().1.peer_certificates()?.first()?),
        }
    }
}

fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut looked = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut looked, Some(&at_once)).is_ok() && looked.iter().any(|found| found.revents().intersects(closed))
}

/// What the halves of a connection share: each takes it for as long as it polls.
type Shared = Mutex<Stream>;

/// What a connection receives.
#[derive(Debug)]
pub(crate) struct ReadHalf(Arc<Shared>);

/// What it sends.
#[derive(Debug)]
pub(crate) struct WriteHalf(Arc<Shared>);

/// The other end of a connection, for others than those who have the halves to look at.
#[derive(Debug)]
pub(crate) struct Peer(Weak<Shared>);

impl Peer {
    /// [`Stream::is_closed_by_peer`]. Waits while the connection is read by a thread that lingers.
    pub(crate) fn has_closed(&self) -> bool {
        self.0.upgrade().is_none_or(|stream| locked(&stream).is_closed_by_peer())
    }
}

fn locked(stream: &Shared) -> MutexGuard<'_, Stream> {
    // Who has panicked while it polled leaves what any error leaves.
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connected socket. On a thread that [lingers](threads::lingers) a read waits for its peer for at most [`LINGER`]; anywhere else
/// reads and writes do not block, but ask the runtime to be woken.
#[derive(Debug)]
pub(crate) struct Socket(Registered);

#[derive(Debug)]
enum Registered {
    /// With the runtime, not blocking.
    Yes(tokio::net::TcpStream),
    /// Not with the runtime, which would be woken for each message that a thread receives: blocking.
    No(TcpStream),
    /// Changing from one to the other has failed.
    Lost,
}

impl Socket {
    /// A socket that the runtime has accepted.
    pub(crate) fn new(accepted: tokio::net::TcpStream) -> io::Result<Self> {
        // Replies are written in one piece each: waiting to fill a segment only adds delay.
        accepted.set_nodelay(true)?;
        Ok(Socket(Registered::Yes(accepted)))
    }

    /// The socket, for a thread that lingers.
    fn blocking(&mut self) -> io::Result<&TcpStream> {
        if let Registered::Yes(_) = self.0
            && let Registered::Yes(stream) = std::mem::replace(&mut self.0, Registered::Lost)
        {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(LINGER))?;
            self.0 = Registered::No(stream);
        }
        match &self.0 {
            Registered::No(stream) => Ok(stream),
            Registered::Yes(_) | Registered::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The socket, for the runtime.
    fn registered(&mut self) -> io::Result<&mut tokio::net::TcpStream> {
        if let Registered::No(_) = self.0
            && let Registered::No(stream) = std::mem::replace(&mut self.0, Registered::Lost)
        {
            stream.set_nonblocking(true)?;
            self.0 = Registered::Yes(tokio::net::TcpStream::from_std(stream)?);
        }
        match &mut self.0 {
            Registered::Yes(stream) => Ok(stream),
            Registered::No(_) | Registered::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while threads::lingers() {
            // What is received into has to be initialized: not all of a buffer for a long message with each piece of it.
            let most = buffer.remaining().min(RECEIVED);
            match recv(this.blocking()?, buffer.initialize_unfilled_to(most), RecvFlags::empty()) {
                Ok((received, _)) => {
                    buffer.advance(received);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => threads::stop_lingering(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Pin::new(this.registered()?).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        while let Registered::No(stream) = &this.0 {
            match send(stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => return Poll::Ready(Ok(sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Pin::new(this.registered()?).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match &mut this.0 {
            Registered::Yes(stream) => Pin::new(stream).poll_shutdown(context),
            Registered::No(stream) => Poll::Ready(stream.shutdown(Shutdown::Write)),
            Registered::Lost => Poll::Ready(Ok(())),
        }
    }
}

impl Stream {
    /// Whether the peer has closed its side, or the connection is broken, whatever there is to be read still.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.socket().is_none_or(is_closed)
    }

    /// Its two directions, and the peer.
    pub(crate) fn split(self) -> (ReadHalf, WriteHalf, Peer) {
        let shared = Arc::new(Mutex::new(self));
        let peer = Peer(Arc::downgrade(&shared));
        (ReadHalf(Arc::clone(&shared)), WriteHalf(shared), peer)
    }

    /// The socket, also below TLS.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        let socket = match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.get_ref().0,
        };
        match &socket.0 {
            Registered::Yes(stream) => Some(stream.as_fd()),
            Registered::No(stream) => Some(stream.as_fd()),
            Registered::Lost => None,
        }
    }

    /// Whether it is encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_read(context, buffer)
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(&self.0)).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_shutdown(context)
    }
}
