//! [`Shapes`]: the shapes of a collection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::shape::{MAX_SHAPE, Shape};
use crate::doc::Doc;

/// Most shapes of one collection.
const MAX_SHAPES: usize = 256;
/// Most bytes of the shapes of one collection.
const MAX_BYTES: usize = 64 * 1024;
/// So many shapes are taken at once; after them, documents of a new kind must come twice. Names that are data (a field
/// for each user) would otherwise use the shapes up.
const FREE: usize = 32;

/// Shapes by their number. They are only ever added to, so that what was written with some of them can be read with
/// them and more.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    list: Vec<Arc<Shape>>,
    bytes: usize,
    hints: Arc<Hints>,
}

/// What makes finding shapes quick. It may be lost at any time.
#[derive(Debug)]
struct Hints {
    /// The four shapes used last, the last one lowest, 16 bits each.
    recent: AtomicU64,
    /// Kinds of documents that had no shape.
    sighted: [AtomicU32; 64],
}

impl Default for Hints {
    fn default() -> Self {
        let recent = AtomicU64::new(0x0003_0002_0001_0000);
        Hints { recent, sighted: [const { AtomicU32::new(0) }; 64] }
    }
}

impl Shapes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there are no shapes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The shape of this number.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Shape> {
        self.list.get(usize::try_from(number).ok()?).map(|shape| &**shape)
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Shape> {
        self.list.iter().map(|shape| &**shape)
    }

    /// What they are stored as: one after the other.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.list.iter().flat_map(|shape| shape.bytes.iter().copied()).collect()
    }

    /// Reads what [`Shapes::to_bytes`] wrote; `None` for bytes that are no shapes.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Shapes> {
        let mut shapes = Shapes::default();
        while !bytes.is_empty() {
            let shape = Shape::read(&mut bytes)?;
            shapes.push(shape);
        }
        Some(shapes)
    }

    fn push(&mut self, shape: Shape) {
        self.bytes += shape.bytes.len();
        self.list.push(Arc::new(shape));
    }

    /// True if no more can be added.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_SHAPES || self.bytes >= MAX_BYTES
    }

    /// The number of the shape used last.
    pub(super) fn latest(&self) -> u64 {
        self.hints.recent.load(Ordering::Relaxed) & 0xffff
    }

    /// The number of a shape that `doc` fits, those used last first.
    pub(super) fn find(&self, doc: &[u8]) -> Option<u64> {
        let recent = self.hints.recent.load(Ordering::Relaxed);
        for place in 0..4 {
            let number = recent >> (16 * place) & 0xffff;
            if self.get(number).is_some_and(|shape| shape.fits(doc)) {
                self.used(recent, place, number);
                return Some(number);
            }
        }
        let number = self.all().position(|shape| shape.fits(doc))? as u64;
        self.used(recent, 3, number);
        Some(number)
    }

    /// Puts `number` in front of the hints: it stood at `place`, or the one there goes.
    fn used(&self, recent: u64, place: u32, number: u64) {
        if place > 0 {
            let moved = (1_u64 << (16 * place)) - 1;
            let keep = if place == 3 { 0 } else { u64::MAX << (16 * (place + 1)) };
            let recent = recent & keep | (recent & moved) << 16 | number;
            self.hints.recent.store(recent, Ordering::Relaxed);
        }
    }

    /// These shapes and one that `doc`, which fits none, does fit. `None` if there is no room for it, or it is too
    /// early to say that more such documents will come.
    pub fn grown(&self, doc: &[u8]) -> Option<Shapes> {
        if self.is_full() || self.len() >= FREE && !self.sighted_before(doc) {
            return None;
        }
        let shape = match self.nearest(doc).and_then(|near| near.widened(doc)) {
            Some(shape) => shape,
            None => Shape::of(doc)?,
        };
        let room = shape.bytes.len() <= MAX_SHAPE && self.bytes + shape.bytes.len() <= MAX_BYTES;
        if !room || !shape.fits(doc) {
            return None;
        }
        let mut grown = self.clone();
        grown.push(shape);
        Some(grown)
    }

    /// The shape that has most fields in common with `doc`, if that is at least half of the fields of both.
    fn nearest(&self, doc: &[u8]) -> Option<&Shape> {
        let fields = Doc::new(doc).elements().count();
        self.all()
            .map(|shape| (shape.common(doc), shape))
            .filter(|(common, shape)| *common > 0 && 2 * common >= fields.max(shape.fields.len()))
            .max_by_key(|(common, _)| *common)
            .map(|(_, shape)| shape)
    }

    /// Whether a document with these names was here before, as far as anybody remembers.
    fn sighted_before(&self, doc: &[u8]) -> bool {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for element in Doc::new(doc).elements() {
            for &byte in element.name.iter().chain(&[0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        let mark = (hash >> 32) as u32 | 1;
        let place = &self.hints.sighted[hash as usize % 64];
        place.swap(mark, Ordering::Relaxed) == mark
    }
}
