//! Scans of an ordered index: the entries in a range of keys, in order.

use treedb_query::access::{Direction, Flow, KeyRange, RowId, VisitTypedEntry, after_prefix};
use treedb_query::error::Result;
use treedb_storage::{Cursor, Reads};

use super::Ordered;
use super::entry::{entry, split_entry, type_bits_of};
use super::long_key::{StoredRange, shared_prefix};
use crate::read::view::View;

impl<R: Reads> View<'_, R> {
    /// Scans the entries of `index`, which may be one that is being built.
    pub(crate) fn scan_index(
        &self,
        index: Ordered<'_>,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        visit: &mut VisitTypedEntry<'_>,
    ) -> Result<()> {
        let stored = StoredRange::of(index.def, range);
        let (low, high) = (&*stored.low, stored.high.as_deref());
        let mut cursor = self.reads.cursor(index.table)?;
        let mut on = match after {
            // The stored order does not tell which entries come after it.
            Some((key, _))
                if stored.single.is_none()
                    && let Some(prefix) = shared_prefix(key) =>
            {
                match direction {
                    Direction::Forward => cursor.seek(prefix)?,
                    Direction::Backward => seek_before(&mut cursor, after_prefix(prefix).as_deref())?,
                }
            }
            Some((key, row)) => {
                let (entry, end) = entry(index.def.unique, key.to_vec(), row, &[]);
                let last = entry.get(..end).unwrap_or_default();
                match direction {
                    Direction::Forward => cursor.seek(last)? && skip_key(&mut cursor, direction, last)?,
                    Direction::Backward => seek_before(&mut cursor, Some(last))?,
                }
            }
            None => match direction {
                Direction::Forward => cursor.seek(low)?,
                Direction::Backward => seek_before(&mut cursor, high)?,
            },
        };
        while on {
            let Some((key, value)) = cursor.entry()? else { return Ok(()) };
            let past = match direction {
                Direction::Forward => high.is_some_and(|high| key >= high),
                Direction::Backward => key < low,
            };
            if past {
                return Ok(());
            }
            let (key, row) = split_entry(index.def, key, value)?;
            let shown = match &stored.single {
                Some((only, stored)) if key == &**stored => Some(*only),
                Some(_) => None,
                None => {
                    if let Some(prefix) = shared_prefix(key) {
                        let prefix = prefix.to_vec();
                        if self.walk_shared_prefix(index, &prefix, range, direction, after, visit)?
                            == Flow::Break(())
                        {
                            return Ok(());
                        }
                        on = match (direction, after_prefix(&prefix)) {
                            (Direction::Forward, Some(next)) => cursor.seek(&next)?,
                            (Direction::Forward, None) => false,
                            (Direction::Backward, _) => seek_before(&mut cursor, Some(&prefix))?,
                        };
                        continue;
                    }
                    Some(key).filter(|key| !stored.is_wider || range.contains(key))
                }
            };
            if let Some(key) = shown
                && visit(row, key, type_bits_of(index.def.unique, value))? == Flow::Break(())
            {
                return Ok(());
            }
            on = match direction {
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            };
        }
        Ok(())
    }
}

/// Moves to the last entry before `key`, or to the last of all for `None`.
fn seek_before(cursor: &mut Cursor<'_>, key: Option<&[u8]>) -> treedb_storage::Result<bool> {
    match key {
        Some(key) => Ok(cursor.seek_back(key)? && skip_key(cursor, Direction::Backward, key)?),
        None => cursor.last(),
    }
}

/// Moves past `key` if the cursor is at it; false if there is no further entry.
fn skip_key(cursor: &mut Cursor<'_>, direction: Direction, key: &[u8]) -> treedb_storage::Result<bool> {
    if cursor.key()? != Some(key) {
        return Ok(true);
    }
    Ok(match direction {
        Direction::Forward => cursor.next()?,
        Direction::Backward => cursor.prev()?,
    })
}
