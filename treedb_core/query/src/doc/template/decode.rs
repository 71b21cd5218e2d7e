//! Decodes rows into documents. The input is untrusted: bytes that are not a valid row give `None`, never a
//! panic.

use super::super::value::kind;
use super::doubles::{self, eights_len};
use super::encode::IndexName;
use super::number::{take, take_bytes, take_counted, unzigzag};
use super::shape::{Field, Shape, Slot, bits_at, loose};
use super::shapes::Shapes;
use super::{MAX_NESTING, array_form};
use crate::doc::{Element, FieldPeek, MAX_DOCUMENT_SIZE, Value};

/// A stored row; its first bytes tell in which of the two forms it is.
#[derive(Debug, Clone, Copy)]
pub enum Stored<'s, 'r> {
    /// The BSON document, unchanged.
    Plain(&'r [u8]),
    /// The values of the fields of a shape.
    Shaped(Row<'s, 'r>),
}

/// The values of a document, and their shape.
#[derive(Debug, Clone, Copy)]
pub struct Row<'s, 'r> {
    shapes: &'s Shapes,
    pub(super) shape: &'s Shape,
    bits: &'r [u8],
    fixed: &'r [u8],
    values: &'r [u8],
}

impl Shapes {
    /// Reads the start of `row`; `None` if it is damaged or its shape is unknown.
    #[inline]
    pub fn open<'s, 'r>(&'s self, mut row: &'r [u8]) -> Option<Stored<'s, 'r>> {
        let Some(number) = take(&mut row)?.checked_sub(1) else { return Some(Stored::Plain(row)) };
        let shape = self.get(number)?;
        let bits = take_bytes(&mut row, shape.bits)?;
        let fixed = take_bytes(&mut row, shape.fixed)?;
        Some(Stored::Shaped(Row { shapes: self, shape, bits, fixed, values: row }))
    }
}

impl<'s, 'r> Row<'s, 'r> {
    /// Appends the document to `out`; `None` if the row is damaged: the bytes that were appended are then
    /// invalid.
    pub fn decode(&self, out: &mut Vec<u8>) -> Option<()> {
        out.reserve(self.shape.overhead + self.fixed.len() + self.values.len() + SHORT);
        self.append(out, 0)
    }

    fn append(&self, out: &mut Vec<u8>, depth: usize) -> Option<()> {
        let mut reader = self.reader(depth);
        document(out, |out| reader.fields(&self.shape.fields, out))?;
        reader.values.is_empty().then_some(())
    }

    /// A reader positioned before the first value.
    pub(super) fn reader(&self, depth: usize) -> Reader<'s, 'r> {
        Reader { shapes: self.shapes, bits: self.bits, fixed: self.fixed, values: self.values, depth }
    }
}

/// Strings up to this many bytes are copied with one copy of constant length.
const SHORT: usize = 16;

/// Appends a document; `elements` appends its elements.
#[inline]
pub(super) fn document(out: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    elements(out)?;
    out.push(0);
    let len = u32::try_from(out.len() - start).ok()?;
    *out.get_mut(start..)?.first_chunk_mut()? = len.to_le_bytes();
    Some(())
}

/// Reads the values of a row one after the other.
pub(super) struct Reader<'s, 'r> {
    shapes: &'s Shapes,
    bits: &'r [u8],
    fixed: &'r [u8],
    values: &'r [u8],
    depth: usize,
}

impl<'r> Reader<'_, 'r> {
    /// Appends the elements of `fields`.
    pub(super) fn fields(&mut self, fields: &[Field], out: &mut Vec<u8>) -> Option<()> {
        fields.iter().try_for_each(|field| self.field(field, out))
    }

    /// Appends the element of the next field, if the document has it.
    #[inline]
    pub(super) fn field(&mut self, field: &Field, out: &mut Vec<u8>) -> Option<()> {
        match &field.slot {
            Slot::Value => {
                field.begin(out);
                self.value(field.kind(), out)
            }
            Slot::Nothing => {
                field.begin(out);
                Some(())
            }
            Slot::Bit(at) => {
                field.begin(out);
                out.push(bits_at(self.bits, *at) & 1);
                Some(())
            }
            Slot::Fixed { at, len } => {
                field.begin(out);
                let value = self.fixed.get(*at..)?;
                match value.first_chunk::<8>() {
                    Some(value) if *len == 8 => out.extend_from_slice(value),
                    _ => out.extend_from_slice(value.get(..*len)?),
                }
                Some(())
            }
            Slot::Loose(at) => match bits_at(self.bits, *at) & 3 {
                loose::USUAL => {
                    field.begin(out);
                    self.value(field.kind(), out)
                }
                loose::ABSENT => Some(()),
                loose::NULL => {
                    out.push(kind::NULL);
                    out.extend_from_slice(field.name_nul());
                    Some(())
                }
                _ => {
                    let &[kind] = take_bytes(&mut self.values, 1)? else { return None };
                    out.push(kind);
                    out.extend_from_slice(field.name_nul());
                    self.value(kind, out)
                }
            },
            Slot::Nested(fields) => {
                field.begin(out);
                document(out, |out| self.fields(fields, out))
            }
        }
    }

    /// Skips the next field.
    #[inline]
    pub(super) fn skip(&mut self, field: &Field) -> Option<()> {
        match &field.slot {
            Slot::Nothing | Slot::Bit(_) | Slot::Fixed { .. } => Some(()),
            Slot::Value => self.skip_value(field.kind()),
            Slot::Loose(at) => match bits_at(self.bits, *at) & 3 {
                loose::USUAL => self.skip_value(field.kind()),
                loose::ABSENT | loose::NULL => Some(()),
                _ => {
                    let &[kind] = take_bytes(&mut self.values, 1)? else { return None };
                    self.skip_value(kind)
                }
            },
            Slot::Nested(fields) => fields.iter().try_for_each(|field| self.skip(field)),
        }
    }

    /// The value of the next field, if it can be read without decoding the row; moves past the field.
    pub(super) fn peek(&mut self, field: &Field) -> Option<FieldPeek<'r>> {
        let kind = field.kind();
        match &field.slot {
            Slot::Value => self.peek_value(kind),
            Slot::Nothing => Some(peek_of(kind, &[])),
            Slot::Bit(at) => Some(FieldPeek::Value(Value::Bool(bits_at(self.bits, *at) & 1 == 1))),
            Slot::Fixed { at, len } => Some(peek_of(kind, self.fixed.get(*at..)?.get(..*len)?)),
            Slot::Loose(at) => match bits_at(self.bits, *at) & 3 {
                loose::USUAL => self.peek_value(kind),
                loose::ABSENT => Some(FieldPeek::Missing),
                loose::NULL => Some(FieldPeek::Value(Value::Null)),
                _ => {
                    let &[kind] = take_bytes(&mut self.values, 1)? else { return None };
                    self.peek_value(kind)
                }
            },
            Slot::Nested(_) => Some(FieldPeek::Unknown),
        }
    }

    fn peek_value(&mut self, kind: u8) -> Option<FieldPeek<'r>> {
        Some(FieldPeek::Value(match kind {
            kind::STRING => Value::String(take_counted(&mut self.values)?),
            kind::INT32 => Value::Int32(i32::try_from(unzigzag(take(&mut self.values)?)).ok()?),
            kind::INT64 => Value::Int64(unzigzag(take(&mut self.values)?)),
            kind::DATE => Value::Date(unzigzag(take(&mut self.values)?)),
            _ => match fixed_len(kind) {
                Some(len) => return Some(peek_of(kind, take_bytes(&mut self.values, len)?)),
                None => return Some(FieldPeek::Unknown),
            },
        }))
    }

    #[inline]
    fn skip_value(&mut self, kind: u8) -> Option<()> {
        match kind {
            kind::STRING => drop(take_counted(&mut self.values)?),
            kind::INT32 | kind::INT64 | kind::DATE => drop(take(&mut self.values)?),
            kind::BINARY => {
                let len = usize::try_from(take(&mut self.values)?).ok()?;
                take_bytes(&mut self.values, len.checked_add(1)?)?;
            }
            _ => match fixed_len(kind) {
                Some(len) => drop(take_bytes(&mut self.values, len)?),
                None => drop(take_counted(&mut self.values)?),
            },
        }
        Some(())
    }

    /// Appends the BSON of the next value, which is of type `kind`.
    fn value(&mut self, kind: u8, out: &mut Vec<u8>) -> Option<()> {
        match kind {
            kind::STRING | kind::CODE | kind::SYMBOL => {
                let len = usize::try_from(take(&mut self.values)?).ok()?;
                let (text, after) = self.values.split_at_checked(len)?;
                out.extend_from_slice(&u32::try_from(len + 1).ok()?.to_le_bytes());
                match self.values.first_chunk::<SHORT>() {
                    // Copies SHORT bytes and truncates: faster than a copy of variable length.
                    Some(text) if len <= SHORT => {
                        let end = out.len() + len;
                        out.extend_from_slice(text);
                        out.truncate(end);
                    }
                    _ => out.extend_from_slice(text),
                }
                out.push(0);
                self.values = after;
            }
            kind::INT32 => {
                let number = i32::try_from(unzigzag(take(&mut self.values)?)).ok()?;
                out.extend_from_slice(&number.to_le_bytes());
            }
            kind::INT64 | kind::DATE => {
                out.extend_from_slice(&unzigzag(take(&mut self.values)?).to_le_bytes());
            }
            kind::DOCUMENT => {
                let row = take_counted(&mut self.values)?;
                // A small damaged row could decode to a very large document.
                if self.depth >= MAX_NESTING || out.len() > 2 * MAX_DOCUMENT_SIZE {
                    return None;
                }
                match self.shapes.open(row)? {
                    Stored::Plain(doc) => out.extend_from_slice(doc),
                    Stored::Shaped(row) => row.append(out, self.depth + 1)?,
                }
            }
            kind::ARRAY => {
                let array = take_counted(&mut self.values)?;
                match array.split_first() {
                    None => out.extend_from_slice(crate::doc::Doc::EMPTY.as_bytes()),
                    Some((&array_form::BSON, array)) => out.extend_from_slice(array),
                    Some((&form, elements)) => {
                        if self.depth >= MAX_NESTING {
                            return None;
                        }
                        let mut inner = Reader { values: elements, depth: self.depth + 1, ..*self };
                        document(out, |out| inner.elements(form, out))?;
                    }
                }
            }
            kind::BINARY => {
                let len = take(&mut self.values)?;
                out.extend_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
                let len = usize::try_from(len).ok()?.checked_add(1)?;
                out.extend_from_slice(take_bytes(&mut self.values, len)?);
            }
            _ => match fixed_len(kind) {
                Some(len) => out.extend_from_slice(take_bytes(&mut self.values, len)?),
                None => out.extend_from_slice(take_counted(&mut self.values)?),
            },
        }
        Some(())
    }

    /// Appends the elements of an array; they take all remaining values.
    fn elements(&mut self, form: u8, out: &mut Vec<u8>) -> Option<()> {
        if fixed_len(form) == Some(8) && self.values.len() < 8 * MOST_EIGHTS {
            return self.eights(form, out);
        }
        if form == array_form::FLOATS {
            return doubles::of_floats(std::mem::take(&mut self.values), out);
        }
        let (mut position, mut name) = (0, IndexName::default());
        while !self.values.is_empty() {
            let kind = match form {
                array_form::MIXED => *take_bytes(&mut self.values, 1)?.first()?,
                kind => kind,
            };
            out.push(kind);
            out.extend_from_slice(name.of(position));
            out.push(0);
            let before = self.values.len();
            self.value(kind, out)?;
            if form != array_form::MIXED && self.values.len() == before {
                return None;
            }
            position += 1;
        }
        Some(())
    }

    /// Appends the elements of an array of values of 8 bytes, such as a vector of doubles.
    fn eights(&mut self, kind: u8, out: &mut Vec<u8>) -> Option<()> {
        let (values, []) = self.values.as_chunks::<8>() else { return None };
        self.values = &[];
        if kind == kind::DOUBLE && (doubles::FEW..=doubles::MOST).contains(&values.len()) {
            return doubles::of_values(values, out);
        }
        let mut at = out.len();
        out.resize(at + eights_len(values.len()) + ELEMENT, 0);
        for (ten, values) in values.chunks(10).enumerate() {
            let (name, digits) = name_of_ten(ten);
            for (value, digit) in values.iter().zip(0u64..) {
                // Type, name and value in one number, and a copy of constant length, of which the next element covers the end.
                let name = name + (digit << (8 * (digits - 1)));
                let value = u128::from(u64::from_le_bytes(*value)) << (8 * (digits + 2));
                let element = value | u128::from(name) << 8 | u128::from(kind);
                *out.get_mut(at..)?.first_chunk_mut::<ELEMENT>()? = element.to_le_bytes();
                at += digits + 10;
            }
        }
        out.truncate(at);
        Some(())
    }
}

/// Most bytes of an element of [`Reader::eights`].
const ELEMENT: usize = size_of::<u128>();

/// The name of element `10 * ten` of an array, its first digit in the lowest byte, and the number of digits.
fn name_of_ten(ten: usize) -> (u64, usize) {
    let (mut name, mut digits, mut rest) = (u64::from(b'0'), 1, ten);
    while rest > 0 {
        name = name << 8 | (u64::from(b'0') + (rest % 10) as u64);
        rest /= 10;
        digits += 1;
    }
    (name, digits)
}

/// An array of fewer elements than this has names of at most six digits.
const MOST_EIGHTS: usize = 1_000_000;

/// A value whose bytes are the same as in BSON.
fn peek_of(kind: u8, bytes: &[u8]) -> FieldPeek<'_> {
    FieldPeek::of(Element { name: &[], kind, bytes }.value())
}

/// The size of a value of a fixed-size type that is stored as in BSON; `None` for other types.
fn fixed_len(kind: u8) -> Option<usize> {
    Some(match kind {
        kind::DOUBLE | kind::TIMESTAMP => 8,
        kind::OBJECT_ID => 12,
        kind::DECIMAL => 16,
        kind::BOOL => 1,
        kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY => 0,
        _ => return None,
    })
}
