//! `$type`: the BSON types a value may have.

use crate::doc::{Element, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u32);

/// Number and alias of each type; its bit in [`Types`] is its position here. MinKey is -1 and MaxKey 127.
const TYPES: &[(i64, &str)] = &[
    (1, "double"),
    (2, "string"),
    (3, "object"),
    (4, "array"),
    (5, "binData"),
    (6, "undefined"),
    (7, "objectId"),
    (8, "bool"),
    (9, "date"),
    (10, "null"),
    (11, "regex"),
    (12, "dbPointer"),
    (13, "javascript"),
    (14, "symbol"),
    (15, "javascriptWithScope"),
    (16, "int"),
    (17, "timestamp"),
    (18, "long"),
    (19, "decimal"),
    (-1, "minKey"),
    (127, "maxKey"),
];

/// Number and alias of each type.
pub(in crate::query) fn type_names() -> impl Iterator<Item = (i64, &'static str)> {
    TYPES.iter().copied()
}

fn bit(name: &str) -> Option<u32> {
    TYPES.iter().position(|(_, known)| *known == name).map(|at| 1 << at)
}

impl Types {
    /// Parses the operand of `$type` on `path`: a number, a name, or an array of them.
    pub(super) fn parse(path: &str, operand: &Element<'_>) -> Result<Self> {
        let Value::Array(array) = operand.value() else { return Self::one(path, operand.value()) };
        if array.is_empty() {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!("{path} must match at least one type"),
            ));
        }
        let mut types = Types(0);
        for element in array.elements() {
            types.0 |= Self::one(path, element.value())?.0;
        }
        Ok(types)
    }

    fn one(path: &str, value: Value<'_>) -> Result<Self> {
        match value {
            Value::String(name) => Self::named(&String::from_utf8_lossy(name)),
            value if value.is_number() => {
                let known = value.as_integer().and_then(|n| TYPES.iter().find(|(number, _)| *number == n));
                match known.and_then(|(_, name)| bit(name)) {
                    Some(bit) => Ok(Types(bit)),
                    None => Err(QueryError::bad_value(format!(
                        "Invalid numerical type code: {} (field '{path}')",
                        crate::doc::shown(value)
                    ))),
                }
            }
            _ => Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("type must be represented as a number or a string (field '{path}')"),
            )),
        }
    }

    /// The type with that name; `number` means all four types of number.
    pub(super) fn named(name: &str) -> Result<Self> {
        if name == "number" {
            return Ok(Types(
                ["double", "int", "long", "decimal"]
                    .iter()
                    .filter_map(|name| bit(name))
                    .fold(0, |a, b| a | b),
            ));
        }
        bit(name).map(Types).ok_or_else(|| QueryError::bad_value(format!("Unknown type name alias: {name}")))
    }

    /// The types in either set.
    pub(super) fn union(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// True if the value is of one of the types.
    pub fn has(self, value: Value<'_>) -> bool {
        let number = match value {
            Value::Double(_) => 0,
            Value::String(_) => 1,
            Value::Document(_) => 2,
            Value::Array(_) => 3,
            Value::Binary(..) => 4,
            Value::Undefined => 5,
            Value::ObjectId(_) => 6,
            Value::Bool(_) => 7,
            Value::Date(_) => 8,
            Value::Null => 9,
            Value::Regex(..) => 10,
            Value::DbPointer(..) => 11,
            Value::Code(_) => 12,
            Value::Symbol(_) => 13,
            Value::CodeScope(..) => 14,
            Value::Int32(_) => 15,
            Value::Timestamp(_) => 16,
            Value::Int64(_) => 17,
            Value::Decimal(_) => 18,
            Value::MinKey => 19,
            Value::MaxKey => 20,
        };
        self.0 >> number & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use treedb_testing::{Rng, random_document};

    use super::*;
    use crate::doc::Doc;

    #[test]
    fn every_value_is_in_the_set_named_after_its_type() {
        let mut rng = Rng::new(3);
        for _ in 0..300 {
            let doc = random_document(&mut rng, 2);
            for element in Doc::from(&doc).elements() {
                let value = element.value();
                for (_, name) in TYPES {
                    assert_eq!(Types::named(name).unwrap().has(value), *name == value.type_name());
                }
                assert_eq!(Types::named("number").unwrap().has(value), value.is_number());
            }
        }
    }
}
