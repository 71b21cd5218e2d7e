//! Dotted paths of updates: reads, sets and removes the value at a path. A path with `$`, `$[]` or `$[id]`
//! stands for several paths; `positional` expands it into paths without these.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use bson::{Bson, Document};

use crate::doc::MAX_DEPTH;
use crate::doc::path::is_dollar_prefixed;
use crate::error::{ErrorCode, QueryError, Result};

/// How many nulls may be inserted to set an array element past the end: MongoDB's limit.
const MAX_PADDING: usize = 1_500_000;

/// A path of one or more field names or array positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    /// Parses a path.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let parts: Vec<String> = text.split('.').map(str::to_owned).collect();
        if parts.iter().any(String::is_empty) {
            let what = if text.is_empty() {
                "An empty update path is not valid.".to_owned()
            } else {
                format!("The update path '{text}' contains an empty field name, which is not allowed.")
            };
            return Err(QueryError::new(ErrorCode::EmptyFieldName, what));
        }
        // Documents nested deeper would be rejected anyway, but only after they have been built.
        if parts.len() > MAX_DEPTH {
            let start = parts.iter().take(4).cloned().collect::<Vec<_>>().join(".");
            return Err(QueryError::new(
                ErrorCode::Overflow,
                format!(
                    "the update path '{start}...' has {} parts, at most {MAX_DEPTH} are allowed",
                    parts.len()
                ),
            ));
        }
        if parts.first().is_some_and(|part| is_positional(part)) {
            return Err(QueryError::bad_value(format!(
                "Cannot have array filter identifier or positional (i.e. '$') element in the first position in path \
                 '{text}'"
            )));
        }
        if parts.iter().filter(|part| *part == "$").count() > 1 {
            return Err(QueryError::bad_value(format!(
                "Too many positional (i.e. '$') elements found in path '{text}'"
            )));
        }
        let refused = |(at, part): &(usize, &String)| match at {
            0 => part.starts_with('$'),
            _ => is_dollar_prefixed(part) && !is_positional(part),
        };
        if let Some((_, part)) = parts.iter().enumerate().find(refused) {
            return Err(QueryError::new(
                ErrorCode::DollarPrefixedFieldName,
                format!("The dollar ($) prefixed field '{part}' in '{text}' is not valid for storage."),
            ));
        }
        Ok(Path(parts))
    }

    /// A path whose parts are known to be valid.
    pub(super) fn of(parts: Vec<String>) -> Self {
        Path(parts)
    }

    /// The parts of the path.
    pub(super) fn parts(&self) -> &[String] {
        &self.0
    }

    /// True if it contains `$`, `$[]` or `$[id]`.
    pub(super) fn is_positional(&self) -> bool {
        self.0.iter().any(|part| is_positional(part))
    }

    /// The name of the first array on the path to the value, not counting the value itself.
    pub(super) fn first_array(&self, document: &Document) -> Option<&str> {
        let (first, rest) = self.0.split_first()?;
        let (mut name, mut value) = (first, document.get(first)?);
        for part in rest {
            value = match value {
                Bson::Array(_) => return Some(name),
                Bson::Document(document) => document.get(part)?,
                _ => return None,
            };
            name = part;
        }
        None
    }

    /// The path's last name.
    pub(super) fn last(&self) -> &str {
        self.0.last().map(String::as_str).unwrap_or_default()
    }

    /// True if `other` is this path or a path that contains it.
    pub(super) fn starts_with(&self, other: &Path) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The value at the path, `None` if it is missing.
    pub(super) fn get<'d>(&self, document: &'d Document) -> Option<&'d Bson> {
        let (first, rest) = self.0.split_first()?;
        let mut value = document.get(first)?;
        for part in rest {
            value = match value {
                Bson::Document(document) => document.get(part)?,
                Bson::Array(array) => array.get(position(part)?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// [`Path::get`], mutable.
    pub(super) fn get_mut<'d>(&self, document: &'d mut Document) -> Option<&'d mut Bson> {
        let (first, rest) = self.0.split_first()?;
        let mut value = document.get_mut(first)?;
        for part in rest {
            value = match value {
                Bson::Document(document) => document.get_mut(part)?,
                Bson::Array(array) => array.get_mut(position(part)?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// Sets the value, creating missing documents on the path.
    pub(super) fn set(&self, document: &mut Document, value: Bson) -> Result<()> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(()) };
        if rest.is_empty() {
            document.insert(first, value);
            return Ok(());
        }
        let slot = document.entry(first.clone()).or_insert_with(|| Bson::Document(Document::new()));
        self.set_in(slot, first, rest, value)
    }

    fn set_in<'p>(
        &self,
        mut slot: &mut Bson,
        mut name: &'p str,
        mut rest: &'p [String],
        value: Bson,
    ) -> Result<()> {
        while let Some((part, after)) = rest.split_first() {
            let last = after.is_empty();
            let empty = || if last { Bson::Null } else { Bson::Document(Document::new()) };
            slot = match slot {
                Bson::Document(document) => document.entry(part.clone()).or_insert_with(empty),
                Bson::Array(array) => {
                    let Some(at) = position(part) else {
                        return Err(self.not_viable(part, name, &Bson::Array(array.clone())));
                    };
                    if at > array.len() + MAX_PADDING {
                        return Err(QueryError::new(
                            ErrorCode::BadValue,
                            format!(
                                "setting '{self}' would insert over {MAX_PADDING} nulls before position {at}"
                            ),
                        ));
                    }
                    while array.len() < at {
                        array.push(Bson::Null);
                    }
                    if array.len() == at {
                        array.push(empty());
                    }
                    match array.get_mut(at) {
                        Some(slot) => slot,
                        None => return Ok(()),
                    }
                }
                other => {
                    let found = other.clone();
                    return Err(self.not_viable(part, name, &found));
                }
            };
            name = part;
            rest = after;
        }
        *slot = value;
        Ok(())
    }

    fn not_viable(&self, part: &str, name: &str, found: &Bson) -> QueryError {
        QueryError::new(
            ErrorCode::PathNotViable,
            format!("Cannot create field '{part}' in element {{{name}: {found}}} (path '{self}')"),
        )
    }

    /// Removes the field, as one of `removals`; an array element becomes null, so that the others keep their positions.
    pub(super) fn unset(&self, document: &mut Document, removals: &mut Removals) {
        let Some((last, parents)) = self.0.split_last() else { return };
        match holder(parents, document) {
            Some(Holder::Document(document)) if document.contains_key(last) => {
                removals.0.entry(parents.to_vec()).or_default().insert(last.clone());
            }
            Some(Holder::Array(array)) => {
                if let Some(element) = position(last).and_then(|at| array.get_mut(at)) {
                    *element = Bson::Null;
                }
            }
            _ => {}
        }
    }
}

/// The fields that an update removes, by the path of the document that has them. To remove one moves those after it, so that all of a document are
/// removed at once, when nothing else is left to be done: no other action of an update is about them.
#[derive(Debug, Default)]
pub(super) struct Removals(BTreeMap<Vec<String>, HashSet<String>>);

impl Removals {
    /// Removes them.
    pub(super) fn apply(self, document: &mut Document) {
        for (parents, names) in self.0 {
            let Some(Holder::Document(document)) = holder(&parents, document) else { continue };
            if let Some(only) = names.iter().next().filter(|_| names.len() == 1) {
                document.remove(only);
                continue;
            }
            let before = std::mem::take(document);
            document.extend(before.into_iter().filter(|(name, _)| !names.contains(name)));
        }
    }
}

/// What has a field.
enum Holder<'d> {
    Document(&'d mut Document),
    Array(&'d mut Vec<Bson>),
}

/// The document or array at the path of these parts.
fn holder<'d>(parts: &[String], document: &'d mut Document) -> Option<Holder<'d>> {
    let mut found = Holder::Document(document);
    for part in parts {
        let value = match found {
            Holder::Document(document) => document.get_mut(part)?,
            Holder::Array(array) => array.get_mut(position(part)?)?,
        };
        found = match value {
            Bson::Document(document) => Holder::Document(document),
            Bson::Array(array) => Holder::Array(array),
            _ => return None,
        };
    }
    Some(found)
}

/// True for `$`, `$[]` and `$[id]`.
pub(super) fn is_positional(part: &str) -> bool {
    part == "$" || part.starts_with("$[") && part.ends_with(']')
}

/// The array position that a part of a path stands for, if it is a number without a leading zero.
pub(super) fn position(name: &str) -> Option<usize> {
    let digits = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_digit())
        && (name == "0" || !name.starts_with('0'));
    if digits { name.parse().ok() } else { None }
}

impl Ord for Path {
    /// Positions sort by value and before names, names by their bytes, a path before the paths that it
    /// contains.
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = self.0.iter().zip(&other.0).map(|(a, b)| match (position(a), position(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        });
        parts.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}
