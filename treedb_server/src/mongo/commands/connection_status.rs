//! `connectionStatus`: who has authenticated.

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};

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
    let login = request.session.identity.login(&request.context.access)?;
    let (mut users, mut roles, mut privileges) = (RawArrayBuf::new(), RawArrayBuf::new(), RawArrayBuf::new());
    if let Some(login) = login {
        users.push(rawdoc! { "user": login.user.name.as_str(), "db": login.user.database.as_str() });
        for role in &login.roles {
            roles.push(rawdoc! { "role": role.name.as_str(), "db": role.database.as_str() });
        }
        for privilege in &login.privileges {
            privileges.push(RawDocumentBuf::try_from(&privilege.document())?);
        }
    }
    let mut info = RawDocumentBuf::new();
    info.append(cstr!("authenticatedUsers"), users);
    info.append(cstr!("authenticatedUserRoles"), roles);
    if show_privileges {
        info.append(cstr!("authenticatedUserPrivileges"), privileges);
    }
    Ok(rawdoc! { "authInfo": info })
}
