//! Scans of an index of ours: what the server asks for, and how it is answered.

use std::borrow::Cow;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::datum::{Datum, Layout};
use super::error::{SqlState, fail};
use super::relation::{Index, Relation, layout};
use super::snapshot::Snapshot;

/// The direction that the server asks for.
pub(super) fn from_server(direction: pg_sys::ScanDirection::Type) -> Direction {
    if direction == pg_sys::ScanDirection::BackwardScanDirection {
        Direction::Backward
    } else {
        Direction::Forward
    }
}

/// The server's form of a direction.
pub(super) fn to_server(direction: Direction) -> pg_sys::ScanDirection::Type {
    match direction {
        Direction::Forward => pg_sys::ScanDirection::ForwardScanDirection,
        Direction::Backward => pg_sys::ScanDirection::BackwardScanDirection,
    }
}

/// What a scan key asks of its column.
pub(crate) enum Condition<'c> {
    IsNull,
    IsNotNull,
    /// A comparison with NULL, which is true of no row.
    Never,
    /// A comparison of several columns at once.
    Row,
    /// A comparison with a value.
    Compare(Datum<'c>),
    /// A comparison with any of the elements of an array that are not NULL.
    CompareAny(Vec<Datum<'c>>),
}

/// A condition on one column of an index.
pub(crate) struct ScanKey<'c> {
    /// The column, counted from 0.
    pub(crate) column: usize,
    /// The operator's number in the operator class.
    pub(crate) strategy: u16,
    /// The type of what it is compared with, if that is not the operator class's own.
    pub(crate) argument_type: Option<pg_sys::Oid>,
    pub(crate) condition: Condition<'c>,
}

/// Where the entry is formed that an index-only scan returns. The server reads it until it asks for the next one.
#[derive(Default)]
pub(super) struct EntryBuffer(Vec<u64>);

/// A value of an entry that is returned.
pub(crate) enum ColumnValue<'v> {
    /// Of a type that is passed in the word itself.
    Word(usize),
    /// Of a variable-length type.
    Varlena(Cow<'v, [u8]>),
    /// Of a type of 16 bytes.
    Fixed([u8; 16]),
}

impl ColumnValue<'_> {
    /// The server's form, and whether it is allocated.
    fn raw(&self, layout: Option<Layout>) -> (pg_sys::Datum, bool) {
        // SAFETY: the server returns as many bytes as are asked for, or raises an error; the header of four bytes
        // says the whole length.
        unsafe {
            match (self, layout) {
                (ColumnValue::Word(bits), Some(Layout::Word)) => (pg_sys::Datum::from(*bits), false),
                (ColumnValue::Varlena(bytes), Some(Layout::Varlena)) => {
                    let size = bytes.len() + pg_sys::VARHDRSZ;
                    let place = pg_sys::palloc(size).cast::<u8>();
                    pgrx::varlena::set_varsize_4b(place.cast(), size as i32);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.add(pg_sys::VARHDRSZ), bytes.len());
                    (pg_sys::Datum::from(place), true)
                }
                (ColumnValue::Fixed(bytes), Some(Layout::Fixed(16))) => {
                    let place = pg_sys::palloc(bytes.len()).cast::<u8>();
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
                    (pg_sys::Datum::from(place), true)
                }
                _ => fail(
                    SqlState::ERRCODE_DATATYPE_MISMATCH,
                    format!(
                        "an index entry has a value for a column stored as {layout:?} that is stored otherwise"
                    ),
                    "Drop indexes with operator classes that the extension did not create.",
                ),
            }
        }
    }
}

/// A scan, for as long as one callback runs.
pub(crate) struct Scan<'c> {
    scan: pg_sys::IndexScanDesc,
    entry: &'c mut EntryBuffer,
}

impl<'c> Scan<'c> {
    /// # Safety
    /// The descriptor of a scan that the server has begun, which nobody else uses for `'c`; `entry` lives as long as
    /// the scan.
    pub(super) unsafe fn from_raw(scan: pg_sys::IndexScanDesc, entry: &'c mut EntryBuffer) -> Scan<'c> {
        Scan { scan, entry }
    }

    /// The index.
    pub(crate) fn index(&self) -> Index<'c> {
        // SAFETY: open as long as the scan.
        unsafe { Index::from_raw((*self.scan).indexRelation) }
    }

    /// The table, unless the scan fills a bitmap.
    pub(crate) fn table(&self) -> Option<Relation<'c>> {
        // SAFETY: open as long as the scan.
        unsafe {
            let table = (*self.scan).heapRelation;
            (!table.is_null()).then(|| Relation::from_raw(table))
        }
    }

    /// The snapshot, unless the scan fills a bitmap.
    pub(crate) fn snapshot(&self) -> Option<Snapshot<'c>> {
        // SAFETY: the snapshot lives as long as the scan.
        unsafe {
            let snapshot = (*self.scan).xs_snapshot;
            (!snapshot.is_null()).then(|| Snapshot::from_raw(snapshot))
        }
    }

    /// Whether entries are to be returned, not only rows.
    pub(crate) fn wants_entry(&self) -> bool {
        // SAFETY: the server's descriptor.
        unsafe { (*self.scan).xs_want_itup }
    }

    /// Whether the executor found that the row returned last is dead to every transaction.
    pub(crate) fn prior_is_dead(&self) -> bool {
        // SAFETY: the server's descriptor.
        unsafe { (*self.scan).kill_prior_tuple }
    }

    /// Whether entries of rows that are dead to every transaction may be left out. Not on a standby, whose snapshots
    /// may be older than those of the primary.
    pub(crate) fn skips_dead(&self) -> bool {
        // SAFETY: the server's descriptor.
        unsafe { (*self.scan).ignore_killed_tuples && !(*self.scan).xactStartedInRecovery }
    }

    /// The conditions of the scan.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ScanKey<'c>> {
        // SAFETY: the descriptor has that many keys, which stay until the next rescan.
        let keys = unsafe {
            match usize::try_from((*self.scan).numberOfKeys) {
                Ok(count) if count > 0 => std::slice::from_raw_parts((*self.scan).keyData, count),
                _ => &[],
            }
        };
        let index = self.index();
        keys.iter().map(move |key| key_of(index, key))
    }

    /// Returns the row at `row`.
    pub(crate) fn found(&mut self, row: pg_sys::ItemPointerData) {
        // SAFETY: the server's descriptor.
        unsafe {
            (*self.scan).xs_heaptid = row;
            (*self.scan).xs_recheck = false;
        }
    }

    /// Returns an entry with the values of the columns; a column without a value is NULL.
    pub(crate) fn found_entry<'v>(&mut self, columns: impl Iterator<Item = Option<ColumnValue<'v>>>) {
        const MOST: usize = pg_sys::INDEX_MAX_KEYS as usize;
        let mut values = [pg_sys::Datum::from(0usize); MOST];
        let mut nulls = [true; MOST];
        let mut allocated = [false; MOST];
        // SAFETY: the description of the entry's columns, for each of which the arrays have an element of its
        // layout. The entry is copied to memory of the scan and freed, and so are values by reference.
        unsafe {
            let description = (*self.scan).xs_itupdesc;
            for (at, value) in columns.enumerate() {
                let Some(value) = value else { continue };
                if let (Some(raw), Some(null), Some(free)) =
                    (values.get_mut(at), nulls.get_mut(at), allocated.get_mut(at))
                {
                    (*raw, *free) = value.raw(layout(description, at));
                    *null = false;
                }
            }
            let tuple = pg_sys::index_form_tuple(description, values.as_mut_ptr(), nulls.as_mut_ptr());
            let size = usize::from((*tuple).t_info) & pg_sys::INDEX_SIZE_MASK as usize;
            let out = &mut self.entry.0;
            out.clear();
            out.resize(size.div_ceil(8), 0);
            std::ptr::copy_nonoverlapping(tuple.cast::<u8>(), out.as_mut_ptr().cast::<u8>(), size);
            pg_sys::pfree(tuple.cast());
            for (value, _) in values.iter().zip(&allocated).filter(|(_, allocated)| **allocated) {
                pg_sys::pfree(value.cast_mut_ptr());
            }
            (*self.scan).xs_itup = out.as_mut_ptr().cast();
        }
    }
}

/// Reads one key of the server's.
fn key_of<'c>(index: Index<'c>, key: &'c pg_sys::ScanKeyData) -> ScanKey<'c> {
    let column = usize::try_from(key.sk_attno).unwrap_or(0).wrapping_sub(1);
    let argument_type = (key.sk_subtype != pg_sys::InvalidOid).then_some(key.sk_subtype);
    let flags = key.sk_flags as u32;
    let condition = if flags & pg_sys::SK_SEARCHNULL != 0 {
        Condition::IsNull
    } else if flags & pg_sys::SK_SEARCHNOTNULL != 0 {
        Condition::IsNotNull
    } else if flags & pg_sys::SK_ROW_HEADER != 0 {
        Condition::Row
    } else if flags & pg_sys::SK_ISNULL != 0 {
        Condition::Never
    } else if flags & pg_sys::SK_SEARCHARRAY != 0 {
        // SAFETY: the flag says that the argument is an array, which lives as long as the scan's keys.
        let elements = unsafe { Datum::from_raw(key.sk_argument, Layout::Varlena).elements() };
        Condition::CompareAny(elements.into_iter().flatten().collect())
    } else {
        let layout = match argument_type {
            Some(oid) => Layout::of_type(oid),
            None if column < index.key_count() => {
                // SAFETY: an element for each key column.
                Layout::of_type(unsafe { *(*index.raw()).rd_opcintype.add(column) })
            }
            None => Layout::Word,
        };
        // SAFETY: the argument is of that type, and lives as long as the scan's keys.
        Condition::Compare(unsafe { Datum::from_raw(key.sk_argument, layout) })
    };
    ScanKey { column, strategy: key.sk_strategy, argument_type, condition }
}

/// The rows that a bitmap scan collects.
pub(crate) struct Bitmap<'c> {
    bitmap: &'c mut pg_sys::TIDBitmap,
}

impl Bitmap<'_> {
    /// # Safety
    /// A bitmap of the server's, which nobody else uses for as long as the result lives.
    pub(super) unsafe fn from_raw(bitmap: *mut pg_sys::TIDBitmap) -> Self {
        // SAFETY: the caller's.
        Bitmap { bitmap: unsafe { &mut *bitmap } }
    }

    /// Adds rows that need not be compared with the conditions again.
    pub(crate) fn add(&mut self, rows: &[pg_sys::ItemPointerData]) {
        let count = i32::try_from(rows.len()).unwrap_or(i32::MAX);
        // SAFETY: the server reads that many addresses.
        unsafe { pg_sys::tbm_add_tuples(self.bitmap, rows.as_ptr().cast_mut(), count, false) }
    }
}
