//! `distinct`: the different values of a field among the documents that match. An array counts with each of its
//! elements, and not itself.

use std::collections::HashSet;

use bson::{RawArrayBuf, RawBsonRef, rawdoc};
use treedb_core::FindRequest;
use treedb_query::doc::{Collation, MAX_DOCUMENT_SIZE, Value};
use treedb_query::query::ErrorCode;

use super::Result;
use super::find::hint;
use super::request::Request;
use crate::mongo::error::CommandError;
use crate::mongo::read_concern::ReadAt;

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let mut find = FindRequest::default();
    let mut path = None;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "key" => path = Some(arg.str()?),
            "query" => find.filter = arg.some_document()?,
            "hint" => find.hint = hint(&arg)?,
            "collation" => find.collation = arg.some_document()?,
            _ => arg.generic()?,
        }
    }
    let path = path.ok_or_else(|| {
        CommandError::location(40_414, "BSON field 'distinct.key' is missing but a required field")
    })?;
    let parts: Vec<&str> = path.split('.').collect();
    let collation = match find.collation.as_deref() {
        Some(named) => Collation::parse(named)?,
        None => collection.collation()?,
    };
    let mut found = Distinct { collation, ..Distinct::default() };
    let all = find.filter.as_ref().is_none_or(|filter| filter.iter().next().is_none());
    if let Some(mut open) = request.transaction() {
        let mut documents = open.txn.collection(collection.namespace().as_str())?.find(&find)?;
        while let Some(document) = documents.next(&open.txn)? {
            found.walk(RawBsonRef::Document(&document), &parts)?;
        }
        return Ok(rawdoc! { "values": found.values });
    }
    find.as_of = request.at.map(|at| at.moment);
    if all
        && request.at.is_none()
        && find.hint.is_none()
        && find.collation.is_none()
        && let Some(values) = collection.distinct_by_index(path)?
    {
        values.iter().filter_map(|value| value.as_raw()).try_for_each(|value| found.push(value))?;
        return Ok(rawdoc! { "values": found.values });
    }
    for document in collection.find(find)? {
        found.walk(RawBsonRef::Document(&document?), &parts)?;
    }
    ReadAt::tell(request.at, rawdoc! { "values": found.values })
}

#[derive(Default)]
struct Distinct {
    /// How texts compare: of those that are equal the first is taken.
    collation: Collation,
    /// Keys of the values: equal for values that compare equal, such as `1` and `1.0`.
    seen: HashSet<Vec<u8>>,
    values: RawArrayBuf,
    bytes: usize,
}

impl Distinct {
    /// Collects what `parts` lead to in `value`.
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
        // The key is about as long as the value: a good measure of what the reply will be.
        let bytes = encoded.len() + 8;
        if self.seen.insert(encoded) {
            self.bytes += bytes;
            if self.bytes > MAX_DOCUMENT_SIZE {
                return Err(CommandError::new(ErrorCode::BSONObjectTooLarge, "distinct too big, 16mb cap"));
            }
            self.values.push(value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bson::RawDocument;

    use super::*;

    fn values(documents: &[&RawDocument], path: &str) -> Vec<i32> {
        let parts: Vec<&str> = path.split('.').collect();
        let mut found = Distinct::default();
        for document in documents {
            found.walk(RawBsonRef::Document(document), &parts).unwrap();
        }
        found.values.into_iter().map(|value| value.unwrap().as_i32().unwrap()).collect()
    }

    #[test]
    fn arrays_count_with_their_elements_and_are_gone_through() {
        let a = rawdoc! { "a": [1, 2, 2], "b": [{ "c": 1 }, { "c": [5, 6] }, 7] };
        let b = rawdoc! { "a": 3, "b": { "c": 9 } };
        assert_eq!(values(&[&a, &b], "a"), [1, 2, 3]);
        assert_eq!(values(&[&a, &b], "b.c"), [1, 5, 6, 9]);
        assert_eq!(values(&[&a, &b], "b.1.c"), [5, 6]);
        assert_eq!(values(&[&a, &b], "x.y"), [0; 0]);
    }
}
