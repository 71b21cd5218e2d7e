//! What every meta page begins with, block 0 of an index: whose it is, and in which version its pages are.
//!
//! | offset in the payload | size | what |
//! |---|---|---|
//! | 0 | 4 | magic number of the access method |
//! | 4 | 2 | version of the format of all pages |
//!
//! What follows is the access method's; integers are little-endian. The page has no other content: the hole begins where
//! the fields end.

use std::ops::RangeInclusive;

use super::page::{Damage, ROOM, View, ViewMut, flag};

/// The meta pages of an access method.
pub(crate) struct Format {
    pub(crate) magic: [u8; 4],
    /// The versions that are read. A library reads no others: it asks for REINDEX.
    pub(crate) versions: RangeInclusive<u16>,
    /// What a message calls the page.
    pub(crate) name: &'static str,
}

/// The payload of a meta page.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'p>(&'p [u8]);

impl Fields<'_> {
    /// The two bytes at an offset of the payload.
    pub(crate) fn word(self, at: usize) -> u16 {
        self.0.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    /// The four bytes at an offset of the payload.
    pub(crate) fn int(self, at: usize) -> u32 {
        self.0.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

impl Format {
    /// Reads a meta page.
    pub(crate) fn read<'p>(&self, page: &'p [u8]) -> Result<Fields<'p>, Damage> {
        let view = View::open(page)?;
        let fields = Fields(view.payload());
        let (magic, version) = (fields.int(0), fields.word(4));
        if !view.has(flag::META) || magic != u32::from_le_bytes(self.magic) {
            return Err(Damage::new(self.name, magic));
        }
        if !self.versions.contains(&version) {
            return Err(Damage::version(*self.versions.end(), version));
        }
        Ok(fields)
    }

    /// What a meta page of this version begins with.
    pub(crate) fn start(&self, version: u16) -> [u8; 6] {
        let ([a, b, c, d], [e, f]) = (self.magic, version.to_le_bytes());
        [a, b, c, d, e, f]
    }
}

/// Makes `page` a meta page with these bytes at the beginning of its payload.
pub(crate) fn init(page: &mut [u8], fields: &[u8]) {
    let mut page = ViewMut::init(page, 0, flag::META, None);
    page.set_hole(fields.len()..ROOM);
    if let Some(place) = page.payload().get_mut(..fields.len()) {
        place.copy_from_slice(fields);
    }
}
