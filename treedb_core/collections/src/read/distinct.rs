//! The distinct values of a field in the documents that match. Of an array, each element is a value, and the array is not.

use bson::RawArrayBuf;

use treedb_query::doc::Collation;
use treedb_query::error::Result;
use treedb_query::query::DistinctValues;

use crate::collection::Collection;
use crate::request::FindRequest;
use crate::transaction::TransactionCollection;

impl Collection {
    /// The distinct values of the field at `path` in the documents that match `request`. Values that compare equal are one;
    /// a missing field has none. Without a filter the values come from an index, if there is one.
    ///
    /// # Errors
    /// Those of [`Collection::find`]; `Location17217` if the values take more than 16 MiB.
    pub fn distinct(&self, path: &str, request: FindRequest) -> Result<RawArrayBuf> {
        let mut found = values_of(path, &request, || self.collation())?;
        if self.namespace().is_oplog() {
            for entry in self.database().oplog(&request, false)? {
                found.add(&entry?)?;
            }
            return Ok(found.finish());
        }
        let all = request.filter.as_ref().is_none_or(|filter| filter.iter().next().is_none());
        if all
            && request.as_of.is_none()
            && request.hint.is_none()
            && request.collation.is_none()
            && let Some(values) = self.distinct_by_index(path)?
        {
            values.iter().filter_map(|value| value.as_raw()).try_for_each(|value| found.push(value))?;
            return Ok(found.finish());
        }
        for document in self.find(request)? {
            found.add(&document?)?;
        }
        Ok(found.finish())
    }
}

impl TransactionCollection<'_> {
    /// [`Collection::distinct`] in the transaction.
    ///
    /// # Errors
    /// As there.
    pub fn distinct(&self, path: &str, request: &FindRequest) -> Result<RawArrayBuf> {
        let mut found = values_of(path, request, || self.collation())?;
        let mut documents = self.find(request)?;
        while let Some(document) = documents.next(self.transaction())? {
            found.add(&document)?;
        }
        Ok(found.finish())
    }
}

/// No values of the field at `path` yet, with the collation of the request, or else the collection's.
fn values_of(
    path: &str,
    request: &FindRequest,
    own: impl FnOnce() -> Result<Collation>,
) -> Result<DistinctValues> {
    let collation = match request.collation.as_deref() {
        Some(named) => Collation::parse(named)?,
        None => own()?,
    };
    Ok(DistinctValues::new(path, collation))
}
