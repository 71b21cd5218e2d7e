//! Sessions: ids that clients make up and send along. A cursor may outlive its session and there are no transactions,
//! so the server keeps nothing about them.

use bson::spec::BinarySubtype;
use bson::{Binary, rawdoc};

use super::Result;
use super::hello::SESSION_MINUTES;
use super::request::{Request, done};
use crate::mongo::error::CommandError;
use treedb_core::query::ErrorCode;

pub(super) fn start(_request: &Request<'_>) -> Result {
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: bson::Uuid::new().bytes().to_vec() };
    Ok(rawdoc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES })
}

pub(super) fn end(request: &Request<'_>) -> Result {
    accept(request)
}

pub(super) fn refresh(request: &Request<'_>) -> Result {
    accept(request)
}

fn accept(request: &Request<'_>) -> Result {
    if request.subject()?.as_array().is_none() {
        let name = request.command.name;
        return Err(CommandError::new(
            ErrorCode::TypeMismatch,
            format!("BSON field '{name}.{name}' must be an array of session ids"),
        ));
    }
    done()
}
