//! `connectionStatus`: there is no authentication, so no user is ever authenticated.

use bson::raw::cstr;
use bson::{RawArrayBuf, rawdoc};

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut show_privileges = false;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "showPrivileges" => show_privileges = arg.bool()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let mut info = rawdoc! { "authenticatedUsers": [], "authenticatedUserRoles": [] };
    if show_privileges {
        info.append(cstr!("authenticatedUserPrivileges"), RawArrayBuf::new());
    }
    Ok(rawdoc! { "authInfo": info })
}
