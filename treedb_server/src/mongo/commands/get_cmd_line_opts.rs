//! `getCmdLineOpts`: shells request it and accept an empty answer; the command line is not disclosed, but for test commands, by which the
//! drivers' own tests decide what to run.

use bson::{RawDocumentBuf, rawdoc};

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let parsed = match request.context.fail_points {
        Some(_) => rawdoc! { "setParameter": { "enableTestCommands": "1" } },
        None => RawDocumentBuf::new(),
    };
    Ok(rawdoc! { "argv": ["treedb"], "parsed": parsed })
}
