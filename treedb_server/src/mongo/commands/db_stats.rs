//! `dbStats`: sizes of all collections of a database together.

use bson::raw::cstr;
use bson::rawdoc;

use super::Result;
use super::coll_stats::scale;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut divisor, mut shows_free) = (1.0, false);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "scale" => divisor = scale(&arg)?,
            "freeStorage" => shows_free = arg.integer()? != 0,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let context = request.context;
    let (mut collections, mut objects, mut data, mut storage) = (0_i64, 0, 0, 0);
    let (mut indexes, mut index_bytes, mut estimated) = (0, 0, false);
    let mut views = 0_i64;
    for found in request.collections(request.database)? {
        if found.is_view() {
            views += 1;
            continue;
        }
        // Dropped meanwhile, if there are none.
        let Some(stats) = context.database.collection(found.namespace.as_str())?.stats()? else { continue };
        collections += 1;
        objects += stats.documents;
        data += stats.data_bytes;
        storage += stats.storage_bytes;
        indexes += stats.indexes.len();
        index_bytes += stats.index_bytes();
        estimated |= stats.estimated;
    }
    let size = |bytes: u64| bytes as f64 / divisor;
    let average = if objects == 0 { 0.0 } else { data as f64 / objects as f64 };
    let disk = rustix::fs::statvfs(&context.dir).map_err(std::io::Error::from).ok();
    let (total, used) = disk.map_or((0, 0), |disk| {
        let blocks = |count: u64| count.saturating_mul(disk.f_frsize);
        (blocks(disk.f_blocks), blocks(disk.f_blocks.saturating_sub(disk.f_bfree)))
    });
    let mut reply = rawdoc! {
        "db": request.database,
        "collections": collections,
        "views": views,
        "objects": i64::try_from(objects).unwrap_or(i64::MAX),
        "avgObjSize": average,
        "dataSize": size(data),
        "storageSize": size(storage),
    };
    // All databases have their free pages in one file: none of them is of this one.
    if shows_free {
        reply.append(cstr!("freeStorageSize"), 0.0);
    }
    reply.append(cstr!("indexes"), i64::try_from(indexes).unwrap_or(i64::MAX));
    reply.append(cstr!("indexSize"), size(index_bytes));
    if shows_free {
        reply.append(cstr!("indexFreeStorageSize"), 0.0);
    }
    reply.append(cstr!("totalSize"), size(storage + index_bytes));
    if shows_free {
        reply.append(cstr!("totalFreeStorageSize"), 0.0);
    }
    for field in &rawdoc! {
        "scaleFactor": divisor as i64,
        "fsUsedSize": size(used),
        "fsTotalSize": size(total),
        "sizeIsEstimated": estimated,
    } {
        let (name, value) = field?;
        reply.append(name, value);
    }
    Ok(reply)
}
