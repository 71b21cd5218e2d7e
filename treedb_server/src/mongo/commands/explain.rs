//! `explain` of `find`, `count` and `aggregate`: the plan, and with a verbosity above `queryPlanner` its execution statistics.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::build_info::MONGODB_VERSION;
use super::host_info::hostname;
use super::request::Request;
use super::{count, find};
use crate::mongo::error::CommandError;

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
    let subject = request.subject()?;
    let command = subject.as_document().ok_or_else(|| {
        CommandError::new(ErrorCode::TypeMismatch, "BSON field 'explain.explain' must be a command")
    })?;
    let (name, target) = match command.iter().next().transpose()? {
        Some((name, target)) => (name.as_str(), target),
        None => return Err(CommandError::new(ErrorCode::FailedToParse, "explain of an empty command")),
    };
    let target = target.as_str().ok_or_else(|| {
        CommandError::new(ErrorCode::InvalidNamespace, format!("{name} names its collection by a string"))
    })?;
    let collection = request.context.database.collection(&format!("{}.{target}", request.database))?;
    let find = match name {
        "find" => find::parse("find", command)?.request,
        "count" => count::parse(command)?,
        "aggregate" => return super::aggregate::explain(&collection, command, verbosity != "queryPlanner"),
        other => {
            return Err(CommandError::not_implemented(format!(
                "explain of {other} is not supported: only find, count and aggregate"
            )));
        }
    };
    let mut reply = collection.explain_find(&find, name == "count", verbosity != "queryPlanner")?;
    append_command(&mut reply, command);
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
