//! Transfers with peers that may stall.
//!
//! A message holds a share of the server's byte budget while it is received, and an answer while it is sent. A limit to the time of each
//! read or write would let a peer hold that for as long as it likes, by transferring a byte now and then. So the limit
//! ([`Limits::stall`](crate::config::Limits::stall)) is one to the time of each [`CHUNK`] of a message, or of what is left of it.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Bytes that a peer must transfer within the limit.
pub(crate) const CHUNK: usize = 1 << 20;

/// What a buffer has room for at first.
const FIRST: usize = 16 * 1024;

/// Why a transfer has ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// The connection broke, or ended inside a message.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The limit has passed.
    #[error("the peer stalled inside a message")]
    Stalled,
}

impl From<TransferError> for io::Error {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Io(error) => error,
            TransferError::Stalled => io::Error::new(io::ErrorKind::TimedOut, error),
        }
    }
}

/// The result of one step of a transfer, which must not take longer than `stall`.
pub(crate) async fn within<T>(
    stall: Duration,
    step: impl Future<Output = io::Result<T>>,
) -> Result<T, TransferError> {
    Ok(timeout(stall, step).await.map_err(|_| TransferError::Stalled)??)
}

/// What a future gives if it need not wait for the runtime. A read of a thread that lingers waits for its peer all the same.
pub(crate) async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Fills `bytes`. What has arrived needs no timer.
pub(crate) async fn read_exact(
    reader: &mut (impl AsyncRead + Unpin),
    bytes: &mut [u8],
    stall: Duration,
) -> Result<(), TransferError> {
    let arrived = match at_once(reader.read(bytes)).await.transpose()? {
        Some(0) if !bytes.is_empty() => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        arrived => arrived.unwrap_or(0),
    };
    match bytes.get_mut(arrived..) {
        Some(rest) if !rest.is_empty() => within(stall, reader.read_exact(rest)).await.map(drop),
        _ => Ok(()),
    }
}

/// Reads until `bytes` has `length` bytes. Memory is allocated as bytes arrive, whatever `length` promises, and no more than that.
pub(crate) async fn fill(
    reader: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    length: usize,
    stall: Duration,
) -> Result<(), TransferError> {
    while bytes.len() < length {
        let end = length.min(bytes.len() + CHUNK);
        // What has arrived needs no timer.
        if bytes.capacity() > bytes.len() {
            let mut part = (&mut *reader).take((end - bytes.len()) as u64);
            match at_once(part.read_buf(bytes)).await.transpose()? {
                Some(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Some(_) if bytes.len() == end => continue,
                _ => {}
            }
        }
        within(stall, async {
            while bytes.len() < end {
                if bytes.len() == bytes.capacity() {
                    bytes.reserve_exact((length - bytes.len()).min(bytes.len().max(FIRST)));
                }
                let mut part = (&mut *reader).take((end - bytes.len()) as u64);
                if part.read_buf(bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Writes `bytes`.
pub(crate) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    stall: Duration,
) -> Result<(), TransferError> {
    for part in bytes.chunks(CHUNK) {
        // What there is room for needs no timer.
        let sent = at_once(writer.write(part)).await.transpose()?.unwrap_or(0);
        if let Some(rest) = part.get(sent..).filter(|rest| !rest.is_empty()) {
            within(stall, writer.write_all(rest)).await?;
        }
    }
    match at_once(writer.flush()).await {
        Some(flushed) => Ok(flushed?),
        None => within(stall, writer.flush()).await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    const STALL: Duration = Duration::from_millis(300);
    const NOW_AND_THEN: Duration = Duration::from_millis(20);

    /// Polls `transfer` beside `peer`, which never ends, and returns its result and how long it took.
    async fn beside<T>(transfer: impl Future<Output = T>, peer: impl Future<Output = ()>) -> (T, Duration) {
        let began = Instant::now();
        let result = tokio::select! {
            result = transfer => result,
            () = peer => panic!("the peer does not end"),
            () = sleep(STALL * 20) => panic!("the transfer does not end"),
        };
        (result, began.elapsed())
    }

    #[tokio::test]
    async fn a_byte_now_and_then_is_no_transfer() {
        let (mut client, mut server) = tokio::io::duplex(1024);
        let mut bytes = Vec::new();
        let received = fill(&mut server, &mut bytes, 10_000_000, STALL);
        let sends = async {
            loop {
                client.write_all(&[7]).await.unwrap();
                sleep(NOW_AND_THEN).await;
            }
        };
        let (received, took) = beside(received, sends).await;
        assert!(matches!(received, Err(TransferError::Stalled)));
        assert!(took >= STALL && bytes.capacity() <= FIRST, "{took:?}, {}", bytes.capacity());

        let (mut client, mut server) = tokio::io::duplex(1024);
        let answer = vec![7; 10_000_000];
        let takes = async {
            loop {
                client.read_u8().await.unwrap();
                sleep(NOW_AND_THEN).await;
            }
        };
        let (sent, took) = beside(write(&mut server, &answer, STALL), takes).await;
        assert!(matches!(sent, Err(TransferError::Stalled)));
        assert!(took >= STALL, "{took:?}");
    }

    #[tokio::test]
    async fn each_chunk_has_the_limit_for_itself_and_a_buffer_grows_to_the_length_only() {
        let (mut client, mut server) = tokio::io::duplex(1 << 20);
        let length = 3 * CHUNK + 5;
        let message: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let sent = message.clone();
        let stall = Duration::from_secs(1);
        let sending = tokio::spawn(async move {
            for part in sent.chunks(CHUNK) {
                sleep(stall * 2 / 5).await;
                client.write_all(part).await.unwrap();
            }
        });
        let mut bytes = Vec::new();
        fill(&mut server, &mut bytes, length, stall).await.unwrap();
        sending.await.unwrap();
        assert!(bytes == message);
        assert_eq!(bytes.capacity(), length);
    }

    #[tokio::test]
    async fn a_message_that_ends_early_is_an_error_and_not_a_wait() {
        let mut bytes = vec![1];
        let error = fill(&mut &[2, 3][..], &mut bytes, 4, STALL).await.unwrap_err();
        assert!(matches!(error, TransferError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof));
        assert_eq!(bytes, [1, 2, 3]);
    }
}
