//! `getCmdLineOpts`: nothing about the command line is told; shells ask for it and take an empty answer.

use bson::rawdoc;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    Ok(rawdoc! { "argv": ["treedb"], "parsed": {} })
}
