//! A connection whose peer has to read what it is sent: hyper knows limits of time for what it receives only.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::stall::CHUNK;

/// Fails with `TimedOut` if the peer does not take [`CHUNK`] bytes, or what is left, within a time.
pub(crate) struct Patient<S> {
    stream: S,
    stall: Duration,
    /// Until when the peer has to take more; `None` while it need not.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes that it has taken since the deadline was set.
    taken: usize,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, stall: Duration) -> Self {
        Patient { stream, stall, deadline: None, taken: 0 }
    }

    /// The result of a write or flush, unless it has waited too long.
    fn unless_late<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            return polled;
        }
        let stall = self.stall;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + stall)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(taken)) = polled {
            this.taken += taken;
            if this.taken >= CHUNK {
                (this.deadline, this.taken) = (None, 0);
            }
        }
        this.unless_late(context, polled)
    }

    /// Called when everything was written.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(context);
        if polled.is_ready() {
            (this.deadline, this.taken) = (None, 0);
        }
        this.unless_late(context, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_shutdown(context);
        this.unless_late(context, polled)
    }
}
