//! [`SearchIndex`]: an index of vectors as `$listSearchIndexes` shows it.

use bson::{RawBson, RawDocumentBuf, rawdoc};

use treedb_query::index::vector::VectorDef;

use crate::catalog::meta::{IndexMeta, Meta};

/// A search index of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchIndex {
    /// 24 hexadecimal digits. An index that replaces one of the same name has its id.
    pub id: String,
    /// Unique among the indexes of the collection.
    pub name: String,
    /// False while it is being built, also if it will replace one that is ready.
    pub ready: bool,
    /// True if searches can use it, or the one that it will replace.
    pub queryable: bool,
    /// `{ name, type: "vectorSearch", definition: { fields: [..] } }`, as `createSearchIndexes` takes it.
    pub spec: RawDocumentBuf,
}

impl SearchIndex {
    /// All search indexes of a collection, in the order they were created.
    pub(crate) fn all(meta: &Meta) -> Vec<SearchIndex> {
        let mut vectors: Vec<(&IndexMeta, &VectorDef)> =
            meta.indexes.iter().filter_map(|index| Some((index, index.def.as_vector()?))).collect();
        vectors.sort_by_key(|(index, _)| index.id);
        let mut all: Vec<SearchIndex> = Vec::new();
        for (index, def) in vectors {
            let ready = index.building.is_none();
            // Of two with one name the later one is another field of it, or is being built to replace it.
            match all.iter_mut().find(|listed| listed.name == def.name) {
                Some(listed) => {
                    listed.ready &= ready;
                    listed.queryable |= ready;
                    listed.spec = if ready { listed.spec.clone() } else { def.spec() };
                }
                None => all.push(SearchIndex {
                    id: id_of(meta, &def.name),
                    name: def.name.clone(),
                    ready,
                    queryable: ready,
                    spec: def.spec(),
                }),
            }
        }
        all
    }

    /// The index as `$listSearchIndexes` shows it: `id`, `name`, `type`, `status` (`READY` or `BUILDING`), `queryable` and
    /// `latestDefinition`.
    pub fn listed(&self) -> RawDocumentBuf {
        let mut listed = rawdoc! {
            "id": self.id.as_str(),
            "name": self.name.as_str(),
            "type": "vectorSearch",
            "status": if self.ready { "READY" } else { "BUILDING" },
            "queryable": self.queryable,
        };
        if let Ok(Some(definition)) = self.spec.get("definition") {
            listed.append(bson::raw::cstr!("latestDefinition"), RawBson::from(definition));
        }
        listed
    }
}

/// An id that is made of the collection's and the index's name.
fn id_of(meta: &Meta, name: &str) -> String {
    // FNV-1a: the id only has to tell the indexes of one collection apart.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let uuid = meta.uuid.bytes();
    let collection = uuid.first_chunk::<4>().copied().map_or(0, u32::from_be_bytes);
    format!("{collection:08x}{hash:016x}")
}
