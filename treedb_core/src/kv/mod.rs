//! The key/value store: tables, transactions, cursors, recovery.
