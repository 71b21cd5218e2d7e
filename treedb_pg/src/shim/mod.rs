//! The way into the server: everything below needs `unsafe` because it calls C or reads C structures, and nothing
//! above this folder declares C functions of its own.
//!
//! * [`function`]: defining SQL-callable functions and reading their arguments
//! * [`error`]: raising SQL errors with a SQLSTATE and a hint
//! * [`buffer`]: pages of a relation, pinned and locked for as long as a guard lives
//! * [`wal`]: changes of up to four pages as one atomic WAL record
//! * [`heap`]: small parts of the server's headers that the bindings leave out: tuple header flags, item pointers
//! * [`varlena`]: values of variable length
//! * [`text`]: text between the server's encoding and UTF-8
//! * [`array`](mod@array): arrays
//! * [`rows`]: answers of many rows
//! * [`fault`]: errors on demand, for tests
//! * [`server`]: functions whose headers the bindings do not read

pub(crate) mod array;
pub(crate) mod buffer;
pub(crate) mod error;
pub(crate) mod fault;
pub(crate) mod function;
pub(crate) mod heap;
pub(crate) mod rows;
pub(crate) mod server;
pub(crate) mod text;
pub(crate) mod varlena;
pub(crate) mod wal;
