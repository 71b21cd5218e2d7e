//! Positions between entries, where a range begins or ends.

use std::cmp::Ordering;

use treedb_formats::node::{Branch, Keys, NodeDamage};

use super::schema::Schema;

/// A position in the order of entries, between two of them or at an end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Boundary {
    /// Before everything.
    Start,
    /// After everything.
    End,
    /// Before every key that is not less than these bytes, none of them compressed. (In an index whose keys are in byte
    /// order.)
    Bytes(Vec<u8>),
    /// Before or after every key whose first `columns` columns equal those of `key`.
    Columns { key: Vec<u8>, columns: usize, after: bool },
    /// Before or after exactly this key. (In an index that is not in byte order.)
    Key { key: Vec<u8>, after: bool },
}

/// Which page to descend to when a boundary lies between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The one that holds the first entry after the boundary.
    After,
    /// The one that holds the last entry before it.
    Before,
}

/// The boundary after every key that begins with `bytes`.
fn after_prefix_of(mut bytes: Vec<u8>) -> Boundary {
    while let Some(last) = bytes.last_mut() {
        if *last < 255 {
            *last += 1;
            return Boundary::Bytes(bytes);
        }
        bytes.pop();
    }
    Boundary::End
}

impl Boundary {
    /// The bytes that the boundary was made of.
    pub(super) fn into_key(self) -> Vec<u8> {
        match self {
            Boundary::Bytes(key) | Boundary::Key { key, .. } | Boundary::Columns { key, .. } => key,
            Boundary::Start | Boundary::End => Vec::new(),
        }
    }

    /// The key that the boundary is before or after, if it is one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Boundary::Bytes(key) | Boundary::Key { key, .. } | Boundary::Columns { key, .. } => Some(key),
            Boundary::Start | Boundary::End => None,
        }
    }
}

impl Schema {
    /// Before every key whose first `columns` columns are these; the columns are encoded one after the other.
    pub(super) fn before(&self, key: Vec<u8>, columns: usize) -> Boundary {
        match self.keys {
            Keys::Bytewise => Boundary::Bytes(key),
            Keys::Custom => Boundary::Columns { key, columns, after: false },
        }
    }

    /// After every key whose first `columns` columns are these.
    pub(super) fn after(&self, key: Vec<u8>, columns: usize) -> Boundary {
        match self.keys {
            Keys::Bytewise => after_prefix_of(key),
            Keys::Custom => Boundary::Columns { key, columns, after: true },
        }
    }

    /// Before this key, which has its address.
    pub(super) fn before_key(&self, key: &[u8]) -> Boundary {
        match self.keys {
            Keys::Bytewise => Boundary::Bytes(self.expanded(key).into_owned()),
            Keys::Custom => Boundary::Key { key: key.to_vec(), after: false },
        }
    }

    /// The same, for a key that is not needed elsewhere, and is not compressed.
    pub(super) fn before_owned_key(&self, key: Vec<u8>) -> Boundary {
        match self.keys {
            Keys::Bytewise => Boundary::Bytes(key),
            Keys::Custom => Boundary::Key { key, after: false },
        }
    }

    /// After this key, which has its address.
    pub(super) fn after_key(&self, key: &[u8]) -> Boundary {
        match self.keys {
            Keys::Bytewise => {
                let mut next = self.expanded(key).into_owned();
                next.push(0);
                Boundary::Bytes(next)
            }
            Keys::Custom => Boundary::Key { key: key.to_vec(), after: true },
        }
    }

    /// The order of a key, or of a page's bound, against a boundary: `Less` if it lies before the boundary, `Equal` if
    /// a bound is exactly that position; an entry with that key comes after it.
    pub(super) fn order(&self, key: &[u8], boundary: &Boundary) -> Ordering {
        let against = |order: Ordering, after: bool| match (order, after) {
            (Ordering::Equal, true) => Ordering::Less,
            _ => order,
        };
        match boundary {
            Boundary::Start => Ordering::Greater,
            Boundary::End => Ordering::Less,
            Boundary::Bytes(bytes) => self.compare(key, bytes),
            Boundary::Key { key: wanted, after } => against(self.compare(key, wanted), *after),
            Boundary::Columns { key: wanted, columns, after } => {
                match against(self.compare_columns(key, wanted, *columns), *after) {
                    // The boundary is before all keys with these columns, and this is only one of them.
                    Ordering::Equal => Ordering::Greater,
                    order => order,
                }
            }
        }
    }

    /// The child of a branch to go to for a boundary.
    pub(super) fn child(
        &self,
        branch: &Branch<'_>,
        boundary: &Boundary,
        side: Side,
    ) -> Result<usize, NodeDamage> {
        let child = match boundary {
            Boundary::Start => return Ok(0),
            Boundary::End => return Ok(branch.count()),
            Boundary::Bytes(bytes) if branch.keys() == Keys::Bytewise => branch.find(bytes)?,
            _ => {
                let mut buffer = Vec::new();
                branch.find_by(&mut buffer, |key| self.order(key, boundary))?
            }
        };
        // A separator that is the boundary itself: entries before it are on its left.
        if side == Side::Before && child > 0 {
            let mut separator = Vec::new();
            branch.separator_into(child - 1, &mut separator)?;
            if self.order(&separator, boundary) == Ordering::Equal {
                return Ok(child - 1);
            }
        }
        Ok(child)
    }

    /// True if what is wanted lies right of a page with this bound.
    pub(super) fn beyond(&self, bound: Option<&[u8]>, boundary: &Boundary, side: Side) -> bool {
        bound.is_some_and(|bound| match self.order(bound, boundary) {
            Ordering::Less => true,
            Ordering::Equal => side == Side::After,
            Ordering::Greater => false,
        })
    }
}
