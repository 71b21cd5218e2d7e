//! `count`.

use bson::RawDocumentBuf;
use bson::raw::cstr;
use treedb_collections::FindRequest;

use super::Result;
use super::find::hint;
use super::request::Request;
use super::writes::append_count;
use crate::mongo::args::Arg;
use crate::mongo::read_concern::ReadAt;

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let mut find = parse(request.args())?;
    find.as_of = request.at.map(|at| at.moment);
    let found = match collection.namespace().is_oplog() {
        true => {
            let mut entries = collection.database().oplog(&find, false)?;
            entries.try_fold(0, |count, entry| entry.map(|_| count + 1))?
        }
        false => collection.count(find)?,
    };
    let mut reply = RawDocumentBuf::new();
    append_count(&mut reply, cstr!("n"), found);
    ReadAt::append_to_reply(request.at, reply)
}

/// Reads the arguments of a `count`.
pub(super) fn parse<'a>(args: impl Iterator<Item = Result<Arg<'a>>>) -> Result<FindRequest> {
    let mut find = FindRequest::default();
    for arg in args {
        let arg = arg?;
        match arg.name {
            "query" => find.filter = arg.some_document()?,
            "skip" => find.skip = arg.count()?,
            // A negative limit means the same here, as in MongoDB.
            "limit" => find.limit = arg.integer()?.unsigned_abs(),
            "hint" => find.hint = hint(&arg)?,
            "collation" => find.collation = arg.some_document()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok(find)
}
