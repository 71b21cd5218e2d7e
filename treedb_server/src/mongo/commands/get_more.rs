//! `getMore`: the next batch of a cursor.

use std::time::Duration;

use treedb_collections::Namespace;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;

/// Default time that a change stream waits for an event.
const DEFAULT_AWAIT: Duration = Duration::from_secs(1);
/// Maximal time that it waits; then the client asks again.
const MAX_AWAIT: Duration = Duration::from_secs(5);

pub(super) fn run(request: &Request<'_>) -> Result {
    let id = cursor_id(request)?;
    let (mut collection, mut batch, mut wait) = (None, None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "collection" => collection = Some(arg.str()?),
            "batchSize" => batch = Some(usize::try_from(arg.count()?).unwrap_or(usize::MAX)),
            "maxTimeMS" => wait = Some(Duration::from_millis(arg.count()?).min(MAX_AWAIT)),
            "term" | "lastKnownCommittedOpTime" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = collection.ok_or_else(|| CommandError::missing("getMore.collection"))?;
    let namespace = cursor_namespace(request.database, collection)?;
    let (open, cursors) = (request.transaction(), &request.context.cursors);
    if wait.is_some() && cursors.awaits_data(id) == Some(false) {
        return Err(CommandError::new(
            ErrorCode::BadValue,
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    let wait = wait.unwrap_or(DEFAULT_AWAIT);
    cursors.next(&request.session.identity, id, &namespace, batch, wait, open.as_deref())
}

/// The cursor that it is about.
pub(super) fn cursor_id(request: &Request<'_>) -> Result<i64> {
    request.subject()?.as_i64().ok_or_else(|| {
        CommandError::new(
            ErrorCode::TypeMismatch,
            "BSON field 'getMore.getMore' is the wrong type, expected type 'long'",
        )
    })
}

/// The namespace of a cursor. Cursors of listings have names that no collection can have.
pub(super) fn cursor_namespace(database: &str, collection: &str) -> Result<String> {
    if collection.starts_with("$cmd.") {
        return Ok(format!("{database}.{collection}"));
    }
    Ok(Namespace::new(database, collection)?.to_string())
}
