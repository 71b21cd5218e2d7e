//! Encodes documents as rows.

use super::super::value::{Element, kind, length, value_len};
use super::number::{put, zigzag};
use super::shape::{Field, Shape, Slot, loose};
use super::shapes::Shapes;
use super::{MAX_NESTING, array_form};
use crate::doc::Doc;

/// What came of encoding a document.
#[derive(Debug, PartialEq)]
pub struct Encoded<'d> {
    /// The documents in it, itself among them, that fit no shape and were stored as they are: the first few.
    pub missing: Vec<&'d [u8]>,
}

/// Documents without a shape that are told of.
const MAX_MISSING: usize = 8;

impl Shapes {
    /// Appends the row of `doc`, which is valid BSON, to `out`.
    pub fn encode<'d>(&self, doc: &'d [u8], out: &mut Vec<u8>) -> Encoded<'d> {
        let mut writer = Writer { shapes: self, out, missing: Vec::new() };
        writer.row(doc, 0);
        Encoded { missing: writer.missing }
    }

    /// [`Shapes::encode`], with shapes added as the document needs them: these, if there are any.
    pub fn encode_grown(&self, doc: &[u8], out: &mut Vec<u8>) -> Option<Shapes> {
        let start = out.len();
        let mut grown: Option<Shapes> = None;
        // Each round may find documents inside of those that found a shape in the last.
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

/// The value at the start of `rest` after a field's head.
fn split_value(kind: u8, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    rest.split_at_checked(value_len(kind, rest)?)
}

/// `rest`, which begins with an element, behind its type and name, if it has this name.
#[inline]
fn named<'d>(field: &Field, rest: &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&kind, rest) = rest.split_first()?;
    Some((kind, rest.strip_prefix(field.name_nul())?)).filter(|_| kind != 0)
}

impl Shape {
    /// Whether the document `doc` can be stored in this shape.
    pub(super) fn fits(&self, doc: &[u8]) -> bool {
        doc.get(4..).and_then(|rest| fits(&self.fields, rest)) == Some(&[])
    }
}

/// What is left of `rest` behind the elements of `fields` and their document's NUL, if they fit.
fn fits<'d>(fields: &[Field], mut rest: &'d [u8]) -> Option<&'d [u8]> {
    for field in fields {
        rest = match (&field.slot, named(field, rest)) {
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

/// Where a row's bits and fixed values begin.
#[derive(Clone, Copy)]
struct Places {
    bits: usize,
    fixed: usize,
}

impl<'d> Writer<'_, 'd> {
    fn row(&mut self, doc: &'d [u8], depth: usize) {
        if depth < MAX_NESTING {
            // Most documents have the shape of the last one: whether this one does shows as it is written.
            if self.shaped(self.shapes.latest(), doc, depth) {
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

    /// Writes the row of `doc` in shape `number`; false, and nothing written, if it does not fit that.
    fn shaped(&mut self, number: u64, doc: &'d [u8], depth: usize) -> bool {
        let Some(shape) = self.shapes.get(number) else { return false };
        let before = (self.out.len(), self.missing.len());
        put(number + 1, self.out);
        let bits = self.out.len();
        let places = Places { bits, fixed: bits + shape.bits };
        self.out.resize(places.fixed + shape.fixed, 0);
        let rest = doc.get(4..).and_then(|rest| self.fields(&shape.fields, rest, places, depth));
        let fits = rest.is_some_and(<[u8]>::is_empty);
        if !fits {
            self.out.truncate(before.0);
            self.missing.truncate(before.1);
        }
        fits
    }

    /// Writes the elements at the start of `rest`; returns what follows them and the NUL, `None` if they do not fit
    /// `fields` (see [`fits`]).
    fn fields(
        &mut self,
        fields: &[Field],
        mut rest: &'d [u8],
        places: Places,
        depth: usize,
    ) -> Option<&'d [u8]> {
        for field in fields {
            let Some((kind, after)) = named(field, rest) else {
                let Slot::Loose(at) = field.slot else { return None };
                self.set(places, at, loose::ABSENT);
                continue;
            };
            if let Slot::Loose(at) = field.slot {
                let (value, after) = split_value(kind, after)?;
                rest = after;
                if kind == field.kind() {
                    self.set(places, at, loose::USUAL);
                    self.value(kind, value, depth);
                } else if kind == kind::NULL {
                    self.set(places, at, loose::NULL);
                } else {
                    self.set(places, at, loose::OTHER);
                    self.out.push(kind);
                    self.value(kind, value, depth);
                }
                continue;
            }
            if kind != field.kind() {
                return None;
            }
            if let Slot::Nested(fields) = &field.slot {
                rest = self.fields(fields, after.get(4..)?, places, depth)?;
                continue;
            }
            let (value, after) = split_value(kind, after)?;
            rest = after;
            match field.slot {
                Slot::Nothing | Slot::Nested(_) | Slot::Loose(_) => {}
                Slot::Bit(at) => self.set(places, at, value.first().copied().unwrap_or(0) & 1),
                Slot::Fixed { at, len } => {
                    let at = places.fixed + at;
                    if let Some(place) = self.out.get_mut(at..at + len) {
                        place.copy_from_slice(value);
                    }
                }
                Slot::Value => self.value(kind, value, depth),
            }
        }
        rest.strip_prefix(&[0])
    }

    /// Sets the bits from number `at` on.
    fn set(&mut self, places: Places, at: usize, what: u8) {
        let shifted = (u16::from(what) << (at % 8)).to_le_bytes();
        for (byte, part) in (places.bits + at / 8..).zip(shifted) {
            // The second byte is another's if nothing of this goes there.
            if part != 0
                && let Some(place) = self.out.get_mut(byte)
            {
                *place |= part;
            }
        }
    }

    fn counted(&mut self, bytes: &[u8]) {
        put(bytes.len() as u64, self.out);
        self.out.extend_from_slice(bytes);
    }

    /// Writes a value of type `kind`, whose BSON is `value`.
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

    /// Writes a number of bytes and what `write` writes.
    fn sized(&mut self, write: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        // Most are short; a longer length moves what was written.
        self.out.push(0);
        write(self);
        let len = self.out.len() - start - 1;
        if len < 0x80 {
            if let Some(place) = self.out.get_mut(start) {
                *place = len as u8;
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
        let (mut same, mut name) = (true, IndexName::default());
        for (at, element) in array.elements().enumerate() {
            if name.of(at) != element.name {
                self.out.push(array_form::BSON);
                self.out.extend_from_slice(array.as_bytes());
                return;
            }
            same &= element.kind == first.kind;
        }
        let same =
            same && !matches!(first.kind, kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY);
        self.out.push(if same { first.kind } else { array_form::MIXED });
        for Element { kind, bytes, .. } in array.elements() {
            if !same {
                self.out.push(kind);
            }
            self.value(kind, bytes, depth);
        }
    }
}

/// The names of an array's elements: 0, 1, 2 and so on.
#[derive(Default)]
pub(super) struct IndexName([u8; 20]);

impl IndexName {
    /// The name of the element at this position.
    #[inline]
    pub(super) fn of(&mut self, mut position: usize) -> &[u8] {
        let mut start = self.0.len();
        while let Some(place) = start.checked_sub(1).and_then(|at| self.0.get_mut(at)) {
            *place = b'0' + (position % 10) as u8;
            start -= 1;
            position /= 10;
            if position == 0 {
                break;
            }
        }
        self.0.get(start..).unwrap_or_default()
    }
}
