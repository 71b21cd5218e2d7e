//! Wildcard indexes: every path below a root has keys.
//!
//! A key is the encoding of the path as a string, then that of the value. A document has no key itself, only
//! its fields have (an empty document does have one). The elements of an array have keys with the array's
//! path; an array among the elements is a value, and an empty array has the key undefined. A missing field
//! has no key.

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::key::encode_value;
use crate::doc::{Collation, Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// The end of a wildcard index's pattern: `$**`, `a.b.$**`.
const WILDCARD: &str = "$**";

/// Which paths have keys in a wildcard index.
#[derive(Debug, Clone, PartialEq)]
pub struct Wildcard {
    /// The path before `.$**`; empty for the whole document.
    root: String,
    projection: Option<Projection>,
}

/// `wildcardProjection`: which paths of the document have keys.
#[derive(Debug, Clone, PartialEq)]
struct Projection {
    /// The projection as it was specified.
    source: RawDocumentBuf,
    /// The paths of the projection; each includes the paths below it.
    paths: Vec<String>,
    /// True if the paths have keys, false if all other paths have.
    inclusive: bool,
    /// Whether `_id` has keys.
    id: bool,
}

/// True if `path` is `ancestor` or a path below it.
fn within(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Wildcard {
    /// Parses a field of a key pattern; `None` if it is not a wildcard.
    pub(super) fn of(path: &str) -> Option<Wildcard> {
        let root = match path.strip_suffix(WILDCARD)? {
            "" => "",
            root => root.strip_suffix('.')?,
        };
        Some(Wildcard { root: root.to_owned(), projection: None })
    }

    /// The paths below this path have keys.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The projection as it was specified.
    pub fn projection(&self) -> Option<&RawDocument> {
        self.projection.as_ref().map(|projection| &*projection.source)
    }

    /// Sets the `wildcardProjection`.
    ///
    /// # Errors
    /// `FailedToParse`, naming the field.
    pub(super) fn set_projection(&mut self, projection: &RawDocument) -> Result<()> {
        let invalid = |message: String| Err(QueryError::new(ErrorCode::FailedToParse, message));
        if !self.root.is_empty() {
            return invalid(
                "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": 1}".to_owned(),
            );
        }
        let (mut paths, mut id, mut inclusive) = (Vec::new(), None, None);
        let mut pending = vec![(String::new(), Doc::from(projection))];
        while let Some((parent, doc)) = pending.pop() {
            for element in doc.elements() {
                let name = element.name_str();
                let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") };
                if let Value::Document(inner) = element.value()
                    && !inner.is_empty()
                {
                    pending.push((path, inner));
                    continue;
                }
                if !element.value().is_number() && !matches!(element.value(), Value::Bool(_)) {
                    return invalid(format!("wildcardProjection: '{path}' must be 0 or 1"));
                }
                let included = element.value().truthy();
                if path == "_id" {
                    id = Some(included);
                } else if inclusive.is_some_and(|inclusive| inclusive != included) {
                    return invalid(format!(
                        "wildcardProjection: '{path}': inclusion and exclusion cannot be mixed, except for _id"
                    ));
                } else {
                    inclusive = Some(included);
                    paths.push(path);
                }
            }
        }
        if paths.is_empty() && id.is_none() {
            return invalid("The 'wildcardProjection' field can't be an empty object".to_owned());
        }
        let inclusive = inclusive.unwrap_or(id == Some(true));
        self.projection =
            Some(Projection { source: projection.to_owned(), paths, inclusive, id: id.unwrap_or(false) });
        Ok(())
    }

    /// True if a value at `path` that is not a document has keys.
    pub fn holds(&self, path: &str) -> bool {
        if !self.root.is_empty() {
            return within(path, &self.root);
        }
        let id = within(path, "_id");
        match &self.projection {
            None => !id,
            Some(projection) if id => projection.id,
            Some(Projection { paths, inclusive, .. }) => {
                paths.iter().any(|ancestor| within(path, ancestor)) == *inclusive
            }
        }
    }

    /// True if a value at `path` has keys even if it is a document: no path below it is excluded.
    pub fn holds_all_below(&self, path: &str) -> bool {
        let excluded = |projection: &Projection| {
            !projection.inclusive && projection.paths.iter().any(|below| within(below, path))
        };
        self.holds(path) && !self.projection.as_ref().is_some_and(excluded)
    }

    /// True if `path` or a path below it may have keys.
    pub fn may_have_keys_below(&self, path: &str) -> bool {
        self.holds(path)
            || within(&self.root, path)
            || self.projection.as_ref().is_some_and(|projection| {
                projection.inclusive && projection.paths.iter().any(|below| within(below, path))
            })
    }

    /// Adds the keys of `doc` to `keys`. True if there was an array, or several values have the same path:
    /// field names may contain dots, or occur twice.
    pub(super) fn keys(&self, doc: &RawDocument, collation: &Collation, keys: &mut Vec<Vec<u8>>) -> bool {
        let mut walk = Walk { wildcard: self, collation, keys, path: String::new(), multikey: false };
        walk.document(doc.into());
        let multikey = walk.multikey;
        keys.sort_unstable();
        let path = |key: &[u8]| key.iter().position(|&byte| byte == 0);
        let same_path = |pair: &[Vec<u8>]| match pair {
            [a, b] => path(a) == path(b) && path(a).is_some_and(|end| a.get(..end) == b.get(..end)),
            _ => false,
        };
        multikey || keys.windows(2).any(same_path)
    }
}

/// The prefix of all keys of values at `path`.
pub fn path_prefix(path: &str) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(path.len() + 2);
    encode_value(Value::String(path.as_bytes()), &mut prefix);
    prefix
}

/// The state of a walk through a document.
struct Walk<'w> {
    wildcard: &'w Wildcard,
    collation: &'w Collation,
    keys: &'w mut Vec<Vec<u8>>,
    path: String,
    multikey: bool,
}

impl Walk<'_> {
    fn document(&mut self, doc: Doc<'_>) {
        for element in doc.elements() {
            let parent_len = self.path.len();
            if parent_len > 0 {
                self.path.push('.');
            }
            self.path.push_str(element.name_str());
            if self.wildcard.may_have_keys_below(&self.path) {
                self.value(element.value());
            }
            self.path.truncate(parent_len);
        }
    }

    fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Document(inner) if !inner.is_empty() => self.document(inner),
            Value::Array(array) => {
                self.multikey = true;
                if array.is_empty() {
                    self.key(Value::Undefined);
                }
                for element in array.elements() {
                    match element.value() {
                        Value::Document(inner) if !inner.is_empty() => self.document(inner),
                        value => self.key(value),
                    }
                }
            }
            value => self.key(value),
        }
    }

    fn key(&mut self, value: Value<'_>) {
        if self.wildcard.holds(&self.path) {
            let mut key = path_prefix(&self.path);
            self.collation.encode(value, &mut key);
            self.keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    fn keys(wildcard: &Wildcard, doc: &RawDocument) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        wildcard.keys(doc, &Collation::Simple, &mut keys);
        keys.sort_unstable();
        keys
    }

    fn key(path: &str, value: Value<'_>) -> Vec<u8> {
        let mut key = path_prefix(path);
        encode_value(value, &mut key);
        key
    }

    #[test]
    fn exactly_the_leaves_below_the_root_have_keys() {
        let doc = rawdoc! {
            "_id": 1, "a": { "b": 2, "c": {} }, "d": [3, { "e": 4 }, [5]], "f": [], "g": null,
        };
        let array = rawdoc! { "0": 5 };
        let mut wanted = vec![
            key("a.b", Value::Int32(2)),
            key("a.c", Value::Document(Doc::EMPTY)),
            key("d", Value::Int32(3)),
            key("d.e", Value::Int32(4)),
            key("d", Value::Array((&array).into())),
            key("f", Value::Undefined),
            key("g", Value::Null),
        ];
        wanted.sort_unstable();
        assert_eq!(keys(&Wildcard::of("$**").unwrap(), &doc), wanted);
        let below = keys(&Wildcard::of("a.$**").unwrap(), &doc);
        assert_eq!(below.len(), 2);
        assert!(below.iter().all(|key| wanted.contains(key)));
        assert!(Wildcard::of("a").is_none() && Wildcard::of("a$**").is_none());
    }

    #[test]
    fn a_projection_includes_or_excludes_paths() {
        let doc = rawdoc! { "_id": 1, "a": { "b": 2, "c": 3 }, "d": 4 };
        for (projection, paths) in [
            (rawdoc! { "a.b": 1 }, vec!["a.b"]),
            (rawdoc! { "a": { "b": 0 } }, vec!["a.c", "d"]),
            (rawdoc! { "a": true, "_id": 1 }, vec!["_id", "a.b", "a.c"]),
            (rawdoc! { "a": 0, "_id": 1 }, vec!["_id", "d"]),
        ] {
            let mut wildcard = Wildcard::of("$**").unwrap();
            wildcard.set_projection(&projection).unwrap();
            let found = keys(&wildcard, &doc);
            assert_eq!(found.len(), paths.len(), "{projection:?}");
            assert!(found.iter().zip(&paths).all(|(key, path)| key.starts_with(&path_prefix(path))));
        }
        for bad in [rawdoc! {}, rawdoc! { "a": 1, "b": 0 }, rawdoc! { "a": "x" }] {
            assert_eq!(
                Wildcard::of("$**").unwrap().set_projection(&bad).unwrap_err().code,
                ErrorCode::FailedToParse
            );
        }
        let result = Wildcard::of("a.$**").unwrap().set_projection(&rawdoc! { "b": 1 });
        assert_eq!(result.unwrap_err().code, ErrorCode::FailedToParse);
    }
}
