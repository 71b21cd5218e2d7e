//! Methods of databases, collections and cursors, as the commands of the wire protocol that they stand for.
//!
//! | module | what it is |
//! |---|---|
//! | `plan` | a command to run, and how to show what comes back |
//! | `names` | which methods there are, and their forms |
//! | `arguments` | the arguments of a method |
//! | `database`, `collection`, `cursor` | the methods of each |

mod arguments;
mod collection;
mod cursor;
mod database;
mod names;
mod plan;
#[cfg(test)]
mod tests;

use bson::Document;

pub(crate) use names::{ON_COLLECTION, ON_CURSOR, ON_DATABASE};
pub(crate) use plan::{Plan, Show, Write, show};

/// A command with these options.
fn with(mut command: Document, options: Document) -> Document {
    command.extend(options);
    command
}
