//! A connection's bytes: plain, or through TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::server::TlsStream;

/// One of two streams.
#[derive(Debug)]
pub(crate) enum Either<P, T> {
    Plain(P),
    Tls(T),
}

/// A connection.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
/// What it receives.
pub(crate) type ReadHalf = Either<OwnedReadHalf, tokio::io::ReadHalf<Box<TlsStream<TcpStream>>>>;
/// What it sends.
pub(crate) type WriteHalf = Either<OwnedWriteHalf, tokio::io::WriteHalf<Box<TlsStream<TcpStream>>>>;

impl Stream {
    /// Its two directions. Those of a plain stream share no lock.
    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Either::Plain(stream) => {
                let (read, write) = stream.into_split();
                (Either::Plain(read), Either::Plain(write))
            }
            Either::Tls(stream) => {
                let (read, write) = tokio::io::split(stream);
                (Either::Tls(read), Either::Tls(write))
            }
        }
    }
}

impl<P: AsyncRead + Unpin, T: AsyncRead + Unpin> AsyncRead for Either<P, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Either::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl<P: AsyncWrite + Unpin, T: AsyncWrite + Unpin> AsyncWrite for Either<P, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Either::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Either::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::Plain(stream) => Pin::new(stream).poll_flush(context),
            Either::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Either::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Either::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
