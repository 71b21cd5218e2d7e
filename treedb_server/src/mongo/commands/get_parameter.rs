//! `getParameter`: the few parameters that tools request.

use bson::raw::CString;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::args::number;
use crate::mongo::error::CommandError;

fn parameters() -> RawDocumentBuf {
    rawdoc! {
        "authenticationMechanisms": [],
        "featureCompatibilityVersion": { "version": "7.0" },
        "logicalSessionRefreshMillis": 300_000,
        "maxBSONDepth": i32::try_from(treedb_query::doc::MAX_DEPTH).unwrap_or(i32::MAX),
        "quiet": false,
    }
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let all = parameters();
    if wants_all(request.subject()?) {
        return Ok(all);
    }
    let mut reply = RawDocumentBuf::new();
    for arg in request.args() {
        let arg = arg?;
        if let Some(value) = all.get(arg.name)? {
            append(&mut reply, arg.name, value)?;
        } else {
            arg.ignored_or_unknown()
                .or(Err(CommandError::new(ErrorCode::InvalidOptions, "no option found to get")))?;
        }
    }
    if (&*reply as &RawDocument).iter().next().is_none() {
        return Err(CommandError::new(ErrorCode::InvalidOptions, "no option found to get"));
    }
    Ok(reply)
}

/// `{getParameter: "*"}` and `{getParameter: {allParameters: true}}` request all parameters.
fn wants_all(subject: RawBsonRef<'_>) -> bool {
    match subject {
        RawBsonRef::String(text) => text == "*",
        RawBsonRef::Document(options) => match options.get("allParameters") {
            Ok(Some(RawBsonRef::Boolean(all))) => all,
            Ok(Some(other)) => number(other).is_some_and(|n| n != 0.0),
            _ => false,
        },
        _ => false,
    }
}

fn append(reply: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) -> Result<()> {
    reply.append(CString::try_from(name)?, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_all_are_understood() {
        for (command, all) in [
            (rawdoc! { "x": "*" }, true),
            (rawdoc! { "x": 1 }, false),
            (rawdoc! { "x": { "allParameters": true } }, true),
            (rawdoc! { "x": { "showDetails": true } }, false),
        ] {
            assert_eq!(wants_all(command.get("x").unwrap().unwrap()), all);
        }
    }
}
