//! `getLog`: the last lines of the log, each a JSON document as MongoDB writes them.

use bson::{RawArrayBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::logs::{self, Kept};
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let kept = match request.subject()?.as_str() {
        Some("*") => return Ok(rawdoc! { "names": ["global", "startupWarnings"] }),
        Some("global") => logs::kept(Kept::All),
        Some("startupWarnings") => logs::kept(Kept::StartupWarnings),
        Some(other) => {
            return Err(CommandError::new(
                ProtocolCode::OperationFailed,
                format!("No log named '{other}': 'global' or 'startupWarnings'"),
            ));
        }
        None => {
            return Err(CommandError::new(
                ErrorCode::TypeMismatch,
                "Argument to getLog must be of type String",
            ));
        }
    };
    let mut lines = RawArrayBuf::new();
    kept.lines.into_iter().for_each(|line| lines.push(line));
    Ok(rawdoc! { "totalLinesWritten": i64::try_from(kept.written).unwrap_or(i64::MAX), "log": lines })
}
