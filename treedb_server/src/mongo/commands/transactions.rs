//! `commitTransaction` and `abortTransaction`. With a transaction number, [`crate::mongo::sessions`] executes them; without
//! one they are errors.

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let name = request.command.name;
    Err(CommandError::named(125, "CommandFailed", format!("{name} must be run within a transaction")))
}
