//! `delete`.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use treedb_collections::DeleteRequest;
use treedb_query::query::ErrorCode;

use super::Result;
use super::find::hint;
use super::request::Request;
use super::writes::{append_count, check_statement, each_statement, not_many, variables};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let variables = variables("delete", request.body())?;
    let tally = each_statement(request, "deletes", &mut |_, statement, target| {
        let parsed = parse(statement, variables.clone())?;
        not_many(request, parsed.limit == 0)?;
        target.delete(parsed)
    })?;
    let mut reply = RawDocumentBuf::new();
    append_count(&mut reply, cstr!("n"), tally.found);
    tally.errors.append_to(&mut reply);
    Ok(reply)
}

pub(super) fn parse(statement: &RawDocument, variables: Option<RawDocumentBuf>) -> Result<DeleteRequest> {
    check_statement(statement)?;
    let (mut filter, mut limit, mut index_hint, mut collation) = (None, None, None, None);
    for arg in args("delete.deletes", statement) {
        let arg = arg?;
        match arg.name {
            "q" => filter = Some(arg.document()?.to_owned()),
            "limit" => limit = Some(arg.integer()?),
            "hint" => index_hint = hint(&arg)?,
            "collation" => collation = arg.some_document()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    let missing = |name: &str| CommandError::missing(&format!("delete.deletes.{name}"));
    let limit = match limit.ok_or_else(|| missing("limit"))? {
        0 => 0,
        1 => 1,
        other => {
            return Err(CommandError::new(
                ErrorCode::FailedToParse,
                format!("The limit field in delete objects must be 0 or 1. Got {other}"),
            ));
        }
    };
    let filter = filter.ok_or_else(|| missing("q"))?;
    Ok(DeleteRequest { filter, limit, hint: index_hint, collation, variables })
}
