//! `dropDatabase`.

use bson::rawdoc;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut durability = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let needed_for = match request.database {
        "admin" => Some("the server itself"),
        "config" => Some("retryable writes and transactions"),
        "local" if request.context.database.change_log()?.is_some() => Some("the change log"),
        _ => None,
    };
    if let Some(what) = needed_for {
        return Err(CommandError::new(
            ErrorCode::IllegalOperation,
            format!("Dropping the '{}' database is prohibited: it is for {what}.", request.database),
        ));
    }
    let dropped = request.context.database.drop_database(request.database)?;
    if dropped == 0 {
        return done();
    }
    request.context.operations.forget(request.database, None);
    flush_catalog_change(request, durability)?;
    tracing::info!(database = request.database, collections = dropped, "database dropped");
    Ok(rawdoc! { "dropped": request.database })
}
