//! The distinct values of a field, collected from documents. Of an array, each element is a value, and the array is not.

use std::collections::HashSet;

use bson::{RawArrayBuf, RawBsonRef, RawDocument};

use crate::doc::{Collation, MAX_DOCUMENT_SIZE, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// The distinct values of the field at a path in the documents added so far.
#[derive(Debug)]
pub struct DistinctValues {
    /// Names of fields, or positions in arrays.
    path: Vec<String>,
    /// Of strings that are equal under it, the first is taken.
    collation: Collation,
    /// Encoded keys of the values, equal for values that compare equal, such as `1` and `1.0`.
    seen: HashSet<Vec<u8>>,
    values: RawArrayBuf,
    bytes: usize,
}

impl DistinctValues {
    /// No values yet.
    pub fn new(path: &str, collation: Collation) -> Self {
        DistinctValues {
            path: path.split('.').map(str::to_owned).collect(),
            collation,
            seen: HashSet::new(),
            values: RawArrayBuf::new(),
            bytes: 0,
        }
    }

    /// Adds the values in a document.
    ///
    /// # Errors
    /// As [`Self::push`]; those of a damaged document.
    pub fn add(&mut self, document: &RawDocument) -> Result<()> {
        let path = std::mem::take(&mut self.path);
        let added = self.walk(RawBsonRef::Document(document), &path);
        self.path = path;
        added
    }

    /// The values, in the order they were found.
    pub fn finish(self) -> RawArrayBuf {
        self.values
    }

    /// Collects the values at the path `parts` in `value`.
    fn walk(&mut self, value: RawBsonRef<'_>, parts: &[String]) -> Result<()> {
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

    /// Adds a value, unless one that is equal is there.
    ///
    /// # Errors
    /// `Location17217` if the values take more than 16 MiB.
    pub fn push(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let mut encoded = Vec::new();
        Value::with(value, |value| self.collation.encode(value, &mut encoded));
        // A key is about as long as its value, which makes it a good estimate of the reply's size.
        let bytes = encoded.len() + 8;
        if self.seen.insert(encoded) {
            self.bytes += bytes;
            if self.bytes > MAX_DOCUMENT_SIZE {
                return Err(QueryError::new(ErrorCode::Location17217, "distinct too big, 16mb cap"));
            }
            self.values.push(value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn values(documents: &[&RawDocument], path: &str) -> Vec<i32> {
        let mut found = DistinctValues::new(path, Collation::Simple);
        for document in documents {
            found.add(document).unwrap();
        }
        found.finish().into_iter().map(|value| value.unwrap().as_i32().unwrap()).collect()
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
