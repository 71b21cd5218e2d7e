//! `$`, `$[]` and `$[id]`: the array elements that a path selects.

use std::collections::HashSet;

use bson::{Bson, Document, RawBson, RawDocument, RawDocumentBuf};

use crate::doc::Collation;
use crate::doc::by_name::ByName;
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::filter::Filter;

use super::path::{Path, is_positional, position};

/// The array filters of an update's `$[id]`s.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ArrayFilters(ByName<Filter>);

impl ArrayFilters {
    /// Parses `arrayFilters`.
    ///
    /// # Errors
    /// `FailedToParse` for a filter that does not have exactly one identifier, and for two filters with the
    /// same one; `BadValue` for an identifier with characters other than letters and digits.
    pub(super) fn parse(filters: &[RawDocumentBuf]) -> Result<Self> {
        let mut parsed = ByName::default();
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
            let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            if !valid {
                return Err(QueryError::bad_value(format!(
                    "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric \
                     string beginning with a lowercase letter, found '{name}'"
                )));
            }
            if parsed.find(name.as_bytes()).is_some() {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!("Found multiple array filters with the same top-level field name {name}"),
                ));
            }
            parsed.push(name, filter);
        }
        Ok(ArrayFilters(parsed))
    }

    /// Sets the collation of the filters.
    pub(super) fn collate(&mut self, collation: &Collation) -> Result<()> {
        self.0 = std::mem::take(&mut self.0).try_map(|filter| filter.collated(collation))?;
        Ok(())
    }

    /// True if there are no filters.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that every identifier in `paths` has a filter, and that every filter is used.
    pub(super) fn check<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Result<()> {
        let mut used = HashSet::new();
        for path in paths {
            for id in path.parts().iter().filter_map(|part| identifier(part)) {
                if self.0.find(id.as_bytes()).is_none() {
                    return Err(QueryError::bad_value(format!(
                        "No array filter found for identifier '{id}' in path '{path}'"
                    )));
                }
                used.insert(id);
            }
        }
        match self.0.iter().find(|(name, _)| !used.contains(name.as_str())) {
            Some((name, _)) => Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!("The array filter for identifier '{name}' was not used in the update"),
            )),
            None => Ok(()),
        }
    }

    fn matches(&self, id: &str, element: &Bson) -> Result<bool> {
        let Some(filter) = self.0.find(id.as_bytes()) else { return Ok(false) };
        filter.matches(&document_with(id, element)?)
    }
}

/// A document with the only field `name`, whose value is `value`.
pub(super) fn document_with(name: &str, value: &Bson) -> Result<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(bson::raw::CString::try_from(name)?, RawBson::try_from(value.clone())?);
    Ok(document)
}

/// The identifier in `$[id]`.
fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']').filter(|id| !id.is_empty())
}

/// Expands `path` into the paths without positional parts that it stands for in `document`.
///
/// # Errors
/// `BadValue` if a value that must be an array is not, or the query did not match an array element.
pub(super) fn expand(
    path: &Path,
    document: &Document,
    matched: Option<usize>,
    filters: &ArrayFilters,
) -> Result<Vec<Path>> {
    let mut found = Vec::new();
    let Some((first, rest)) = path.parts().split_first() else { return Ok(found) };
    let mut walk = Walk { path, matched, filters, prefix: vec![first.clone()], found: &mut found };
    walk.visit(document.get(first), rest)?;
    Ok(found)
}

struct Walk<'w> {
    path: &'w Path,
    matched: Option<usize>,
    filters: &'w ArrayFilters,
    prefix: Vec<String>,
    found: &'w mut Vec<Path>,
}

impl Walk<'_> {
    fn visit(&mut self, value: Option<&Bson>, rest: &[String]) -> Result<()> {
        let Some((part, rest)) = rest.split_first() else {
            self.found.push(Path::of(self.prefix.clone()));
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
        let prefix = self.prefix.join(".");
        let array = match value {
            Some(Bson::Array(array)) => array,
            Some(other) => {
                return Err(QueryError::bad_value(format!(
                    "Cannot apply array updates to non-array element {prefix}: {other} (path '{}')",
                    self.path
                )));
            }
            None => {
                return Err(QueryError::bad_value(format!(
                    "The path '{prefix}' must exist in the document in order to apply array updates."
                )));
            }
        };
        for (at, element) in array.iter().enumerate() {
            let selected = match identifier(part) {
                Some(id) => self.filters.matches(id, element)?,
                None => true,
            };
            if selected {
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
        self.prefix.push(part);
        self.visit(inner, rest)?;
        self.prefix.pop();
        Ok(())
    }
}

/// The position of the array element that made `document` match `filter`, if one of `paths` contains `$`.
pub(super) fn matched<'p>(
    mut paths: impl Iterator<Item = &'p Path>,
    filter: &Filter,
    document: &RawDocument,
) -> Option<usize> {
    let needed = paths.any(|path| path.parts().iter().any(|part| part == "$"));
    if needed { filter.position(document) } else { None }
}
