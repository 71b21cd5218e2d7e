//! Cursors over a snapshot merged with the transaction's own changes.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::read_set::{ReadSet, Span};
use crate::Result;
use crate::btree::RowCursor;
use crate::kv::cursor::Cursor;
use crate::kv::large_values::resolve_for_txn;
use crate::kv::pinned_cursor::PinnedRowCursor;
use crate::kv::reads::{Bounds, ReadContext, is_above, is_below};
use crate::kv::two_ended::{item, owned, slice};
use crate::page::Pager;

/// The changes of a table by key: the new value, `None` for a deleted key. The keys of rows are their
/// numbers, big-endian.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A cursor over the table in the snapshot.
pub(super) enum SnapshotCursor<'t> {
    Keys { cursor: Box<Cursor<'t>>, context: ReadContext<'t> },
    Rows { cursor: Box<PinnedRowCursor<'t>>, context: ReadContext<'t>, key: [u8; 8] },
}

impl<'t> SnapshotCursor<'t> {
    /// Stores the key of the current row; returns `found`.
    fn update_row_key(&mut self, found: bool) -> bool {
        if let SnapshotCursor::Rows { cursor, key, .. } = self
            && let Some(row) = cursor.row()
        {
            *key = row.to_be_bytes();
        }
        found
    }

    /// Moves to the first or the last entry.
    fn seek_end(&mut self, first: bool) -> Result<bool> {
        let found = match self {
            SnapshotCursor::Keys { cursor, .. } if first => cursor.first()?,
            SnapshotCursor::Keys { cursor, .. } => cursor.last()?,
            SnapshotCursor::Rows { cursor, .. } if first => cursor.step(|tree, _| tree.first())?.is_some(),
            SnapshotCursor::Rows { cursor, .. } => cursor.step(|tree, _| tree.last())?.is_some(),
        };
        Ok(self.update_row_key(found))
    }

    /// Moves to the nearest entry at or after `to`, or at or before it if not `forward`.
    fn seek(&mut self, to: &[u8], forward: bool) -> Result<bool> {
        let found = match self {
            SnapshotCursor::Keys { cursor, .. } if forward => cursor.seek(to)?,
            SnapshotCursor::Keys { cursor, .. } => cursor.seek_back(to)?,
            SnapshotCursor::Rows { cursor, .. } => {
                let row = to.first_chunk().map_or(0, |&bytes| u64::from_be_bytes(bytes));
                let seek = |tree: &mut RowCursor<'t, Pager>, _| {
                    if forward { tree.seek(row) } else { tree.seek_back(row) }
                };
                cursor.step(seek)?.is_some()
            }
        };
        Ok(self.update_row_key(found))
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        let found = match self {
            SnapshotCursor::Keys { cursor, .. } if forward => cursor.next()?,
            SnapshotCursor::Keys { cursor, .. } => cursor.prev()?,
            SnapshotCursor::Rows { cursor, .. } if forward => cursor.step(|tree, _| tree.next())?.is_some(),
            SnapshotCursor::Rows { cursor, .. } => cursor.step(|tree, _| tree.prev())?.is_some(),
        };
        Ok(self.update_row_key(found))
    }

    fn key(&mut self) -> Result<Option<&[u8]>> {
        match self {
            SnapshotCursor::Keys { cursor, .. } => cursor.key(),
            SnapshotCursor::Rows { key, .. } => Ok(Some(key)),
        }
    }

    fn value(&self) -> Result<Option<&'t [u8]>> {
        match self {
            SnapshotCursor::Keys { cursor, context } => cursor.keep_value(context.arena),
            SnapshotCursor::Rows { cursor, context, .. } => cursor
                .cell()
                .map(|cell| resolve_for_txn(context.pager, context.values, cell, context.arena))
                .transpose(),
        }
    }
}

/// The position of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// It has not moved yet, or `seek_exact` found nothing.
    Start,
    /// Before the first key.
    Before,
    /// On a key.
    On,
    /// After the last key.
    After,
}

/// A bidirectional cursor over a table as an optimistic transaction sees it. A new cursor is on no key:
/// `next` moves to the first key, `prev` to the last. In a serializable transaction everything it passes
/// counts as read.
pub struct OptimisticCursor<'t> {
    base: SnapshotCursor<'t>,
    changes: Option<&'t Changes>,
    reads: Option<&'t RefCell<ReadSet>>,
    /// The number of the span read since the last seek.
    span: usize,
    table: u32,
    position: Position,
    at: Vec<u8>,
    /// The value, if the transaction changed the current key.
    own_value: Option<&'t [u8]>,
    /// The direction of the last move. The base cursor is on the next entry of the snapshot in this
    /// direction, if `base_valid`.
    forward: bool,
    base_valid: bool,
}

impl<'t> OptimisticCursor<'t> {
    pub(super) fn new(
        table: u32,
        base: SnapshotCursor<'t>,
        changes: Option<&'t Changes>,
        reads: Option<&'t RefCell<ReadSet>>,
    ) -> OptimisticCursor<'t> {
        OptimisticCursor {
            base,
            changes,
            reads,
            span: usize::MAX,
            table,
            position: Position::Start,
            at: Vec::new(),
            own_value: None,
            forward: true,
            base_valid: false,
        }
    }

    /// Moves to the first key at or after `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_bound(Bound::Included(key), true)
    }

    /// Moves to `key`; false if it does not exist.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        let found = self.seek(key)? && self.at == key;
        if !found {
            self.position = Position::Start;
        }
        Ok(found)
    }

    /// Moves to the last key at or before `key`; false if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_bound(Bound::Included(key), false)
    }

    /// Moves to the first key; false if the table is empty.
    pub fn first(&mut self) -> Result<bool> {
        self.seek_bound(Bound::Unbounded, true)
    }

    /// Moves to the last key; false if the table is empty.
    pub fn last(&mut self) -> Result<bool> {
        self.seek_bound(Bound::Unbounded, false)
    }

    /// Moves to the next key; false after the last.
    #[expect(clippy::should_implement_trait, reason = "keys are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        match self.position {
            Position::After => Ok(false),
            Position::On => self.step(true),
            Position::Start | Position::Before => self.first(),
        }
    }

    /// Moves to the previous key; false before the first.
    pub fn prev(&mut self) -> Result<bool> {
        match self.position {
            Position::Before => Ok(false),
            Position::On => self.step(false),
            Position::Start | Position::After => self.last(),
        }
    }

    /// The current key; for a table of rows the row number as eight bytes, big-endian.
    pub fn key(&self) -> Option<&[u8]> {
        (self.position == Position::On).then_some(self.at.as_slice())
    }

    /// The current value.
    pub fn value(&self) -> Result<Option<&'t [u8]>> {
        match self.own_value {
            _ if self.position != Position::On => Ok(None),
            Some(value) => Ok(Some(value)),
            None => self.base.value(),
        }
    }

    /// Moves to the first entry from the bound `from` on in the given direction.
    fn seek_bound(&mut self, from: Bound<&[u8]>, forward: bool) -> Result<bool> {
        self.position = Position::Start;
        self.base_valid = match from {
            Bound::Unbounded => self.base.seek_end(forward)?,
            Bound::Included(key) => self.base.seek(key, forward)?,
            Bound::Excluded(key) => self.seek_past(key, forward)?,
        };
        self.forward = forward;
        if let Some(reads) = self.reads {
            let all = Bound::Unbounded;
            // Empty at first; `extend_span` extends it to the position reached.
            let mut span =
                if forward { Span::new(self.table, from, all) } else { Span::new(self.table, all, from) };
            if forward {
                span.to.clone_from(&span.from)
            } else {
                span.from.clone_from(&span.to)
            }
            self.span = reads.borrow_mut().add_span(span);
        }
        self.move_to_nearest(owned(from))
    }

    fn seek_past(&mut self, key: &[u8], forward: bool) -> Result<bool> {
        Ok(self.base.seek(key, forward)? && (self.base.key()? != Some(key) || self.base.step(forward)?))
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        let at = std::mem::take(&mut self.at);
        if self.forward != forward {
            self.base_valid = self.seek_past(&at, forward)?;
        } else if self.base_valid && self.base.key()? == Some(&at) {
            self.base_valid = self.base.step(forward)?;
        }
        self.forward = forward;
        self.move_to_nearest(Bound::Excluded(at))
    }

    /// The transaction's own change that is nearest to `from`.
    fn nearest_change(&self, from: &Bound<Vec<u8>>) -> Option<(&'t Vec<u8>, &'t Option<Vec<u8>>)> {
        let (changes, from) = (self.changes?, slice(from));
        if self.forward {
            changes.range::<[u8], _>((from, Bound::Unbounded)).next()
        } else {
            changes.range::<[u8], _>((Bound::Unbounded, from)).next_back()
        }
    }

    /// Moves to the nearer of two entries: that of the base cursor, or the transaction's own change nearest
    /// to `from`.
    fn move_to_nearest(&mut self, mut from: Bound<Vec<u8>>) -> Result<bool> {
        self.position = Position::Start;
        loop {
            let change = self.nearest_change(&from);
            let base = if self.base_valid { self.base.key()? } else { None };
            let order = match (base, change) {
                (None, None) => {
                    self.position = if self.forward { Position::After } else { Position::Before };
                    self.extend_span();
                    return Ok(false);
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(base), Some((key, _))) if self.forward => base.cmp(key),
                (Some(base), Some((key, _))) => key.as_slice().cmp(base),
            };
            match (order, change, base) {
                (Ordering::Less, _, Some(base)) => {
                    self.at.clear();
                    self.at.extend_from_slice(base);
                    self.own_value = None;
                }
                (_, Some((key, Some(value))), _) => {
                    self.at.clone_from(key);
                    self.own_value = Some(value);
                }
                (_, deleted, _) => {
                    // A deleted key hides the snapshot's entry with the same key.
                    if order == Ordering::Equal {
                        self.base_valid = self.base.step(self.forward)?;
                    }
                    from = deleted.map_or(from, |(key, _)| Bound::Excluded(key.clone()));
                    continue;
                }
            }
            self.position = Position::On;
            self.extend_span();
            return Ok(true);
        }
    }

    /// Extends the span that was read to the current position.
    fn extend_span(&mut self) {
        let at = self.key().map_or(Bound::Unbounded, Bound::Included);
        let (from, to) = (Span::begin(self.table, at), Span::end(self.table, at));
        self.extend_span_to(from, to);
    }

    fn extend_span_to(&mut self, from: Vec<u8>, to: Vec<u8>) {
        let Some(reads) = self.reads else { return };
        let mut reads = reads.borrow_mut();
        let Some(span) = reads.span(self.span) else { return };
        if self.forward && to > span.to {
            span.to = to;
        } else if !self.forward && from < span.from {
            span.from = from;
        }
    }

    /// Limits the span that was read to a range: nothing outside was read.
    fn clip_span(&mut self, bounds: Bounds<'_>) {
        let Some(reads) = self.reads else { return };
        let whole = Span::new(self.table, bounds.0, bounds.1);
        if let Some(span) = reads.borrow_mut().span(self.span) {
            if self.forward {
                span.to = whole.to;
            } else {
                span.from = whole.from;
            }
        }
    }
}

/// An iterator over the entries of a table between two bounds, in one direction, as an optimistic transaction
/// sees them. After an error it ends.
pub struct OptimisticRange<'t> {
    cursor: OptimisticCursor<'t>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    forward: bool,
    begun: bool,
    done: bool,
}

impl<'t> OptimisticRange<'t> {
    pub(super) fn new(cursor: OptimisticCursor<'t>, (from, to): Bounds<'_>, forward: bool) -> Self {
        OptimisticRange { cursor, from: owned(from), to: owned(to), forward, begun: false, done: false }
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, &'t [u8])>> {
        let (from, to) = (slice(&self.from), slice(&self.to));
        if !self.begun && Span::new(self.cursor.table, from, to).is_empty() {
            return Ok(None);
        }
        let found = match (self.begun, self.forward) {
            (true, true) => self.cursor.next()?,
            (true, false) => self.cursor.prev()?,
            (false, true) => self.cursor.seek_bound(from, true)?,
            (false, false) => self.cursor.seek_bound(to, false)?,
        };
        self.begun = true;
        let Some(key) = self.cursor.key().filter(|_| found) else {
            self.cursor.clip_span((from, to));
            return Ok(None);
        };
        if !is_above(key, from) || !is_below(key, to) {
            self.cursor.clip_span((from, to));
            return Ok(None);
        }
        let key = key.to_vec();
        Ok(self.cursor.value()?.map(|value| (key, value)))
    }
}

impl<'t> Iterator for OptimisticRange<'t> {
    type Item = Result<(Vec<u8>, &'t [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step();
        item(&mut self.done, step)
    }
}
