//! `update`.

use std::borrow::Cow;

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_collections::UpdateRequest;
use treedb_query::doc::{Origin, with_current_timestamps};
use treedb_query::query::{Changes, ErrorCode};

use super::Result;
use super::find::hint;
use super::request::Request;
use super::writes::{append_count, check_statement, each_statement, not_many, origin, variables};
use crate::mongo::args::{Arg, args};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let variables = variables("update", request.body())?;
    let origin = origin(request)?;
    let tally = each_statement(request, "updates", &mut |_, statement, target| {
        let parsed = parse(statement, variables.clone(), origin)?;
        not_many(request, parsed.multi)?;
        target.update(parsed)
    })?;
    let mut reply = RawDocumentBuf::new();
    append_count(&mut reply, cstr!("n"), tally.found);
    append_count(&mut reply, cstr!("nModified"), tally.modified);
    if let Some(upserted) = tally.upserted {
        reply.append(cstr!("upserted"), upserted);
    }
    tally.errors.append_to(&mut reply);
    Ok(reply)
}

pub(super) fn parse(
    statement: &RawDocument,
    variables: Option<RawDocumentBuf>,
    origin: Origin,
) -> Result<UpdateRequest> {
    check_statement(statement)?;
    let (mut filter, mut update, mut multi, mut upsert, mut index_hint) = (None, None, false, false, None);
    let (mut array_filters, mut collation, mut sort) = (Vec::new(), None, None);
    for arg in args("update.updates", statement) {
        let arg = arg?;
        match arg.name {
            "q" => filter = Some(arg.document()?.to_owned()),
            "u" => {
                update = Some(changes(&arg, origin)?);
            }
            "multi" => multi = arg.bool()?,
            "upsert" => upsert = arg.bool()?,
            "hint" => index_hint = hint(&arg)?,
            "collation" => collation = arg.some_document()?,
            "arrayFilters" => array_filters = arg.documents()?,
            "sort" => sort = arg.some_document()?,
            "c" | "upsertSupplied" => arg.unsupported()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    let missing = |name: &str| CommandError::missing(&format!("update.updates.{name}"));
    let filter = filter.ok_or_else(|| missing("q"))?;
    let update = update.ok_or_else(|| missing("u"))?;
    let parsed = UpdateRequest {
        filter,
        update,
        array_filters,
        multi,
        upsert,
        hint: index_hint,
        collation,
        sort,
        variables,
    };
    refuse_many_replacements(&parsed)?;
    Ok(parsed)
}

/// Refuses to replace several documents by one.
pub(super) fn refuse_many_replacements(update: &UpdateRequest) -> Result<()> {
    let replaces = match &update.update {
        Changes::Document(update) => {
            update.iter().next().transpose()?.is_none_or(|(name, _)| !name.as_str().starts_with('$'))
        }
        Changes::Pipeline(_) => false,
    };
    if update.multi && replaces {
        return Err(CommandError::new(
            ErrorCode::FailedToParse,
            "multi update is not supported for replacement-style update",
        ));
    }
    Ok(())
}

/// The update in an argument: a document, or the stages of a pipeline.
pub(super) fn changes(arg: &Arg<'_>, origin: Origin) -> Result<Changes> {
    match arg.value() {
        RawBsonRef::Array(_) => Ok(Changes::Pipeline(arg.documents()?)),
        _ => {
            let update = arg.document()?;
            // Operators set what they are told.
            let replaces =
                update.iter().next().transpose()?.is_none_or(|(name, _)| !name.as_str().starts_with('$'));
            let update = match origin {
                Origin::Client if replaces => with_current_timestamps(update),
                _ => Cow::Borrowed(update),
            };
            Ok(Changes::Document(update.into_owned()))
        }
    }
}
