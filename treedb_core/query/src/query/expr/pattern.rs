//! `$regexMatch`, `$regexFind` and `$regexFindAll`.
//!
//! A pattern is usually the same for all documents, so each thread caches the compiled patterns it used last.

use std::cell::RefCell;
use std::rc::Rc;

use regex::Regex;

use crate::doc::Value;
use crate::doc::write::{ArrayWriter, Writer};
use crate::error::{QueryError, Result};
use crate::query::expr::regex::RegexSource;

use super::number::wrong_type;
use super::string::utf8;
use super::{Found, Scope, nullish};

/// Compiled patterns in a thread's cache.
const CACHED_PATTERNS: usize = 16;

/// Pattern, options, and the regular expression compiled from them.
type CachedPattern = (String, String, Rc<Regex>);

thread_local! {
    /// The most recently used pattern is the last.
    static CACHE: RefCell<Vec<CachedPattern>> = const { RefCell::new(Vec::new()) };
}

fn compile(operator: &str, pattern: &str, options: &str) -> Result<Rc<Regex>> {
    let found = CACHE.with_borrow_mut(|cache| {
        let at = cache.iter().position(|entry| entry.0 == pattern && entry.1 == options)?;
        let entry = cache.remove(at);
        let regex = Rc::clone(&entry.2);
        cache.push(entry);
        Some(regex)
    });
    if let Some(regex) = found {
        return Ok(regex);
    }
    let regex = RegexSource::new(operator, pattern, options)?.for_text()?;
    let regex = Rc::new(regex);
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= CACHED_PATTERNS {
            cache.remove(0);
        }
        cache.push((pattern.to_owned(), options.to_owned(), Rc::clone(&regex)));
    });
    Ok(regex)
}

/// The string to search and the pattern; `None` if either is null.
fn operands<'a>(operator: &str, args: &[Found<'a>]) -> Result<Option<(&'a str, Rc<Regex>)>> {
    let &[input, regex, options] = args else { return Ok(None) };
    let options = match options {
        Some(Value::MaxKey) => "",
        found if nullish(found) => "",
        Some(Value::String(options)) => utf8(options),
        found => return Err(wrong_type(&format!("{operator} needs 'options' to be a string, found"), found)),
    };
    let (pattern, inline_options) = match regex {
        Some(Value::String(pattern)) => (utf8(pattern), ""),
        Some(Value::Regex(pattern, inline_options)) => (utf8(pattern), utf8(inline_options)),
        found if nullish(found) => return Ok(None),
        found => {
            return Err(wrong_type(
                &format!("{operator} needs 'regex' to be a string or regex, found"),
                found,
            ));
        }
    };
    if !inline_options.is_empty() && !options.is_empty() {
        return Err(QueryError::bad_value(format!(
            "{operator}: found regex options specified in both 'regex' and 'options' fields"
        )));
    }
    let regex = compile(operator, pattern, if inline_options.is_empty() { options } else { inline_options })?;
    match input {
        Some(Value::String(text) | Value::Symbol(text)) => Ok(Some((utf8(text), regex))),
        found if nullish(found) => Ok(None),
        found => Err(wrong_type(&format!("{operator} needs 'input' to be a string, found"), found)),
    }
}

pub(super) fn regex_match<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let found = operands("$regexMatch", args)?;
    Ok(Some(Value::Bool(found.is_some_and(|(text, regex)| regex.is_match(text)))))
}

/// MongoDB's document for one match; `index` is the number of code points before it.
fn match_document<'a>(scope: &Scope<'a>, captures: &regex::Captures<'_>, index: usize) -> Result<Value<'a>> {
    let mut out = Writer::new(64);
    let whole = captures.get(0).map_or("", |whole| whole.as_str());
    out.value(b"match", Value::String(whole.as_bytes()));
    out.value(b"idx", Value::Int32(i32::try_from(index).unwrap_or(i32::MAX)));
    let mut groups = ArrayWriter::new();
    for group in captures.iter().skip(1) {
        groups.push(group.map_or(Value::Null, |group| Value::String(group.as_str().as_bytes())));
    }
    out.value(b"captures", scope.array(groups)?);
    scope.document(out)
}

pub(super) fn regex_find<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let Some((text, regex)) = operands("$regexFind", args)? else { return Ok(Some(Value::Null)) };
    let Some(captures) = regex.captures(text) else { return Ok(Some(Value::Null)) };
    let start = captures.get(0).map_or(0, |whole| whole.start());
    let index = text.get(..start).unwrap_or_default().chars().count();
    match_document(scope, &captures, index).map(Some)
}

pub(super) fn regex_find_all<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut out = ArrayWriter::new();
    if let Some((text, regex)) = operands("$regexFindAll", args)? {
        let (mut index, mut reached) = (0, 0);
        for captures in regex.captures_iter(text) {
            let start = captures.get(0).map_or(0, |whole| whole.start());
            index += text.get(reached..start).unwrap_or_default().chars().count();
            reached = start;
            out.push(match_document(scope, &captures, index)?);
            scope.check_size(out.bytes())?;
        }
    }
    scope.array(out).map(Some)
}
