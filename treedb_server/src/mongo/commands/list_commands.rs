//! `listCommands`: the command table.

use bson::raw::CString;
use bson::{RawDocumentBuf, rawdoc};

use super::request::Request;
use super::{COMMANDS, Result};

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let mut commands = RawDocumentBuf::new();
    let listed = |name| name != "configureFailPoint" || request.context.fail_points.is_some();
    for command in COMMANDS.iter().filter(|command| listed(command.name)) {
        let about = rawdoc! {
            "help": command.help,
            "requiresAuth": false,
            "secondaryOk": true,
            "adminOnly": command.admin,
            "apiVersions": [],
        };
        commands.append(CString::try_from(command.name)?, about);
    }
    Ok(rawdoc! { "commands": commands })
}
