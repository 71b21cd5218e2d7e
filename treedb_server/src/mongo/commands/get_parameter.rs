//! `getParameter`: the parameters that tools request. Those that can be changed are changed by [`super::set_parameter`].

use std::time::Duration;

use bson::raw::CString;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::feature_version::FEATURE_VERSION;
use super::request::Request;
use super::set_parameter::duration;
use crate::logs;
use crate::mongo::args::{Arg, args, number};
use crate::mongo::error::CommandError;

/// Sets a parameter.
type Set = fn(&Request<'_>, &Arg<'_>) -> std::result::Result<(), CommandError>;

/// A parameter.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) get: fn(&Request<'_>) -> RawBson,
    /// `None` if it cannot be changed while the server runs.
    pub(super) set: Option<Set>,
}

const fn fixed(name: &'static str, get: fn(&Request<'_>) -> RawBson) -> Parameter {
    Parameter { name, get, set: None }
}

/// All of them, by name.
pub(super) static PARAMETERS: &[Parameter] = &[
    fixed("authenticationMechanisms", |_| {
        let mut all = bson::RawArrayBuf::new();
        ["SCRAM-SHA-1", "SCRAM-SHA-256"].into_iter().for_each(|name| all.push(name));
        RawBson::Array(all)
    }),
    Parameter {
        name: "cursorTimeoutMillis",
        get: |request| millis(request.context.parameters.cursor_idle()).into(),
        set: Some(|request, arg| {
            request.context.parameters.set_cursor_idle(duration(arg, Duration::from_millis(1))?);
            Ok(())
        }),
    },
    fixed("enableTestCommands", |request| request.context.fail_points.is_some().into()),
    fixed("featureCompatibilityVersion", |_| RawBson::Document(rawdoc! { "version": FEATURE_VERSION })),
    Parameter {
        name: "logComponentVerbosity",
        get: |_| RawBson::Document(component_verbosity()),
        set: Some(|_, arg| set_component_verbosity(arg)),
    },
    Parameter { name: "logLevel", get: |_| logs::verbosity().into(), set: Some(|_, arg| set_verbosity(arg)) },
    fixed("logicalSessionRefreshMillis", |_| 300_000.into()),
    fixed("maxBSONDepth", |_| i32::try_from(treedb_query::doc::MAX_DEPTH).unwrap_or(i32::MAX).into()),
    fixed("notablescan", |_| false.into()),
    fixed("quiet", |_| false.into()),
    Parameter {
        name: "transactionLifetimeLimitSeconds",
        get: |request| (millis(request.context.parameters.transaction_life()) / 1000).into(),
        set: Some(|request, arg| {
            let (context, life) = (request.context, duration(arg, Duration::from_secs(1))?);
            context.parameters.set_transaction_life(life);
            context.database.set_write_wait(life.saturating_mul(2), context.limits.waiting_writes());
            Ok(())
        }),
    },
    fixed("ttlMonitorEnabled", |_| true.into()),
];

/// MongoDB's components of a log. Ours has none: all have the level of the whole.
const COMPONENTS: [&str; 19] = [
    "accessControl",
    "assert",
    "command",
    "control",
    "ftdc",
    "geo",
    "index",
    "network",
    "processHealth",
    "query",
    "queryStats",
    "replication",
    "resharding",
    "sharding",
    "storage",
    "tenantMigration",
    "test",
    "transaction",
    "write",
];

/// What `db.getLogComponents()` shows: the level, and that each component has that (-1).
fn component_verbosity() -> RawDocumentBuf {
    let mut shown = rawdoc! { "verbosity": logs::verbosity() };
    for name in COMPONENTS {
        if let Ok(name) = CString::try_from(name) {
            shown.append(name, rawdoc! { "verbosity": -1 });
        }
    }
    shown
}

/// Sets the level of the log, as `db.setLogLevel(level)` does; a component can have no other.
fn set_component_verbosity(arg: &Arg<'_>) -> std::result::Result<(), CommandError> {
    let mut level = None;
    for part in args("logComponentVerbosity", arg.document()?) {
        let part = part?;
        match part.name {
            "verbosity" => level = Some(part),
            name if COMPONENTS.contains(&name) => {
                let own = part.document()?.get("verbosity")?.and_then(number);
                if own != Some(-1.0) {
                    return Err(CommandError::new(
                        ErrorCode::NotImplemented,
                        format!("the log has one level: {name} cannot have another"),
                    ));
                }
            }
            name => {
                return Err(CommandError::new(
                    ErrorCode::BadValue,
                    format!("Invalid component name: {name}"),
                ));
            }
        }
    }
    level.map_or(Ok(()), |level| set_verbosity(&level))
}

fn set_verbosity(arg: &Arg<'_>) -> std::result::Result<(), CommandError> {
    match i32::try_from(arg.integer()?) {
        Ok(level @ 0..=5) => {
            logs::set_verbosity(level);
            Ok(())
        }
        _ => Err(CommandError::new(
            ErrorCode::BadValue,
            format!("Invalid value for parameter {}: it is a number from 0 to 5", arg.name),
        )),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut reply = RawDocumentBuf::new();
    if wants_all(request.subject()?) {
        for parameter in PARAMETERS {
            reply.append(CString::try_from(parameter.name)?, (parameter.get)(request));
        }
        return Ok(reply);
    }
    for arg in request.args() {
        let arg = arg?;
        if let Some(parameter) = PARAMETERS.iter().find(|parameter| parameter.name == arg.name) {
            reply.append(CString::try_from(arg.name)?, (parameter.get)(request));
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

    #[test]
    fn parameters_are_sorted() {
        assert!(PARAMETERS.is_sorted_by(|a, b| a.name < b.name));
    }
}
