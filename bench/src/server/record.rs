//! YCSB's records: ten fields of 100 bytes. Every value begins with the number of its record, which is checked on each read.

use bench_common::Random;
use bson::raw::CString;
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::Result;

pub(super) const FIELDS: u64 = 10;
const VALUE_BYTES: usize = 100;

/// What a client sends to insert a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The document.
    Document,
    /// Its values, for an insert that was prepared with its [`shape`].
    Values,
}

/// Well distributed bits of a number.
pub(super) fn hash(n: u64) -> u64 {
    // The first number of a sequence: splitmix64's output function.
    Random::new(n, u64::MAX).next().unwrap_or(0)
}

/// The `_id` of record `n`: in an order that has nothing to do with that of the inserts.
pub(super) fn key(n: u64) -> String {
    format!("user{:020}", hash(n))
}

/// A value of record `n`.
pub(super) fn value(n: u64, salt: u64) -> String {
    let mut value = format!("{n:010}");
    let mut letters = Random::new(n ^ (salt << 32), 26);
    while value.len() < VALUE_BYTES {
        value.push(char::from(b'a' + letters.next().unwrap_or(0) as u8));
    }
    value
}

/// Record `n`.
pub(super) fn record(n: u64, form: Form) -> Result<RawDocumentBuf> {
    let name = |field: &str| CString::try_from(if form == Form::Document { field } else { "" });
    let mut record = RawDocumentBuf::new();
    record.append(name("_id")?, key(n));
    for field in 0..FIELDS {
        record.append(name(&format!("field{field}"))?, value(n, field));
    }
    Ok(record)
}

/// The shape of all records, to prepare their inserts.
pub(super) fn shape() -> Result<RawDocumentBuf> {
    let mut shape = RawDocumentBuf::new();
    for (parameter, field) in (0_i32..).zip(&record(0, Form::Document)?) {
        shape.append(field?.0, rawdoc! { "$param": parameter });
    }
    Ok(shape)
}

/// Whether a document is a whole record, and record `n` if that is known.
pub(super) fn check(document: &RawDocument, n: Option<u64>) -> Result<()> {
    let mut fields = 0;
    for field in document.iter().skip(1) {
        let value = field?.1.as_str().ok_or("a field is not a string")?;
        let number = value.get(..10).and_then(|number| number.parse::<u64>().ok());
        if value.len() != VALUE_BYTES || n.is_some_and(|n| number != Some(n)) {
            return Err(format!("{value:?} is no value of record {n:?}").into());
        }
        fields += 1;
    }
    if fields == FIELDS { Ok(()) } else { Err(format!("a record with {fields} fields").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_checked_in_full() {
        let document = record(5, Form::Document).unwrap();
        assert!(document.as_bytes().len() > 1_000);
        check(&document, Some(5)).unwrap();
        assert!(check(&document, Some(6)).is_err());
        assert!(check(&rawdoc! { "_id": 1 }, None).is_err());
    }

    #[test]
    fn the_shape_takes_the_values_of_a_record_in_their_order() {
        let (document, values) = (record(5, Form::Document).unwrap(), record(5, Form::Values).unwrap());
        let mut filled = RawDocumentBuf::new();
        for (n, parameter) in (0..).zip(&shape().unwrap()) {
            let (field, parameter) = parameter.unwrap();
            assert_eq!(parameter.as_document().unwrap().get_i32("$param").unwrap(), n);
            filled.append(field, values.iter().nth(n as usize).unwrap().unwrap().1);
        }
        assert_eq!((filled, values.iter().count()), (document, 11));
    }
}
