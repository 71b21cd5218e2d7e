//! Session commands. Clients generate session ids; the server only knows those of transactions and retryable writes.

use bson::spec::BinarySubtype;
use bson::{Binary, RawArray, rawdoc};

use super::Result;
use super::hello::SESSION_MINUTES;
use super::request::{Request, done};
use crate::mongo::error::CommandError;
use crate::mongo::sessions::SessionId;
use treedb_query::query::ErrorCode;

pub(super) fn start(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: bson::Uuid::new().bytes().to_vec() };
    Ok(rawdoc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES })
}

/// `endSessions` and `killSessions`: open transactions of the sessions are aborted.
pub(super) fn end(request: &Request<'_>) -> Result {
    let user = request.session.identity.owner();
    let ids: std::result::Result<Vec<_>, _> =
        list(request)?.into_iter().map(|id| SessionId::read(id?, user.as_ref())).collect();
    request.context.sessions.end(Some(&ids?), &request.context.cursors);
    done()
}

/// `killAllSessions: []`.
pub(super) fn kill_all(request: &Request<'_>) -> Result {
    if list(request)?.into_iter().next().is_some() {
        return Err(CommandError::not_implemented(
            "killAllSessions of some users only is not supported: leave the array empty",
        ));
    }
    request.context.sessions.end(None, &request.context.cursors);
    done()
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
        CommandError::new(
            ErrorCode::TypeMismatch,
            format!("BSON field '{name}.{name}' must be an array of session ids"),
        )
    })
}
