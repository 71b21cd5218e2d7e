//! `$regexMatch`, `$regexFind` and `$regexFindAll`.
//!
//! A pattern is usually the same for all documents, so each thread caches the compiled patterns it used last.

use std::cell::RefCell;
use std::rc::Rc;

use crate::doc::Value;
use crate::doc::write::{ArrayWriter, Writer};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::regex::{Engine, RegexSource, gave_up};

use super::number::wrong_type;
use super::string::utf8;
use super::{Found, Scope, nullish};

type Regex = Engine<regex::Regex>;

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
    let regex = Rc::new(RegexSource::new(operator, pattern, options, ErrorCode::Location51111)?.for_text()?);
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
        found => {
            return Err(wrong_type(
                ErrorCode::Location51106,
                &format!("{operator} needs 'options' to be a string, found"),
                found,
            ));
        }
    };
    let (pattern, inline_options) = match regex {
        Some(Value::String(pattern)) => (utf8(pattern), ""),
        Some(Value::Regex(pattern, inline_options)) => (utf8(pattern), utf8(inline_options)),
        found if nullish(found) => return Ok(None),
        found => {
            return Err(wrong_type(
                ErrorCode::Location51105,
                &format!("{operator} needs 'regex' to be a string or regex, found"),
                found,
            ));
        }
    };
    if !inline_options.is_empty() && !options.is_empty() {
        return Err(QueryError::new(
            ErrorCode::Location51107,
            format!("{operator}: found regex options specified in both 'regex' and 'options' fields"),
        ));
    }
    let regex = compile(operator, pattern, if inline_options.is_empty() { options } else { inline_options })?;
    match input {
        Some(Value::String(text) | Value::Symbol(text)) => Ok(Some((utf8(text), regex))),
        found if nullish(found) => Ok(None),
        found => Err(wrong_type(
            ErrorCode::Location51104,
            &format!("{operator} needs 'input' to be a string, found"),
            found,
        )),
    }
}

impl Regex {
    fn is_match(&self, text: &str) -> Result<bool> {
        match self {
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).map_err(|_| gave_up()),
        }
    }

    /// Calls `visit` with the groups of each match, the whole first, until it returns false.
    fn for_each(&self, text: &str, visit: &mut dyn FnMut(&[Group<'_>]) -> Result<bool>) -> Result<()> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        match self {
            Engine::Linear(regex) => {
                for captures in regex.captures_iter(text) {
                    groups.clear();
                    groups.extend(
                        captures.iter().map(|group| group.map(|group| (group.start(), group.as_str()))),
                    );
                    if !visit(&groups)? {
                        break;
                    }
                }
            }
            Engine::Backtracking(regex) => {
                for captures in regex.captures_iter(text) {
                    let captures = captures.map_err(|_| gave_up())?;
                    groups.clear();
                    groups.extend(
                        captures.iter().map(|group| group.map(|group| (group.start(), group.as_str()))),
                    );
                    if !visit(&groups)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Where a group of a match begins, and its text; `None` if it took no part.
type Group<'t> = Option<(usize, &'t str)>;

pub(super) fn regex_match<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let found = match operands("$regexMatch", args)? {
        Some((text, regex)) => regex.is_match(text)?,
        None => false,
    };
    Ok(Some(Value::Bool(found)))
}

/// MongoDB's document for one match; `index` is the number of code points before it.
fn match_document<'a>(scope: &Scope<'a>, groups: &[Group<'_>], index: usize) -> Result<Value<'a>> {
    let mut out = Writer::new(64);
    let whole = groups.first().copied().flatten().map_or("", |(_, text)| text);
    out.value(b"match", Value::String(whole.as_bytes()));
    out.value(b"idx", Value::Int32(i32::try_from(index).unwrap_or(i32::MAX)));
    let mut captures = ArrayWriter::new();
    for group in groups.iter().skip(1) {
        captures.push(group.map_or(Value::Null, |(_, text)| Value::String(text.as_bytes())));
    }
    out.value(b"captures", scope.array(captures)?);
    scope.document(out)
}

/// Where a match begins.
fn start_of(groups: &[Group<'_>]) -> usize {
    groups.first().copied().flatten().map_or(0, |(start, _)| start)
}

pub(super) fn regex_find<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let Some((text, regex)) = operands("$regexFind", args)? else { return Ok(Some(Value::Null)) };
    let mut found = Value::Null;
    regex.for_each(text, &mut |groups| {
        let index = text.get(..start_of(groups)).unwrap_or_default().chars().count();
        found = match_document(scope, groups, index)?;
        Ok(false)
    })?;
    Ok(Some(found))
}

pub(super) fn regex_find_all<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut out = ArrayWriter::new();
    if let Some((text, regex)) = operands("$regexFindAll", args)? {
        let (mut index, mut reached) = (0, 0);
        regex.for_each(text, &mut |groups| {
            let start = start_of(groups);
            index += text.get(reached..start).unwrap_or_default().chars().count();
            reached = start;
            out.push(match_document(scope, groups, index)?);
            scope.check_size(out.bytes())?;
            Ok(true)
        })?;
    }
    scope.array(out).map(Some)
}
