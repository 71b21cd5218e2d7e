//! Collations: comparing strings by the rules of a language.
//!
//! The rules are the Unicode collation algorithm with CLDR's root order and its tailorings for languages, as ICU4X
//! has them (the crate `icu_collator` and its data, CLDR 49). A string has a *sort key* under a collation: bytes that
//! compare as the collation compares the strings. A value is *folded* by replacing its strings with their sort keys;
//! what compares or encodes folded values needs to know nothing about collations. Two strings alone are compared
//! without making their keys, which is faster and gives the same order. Names of fields, code and regular expressions
//! are not folded.
//!
//! | file | what it holds |
//! |---|---|
//! | `spec` | the options of a collation, their defaults and which go together |
//! | `locales` | the locales and the identifiers of their rules |
//!
//! The keys of indexes with a collation contain sort keys, and ICU4X may change their bytes with any version. Hence
//! the versions of the crates that decide about them are pinned in `Cargo.toml`, a test compares the bytes with those
//! of [`KEY_VERSION`], and the catalog records that version with each index: an index of another version is rebuilt
//! when the database is opened (`crate::collection`, `index_rebuild`).

mod locales;
mod spec;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use icu_collator::CollatorBorrowed;

use self::spec::Spec;
use super::OwnedValue;
use super::compare::compare;
use super::key::encode_value;
use super::value::Value;
use super::write::Writer;
use crate::error::Result;

/// Version of the bytes of sort keys. 1 was the order of TreeDB's own that preceded ICU4X; 2 is `icu_collator` 2.4.0
/// with `icu_collator_data` 2.4.0.
pub const KEY_VERSION: i32 = 2;

/// How strings compare.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Collation {
    /// By their bytes.
    #[default]
    Simple,
    /// By the rules of a language.
    Language(Arc<Rules>),
}

/// The rules of a language with all options of a collation.
#[derive(Debug)]
pub struct Rules {
    spec: Spec,
    collator: CollatorBorrowed<'static>,
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Eq for Rules {}

impl Hash for Rules {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.hash(state);
    }
}

impl Collation {
    /// Reads `{ locale: "en", strength: 2 }`; options that are not there have the locale's defaults.
    ///
    /// # Errors
    /// `Location40414` without a locale, `Location40415` for an unknown field, `TypeMismatch`; `BadValue` for a locale
    /// or a value that does not exist and for options that have no effect together; `FailedToParse` for the locale
    /// `simple` with other fields; `NotImplemented` for rules that are not available.
    pub fn parse(spec: &RawDocument) -> Result<Self> {
        Ok(match Spec::parse(spec)? {
            None => Collation::Simple,
            Some((spec, collator)) => Collation::Language(Arc::new(Rules { spec, collator })),
        })
    }

    /// True if strings compare by their bytes.
    pub fn is_simple(&self) -> bool {
        matches!(self, Collation::Simple)
    }

    /// The order of two values.
    #[inline]
    pub fn compare(&self, a: Value<'_>, b: Value<'_>) -> Ordering {
        let Collation::Language(rules) = self else { return compare(a, b) };
        if let (Value::String(a) | Value::Symbol(a), Value::String(b) | Value::Symbol(b)) = (a, b) {
            return rules.collator.compare_utf8(a, b);
        }
        let (x, y) = (rules.fold(a), rules.fold(b));
        compare(x.as_ref().map_or(a, OwnedValue::value), y.as_ref().map_or(b, OwnedValue::value))
    }

    /// Appends the value's key: those of two values compare bytewise as the values do.
    #[inline]
    pub fn encode(&self, value: Value<'_>, key: &mut Vec<u8>) {
        match (self, value) {
            (Collation::Language(rules), Value::String(text) | Value::Symbol(text)) => {
                encode_value(Value::String(&rules.sort_key(text)), key);
            }
            _ => match self.fold(value) {
                Some(folded) => encode_value(folded.value(), key),
                None => encode_value(value, key),
            },
        }
    }

    /// The collation as `listIndexes` shows it; `None` for the simple one.
    pub fn document(&self) -> Option<RawDocumentBuf> {
        match self {
            Collation::Simple => None,
            Collation::Language(rules) => Some(rules.spec.document()),
        }
    }

    /// The value whose plain comparison is this collation's comparison of `value`; `None` if that is `value` itself.
    /// Its strings are sort keys, hence not UTF-8.
    #[inline]
    pub fn fold(&self, value: Value<'_>) -> Option<OwnedValue> {
        match self {
            Collation::Simple => None,
            Collation::Language(rules) => rules.fold(value),
        }
    }
}

impl Rules {
    fn sort_key(&self, text: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(2 * text.len() + 8);
        let Ok(()) = self.collator.write_sort_key_utf8_to(text, &mut key);
        key
    }

    fn fold(&self, value: Value<'_>) -> Option<OwnedValue> {
        if !holds_text(value) {
            return None;
        }
        let mut folded = Writer::new(64);
        self.write(b"", value, &mut folded);
        Some(OwnedValue::from_holder(folded))
    }

    fn write(&self, name: &[u8], value: Value<'_>, out: &mut Writer) {
        match value {
            Value::String(text) | Value::Symbol(text) => {
                out.value(name, Value::String(&self.sort_key(text)));
            }
            Value::Document(inner) | Value::Array(inner) => {
                let open = match value {
                    Value::Array(_) => out.open_array(name),
                    _ => out.open_document(name),
                };
                for element in inner.elements() {
                    self.write(element.name, element.value(), out);
                }
                out.close(open);
            }
            value => out.value(name, value),
        }
    }
}

/// True if a collation has a say in comparisons with the value.
pub(crate) fn holds_text(value: Value<'_>) -> bool {
    match value {
        Value::String(_) | Value::Symbol(_) => true,
        Value::Document(inner) | Value::Array(inner) => {
            inner.elements().any(|element| holds_text(element.value()))
        }
        _ => false,
    }
}
