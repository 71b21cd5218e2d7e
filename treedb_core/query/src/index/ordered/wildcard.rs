//! Wildcard indexes: every path below a root has keys.
//!
//! A key is the encoding of the path as a text, then that of the value. Documents have no keys themselves, only
//! the fields in them (an empty one, which has none, does); of an array the elements have keys under the array's
//! own path; an array among those elements is a value, and an empty array is undefined. Nothing is said of a path
//! that is not there: there is no key for it.

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::key::encode_value;
use crate::doc::{Collation, Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// Ends the pattern of a wildcard index: `$**`, `a.b.$**`.
const MARK: &str = "$**";

/// Which paths have keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Wildcard {
    /// The path above, empty for the document itself.
    root: String,
    projection: Option<Projection>,
}

/// Which paths of a whole document have keys.
#[derive(Debug, Clone, PartialEq)]
struct Projection {
    /// As it was given.
    source: RawDocumentBuf,
    /// The paths, and all below them.
    paths: Vec<String>,
    /// True if those have keys, false if all the others do.
    inclusive: bool,
    /// Whether `_id` has.
    id: bool,
}

/// True if `path` is `above` or lies below it.
fn within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Wildcard {
    /// The wildcard that a pattern's field `path` is; `None` if it is none.
    pub(super) fn of(path: &str) -> Option<Wildcard> {
        let root = match path.strip_suffix(MARK)? {
            "" => "",
            root => root.strip_suffix('.')?,
        };
        Some(Wildcard { root: root.to_owned(), projection: None })
    }

    /// The paths below it.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The projection as it was given.
    pub fn projection(&self) -> Option<&RawDocument> {
        self.projection.as_ref().map(|projection| &*projection.source)
    }

    /// Narrows it to what `projection` names, or leaves.
    ///
    /// # Errors
    /// `FailedToParse`, naming the field.
    pub(super) fn narrow(&mut self, projection: &RawDocument) -> Result<()> {
        let refused = |message: String| Err(QueryError::new(ErrorCode::FailedToParse, message));
        if !self.root.is_empty() {
            return refused(
                "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": 1}".to_owned(),
            );
        }
        let (mut paths, mut id, mut inclusive) = (Vec::new(), None, None);
        let mut open = vec![(String::new(), Doc::from(projection))];
        while let Some((above, doc)) = open.pop() {
            for element in doc.elements() {
                let name = element.name_str();
                let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
                if let Value::Document(inner) = element.value()
                    && !inner.is_empty()
                {
                    open.push((path, inner));
                    continue;
                }
                if !element.value().is_number() && !matches!(element.value(), Value::Bool(_)) {
                    return refused(format!("wildcardProjection: '{path}' must be 0 or 1"));
                }
                let kept = element.value().truthy();
                if path == "_id" {
                    id = Some(kept);
                } else if inclusive.is_some_and(|inclusive| inclusive != kept) {
                    return refused(format!(
                        "wildcardProjection: '{path}' cannot be left out where others are kept, nor the other way round"
                    ));
                } else {
                    inclusive = Some(kept);
                    paths.push(path);
                }
            }
        }
        if paths.is_empty() && id.is_none() {
            return refused("The 'wildcardProjection' field can't be an empty object".to_owned());
        }
        let inclusive = inclusive.unwrap_or(id == Some(true));
        self.projection =
            Some(Projection { source: projection.to_owned(), paths, inclusive, id: id.unwrap_or(false) });
        Ok(())
    }

    /// True if `path` has keys where there is a value.
    pub fn holds(&self, path: &str) -> bool {
        if !self.root.is_empty() {
            return within(path, &self.root);
        }
        let id = within(path, "_id");
        match &self.projection {
            None => !id,
            Some(projection) if id => projection.id,
            Some(Projection { paths, inclusive, .. }) => {
                paths.iter().any(|above| within(path, above)) == *inclusive
            }
        }
    }

    /// True if `path` has keys where there is a document too: no path below it is left out.
    pub fn holds_all_below(&self, path: &str) -> bool {
        let left_out = |projection: &Projection| {
            !projection.inclusive && projection.paths.iter().any(|below| within(below, path))
        };
        self.holds(path) && !self.projection.as_ref().is_some_and(left_out)
    }

    /// True if a path below `path` may have keys.
    pub fn reaches(&self, path: &str) -> bool {
        self.holds(path)
            || within(&self.root, path)
            || self.projection.as_ref().is_some_and(|projection| {
                projection.inclusive && projection.paths.iter().any(|below| within(below, path))
            })
    }

    /// Adds the keys of `doc` to `keys`; true if an array was met, or a path leads to several values: names of fields
    /// may hold dots, and come twice.
    pub(super) fn keys(&self, doc: &RawDocument, collation: &Collation, keys: &mut Vec<Vec<u8>>) -> bool {
        let mut walk = Walk { wildcard: self, collation, keys, path: String::new(), multikey: false };
        walk.document(doc.into());
        let multikey = walk.multikey;
        keys.sort_unstable();
        let path = |key: &[u8]| key.iter().position(|&byte| byte == 0);
        let several = |pair: &[Vec<u8>]| match pair {
            [a, b] => path(a) == path(b) && path(a).is_some_and(|end| a.get(..end) == b.get(..end)),
            _ => false,
        };
        multikey || keys.windows(2).any(several)
    }
}

/// What all keys of the paths `path` leads to begin with.
pub fn path_prefix(path: &str) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(path.len() + 2);
    encode_value(Value::String(path.as_bytes()), &mut prefix);
    prefix
}

/// On the way through a document.
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
            let above = self.path.len();
            if above > 0 {
                self.path.push('.');
            }
            self.path.push_str(element.name_str());
            if self.wildcard.reaches(&self.path) {
                self.value(element.value());
            }
            self.path.truncate(above);
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
    fn every_leaf_below_the_root_has_a_key_and_nothing_else_has() {
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
    fn a_projection_names_the_paths_or_leaves_them_out() {
        let doc = rawdoc! { "_id": 1, "a": { "b": 2, "c": 3 }, "d": 4 };
        for (projection, paths) in [
            (rawdoc! { "a.b": 1 }, vec!["a.b"]),
            (rawdoc! { "a": { "b": 0 } }, vec!["a.c", "d"]),
            (rawdoc! { "a": true, "_id": 1 }, vec!["_id", "a.b", "a.c"]),
            (rawdoc! { "a": 0, "_id": 1 }, vec!["_id", "d"]),
        ] {
            let mut wildcard = Wildcard::of("$**").unwrap();
            wildcard.narrow(&projection).unwrap();
            let found = keys(&wildcard, &doc);
            assert_eq!(found.len(), paths.len(), "{projection:?}");
            assert!(found.iter().zip(&paths).all(|(key, path)| key.starts_with(&path_prefix(path))));
        }
        for bad in [rawdoc! {}, rawdoc! { "a": 1, "b": 0 }, rawdoc! { "a": "x" }] {
            assert_eq!(Wildcard::of("$**").unwrap().narrow(&bad).unwrap_err().code, ErrorCode::FailedToParse);
        }
        let narrowed = Wildcard::of("a.$**").unwrap().narrow(&rawdoc! { "b": 1 });
        assert_eq!(narrowed.unwrap_err().code, ErrorCode::FailedToParse);
    }
}
