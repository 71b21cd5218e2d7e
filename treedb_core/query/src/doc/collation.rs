//! Collations: comparing texts as people do, letters before accents before case.
//!
//! A text is *folded*: replaced by one whose bytes compare as the collation compares the text. Everything that
//! compares or encodes values then works on folded ones and knows nothing of collations. What a text is folded to,
//! by strength:
//!
//! | strength | folded text |
//! |---|---|
//! | 1 | letters: decomposed (NFD), marks left out, case folded |
//! | 2 | letters, `00`, the text decomposed and case folded: accents count where letters are equal |
//! | 3 | as 2, `00`, for each character `1` if it is in upper case, else `0`; `00`, the text decomposed |
//!
//! No text is folded to one with `00` in its letters other than by holding it itself, and that is below every
//! letter, so a text comes before those it is the beginning of. All locales share this order, which is that of
//! Unicode's root collation for the letters of one script; a language's own rules (Swedish å after z) are not
//! known. Names of fields, code and regular expressions are not folded.

use std::cmp::Ordering;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::compare::compare;
use super::key::encode_value;
use super::value::{Doc, Value};
use super::write::Writer;
use super::{OwnedValue, shown};
use crate::error::{ErrorCode, QueryError, Result};

/// How texts compare.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Collation {
    /// By their bytes.
    #[default]
    Simple,
    /// As in a language.
    Folded {
        /// The language, as it was given: `en`.
        locale: String,
        /// What decides.
        strength: Strength,
    },
}

/// Which differences count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strength {
    /// 1: of letters.
    Letters,
    /// 2: of accents too.
    Accents,
    /// 3: of case too.
    Case,
}

impl Collation {
    /// Reads `{ locale: "en", strength: 2 }`; without a strength it is 3.
    ///
    /// # Errors
    /// `BadValue` for a locale or option that does not exist, `NotImplemented` for one that would change the order
    /// in a way that is not built here, `FailedToParse` without a locale.
    pub fn parse(spec: &RawDocument) -> Result<Self> {
        let (mut locale, mut strength) = (None, Strength::Case);
        for element in Doc::from(spec).elements() {
            let (name, value) = (element.name_str(), element.value());
            let plain = match (name, value) {
                ("locale", Value::String(text)) => {
                    locale = Some(String::from_utf8_lossy(text).into_owned());
                    true
                }
                ("strength", value) => {
                    strength = match value.as_integer() {
                        Some(1) => Strength::Letters,
                        Some(2) => Strength::Accents,
                        Some(3) => Strength::Case,
                        Some(4 | 5) => return Err(unsupported(name, value)),
                        _ => {
                            return Err(QueryError::bad_value(format!(
                                "collation: 'strength' must be between 1 and 5, got {}",
                                shown(value)
                            )));
                        }
                    };
                    true
                }
                ("caseLevel" | "numericOrdering" | "backwards", value) => value == Value::Bool(false),
                ("caseFirst", value) => value == Value::String(b"off"),
                ("alternate", value) => value == Value::String(b"non-ignorable"),
                ("maxVariable", Value::String(b"punct" | b"space")) => true,
                // Texts are always normalized; the version is that of the rules a peer had.
                ("normalization", Value::Bool(_)) | ("version", _) => true,
                _ => {
                    return Err(QueryError::bad_value(format!(
                        "collation: the field '{name}' is unknown or has the wrong type"
                    )));
                }
            };
            if !plain {
                return Err(unsupported(name, value));
            }
        }
        let Some(locale) = locale else {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                "collation: the field 'locale' is required, as in { locale: \"en\" }",
            ));
        };
        if locale == "simple" {
            return Ok(Collation::Simple);
        }
        let letters = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let language = locale.split(['_', '-', '@', '=']);
        if !language.clone().all(letters) || !language.take(1).all(|first| matches!(first.len(), 2..=4)) {
            return Err(QueryError::bad_value(format!("collation: the locale '{locale}' does not exist")));
        }
        Ok(Collation::Folded { locale, strength })
    }

    /// True if texts compare by their bytes.
    pub fn is_simple(&self) -> bool {
        matches!(self, Collation::Simple)
    }

    /// The order of two values.
    #[inline]
    pub fn compare(&self, a: Value<'_>, b: Value<'_>) -> Ordering {
        if self.is_simple() {
            return compare(a, b);
        }
        let (x, y) = (self.fold(a), self.fold(b));
        compare(x.as_ref().map_or(a, OwnedValue::value), y.as_ref().map_or(b, OwnedValue::value))
    }

    /// Appends the value's key: those of two values compare bytewise as the values do.
    #[inline]
    pub fn encode(&self, value: Value<'_>, key: &mut Vec<u8>) {
        match self.fold(value) {
            Some(folded) => encode_value(folded.value(), key),
            None => encode_value(value, key),
        }
    }

    /// The collation as `listIndexes` shows it; `None` for the simple one.
    pub fn document(&self) -> Option<RawDocumentBuf> {
        let Collation::Folded { locale, strength } = self else { return None };
        Some(rawdoc! {
            "locale": locale.as_str(),
            "caseLevel": false,
            "caseFirst": "off",
            "strength": strength.number(),
            "numericOrdering": false,
            "alternate": "non-ignorable",
            "maxVariable": "punct",
            "normalization": false,
            "backwards": false,
            "version": "57.1",
        })
    }

    /// The value whose plain comparison is this collation's comparison of `value`; `None` if that is `value` itself.
    #[inline]
    pub fn fold(&self, value: Value<'_>) -> Option<OwnedValue> {
        match self {
            Collation::Simple => None,
            Collation::Folded { strength, .. } => strength.fold(value),
        }
    }
}

impl Strength {
    fn number(self) -> i32 {
        match self {
            Strength::Letters => 1,
            Strength::Accents => 2,
            Strength::Case => 3,
        }
    }

    fn fold(self, value: Value<'_>) -> Option<OwnedValue> {
        if !holds_text(value) {
            return None;
        }
        let mut folded = Writer::new(64);
        self.write(b"", value, &mut folded);
        Some(OwnedValue::from_holder(folded))
    }

    fn write(self, name: &[u8], value: Value<'_>, out: &mut Writer) {
        match value {
            Value::String(text) | Value::Symbol(text) => {
                let text = self.text(&String::from_utf8_lossy(text));
                out.value(name, Value::String(text.as_bytes()));
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

    fn text(self, text: &str) -> String {
        let cased = |c: char| c.to_uppercase().flat_map(char::to_lowercase);
        let letters = text.nfd().filter(|c| !is_combining_mark(*c)).flat_map(cased);
        let mut folded: String = letters.collect();
        if self != Strength::Letters {
            folded.push('\0');
            folded.extend(text.nfd().flat_map(cased));
        }
        if self == Strength::Case {
            folded.push('\0');
            folded.extend(text.nfd().map(|c| if c.is_uppercase() { '1' } else { '0' }));
            folded.push('\0');
            folded.extend(text.nfd());
        }
        folded
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

fn unsupported(name: &str, value: Value<'_>) -> QueryError {
    QueryError::new(
        ErrorCode::NotImplemented,
        format!(
            "collation: {name}: {} is not supported: strengths 1 to 3 are, without further options",
            shown(value)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(strength: i32, a: &str, b: &str) -> Ordering {
        let collation = Collation::parse(&rawdoc! { "locale": "en", "strength": strength }).unwrap();
        let folded = |text: &str| collation.fold(Value::String(text.as_bytes())).unwrap();
        compare(folded(a).value(), folded(b).value())
    }

    #[test]
    fn letters_come_before_accents_and_accents_before_case() {
        for (a, b, first) in [
            ("cafe", "Café", [Ordering::Equal, Ordering::Less, Ordering::Less]),
            ("cafe", "CAFE", [Ordering::Equal, Ordering::Equal, Ordering::Less]),
            ("résumé", "resumes", [Ordering::Less; 3]),
            ("Straße", "STRASSE", [Ordering::Equal, Ordering::Equal, Ordering::Less]),
            ("a", "ab", [Ordering::Less; 3]),
            ("B", "a", [Ordering::Greater; 3]),
            ("\u{e9}", "e\u{301}", [Ordering::Equal; 3]),
            ("", "a", [Ordering::Less; 3]),
        ] {
            for (strength, wanted) in (1..=3).zip(first) {
                let found = order(strength, a, b);
                let equal_but_spelled = strength == 3 && wanted == Ordering::Less && a.starts_with("Stra");
                assert!(
                    found == wanted || equal_but_spelled && found.is_ne(),
                    "{a} {b} {strength}: {found:?}"
                );
                assert_eq!(order(strength, b, a), found.reverse());
            }
        }
    }

    #[test]
    fn texts_inside_of_documents_and_arrays_are_folded_and_nothing_else_is() {
        let collation = Collation::parse(&rawdoc! { "locale": "fr", "strength": 1 }).unwrap();
        let (doc, folded) =
            (rawdoc! { "A": ["É", 1, { "B": "X" }] }, rawdoc! { "A": ["e", 1, { "B": "x" }] });
        let found = collation.fold(Value::Document((&doc).into())).unwrap();
        assert_eq!(found.value(), Value::Document((&folded).into()));
        let plain = rawdoc! { "a": [1, null] };
        assert!(collation.fold(Value::Document((&plain).into())).is_none());
        assert!(Collation::Simple.fold(Value::String(b"A")).is_none());
    }

    #[test]
    fn a_collation_is_read_and_shown_and_what_is_not_built_is_refused() {
        let shown =
            Collation::parse(&rawdoc! { "locale": "en_US", "strength": 2.0 }).unwrap().document().unwrap();
        assert_eq!(Collation::parse(&shown).unwrap().document().unwrap(), shown);
        assert_eq!(shown.get_i32("strength").unwrap(), 2);
        assert!(Collation::parse(&rawdoc! { "locale": "simple" }).unwrap().is_simple());
        for (spec, code) in [
            (rawdoc! {}, ErrorCode::FailedToParse),
            (rawdoc! { "locale": "" }, ErrorCode::BadValue),
            (rawdoc! { "locale": "no such place" }, ErrorCode::BadValue),
            (rawdoc! { "locale": "en", "strength": 9 }, ErrorCode::BadValue),
            (rawdoc! { "locale": "en", "strength": 4 }, ErrorCode::NotImplemented),
            (rawdoc! { "locale": "en", "numericOrdering": true }, ErrorCode::NotImplemented),
            (rawdoc! { "locale": "en", "flavour": 1 }, ErrorCode::BadValue),
        ] {
            assert_eq!(Collation::parse(&spec).unwrap_err().code, code, "{spec:?}");
        }
    }
}
