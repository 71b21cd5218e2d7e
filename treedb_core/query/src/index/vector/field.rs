//! The vector of a document: an array of numbers, or binary data of subtype 9.
//!
//! The bytes of BSON's vectors: type of the elements (`27` floats of 4 bytes, `03` signed bytes), number of unused bits at the
//! end (0 for these types), elements, little-endian.
//!
//! A document whose field is missing, is no vector, or is one that the index's metric cannot compare is not in the index, as in
//! MongoDB: it is stored all the same, and no search by this index finds it.

use bson::RawDocument;

use super::definition::{MAX_DIMENSIONS, VectorDef};
use crate::doc::value::kind;
use crate::doc::{Doc, Fields, Path, Value};

/// The subtype of binary data that holds a vector.
const VECTOR: u8 = 9;
/// Elements are floats of 4 bytes.
const FLOATS: u8 = 0x27;
/// Elements are signed bytes.
const BYTES: u8 = 0x03;
/// Elements are bits.
const BITS: u8 = 0x10;

/// The vector of so many dimensions at a path of a document, whatever its elements are; `None` if there is none.
pub fn vector_at(document: &RawDocument, path: &Path, dimensions: usize) -> Option<Vec<f32>> {
    elements(value_at(path, document)?, dimensions).filter(|vector| vector.len() == dimensions)
}

impl VectorDef {
    /// The vector of a document; `None` if it has none that belongs in the index.
    pub fn vector(&self, document: &RawDocument) -> Option<Vec<f32>> {
        let vector = vector_at(document, &self.path, self.dimensions)?;
        (self.metric.check(&vector, self.dimensions).is_ok() && self.has_room_for(&vector)).then_some(vector)
    }

    /// Whether no element is beyond the index's limit.
    pub fn has_room_for(&self, vector: &[f32]) -> bool {
        self.greatest.is_none_or(|greatest| vector.iter().all(|element| element.abs() <= greatest))
    }

    /// The field of a document that [`VectorDef::vector`] reads.
    pub fn fields(&self) -> Fields {
        Fields::new(std::iter::once(self.path.first().as_bytes()))
    }

    /// Whether two documents have the same bytes in the indexed field.
    pub fn is_untouched(&self, old: &RawDocument, new: &RawDocument) -> bool {
        let first = self.path.first().as_bytes();
        Doc::from(old).find(first) == Doc::from(new).find(first)
    }
}

/// The vector that a query compares with: an array of numbers, or binary data of subtype 9.
///
/// # Errors
/// What is wrong, to be said of the value.
pub fn query_vector(value: Value<'_>) -> Result<Vec<f32>, &'static str> {
    let most = match value {
        Value::Array(array) => array.elements().count(),
        Value::Binary(VECTOR, [BITS, ..]) => {
            return Err("cannot be a vector of bits: indexes of bits do not exist");
        }
        Value::Binary(VECTOR, bytes) => bytes.len(),
        _ => return Err("must be an array of numbers, or binary data of subtype 9"),
    };
    elements(value, most).ok_or(match value {
        Value::Array(_) => "must consist of numbers that are not decimals",
        _ => "is damaged: binary data of subtype 9 begins with the type of its elements and 0",
    })
}

/// The value at a path; arrays on the way are not searched.
fn value_at<'d>(path: &Path, document: &'d RawDocument) -> Option<Value<'d>> {
    path.parts().iter().try_fold(Value::Document(document.into()), |value, part| match value {
        Value::Document(inner) => inner.find(part.name.as_bytes()).map(|element| element.value()),
        _ => None,
    })
}

/// The elements of a vector; `None` if it is none, or an array of more than so many dimensions.
fn elements(value: Value<'_>, dimensions: usize) -> Option<Vec<f32>> {
    // The number is the caller's: it reserves no more than the longest vector of an index needs.
    let mut vector = Vec::with_capacity(dimensions.min(MAX_DIMENSIONS as usize));
    match value {
        Value::Array(array) if doubles(array.as_bytes(), dimensions, &mut vector) => {}
        Value::Array(array) => {
            vector.clear();
            for element in array.elements() {
                if vector.len() == dimensions {
                    return None;
                }
                vector.push(match element.value() {
                    Value::Double(number) => number as f32,
                    Value::Int32(number) => number as f32,
                    Value::Int64(number) => number as f32,
                    _ => return None,
                });
            }
        }
        Value::Binary(VECTOR, bytes) => match *bytes {
            [FLOATS, 0, ref floats @ ..] => {
                let (floats, []) = floats.as_chunks() else { return None };
                vector.extend(floats.iter().map(|float| f32::from_le_bytes(*float)));
            }
            [BYTES, 0, ref bytes @ ..] => {
                vector.extend(bytes.iter().map(|byte| f32::from(byte.cast_signed())));
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(vector)
}

/// Adds the elements of an array of so many doubles to `vector`; false if it is another array, or has not the usual names.
fn doubles(array: &[u8], dimensions: usize, vector: &mut Vec<f32>) -> bool {
    let Some(mut rest) = array.get(4..) else { return false };
    let (mut digits, mut next) = (1, 10);
    for position in 0..dimensions {
        if position == next {
            (digits, next) = (digits + 1, 10 * next);
        }
        // Type, name, 0, value.
        let Some((element, after)) = rest.split_at_checked(digits + 10) else { return false };
        let ([kind::DOUBLE, name @ ..], Some(value)) = (element, element.last_chunk()) else { return false };
        if name.iter().take(digits + 1).position(|byte| *byte == 0) != Some(digits) {
            return false;
        }
        vector.push(f64::from_le_bytes(*value) as f32);
        rest = after;
    }
    rest == [0]
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, RawDocumentBuf, rawdoc};

    use super::*;
    use crate::index::vector::Metric;

    fn binary(bytes: Vec<u8>) -> RawDocumentBuf {
        rawdoc! { "v": Binary { subtype: BinarySubtype::from(VECTOR), bytes } }
    }

    /// An array whose elements have these names.
    fn named(names: [&str; 3]) -> RawDocumentBuf {
        let mut array = RawDocumentBuf::new();
        for (name, element) in names.into_iter().zip([1.5, -2.0, 0.0]) {
            array.append(bson::raw::CString::try_from(name.to_owned()).unwrap(), element);
        }
        let mut document = rawdoc! { "v": array }.into_bytes();
        document[4] = kind::ARRAY;
        RawDocumentBuf::from_bytes(document).unwrap()
    }

    #[test]
    fn arrays_of_doubles_of_any_length_are_vectors() {
        for len in [1, 9, 10, 11, 100, 101, 1001] {
            let elements: Vec<f64> = (0..len).map(f64::from).collect();
            let array: bson::RawArrayBuf = elements.iter().copied().collect();
            let vector = elements.iter().map(|element| *element as f32).collect();
            let def = |dimensions| VectorDef::new("v", dimensions, Metric::L2);
            let document = rawdoc! { "v": array };
            assert_eq!(def(elements.len()).vector(&document), Some(vector));
            assert_eq!(def(elements.len() + 1).vector(&document), None);
            assert_eq!(def(elements.len() - 1).vector(&document), None);
        }
    }

    #[test]
    fn arrays_of_numbers_and_binary_vectors_are_the_same_vectors() {
        let def = VectorDef::new("v", 3, Metric::L2);
        let floats: Vec<u8> = [1.5_f32, -2.0, 0.0].iter().flat_map(|float| float.to_le_bytes()).collect();
        for (document, vector) in [
            (rawdoc! { "v": [1.5, -2, 0_i64] }, vec![1.5, -2.0, 0.0]),
            (rawdoc! { "v": [1.5, -2.0, 0.0] }, vec![1.5, -2.0, 0.0]),
            (named(["", "x", "long name"]), vec![1.5, -2.0, 0.0]),
            (named(["0", "1", "\u{301}"]), vec![1.5, -2.0, 0.0]),
            (binary([vec![FLOATS, 0], floats].concat()), vec![1.5, -2.0, 0.0]),
            (binary(vec![BYTES, 0, 1, 0xff, 0x80]), vec![1.0, -1.0, -128.0]),
        ] {
            assert_eq!(def.vector(&document), Some(vector), "{document:?}");
        }
        let deep = VectorDef::new("a.v", 1, Metric::L2);
        assert_eq!(deep.vector(&rawdoc! { "a": { "v": [7] } }), Some(vec![7.0]));
    }

    #[test]
    fn a_vector_of_other_dimensions_is_none() {
        let path = Path::new("v");
        for document in
            [rawdoc! { "v": [1] }, rawdoc! { "v": [1, 2, 3] }, binary(vec![BYTES, 0, 1]), binary(vec![])]
        {
            assert_eq!(vector_at(&document, &path, 2), None, "{document:?}");
        }
        assert_eq!(vector_at(&rawdoc! { "v": [1, 0] }, &path, 2), Some(vec![1.0, 0.0]));
        // Memory is reserved for what there is, whatever number is asked for.
        assert_eq!(vector_at(&rawdoc! { "v": [1, 0] }, &path, usize::MAX), None);
    }

    #[test]
    fn what_cannot_be_compared_is_not_in_the_index() {
        let def = VectorDef::new("v", 2, Metric::Cosine);
        for document in [
            rawdoc! {},
            rawdoc! { "v": null },
            rawdoc! { "v": "text" },
            rawdoc! { "v": [1] },
            rawdoc! { "v": [1, 2, 3] },
            rawdoc! { "v": [1, "2"] },
            rawdoc! { "v": [1, f64::NAN] },
            rawdoc! { "v": [1, f64::INFINITY] },
            rawdoc! { "v": [1, 1e300] },
            rawdoc! { "v": [0, 0] },
            rawdoc! { "v": [[1, 2]] },
            rawdoc! { "v": { "0": 1, "1": 2 } },
            binary(vec![]),
            binary(vec![BYTES, 0, 1]),
            binary(vec![FLOATS, 0, 1, 2, 3]),
            binary(vec![BYTES, 1, 1, 2]),
            binary(vec![0x10, 0, 1, 2]),
        ] {
            assert_eq!(def.vector(&document), None, "{document:?}");
        }
        // No greater element than the index allows.
        let limited = VectorDef { greatest: Some(10.0), ..VectorDef::new("v", 2, Metric::L2) };
        assert!(limited.vector(&rawdoc! { "v": [10, -10] }).is_some());
        assert!(limited.vector(&rawdoc! { "v": [0, -10.5] }).is_none());
        // Only the cosine needs a direction.
        assert!(VectorDef::new("v", 2, Metric::L2).vector(&rawdoc! { "v": [0, 0] }).is_some());
    }
}
