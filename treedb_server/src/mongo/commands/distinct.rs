//! `distinct`: the distinct values of a field among the documents that match.

use bson::rawdoc;
use treedb_collections::FindRequest;

use super::Result;
use super::find::hint;
use super::request::Request;
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;
use crate::mongo::read_concern::ReadAt;

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let (mut find, path) = parse(request.args())?;
    if let Some(mut open) = request.transaction() {
        let values = open.txn.collection(collection.namespace().as_str())?.distinct(path, &find)?;
        return Ok(rawdoc! { "values": values });
    }
    find.as_of = request.at.map(|at| at.moment);
    ReadAt::append_to_reply(request.at, rawdoc! { "values": collection.distinct(path, find)? })
}

/// Reads the arguments of a `distinct`: which documents, and the path of the field.
pub(super) fn parse<'a>(args: impl Iterator<Item = Result<Arg<'a>>>) -> Result<(FindRequest, &'a str)> {
    let (mut find, mut path) = (FindRequest::default(), None);
    for arg in args {
        let arg = arg?;
        match arg.name {
            "key" => path = Some(arg.str()?),
            "query" => find.filter = arg.some_document()?,
            "hint" => find.hint = hint(&arg)?,
            "collation" => find.collation = arg.some_document()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok((find, path.ok_or_else(|| CommandError::missing("distinct.key"))?))
}
