//! `logRotate`: the log is written to standard error, whose reader rotates it. As in MongoDB without a log file, there is nothing to do.

use bson::RawBsonRef;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use crate::mongo::args::number;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    let subject = request.subject()?;
    for arg in request.args() {
        let arg = arg?;
        arg.ignored_or_unknown()?;
    }
    match subject {
        RawBsonRef::String("server") => done(),
        RawBsonRef::String("audit") => Err(CommandError::new(
            ProtocolCode::NoSuchKey,
            "Unknown log type: 'audit': there is no audit log",
        )),
        RawBsonRef::String(other) => {
            Err(CommandError::new(ProtocolCode::NoSuchKey, format!("Unknown log type: '{other}'")))
        }
        RawBsonRef::Boolean(_) => done(),
        _ if number(subject).is_some() => done(),
        _ => Err(CommandError::new(
            ErrorCode::TypeMismatch,
            "BSON field 'logRotate.logRotate' must be a number or the name of a log",
        )),
    }
}
