//! The native protocol, through the client and through bare sockets, against the server's own binary.

// Helpers of tests, which clippy does not know as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod asynchronous;
mod documents;
mod examples;
mod hostile;
mod indexes;
mod keys;
mod lifecycle;
mod page;
mod pipelines;
mod prepared;
mod pull;
mod server;
mod tls;
