//! `commitTransaction` and `abortTransaction`. With a transaction number, [`crate::mongo::sessions`] executes them; without
//! one they are errors.

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    let name = request.command.name;
    Err(CommandError::new(ProtocolCode::CommandFailed, format!("{name} must be run within a transaction")))
}
