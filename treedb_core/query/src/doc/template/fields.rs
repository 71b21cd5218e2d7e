//! Decodes some fields of a row and skips the others.

use std::sync::atomic::{AtomicU64, Ordering};

use super::decode::{Row, document};
use crate::doc::FieldPeek;

/// Names of fields of documents, not of those nested in them: what is asked of a row.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// Tells these fields from others; copies have the same.
    id: u64,
    names: Vec<Box<[u8]>>,
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Fields {
    /// The fields of these names.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut names: Vec<Box<[u8]>> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        Fields { id: NEXT.fetch_add(1, Ordering::Relaxed), names }
    }

    /// The name, if there is just one.
    pub fn only(&self) -> Option<&[u8]> {
        match self.names.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|known| **known == *name)
    }
}

/// Caches which fields of a shape are wanted, so that names are compared once and not for each row.
#[derive(Debug, Default)]
pub struct FieldMasks {
    masks: Vec<FieldMask>,
    next: usize,
}

/// FieldMasks that are remembered.
const MAX_MASKS: usize = 16;

#[derive(Debug)]
struct FieldMask {
    /// Identities of the shape and of the fields.
    of: (u64, u64),
    /// For each field of the shape up to the last one wanted, whether it is.
    wanted: Vec<bool>,
}

impl FieldMasks {
    /// Appends the document to `out`, of its fields those in `fields`, in the document's order. `None` if the row is
    /// damaged; damage in a field that is not wanted may go unseen.
    pub fn decode(&mut self, row: &Row<'_, '_>, fields: &Fields, out: &mut Vec<u8>) -> Option<()> {
        let wanted = self.wanted(row, fields)?;
        let mut reader = row.reader(0);
        document(out, |out| {
            row.shape.fields.iter().zip(wanted).try_for_each(|(field, wanted)| {
                if *wanted { reader.field(field, out) } else { reader.skip(field) }
            })
        })
    }

    /// The only one of `fields`; `None` if the row is damaged before it.
    pub fn peek<'r>(&mut self, row: &Row<'_, 'r>, fields: &Fields) -> Option<FieldPeek<'r>> {
        if fields.names.len() != 1 {
            return Some(FieldPeek::Unknown);
        }
        let wanted = self.wanted(row, fields)?;
        let mut reader = row.reader(0);
        for (field, wanted) in row.shape.fields.iter().zip(wanted) {
            if !*wanted {
                reader.skip(field)?;
                continue;
            }
            // Of two fields with one name the first counts.
            match reader.peek(field)? {
                FieldPeek::Missing => {}
                found => return Some(found),
            }
        }
        Some(FieldPeek::Missing)
    }

    /// For each field of the row's shape up to the last one wanted, whether it is.
    #[inline]
    fn wanted(&mut self, row: &Row<'_, '_>, fields: &Fields) -> Option<&[bool]> {
        let of = (row.shape.id, fields.id);
        let at = match self.masks.iter().position(|mask| mask.of == of) {
            Some(at) => at,
            None => self.compute(of, row, fields),
        };
        Some(&self.masks.get(at)?.wanted)
    }

    #[cold]
    fn compute(&mut self, of: (u64, u64), row: &Row<'_, '_>, fields: &Fields) -> usize {
        let mut wanted: Vec<bool> = row.shape.fields.iter().map(|field| fields.has(field.name())).collect();
        wanted.truncate(wanted.iter().rposition(|wanted| *wanted).map_or(0, |last| last + 1));
        let mask = FieldMask { of, wanted };
        if self.masks.len() < MAX_MASKS {
            self.masks.push(mask);
            return self.masks.len() - 1;
        }
        self.next = (self.next + 1) % MAX_MASKS;
        self.masks[self.next] = mask;
        self.next
    }
}
