//! `currentOp`: the indexes that are being built, with their progress. Fields that are no options are a filter.

use bson::raw::CString;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::Filter;

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut filter = RawDocumentBuf::new();
    for arg in request.args() {
        let arg = arg?;
        if arg.ignored_or_unknown().is_err() {
            filter.append(CString::try_from(arg.name)?, arg.value());
        }
    }
    let filter = Filter::parse(&filter)?;
    let mut under_way = RawArrayBuf::new();
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for build in request.context.database.index_builds() {
        let operation = rawdoc! {
            "type": "op",
            "active": true,
            "op": "command",
            "ns": build.namespace.as_str(),
            "command": { "createIndexes": build.namespace.collection(), "indexes": [{ "name": build.name.as_str() }] },
            "msg": format!("Index Build: {}: {}/{}", build.name, build.done, build.total),
            "progress": { "done": count(build.done), "total": count(build.total) },
        };
        if filter.matches(&operation)? {
            under_way.push(operation);
        }
    }
    Ok(rawdoc! { "inprog": under_way })
}
