//! The Stable API: `apiVersion`, `apiStrict` and `apiDeprecationErrors`. There is one version, and nothing in it is deprecated.

use bson::RawArray;

use super::Result;
use super::needs::DEEPEST;
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
    let name = request.command.name;
    if !COMMANDS.contains(&name) {
        return refused(format!("the command {name}"));
    }
    let explained = match name {
        "explain" => request.subject()?.as_document(),
        _ => None,
    };
    match explained.unwrap_or(request.body()).get_array("pipeline") {
        Ok(stages) => check_stages(stages, 0),
        Err(_) => Ok(()),
    }
}

fn refused(what: String) -> Result<()> {
    Err(CommandError::new(
        ProtocolCode::APIStrictError,
        format!("Provided apiStrict:true, but {what} is not in API Version 1"),
    ))
}

/// Refuses stages that the version does not have, in this pipeline and those within its stages. What is not a pipeline at all is refused when
/// it is read.
fn check_stages(stages: &RawArray, depth: usize) -> Result<()> {
    if depth > DEEPEST {
        return Ok(());
    }
    for stage in stages.into_iter().flatten() {
        let Some((name, operand)) =
            stage.as_document().and_then(|stage| stage.iter().next()).and_then(|field| field.ok())
        else {
            continue;
        };
        let (name, operand) = (name.as_str(), operand.as_document());
        if OTHER_STAGES.contains(&name) {
            return refused(format!("the stage {name}"));
        }
        for (field, value) in operand.into_iter().flatten().flatten() {
            match (name, field.as_str(), value.as_array()) {
                ("$collStats", "count", _) => {}
                ("$collStats", option, _) => return refused(format!("the option '{option}' of $collStats")),
                ("$facet", _, Some(stages)) | ("$lookup" | "$unionWith", "pipeline", Some(stages)) => {
                    check_stages(stages, depth + 1)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}
