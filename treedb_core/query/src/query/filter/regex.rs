//! `$regex`: matching strings with a pattern.

use std::sync::Arc;

use regex_syntax::hir::{Hir, HirKind, Look};

use crate::doc::Value;
use crate::error::Result;
use crate::query::expr::regex::RegexSource;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Arc<regex::bytes::Regex>,
    source: Box<str>,
    options: Box<str>,
    prefix: Box<str>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.options == other.options
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `Location51108` for an unknown option, `Location51091` for a pattern that is not valid.
    pub fn new(source: &str, options: &str) -> Result<Self> {
        let regex_source = RegexSource::new("$regex", source, options)?;
        let (regex, tree) = (regex_source.for_bytes()?, regex_source.tree());
        let mut options: Vec<char> = options.chars().collect();
        options.sort_unstable();
        options.dedup();
        Ok(Pattern {
            regex: Arc::new(regex),
            source: source.into(),
            options: options.into_iter().collect::<String>().into(),
            prefix: tree.map(|tree| literal_prefix(&tree)).unwrap_or_default().into(),
        })
    }

    /// The pattern of a regular expression value.
    pub(super) fn of(pattern: &[u8], options: &[u8]) -> Result<Self> {
        Self::new(&String::from_utf8_lossy(pattern), &String::from_utf8_lossy(options))
    }

    /// The prefix that every matching string has; may be empty.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The pattern and its options, sorted, as they are compared with regular expression values.
    pub fn source(&self) -> (&str, &str) {
        (&self.source, &self.options)
    }

    /// True if the pattern matches anywhere in the string.
    pub fn finds(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// True for strings that match, and for the same pattern as a value.
    pub(super) fn passes(&self, value: Value<'_>) -> bool {
        match value {
            Value::String(text) | Value::Symbol(text) => self.finds(text),
            Value::Regex(source, options) => {
                source == self.source.as_bytes() && options == self.options.as_bytes()
            }
            _ => false,
        }
    }
}

/// The literal text at the start of a pattern that is anchored at the beginning.
fn literal_prefix(tree: &Hir) -> String {
    let mut prefix = Vec::new();
    if let HirKind::Concat(parts) = tree.kind()
        && let Some((first, rest)) = parts.split_first()
        && matches!(first.kind(), HirKind::Look(Look::Start))
    {
        for part in rest {
            let HirKind::Literal(literal) = part.kind() else { break };
            prefix.extend_from_slice(&literal.0);
        }
    }
    // A literal may end inside a character, if the alternatives that follow share its first bytes.
    match String::from_utf8(prefix) {
        Ok(text) => text,
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(error.as_bytes().get(..whole).unwrap_or_default()).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn the_text_after_an_anchor_is_the_prefix() {
        for (pattern, options, prefix) in [
            ("^abc", "", "abc"),
            ("^abc.*", "", "abc"),
            ("^abc?", "", "ab"),
            ("^ab*", "", "a"),
            ("\\Aab", "", "ab"),
            ("^a\\.b", "", "a.b"),
            ("^a b", "x", "ab"),
            ("^abc", "i", ""),
            ("^12a", "i", "12"),
            ("^abc", "m", ""),
            ("abc", "", ""),
            ("^a|b", "", ""),
            ("^(?:ab)", "", "ab"),
            ("^[ab]c", "", ""),
            ("^größe", "", "größe"),
            ("^", "", ""),
        ] {
            assert_eq!(Pattern::new(pattern, options).unwrap().prefix(), prefix, "/{pattern}/{options}");
        }
    }

    #[test]
    fn options_mean_what_they_mean_in_mongodb() {
        for (pattern, options, text, expected) in [
            ("b", "", "abc", true),
            ("B", "", "abc", false),
            ("B", "i", "abc", true),
            ("^b", "", "a\nb", false),
            ("^b", "m", "a\nb", true),
            ("a.b", "", "a\nb", false),
            ("a.b", "s", "a\nb", true),
            ("a b # c", "x", "ab", true),
            ("GRÖSSE", "i", "größe", false),
            ("GRÖ", "i", "größe", true),
        ] {
            let found = Pattern::new(pattern, options).unwrap().finds(text.as_bytes());
            assert_eq!(found, expected, "/{pattern}/{options} on {text:?}");
        }
    }

    #[test]
    fn invalid_patterns_and_options_are_refused() {
        let code = |pattern: &str, options: &str| Pattern::new(pattern, options).unwrap_err().code;
        assert_eq!(code("a(", ""), ErrorCode::Location51091);
        assert_eq!(code("(?=a)", ""), ErrorCode::Location51091);
        assert_eq!(code(&"a".repeat(40_000), ""), ErrorCode::Location51091);
        assert_eq!(code("(((a{100}){100}){100}){100}", ""), ErrorCode::Location51091);
        assert_eq!(code("a", "g"), ErrorCode::Location51108);
    }
}
