//! The meta page, block 0: where the tree begins.
//!
//! | offset in the payload | size | what |
//! |---|---|---|
//! | 0 | 4 | magic "TDBt" |
//! | 4 | 2 | version, 3; 4 if some key in the order of its bytes is compressed |
//! | 6 | 2 | level of the root |
//! | 8 | 4 | block of the root |
//! | 12 | 4 | facts, see [`fact`] |
//! | 16 | 4 | pages deleted and not yet reused, as the last vacuum counted them |

use crate::pages::page::{Damage, ROOM, View, ViewMut, flag};

/// Magic number of the meta page.
const MAGIC: u32 = u32::from_le_bytes(*b"TDBt");
/// Version of the page format. A library reads no other, and none that is later than its own: it asks for REINDEX.
const VERSION: u16 = 3;
/// Version of an index with compressed keys in the order of their bytes.
const WITH_COMPRESSED: u16 = 4;
/// Bytes of the payload in use.
const BYTES: usize = 20;

/// What has been true of some entry of the index, ever.
pub(crate) mod fact {
    /// Some row has several entries.
    pub(crate) const MULTIKEY: u32 = 1;
    /// Some key was too long and is stored shortened: entries still find rows, but not in order.
    pub(crate) const SHORTENED: u32 = 2;
    /// Some key may have columns in the order of their bytes that are compressed.
    pub(crate) const COMPRESSED: u32 = 4;
}

/// What the meta page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// Block of the root.
    pub(super) root: u32,
    /// Level of the root: 0 when it is a leaf.
    pub(super) level: u16,
    /// See [`fact`].
    pub(super) facts: u32,
    /// Pages deleted and not yet reused.
    pub(super) deleted: u32,
}

impl Meta {
    /// Reads a meta page.
    pub(super) fn read(page: &[u8]) -> Result<Meta, Damage> {
        let view = View::open(page)?;
        let payload = view.payload();
        let int = |at: usize| {
            payload.get(at..).and_then(|b| b.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b))
        };
        if !view.has(flag::META) || int(0) != MAGIC {
            return Err(Damage::new("a meta page", int(0)));
        }
        let version = int(4) as u16;
        if !(VERSION..=WITH_COMPRESSED).contains(&version) {
            return Err(Damage::version(WITH_COMPRESSED, version));
        }
        Ok(Meta { root: int(8), level: (int(4) >> 16) as u16, facts: int(12), deleted: int(16) })
    }

    /// Makes `page` a meta page.
    pub(super) fn init(&self, page: &mut [u8]) {
        let mut page = ViewMut::init(page, 0, flag::META, None);
        page.set_hole(BYTES..ROOM);
        if let Some(place) = page.payload().first_chunk_mut() {
            *place = self.bytes();
        }
    }

    /// What a meta page has at the beginning of its payload, [`HEADER`](crate::pages::page::HEADER).
    pub(super) fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let version = if self.facts & fact::COMPRESSED == 0 { VERSION } else { WITH_COMPRESSED };
        let parts = [
            &MAGIC.to_le_bytes()[..],
            &version.to_le_bytes(),
            &self.level.to_le_bytes(),
            &self.root.to_le_bytes(),
            &self.facts.to_le_bytes(),
            &self.deleted.to_le_bytes(),
        ];
        for (place, byte) in bytes.iter_mut().zip(parts.concat()) {
            *place = byte;
        }
        bytes
    }
}
