//! `$pull` and `$pullAll`: removing elements of arrays.

use bson::{Bson, RawDocumentBuf};

use super::compare_values;
use super::positional::document_with;
use crate::doc::Collation;
use crate::error::Result;
use crate::query::filter::Filter;

/// Which elements are removed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pull {
    /// Elements equal to one of these.
    Equal(Vec<Bson>),
    /// Elements that meet operators; the filter is evaluated for a document with the element in a field whose
    /// name is empty.
    Values(Filter),
    /// Elements that are documents and match a filter.
    Documents(Filter),
}

impl Pull {
    /// Parses the operand of `$pull`: a filter for documents, operators, a pattern, or a value.
    pub(super) fn parse(operand: Bson) -> Result<Self> {
        Ok(match &operand {
            Bson::Document(filter) => {
                let operators =
                    filter.keys().next().is_some_and(|name| name.starts_with('$') && !is_logical(name));
                if operators {
                    Pull::Values(Filter::parse(&document_with("", &operand)?)?)
                } else {
                    Pull::Documents(Filter::parse(&RawDocumentBuf::try_from(filter)?)?)
                }
            }
            Bson::RegularExpression(_) => Pull::Values(Filter::parse(&document_with("", &operand)?)?),
            _ => Pull::Equal(vec![operand]),
        })
    }

    /// Removes the elements from the array.
    pub(super) fn apply(&self, array: &mut Vec<Bson>, collation: &Collation) -> Result<()> {
        let mut kept = Vec::with_capacity(array.len());
        for element in array.drain(..) {
            if !self.removes(&element, collation)? {
                kept.push(element);
            }
        }
        *array = kept;
        Ok(())
    }

    /// Sets the collation of the filter.
    pub(super) fn collate(&mut self, collation: &Collation) -> Result<()> {
        match self {
            Pull::Equal(_) => {}
            Pull::Values(filter) | Pull::Documents(filter) => *filter = filter.clone().collated(collation)?,
        }
        Ok(())
    }

    fn removes(&self, element: &Bson, collation: &Collation) -> Result<bool> {
        match (self, element) {
            (Pull::Equal(values), element) => {
                for value in values {
                    if compare_values(collation, value, element)?.is_eq() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            (Pull::Values(filter), element) => filter.matches(&document_with("", element)?),
            (Pull::Documents(filter), Bson::Document(document)) => {
                filter.matches(&RawDocumentBuf::try_from(document)?)
            }
            (Pull::Documents(_), _) => Ok(false),
        }
    }
}

fn is_logical(name: &str) -> bool {
    matches!(name, "$and" | "$or" | "$nor" | "$expr" | "$where" | "$jsonSchema" | "$comment")
}
