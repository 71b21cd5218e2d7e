//! The vectors of a document: arrays of numbers, or binary data of subtype 9.
//!
//! The bytes of BSON's vectors: type of the elements (`27` floats of 4 bytes, `03` signed bytes, `10` bits), number of unused bits at the
//! end (0 to 7 of bits, otherwise 0), elements, little-endian; bits from the highest of a byte on. Bits are only in indexes of bits, whose
//! elements are 0 or 1 whatever they are stored as. Elements are rounded to the type that the index keeps; if that is whole numbers, a vector with
//! others is not in the index.
//!
//! A document has several vectors if the field is an array of vectors, or if its path leads through an array of documents:
//! `chunks.embedding`. Each array and each binary value of subtype 9 there has a position, counted from 0 in the order of the document.
//!
//! What is no vector, or is one that the index's metric cannot compare, is not in the index, as in MongoDB: the document is stored all
//! the same, and no search by this index finds it if none of its vectors is.

use bson::RawDocument;

use super::Element;
use super::definition::{MAX_DIMENSIONS, VectorDef};
use crate::doc::path::Part;
use crate::doc::value::kind;
use crate::doc::{Doc, Fields, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// The subtype of binary data that holds a vector.
const VECTOR: u8 = 9;
/// Elements are floats of 4 bytes.
const FLOATS: u8 = 0x27;
/// Elements are signed bytes.
const BYTES: u8 = 0x03;
/// Elements are bits.
const BITS: u8 = 0x10;

/// The vectors of a document that belong in an index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vectors {
    dimensions: usize,
    /// The position of each, ascending.
    positions: Vec<u32>,
    /// Their elements, one vector after the other.
    elements: Vec<f32>,
}

impl Vectors {
    /// Most vectors of a document, those that do not belong in the index included.
    pub const MOST: usize = 1000;

    /// How many there are.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The vectors, each with its position in the document.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[f32])> {
        self.positions.iter().copied().zip(self.elements.chunks_exact(self.dimensions.max(1)))
    }

    /// Their elements, one vector after the other.
    pub fn elements(&self) -> &[f32] {
        &self.elements
    }

    /// The distance of the nearest of them to another vector; `None` if there is none.
    pub fn distance(&self, metric: super::Metric, vector: &[f32]) -> Option<f32> {
        self.iter().map(|(_, own)| metric.distance(vector, own)).min_by(f32::total_cmp)
    }
}

impl VectorDef {
    /// The vectors of a document that belong in the index.
    ///
    /// # Errors
    /// `BadValue` if the document has more than [`Vectors::MOST`] vectors.
    pub fn vectors(&self, document: &RawDocument) -> Result<Vectors> {
        let mut vectors = Vectors { dimensions: self.dimensions, ..Vectors::default() };
        let position = &mut 0;
        if self.one_vector {
            if let Some(value) = value_at(&self.path, document) {
                self.add_vector(value, &mut vectors, position)?;
            }
        } else {
            self.add_at(Value::Document(document.into()), self.path.parts(), &mut vectors, position)?;
        }
        Ok(vectors)
    }

    /// Adds the vectors at a path of a value, in arrays on the way too.
    fn add_at(
        &self,
        value: Value<'_>,
        path: &[Part],
        vectors: &mut Vectors,
        position: &mut u32,
    ) -> Result<()> {
        match (path.split_first(), value) {
            (Some((part, rest)), Value::Document(inner)) => match inner.find(part.name.as_bytes()) {
                Some(element) => self.add_at(element.value(), rest, vectors, position),
                None => Ok(()),
            },
            (Some(_), Value::Array(array)) => {
                let documents = array.elements().map(|element| element.value());
                let mut documents = documents.filter(|value| matches!(value, Value::Document(_)));
                documents.try_for_each(|value| self.add_at(value, path, vectors, position))
            }
            (None, Value::Array(array)) if !begins_with_number(array) => {
                let values = array.elements().map(|element| element.value());
                let mut values =
                    values.filter(|value| matches!(value, Value::Array(_) | Value::Binary(VECTOR, _)));
                values.try_for_each(|value| self.add_vector(value, vectors, position))
            }
            (None, value) => self.add_vector(value, vectors, position),
            (Some(_), _) => Ok(()),
        }
    }

    /// Adds the vector that a value is, if it belongs in the index.
    fn add_vector(&self, value: Value<'_>, vectors: &mut Vectors, position: &mut u32) -> Result<()> {
        let (at, before) = (*position, vectors.elements.len());
        if at as usize >= Vectors::MOST {
            return Err(QueryError::new(
                ErrorCode::BadValue,
                format!(
                    "the document has more than {} vectors in '{}', which is the most that vector index {} takes of a document",
                    Vectors::MOST,
                    self.path.as_str(),
                    self.name
                ),
            ));
        }
        *position += 1;
        let whole = elements(value, self.dimensions, self.metric.is_of_bits(), &mut vectors.elements);
        let vector = vectors.elements.get_mut(before..).unwrap_or_default();
        let whole = whole && (self.elements == Element::Float32 || self.elements.round(vector));
        if whole && self.metric.check(vector, self.dimensions).is_ok() && self.has_room_for(vector) {
            vectors.positions.push(at);
        } else {
            vectors.elements.truncate(before);
        }
        Ok(())
    }

    /// Whether no element is beyond the index's limit.
    pub fn has_room_for(&self, vector: &[f32]) -> bool {
        self.greatest.is_none_or(|greatest| vector.iter().all(|element| element.abs() <= greatest))
    }

    /// Refuses a vector that those of the index cannot be compared with.
    ///
    /// # Errors
    /// `BadValue`, which says why.
    pub fn check_query(&self, vector: &[f32]) -> Result<()> {
        if let Err(unfit) = self.metric.check_query(vector, self.dimensions) {
            return Err(QueryError::bad_value(format!("vector index {}: {unfit}", self.shown_name())));
        }
        if let Some(greatest) = self.greatest.filter(|_| !self.has_room_for(vector)) {
            return Err(QueryError::bad_value(format!(
                "vector index {}: elements are numbers from -{greatest:e} to {greatest:e}",
                self.shown_name()
            )));
        }
        Ok(())
    }

    /// The field of a document that [`VectorDef::vectors`] reads.
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
pub fn query_vector(value: Value<'_>) -> std::result::Result<Vec<f32>, &'static str> {
    let most = match value {
        Value::Array(array) => array.elements().count(),
        Value::Binary(VECTOR, bytes) => bytes.len(),
        _ => return Err("must be an array of numbers, or binary data of subtype 9"),
    };
    let mut vector = Vec::new();
    match (elements(value, most, true, &mut vector), value) {
        (true, _) => Ok(vector),
        (false, Value::Array(_)) => Err("must consist of numbers that are not decimals"),
        (false, _) => Err(
            "is damaged: binary data of subtype 9 begins with the type of its elements and the number of unused bits",
        ),
    }
}

/// Whether an array may be a vector, and is not an array of vectors.
fn begins_with_number(array: Doc<'_>) -> bool {
    array.elements().next().is_some_and(|element| element.value().is_number())
}

/// The value at a path; arrays on the way are not searched.
fn value_at<'d>(path: &Path, document: &'d RawDocument) -> Option<Value<'d>> {
    path.parts().iter().try_fold(Value::Document(document.into()), |value, part| match value {
        Value::Document(inner) => inner.find(part.name.as_bytes()).map(|element| element.value()),
        _ => None,
    })
}

/// Adds the elements of a vector, which may be one of bits if `bits`, to `vector`; false if the value is no vector, or an array of more than so
/// many dimensions. Some may have been added then.
fn elements(value: Value<'_>, dimensions: usize, bits: bool, vector: &mut Vec<f32>) -> bool {
    let before = vector.len();
    match value {
        Value::Array(array) => {
            // The number is the caller's: it reserves no more than the longest vector of an index needs.
            vector.reserve(dimensions.min(MAX_DIMENSIONS as usize));
            if doubles(array.as_bytes(), dimensions, vector) {
                return true;
            }
            vector.truncate(before);
            array.elements().enumerate().all(|(at, element)| {
                let number = match element.value() {
                    Value::Double(number) => number as f32,
                    Value::Int32(number) => number as f32,
                    Value::Int64(number) => number as f32,
                    _ => return false,
                };
                vector.push(number);
                at < dimensions
            })
        }
        Value::Binary(VECTOR, bytes) => match *bytes {
            [FLOATS, 0, ref floats @ ..] => {
                let (floats, rest) = floats.as_chunks();
                vector.extend(floats.iter().map(|float| f32::from_le_bytes(*float)));
                rest.is_empty()
            }
            [BYTES, 0, ref bytes @ ..] => {
                vector.extend(bytes.iter().map(|byte| f32::from(byte.cast_signed())));
                true
            }
            [BITS, unused @ 0..8, ref bytes @ ..] if bits => {
                let Some(count) = (8 * bytes.len()).checked_sub(usize::from(unused)) else { return false };
                let all = bytes.iter().flat_map(|byte| (0..8).map(move |at| byte << at & 0x80 != 0));
                vector.extend(all.take(count).map(f32::from));
                true
            }
            _ => false,
        },
        _ => false,
    }
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

    /// The only vector of a document.
    fn vector(def: &VectorDef, document: &RawDocument) -> Option<Vec<f32>> {
        let vectors = def.vectors(document).unwrap();
        assert!(vectors.len() <= 1 && vectors.iter().all(|(position, _)| position == 0));
        vectors.iter().next().map(|(_, vector)| vector.to_vec())
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
            let whole = elements.iter().map(|element| *element as f32).collect();
            let def = |dimensions| VectorDef::new("v", dimensions, Metric::L2);
            let document = rawdoc! { "v": array };
            assert_eq!(vector(&def(elements.len()), &document), Some(whole));
            assert_eq!(vector(&def(elements.len() + 1), &document), None);
            assert_eq!(vector(&def(elements.len() - 1), &document), None);
        }
    }

    #[test]
    fn arrays_of_numbers_and_binary_vectors_are_the_same_vectors() {
        let def = VectorDef::new("v", 3, Metric::L2);
        let floats: Vec<u8> = [1.5_f32, -2.0, 0.0].iter().flat_map(|float| float.to_le_bytes()).collect();
        for (document, wanted) in [
            (rawdoc! { "v": [1.5, -2, 0_i64] }, vec![1.5, -2.0, 0.0]),
            (rawdoc! { "v": [1.5, -2.0, 0.0] }, vec![1.5, -2.0, 0.0]),
            (named(["", "x", "long name"]), vec![1.5, -2.0, 0.0]),
            (named(["0", "1", "\u{301}"]), vec![1.5, -2.0, 0.0]),
            (binary([vec![FLOATS, 0], floats].concat()), vec![1.5, -2.0, 0.0]),
            (binary(vec![BYTES, 0, 1, 0xff, 0x80]), vec![1.0, -1.0, -128.0]),
        ] {
            assert_eq!(vector(&def, &document), Some(wanted), "{document:?}");
        }
        let deep = VectorDef::new("a.v", 1, Metric::L2);
        assert_eq!(vector(&deep, &rawdoc! { "a": { "v": [7] } }), Some(vec![7.0]));
    }

    #[test]
    fn a_vector_of_other_dimensions_is_none() {
        let def = VectorDef::new("v", 2, Metric::L2);
        for document in
            [rawdoc! { "v": [1] }, rawdoc! { "v": [1, 2, 3] }, binary(vec![BYTES, 0, 1]), binary(vec![])]
        {
            assert_eq!(vector(&def, &document), None, "{document:?}");
        }
        assert_eq!(vector(&def, &rawdoc! { "v": [1, 0] }), Some(vec![1.0, 0.0]));
        // Memory is reserved for what there is, whatever number is asked for.
        assert_eq!(vector(&VectorDef { dimensions: usize::MAX, ..def }, &rawdoc! { "v": [1, 0] }), None);
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
            rawdoc! { "v": [[1, "2"], [3]] },
            rawdoc! { "v": { "0": 1, "1": 2 } },
            binary(vec![]),
            binary(vec![BYTES, 0, 1]),
            binary(vec![FLOATS, 0, 1, 2, 3]),
            binary(vec![BYTES, 1, 1, 2]),
            binary(vec![0x10, 0, 1, 2]),
        ] {
            assert_eq!(vector(&def, &document), None, "{document:?}");
        }
        // No greater element than the index allows.
        let limited = VectorDef { greatest: Some(10.0), ..VectorDef::new("v", 2, Metric::L2) };
        assert!(vector(&limited, &rawdoc! { "v": [10, -10] }).is_some());
        assert!(vector(&limited, &rawdoc! { "v": [0, -10.5] }).is_none());
        // Only the cosine needs a direction.
        assert!(vector(&VectorDef::new("v", 2, Metric::L2), &rawdoc! { "v": [0, 0] }).is_some());
    }

    #[test]
    fn elements_are_rounded_to_the_type_of_the_index_or_have_no_place_in_it() {
        let def = |elements| VectorDef { elements, ..VectorDef::new("v", 2, Metric::Cosine) };
        for (elements, document, wanted) in [
            (Element::Float16, rawdoc! { "v": [1.0001, -65519.0] }, Some(vec![1.0, -65504.0])),
            (Element::Float16, rawdoc! { "v": [1, 65520] }, None),
            (Element::Float16, rawdoc! { "v": [1e-9, 0] }, None),
            (Element::BFloat16, rawdoc! { "v": [1.0001, 257] }, Some(vec![1.0, 256.0])),
            (Element::BFloat16, rawdoc! { "v": [1, 3.4e38] }, None),
            (Element::BFloat16, rawdoc! { "v": [1, f64::NAN] }, None),
            (Element::Int8, binary(vec![BYTES, 0, 0x80, 0x7f]), Some(vec![-128.0, 127.0])),
            (Element::Int8, rawdoc! { "v": [3.0, 4_i64] }, Some(vec![3.0, 4.0])),
            (Element::Int8, rawdoc! { "v": [0.5, 1] }, None),
            (Element::Int8, rawdoc! { "v": [128, 1] }, None),
            (Element::Int8, rawdoc! { "v": [1, f64::INFINITY] }, None),
            (Element::Int8, rawdoc! { "v": [0, 0] }, None),
        ] {
            assert_eq!(vector(&def(elements), &document), wanted, "{elements:?} {document:?}");
        }
        // What does not fit leaves nothing behind.
        let some = rawdoc! { "v": [[1, 2], [0.5, 1], [3, 4], [1, 2, 3], [5]] };
        assert_eq!(all(&def(Element::Int8), &some), [(0, vec![1.0, 2.0]), (2, vec![3.0, 4.0])]);
    }

    #[test]
    fn bits_are_vectors_of_zeros_and_ones() {
        let def = VectorDef::new("v", 11, Metric::Hamming);
        let wanted = vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0];
        let array: bson::RawArrayBuf = wanted.iter().map(|bit| f64::from(*bit)).collect();
        let bytes: Vec<u8> = wanted.iter().map(|bit| *bit as u8).collect();
        for document in [
            binary(vec![BITS, 5, 0b1000_0001, 0b0111_1111]),
            rawdoc! { "v": array },
            binary([vec![BYTES, 0], bytes].concat()),
        ] {
            assert_eq!(vector(&def, &document).as_ref(), Some(&wanted), "{document:?}");
        }
        let query = Value::Binary(VECTOR, &[BITS, 5, 0b1000_0001, 0b0111_1111]);
        assert_eq!(query_vector(query).as_ref(), Ok(&wanted));
        for other in [vec![BITS, 8, 0, 0], vec![BITS, 4, 0, 0], vec![BITS, 5, 0], vec![BITS, 1], vec![BITS]] {
            assert_eq!(vector(&def, &binary(other)), None);
        }
        assert_eq!(vector(&def, &rawdoc! { "v": [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2] }), None);
        // Not in an index of numbers.
        let numbers = VectorDef::new("v", 11, Metric::L2);
        assert_eq!(vector(&numbers, &binary(vec![BITS, 5, 0, 0])), None);
    }

    /// The vectors of a document with their positions.
    fn all(def: &VectorDef, document: &RawDocument) -> Vec<(u32, Vec<f32>)> {
        def.vectors(document).unwrap().iter().map(|(at, vector)| (at, vector.to_vec())).collect()
    }

    #[test]
    fn every_vector_of_an_array_of_vectors_is_in_the_index() {
        let def = VectorDef::new("v", 2, Metric::Cosine);
        let bytes = |bytes: Vec<u8>| Binary { subtype: BinarySubtype::from(VECTOR), bytes };
        for document in
            [rawdoc! { "v": [[1, 2], [3.5, 4]] }, rawdoc! { "v": [bytes(vec![BYTES, 0, 1, 2]), [3.5, 4]] }]
        {
            assert_eq!(all(&def, &document), [(0, vec![1.0, 2.0]), (1, vec![3.5, 4.0])]);
        }
        // What cannot be compared keeps its position.
        let some = rawdoc! { "v": [null, [0, 0], [1, 2], "x", [1], [1, f64::NAN], [3, 4]] };
        assert_eq!(all(&def, &some), [(1, vec![1.0, 2.0]), (4, vec![3.0, 4.0])]);
        assert_eq!(all(&def, &rawdoc! { "v": [] }), []);
        assert_eq!(all(&def, &rawdoc! { "v": [[[1, 2]]] }), []);
        assert_eq!(all(&def, &rawdoc! { "v": [{ "v": [1, 2] }] }), []);
    }

    #[test]
    fn a_path_leads_through_arrays_of_documents() {
        let def = VectorDef::new("chunks.at.embedding", 2, Metric::L2);
        let document = rawdoc! { "chunks": [
            { "at": { "embedding": [1, 2] } }, 5, { "at": 1 }, { "at": [{ "embedding": [[3, 4], [5, 6]] }, { "embedding": [7, 8] }] },
        ] };
        let found: Vec<f32> = all(&def, &document).into_iter().flat_map(|(_, vector)| vector).collect();
        assert_eq!(found, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let vectors = def.vectors(&document).unwrap();
        assert_eq!(vectors.distance(Metric::L2, &[5.0, 5.0]), Some(1.0));
        let one = VectorDef { one_vector: true, ..def };
        assert_eq!(all(&one, &document), []);
        assert_eq!(all(&one, &rawdoc! { "chunks": { "at": { "embedding": [1, 2] } } }).len(), 1);
    }

    #[test]
    fn a_document_with_too_many_vectors_is_refused() {
        let def = VectorDef::new("v", 1, Metric::L2);
        let document = |count: usize| {
            let mut vectors = bson::RawArrayBuf::new();
            (0..count).for_each(|_| vectors.push(bson::RawArrayBuf::from_iter([1])));
            rawdoc! { "v": vectors }
        };
        assert_eq!(def.vectors(&document(Vectors::MOST)).unwrap().len(), Vectors::MOST);
        let error = def.vectors(&document(Vectors::MOST + 1)).unwrap_err();
        assert!(
            error.code == ErrorCode::BadValue && error.message.contains("more than 1000 vectors in 'v'"),
            "{error}"
        );
    }
}
