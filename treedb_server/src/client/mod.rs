//! A client of the native protocol.
