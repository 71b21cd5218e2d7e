//! The meta page, block 0: where the tree begins.
//!
//! | offset in the payload | size | what |
//! |---|---|---|
//! | 0 | 4 | magic "TDBt" |
//! | 4 | 2 | version, 3; 4 if some key in the order of its bytes is compressed; 5 if facts tell the types of values; 6 if there may be grouped leaves; 7 if some value may be compressed by `lz4` |
//! | 6 | 2 | level of the root |
//! | 8 | 4 | block of the root |
//! | 12 | 4 | facts, see [`fact`] |
//! | 16 | 4 | pages deleted and not yet reused, as the last vacuum counted them |

use crate::pages::meta::{self, Format};
use crate::pages::page::Damage;

/// Version of the page format.
const VERSION: u16 = 3;
/// Version of an index with compressed keys in the order of their bytes.
const WITH_COMPRESSED: u16 = 4;
/// Version of an index with [`fact::TYPED`]: what inserts into it without knowing of these facts would make them wrong.
const WITH_TYPES: u16 = 5;
/// Version of an index with grouped leaves.
const WITH_GROUPED: u16 = 6;
/// Version of an index with values that are compressed by `lz4`.
const WITH_LZ4: u16 = 7;
/// Meta pages of this access method.
const FORMAT: Format = Format { magic: *b"TDBt", versions: VERSION..=WITH_LZ4, name: "a meta page" };
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
    /// Of key sets: the facts about types have been recorded since the index was built.
    pub(crate) const TYPED: u32 = 8;
    /// Three facts: which `OtherTypes` there are, a number shifted by this.
    pub(crate) const OTHER_TYPES_SHIFT: u32 = 4;
    /// Some leaf may be a grouped one.
    pub(crate) const GROUPED: u32 = 128;
    /// Some value may be compressed by `lz4`.
    pub(crate) const LZ4: u32 = 256;
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
        let fields = FORMAT.read(page)?;
        Ok(Meta {
            level: fields.word(6),
            root: fields.int(8),
            facts: fields.int(12),
            deleted: fields.int(16),
        })
    }

    /// Makes `page` a meta page.
    pub(super) fn init(&self, page: &mut [u8]) {
        meta::init(page, &self.bytes());
    }

    /// What a meta page has at the beginning of its payload, [`HEADER`](crate::pages::page::HEADER).
    pub(super) fn bytes(&self) -> [u8; BYTES] {
        let version = match self.facts & (fact::TYPED | fact::COMPRESSED | fact::GROUPED | fact::LZ4) {
            facts if facts & fact::LZ4 != 0 => WITH_LZ4,
            facts if facts & fact::GROUPED != 0 => WITH_GROUPED,
            0 => VERSION,
            fact::COMPRESSED => WITH_COMPRESSED,
            _ => WITH_TYPES,
        };
        let parts = [
            &FORMAT.start(version)[..],
            &self.level.to_le_bytes(),
            &self.root.to_le_bytes(),
            &self.facts.to_le_bytes(),
            &self.deleted.to_le_bytes(),
        ];
        let mut bytes = [0; BYTES];
        for (place, byte) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *place = *byte;
        }
        bytes
    }
}
