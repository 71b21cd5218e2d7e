//! `update`: each statement is one transaction; the command waits for the disk once, behind the last.

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_core::query::{Changes, ErrorCode};
use treedb_core::{Collection, UpdateRequest};

use super::Result;
use super::find::hint;
use super::request::Request;
use super::writes::{append_count, check_statement, each_statement};
use crate::mongo::args::{Arg, args};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut matched, mut modified) = (0, 0);
    let mut upserted = RawArrayBuf::new();
    let mut any_upserted = false;
    let errors = each_statement(request, "updates", |index, statement, collection| {
        let outcome = collection.update(parse(collection, statement)?)?;
        matched += outcome.matched;
        modified += outcome.modified;
        let wrote = outcome.modified > 0 || outcome.upserted.is_some();
        if let Some(id) = outcome.upserted {
            matched += 1;
            any_upserted = true;
            let mut entry = RawDocumentBuf::new();
            entry.append(cstr!("index"), i32::try_from(index).unwrap_or(i32::MAX));
            entry.append(cstr!("_id"), RawBson::try_from(id)?);
            upserted.push(entry);
        }
        Ok(wrote)
    })?;
    let mut reply = RawDocumentBuf::new();
    append_count(&mut reply, cstr!("n"), matched);
    append_count(&mut reply, cstr!("nModified"), modified);
    if any_upserted {
        reply.append(cstr!("upserted"), upserted);
    }
    errors.append_to(&mut reply);
    Ok(reply)
}

fn parse(collection: &Collection, statement: &RawDocument) -> Result<UpdateRequest> {
    check_statement(statement)?;
    let (mut filter, mut update, mut multi, mut upsert, mut by) = (None, None, false, false, None);
    let (mut array_filters, mut collation) = (Vec::new(), None);
    for arg in args("update.updates", statement) {
        let arg = arg?;
        match arg.name {
            "q" => filter = Some(arg.document()?.to_owned()),
            "u" => {
                update = Some(changes(&arg)?);
            }
            "multi" => multi = arg.bool()?,
            "upsert" => upsert = arg.bool()?,
            "hint" => by = hint(collection, &arg)?,
            "collation" => collation = arg.some_document()?,
            "arrayFilters" => array_filters = arg.documents()?,
            "c" | "sort" | "upsertSupplied" => arg.unsupported()?,
            _ => arg.generic()?,
        }
    }
    let missing = |name: &str| {
        CommandError::location(
            40_414,
            format!("BSON field 'update.updates.{name}' is missing but a required field"),
        )
    };
    let filter = filter.ok_or_else(|| missing("q"))?;
    let update = update.ok_or_else(|| missing("u"))?;
    let replaces = match &update {
        Changes::Document(update) => {
            update.iter().next().transpose()?.is_none_or(|(name, _)| !name.as_str().starts_with('$'))
        }
        Changes::Pipeline(_) => false,
    };
    if multi && replaces {
        return Err(CommandError::new(
            ErrorCode::FailedToParse,
            "multi update is not supported for replacement-style update",
        ));
    }
    Ok(UpdateRequest { filter, update, array_filters, multi, upsert, hint: by, collation })
}

/// The update an argument asks for: a document, or the stages of a pipeline.
pub(super) fn changes(arg: &Arg<'_>) -> Result<Changes> {
    match arg.value() {
        RawBsonRef::Array(_) => Ok(Changes::Pipeline(arg.documents()?)),
        _ => Ok(Changes::Document(arg.document()?.to_owned())),
    }
}
