//! `listDatabases`. There are no sizes per database; the total is the size of the files.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::Filter;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut filter, mut names_only) = (None, false);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "filter" => filter = arg.some_document()?,
            "nameOnly" => names_only = arg.bool()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let filter = filter.map(|filter: RawDocumentBuf| Filter::parse(&filter)).transpose()?;
    let database = &request.context.database;
    let mut databases = RawArrayBuf::new();
    for name in database.list_databases()? {
        let entry = if names_only {
            rawdoc! { "name": name }
        } else {
            rawdoc! { "name": name, "sizeOnDisk": 0_i64, "empty": false }
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
