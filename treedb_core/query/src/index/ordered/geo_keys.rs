//! The keys of `2dsphere` and `2d` indexes.
//!
//! A key has, for each field of the pattern, the encoding of its value, or for a location the number of one of its cells: 8 bytes,
//! big endian. A document has a key for each combination of a cell of each location and a key of the other fields. Where one
//! of several locations is missing its number is 0, which no cell has; a document without any has no key, so that the index is
//! sparse as MongoDB's are.

use bson::RawDocument;

use super::definition::{IndexDef, KeyPart};
use super::keys::encoded_parts;
use crate::doc::{Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::geo::{Grid, Work, brief, cells_of};

/// Keys of a document, at most: MongoDB's limit.
const MOST_KEYS: usize = 100_000;

/// The bounds of a `2d` index that names none.
pub(super) const BOUNDS: (f64, f64) = (-180.0, 180.0);
/// The `bits` of a `2d` index that names none.
pub(super) const BITS: i32 = 26;

/// Which fields of a pattern are locations, and how they are divided into cells.
#[derive(Debug, Clone, PartialEq)]
pub struct GeoFields {
    grid: Grid,
    /// Positions in the pattern, ascending; at least one.
    at: Vec<usize>,
    /// `bits` of a `2d` index. It is kept for MongoDB's tools; cells are as small in any case.
    pub(super) bits: i32,
}

impl GeoFields {
    /// The type in a key pattern; `None` if it is not one of a location.
    pub(super) fn grid_named(name: &[u8]) -> Option<Grid> {
        match name {
            b"2dsphere" => Some(Grid::Sphere),
            b"2d" => Some(Grid::Plane { min: BOUNDS.0, max: BOUNDS.1 }),
            _ => None,
        }
    }

    pub(super) fn new(grid: Grid, at: usize) -> Self {
        GeoFields { grid, at: vec![at], bits: BITS }
    }

    pub(super) fn add(&mut self, at: usize) {
        self.at.push(at);
    }

    pub(super) fn set_bounds(&mut self, min: f64, max: f64) {
        self.grid = Grid::Plane { min, max };
    }

    /// `min` and `max` of a `2d` index.
    pub(super) fn bounds(&self) -> Option<(f64, f64)> {
        match self.grid {
            Grid::Sphere => None,
            Grid::Plane { min, max } => Some((min, max)),
        }
    }

    /// What its cells are cells of.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// `2dsphere` or `2d`.
    pub fn name(&self) -> &'static str {
        match self.grid {
            Grid::Sphere => "2dsphere",
            Grid::Plane { .. } => "2d",
        }
    }

    /// True if the field at this position of the pattern is a location.
    pub fn has(&self, at: usize) -> bool {
        self.at.contains(&at)
    }

    /// The keys of a document in the index `def`, and whether they are or may be several.
    pub(super) fn keys(&self, def: &IndexDef, doc: &RawDocument) -> Result<(Vec<Vec<u8>>, bool)> {
        let mut cells: Vec<Vec<u64>> = Vec::with_capacity(self.at.len());
        for at in &self.at {
            let Some(part) = def.keys.get(*at) else { continue };
            cells.push(self.cells(part, doc)?);
        }
        if cells.iter().all(Vec::is_empty) {
            return Ok((Vec::new(), false));
        }
        for one in &mut cells {
            one.sort_unstable();
            one.dedup();
            if one.is_empty() {
                one.push(0);
            }
        }
        let is_other = |at: usize| !self.has(at);
        let others: Vec<KeyPart> = { def.keys.iter().enumerate() }
            .filter(|(at, _)| is_other(*at))
            .map(|(_, part)| part.clone())
            .collect();
        let (others, arrays) = encoded_parts(&others, &def.options.collation, doc)?;
        let count = cells.iter().fold(others.len(), |count, one| count.saturating_mul(one.len()));
        if count > MOST_KEYS {
            return Err(QueryError::new(
                ErrorCode::CannotBuildIndexKeys,
                format!("Index key generation limit of {MOST_KEYS} exceeded: index {}", def.name),
            ));
        }
        let mut keys = Vec::with_capacity(count);
        for other in &others {
            let (mut values, mut cells) = (other.iter(), cells.iter());
            let mut made: Vec<Vec<u8>> = vec![Vec::new()];
            for at in 0..def.keys.len() {
                if is_other(at) {
                    let Some(value) = values.next() else { continue };
                    made.iter_mut().for_each(|key| key.extend_from_slice(value));
                } else if let Some(numbers) = cells.next() {
                    let with = |key: &Vec<u8>, number: &u64| [key.as_slice(), &number.to_be_bytes()].concat();
                    made = made.iter().flat_map(|key| numbers.iter().map(move |n| with(key, n))).collect();
                }
            }
            keys.append(&mut made);
        }
        let multikey = arrays || keys.len() > 1;
        Ok((keys, multikey))
    }

    /// The cells of a document's locations in a field.
    fn cells(&self, part: &KeyPart, doc: &RawDocument) -> Result<Vec<u64>> {
        // Others wait for the writer: so much and no more.
        let work = Work::unchecked();
        let mut cells = Vec::new();
        let found = work.bounded(|| {
            let mut failed = None;
            part.path.visit(Doc::from(doc), false, &mut |found| {
                failed = found.and_then(|value| cells_of(&self.grid, value, &mut cells, &work).err());
                failed.is_some()
            });
            failed.map_or(Ok(()), Err)
        });
        match found.err() {
            None => Ok(cells),
            Some(error) if self.grid == Grid::Sphere => {
                let text = brief(Value::Document(doc.into()));
                let message = format!("Can't extract geo keys: {text}  {}", error.message);
                Err(QueryError::new(ErrorCode::Location16755, message))
            }
            Some(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn def(spec: RawDocumentBuf) -> IndexDef {
        IndexDef::from_spec(&spec, &|_, _| Err(QueryError::bad_value("no filters in this test"))).unwrap()
    }

    #[test]
    fn a_document_has_a_key_for_each_cell_and_each_key_of_the_other_fields() {
        let def = def(rawdoc! { "key": { "a": 1, "loc": "2dsphere", "b": -1 } });
        let one = def.keys(&rawdoc! { "a": 1, "loc": [10, 20], "b": 2 }).unwrap();
        assert_eq!((one.keys.len(), one.multikey), (1, false));
        let several =
            def.keys(&rawdoc! { "a": [1, 2, 3], "loc": [[10, 20], { "lng": 11, "lat": 20 }] }).unwrap();
        assert_eq!((several.keys.len(), several.multikey), (6, true));
        for key in several.keys.iter().chain(&one.keys) {
            assert!(def.is_whole(key) && !def.is_whole(&key[1..]));
        }
        for missing in [rawdoc! {}, rawdoc! { "a": 1 }, rawdoc! { "loc": null }, rawdoc! { "loc": [] }] {
            assert_eq!(def.keys(&missing).unwrap().keys.len(), 0, "{missing:?}");
        }
    }

    #[test]
    fn a_document_with_one_of_two_locations_has_a_key() {
        let def = def(rawdoc! { "key": { "from": "2dsphere", "to": "2dsphere" } });
        let keys = def.keys(&rawdoc! { "from": [1, 2] }).unwrap().keys;
        assert_eq!(keys.len(), 1);
        assert_eq!((keys[0].len(), &keys[0][8..]), (16, &[0; 8][..]));
    }

    #[test]
    fn what_is_no_location_cannot_be_indexed() {
        let (sphere, plane) =
            (def(rawdoc! { "key": { "loc": "2dsphere" } }), def(rawdoc! { "key": { "loc": "2d" } }));
        for (def, loc, code) in [
            (&sphere, bson::rawbson!("text"), ErrorCode::Location16755),
            (&sphere, bson::rawbson!([181, 0]), ErrorCode::Location16755),
            (&sphere, bson::rawbson!({ "type": "Point", "coordinates": [0, 91] }), ErrorCode::Location16755),
            (&sphere, bson::rawbson!([0, f64::NAN]), ErrorCode::Location16755),
            (&sphere, bson::rawbson!([[0, 0], "x"]), ErrorCode::Location16755),
            (&plane, bson::rawbson!({ "type": "Point", "coordinates": [0, 1] }), ErrorCode::Location13026),
            (&plane, bson::rawbson!([181, 0]), ErrorCode::Location13027),
        ] {
            assert_eq!(def.keys(&rawdoc! { "loc": loc.clone() }).unwrap_err().code, code, "{loc:?}");
        }
        let many: bson::RawArrayBuf = (0..1000).map(|at| bson::rawbson!([at % 100, at / 100])).collect();
        let list: bson::RawArrayBuf = (0..1000).collect();
        let def = self::def(rawdoc! { "key": { "loc": "2dsphere", "list": 1 } });
        let error = def.keys(&rawdoc! { "loc": many, "list": list }).unwrap_err();
        assert_eq!(error.code, ErrorCode::CannotBuildIndexKeys);
    }
}
