//! `listDatabases`: all of them for users who may list them, otherwise those that the user may read in. The size of a database is that of
//! the pages of its collections, and of the change log for `local`; the total is the size of the files, which hold the log, free pages and the change log too.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::Filter;

use super::Result;
use super::request::Request;
use crate::access::action::Action;
use crate::access::resource::Target;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut filter, mut names_only, mut authorized_only) = (None, false, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "filter" => filter = arg.some_document()?,
            "nameOnly" => names_only = arg.bool()?,
            "authorizedDatabases" => authorized_only = Some(arg.bool()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let filter = filter.map(|filter: RawDocumentBuf| Filter::parse(&filter)).transpose()?;
    let database = &request.context.database;
    let all = request.permits(Action::ListDatabases, Target::Cluster)? && authorized_only != Some(true);
    if !all && authorized_only == Some(false) {
        request.authorize(Action::ListDatabases, Target::Cluster)?;
    }
    let mut databases = RawArrayBuf::new();
    for name in request.databases()? {
        if !all && !request.may_see_database(&name)? {
            continue;
        }
        let entry = if names_only {
            rawdoc! { "name": name }
        } else {
            let mut bytes = 0;
            let collections = request.collections(&name)?;
            // A view has no pages.
            for found in collections.iter().filter(|found| !found.is_view()) {
                bytes += database.collection(found.namespace.as_str())?.disk_size()?;
            }
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            rawdoc! { "name": name, "sizeOnDisk": bytes, "empty": collections.is_empty() }
        };
        let wanted = filter.as_ref().map(|filter| filter.matches(&entry)).transpose()?;
        if wanted != Some(false) {
            databases.push(entry);
        }
    }
    if names_only {
        return Ok(rawdoc! { "databases": databases });
    }
    let bytes = super::server_status::disk_bytes(request)?;
    Ok(rawdoc! { "databases": databases, "totalSize": bytes, "totalSizeMb": bytes >> 20 })
}
