//! `connPoolStats`: the connections of the server to others, of which there are none.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    Ok(rawdoc! {
        "numClientConnections": 0,
        "numAScopedConnections": 0,
        "totalInUse": 0,
        "totalAvailable": 0,
        "totalLeased": 0,
        "totalCreated": 0,
        "totalRefreshing": 0,
        "totalRefreshed": 0,
        "pools": {},
        "hosts": {},
        "replicaSets": {},
    })
}
