//! The meta page, block 0: what the vectors are, where searches begin, which pages have free slots.
//!
//! | offset in the payload | size | what |
//! |---|---|---|
//! | 0 | 4 | magic "TDBh" |
//! | 4 | 2 | version: 5, or 4, whose meta page ends before the flags, which are all 0 then, or 3, whose meta page ends with the generation |
//! | 6 | 2 | kind: metric and type of the column, as support function 1 returns it |
//! | 8 | 2 | dimensions |
//! | 10 | 2 | `m`: links that a new node gets |
//! | 12 | 2 | `ef_construction` |
//! | 14 | 2 | level of the node where searches begin |
//! | 16 | 4 | that node, 0 for none |
//! | 20 | 4 | the root of the tree that keeps level 0 in one piece, 0 for none |
//! | 24 | 12 | for each kind of slots the block where the list of pages with free ones begins, 0 for none |
//! | 36 | 4 | generation: a number that changes when links above level 0 do, or where searches begin |
//! | 40 | 4 | the block of the centre that codes are about, 0 for none: codes are about zero |
//! | 44 | 4 | a number that no other centre has had in these files |
//! | 48 | 2 | in the lowest two bits 1 as long as a centre may still be chosen, 2 while codes are made anew because one was, otherwise 0; in the others how often it was judged that there is to be none, or how far the new codes are (see `vector_am/centre`) |
//! | 50 | 2 | flags: 1 if the vectors have elements of 2 bytes (see `vector_am/record`) |
//!
//! A new index is of version 5 only if it has a flag.

use std::hash::{BuildHasher, Hasher, RandomState};

use treedb_vector::centre::Centre;
use treedb_vector::element::Element;
use treedb_vector::graph::Limits;

use super::graph::checked;
use super::kind::{self, Kind};
use super::record::{Layout, Slots};
use crate::pages::meta::{self, Format};
use crate::pages::page::{Damage, HEADER};
use crate::shim::buffer::{Page, Shared};
use crate::shim::relation::Index;
use crate::shim::vector_options::{MOST_DIMENSIONS, MOST_LINKS};

/// Version of the page format.
const WITH_FLAGS: u16 = 5;
/// The same without flags, which is what an index without any is.
const VERSION: u16 = 4;
/// Without a centre, and without what the meta page says of it.
const WITHOUT_CENTRE: u16 = 3;
/// Meta pages of this access method.
const FORMAT: Format =
    Format { magic: *b"TDBh", versions: WITHOUT_CENTRE..=WITH_FLAGS, name: "a meta page of treedb_hnsw" };

/// The flag of an index whose vectors have elements of 2 bytes.
const HALVES: u16 = 1;

/// The centre of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CentreAt {
    pub(super) block: u32,
    /// No other centre has had it in these files.
    pub(super) number: u32,
}

/// How far the choice of a centre is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// There is one, or there will be none.
    Made,
    /// The index has too few vectors to tell, or has more by now than those that were judged, and were not alike.
    Open {
        /// Those of [`Centre::STEPS`] that it has been judged at.
        judged: usize,
    },
    /// One was chosen, and some codes may still be about zero.
    Recoding {
        /// Pieces of that work that are done ([`Writer::recode`](super::writer::Writer::recode)).
        done: usize,
    },
}

/// Bits of the number that says what the choice is; those above them count.
const CHOICE_BITS: u32 = 2;
/// The greatest count.
pub(super) const MOST_COUNTED: usize = (u16::MAX >> CHOICE_BITS) as usize;

impl Choice {
    /// That of an index of so many vectors that are not alike.
    pub(super) fn after(vectors: usize) -> Choice {
        match Centre::STEPS.partition_point(|step| *step <= vectors) {
            all if all == Centre::STEPS.len() => Choice::Made,
            judged => Choice::Open { judged },
        }
    }

    fn from_number(number: u16) -> Option<Choice> {
        let count = usize::from(number >> CHOICE_BITS);
        match number & ((1 << CHOICE_BITS) - 1) {
            0 if count == 0 => Some(Choice::Made),
            1 if count < Centre::STEPS.len() => Some(Choice::Open { judged: count }),
            2 => Some(Choice::Recoding { done: count }),
            _ => None,
        }
    }

    fn number(self) -> u16 {
        let (what, count) = match self {
            Choice::Made => (0, 0),
            Choice::Open { judged } => (1, judged),
            Choice::Recoding { done } => (2, done.min(MOST_COUNTED)),
        };
        what | (count as u16) << CHOICE_BITS
    }
}

/// What the meta page says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Meta {
    pub(super) kind: Kind,
    pub(super) dimensions: usize,
    pub(super) m: usize,
    pub(super) ef_construction: usize,
    /// Where searches begin, and its level.
    pub(super) entry: Option<(u32, u8)>,
    pub(super) root: Option<u32>,
    rooms: [u32; 3],
    /// What a backend remembers of the levels above 0 is of one generation.
    pub(super) generation: u32,
    /// What codes are about, if not about zero.
    pub(super) centre: Option<CentreAt>,
    pub(super) choice: Choice,
    version: u16,
    flags: u16,
}

impl Meta {
    /// Of an empty index.
    pub(super) fn new(kind: Kind, dimensions: usize, m: usize, ef_construction: usize) -> Meta {
        // Another one each time: a truncation in the transaction that has made the table keeps the files.
        let generation = random();
        let flags = if kind.element == kind::Element::Half { HALVES } else { 0 };
        let meta = Meta {
            kind,
            dimensions,
            m,
            ef_construction,
            entry: None,
            root: None,
            rooms: [0; 3],
            generation,
            centre: None,
            choice: Choice::Made,
            version: if flags == 0 { VERSION } else { WITH_FLAGS },
            flags,
        };
        let choice = if meta.layout().may_have_centre() { Choice::after(0) } else { Choice::Made };
        Meta { choice, ..meta }
    }

    /// Makes the codes be about a centre.
    pub(super) fn set_centre(&mut self, block: u32, choice: Choice) {
        (self.centre, self.choice) = (Some(CentreAt { block, number: random() }), choice);
    }

    /// What the meta page of an index says.
    pub(super) fn on(index: Index<'_>, page: &Page<Shared>) -> Meta {
        checked(index, 0, Meta::read(page.bytes()))
    }

    /// Reads a meta page.
    fn read(page: &[u8]) -> Result<Meta, Damage> {
        let fields = FORMAT.read(page)?;
        let (word, int) = (|at| fields.word(at), |at| fields.int(at));
        let number = word(6);
        let kind =
            Kind::from_number(number.into()).ok_or_else(|| Damage::new("a kind of vectors", number))?;
        let version = word(4);
        let flags = if version < WITH_FLAGS { 0 } else { word(50) };
        let of_halves = kind.element == kind::Element::Half;
        if flags & !HALVES != 0 || (flags & HALVES != 0 && !of_halves) {
            return Err(Damage::new("flags of such an index", flags));
        }
        let most = match of_halves {
            true if flags & HALVES == 0 => MOST_DIMENSIONS,
            _ => kind.most_dimensions(),
        };
        if !(1..=most).contains(&word(8).into()) || !(1..=MOST_LINKS).contains(&word(10)) {
            let found = format!("{} and {}", word(8), word(10));
            return Err(Damage::new("a number of dimensions and of links", found));
        }
        let some = |node: u32| (node != 0).then_some(node);
        let (centre, choice) = match version {
            WITHOUT_CENTRE => (None, 0),
            _ => (some(int(40)).map(|block| CentreAt { block, number: int(44) }), word(48)),
        };
        Ok(Meta {
            kind,
            dimensions: word(8).into(),
            m: word(10).into(),
            ef_construction: word(12).into(),
            entry: some(int(16)).map(|node| (node, word(14) as u8)),
            root: some(int(20)),
            rooms: [int(24), int(28), int(32)],
            generation: int(36),
            centre,
            choice: Choice::from_number(choice)
                .ok_or_else(|| Damage::new("what is known of a centre", choice))?,
            version,
            flags,
        })
    }

    /// Where the fields lie in the page, and their bytes.
    pub(super) fn part(&self) -> (usize, Vec<u8>) {
        let (entry, level) = self.entry.unwrap_or((0, 0));
        let words = [
            self.kind.number() as u16,
            self.dimensions as u16,
            self.m as u16,
            self.ef_construction as u16,
            u16::from(level),
        ];
        let mut bytes = FORMAT.start(self.version).to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let ints = [entry, self.root.unwrap_or(0)];
        let ints = ints.iter().chain(&self.rooms).chain([&self.generation]);
        bytes.extend(ints.flat_map(|int| int.to_le_bytes()));
        // What follows is in the hole of a page of the version before.
        if self.version != WITHOUT_CENTRE {
            let CentreAt { block, number } = self.centre.unwrap_or(CentreAt { block: 0, number: 0 });
            bytes.extend([block, number].iter().flat_map(|int| int.to_le_bytes()));
            bytes.extend(self.choice.number().to_le_bytes());
        }
        if self.version >= WITH_FLAGS {
            bytes.extend(self.flags.to_le_bytes());
        }
        (HEADER, bytes)
    }

    /// Makes `page` a meta page.
    pub(super) fn init(&self, page: &mut [u8]) {
        meta::init(page, &self.part().1);
    }

    /// Where the list of pages with free slots begins; 0 for none.
    pub(super) fn room(&self, slots: Slots) -> u32 {
        slots.of(self.rooms)
    }

    /// Lets that list begin at another block.
    pub(super) fn set_room(&mut self, slots: Slots, block: u32) {
        *slots.of(self.rooms.each_mut()) = block;
    }

    /// Sizes of slots.
    pub(super) fn layout(&self) -> Layout {
        let stored = if self.flags & HALVES == 0 { Element::Float32 } else { Element::Float16 };
        Layout::new(self.kind.metric, self.dimensions, self.m, stored)
    }

    /// How many links nodes have.
    pub(super) fn limits(&self) -> Limits {
        Limits { links: self.m, links_below: self.layout().most_below, ef: self.ef_construction }
    }
}

/// A random number.
fn random() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}
