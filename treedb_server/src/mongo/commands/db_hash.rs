//! `dbHash`: MD5 sums of the collections of a database, which are equal where the documents are. That of a collection is over the BSON of its
//! documents in the order of `_id`, of a capped one in that of their insertion; that of the database over those of its collections, as text, by
//! name. The documents of all are read as they are at one moment.

use std::collections::BTreeSet;
use std::time::Instant;

use bson::raw::CString;
use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use md5::{Digest, Md5};
use treedb_collections::{FindRequest, Transaction};
use treedb_query::query::ErrorCode;

use super::request::Request;
use super::{Result, hostname};
use crate::mongo::error::CommandError;

pub(super) fn run(request: &Request<'_>) -> Result {
    let began = Instant::now();
    let mut wanted = BTreeSet::new();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "collections" => {
                for name in arg.array()? {
                    wanted.insert(name?.as_str().ok_or_else(|| {
                        CommandError::new(ErrorCode::BadValue, "collections entries have to be strings")
                    })?);
                }
            }
            // There are none.
            "skipTempCollections" => drop(arg.bool()?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let mut snapshot = request.context.database.begin()?;
    let (mut hashes, mut uuids) = (RawDocumentBuf::new(), RawDocumentBuf::new());
    let (mut capped, mut whole) = (RawArrayBuf::new(), Md5::new());
    for found in request.context.database.list_collections(request.database)? {
        let name = found.namespace.collection();
        // A view has no documents of its own.
        if found.is_view() || name.starts_with("system.") || !(wanted.is_empty() || wanted.contains(name)) {
            continue;
        }
        let is_capped = found.options.get_bool("capped").unwrap_or(false);
        let hash = hash(&mut snapshot, found.namespace.as_str(), is_capped)?;
        whole.update(&hash);
        hashes.append(CString::try_from(name)?, hash);
        if is_capped {
            capped.push(name);
        }
        if let Some(uuid) = found.uuid {
            uuids.append(CString::try_from(name)?, bson::Binary::from(uuid));
        }
    }
    Ok(rawdoc! {
        "host": hostname(),
        "collections": hashes,
        "capped": capped,
        "uuids": uuids,
        "md5": hex(whole),
        "timeMillis": i32::try_from(began.elapsed().as_millis()).unwrap_or(i32::MAX),
    })
}

/// The sum of a collection.
fn hash(
    snapshot: &mut Transaction,
    namespace: &str,
    is_capped: bool,
) -> std::result::Result<String, CommandError> {
    let sort = (!is_capped).then(|| rawdoc! { "_id": 1 });
    let find = FindRequest { sort, ..FindRequest::default() };
    let mut documents = snapshot.collection(namespace)?.find(&find)?;
    let mut sum = Md5::new();
    while let Some(document) = documents.next(snapshot)? {
        sum.update(document.as_bytes());
    }
    Ok(hex(sum))
}

fn hex(sum: Md5) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
