//! `configureFailPoint`: failures on request, see [`crate::mongo::fail_points`].

use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::fail_points;

pub(super) fn run(request: &Request<'_>) -> Result {
    let Some(fail_points) = &request.context.fail_points else {
        return Err(CommandError::new(
            ErrorCode::CommandNotFound,
            "no such command: 'configureFailPoint': start the server with --enable-test-commands",
        ));
    };
    let (mut mode, mut data) = (None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "mode" => mode = Some(arg.value()),
            "data" => data = Some(arg.document()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let mode = mode.ok_or_else(|| CommandError::missing("configureFailPoint.mode"))?;
    Ok(fail_points::reply(fail_points.configure(request.subject_name()?, mode, data)?))
}
