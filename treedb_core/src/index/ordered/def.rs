//! The definition of an ordered index: name, key pattern, uniqueness.

use bson::raw::CString;
use bson::{RawDocument, RawDocumentBuf};

use crate::code::{ErrorCode, QueryError, Result};
use crate::doc::{Doc, Path, Value};

/// Most fields a key pattern may have.
pub const MAX_KEY_PARTS: usize = 32;

/// Order of one field in an index or a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// 1: least first.
    Ascending,
    /// -1: greatest first.
    Descending,
}

impl Direction {
    /// The other one.
    pub fn reversed(self) -> Self {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }

    /// 1 or -1.
    pub fn sign(self) -> i32 {
        match self {
            Direction::Ascending => 1,
            Direction::Descending => -1,
        }
    }
}

/// One field of a key pattern or a sort.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// Dotted path: `author.name`.
    pub path: Path,
    /// Its order.
    pub direction: Direction,
}

/// An ordered index: what it is called, what it orders by, whether keys are unique.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexDef {
    /// Unique in its collection; `_id_` is the index on `_id`.
    pub name: String,
    /// The key pattern, 1 to [`MAX_KEY_PARTS`] fields.
    pub keys: Vec<KeyPart>,
    /// True if no two rows may have the same key.
    pub unique: bool,
}

fn refused(message: String) -> QueryError {
    QueryError::new(ErrorCode::CannotCreateIndex, message)
}

impl IndexDef {
    /// The index on `_id` that every collection has.
    pub fn id() -> Self {
        let path = Path::new("_id");
        IndexDef {
            name: "_id_".to_owned(),
            keys: vec![KeyPart { path, direction: Direction::Ascending }],
            unique: true,
        }
    }

    /// Reads a key pattern (`{ a: 1, "b.c": -1 }`). Without a name the index gets MongoDB's: `a_1_b.c_-1`.
    ///
    /// Errors: `CannotCreateIndex` naming the field, for an empty or too long pattern, an empty or `$` name, a
    /// direction that is not a number or 0, a kind of index there is none of.
    pub fn parse(pattern: &RawDocument, name: Option<&str>, unique: bool) -> Result<Self> {
        let mut keys: Vec<KeyPart> = Vec::new();
        for element in Doc::from(pattern).elements() {
            let path = element.name_str();
            let direction = match element.value() {
                Value::String(kind) => {
                    let kind = String::from_utf8_lossy(kind);
                    return Err(refused(format!("Index type '{kind}' of field '{path}' is not supported")));
                }
                value if !value.is_number() => {
                    return Err(refused(format!(
                        "Values in v:2 index key pattern cannot be of type {} (field '{path}'). Only numbers > 0, \
                         numbers < 0, and strings are allowed.",
                        value.type_name()
                    )));
                }
                value => match crate::doc::compare::compare(value, Value::Int32(0)) {
                    std::cmp::Ordering::Greater => Direction::Ascending,
                    std::cmp::Ordering::Less if !matches!(value, Value::Double(value) if value.is_nan()) => {
                        Direction::Descending
                    }
                    _ => {
                        let message =
                            format!("Values in the index key pattern cannot be 0 (field '{path}').");
                        return Err(refused(message));
                    }
                },
            };
            if path.split('.').any(str::is_empty) {
                return Err(refused(format!("Index keys cannot contain an empty field: '{path}'.")));
            }
            if path.split('.').any(|part| part.starts_with('$')) {
                return Err(refused(format!(
                    "Index key contains an illegal field name: field name starts with '$': '{path}'."
                )));
            }
            if keys.iter().any(|key| key.path.as_str() == path) {
                return Err(refused(format!("Index keys cannot name the field '{path}' twice.")));
            }
            keys.push(KeyPart { path: Path::new(path), direction });
        }
        if keys.is_empty() {
            return Err(refused("Index keys cannot be an empty object.".to_owned()));
        }
        if keys.len() > MAX_KEY_PARTS {
            return Err(refused(format!("Index keys cannot have more than {MAX_KEY_PARTS} fields.")));
        }
        let name = match name {
            Some("") => return Err(refused("index names cannot be empty".to_owned())),
            Some(name) => name.to_owned(),
            None => default_name(&keys),
        };
        Ok(IndexDef { name, keys, unique })
    }

    /// The key pattern as a document: `{ a: 1, "b.c": -1 }`.
    pub fn key_pattern(&self) -> RawDocumentBuf {
        pattern_of(&self.keys)
    }

    /// Whether `existing`, an index of the same collection, is what this definition asks for.
    ///
    /// # Errors
    /// `IndexKeySpecsConflict` or `IndexOptionsConflict` if the two cannot be in one collection.
    pub fn is_same_as(&self, existing: &IndexDef) -> Result<bool> {
        let same_keys = existing.keys == self.keys;
        if existing.name == self.name {
            if same_keys && existing.unique == self.unique {
                return Ok(true);
            }
            return Err(QueryError::new(
                ErrorCode::IndexKeySpecsConflict,
                format!(
                    "An existing index has the same name as the requested index: {}, keys {}. Drop it first, or \
                     choose another name.",
                    self.name,
                    crate::doc::shown(Value::Document((&existing.key_pattern()).into()))
                ),
            ));
        }
        if same_keys {
            return Err(QueryError::new(
                ErrorCode::IndexOptionsConflict,
                format!("Index already exists with a different name: {}", existing.name),
            ));
        }
        Ok(false)
    }

    /// True for the index on `_id`.
    pub fn is_id(&self) -> bool {
        self.name == "_id_"
    }
}

/// A list of fields with their directions as a document.
pub fn pattern_of(keys: &[KeyPart]) -> RawDocumentBuf {
    let mut pattern = RawDocumentBuf::new();
    for key in keys {
        // A path came out of a document, where a name cannot hold a NUL.
        if let Ok(name) = CString::try_from(key.path.as_str()) {
            pattern.append(name, key.direction.sign());
        }
    }
    pattern
}

fn default_name(keys: &[KeyPart]) -> String {
    let parts: Vec<String> =
        keys.iter().map(|key| format!("{}_{}", key.path, key.direction.sign())).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_pattern_gets_mongodbs_name_and_comes_back_as_it_was() {
        let def = IndexDef::parse(&rawdoc! { "a": 1, "b.c": -1.0 }, None, false).unwrap();
        assert_eq!(def.name, "a_1_b.c_-1");
        assert_eq!(def.key_pattern(), rawdoc! { "a": 1, "b.c": -1 });
    }

    #[test]
    fn bad_patterns_are_refused_naming_the_field() {
        for (pattern, part) in [
            (rawdoc! {}, "empty object"),
            (rawdoc! { "a": 0 }, "'a'"),
            (rawdoc! { "a": "text" }, "'text'"),
            (rawdoc! { "a": true }, "type bool"),
            (rawdoc! { "a..b": 1 }, "'a..b'"),
            (rawdoc! { "$**": 1 }, "'$**'"),
        ] {
            let error = IndexDef::parse(&pattern, None, false).unwrap_err();
            assert_eq!(error.code, ErrorCode::CannotCreateIndex);
            assert!(error.message.contains(part), "{error}");
        }
    }
}
