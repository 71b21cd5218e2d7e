//! Read concerns outside of transactions. Every read sees one snapshot of committed writes, so that all levels are the same,
//! except that `snapshot` also has a time, at which several commands can read the same snapshot.

use bson::raw::cstr;
use bson::{RawBsonRef, RawDocumentBuf, Timestamp};
use treedb_collections::{AsOf, Database};
use treedb_query::query::ErrorCode;

use super::args::{Arg, args};
use super::common_fields::CommonFields;
use super::error::CommandError;

type Result<T> = std::result::Result<T, CommandError>;

/// The commands that can read at a time. MongoDB's `count` cannot.
const AT_A_TIME: &[&str] = &["aggregate", "count", "distinct", "find"];

/// The commands that read, to which a level may be given. Others take `local`, which is what they do without one.
const WITH_A_LEVEL: &[&str] = &["aggregate", "count", "distinct", "explain", "find"];

/// The time that a command reads at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ReadAt {
    /// For the engine.
    pub(crate) moment: AsOf,
    /// For the client.
    time: Timestamp,
}

/// The time that a command reads at; `None` for the present. For the level `snapshot` without a time it is the current time,
/// if changes are recorded.
///
/// # Errors
/// `InvalidOptions` for a time without the level `snapshot`, for that level where `name` is not one of [`AT_A_TIME`], and for another but
/// `local` where it does not read;
/// `SnapshotUnavailable` for a time that there has not been.
pub(crate) fn read_at(database: &Database, name: &str, fields: &CommonFields<'_>) -> Result<Option<ReadAt>> {
    // A cursor continues in its own snapshot, even if the command repeats a read concern.
    if matches!(name, "getMore" | "killCursors") {
        return Ok(None);
    }
    let Some(concern) = fields.read_concern else { return Ok(None) };
    let concern = Arg::new(name, "readConcern", concern).document()?;
    for arg in args("readConcern", concern) {
        let arg = arg?;
        match arg.name {
            "atClusterTime" => {}
            "level" => match arg.str()? {
                "local" | "snapshot" => {}
                "available" | "linearizable" | "majority" if WITH_A_LEVEL.contains(&name) => {}
                level @ ("available" | "linearizable" | "majority") => {
                    return Err(CommandError::new(
                        ErrorCode::InvalidOptions,
                        format!(
                            "Command {name} does not support {{ readConcern: {{ level: \"{level}\" }} }}"
                        ),
                    ));
                }
                other => {
                    return Err(CommandError::new(
                        ErrorCode::BadValue,
                        format!(
                            "Enumeration value '{other}' for field 'readConcern.level' is not a valid value."
                        ),
                    ));
                }
            },
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    let snapshot = concern.get("level")?.and_then(|level| level.as_str()) == Some("snapshot");
    let time = match concern.get("atClusterTime")? {
        None => None,
        Some(RawBsonRef::Timestamp(time)) => Some(time),
        Some(_) => {
            return Err(CommandError::new(
                ErrorCode::TypeMismatch,
                "BSON field 'readConcern.atClusterTime' is the wrong type: it must be a timestamp",
            ));
        }
    };
    let invalid = |message: String| Err(CommandError::new(ErrorCode::InvalidOptions, message));
    match (snapshot, time) {
        (false, None) => return Ok(None),
        (false, Some(_)) => {
            return invalid("atClusterTime field can be set only if level is equal to snapshot".to_owned());
        }
        (true, _) => {}
    }
    if !AT_A_TIME.contains(&name) {
        return invalid(format!(
            "Command {name} does not support {{ readConcern: {{ level: \"snapshot\" }} }} outside of a transaction: {} do",
            AT_A_TIME.join(", ")
        ));
    }
    let requested = match time {
        Some(time) => time,
        None => match database.operation_time()? {
            Some(now) => now,
            None => return Ok(None),
        },
    };
    Ok(Some(ReadAt { moment: database.at_operation_time(requested)?, time: requested }))
}

impl ReadAt {
    /// Adds the time to a reply, for the reads to come: to its cursor, if it has one.
    pub(crate) fn append_to_reply(at: Option<ReadAt>, reply: RawDocumentBuf) -> Result<RawDocumentBuf> {
        let Some(ReadAt { time, .. }) = at else { return Ok(reply) };
        let Some(cursor) = reply.get("cursor")?.and_then(|cursor| cursor.as_document()) else {
            let mut reply = reply;
            reply.append(cstr!("atClusterTime"), time);
            return Ok(reply);
        };
        let mut with_time = cursor.to_owned();
        with_time.append(cstr!("atClusterTime"), time);
        let mut whole = RawDocumentBuf::new();
        for field in &reply {
            match field? {
                (name, _) if name.as_str() == "cursor" => whole.append(name, with_time.as_ref()),
                (name, value) => whole.append(name, value),
            }
        }
        Ok(whole)
    }
}
