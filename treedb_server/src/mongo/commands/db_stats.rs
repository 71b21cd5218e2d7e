//! `dbStats`: sizes of all collections of a database together.

use bson::rawdoc;

use super::Result;
use super::coll_stats::scale;
use super::request::Request;

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut divisor = 1.0;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "scale" => divisor = scale(&arg)?,
            // The free pages are in one file with those of all databases.
            "freeStorage" => {
                arg.integer()?;
            }
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
    Ok(rawdoc! {
        "db": request.database,
        "collections": collections,
        "views": views,
        "objects": i64::try_from(objects).unwrap_or(i64::MAX),
        "avgObjSize": average,
        "dataSize": size(data),
        "storageSize": size(storage),
        "indexes": i64::try_from(indexes).unwrap_or(i64::MAX),
        "indexSize": size(index_bytes),
        "totalSize": size(storage + index_bytes),
        "scaleFactor": divisor,
        "fsUsedSize": size(used),
        "fsTotalSize": size(total),
        "sizeIsEstimated": estimated,
    })
}
