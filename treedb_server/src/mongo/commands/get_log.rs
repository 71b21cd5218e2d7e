//! `getLog`: log lines go to standard error and are not kept, so every list is empty.

use bson::rawdoc;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    match request.subject()?.as_str() {
        Some("*") => Ok(rawdoc! { "names": ["global", "startupWarnings"] }),
        Some("global" | "startupWarnings") => Ok(rawdoc! { "totalLinesWritten": 0, "log": [] }),
        Some(other) => Err(CommandError::new(
            ErrorCode::BadValue,
            format!("No log named '{other}': 'global' or 'startupWarnings'"),
        )),
        None => Err(CommandError::new(ErrorCode::TypeMismatch, "Argument to getLog must be of type String")),
    }
}
