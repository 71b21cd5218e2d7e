//! `buildInfo`: tools use `version` to decide which features they can use; `treedb` is this server's own version.

use bson::rawdoc;
use treedb_query::doc::MAX_DOCUMENT_SIZE;

use super::Result;
use super::hello::size;
use super::request::Request;

/// The version of MongoDB whose commands and replies are followed.
pub(super) const MONGODB_VERSION: &str = "8.0.0";

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    Ok(rawdoc! {
        "version": MONGODB_VERSION,
        "gitVersion": concat!("treedb-", env!("CARGO_PKG_VERSION")),
        "modules": [],
        "sysInfo": "deprecated",
        "versionArray": [8, 0, 0, 0],
        "bits": 64,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": size(MAX_DOCUMENT_SIZE),
        "storageEngines": ["treedb"],
        "treedb": { "version": env!("CARGO_PKG_VERSION") },
    })
}
