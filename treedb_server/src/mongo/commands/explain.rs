//! `explain`: the plan, and with a verbosity above `queryPlanner` its execution statistics. Of a write it is the plan that finds the
//! documents, which are counted and not changed.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, FindRequest};
use treedb_query::doc::Origin;
use treedb_query::query::ErrorCode;

use super::Result;
use super::build_info::MONGODB_VERSION;
use super::host_info::hostname;
use super::request::Request;
use super::{aggregate, count, delete, distinct, find, lookup, update, writes};
use crate::mongo::args::{args, number};
use crate::mongo::error::CommandError;

/// The commands that can be explained.
const EXPLAINED: [&str; 8] =
    ["aggregate", "count", "delete", "distinct", "find", "findAndModify", "findandmodify", "update"];

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut verbosity = "allPlansExecution";
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "verbosity" => verbosity = arg.str()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    if !matches!(verbosity, "queryPlanner" | "executionStats" | "allPlansExecution") {
        return Err(CommandError::new(
            ErrorCode::BadValue,
            "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
        ));
    }
    let execute = verbosity != "queryPlanner";
    let subject = request.subject()?;
    let command = subject.as_document().ok_or_else(|| {
        CommandError::new(ErrorCode::TypeMismatch, "BSON field 'explain.explain' must be a command")
    })?;
    let (name, target) = match command.iter().next().transpose()? {
        Some((name, target)) => (name.as_str(), target),
        None => return Err(CommandError::new(ErrorCode::FailedToParse, "explain of an empty command")),
    };
    if !EXPLAINED.contains(&name) {
        return Err(match lookup(name) {
            Some(command) => CommandError::new(
                ErrorCode::IllegalOperation,
                format!("Cannot explain cmd: {}", command.name),
            ),
            None => CommandError::new(
                ErrorCode::CommandNotFound,
                format!("Explain failed due to unknown command: {name}"),
            ),
        });
    }
    let target = target.as_str().ok_or_else(|| {
        CommandError::new(ErrorCode::InvalidNamespace, format!("{name} names its collection by a string"))
    })?;
    let collection = request.context.database.collection(&format!("{}.{target}", request.database))?;
    let mut reply = match name {
        "aggregate" => return aggregate::explain(&collection, command, execute),
        "update" => of_write(&collection, &of_update(command)?, execute)?,
        "delete" => of_write(&collection, &of_delete(command)?, execute)?,
        "find" | "count" | "distinct" => {
            let (find, path) = match name {
                "find" => (find::parse("find", command)?.request, None),
                "count" => (count::parse(command)?, None),
                _ => distinct::parse(command).map(|(find, path)| (find, Some(path)))?,
            };
            match path {
                Some(path) => collection.explain_distinct(path, &find, execute)?,
                None => collection.explain_find(&find, name == "count", execute)?,
            }
        }
        _ => of_write(&collection, &of_find_and_modify(command)?, execute)?,
    };
    append_command(&mut reply, command);
    Ok(reply)
}

/// A write, as far as it is explained.
struct Write {
    stage: &'static str,
    find: FindRequest,
    upsert: bool,
}

/// The only statement of a write command.
fn statement<'a>(command: &'a RawDocument, field: &str) -> Result<&'a RawDocument> {
    let mut only = None;
    for arg in args("explain", command) {
        let arg = arg?;
        if arg.name != field {
            continue;
        }
        let mut statements = arg.array()?.into_iter();
        only = match (statements.next().transpose()?, statements.next()) {
            (Some(statement), None) => statement.as_document(),
            _ => {
                return Err(CommandError::new(
                    ErrorCode::InvalidLength,
                    "explained write batches must be of size 1",
                ));
            }
        };
    }
    only.ok_or_else(|| CommandError::missing(field))
}

fn of_update(command: &RawDocument) -> Result<Write> {
    let parsed =
        update::parse(statement(command, "updates")?, writes::variables("update", command)?, Origin::Client)?;
    let limit = u64::from(!parsed.multi);
    let find = FindRequest {
        hint: parsed.hint,
        sort: parsed.sort,
        variables: parsed.variables,
        collation: parsed.collation,
        limit,
        ..FindRequest::filter(parsed.filter)
    };
    Ok(Write { stage: "UPDATE", find, upsert: parsed.upsert })
}

fn of_delete(command: &RawDocument) -> Result<Write> {
    let parsed = delete::parse(statement(command, "deletes")?, writes::variables("delete", command)?)?;
    let find = FindRequest {
        hint: parsed.hint,
        variables: parsed.variables,
        collation: parsed.collation,
        limit: parsed.limit,
        ..FindRequest::filter(parsed.filter)
    };
    Ok(Write { stage: "DELETE", find, upsert: false })
}

fn of_find_and_modify(command: &RawDocument) -> Result<Write> {
    let (mut find, mut remove, mut updates, mut upsert) =
        (FindRequest::default().limit(1), false, false, false);
    for arg in args("findAndModify", command).skip(1) {
        let arg = arg?;
        match arg.name {
            "query" => find.filter = arg.some_document()?,
            "sort" => find.sort = arg.some_document()?,
            "hint" => find.hint = find::hint(&arg)?,
            "collation" => find.collation = arg.some_document()?,
            "remove" => remove = arg.bool()?,
            "update" => updates = true,
            "upsert" => upsert = arg.bool()?,
            "let" => find.variables = arg.some_document()?,
            "fields"
            | "new"
            | "arrayFilters"
            | "writeConcern"
            | "bypassDocumentValidation"
            | "bypassEmptyTsReplacement" => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    if remove == updates {
        return Err(CommandError::new(
            ErrorCode::FailedToParse,
            "Either an update or remove=true must be specified, and not both",
        ));
    }
    Ok(Write { stage: if remove { "DELETE" } else { "UPDATE" }, find, upsert })
}

/// The plan that finds the documents of a write, below the stage that would change them.
fn of_write(collection: &Collection, write: &Write, execute: bool) -> Result {
    let found = collection.explain_find(&write.find, false, execute)?;
    let stats = found.get_document("executionStats").ok();
    let matched =
        stats.and_then(|stats| stats.get("nReturned").ok().flatten()).and_then(number).map(|n| n as i64);
    let stage = |input: &RawDocument, counts: bool| {
        let mut stage = rawdoc! { "stage": write.stage };
        if let Some(matched) = matched.filter(|_| counts) {
            match write.stage {
                "DELETE" => stage.append(cstr!("nWouldDelete"), matched),
                _ => {
                    stage.append(cstr!("nMatched"), matched);
                    stage.append(cstr!("nWouldUpsert"), i64::from(write.upsert && matched == 0));
                }
            }
        }
        stage.append(cstr!("inputStage"), input);
        stage
    };
    let within = |whole: &RawDocument, field: &str, counts: bool| -> Result {
        let mut changed = RawDocumentBuf::new();
        for element in whole {
            let (name, value) = element?;
            match value.as_document() {
                Some(input) if name.as_str() == field => changed.append(name, stage(input, counts)),
                _ if counts && name.as_str() == "nReturned" => changed.append(name, 0_i64),
                _ => changed.append(name, value),
            }
        }
        Ok(changed)
    };
    let mut reply = RawDocumentBuf::new();
    for element in &found {
        let (name, value) = element?;
        match (name.as_str(), value.as_document()) {
            ("queryPlanner", Some(planner)) => reply.append(name, within(planner, "winningPlan", false)?),
            ("executionStats", Some(stats)) => reply.append(name, within(stats, "executionStages", true)?),
            _ => reply.append(name, value),
        }
    }
    Ok(reply)
}

/// Adds the fields that end every explanation.
pub(super) fn append_command(reply: &mut RawDocumentBuf, command: &RawDocument) {
    reply.append(cstr!("command"), command);
    reply.append(
        cstr!("serverInfo"),
        rawdoc! { "host": hostname(), "version": MONGODB_VERSION, "gitVersion": concat!("treedb-", env!("CARGO_PKG_VERSION")) },
    );
}
