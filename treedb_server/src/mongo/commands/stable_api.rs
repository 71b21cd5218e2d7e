//! The Stable API: `apiVersion`, `apiStrict` and `apiDeprecationErrors`. There is one version, and nothing in it is deprecated.

use super::Result;
use super::request::Request;
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

/// The commands of version 1.
const COMMANDS: &[&str] = &[
    "abortTransaction",
    "aggregate",
    "authenticate",
    "bulkWrite",
    "collMod",
    "commitTransaction",
    "count",
    "create",
    "createIndexes",
    "delete",
    "drop",
    "dropDatabase",
    "dropIndexes",
    "endSessions",
    "explain",
    "find",
    "findAndModify",
    "getMore",
    "hello",
    "insert",
    "isMaster",
    "killCursors",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "ping",
    "refreshSessions",
    "saslContinue",
    "saslStart",
    "update",
];

/// The stages that version 1 does not have.
const OTHER_STAGES: &[&str] =
    &["$currentOp", "$indexStats", "$listLocalSessions", "$listSearchIndexes", "$listSessions"];

/// Refuses a command that the version it asks for does not have.
///
/// # Errors
/// `APIVersionError`, `APIStrictError`; those of arguments of the wrong type.
pub(super) fn check(request: &Request<'_>) -> Result<()> {
    let arg = |name, value| Arg::new(request.command.name, name, value);
    let fields = &request.fields;
    let version = fields.api_version.map(|value| arg("apiVersion", value).str()).transpose()?;
    let strict = fields.api_strict.map(|value| arg("apiStrict", value).bool()).transpose()?;
    let deprecation = fields.api_deprecation_errors;
    let deprecation = deprecation.map(|value| arg("apiDeprecationErrors", value).bool()).transpose()?;
    let (strict, others) = (strict.unwrap_or(false), strict.or(deprecation).is_some());
    match version {
        None if others => {
            return Err(CommandError::new(
                ProtocolCode::Location4886600,
                "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion",
            ));
        }
        None | Some("1") => {}
        Some(other) => {
            return Err(CommandError::new(
                ProtocolCode::APIVersionError,
                format!("API version must be \"1\", not \"{other}\""),
            ));
        }
    }
    if !strict {
        return Ok(());
    }
    let refused = |what: String| {
        Err(CommandError::new(
            ProtocolCode::APIStrictError,
            format!("Provided apiStrict:true, but {what} is not in API Version 1"),
        ))
    };
    let name = request.command.name;
    if !COMMANDS.contains(&name) {
        return refused(format!("the command {name}"));
    }
    let Ok(pipeline) = request.body().get_array("pipeline") else { return Ok(()) };
    for stage in pipeline.into_iter().flatten() {
        let Some((stage, _)) =
            stage.as_document().and_then(|stage| stage.iter().next()).and_then(|field| field.ok())
        else {
            continue;
        };
        if OTHER_STAGES.contains(&stage.as_str()) {
            return refused(format!("the stage {}", stage.as_str()));
        }
    }
    Ok(())
}
