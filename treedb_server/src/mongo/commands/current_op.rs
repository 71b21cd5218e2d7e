//! `currentOp`: the indexes that are being built, and how far they are.

use bson::{RawArrayBuf, rawdoc};

use super::Result;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut under_way = RawArrayBuf::new();
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for build in request.context.database.index_builds() {
        under_way.push(rawdoc! {
            "type": "op",
            "active": true,
            "op": "command",
            "ns": build.namespace.as_str(),
            "command": { "createIndexes": build.namespace.collection(), "indexes": [{ "name": build.name.as_str() }] },
            "msg": format!("Index Build: {}: {}/{}", build.name, build.done, build.total),
            "progress": { "done": count(build.done), "total": count(build.total) },
        });
    }
    Ok(rawdoc! { "inprog": under_way })
}
