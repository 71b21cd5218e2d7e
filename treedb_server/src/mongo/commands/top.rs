//! `top`: how many operations of each kind each collection has had since the server started, and how long they took.

use bson::raw::CString;
use bson::{RawDocumentBuf, rawdoc};

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    request.refuse_options()?;
    let mut totals = RawDocumentBuf::new();
    totals.append(bson::raw::cstr!("note"), "all times in microseconds");
    for (name, usage) in request.context.operations.top() {
        totals.append(CString::try_from(name)?, usage);
    }
    Ok(rawdoc! { "totals": totals })
}
