//! `dropDatabase`.

use bson::rawdoc;

use super::Result;
use super::request::{Request, done};

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        arg?.generic()?;
    }
    let dropped = request.context.database.drop_database(request.database)?;
    if dropped == 0 {
        return done();
    }
    tracing::info!(database = request.database, collections = dropped, "database dropped");
    Ok(rawdoc! { "dropped": request.database })
}
