//! What a connection has received and not yet read.
//!
//! Nearly every message arrives in one piece and is read at once; then the connection waits, for most of its life. A buffer of its own
//! would take as much memory while it waits as while a message arrives. So all connections that are polled by one thread receive
//! into one buffer, which stays in the processor's caches, and each keeps what has arrived for it, for as long as that is not read.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Bytes that are received at once: most requests are shorter, so that one takes one read.
const RECEIVED: usize = 16 * 1024;

/// Room that a connection keeps while it waits: that of short requests.
const KEPT: usize = 512;

thread_local! {
    /// Where all connections of a thread receive. Each reads back only what it has received itself.
    static SHARED: RefCell<Box<[u8]>> = RefCell::new(vec![0; RECEIVED].into_boxed_slice());
}

/// A stream, and what has been received from it and not yet read.
#[derive(Debug)]
pub(crate) struct Received<S> {
    stream: S,
    bytes: Vec<u8>,
    /// How many of them have been read.
    read: usize,
}

impl<S> Received<S> {
    /// A stream from which nothing has been received.
    pub(crate) fn new(stream: S) -> Self {
        Received { stream, bytes: Vec::new(), read: 0 }
    }

    /// What has been received and not yet read.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    /// The stream, to be looked at.
    pub(crate) fn peek(&self) -> &S {
        &self.stream
    }

    /// The stream.
    pub(crate) fn stream(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncBufRead for Received<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.unread().is_empty() {
            this.bytes.clear();
            this.read = 0;
            let Received { stream, bytes, .. } = this;
            let polled = SHARED.with_borrow_mut(|shared| {
                let mut shared = ReadBuf::new(shared);
                let polled = Pin::new(stream).poll_read(context, &mut shared);
                bytes.extend_from_slice(shared.filled());
                polled
            });
            if polled.is_pending() && this.bytes.capacity() > KEPT {
                this.bytes = Vec::new();
            }
            ready!(polled)?;
        }
        Poll::Ready(Ok(this.unread()))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        let this = self.get_mut();
        this.read = (this.read + count).min(this.bytes.len());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Received<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The rest of a long message is received where it belongs.
        if self.unread().is_empty() && buffer.remaining() >= RECEIVED {
            return Pin::new(self.stream()).poll_read(context, buffer);
        }
        let unread = ready!(self.as_mut().poll_fill_buf(context))?;
        let count = unread.len().min(buffer.remaining());
        buffer.put_slice(unread.get(..count).unwrap_or_default());
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn connections_of_one_thread_read_each_its_own_bytes() {
        let (mut one, received) = tokio::io::duplex(1 << 17);
        let mut first = Received::new(received);
        let (mut other, received) = tokio::io::duplex(1 << 17);
        let mut second = Received::new(received);
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        let others: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        one.write_all(&bytes).await.unwrap();
        other.write_all(&others).await.unwrap();
        let (mut here, mut there) = (Vec::new(), Vec::new());
        // In turns, in pieces that are shorter and longer than what is received at once.
        for length in [1, 16, 3_000, 20_000, 7, 40_000].into_iter().cycle() {
            let length = length.min(bytes.len() - here.len());
            if length == 0 {
                break;
            }
            for (from, to) in [(&mut first, &mut here), (&mut second, &mut there)] {
                let mut piece = vec![0; length];
                from.read_exact(&mut piece).await.unwrap();
                to.extend(piece);
            }
        }
        assert!(here == bytes && there == others);
    }

    #[tokio::test]
    async fn a_connection_that_waits_keeps_no_more_room_than_a_short_request_takes() {
        let (mut peer, received) = tokio::io::duplex(1 << 16);
        let mut received = Received::new(received);
        for length in [10_000, 100] {
            peer.write_all(&vec![7; length]).await.unwrap();
            assert_eq!(received.fill_buf().await.unwrap().len(), length);
            received.consume(length);
            assert!(received.unread().is_empty());
            let waits = crate::stall::at_once(received.fill_buf()).await;
            assert!(waits.is_none());
            assert!(received.bytes.capacity() <= KEPT, "after {length}");
        }
    }

    #[tokio::test]
    async fn the_end_of_a_stream_is_the_end_of_what_is_received() {
        let mut received = Received::new(&[1, 2, 3][..]);
        let mut all = Vec::new();
        received.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [1, 2, 3]);
        assert!(received.fill_buf().await.unwrap().is_empty());
    }
}
