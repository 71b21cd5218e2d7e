//! The way into the server: everything below needs `unsafe` because it calls C or reads C structures, and nothing
//! above this folder declares C functions of its own.
//!
//! * [`function`]: defining SQL-callable functions and reading their arguments
//! * [`error`]: raising SQL errors with a SQLSTATE and a hint
//! * [`heap`]: small parts of the server's headers that the bindings leave out: tuple header flags, item pointers

pub(crate) mod error;
pub(crate) mod function;
pub(crate) mod heap;
