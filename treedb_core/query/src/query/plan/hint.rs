//! [`Hint`]: the index that a request wants to be used.

use std::fmt;

use bson::{RawDocument, RawDocumentBuf};

use crate::access::{Direction, IndexInfo};
use crate::doc::{Doc, Value, shown};
use crate::index::ordered::same_key_pattern;

/// Names a collection scan instead of an index.
const NATURAL: &str = "$natural";

/// The index to use, as a request names it.
#[derive(Debug, Clone, PartialEq)]
pub enum Hint {
    /// None: `{ $natural: 1 }`, a collection scan in this direction.
    Natural(Direction),
    /// The index with this name.
    Name(String),
    /// The first index with this key pattern.
    KeyPattern(RawDocumentBuf),
}

impl Hint {
    /// Position and definition of the index among those of a collection. None for [`Hint::Natural`].
    pub(super) fn find<'i>(&self, indexes: &'i [IndexInfo]) -> Option<(usize, &'i IndexInfo)> {
        indexes.iter().enumerate().find(|(_, info)| self.names(info.def.name(), || info.def.key_pattern()))
    }

    /// True if the hint names the index with this name and key pattern.
    pub(super) fn names(&self, index: &str, key_pattern: impl FnOnce() -> RawDocumentBuf) -> bool {
        match self {
            Hint::Natural(_) => false,
            Hint::Name(name) => index == name,
            Hint::KeyPattern(pattern) => same_key_pattern(&key_pattern(), pattern),
        }
    }
}

/// The direction that a value of `$natural` stands for: 1 or -1.
pub(super) fn natural_direction(value: Value<'_>) -> Option<Direction> {
    match value.as_integer() {
        Some(1) => Some(Direction::Forward),
        Some(-1) => Some(Direction::Backward),
        _ => None,
    }
}

impl From<&str> for Hint {
    fn from(name: &str) -> Self {
        if name == NATURAL { Hint::Natural(Direction::Forward) } else { Hint::Name(name.to_owned()) }
    }
}

impl From<String> for Hint {
    fn from(name: String) -> Self {
        Hint::from(name.as_str())
    }
}

impl From<&RawDocument> for Hint {
    fn from(pattern: &RawDocument) -> Self {
        match Doc::from(pattern).get(NATURAL) {
            Some(value) => Hint::Natural(natural_direction(value).unwrap_or(Direction::Forward)),
            None => Hint::KeyPattern(pattern.to_owned()),
        }
    }
}

impl From<RawDocumentBuf> for Hint {
    fn from(pattern: RawDocumentBuf) -> Self {
        Hint::from(&*pattern)
    }
}

impl From<bson::Document> for Hint {
    /// A pattern that cannot be encoded (a name with a NUL) is that of no index: the planner refuses it.
    fn from(pattern: bson::Document) -> Self {
        Hint::from(RawDocumentBuf::try_from(&pattern).unwrap_or_default())
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::Natural(_) => f.write_str(NATURAL),
            Hint::Name(name) => f.write_str(name),
            Hint::KeyPattern(pattern) => f.write_str(&shown(Value::Document((&**pattern).into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::query::index_of;

    #[test]
    fn a_hint_finds_an_index_by_name_or_by_key_pattern() {
        let indexes =
            [rawdoc! { "key": { "a": 1, "b": -1 }, "name": "both" }, rawdoc! { "key": { "a": "hashed" } }]
                .map(|spec| IndexInfo::new(index_of(&spec).unwrap(), false));
        let found = |hint: Hint| hint.find(&indexes).map(|(number, _)| number);
        assert_eq!(found("both".into()), Some(0));
        assert_eq!(found(rawdoc! { "a": 1.0, "b": -1_i64 }.into()), Some(0));
        assert_eq!(found(rawdoc! { "a": "hashed" }.into()), Some(1));
        assert_eq!(found(rawdoc! { "b": -1, "a": 1 }.into()), None);
        assert_eq!(found("a_1_b_-1".into()), None);
        assert_eq!(Hint::from(rawdoc! { "$natural": -1 }), Hint::Natural(Direction::Backward));
        assert_eq!(Hint::from("$natural"), Hint::Natural(Direction::Forward));
    }
}
