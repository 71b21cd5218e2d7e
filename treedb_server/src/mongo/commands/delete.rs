//! `delete`: each statement is one transaction; the command waits for the disk once, behind the last.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use treedb_core::query::ErrorCode;
use treedb_core::{Collection, DeleteRequest};

use super::Result;
use super::find::hint;
use super::request::Request;
use super::writes::{Options, WriteErrors, append_count, check_statement, simple_collation, statements};
use crate::mongo::args::args;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut options = Options::new();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "deletes" => {}
            "let" => arg.unsupported()?,
            _ if options.read(&arg)? => {}
            _ => arg.generic()?,
        }
    }
    let deletes = statements(request, "deletes")?;
    let collection = options.acknowledge(request.collection()?);
    let relaxed = options.in_between(request, &collection);
    let mut deleted = 0;
    let mut errors = WriteErrors::default();
    let last = deletes.len() - 1;
    // Written by statements that nobody has waited for yet.
    let mut unsettled = false;
    for (index, statement) in deletes.into_iter().enumerate() {
        let done = parse(&collection, statement).and_then(|delete| {
            let to = if index == last { &collection } else { &relaxed };
            Ok(to.delete(delete)?)
        });
        match done {
            Ok(count) => {
                deleted += count;
                if count > 0 {
                    unsettled = index != last;
                }
            }
            Err(error) => {
                errors.push(index, error);
                if options.ordered {
                    break;
                }
            }
        }
    }
    if unsettled {
        options.settle(request)?;
    }
    let mut reply = RawDocumentBuf::new();
    append_count(&mut reply, cstr!("n"), deleted);
    errors.append_to(&mut reply);
    Ok(reply)
}

fn parse(collection: &Collection, statement: &RawDocument) -> Result<DeleteRequest> {
    check_statement(statement)?;
    let (mut filter, mut limit, mut by) = (None, None, None);
    for arg in args("delete.deletes", statement) {
        let arg = arg?;
        match arg.name {
            "q" => filter = Some(arg.document()?.to_owned()),
            "limit" => limit = Some(arg.integer()?),
            "hint" => by = hint(collection, &arg)?,
            "collation" => simple_collation(&arg)?,
            _ => arg.generic()?,
        }
    }
    let missing = |name: &str| {
        CommandError::location(
            40_414,
            format!("BSON field 'delete.deletes.{name}' is missing but a required field"),
        )
    };
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
    Ok(DeleteRequest { filter: filter.ok_or_else(|| missing("q"))?, limit, hint: by })
}
