//! The documents: about 290 bytes each, with nested fields. They are made before the time begins, and so are the keys to find them by.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::Result;

const CITIES: [&str; 8] = ["ams", "ber", "cph", "dub", "lis", "osl", "rom", "vie"];

/// A document, and what is asked about it.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its `_id`.
    pub(super) id: String,
    /// Its e-mail address.
    pub(super) email: String,
    /// All of it.
    pub(super) document: RawDocumentBuf,
    /// Its values, in the order of the parameters of [`shape`].
    pub(super) values: RawDocumentBuf,
}

/// All documents of a run.
pub(crate) type Members = Arc<[Member]>;

impl AsRef<RawDocument> for Member {
    fn as_ref(&self) -> &RawDocument {
        &self.document
    }
}

impl Member {
    fn new(n: u64) -> Member {
        let (id, email) = (format!("doc-{n:012}"), format!("user{n:012}@example.test"));
        let city = CITIES[(n % CITIES.len() as u64) as usize];
        let age = 18 + (n % 67) as i64;
        let active = n.is_multiple_of(2);
        let score = (n % 1_000) as f64 / 10.0;
        let bucket = format!("bucket-{:02}", n % 100);
        let rank = (n % 10_000) as i32;
        let bio = "x".repeat(96);
        let document = rawdoc! {
            "_id": id.as_str(), "email": email.as_str(), "city": city, "age": age, "active": active, "score": score,
            "tags": [city, bucket.as_str()], "profile": { "rank": rank, "bio": bio.as_str() }
        };
        let mut values = RawDocumentBuf::new();
        values.append(cstr!(""), id.as_str());
        values.append(cstr!(""), email.as_str());
        values.append(cstr!(""), city);
        values.append(cstr!(""), age);
        values.append(cstr!(""), active);
        values.append(cstr!(""), score);
        values.append(cstr!(""), city);
        values.append(cstr!(""), bucket.as_str());
        values.append(cstr!(""), rank);
        values.append(cstr!(""), bio.as_str());
        Member { id, email, document, values }
    }

    /// Whether this is the document that was found: every byte of it.
    ///
    /// # Errors
    /// None was found, or another one.
    pub(super) fn check(&self, found: Option<&RawDocument>) -> Result<()> {
        match found {
            Some(found) if found.as_bytes() == self.document.as_bytes() => Ok(()),
            Some(found) => Err(format!("{found:?} was found instead of {}", self.id).into()),
            None => Err(format!("{} was not found", self.id).into()),
        }
    }
}

/// The shape of the documents, to prepare inserts.
pub(super) fn shape() -> RawDocumentBuf {
    let value = |n: i32| rawdoc! { "$param": n };
    rawdoc! {
        "_id": value(0), "email": value(1), "city": value(2), "age": value(3), "active": value(4), "score": value(5),
        "tags": [value(6), value(7)], "profile": { "rank": value(8), "bio": value(9) }
    }
}

/// The first `count` documents, in the order of their keys.
pub(crate) fn members(count: u64) -> Members {
    (0..count).map(Member::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_document_is_compared_in_full() {
        let some = members(3);
        some[1].check(Some(&some[1].document)).unwrap();
        assert!(some[1].check(Some(&some[2].document)).is_err());
        assert!(some[1].check(None).is_err());
        let mut longer = some[1].document.clone();
        longer.append(cstr!("more"), 1_i32);
        assert!(some[1].check(Some(&longer)).is_err());
    }

    #[test]
    fn keys_and_values_are_those_of_the_document() {
        let member = &members(9)[8];
        assert_eq!(member.document.get_str("_id").unwrap(), member.id);
        assert_eq!(member.document.get_str("email").unwrap(), member.email);
        let values = member.values.iter().map(|value| value.unwrap().1);
        let mut fields = Vec::new();
        for field in &member.document {
            match field.unwrap().1 {
                bson::RawBsonRef::Array(array) => {
                    fields.extend(array.into_iter().map(|value| value.unwrap()))
                }
                bson::RawBsonRef::Document(inner) => {
                    fields.extend(inner.iter().map(|value| value.unwrap().1))
                }
                value => fields.push(value),
            }
        }
        assert_eq!(values.collect::<Vec<_>>(), fields);
    }
}
