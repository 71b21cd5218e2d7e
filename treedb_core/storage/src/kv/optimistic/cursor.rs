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

/// Changes of a table: values put, `None` for removed ones. Rows are under their numbers, big-endian.
pub(super) type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A cursor over the snapshot's table.
pub(super) enum Base<'t> {
    Keys { cursor: Box<Cursor<'t>>, context: ReadContext<'t> },
    Rows { cursor: Box<PinnedRowCursor<'t>>, context: ReadContext<'t>, key: [u8; 8] },
}

impl<'t> Base<'t> {
    /// Notes the key of the row it is on.
    fn on_row(&mut self, on: bool) -> bool {
        if let Base::Rows { cursor, key, .. } = self
            && let Some(row) = cursor.row()
        {
            *key = row.to_be_bytes();
        }
        on
    }

    /// To the first entry, or to the last.
    fn edge(&mut self, first: bool) -> Result<bool> {
        let on = match self {
            Base::Keys { cursor, .. } if first => cursor.first()?,
            Base::Keys { cursor, .. } => cursor.last()?,
            Base::Rows { cursor, .. } if first => cursor.step(|tree, _| tree.first())?.is_some(),
            Base::Rows { cursor, .. } => cursor.step(|tree, _| tree.last())?.is_some(),
        };
        Ok(self.on_row(on))
    }

    /// To the nearest entry at or after `key`, or at or before it.
    fn seek(&mut self, to: &[u8], forward: bool) -> Result<bool> {
        let on = match self {
            Base::Keys { cursor, .. } if forward => cursor.seek(to)?,
            Base::Keys { cursor, .. } => cursor.seek_back(to)?,
            Base::Rows { cursor, .. } => {
                let row = to.first_chunk().map_or(0, |&bytes| u64::from_be_bytes(bytes));
                let seek = |tree: &mut RowCursor<'t, Pager>, _| {
                    if forward { tree.seek(row) } else { tree.seek_back(row) }
                };
                cursor.step(seek)?.is_some()
            }
        };
        Ok(self.on_row(on))
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        let on = match self {
            Base::Keys { cursor, .. } if forward => cursor.next()?,
            Base::Keys { cursor, .. } => cursor.prev()?,
            Base::Rows { cursor, .. } if forward => cursor.step(|tree, _| tree.next())?.is_some(),
            Base::Rows { cursor, .. } => cursor.step(|tree, _| tree.prev())?.is_some(),
        };
        Ok(self.on_row(on))
    }

    fn key(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Base::Keys { cursor, .. } => cursor.key(),
            Base::Rows { key, .. } => Ok(Some(key)),
        }
    }

    fn value(&self) -> Result<Option<&'t [u8]>> {
        match self {
            Base::Keys { cursor, context } => cursor.keep_value(context.arena),
            Base::Rows { cursor, context, .. } => cursor
                .cell()
                .map(|cell| resolve_for_txn(context.pager, context.values, cell, context.arena))
                .transpose(),
        }
    }
}

/// Where a cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Start,
    Before,
    On,
    After,
}

/// A position in a table as an optimistic transaction sees it, which moves in both directions. It starts outside: `next` goes to
/// the first key, `prev` to the last. In a serializable transaction everything it passes counts as read.
pub struct OptimisticCursor<'t> {
    base: Base<'t>,
    changes: Option<&'t Changes>,
    reads: Option<&'t RefCell<ReadSet>>,
    /// The span read since it last jumped.
    span: usize,
    table: u32,
    position: Position,
    at: Vec<u8>,
    /// The value, if it is one of the transaction's own.
    own: Option<&'t [u8]>,
    /// Which way it moved last. The base is on the next entry of the snapshot that way, if `base_on`.
    forward: bool,
    base_on: bool,
}

impl<'t> OptimisticCursor<'t> {
    pub(super) fn new(
        table: u32,
        base: Base<'t>,
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
            own: None,
            forward: true,
            base_on: false,
        }
    }

    /// Goes to the first key not below `key`; false if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.jump(Bound::Included(key), true)
    }

    /// Goes to `key`; false if it is not there.
    pub fn seek_exact(&mut self, key: &[u8]) -> Result<bool> {
        let there = self.seek(key)? && self.at == key;
        if !there {
            self.position = Position::Start;
        }
        Ok(there)
    }

    /// Goes to the last key not above `key`; false if there is none.
    pub fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.jump(Bound::Included(key), false)
    }

    /// Goes to the first key; false if the table is empty.
    pub fn first(&mut self) -> Result<bool> {
        self.jump(Bound::Unbounded, true)
    }

    /// Goes to the last key; false if the table is empty.
    pub fn last(&mut self) -> Result<bool> {
        self.jump(Bound::Unbounded, false)
    }

    /// Goes to the next key; false after the last.
    #[expect(clippy::should_implement_trait, reason = "keys are borrowed from the cursor")]
    pub fn next(&mut self) -> Result<bool> {
        match self.position {
            Position::After => Ok(false),
            Position::On => self.step(true),
            Position::Start | Position::Before => self.first(),
        }
    }

    /// Goes to the previous key; false before the first.
    pub fn prev(&mut self) -> Result<bool> {
        match self.position {
            Position::Before => Ok(false),
            Position::On => self.step(false),
            Position::Start | Position::After => self.last(),
        }
    }

    /// The key it is on. Of a table of rows, the number's eight bytes, big-endian.
    pub fn key(&self) -> Option<&[u8]> {
        (self.position == Position::On).then_some(self.at.as_slice())
    }

    /// The value it is on.
    pub fn value(&self) -> Result<Option<&'t [u8]>> {
        match self.own {
            _ if self.position != Position::On => Ok(None),
            Some(own) => Ok(Some(own)),
            None => self.base.value(),
        }
    }

    /// Goes to the nearest entry within `from` that way.
    fn jump(&mut self, from: Bound<&[u8]>, forward: bool) -> Result<bool> {
        self.position = Position::Start;
        self.base_on = match from {
            Bound::Unbounded => self.base.edge(forward)?,
            Bound::Included(key) => self.base.seek(key, forward)?,
            Bound::Excluded(key) => self.seek_beyond(key, forward)?,
        };
        self.forward = forward;
        if let Some(reads) = self.reads {
            let all = Bound::Unbounded;
            // Empty at first; `widen` extends it to the position reached.
            let mut span =
                if forward { Span::new(self.table, from, all) } else { Span::new(self.table, all, from) };
            if forward {
                span.to.clone_from(&span.from)
            } else {
                span.from.clone_from(&span.to)
            }
            self.span = reads.borrow_mut().open(span);
        }
        self.settle(owned(from))
    }

    fn seek_beyond(&mut self, key: &[u8], forward: bool) -> Result<bool> {
        Ok(self.base.seek(key, forward)? && (self.base.key()? != Some(key) || self.base.step(forward)?))
    }

    fn step(&mut self, forward: bool) -> Result<bool> {
        let at = std::mem::take(&mut self.at);
        if self.forward != forward {
            self.base_on = self.seek_beyond(&at, forward)?;
        } else if self.base_on && self.base.key()? == Some(&at) {
            self.base_on = self.base.step(forward)?;
        }
        self.forward = forward;
        self.settle(Bound::Excluded(at))
    }

    /// The transaction's own change nearest to `from`.
    fn own_beyond(&self, from: &Bound<Vec<u8>>) -> Option<(&'t Vec<u8>, &'t Option<Vec<u8>>)> {
        let (changes, from) = (self.changes?, slice(from));
        if self.forward {
            changes.range::<[u8], _>((from, Bound::Unbounded)).next()
        } else {
            changes.range::<[u8], _>((Bound::Unbounded, from)).next_back()
        }
    }

    /// Moves to whichever is nearer: the snapshot's entry that the base is on, or the transaction's own beyond `from`.
    fn settle(&mut self, mut from: Bound<Vec<u8>>) -> Result<bool> {
        self.position = Position::Start;
        loop {
            let own = self.own_beyond(&from);
            let base = if self.base_on { self.base.key()? } else { None };
            let order = match (base, own) {
                (None, None) => {
                    self.position = if self.forward { Position::After } else { Position::Before };
                    self.widen();
                    return Ok(false);
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(base), Some((own, _))) if self.forward => base.cmp(own),
                (Some(base), Some((own, _))) => own.as_slice().cmp(base),
            };
            match (order, own, base) {
                (Ordering::Less, _, Some(base)) => {
                    self.at.clear();
                    self.at.extend_from_slice(base);
                    self.own = None;
                }
                (_, Some((key, Some(value))), _) => {
                    self.at.clone_from(key);
                    self.own = Some(value);
                }
                (_, removed, _) => {
                    // A removed key hides the snapshot's entry if that has the same key.
                    if order == Ordering::Equal {
                        self.base_on = self.base.step(self.forward)?;
                    }
                    from = removed.map_or(from, |(key, _)| Bound::Excluded(key.clone()));
                    continue;
                }
            }
            self.position = Position::On;
            self.widen();
            return Ok(true);
        }
    }

    /// Extends the span that was read to the current position.
    fn widen(&mut self) {
        let at = self.key().map_or(Bound::Unbounded, Bound::Included);
        let (from, to) = (Span::begin(self.table, at), Span::end(self.table, at));
        self.read_up_to(from, to);
    }

    fn read_up_to(&mut self, from: Vec<u8>, to: Vec<u8>) {
        let Some(reads) = self.reads else { return };
        let mut reads = reads.borrow_mut();
        let Some(span) = reads.span(self.span) else { return };
        if self.forward && to > span.to {
            span.to = to;
        } else if !self.forward && from < span.from {
            span.from = from;
        }
    }

    /// Cuts off what lies outside of a range: nothing has been read there.
    fn clip(&mut self, bounds: Bounds<'_>) {
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

/// The entries of a table between two bounds as an optimistic transaction sees them, in one direction. After an error
/// it is at its end.
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
        let on = match (self.begun, self.forward) {
            (true, true) => self.cursor.next()?,
            (true, false) => self.cursor.prev()?,
            (false, true) => self.cursor.jump(from, true)?,
            (false, false) => self.cursor.jump(to, false)?,
        };
        self.begun = true;
        let Some(key) = self.cursor.key().filter(|_| on) else {
            self.cursor.clip((from, to));
            return Ok(None);
        };
        if !is_above(key, from) || !is_below(key, to) {
            self.cursor.clip((from, to));
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
