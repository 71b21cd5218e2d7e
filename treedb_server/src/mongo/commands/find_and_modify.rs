//! `findAndModify`: updates or deletes one document and returns it, as it was before or is after the update.

use bson::raw::cstr;
use bson::{RawBson, RawDocumentBuf, rawdoc};
use treedb_collections::{FindAndModifyRequest, FindRequest};
use treedb_query::doc::Origin;
use treedb_query::query::ErrorCode;

use super::Result;
use super::find::hint;
use super::request::Request;
use super::update::changes;
use super::writes::{Options, origin};
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;
use crate::mongo::sessions::CommandScope;
use crate::mongo::write_target::WriteTarget;

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let mut options = Options::new();
    let modify = parse(request.args(), origin(request)?, &mut options)?;
    let collection = options.acknowledge(collection);
    match request.scope {
        CommandScope::Standalone => execute(&mut WriteTarget::Collection(&collection), modify),
        CommandScope::Transaction(open) => {
            execute(&mut WriteTarget::Transaction(&mut open.borrow_mut().txn, &collection), modify)
        }
        CommandScope::Retryable(retries) => {
            let durability = options.promised(request);
            retries.borrow_mut().once(durability, &collection, &mut |target| execute(target, modify.clone()))
        }
    }
}

/// Reads the arguments; those of how it is acknowledged into `options`.
pub(super) fn parse<'a>(
    arguments: impl Iterator<Item = std::result::Result<Arg<'a>, CommandError>>,
    origin: Origin,
    options: &mut Options,
) -> std::result::Result<FindAndModifyRequest, CommandError> {
    let mut find = FindRequest::default();
    let (mut remove, mut update, mut after, mut upsert) = (false, None, false, false);
    let mut array_filters = Vec::new();
    for arg in arguments {
        let arg = arg?;
        match arg.name {
            "query" => find.filter = arg.some_document()?,
            "sort" => find.sort = arg.some_document()?,
            "fields" => find.projection = arg.some_document()?,
            "hint" => find.hint = hint(&arg)?,
            "collation" => find.collation = arg.some_document()?,
            "remove" => remove = arg.bool()?,
            "update" => update = Some(changes(&arg, origin)?),
            "new" => after = arg.bool()?,
            "upsert" => upsert = arg.bool()?,
            "arrayFilters" => array_filters = arg.documents()?,
            "let" => find.variables = arg.some_document()?,
            "ordered" => arg.ignored_or_unknown()?,
            _ if options.read(&arg)? => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    let contradiction = match (remove, &update) {
        (true, Some(_)) => Some("Cannot specify both an update and remove=true"),
        (false, None) => Some("Either an update or remove=true must be specified"),
        (true, None) if !array_filters.is_empty() => Some("Cannot specify arrayFilters and remove=true"),
        (true, None) if upsert => Some("Cannot specify both upsert=true and remove=true"),
        (true, None) if after => {
            Some("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
        }
        _ => None,
    };
    if let Some(message) = contradiction {
        return Err(CommandError::new(ErrorCode::FailedToParse, message));
    }
    Ok(FindAndModifyRequest { find, update, array_filters, upsert, after })
}

/// Executes the request and builds the reply.
fn execute(target: &mut WriteTarget<'_>, modify: FindAndModifyRequest) -> Result {
    let remove = modify.update.is_none();
    let done = target.find_and_modify(modify)?;
    let mut last = rawdoc! { "n": i32::from(done.matched || done.upserted.is_some()) };
    if !remove {
        last.append(cstr!("updatedExisting"), done.matched);
    }
    if let Some(id) = done.upserted {
        last.append(cstr!("upserted"), RawBson::try_from(id)?);
    }
    let mut reply = RawDocumentBuf::new();
    reply.append(cstr!("lastErrorObject"), last);
    reply.append(cstr!("value"), done.document.map_or(RawBson::Null, RawBson::Document));
    Ok(reply)
}
