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
use crate::mongo::sessions::{ClientSession, SessionId, Which};
use crate::operations::Connection as _;

pub(super) fn start(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: bson::Uuid::new().bytes().to_vec() };
    Ok(rawdoc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES })
}

/// `endSessions`: open transactions of the sessions are aborted, and their cursors closed.
pub(super) fn end(request: &Request<'_>) -> Result {
    let (ended, context) = (own(request)?, request.context);
    context.sessions.end(&ended, &context.cursors);
    context.cursors.kill_of_sessions(&ended);
    done()
}

/// `killSessions`: what the sessions run is stopped as well, and their cursors are closed. An empty list means all of the user's, and
/// without authentication all.
pub(super) fn kill_own(request: &Request<'_>) -> Result {
    let all_own = || request.session.identity.owner().map_or_else(Which::all, Which::of);
    let killed = if is_empty(list(request)?) { all_own() } else { own(request)? };
    kill(request, &killed)
}

/// The sessions of the user that the command's list has; none of a client that has yet to authenticate.
fn own(request: &Request<'_>) -> std::result::Result<Which, CommandError> {
    let identity = &request.session.identity;
    let (has_sessions, user) = (request.context.access.trusts(identity), identity.owner());
    let mut own = Which::default();
    for id in list(request)? {
        let session = ClientSession::read(id?)?;
        if has_sessions {
            own.add_own(session, user);
        }
    }
    Ok(own)
}

/// `killAllSessions: [{user, db}, ..]`: the sessions of these users, of all users if the list is empty.
pub(super) fn kill_all(request: &Request<'_>) -> Result {
    let users = list(request)?;
    let mut killed = Which::default();
    for user in users {
        add_user(&mut killed, request, user?)?;
    }
    if is_empty(users) {
        killed.add_all();
    }
    kill(request, &killed)
}

/// `killAllSessionsByPattern: [{users: [..]}, {lsid: {id: UUID}}, ..]`, where `lsid` is an id as it is listed; `{}` is all.
pub(super) fn kill_by_pattern(request: &Request<'_>) -> Result {
    let patterns = list(request)?;
    let mut killed = Which::default();
    for pattern in patterns {
        let pattern = pattern?;
        let pattern = pattern.as_document().ok_or_else(|| wrong_element(request, "patterns"))?;
        let mut is_any = true;
        for arg in args(request.command.name, pattern) {
            let arg = arg?;
            match arg.name {
                "lsid" => killed.add(SessionId::read(arg.value(), None)?),
                "users" => {
                    for user in arg.array()? {
                        add_user(&mut killed, request, user?)?;
                    }
                }
                "roles" | "uid" => arg.unsupported()?,
                _ => arg.nested_ignored_or_unknown()?,
            }
            is_any = false;
        }
        if is_any {
            killed.add_all();
        }
    }
    if is_empty(patterns) {
        killed.add_all();
    }
    kill(request, &killed)
}

fn is_empty(list: &RawArray) -> bool {
    list.into_iter().next().is_none()
}

/// Ends sessions: their operations are stopped, but for this one, their transactions aborted and their cursors closed. The operations come
/// first, so that a transaction that one of them runs in is aborted by its error.
fn kill(request: &Request<'_>, killed: &Which) -> Result {
    let context = request.context;
    context.operations.kill_of_sessions(killed, request.session.number());
    context.sessions.end(killed, &context.cursors);
    context.cursors.kill_of_sessions(killed);
    done()
}

/// Adds the sessions of a user `{user, db}`, if there is such a user.
fn add_user(killed: &mut Which, request: &Request<'_>, user: RawBsonRef<'_>) -> Result<()> {
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
    if let Some(id) = user.and_then(|user| UserId::try_from(user.id.bytes).ok()) {
        killed.add_user(id);
    }
    Ok(())
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
