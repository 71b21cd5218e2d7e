//! [`UsedFields`]: the fields that a query uses, so that no more of a row is decoded.

use bson::RawDocument;

use crate::access::Row;
use crate::doc::Fields;
use crate::error::Result;

use crate::query::filter::Filter;

/// The top-level fields that are used of the documents a query finds.
#[derive(Debug, Clone, PartialEq)]
pub struct UsedFields {
    fields: Fields,
    /// Those and the fields of the filter; `None` if it may read any.
    all: Option<Fields>,
}

fn bytes_of(names: &[String]) -> impl Iterator<Item = &[u8]> {
    names.iter().map(|name| name.as_bytes())
}

/// Counts how many of the rows examined matched.
#[derive(Debug, Default)]
pub struct MatchRate {
    seen: u64,
    matched: u64,
}

impl UsedFields {
    /// The fields of these names, of documents that `filter` matches.
    pub fn new(names: &[String], filter: &Filter) -> Self {
        let all = Self::read_by(filter).map(|more| Fields::new(bytes_of(&[names, &more].concat())));
        UsedFields { fields: Fields::new(bytes_of(names)), all }
    }

    /// All fields but those of these names, of documents that `filter` matches.
    pub fn all_but(names: &[String], filter: &Filter) -> Self {
        let all = Self::read_by(filter).map(|read| {
            let names = names.iter().filter(|name| !read.contains(name));
            Fields::all_but(names.map(|name| name.as_bytes()))
        });
        UsedFields { fields: Fields::all_but(bytes_of(names)), all }
    }

    /// The fields that a filter reads; `None` if it may read any, or there is nothing to read for it.
    fn read_by(filter: &Filter) -> Option<Vec<String>> {
        filter.reads().filter(|_| !filter.is_all())
    }

    /// The fields that are used.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The part of a row that is used, if the row matches; there may be more in it. Where most rows match, the fields of
    /// the filter and those that are used are decoded together.
    ///
    /// # Errors
    /// Those of the filter and of a damaged row.
    pub fn of<'r>(
        &self,
        filter: &Filter,
        row: &'r mut dyn Row,
        tally: &mut MatchRate,
    ) -> Result<Option<&'r RawDocument>> {
        tally.seen += 1;
        if let Some(all) = &self.all
            && tally.matched * 2 >= tally.seen - 1
        {
            let part = row.partial_document(all)?;
            let matches = filter.matches(part)?;
            tally.matched += u64::from(matches);
            return Ok(matches.then_some(part));
        }
        if !filter.admits(row)? {
            return Ok(None);
        }
        tally.matched += 1;
        row.partial_document(&self.fields).map(Some)
    }
}
