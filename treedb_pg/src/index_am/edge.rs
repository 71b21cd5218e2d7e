//! Places between entries, where a walk begins or ends.

use std::cmp::Ordering;

use treedb_formats::node::{Branch, Keys, Leaf, NodeDamage};

use super::schema::Schema;

/// A place in the order of entries, between two of them or at an end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edge {
    /// Before everything.
    Start,
    /// Behind everything.
    End,
    /// Before every key that is not below these bytes. (In an index whose keys are in byte order.)
    Bytes(Vec<u8>),
    /// Before or behind every key whose first `columns` columns equal those of `key`.
    Columns { key: Vec<u8>, columns: usize, behind: bool },
    /// Before or behind this very key. (In an index that is not in byte order.)
    Key { key: Vec<u8>, behind: bool },
}

/// Which page to come to when an edge lies between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The one that holds the first entry behind the edge.
    Behind,
    /// The one that holds the last entry before it.
    Before,
}

/// The least bytes above every string that begins with `bytes`.
fn behind_all(mut bytes: Vec<u8>) -> Edge {
    while let Some(last) = bytes.last_mut() {
        if *last < 255 {
            *last += 1;
            return Edge::Bytes(bytes);
        }
        bytes.pop();
    }
    Edge::End
}

impl Schema {
    /// Before every key whose first `columns` columns are these; the columns are encoded one behind the other.
    pub(super) fn before(&self, key: Vec<u8>, columns: usize) -> Edge {
        match self.keys {
            Keys::Bytewise => Edge::Bytes(key),
            Keys::Custom => Edge::Columns { key, columns, behind: false },
        }
    }

    /// Behind every key whose first `columns` columns are these.
    pub(super) fn behind(&self, key: Vec<u8>, columns: usize) -> Edge {
        match self.keys {
            Keys::Bytewise => behind_all(key),
            Keys::Custom => Edge::Columns { key, columns, behind: true },
        }
    }

    /// Before this key, which has its address.
    pub(super) fn before_key(&self, key: &[u8]) -> Edge {
        match self.keys {
            Keys::Bytewise => Edge::Bytes(key.to_vec()),
            Keys::Custom => Edge::Key { key: key.to_vec(), behind: false },
        }
    }

    /// Behind this key, which has its address.
    pub(super) fn behind_key(&self, key: &[u8]) -> Edge {
        match self.keys {
            Keys::Bytewise => {
                let mut next = key.to_vec();
                next.push(0);
                Edge::Bytes(next)
            }
            Keys::Custom => Edge::Key { key: key.to_vec(), behind: true },
        }
    }

    /// The order of a key, or of a page's bound, against an edge: `Less` if it lies before the edge. `Equal` if a
    /// bound is that very place; an entry of that key lies behind it.
    pub(super) fn order(&self, key: &[u8], edge: &Edge) -> Ordering {
        let against = |order: Ordering, behind: bool| match (order, behind) {
            (Ordering::Equal, true) => Ordering::Less,
            _ => order,
        };
        match edge {
            Edge::Start => Ordering::Greater,
            Edge::End => Ordering::Less,
            Edge::Bytes(bytes) => key.cmp(bytes),
            Edge::Key { key: wanted, behind } => against(self.compare(key, wanted), *behind),
            Edge::Columns { key: wanted, columns, behind } => {
                match against(self.compare_columns(key, wanted, *columns), *behind) {
                    // The edge is before all keys with these columns, and this is only one of them.
                    Ordering::Equal => Ordering::Greater,
                    order => order,
                }
            }
        }
    }

    /// How many entries of a leaf lie before an edge.
    pub(super) fn place(&self, leaf: &Leaf<'_>, edge: &Edge) -> Result<usize, NodeDamage> {
        let found = match edge {
            Edge::Start => return Ok(0),
            Edge::End => return Ok(leaf.count()),
            Edge::Bytes(bytes) => leaf.search(bytes)?,
            _ => {
                let mut buffer = Vec::new();
                leaf.search_by(&mut buffer, |key| self.order(key, edge))?
            }
        };
        Ok(found.unwrap_or_else(|place| place))
    }

    /// The child of a branch to go to for an edge.
    pub(super) fn child(&self, branch: &Branch<'_>, edge: &Edge, side: Side) -> Result<usize, NodeDamage> {
        let child = match edge {
            Edge::Start => return Ok(0),
            Edge::End => return Ok(branch.count()),
            Edge::Bytes(bytes) => branch.find(bytes)?,
            _ => {
                let mut buffer = Vec::new();
                branch.find_by(&mut buffer, |key| self.order(key, edge))?
            }
        };
        // A separator that is the edge itself: entries before it are on its left.
        if side == Side::Before && child > 0 {
            let mut separator = Vec::new();
            branch.separator_into(child - 1, &mut separator)?;
            if self.order(&separator, edge) == Ordering::Equal {
                return Ok(child - 1);
            }
        }
        Ok(child)
    }

    /// True if what is wanted lies right of a page with this bound.
    pub(super) fn beyond(&self, bound: Option<&[u8]>, edge: &Edge, side: Side) -> bool {
        bound.is_some_and(|bound| match self.order(bound, edge) {
            Ordering::Less => true,
            Ordering::Equal => side == Side::Behind,
            Ordering::Greater => false,
        })
    }
}
