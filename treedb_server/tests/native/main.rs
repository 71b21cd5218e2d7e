//! The native protocol, through the client and through bare sockets, against the server's own binary.

mod documents;
mod hostile;
mod keys;
mod lifecycle;
mod server;
