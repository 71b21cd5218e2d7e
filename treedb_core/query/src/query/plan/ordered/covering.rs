//! Covered queries: documents built from index keys alone, if these contain every field that is returned.
//!
//! A key does not contain the number type, and does not distinguish a missing field from null; the entry's
//! type bits ([`IndexDef::type_bits`](crate::index::ordered::IndexDef::type_bits)) do. If they are absent, or
//! tell that the value is not in the key, the row is fetched. Fields are in the order of the index, `_id`
//! first.

use bson::RawDocumentBuf;

use crate::access::Source;
use crate::doc::write::Writer;
use crate::index::ordered::{SortOrder, restored};
use crate::query::Query;

use super::OrderedIndex;
use super::index_filter::SplitKey;

/// How documents are built from the keys of an index.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::query) struct Cover {
    /// The fields returned and their positions in the index.
    fields: Vec<(Vec<String>, usize)>,
    descending: Vec<bool>,
}

/// How the documents of `query` are built from the keys of `index`, which is number `number` of `source`; `None` if it does not
/// cover the query.
pub(super) fn cover(
    source: &dyn Source,
    number: usize,
    index: &OrderedIndex<'_>,
    query: &Query,
) -> Option<Cover> {
    // A multikey index contains the elements of an array, but not the array.
    if index.multikey || !index.keys_are_values() || !source.keys_have_types(number) {
        return None;
    }
    let mut wanted = query.projection.as_ref()?.kept()?;
    for key in query.sort.iter().flat_map(|sort| &sort.keys) {
        if !wanted.iter().any(|path| path == key.path.as_str()) {
            wanted.push(key.path.as_str().to_owned());
        }
    }
    let position = |path: &str| index.def.keys.iter().position(|part| part.path.as_str() == path);
    let mut fields = wanted
        .iter()
        .map(|path| Some((path.split('.').map(str::to_owned).collect(), position(path)?)))
        .collect::<Option<Vec<(Vec<String>, usize)>>>()?;
    fields.sort_by_key(|(path, at)| (path.first().map(String::as_str) != Some("_id"), *at));
    // The fields of one subdocument must be adjacent to be written as one document.
    for (at, (path, _)) in fields.iter().enumerate() {
        let behind = fields.iter().skip(at + 1);
        let inside = behind.clone().any(|(other, _)| path.len() == 1 && other.first() == path.first());
        let mut apart = behind.skip_while(|(other, _)| other.first() == path.first());
        if path.len() > 2 || inside || apart.any(|(other, _)| other.first() == path.first()) {
            return None;
        }
    }
    let last = fields.iter().map(|(_, at)| *at).max().unwrap_or(0);
    let parts = index.def.keys.iter().take(last + 1);
    let descending = parts.map(|part| part.direction == SortOrder::Descending).collect();
    Some(Cover { fields, descending })
}

impl Cover {
    /// The document of the entry with this key and these type bits; `None` if they do not determine it.
    pub(in crate::query) fn document(
        &self,
        key: &[u8],
        type_bits: &[u8],
        split: &mut SplitKey,
    ) -> Option<RawDocumentBuf> {
        split.split(key, &self.descending)?;
        let mut out = Writer::new(key.len() + 16 * self.fields.len());
        let mut open = None;
        for (path, at) in &self.fields {
            let (encoding, text) = split.part(key, *at)?;
            let value = restored(encoding, type_bits, *at, text)?;
            match (path.as_slice(), value) {
                ([name], value) => {
                    if let Some((_, document)) = open.take() {
                        out.close(document);
                    }
                    if let Some(value) = value {
                        out.value(name.as_bytes(), value);
                    }
                }
                ([outer, name], Some(value)) => {
                    match &open {
                        Some((before, _)) if *before == outer => {}
                        _ => {
                            if let Some((_, document)) = open.take() {
                                out.close(document);
                            }
                            open = Some((outer, out.open_document(outer.as_bytes())));
                        }
                    }
                    out.value(name.as_bytes(), value);
                }
                // Whether the document around a missing field exists is not known.
                _ => return None,
            }
        }
        if let Some((_, document)) = open.take() {
            out.close(document);
        }
        Some(out.finish())
    }
}
