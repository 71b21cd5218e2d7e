//! `killOp`: tells an operation to stop. It does so with `Interrupted` where it next asks: between rows, keys, documents of a pipeline
//! and parts of an index build.

use bson::rawdoc;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::error::CommandError;
use crate::mongo::protocol_code::ProtocolCode;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut op = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "op" => op = Some(arg.integer()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let op = op.ok_or_else(|| CommandError::new(ProtocolCode::NoSuchKey, "Did not provide \"op\" field"))?;
    let op = i32::try_from(op).map_err(|_| {
        CommandError::new(
            ProtocolCode::Location26823,
            format!("invalid op : {op}. Op ID cannot be represented with 32 bits"),
        )
    })?;
    let may_kill_any = request.permits(Action::Killop, Target::Cluster)?;
    let runs = request.context.operations.who_runs(op);
    match runs.filter(|session| may_kill_any || session.identity().user() == request.session.identity.user())
    {
        Some(session) => session.slots().kill(op),
        None if may_kill_any => {}
        None => {
            return Err(CommandError::new(ErrorCode::Unauthorized, "Unauthorized"));
        }
    }
    Ok(rawdoc! { "info": "attempting to kill op" })
}
