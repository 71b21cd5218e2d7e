//! `$regex`: matching strings with a pattern.
//!
//! A pattern with look-around or back-references may need more steps than are allowed. That is an error of the whole filter, not an answer
//! about one value: the thread remembers it until the filter has been evaluated ([`with_step_limit`]).

use std::cell::Cell;
use std::sync::Arc;

use regex_syntax::hir::{Hir, HirKind, Look};

use crate::doc::Value;
use crate::error::{ErrorCode, Result};
use crate::query::expr::regex::{Engine, RegexSource, gave_up};

thread_local! {
    /// A match was given up since the evaluation of a filter began.
    static GAVE_UP: Cell<bool> = const { Cell::new(false) };
}

/// Calls `evaluate` of a filter with patterns that backtrack.
///
/// # Errors
/// Those of `evaluate`; `Location51156` if a match was given up.
pub(super) fn with_step_limit<T>(evaluate: impl FnOnce() -> Result<T>) -> Result<T> {
    GAVE_UP.set(false);
    let found = evaluate()?;
    if GAVE_UP.get() { Err(gave_up()) } else { Ok(found) }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Arc<Engine<regex::bytes::Regex>>,
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
        let regex_source = RegexSource::new("$regex", source, options, ErrorCode::Location51091)?;
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
        match &*self.regex {
            Engine::Linear(regex) => regex.is_match(text),
            // Others would take as long, and the answer is an error in any case.
            Engine::Backtracking(_) if GAVE_UP.get() => false,
            Engine::Backtracking(regex) => {
                regex.is_match(&*String::from_utf8_lossy(text)).unwrap_or_else(|_| {
                    GAVE_UP.set(true);
                    false
                })
            }
        }
    }

    /// True if it has look-around or back-references, so that a match may be given up.
    pub(in crate::query) fn backtracks(&self) -> bool {
        matches!(*self.regex, Engine::Backtracking(_))
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
    fn look_around_and_back_references_match_as_in_perl_or_give_up() {
        for (pattern, options, text, expected) in [
            ("^(?!draft)", "", "draft 1", false),
            ("^(?!draft)", "", "final", true),
            ("(?<=a)b", "", "ab", true),
            ("(?<=a)b", "", "cb", false),
            ("(\\w)\\1", "", "hello", true),
            ("(\\w)\\1", "", "helo", false),
            ("(?=A)a", "i", "xa", true),
            ("(?=a) b?", "x", "a", true),
        ] {
            let found = Pattern::new(pattern, options).unwrap().finds(text.as_bytes());
            assert_eq!(found, expected, "/{pattern}/{options} on {text:?}");
        }
        let filter = |pattern: &str| {
            crate::query::Filter::parse(&bson::rawdoc! { "a": { "$not": { "$regex": pattern } } }).unwrap()
        };
        let document = bson::rawdoc! { "a": "a".repeat(40) };
        let endless = filter("^((a+)\\2?)+(?!a)[bd]");
        assert_eq!(endless.matches(&document).unwrap_err().code, ErrorCode::Location51156);
        assert!(filter("(?=c)").matches(&document).unwrap(), "the next filter is not affected");
    }

    #[test]
    fn invalid_patterns_and_options_are_refused() {
        let code = |pattern: &str, options: &str| Pattern::new(pattern, options).unwrap_err().code;
        assert_eq!(code("a(", ""), ErrorCode::Location51091);
        assert_eq!(code("(?=a", ""), ErrorCode::Location51091);
        assert_eq!(code("(a)\\2", ""), ErrorCode::Location51091);
        assert_eq!(code(&"a".repeat(40_000), ""), ErrorCode::Location51091);
        assert_eq!(code("(((a{100}){100}){100}){100}", ""), ErrorCode::Location51091);
        assert_eq!(code("a", "g"), ErrorCode::Location51108);
    }
}
