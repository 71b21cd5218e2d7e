//! `$pull` and `$pullAll`: removing elements of arrays.

use bson::{Bson, RawDocumentBuf};

use super::compare_values;
use super::positional::holding;
use crate::doc::Collation;
use crate::error::Result;
use crate::query::filter::Filter;

/// Which elements are removed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pull {
    /// Those equal to one of these.
    Equal(Vec<Bson>),
    /// Those that fit operators; the filter is about a document whose field with an empty name is the element.
    Fitting(Filter),
    /// Documents that match.
    Matching(Filter),
}

impl Pull {
    /// Reads the operand of `$pull`: a filter of documents, operators, a pattern, or a value.
    pub(super) fn parse(operand: Bson) -> Result<Self> {
        Ok(match &operand {
            Bson::Document(filter) => {
                let operators =
                    filter.keys().next().is_some_and(|name| name.starts_with('$') && !is_logical(name));
                if operators {
                    Pull::Fitting(Filter::parse(&holding("", &operand)?)?)
                } else {
                    Pull::Matching(Filter::parse(&RawDocumentBuf::try_from(filter)?)?)
                }
            }
            Bson::RegularExpression(_) => Pull::Fitting(Filter::parse(&holding("", &operand)?)?),
            _ => Pull::Equal(vec![operand]),
        })
    }

    /// Removes what it is about.
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

    /// Gives the filter this collation.
    pub(super) fn collate(&mut self, collation: &Collation) -> Result<()> {
        match self {
            Pull::Equal(_) => {}
            Pull::Fitting(filter) | Pull::Matching(filter) => *filter = filter.clone().collated(collation)?,
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
            (Pull::Fitting(filter), element) => filter.matches(&holding("", element)?),
            (Pull::Matching(filter), Bson::Document(document)) => {
                filter.matches(&RawDocumentBuf::try_from(document)?)
            }
            (Pull::Matching(_), _) => Ok(false),
        }
    }
}

fn is_logical(name: &str) -> bool {
    matches!(name, "$and" | "$or" | "$nor" | "$expr" | "$where" | "$jsonSchema" | "$comment")
}
