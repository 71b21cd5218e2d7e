//! The native protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::context::Context;
use crate::drain::Drain;

/// Serves one connection until the peer closes it, breaks the protocol, or the server drains.
pub(crate) async fn connection(stream: TcpStream, peer: SocketAddr, _context: Arc<Context>, _drain: Drain) {
    tracing::debug!(door = "native", %peer, "closed");
    drop(stream);
}
