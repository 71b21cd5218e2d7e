//! Session commands. Clients generate session ids; the server only knows those of transactions and retryable writes, and of what runs and of
//! open cursors in which they are.

use bson::spec::BinarySubtype;
use bson::{Binary, RawArray, RawBsonRef, rawdoc};
use treedb_query::query::ErrorCode;

use super::Result;
use super::hello::SESSION_MINUTES;
use super::request::{Request, done};
use crate::access::identity::UserId;
use crate::access::user::QualifiedName;
use crate::mongo::args::args;
use crate::mongo::error::CommandError;
use crate::mongo::sessions::{SessionId, Which};
use crate::operations::Connection as _;

pub(super) fn start(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: bson::Uuid::new().bytes().to_vec() };
    Ok(rawdoc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES })
}

/// `endSessions`: open transactions of the sessions are aborted.
pub(super) fn end(request: &Request<'_>) -> Result {
    request.context.sessions.end(&own(request)?, &request.context.cursors);
    done()
}

/// `killSessions`: what the sessions run is stopped as well, and their cursors are closed.
pub(super) fn kill_own(request: &Request<'_>) -> Result {
    kill(request, &own(request)?)
}

/// The sessions of the user that the command's list has.
fn own(request: &Request<'_>) -> std::result::Result<Vec<Which>, CommandError> {
    let user = request.session.identity.owner();
    list(request)?.into_iter().map(|id| SessionId::read(id?, user.as_ref()).map(Which::One)).collect()
}

/// `killAllSessions: [{user, db}, ..]`: the sessions of these users, of all users if the list is empty.
pub(super) fn kill_all(request: &Request<'_>) -> Result {
    let (users, mut killed) = (list(request)?, Vec::new());
    for user in users {
        killed.extend(of_user(request, user?)?);
    }
    kill(request, all_if_empty(users, &killed))
}

/// `killAllSessionsByPattern: [{users: [..]}, {lsid: {id: UUID}}, ..]`, where `lsid` is an id as it is listed; `{}` is all.
pub(super) fn kill_by_pattern(request: &Request<'_>) -> Result {
    let (patterns, mut killed) = (list(request)?, Vec::new());
    for pattern in patterns {
        let pattern = pattern?;
        let pattern = pattern.as_document().ok_or_else(|| wrong_element(request, "patterns"))?;
        let mut is_empty = true;
        for arg in args(request.command.name, pattern) {
            let arg = arg?;
            match arg.name {
                "lsid" => killed.push(Which::One(SessionId::read(arg.value(), None)?)),
                "users" => {
                    for user in arg.array()? {
                        killed.extend(of_user(request, user?)?);
                    }
                }
                "roles" | "uid" => arg.unsupported()?,
                _ => arg.nested_ignored_or_unknown()?,
            }
            is_empty = false;
        }
        if is_empty {
            killed.push(Which::All);
        }
    }
    kill(request, all_if_empty(patterns, &killed))
}

/// The sessions that are meant by a list: all of them if it is empty.
fn all_if_empty<'w>(list: &RawArray, killed: &'w [Which]) -> &'w [Which] {
    if list.into_iter().next().is_none() { &[Which::All] } else { killed }
}

/// Ends sessions: their operations are stopped, but for this one, their transactions aborted and their cursors closed. The operations come
/// first, so that a transaction that one of them runs in is aborted by its error.
fn kill(request: &Request<'_>, killed: &[Which]) -> Result {
    let context = request.context;
    context.operations.kill_of_sessions(killed, request.session.number());
    context.sessions.end(killed, &context.cursors);
    context.cursors.kill_of_sessions(killed);
    done()
}

/// The sessions of a user `{user, db}`; `None` if there is no such user.
fn of_user(request: &Request<'_>, user: RawBsonRef<'_>) -> Result<Option<Which>> {
    let user = user.as_document().ok_or_else(|| wrong_element(request, "users"))?;
    let (mut name, mut database) = (None, None);
    for arg in args(request.command.name, user) {
        let arg = arg?;
        match arg.name {
            "user" => name = Some(arg.str()?),
            "db" => database = Some(arg.str()?),
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    let missing = |field| CommandError::missing(&format!("{}.{field}", request.command.name));
    let name = name.ok_or_else(|| missing("user"))?;
    let database = database.ok_or_else(|| missing("db"))?;
    let user = request.context.access.store.user(&QualifiedName::new(database, name))?;
    Ok(user.and_then(|user| UserId::try_from(user.id.bytes).ok()).map(Which::Of))
}

fn wrong_element(request: &Request<'_>, of: &str) -> CommandError {
    let name = request.command.name;
    CommandError::new(ErrorCode::TypeMismatch, format!("BSON field '{name}.{name}' must be an array of {of}"))
}

pub(super) fn refresh(request: &Request<'_>) -> Result {
    list(request)?;
    done()
}

/// The array that the command's own field holds.
fn list<'a>(request: &Request<'a>) -> std::result::Result<&'a RawArray, CommandError> {
    request.refuse_options()?;
    request.subject()?.as_array().ok_or_else(|| {
        let name = request.command.name;
        CommandError::new(ErrorCode::TypeMismatch, format!("BSON field '{name}.{name}' must be an array"))
    })
}
