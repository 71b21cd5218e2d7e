//! [`Shape`]: the fields of similar documents, and where in a row their values are.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::value::kind;
use super::{MAX_NESTING, number};

/// The maximum size of a shape, in bytes.
pub(super) const MAX_SHAPE: usize = 8 * 1024;

/// The fields of similar documents, in order.
#[derive(Debug)]
pub(super) struct Shape {
    /// Unique in this process.
    pub(super) id: u64,
    pub(super) fields: Vec<Field>,
    /// The size of a row's bits, in bytes.
    pub(super) bits: usize,
    /// The size of a row's fixed values, in bytes.
    pub(super) fixed: usize,
    /// The stored form of the shape.
    pub(super) bytes: Box<[u8]>,
    /// The approximate number of bytes that names, types and lengths take in the decoded document.
    pub(super) overhead: usize,
}

/// One field of a shape.
#[derive(Debug)]
pub(super) struct Field {
    /// The start of the element in BSON: type byte, name, NUL.
    pub(super) head: Box<[u8]>,
    /// The first bytes of `head`, padded with zeros: can be copied with one copy of constant length.
    head_prefix: [u8; HEAD_PREFIX],
    pub(super) slot: Slot,
}

/// Heads up to this many bytes are copied with one copy of constant length.
const HEAD_PREFIX: usize = 16;

/// How a field's value is stored.
#[derive(Debug)]
pub(super) enum Slot {
    /// Not at all: the type has only one value.
    Nothing,
    /// As the bit with this number.
    Bit(usize),
    /// As one of the fixed values.
    Fixed {
        /// Its offset among the fixed values.
        at: usize,
        /// Its size in bytes.
        len: usize,
    },
    /// As one of the values.
    Value,
    /// By two bits starting at this number, which tell whether one of the values follows and of which type.
    Loose(usize),
    /// A nested document with these fields.
    Nested(Vec<Field>),
}

/// The two bits of a loose field.
pub(super) mod loose {
    pub(in super::super) const USUAL: u8 = 0;
    pub(in super::super) const ABSENT: u8 = 1;
    pub(in super::super) const NULL: u8 = 2;
    pub(in super::super) const OTHER: u8 = 3;
}

/// The mode byte of a field in a stored shape.
pub(super) mod mode {
    pub(in super::super) const ALWAYS: u8 = 0;
    pub(in super::super) const LOOSE: u8 = 1;
    pub(in super::super) const NESTED: u8 = 2;
}

impl Field {
    pub(super) fn kind(&self) -> u8 {
        self.head.first().copied().unwrap_or(0)
    }

    /// Appends the head.
    #[inline]
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        if self.head.len() > HEAD_PREFIX {
            return out.extend_from_slice(&self.head);
        }
        // Copies HEAD_PREFIX bytes and truncates: faster than a copy of variable length.
        let end = out.len() + self.head.len();
        out.extend_from_slice(&self.head_prefix);
        out.truncate(end);
    }

    /// The name with its closing NUL.
    pub(super) fn name_nul(&self) -> &[u8] {
        self.head.get(1..).unwrap_or_default()
    }

    pub(super) fn name(&self) -> &[u8] {
        self.name_nul().strip_suffix(&[0]).unwrap_or_default()
    }

    fn mode(&self) -> u8 {
        match self.slot {
            Slot::Loose(_) => mode::LOOSE,
            Slot::Nested(_) => mode::NESTED,
            _ => mode::ALWAYS,
        }
    }
}

/// The bits of a row, shifted so that bit number `at` is the lowest.
#[inline]
pub(super) fn bits_at(bits: &[u8], at: usize) -> u8 {
    let low = bits.get(at / 8).copied().unwrap_or(0);
    let high = bits.get(at / 8 + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([low, high]) >> (at % 8)) as u8
}

/// Builds a shape: slots are assigned in the order of the fields.
#[derive(Debug, Default)]
pub(super) struct Builder {
    bits: usize,
    fixed: usize,
    overhead: usize,
}

impl Builder {
    /// A field with this mode, type and name; `inner` are the fields of a nested document.
    pub(super) fn field(&mut self, mode: u8, kind: u8, name: &[u8], inner: Vec<Field>) -> Field {
        let head = [&[kind], name, &[0]].concat();
        // An allowance for the length and the closing NUL of strings and documents.
        self.overhead += head.len() + 12;
        let slot = match (mode, kind) {
            (mode::NESTED, _) => Slot::Nested(inner),
            (mode::LOOSE, _) => {
                self.bits += 2;
                Slot::Loose(self.bits - 2)
            }
            (_, kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY) => Slot::Nothing,
            (_, kind::BOOL) => {
                self.bits += 1;
                Slot::Bit(self.bits - 1)
            }
            (_, kind::DOUBLE | kind::TIMESTAMP) => self.fixed(8),
            (_, kind::OBJECT_ID) => self.fixed(12),
            (_, kind::DECIMAL) => self.fixed(16),
            _ => Slot::Value,
        };
        let mut head_prefix = [0; HEAD_PREFIX];
        head_prefix.iter_mut().zip(&head).for_each(|(to, from)| *to = *from);
        Field { head: head.into_boxed_slice(), head_prefix, slot }
    }

    fn fixed(&mut self, len: usize) -> Slot {
        self.fixed += len;
        Slot::Fixed { at: self.fixed - len, len }
    }

    /// The shape with these fields.
    pub(super) fn finish(self, fields: Vec<Field>) -> Shape {
        let mut bytes = Vec::new();
        write(&fields, &mut bytes);
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Shape {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            fields,
            bits: self.bits.div_ceil(8),
            fixed: self.fixed,
            bytes: bytes.into_boxed_slice(),
            overhead: self.overhead + 5,
        }
    }
}

fn write(fields: &[Field], out: &mut Vec<u8>) {
    number::put(fields.len() as u64, out);
    for field in fields {
        out.extend_from_slice(&[field.mode(), field.kind()]);
        number::put(field.name().len() as u64, out);
        out.extend_from_slice(field.name());
        if let Slot::Nested(inner) = &field.slot {
            write(inner, out);
        }
    }
}

/// True for a type byte of BSON.
fn is_kind(kind: u8) -> bool {
    matches!(kind, kind::DOUBLE..=kind::DECIMAL | kind::MAX_KEY | kind::MIN_KEY)
}

impl Shape {
    /// Parses the shape at the start of `rest` and removes it; `None` if the bytes are not a shape.
    pub(super) fn read(rest: &mut &[u8]) -> Option<Shape> {
        let mut builder = Builder::default();
        let fields = read(&mut builder, rest, 0)?;
        Some(builder.finish(fields))
    }
}

fn read(builder: &mut Builder, rest: &mut &[u8], depth: usize) -> Option<Vec<Field>> {
    let count = usize::try_from(number::take(rest)?).ok()?;
    // Each field takes at least three bytes.
    if depth > MAX_NESTING || count > rest.len() / 3 {
        return None;
    }
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        let &[mode, kind] = number::take_bytes(rest, 2)? else { return None };
        let name = number::take_counted(rest)?;
        let inner = match mode {
            mode::ALWAYS | mode::LOOSE => Vec::new(),
            mode::NESTED if kind == kind::DOCUMENT => read(builder, rest, depth + 1)?,
            _ => return None,
        };
        if !is_kind(kind) || name.contains(&0) {
            return None;
        }
        fields.push(builder.field(mode, kind, name, inner));
    }
    Some(fields)
}
