//! [`Sort`]: the order of a `sort` document, and sort keys as bytes that compare the same way.
//!
//! A document's sort key is the concatenation of its fields' encodings ([`crate::doc::key`]), descending ones
//! inverted, so that comparing two keys bytewise compares the documents. A missing field counts as null. For
//! an array the least element is used in ascending order and the greatest in descending order; an empty array
//! sorts before null. This is MongoDB's rule, and that of an index over the same fields.

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::write::Writer;
use crate::doc::{Collation, Doc, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::index::ordered::{KeyPart, MAX_KEY_PARTS, SortOrder, keys_of};
use crate::query::expr::check_names;

/// A parsed sort.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sort {
    /// The fields, the most significant first.
    pub keys: Vec<KeyPart>,
    /// The collation by which strings are compared.
    pub collation: Collation,
}

impl Sort {
    /// Parses `{ a: 1, "b.c": -1 }`; an empty document is `None`: any order.
    ///
    /// # Errors
    /// `Location15975` for a direction that is not 1 or -1, `BadValue` for `$meta` and other operators.
    pub fn parse(sort: &RawDocument) -> Result<Option<Self>> {
        Self::parse_with(sort, |_| Ok(None))
    }

    /// [`Self::parse`], where `expression` may give the field of a document that has the value of a key that is an expression; the
    /// order is descending then.
    pub(crate) fn parse_with(
        sort: &RawDocument,
        expression: impl Fn(Doc<'_>) -> Result<Option<&'static str>>,
    ) -> Result<Option<Self>> {
        let mut keys = Vec::new();
        for element in Doc::from(sort).elements() {
            let path = element.name_str();
            let direction = match element.value() {
                value if value.is_number() => match value.as_integer() {
                    Some(1) => SortOrder::Ascending,
                    Some(-1) => SortOrder::Descending,
                    _ => return Err(bad_direction(path)),
                },
                Value::Document(operator) => {
                    if let Some(field) = expression(operator)? {
                        keys.push(KeyPart { path: Path::new(field), direction: SortOrder::Descending });
                        continue;
                    }
                    return Err(QueryError::new(
                        ErrorCode::Location17312,
                        format!("$meta is the only expression supported by $sort right now (field '{path}')"),
                    ));
                }
                value => {
                    return Err(QueryError::new(
                        ErrorCode::Location15974,
                        format!(
                            "Illegal key in $sort specification: {path}: {}, it must be 1 or -1",
                            crate::doc::shown(value)
                        ),
                    ));
                }
            };
            check_names(path)?;
            if path.starts_with('$') {
                return Err(QueryError::new(
                    ErrorCode::Location16410,
                    format!("FieldPath field names may not start with '$': '{path}'"),
                ));
            }
            // One too many is an error, whatever the others are.
            if keys.len() <= MAX_KEY_PARTS && !keys.iter().any(|key: &KeyPart| key.path.as_str() == path) {
                keys.push(KeyPart { path: Path::new(path), direction });
            }
        }
        if keys.len() > MAX_KEY_PARTS {
            return Err(QueryError::bad_value(format!("too many sort keys (at most {MAX_KEY_PARTS})")));
        }
        Ok((!keys.is_empty()).then_some(Sort { keys, collation: Collation::Simple }))
    }

    /// The same sort with another collation.
    pub fn collated(self, collation: &Collation) -> Self {
        Sort { collation: collation.clone(), ..self }
    }

    /// The sort in MongoDB's notation.
    pub fn written(&self) -> RawDocumentBuf {
        let mut out = Writer::new(64);
        for key in &self.keys {
            let way = if key.direction == SortOrder::Ascending { 1 } else { -1 };
            out.value(key.path.as_str().as_bytes(), Value::Int32(way));
        }
        out.finish()
    }

    /// The document's sort key: keys compare bytewise like their documents.
    ///
    /// # Errors
    /// `BadValue` if two of the fields are (in) different arrays: MongoDB's "parallel arrays".
    pub fn key(&self, document: &RawDocument) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(32);
        self.key_into(document, &mut key)?;
        Ok(key)
    }

    /// [`Self::key`] written to `out`, whose contents are replaced.
    ///
    /// # Errors
    /// As for [`Self::key`].
    pub(crate) fn key_into(&self, document: &RawDocument, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        if self.plain_key(document, out) {
            return Ok(());
        }
        let keys = keys_of(&self.keys, &self.collation, document)
            .map_err(|_| QueryError::bad_value("cannot sort with keys that are parallel arrays"))?;
        *out = keys.keys.into_iter().next().unwrap_or_default();
        Ok(())
    }

    /// Fast path: encodes the key if its fields are top-level fields without arrays.
    fn plain_key(&self, document: &RawDocument, out: &mut Vec<u8>) -> bool {
        let doc = Doc::from(document);
        self.collation.is_simple()
            && self.keys.iter().all(|part| {
                let value =
                    doc.find(part.path.first().as_bytes()).map_or(Value::Null, |element| element.value());
                part.encode(value, out);
                part.path.parts().len() == 1 && !matches!(value, Value::Array(_))
            })
    }
}

fn bad_direction(path: &str) -> QueryError {
    QueryError::new(
        ErrorCode::Location15975,
        format!("$sort key ordering must be 1 (for ascending) or -1 (for descending), field '{path}'"),
    )
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use bson::rawdoc;

    #[test]
    fn the_fast_path_encodes_the_same_sort_key() {
        let (mut rng, mut short, mut out) = (Rng::new(5), 0, Vec::new());
        let sorts = [rawdoc! { "a": 1 }, rawdoc! { "b": -1, "a": 1 }, rawdoc! { "a.b": 1, "c": -1 }];
        let sorts = sorts.map(|sort| Sort::parse(&sort).unwrap().unwrap());
        for _ in 0..300 {
            let document = random_document(&mut rng, 3);
            for sort in &sorts {
                out.clear();
                if sort.plain_key(&document, &mut out) {
                    short += 1;
                    assert_eq!(keys_of(&sort.keys, &sort.collation, &document).unwrap().keys, [out.clone()]);
                }
            }
        }
        assert!(short > 100, "{short}");
    }
}
