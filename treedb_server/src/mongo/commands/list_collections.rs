//! `listCollections`.

use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, RawDocumentBuf, rawdoc};
use treedb_query::query::Filter;

use super::Result;
use super::request::Request;
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::cursors::{Cursor, Deadline};

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut filter, mut names_only, mut batch) = (None, false, usize::MAX);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "filter" => filter = arg.some_document()?,
            "nameOnly" => names_only = arg.bool()?,
            // Who may not list all of them gets no others; who may gets all.
            "authorizedCollections" => {
                arg.bool()?;
            }
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let filter = filter.map(|filter: RawDocumentBuf| Filter::parse(&filter)).transpose()?;
    let mut entries = Vec::new();
    let all = request.permits(Action::ListCollections, Target::Database(request.database))?;
    for found in request.collections(request.database)? {
        let collection = Target::Collection(request.database, found.namespace.collection());
        if !(all || request.permits(Action::Find, collection)?) {
            continue;
        }
        let kind = match found.is_view() {
            true => "view",
            false if found.options.contains_key("timeseries") => "timeseries",
            false => "collection",
        };
        let mut entry = rawdoc! { "name": found.namespace.collection(), "type": kind };
        if !names_only {
            entry.append(cstr!("options"), RawDocumentBuf::try_from(&found.options)?);
            match found.uuid {
                Some(uuid) => {
                    let uuid = Binary { subtype: BinarySubtype::Uuid, bytes: uuid.bytes().to_vec() };
                    entry.append(cstr!("info"), rawdoc! { "readOnly": false, "uuid": uuid });
                    entry.append(cstr!("idIndex"), rawdoc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" });
                }
                None => entry.append(cstr!("info"), rawdoc! { "readOnly": true }),
            }
        }
        let wanted = filter.as_ref().map(|filter| filter.matches(&entry)).transpose()?;
        if wanted != Some(false) {
            entries.push(Ok(entry));
        }
    }
    let namespace = format!("{}.$cmd.listCollections", request.database);
    request.context.cursors.first(
        request,
        Cursor::new(namespace, Box::new(entries.into_iter())),
        batch,
        false,
        Deadline::NEVER,
    )
}

/// The `batchSize` of a `cursor` argument.
pub(super) fn batch_size(cursor: &bson::RawDocument, default: usize) -> Result<usize> {
    let mut batch = default;
    for arg in crate::mongo::args::args("cursor", cursor) {
        let arg = arg?;
        match arg.name {
            "batchSize" => batch = usize::try_from(arg.count()?).unwrap_or(usize::MAX),
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    Ok(batch)
}
