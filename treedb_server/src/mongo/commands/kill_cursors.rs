//! `killCursors`: closes cursors and reports which of them existed.

use bson::{RawArrayBuf, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::get_more::cursor_namespace;
use super::request::Request;
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let namespace = cursor_namespace(request.database, request.collection_name()?)?;
    let mut cursors = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "cursors" => cursors = Some(arg.array()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let cursors = cursors.ok_or_else(|| CommandError::missing("killCursors.cursors"))?;
    let (mut killed, mut missing) = (RawArrayBuf::new(), RawArrayBuf::new());
    for id in cursors {
        let id = id?.as_i64().ok_or_else(|| {
            CommandError::new(ErrorCode::TypeMismatch, "BSON field 'killCursors.cursors' must hold longs")
        })?;
        if request.context.cursors.is_of_another(&request.session.identity, id) {
            request.authorize(Action::KillAnyCursor, Target::Cluster)?;
        }
        if request.context.cursors.kill(id, &namespace) {
            killed.push(id);
        } else {
            missing.push(id);
        }
    }
    Ok(rawdoc! {
        "cursorsKilled": killed,
        "cursorsNotFound": missing,
        "cursorsAlive": [],
        "cursorsUnknown": [],
    })
}
