//! A find of one document by a value of each field of a unique index of several: `{ name: "treedb", version: 2 }`. One
//! look-up and no planning, as [`crate::read::by_key`] has it for one field, and by the same rules.

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::IndexInfo;
use treedb_query::doc::Doc;
use treedb_query::error::Result;
use treedb_query::index::ordered::Kind;
use treedb_storage::kv::Reads;

use crate::catalog::meta::Meta;
use crate::read::by_key::{is_plain, is_valid, one};
use crate::read::long_key::PREFIX_LEN;

/// Most fields of such an index.
const MOST: usize = 4;

/// Whether `filter` asks for values of a few fields and nothing else.
pub(crate) fn may_be(filter: &RawDocument) -> bool {
    let (mut fields, mut len) = (0, 4 + 1);
    for element in Doc::from(filter).elements() {
        let value = element.value();
        if fields == MOST || !is_plain(value) || !is_valid(element, value) {
            return false;
        }
        fields += 1;
        len += 1 + element.name.len() + 1 + element.bytes.len();
    }
    // All of it was looked at.
    fields > 1 && len == filter.as_bytes().len()
}

/// The document that `filter`, which [`may_be`] such a one, asks for; nothing of it is said (`None`) if there is no index
/// of just its fields.
///
/// # Errors
/// Those of the index and of a damaged row.
pub(crate) fn first(
    filter: &RawDocument,
    reads: &impl Reads,
    meta: &Meta,
) -> Result<Option<Option<RawDocumentBuf>>> {
    if !meta.collation.is_simple() {
        return Ok(None);
    }
    let filter = Doc::from(filter);
    let fields = filter.elements().count();
    for (index, info) in meta.indexes.iter().zip(&meta.infos) {
        let IndexInfo { def, multikey, .. } = info;
        let options = &def.options;
        let plain = options.kind == Kind::Values && options.partial.is_none() && !options.hidden;
        if !def.unique || def.keys.len() != fields || *multikey || !plain || !options.collation.is_simple() {
            continue;
        }
        let mut key = Vec::with_capacity(64);
        let found = def.keys.iter().filter(|part| !part.path.has_positions()).filter_map(|part| {
            let element = filter.find(part.path.as_str().as_bytes())?;
            part.encode(element.value(), &mut key);
            Some(())
        });
        // A longer key may not be all there.
        if found.count() == fields && key.len() <= PREFIX_LEN {
            return one(index, &key, reads, meta).map(Some);
        }
    }
    Ok(None)
}
