//! `setParameter`: changes a parameter until the server stops. The reply has what it was.

use std::time::Duration;

use bson::raw::CString;
use bson::{RawBson, RawDocumentBuf};
use treedb_query::query::ErrorCode;

use super::Result;
use super::get_parameter::{PARAMETERS, Parameter};
use super::request::Request;
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut changes: Vec<(&'static Parameter, Arg<'_>)> = Vec::new();
    for arg in request.args() {
        let arg = arg?;
        match PARAMETERS.iter().find(|parameter| parameter.name == arg.name) {
            Some(parameter) if parameter.set.is_some() => changes.push((parameter, arg)),
            Some(_) => {
                return Err(CommandError::new(
                    ErrorCode::IllegalOperation,
                    format!("not allowed to change [{}] at runtime", arg.name),
                ));
            }
            None => arg.ignored_or_unknown().map_err(|_| {
                CommandError::new(
                    ErrorCode::InvalidOptions,
                    format!(
                        "attempted to set unrecognized parameter [{}], use getParameter: '*' to see all",
                        arg.name
                    ),
                )
            })?,
        }
    }
    let mut reply = RawDocumentBuf::new();
    if changes.is_empty() {
        return Err(CommandError::new(
            ErrorCode::InvalidOptions,
            "no option found to set, use getParameter: '*' to see all",
        ));
    }
    for (at, (parameter, arg)) in changes.into_iter().enumerate() {
        let was: RawBson = (parameter.get)(request);
        if let Some(set) = parameter.set {
            set(request, &arg)?;
        }
        if at == 0 {
            reply.append(CString::try_from("was")?, was);
        }
    }
    Ok(reply)
}

/// A time of at least one unit.
pub(super) fn duration(arg: &Arg<'_>, unit: Duration) -> std::result::Result<Duration, CommandError> {
    let number = arg.integer()?;
    let length =
        u32::try_from(number).ok().filter(|&number| number > 0).and_then(|number| unit.checked_mul(number));
    length.ok_or_else(|| {
        CommandError::new(
            ErrorCode::BadValue,
            format!("Invalid value for parameter {}: {number} is not greater than 0", arg.name),
        )
    })
}
