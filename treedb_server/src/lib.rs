//! TreeDB behind the MongoDB wire protocol and the native protocol.
