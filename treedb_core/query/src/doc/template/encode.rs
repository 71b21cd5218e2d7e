//! Encodes documents as rows.

use super::super::value::{Element, kind, length, value_len};
use super::doubles;
use super::number::{put, zigzag};
use super::shape::{Field, Shape, Slot, loose};
use super::shapes::Shapes;
use super::{MAX_NESTING, array_form};
use crate::doc::Doc;

/// The result of encoding a document.
#[derive(Debug, PartialEq)]
pub struct Encoded<'d> {
    /// The document and documents nested in it that fit no shape and were stored as BSON: the first few.
    pub missing: Vec<&'d [u8]>,
}

/// The maximum length of [`Encoded::missing`].
const MAX_MISSING: usize = 8;

impl Shapes {
    /// Appends the row of `doc`, which is valid BSON, to `out`.
    pub fn encode<'d>(&self, doc: &'d [u8], out: &mut Vec<u8>) -> Encoded<'d> {
        let mut writer = Writer { shapes: self, out, missing: Vec::new() };
        writer.row(doc, 0);
        Encoded { missing: writer.missing }
    }

    /// [`Shapes::encode`], adding the shapes that the document needs. Returns the shapes with the new ones,
    /// `None` if none were added.
    pub fn encode_grown(&self, doc: &[u8], out: &mut Vec<u8>) -> Option<Shapes> {
        let start = out.len();
        let mut grown: Option<Shapes> = None;
        // Nested documents that fit no shape are only reported after the document around them has a shape.
        for _ in 0..MAX_NESTING {
            out.truncate(start);
            let missing = grown.as_ref().unwrap_or(self).encode(doc, out).missing;
            let mut more = false;
            for doc in missing {
                let shapes = grown.as_ref().unwrap_or(self);
                if shapes.find(doc).is_some() {
                    more = true;
                } else if let Some(shapes) = shapes.grown(doc) {
                    (grown, more) = (Some(shapes), true);
                }
            }
            if !more {
                break;
            }
        }
        grown
    }
}

/// Splits `rest` after the value at its start.
fn split_value(kind: u8, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    rest.split_at_checked(value_len(kind, rest)?)
}

/// If `rest` begins with an element that has the field's name: the type of the element, and what follows its
/// name.
#[inline]
fn strip_name<'d>(field: &Field, rest: &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&kind, rest) = rest.split_first()?;
    Some((kind, rest.strip_prefix(field.name_nul())?)).filter(|_| kind != 0)
}

impl Shape {
    /// Whether the document `doc` can be stored in this shape.
    pub(super) fn fits(&self, doc: &[u8]) -> bool {
        doc.get(4..).and_then(|rest| fits(&self.fields, rest)) == Some(&[])
    }
}

/// What follows the elements of `fields` and the closing NUL of their document in `rest`, if the elements
/// fit.
fn fits<'d>(fields: &[Field], mut rest: &'d [u8]) -> Option<&'d [u8]> {
    for field in fields {
        rest = match (&field.slot, strip_name(field, rest)) {
            (Slot::Loose(_), None) => rest,
            (Slot::Loose(_), Some((kind, value))) => split_value(kind, value)?.1,
            (_, None) => return None,
            (_, Some((kind, _))) if kind != field.kind() => return None,
            (Slot::Nested(fields), Some((_, value))) => fits(fields, value.get(4..)?)?,
            (_, Some((kind, value))) => split_value(kind, value)?.1,
        };
    }
    rest.strip_prefix(&[0])
}

struct Writer<'w, 'd> {
    shapes: &'w Shapes,
    out: &'w mut Vec<u8>,
    missing: Vec<&'d [u8]>,
}

/// The offsets of a row's bits and fixed values in the output.
#[derive(Clone, Copy)]
struct Offsets {
    bits: usize,
    fixed: usize,
}

impl<'d> Writer<'_, 'd> {
    fn row(&mut self, doc: &'d [u8], depth: usize) {
        if depth < MAX_NESTING {
            // Most documents have the shape of the one before. Whether this one fits is checked while it is
            // written.
            if self.shaped(self.shapes.most_recent(), doc, depth) {
                return;
            }
            if let Some(number) = self.shapes.find(doc)
                && self.shaped(number, doc, depth)
            {
                return;
            }
        }
        if self.missing.len() < MAX_MISSING && !self.shapes.is_full() {
            self.missing.push(doc);
        }
        self.out.push(0);
        self.out.extend_from_slice(doc);
    }

    /// Writes the row of `doc` in shape `number`; false if it does not fit, and nothing is written.
    fn shaped(&mut self, number: u64, doc: &'d [u8], depth: usize) -> bool {
        let Some(shape) = self.shapes.get(number) else { return false };
        let before = (self.out.len(), self.missing.len());
        put(number + 1, self.out);
        let bits = self.out.len();
        let offsets = Offsets { bits, fixed: bits + shape.bits };
        self.out.resize(offsets.fixed + shape.fixed, 0);
        let rest = doc.get(4..).and_then(|rest| self.fields(&shape.fields, rest, offsets, depth));
        let fits = rest.is_some_and(<[u8]>::is_empty);
        if !fits {
            self.out.truncate(before.0);
            self.missing.truncate(before.1);
        }
        fits
    }

    /// Writes the values of the elements at the start of `rest`. Returns what follows the elements and the
    /// closing NUL, `None` if they do not fit `fields` (see [`fits`]).
    fn fields(
        &mut self,
        fields: &[Field],
        mut rest: &'d [u8],
        offsets: Offsets,
        depth: usize,
    ) -> Option<&'d [u8]> {
        for field in fields {
            let Some((kind, after)) = strip_name(field, rest) else {
                let Slot::Loose(at) = field.slot else { return None };
                self.set(offsets, at, loose::ABSENT);
                continue;
            };
            if let Slot::Loose(at) = field.slot {
                let (value, after) = split_value(kind, after)?;
                rest = after;
                if kind == field.kind() {
                    self.set(offsets, at, loose::USUAL);
                    self.value(kind, value, depth);
                } else if kind == kind::NULL {
                    self.set(offsets, at, loose::NULL);
                } else {
                    self.set(offsets, at, loose::OTHER);
                    self.out.push(kind);
                    self.value(kind, value, depth);
                }
                continue;
            }
            if kind != field.kind() {
                return None;
            }
            if let Slot::Nested(fields) = &field.slot {
                rest = self.fields(fields, after.get(4..)?, offsets, depth)?;
                continue;
            }
            let (value, after) = split_value(kind, after)?;
            rest = after;
            match field.slot {
                Slot::Nothing | Slot::Nested(_) | Slot::Loose(_) => {}
                Slot::Bit(at) => self.set(offsets, at, value.first().copied().unwrap_or(0) & 1),
                Slot::Fixed { at, len } => {
                    let at = offsets.fixed + at;
                    if let Some(target) = self.out.get_mut(at..at + len) {
                        target.copy_from_slice(value);
                    }
                }
                Slot::Value => self.value(kind, value, depth),
            }
        }
        rest.strip_prefix(&[0])
    }

    /// Sets the bits that start at bit number `at` to `value`.
    fn set(&mut self, offsets: Offsets, at: usize, value: u8) {
        let shifted = (u16::from(value) << (at % 8)).to_le_bytes();
        for (byte, part) in (offsets.bits + at / 8..).zip(shifted) {
            // If the bits do not extend into the second byte, it may belong to the fixed values.
            if part != 0
                && let Some(target) = self.out.get_mut(byte)
            {
                *target |= part;
            }
        }
    }

    fn counted(&mut self, bytes: &[u8]) {
        put(bytes.len() as u64, self.out);
        self.out.extend_from_slice(bytes);
    }

    /// Writes a value of type `kind`; `value` is its BSON.
    fn value(&mut self, kind: u8, value: &'d [u8], depth: usize) {
        match kind {
            kind::STRING | kind::CODE | kind::SYMBOL => {
                self.counted(value.get(4..value.len() - 1).unwrap_or_default());
            }
            kind::INT32 => {
                let number = value.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
                put(zigzag(i64::from(number)), self.out);
            }
            kind::INT64 | kind::DATE => {
                let number = value.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
                put(zigzag(number), self.out);
            }
            kind::DOCUMENT => self.sized(|writer| writer.row(value, depth + 1)),
            kind::ARRAY => self.sized(|writer| writer.array(value, depth)),
            kind::BINARY => {
                put(length(value).unwrap_or(0) as u64, self.out);
                self.out.extend_from_slice(value.get(4..).unwrap_or_default());
            }
            kind::REGEX | kind::DB_POINTER | kind::CODE_SCOPE => self.counted(value),
            _ => self.out.extend_from_slice(value),
        }
    }

    /// Writes what `write` writes, preceded by its length in bytes.
    fn sized(&mut self, write: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        // One byte is reserved for the length, which is usually enough; a longer one moves what was written.
        self.out.push(0);
        write(self);
        let len = self.out.len() - start - 1;
        if len < 0x80 {
            if let Some(target) = self.out.get_mut(start) {
                *target = len as u8;
            }
            return;
        }
        let mut number = Vec::with_capacity(5);
        put(len as u64, &mut number);
        self.out.splice(start..start + 1, number);
    }

    fn array(&mut self, array: &'d [u8], depth: usize) {
        let array = Doc::new(array);
        let Some(first) = array.elements().next() else { return };
        if first.kind == kind::DOUBLE && !self.shapes.has_whole_doubles() {
            let start = self.out.len();
            self.out.push(array_form::FLOATS);
            if doubles::put_floats(array.as_bytes(), self.out) {
                return;
            }
            self.out.truncate(start);
        }
        let (mut same_type, mut name) = (true, IndexName::default());
        for (at, element) in array.elements().enumerate() {
            if name.of(at) != element.name {
                self.out.push(array_form::BSON);
                self.out.extend_from_slice(array.as_bytes());
                return;
            }
            same_type &= element.kind == first.kind;
        }
        let same_type =
            same_type && !matches!(first.kind, kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY);
        self.out.push(if same_type { first.kind } else { array_form::MIXED });
        for Element { kind, bytes, .. } in array.elements() {
            if !same_type {
                self.out.push(kind);
            }
            self.value(kind, bytes, depth);
        }
    }
}

/// Generates the names of an array's elements: 0, 1, 2 and so on.
#[derive(Default)]
pub(super) struct IndexName([u8; 20]);

impl IndexName {
    /// The name of the element at this position.
    #[inline]
    pub(super) fn of(&mut self, mut position: usize) -> &[u8] {
        let mut start = self.0.len();
        while let Some(digit) = start.checked_sub(1).and_then(|at| self.0.get_mut(at)) {
            *digit = b'0' + (position % 10) as u8;
            start -= 1;
            position /= 10;
            if position == 0 {
                break;
            }
        }
        self.0.get(start..).unwrap_or_default()
    }
}
