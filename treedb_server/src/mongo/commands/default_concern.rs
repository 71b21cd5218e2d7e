//! `getDefaultRWConcern`: the concerns of commands that name none. They follow from the settings of the server, and cannot be changed.

use bson::{DateTime, RawDocumentBuf, rawdoc};
use treedb_storage::Durability;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;
use crate::mongo::topology::Topology;

pub(super) fn run(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "inMemory" => {
                arg.bool()?;
            }
            _ => arg.ignored_or_unknown()?,
        }
    }
    let context = request.context;
    if matches!(context.topology, Topology::Standalone) {
        return Err(CommandError::new(
            ProtocolCode::Location51300,
            "'getDefaultRWConcern' is not supported on standalone nodes.",
        ));
    }
    let write: RawDocumentBuf = match context.durability {
        Durability::Durable => rawdoc! { "w": "majority", "wtimeout": 0 },
        _ => rawdoc! { "w": 1, "wtimeout": 0 },
    };
    Ok(rawdoc! {
        "defaultReadConcern": { "level": "local" },
        "defaultWriteConcern": write,
        "defaultReadConcernSource": "implicit",
        "defaultWriteConcernSource": "implicit",
        "localUpdateWallClockTime": DateTime::now(),
    })
}
