//! Partial decoding: decodes some fields of a row and skips the others.

use std::sync::atomic::{AtomicU64, Ordering};

use super::decode::{Row, document};
use crate::doc::FieldPeek;

/// The top-level fields to decode.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// Identifies the set in the cache; clones have the same number.
    id: u64,
    /// Sorted.
    names: Vec<Box<[u8]>>,
    /// All but those are decoded.
    all_but: bool,
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        (self.all_but, &self.names) == (other.all_but, &other.names)
    }
}

impl Fields {
    /// The fields with these names.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut names: Vec<Box<[u8]>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        Fields { id: NEXT.fetch_add(1, Ordering::Relaxed), names, all_but: false }
    }

    /// All fields but those with these names.
    pub fn all_but<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Self {
        Fields { all_but: true, ..Fields::new(names) }
    }

    /// The name, if there is exactly one.
    pub fn only(&self) -> Option<&[u8]> {
        match self.names.as_slice() {
            [only] if !self.all_but => Some(only),
            _ => None,
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.names.binary_search_by(|known| (**known).cmp(name)).is_ok() != self.all_but
    }
}

/// Caches which fields of a shape are wanted, so that names are compared once per shape and not for each row.
#[derive(Debug, Default)]
pub struct FieldMasks {
    masks: Vec<FieldMask>,
    next: usize,
}

/// The maximum number of cached masks.
const MAX_MASKS: usize = 16;

#[derive(Debug)]
struct FieldMask {
    /// The ids of the shape and of the fields.
    key: (u64, u64),
    /// For each field of the shape, up to the last one that is wanted: whether it is wanted.
    wanted: Vec<bool>,
}

impl FieldMasks {
    /// Appends a document with those of the row's fields that are in `fields`, in the document's order.
    /// `None` if the row is damaged; damage in a field that is not wanted may go undetected.
    pub fn decode(&mut self, row: &Row<'_, '_>, fields: &Fields, out: &mut Vec<u8>) -> Option<()> {
        let wanted = self.wanted(row, fields)?;
        let mut reader = row.reader(0);
        document(out, |out| {
            row.shape.fields.iter().zip(wanted).try_for_each(|(field, wanted)| {
                if *wanted { reader.field(field, out) } else { reader.skip(field) }
            })
        })
    }

    /// The value of the field if `fields` has exactly one; `None` if the row is damaged up to the field.
    pub fn peek<'r>(&mut self, row: &Row<'_, 'r>, fields: &Fields) -> Option<FieldPeek<'r>> {
        if fields.only().is_none() {
            return Some(FieldPeek::Unknown);
        }
        let wanted = self.wanted(row, fields)?;
        let mut reader = row.reader(0);
        for (field, wanted) in row.shape.fields.iter().zip(wanted) {
            if !*wanted {
                reader.skip(field)?;
                continue;
            }
            // Of two fields with the same name the first is used.
            match reader.peek(field)? {
                FieldPeek::Missing => {}
                found => return Some(found),
            }
        }
        Some(FieldPeek::Missing)
    }

    /// For each field of the row's shape, up to the last one that is wanted: whether it is wanted.
    #[inline]
    fn wanted(&mut self, row: &Row<'_, '_>, fields: &Fields) -> Option<&[bool]> {
        let key = (row.shape.id, fields.id);
        let at = match self.masks.iter().position(|mask| mask.key == key) {
            Some(at) => at,
            None => self.compute(key, row, fields),
        };
        Some(&self.masks.get(at)?.wanted)
    }

    #[cold]
    fn compute(&mut self, key: (u64, u64), row: &Row<'_, '_>, fields: &Fields) -> usize {
        let mut wanted: Vec<bool> = row.shape.fields.iter().map(|field| fields.has(field.name())).collect();
        wanted.truncate(wanted.iter().rposition(|wanted| *wanted).map_or(0, |last| last + 1));
        let mask = FieldMask { key, wanted };
        if self.masks.len() < MAX_MASKS {
            self.masks.push(mask);
            return self.masks.len() - 1;
        }
        self.next = (self.next + 1) % MAX_MASKS;
        self.masks[self.next] = mask;
        self.next
    }
}
