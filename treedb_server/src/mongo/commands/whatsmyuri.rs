//! `whatsmyuri`: the client's address as the server sees it.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    Ok(rawdoc! { "you": request.session.identity.peer().to_string() })
}
