//! `$`, `$[]` and `$[id]`: the array elements that a path selects.

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use crate::doc::Collation;
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::filter::Filter;

use super::path::{Path, is_positional, position};

/// The filters of an update's `$[id]`s.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ArrayFilters(Vec<(String, Filter)>);

impl ArrayFilters {
    /// Reads `arrayFilters`.
    ///
    /// # Errors
    /// `FailedToParse` for filters that are not about one identifier or of which two are about the same;
    /// `BadValue` for an identifier of other than letters and digits.
    pub(super) fn parse(filters: &[RawDocumentBuf]) -> Result<Self> {
        let mut parsed: Vec<(String, Filter)> = Vec::new();
        for filter in filters {
            let filter = Filter::parse(filter)?;
            let mut names = Vec::new();
            let _ = filter.root().names(&mut names);
            names.dedup();
            let failed = |what: String| {
                Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!("Error parsing array filter :: caused by :: {what}"),
                ))
            };
            let name = match names.as_slice() {
                [] => {
                    return Err(QueryError::new(
                        ErrorCode::FailedToParse,
                        "Cannot use an expression without a top-level field name in arrayFilters",
                    ));
                }
                [name] => (*name).to_owned(),
                [name, other, ..] => {
                    return failed(format!(
                        "Expected a single top-level field name, found '{name}' and '{other}'"
                    ));
                }
            };
            let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            if !plain {
                return Err(QueryError::bad_value(format!(
                    "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric \
                     string beginning with a lowercase letter, found '{name}'"
                )));
            }
            if parsed.iter().any(|(other, _)| *other == name) {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!("Found multiple array filters with the same top-level field name {name}"),
                ));
            }
            parsed.push((name, filter));
        }
        Ok(ArrayFilters(parsed))
    }

    /// Gives them this collation.
    pub(super) fn collate(&mut self, collation: &Collation) -> Result<()> {
        for (_, filter) in &mut self.0 {
            *filter = filter.clone().collated(collation)?;
        }
        Ok(())
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that every identifier of `paths` has its filter, and every filter is used.
    pub(super) fn check<'p>(&self, paths: impl Iterator<Item = &'p Path> + Clone) -> Result<()> {
        let used = |path: &'p Path| path.parts().iter().filter_map(|part| identifier(part));
        for path in paths.clone() {
            if let Some(id) = used(path).find(|id| !self.0.iter().any(|(name, _)| name == id)) {
                return Err(QueryError::bad_value(format!(
                    "No array filter found for identifier '{id}' in path '{path}'"
                )));
            }
        }
        for (name, _) in &self.0 {
            if !paths.clone().any(|path| used(path).any(|id| id == name)) {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!("The array filter for identifier '{name}' was not used in the update"),
                ));
            }
        }
        Ok(())
    }

    fn matches(&self, id: &str, element: &Bson) -> Result<bool> {
        let Some((name, filter)) = self.0.iter().find(|(name, _)| name == id) else { return Ok(false) };
        filter.matches(&holding(name, element)?)
    }
}

/// A document whose only field `name` is `value`.
pub(super) fn holding(name: &str, value: &Bson) -> Result<RawDocumentBuf> {
    let mut holder = RawDocumentBuf::new();
    holder.append(bson::raw::CString::try_from(name)?, RawBson::try_from(value.clone())?);
    Ok(holder)
}

/// The identifier in `$[id]`.
fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']').filter(|id| !id.is_empty())
}

/// The plain paths that `path` means in `document`.
///
/// # Errors
/// `BadValue` if there is no array where the path asks for one, or no element that the query matched by.
pub(super) fn places(
    path: &Path,
    document: &Document,
    matched: Option<usize>,
    filters: &ArrayFilters,
) -> Result<Vec<Path>> {
    let mut found = Vec::new();
    let Some((first, rest)) = path.parts().split_first() else { return Ok(found) };
    let mut walk = Walk { path, matched, filters, way: vec![first.clone()], found: &mut found };
    walk.go(document.get(first), rest)?;
    Ok(found)
}

struct Walk<'w> {
    path: &'w Path,
    matched: Option<usize>,
    filters: &'w ArrayFilters,
    way: Vec<String>,
    found: &'w mut Vec<Path>,
}

impl Walk<'_> {
    fn go(&mut self, value: Option<&Bson>, rest: &[String]) -> Result<()> {
        let Some((part, rest)) = rest.split_first() else {
            self.found.push(Path::of(self.way.clone()));
            return Ok(());
        };
        if !is_positional(part) {
            return self.step(part.clone(), value, rest);
        }
        if part == "$" {
            let Some(at) = self.matched else {
                return Err(QueryError::bad_value(
                    "The positional operator did not find the match needed from the query.",
                ));
            };
            return self.step(at.to_string(), value, rest);
        }
        let way = self.way.join(".");
        let array = match value {
            Some(Bson::Array(array)) => array,
            Some(other) => {
                return Err(QueryError::bad_value(format!(
                    "Cannot apply array updates to non-array element {way}: {other} (path '{}')",
                    self.path
                )));
            }
            None => {
                return Err(QueryError::bad_value(format!(
                    "The path '{way}' must exist in the document in order to apply array updates."
                )));
            }
        };
        for (at, element) in array.iter().enumerate() {
            let chosen = match identifier(part) {
                Some(id) => self.filters.matches(id, element)?,
                None => true,
            };
            if chosen {
                self.step(at.to_string(), value, rest)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, part: String, value: Option<&Bson>, rest: &[String]) -> Result<()> {
        let inner = match value {
            Some(Bson::Document(document)) => document.get(&part),
            Some(Bson::Array(array)) => position(&part).and_then(|at| array.get(at)),
            _ => None,
        };
        self.way.push(part);
        self.go(inner, rest)?;
        self.way.pop();
        Ok(())
    }
}

/// The position that a document which `filter` found is matched by, if `paths` need it.
pub(super) fn matched<'p>(
    mut paths: impl Iterator<Item = &'p Path>,
    filter: &Filter,
    document: &RawDocument,
) -> Option<usize> {
    let needed = paths.any(|path| path.parts().iter().any(|part| part == "$"));
    if needed { filter.position(document) } else { None }
}
