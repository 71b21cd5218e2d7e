//! `connectionStatus`: there is no authentication, so nobody is logged in.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(_request: &Request<'_>) -> Result {
    Ok(
        rawdoc! { "authInfo": { "authenticatedUsers": [], "authenticatedUserRoles": [], "authenticatedUserPrivileges": [] } },
    )
}
