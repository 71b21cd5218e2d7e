//! [`Shapes`]: the shapes of a collection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::shape::{MAX_SHAPE, Shape};
use crate::doc::Doc;

/// The maximum number of shapes of a collection.
const MAX_SHAPES: usize = 256;
/// The maximum size of all shapes of a collection, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Up to this many shapes, every document that fits none adds one. After that, a document is only given a new
/// shape if one with the same field names was stored before: field names that are data (a field for each
/// user) would otherwise use up the shapes.
const EAGER_SHAPES: usize = 32;

/// Shapes by their number. Shapes are only ever added, so rows that were written with an earlier list can be
/// read with a later one.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    list: Vec<Arc<Shape>>,
    bytes: usize,
    hints: Arc<Hints>,
    /// Rows have all 8 bytes of each double of an array, as those of collections that earlier versions created.
    whole_doubles: bool,
}

/// Speeds up finding shapes. Not stored: losing it only costs time.
#[derive(Debug)]
struct Hints {
    /// The four most recently used shapes, 16 bits each, the most recent in the lowest bits.
    recent: AtomicU64,
    /// Hashes of the field names of documents that had no shape.
    seen: [AtomicU32; 64],
}

impl Default for Hints {
    fn default() -> Self {
        let recent = AtomicU64::new(0x0003_0002_0001_0000);
        Hints { recent, seen: [const { AtomicU32::new(0) }; 64] }
    }
}

impl Shapes {
    /// The number of shapes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there are no shapes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The shape with this number.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Shape> {
        self.list.get(usize::try_from(number).ok()?).map(|shape| &**shape)
    }

    /// All shapes, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Shape> {
        self.list.iter().map(|shape| &**shape)
    }

    /// The stored form: the shapes one after the other.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.list.iter().flat_map(|shape| shape.bytes.iter().copied()).collect()
    }

    /// Parses the output of [`Shapes::to_bytes`]; `None` if the bytes are not shapes.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Shapes> {
        let mut shapes = Shapes::default();
        while !bytes.is_empty() {
            let shape = Shape::read(&mut bytes)?;
            shapes.push(shape);
        }
        Some(shapes)
    }

    /// The same shapes, for rows that have all 8 bytes of each double of an array: programs that do not know the form with 4 read these.
    pub fn with_whole_doubles(self) -> Shapes {
        Shapes { whole_doubles: true, ..self }
    }

    /// Whether rows have all bytes of doubles ([`Shapes::with_whole_doubles`]).
    pub fn has_whole_doubles(&self) -> bool {
        self.whole_doubles
    }

    fn push(&mut self, shape: Shape) {
        self.bytes += shape.bytes.len();
        self.list.push(Arc::new(shape));
    }

    /// True if no more can be added.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_SHAPES || self.bytes >= MAX_BYTES
    }

    /// The number of the most recently used shape.
    pub(super) fn most_recent(&self) -> u64 {
        self.hints.recent.load(Ordering::Relaxed) & 0xffff
    }

    /// The number of a shape that `doc` fits; the most recently used shapes are tried first.
    pub(super) fn find(&self, doc: &[u8]) -> Option<u64> {
        let recent = self.hints.recent.load(Ordering::Relaxed);
        for position in 0..4 {
            let number = recent >> (16 * position) & 0xffff;
            if self.get(number).is_some_and(|shape| shape.fits(doc)) {
                self.mark_used(recent, position, number);
                return Some(number);
            }
        }
        let number = self.all().position(|shape| shape.fits(doc))? as u64;
        self.mark_used(recent, 3, number);
        Some(number)
    }

    /// Moves `number` to the front of the recently used shapes, from `position`; the shape at `position` is
    /// dropped if it is another one.
    fn mark_used(&self, recent: u64, position: u32, number: u64) {
        if position > 0 {
            let moved = (1_u64 << (16 * position)) - 1;
            let keep = if position == 3 { 0 } else { u64::MAX << (16 * (position + 1)) };
            let recent = recent & keep | (recent & moved) << 16 | number;
            self.hints.recent.store(recent, Ordering::Relaxed);
        }
    }

    /// These shapes and a new one for `doc`, which fits none of them. `None` if there is no room for it, or
    /// no document with these field names was seen before (see `EAGER_SHAPES`).
    pub fn grown(&self, doc: &[u8]) -> Option<Shapes> {
        if self.is_full() || self.len() >= EAGER_SHAPES && !self.seen_before(doc) {
            return None;
        }
        let shape = match self.most_similar(doc).and_then(|similar| similar.widened(doc)) {
            Some(shape) => shape,
            None => Shape::of(doc)?,
        };
        let has_room = shape.bytes.len() <= MAX_SHAPE && self.bytes + shape.bytes.len() <= MAX_BYTES;
        if !has_room || !shape.fits(doc) {
            return None;
        }
        let mut grown = self.clone();
        grown.push(shape);
        Some(grown)
    }

    /// The shape that has the most fields in common with `doc`, if these are at least half of the fields of
    /// both.
    fn most_similar(&self, doc: &[u8]) -> Option<&Shape> {
        let fields = Doc::new(doc).elements().count();
        self.all()
            .map(|shape| (shape.common_fields(doc), shape))
            .filter(|(common, shape)| *common > 0 && 2 * common >= fields.max(shape.fields.len()))
            .max_by_key(|(common, _)| *common)
            .map(|(_, shape)| shape)
    }

    /// Whether a document with the same field names was checked before; may be wrong either way, since only a
    /// few hashes are kept.
    fn seen_before(&self, doc: &[u8]) -> bool {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for element in Doc::new(doc).elements() {
            for &byte in element.name.iter().chain(&[0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        let tag = (hash >> 32) as u32 | 1;
        let slot = &self.hints.seen[hash as usize % 64];
        slot.swap(tag, Ordering::Relaxed) == tag
    }
}
