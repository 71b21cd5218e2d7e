//! B+trees over [`crate::page`]: node format, search, insert, delete, cursor, bulk load, check.
