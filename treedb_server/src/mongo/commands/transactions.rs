//! `commitTransaction` and `abortTransaction`. With the number of a transaction, [`crate::mongo::sessions`] carries them
//! out; without one there is nothing to be done.

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let name = request.command.name;
    Err(CommandError::named(125, "CommandFailed", format!("{name} must be run within a transaction")))
}
