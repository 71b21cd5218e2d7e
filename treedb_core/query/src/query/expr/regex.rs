//! Compiles regular expressions for filters and expressions: options, limits, errors.
//!
//! Patterns are those of the `regex` crate: Perl's without look-around and back-references, which makes matching linear in
//! the length of the string. A pattern that has them is one of the `fancy-regex` crate, which goes back and tries again, as Perl does, but not
//! more than [`MAX_STEPS`] times for one string: beyond that there is an error, and no answer. The options `i m s x` have MongoDB's meaning, and
//! `u` has none.

use regex_syntax::hir::Hir;

use crate::error::{ErrorCode, QueryError, Result};

/// Longest pattern, in bytes: MongoDB's limit.
const MAX_PATTERN: usize = 32_764;
/// Bytes a compiled pattern may take.
const MAX_COMPILED: usize = 10 << 20;
/// Times that a match of one string may go back to try something else.
const MAX_STEPS: usize = 1_000_000;

/// A pattern and its options, checked.
#[derive(Debug, Clone, Copy)]
pub(in crate::query) struct RegexSource<'p> {
    pattern: &'p str,
    options: &'p str,
    /// The code of the errors of a pattern that is not valid: expressions and filters have one each.
    invalid: ErrorCode,
}

/// The builders have methods with the same names, but no common trait.
macro_rules! with_options {
    ($self:expr, $builder:expr) => {
        $builder
            .case_insensitive($self.has('i'))
            .multi_line($self.has('m'))
            .dot_matches_new_line($self.has('s'))
            .ignore_whitespace($self.has('x'))
    };
}

impl<'p> RegexSource<'p> {
    /// Checks pattern and options; `operator` is named in error messages, and `invalid` is its code of a pattern that is
    /// not valid.
    ///
    /// # Errors
    /// `Location51108` for an unknown option, `invalid` for a pattern that is too long.
    pub(in crate::query) fn new(
        operator: &str,
        pattern: &'p str,
        options: &'p str,
        invalid: ErrorCode,
    ) -> Result<Self> {
        if let Some(flag) = options.chars().find(|flag| !"imsxu".contains(*flag)) {
            return Err(QueryError::new(
                ErrorCode::Location51108,
                format!("{operator} invalid flag in regex options: {flag}"),
            ));
        }
        let source = RegexSource { pattern, options, invalid };
        if pattern.len() > MAX_PATTERN {
            return Err(source.invalid(&format!("it is longer than {MAX_PATTERN} bytes")));
        }
        Ok(source)
    }

    fn invalid(self, why: &str) -> QueryError {
        QueryError::new(self.invalid, format!("Regular expression is invalid: {why}"))
    }

    fn has(self, flag: char) -> bool {
        self.options.contains(flag)
    }

    /// Compiles it for matching bytes, which need not be UTF-8.
    ///
    /// # Errors
    /// The code given to [`Self::new`] for a pattern that is not valid, or takes too much memory.
    pub(in crate::query) fn for_bytes(self) -> Result<Engine<regex::bytes::Regex>> {
        let mut builder = regex::bytes::RegexBuilder::new(self.pattern);
        let built = with_options!(self, builder).size_limit(MAX_COMPILED).build();
        built.map(Engine::Linear).or_else(|error| self.backtracking(&error))
    }

    /// Compiles it for matching strings.
    ///
    /// # Errors
    /// As [`Self::for_bytes`].
    pub(in crate::query) fn for_text(self) -> Result<Engine<regex::Regex>> {
        let mut builder = regex::RegexBuilder::new(self.pattern);
        let built = with_options!(self, builder).size_limit(MAX_COMPILED).build();
        built.map(Engine::Linear).or_else(|error| self.backtracking(&error))
    }

    /// Compiles a pattern that the first engine has refused with `error`.
    fn backtracking<R>(self, error: &regex::Error) -> Result<Engine<R>> {
        // Too large for the first is too large for both.
        if matches!(error, regex::Error::CompiledTooBig(_)) {
            return Err(self.invalid(&error.to_string()));
        }
        let mut builder = fancy_regex::RegexBuilder::new(self.pattern);
        let builder =
            with_options!(self, builder).backtrack_limit(MAX_STEPS).delegate_size_limit(MAX_COMPILED);
        builder.build().map(Engine::Backtracking).map_err(|_| self.invalid(&error.to_string()))
    }

    /// The syntax tree of the pattern; `None` if the pattern is not valid.
    pub(in crate::query) fn tree(self) -> Option<Hir> {
        let mut builder = regex_syntax::ParserBuilder::new();
        with_options!(self, builder).utf8(false).build().parse(self.pattern).ok()
    }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(in crate::query) enum Engine<R> {
    /// Linear in the length of the string.
    Linear(R),
    /// With look-around or back-references.
    Backtracking(fancy_regex::Regex),
}

/// The error of a match that was given up.
pub(in crate::query) fn gave_up() -> QueryError {
    QueryError::new(
        ErrorCode::Location51156,
        format!(
            "a regular expression with look-around or back-references took more than {MAX_STEPS} steps for one string"
        ),
    )
}
