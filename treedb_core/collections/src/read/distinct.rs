//! The distinct values of a field in the documents that match. Of an array, each element is a value, and the array is not.

use std::collections::HashSet;

use bson::{RawArrayBuf, RawBsonRef};

use treedb_query::doc::{Collation, MAX_DOCUMENT_SIZE, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};

use crate::collection::Collection;
use crate::request::FindRequest;
use crate::transaction::TransactionCollection;

impl Collection {
    /// The distinct values of the field at `path` in the documents that match `request`. Values that compare equal are one;
    /// a missing field has none. Without a filter the values come from an index, if there is one.
    ///
    /// # Errors
    /// Those of [`Collection::find`]; `BSONObjectTooLarge` if the values take more than 16 MiB.
    pub fn distinct(&self, path: &str, request: FindRequest) -> Result<RawArrayBuf> {
        let parts: Vec<&str> = path.split('.').collect();
        let mut found = Values::new(&request, || self.collation())?;
        let all = request.filter.as_ref().is_none_or(|filter| filter.iter().next().is_none());
        if all
            && request.as_of.is_none()
            && request.hint.is_none()
            && request.collation.is_none()
            && let Some(values) = self.distinct_by_index(path)?
        {
            values.iter().filter_map(|value| value.as_raw()).try_for_each(|value| found.push(value))?;
            return Ok(found.values);
        }
        for document in self.find(request)? {
            found.walk(RawBsonRef::Document(&document?), &parts)?;
        }
        Ok(found.values)
    }
}

impl TransactionCollection<'_> {
    /// [`Collection::distinct`] in the transaction.
    ///
    /// # Errors
    /// As there.
    pub fn distinct(&self, path: &str, request: &FindRequest) -> Result<RawArrayBuf> {
        let parts: Vec<&str> = path.split('.').collect();
        let mut found = Values::new(request, || self.collation())?;
        let mut documents = self.find(request)?;
        while let Some(document) = documents.next(self.transaction())? {
            found.walk(RawBsonRef::Document(&document), &parts)?;
        }
        Ok(found.values)
    }
}

#[derive(Default)]
struct Values {
    /// Of strings that are equal under it, the first is taken.
    collation: Collation,
    /// Encoded keys of the values, equal for values that compare equal, such as `1` and `1.0`.
    seen: HashSet<Vec<u8>>,
    values: RawArrayBuf,
    bytes: usize,
}

impl Values {
    /// No values yet, with the collation of the request, or else the collection's.
    fn new(request: &FindRequest, own: impl FnOnce() -> Result<Collation>) -> Result<Self> {
        let collation = match request.collation.as_deref() {
            Some(named) => Collation::parse(named)?,
            None => own()?,
        };
        Ok(Values { collation, ..Values::default() })
    }

    /// Collects the values at the path `parts` in `value`.
    fn walk(&mut self, value: RawBsonRef<'_>, parts: &[&str]) -> Result<()> {
        let Some((first, rest)) = parts.split_first() else {
            return match value {
                RawBsonRef::Array(array) => array.into_iter().try_for_each(|element| self.push(element?)),
                value => self.push(value),
            };
        };
        match value {
            RawBsonRef::Document(document) => match document.get(first)? {
                Some(inner) => self.walk(inner, rest),
                None => Ok(()),
            },
            RawBsonRef::Array(array) => {
                if let Some(element) = first.parse().ok().and_then(|at| array.get(at).transpose()) {
                    self.walk(element?, rest)?;
                }
                for element in array {
                    if let RawBsonRef::Document(inner) = element? {
                        self.walk(RawBsonRef::Document(inner), parts)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let mut encoded = Vec::new();
        Value::with(value, |value| self.collation.encode(value, &mut encoded));
        // A key is about as long as its value, which makes it a good estimate of the reply's size.
        let bytes = encoded.len() + 8;
        if self.seen.insert(encoded) {
            self.bytes += bytes;
            if self.bytes > MAX_DOCUMENT_SIZE {
                return Err(QueryError::new(ErrorCode::BSONObjectTooLarge, "distinct too big, 16mb cap"));
            }
            self.values.push(value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocument, rawdoc};

    use super::*;

    fn values(documents: &[&RawDocument], path: &str) -> Vec<i32> {
        let parts: Vec<&str> = path.split('.').collect();
        let mut found = Values::default();
        for document in documents {
            found.walk(RawBsonRef::Document(document), &parts).unwrap();
        }
        found.values.into_iter().map(|value| value.unwrap().as_i32().unwrap()).collect()
    }

    #[test]
    fn elements_of_arrays_are_values_and_paths_lead_through_arrays() {
        let a = rawdoc! { "a": [1, 2, 2], "b": [{ "c": 1 }, { "c": [5, 6] }, 7] };
        let b = rawdoc! { "a": 3, "b": { "c": 9 } };
        assert_eq!(values(&[&a, &b], "a"), [1, 2, 3]);
        assert_eq!(values(&[&a, &b], "b.c"), [1, 5, 6, 9]);
        assert_eq!(values(&[&a, &b], "b.1.c"), [5, 6]);
        assert_eq!(values(&[&a, &b], "x.y"), [0; 0]);
    }
}
