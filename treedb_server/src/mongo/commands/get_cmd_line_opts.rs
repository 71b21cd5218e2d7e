//! `getCmdLineOpts`: shells request it and accept an empty answer; the command line is not disclosed.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    Ok(rawdoc! { "argv": ["treedb"], "parsed": {} })
}
