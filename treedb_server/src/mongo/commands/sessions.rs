//! Session commands. Clients generate session ids; the server only knows those of transactions and retryable writes.

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

pub(super) fn start(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: bson::Uuid::new().bytes().to_vec() };
    Ok(rawdoc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES })
}

/// `endSessions` and `killSessions`: open transactions of the sessions are aborted.
pub(super) fn end(request: &Request<'_>) -> Result {
    let user = request.session.identity.owner();
    let ended: std::result::Result<Vec<_>, _> =
        list(request)?.into_iter().map(|id| SessionId::read(id?, user.as_ref()).map(Which::One)).collect();
    request.context.sessions.end(&ended?, &request.context.cursors);
    done()
}

/// `killAllSessions: [{user, db}, ..]`: the sessions of these users, of all users if the list is empty.
pub(super) fn kill_all(request: &Request<'_>) -> Result {
    let (users, mut killed) = (list(request)?, Vec::new());
    for user in users {
        killed.extend(of_user(request, user?)?);
    }
    kill(request, users, &killed)
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
    kill(request, patterns, &killed)
}

/// Ends the sessions that are meant by a list: all of them if it is empty.
fn kill(request: &Request<'_>, list: &RawArray, killed: &[Which]) -> Result {
    let killed: &[Which] = if list.into_iter().next().is_none() { &[Which::All] } else { killed };
    request.context.sessions.end(killed, &request.context.cursors);
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
