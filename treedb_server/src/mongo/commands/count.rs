//! `count`.

use bson::RawDocumentBuf;
use bson::raw::cstr;
use treedb_collections::FindRequest;

use super::Result;
use super::find::hint;
use super::request::Request;
use super::writes::append_count;

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let mut find = FindRequest::default();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "query" => find.filter = arg.some_document()?,
            "skip" => find.skip = arg.count()?,
            // A negative limit means the same here, as in MongoDB.
            "limit" => find.limit = arg.integer()?.unsigned_abs(),
            "hint" => find.hint = hint(&arg)?,
            "collation" => find.collation = arg.some_document()?,
            "fields" => {}
            _ => arg.generic()?,
        }
    }
    let mut reply = RawDocumentBuf::new();
    append_count(&mut reply, cstr!("n"), collection.count(find)?);
    Ok(reply)
}
