//! Prepared statements: requests of which a connection has sent everything but the values.
//!
//! | file | what it holds |
//! |---|---|
//! | `template` | documents with parameters |
//! | `statement` | [`Statement`], and the [`Statements`] of a connection |
//! | `execute` | preparing and executing |

mod execute;
mod statement;
mod template;

pub(crate) use statement::{Kind, Statement, Statements};
