//! `dropDatabase`.

use bson::rawdoc;

use super::Result;
use super::request::{Request, done};
use super::writes::{flush_catalog_change, write_concern};

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut durability = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "writeConcern" => durability = write_concern(arg.document()?)?,
            _ => arg.ignored_or_unknown()?,
        }
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
