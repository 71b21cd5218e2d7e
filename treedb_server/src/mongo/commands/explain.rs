//! `explain`: the plan, and with a verbosity above `queryPlanner` its execution statistics. Of a write it is the plan that finds the
//! documents, which are counted and not changed. An update is evaluated for each of them, and its errors are returned; what is not checked are
//! validators, unique indexes, and the document that an upsert would insert.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::doc::Origin;
use treedb_query::query::ErrorCode;

use super::Result;
use super::build_info::MONGODB_VERSION;
use super::host_info::hostname;
use super::request::Request;
use super::{aggregate, count, delete, distinct, find, find_and_modify, lookup, update, writes};
use crate::mongo::args::args;
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
        "update" => {
            let statement = statement(command, "updates")?;
            let update = update::parse(statement, writes::variables("update", command)?, Origin::Client)?;
            collection.explain_update(update, execute)?
        }
        "delete" => {
            let statement = statement(command, "deletes")?;
            collection
                .explain_delete(delete::parse(statement, writes::variables("delete", command)?)?, execute)?
        }
        "find" | "count" | "distinct" => {
            let arguments = args(name, command).skip(1);
            let (find, path) = match name {
                "find" => (find::parse(arguments)?.request, None),
                "count" => (count::parse(arguments)?, None),
                _ => distinct::parse(arguments).map(|(find, path)| (find, Some(path)))?,
            };
            match path {
                Some(path) => collection.explain_distinct(path, &find, execute)?,
                None => collection.explain_find(&find, name == "count", execute)?,
            }
        }
        _ => {
            let arguments = args("findAndModify", command).skip(1);
            let modify = find_and_modify::parse(arguments, Origin::Client, &mut writes::Options::new())?;
            collection.explain_find_and_modify(modify, execute)?
        }
    };
    append_command(&mut reply, command);
    Ok(reply)
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

/// Adds the fields that end every explanation.
pub(super) fn append_command(reply: &mut RawDocumentBuf, command: &RawDocument) {
    reply.append(cstr!("command"), command);
    reply.append(
        cstr!("serverInfo"),
        rawdoc! { "host": hostname(), "version": MONGODB_VERSION, "gitVersion": concat!("treedb-", env!("CARGO_PKG_VERSION")) },
    );
}
