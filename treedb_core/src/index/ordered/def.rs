//! The definition of an ordered index: name, key pattern, uniqueness.

/// Order of one field in an index or a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// 1: least first.
    Ascending,
    /// -1: greatest first.
    Descending,
}

impl Direction {
    /// The other one.
    pub fn reversed(self) -> Self {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }

    /// 1 or -1.
    pub fn sign(self) -> i32 {
        match self {
            Direction::Ascending => 1,
            Direction::Descending => -1,
        }
    }
}

/// One field of a key pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// Dotted path: `author.name`.
    pub path: String,
    /// Its order.
    pub direction: Direction,
}

/// An ordered index: what it is called, what it orders by, whether keys are unique.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IndexDef {
    /// Unique in its collection; `_id_` is the index on `_id`.
    pub name: String,
    /// The key pattern, 1 to 32 fields.
    pub keys: Vec<KeyPart>,
    /// True if no two rows may have the same key.
    pub unique: bool,
}
