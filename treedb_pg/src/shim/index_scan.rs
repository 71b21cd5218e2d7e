//! Scans of an index of ours: what the server asks for, and how it is answered.

use std::borrow::Cow;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::comparison::OtherType;
use super::compat;
use super::datum::{Datum, Layout};
use super::error::{SqlState, fail};
use super::parallel_scan::SharedScan;
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
    pub(crate) other: Option<OtherType>,
    pub(crate) condition: Condition<'c>,
}

/// Where the entries are formed that an index-only scan is about to return, one after the other. The server reads one
/// until it asks for the next one.
#[derive(Default)]
pub(super) struct EntryBuffer {
    words: Vec<u64>,
    /// Words in use.
    used: usize,
    /// How the columns are stored, read from the description once.
    attributes: Vec<Attribute>,
}

/// How a column is stored in an entry: as `pg_attribute` says.
#[derive(Clone, Copy)]
struct Attribute {
    /// Bytes, if that is a fixed number.
    len: Option<usize>,
    by_value: bool,
    align: usize,
    /// Whether a short value may have a header of one byte.
    short: bool,
}

impl Attribute {
    #[inline]
    fn of(attribute: &pg_sys::FormData_pg_attribute) -> Attribute {
        Attribute {
            len: usize::try_from(attribute.attlen).ok(),
            by_value: attribute.attbyval,
            align: match attribute.attalign as u8 {
                pg_sys::TYPALIGN_CHAR => 1,
                pg_sys::TYPALIGN_SHORT => 2,
                pg_sys::TYPALIGN_INT => 4,
                _ => 8,
            },
            short: attribute.attlen == -1 && attribute.attstorage as u8 != pg_sys::TYPSTORAGE_PLAIN,
        }
    }
}

/// Bytes of an entry's header without NULLs.
const ENTRY_HEADER: usize = 8;
/// Bit of the header's second half: some column has a variable length.
const ENTRY_VARIABLE: u16 = 0x4000;

impl EntryBuffer {
    /// Room for one more entry of the longest size there is.
    fn room(&mut self) -> &mut [u64] {
        const LONGEST: usize = (pg_sys::INDEX_SIZE_MASK as usize + 1) / 8;
        if self.words.len() < self.used + LONGEST {
            self.words.resize(self.used + LONGEST, 0);
        }
        self.words.get_mut(self.used..).unwrap_or(&mut [])
    }

    /// Forms an entry for each of `keys`, of columns at fixed places of a key: `part` has that many bytes, 8 at most, at a
    /// place of each key, as a big-endian number. Returns where the first one is, and how many words each takes; `None`,
    /// if a value is NULL, or the columns are not those of the entry.
    fn form_fixed<F: Fn(usize) -> u64>(
        &mut self,
        columns: &[FixedColumn],
        keys: impl ExactSizeIterator<Item = usize> + Clone,
        part: impl Fn(usize, usize) -> Option<F>,
    ) -> Option<(usize, usize)> {
        let mut places = [0; pg_sys::INDEX_MAX_KEYS as usize];
        let mut size = ENTRY_HEADER;
        if columns.len() != self.attributes.len() {
            return None;
        }
        for ((column, attribute), place) in columns.iter().zip(&self.attributes).zip(&mut places) {
            let marker = part(column.at.checked_sub(1)?, 1)?;
            let alike = attribute.len == Some(column.len) && attribute.by_value == column.number.is_some();
            if !alike || keys.clone().any(|key| marker(key) != u64::from(FixedColumn::VALUE)) {
                return None;
            }
            *place = size.next_multiple_of(attribute.align);
            size = *place + column.len;
        }
        let (header, words) = (header(size, false)?, size.div_ceil(8));
        let (from, count) = (self.used, keys.len());
        let end = from + count * words;
        if self.words.len() < end {
            self.words.resize(end, 0);
        }
        let entries = self.words.get_mut(from..end)?;
        entries.fill(0);
        entries.iter_mut().step_by(words).for_each(|word| *word = header);
        let mut entries = Entries { bytes: super::memory::bytes_of_words(entries), size: 8 * words };
        for (column, place) in columns.iter().zip(places) {
            let whole = |len| part(column.at, len);
            match (column.number, column.len) {
                (Some(turn), 1) => entries.put(place, numbers(&keys, whole(1)?).map(|n| [(n ^ turn) as u8])),
                (Some(turn), 2) => {
                    entries.put(place, numbers(&keys, whole(2)?).map(|n| ((n ^ turn) as u16).to_ne_bytes()));
                }
                (Some(turn), 4) => {
                    entries.put(place, numbers(&keys, whole(4)?).map(|n| ((n ^ turn) as u32).to_ne_bytes()));
                }
                (Some(turn), 8) => {
                    entries.put(place, numbers(&keys, whole(8)?).map(|n| (n ^ turn).to_ne_bytes()));
                }
                (Some(_), _) => return None,
                (None, len) => {
                    for at in (0..len).step_by(8) {
                        let some = (len - at).min(8);
                        let numbers = numbers(&keys, part(column.at + at, some)?);
                        entries.put_bytes(place + at, some, numbers.map(u64::to_be_bytes));
                    }
                }
            }
        }
        self.used = end;
        Some((from, words))
    }

    /// Fills the last word of an entry of `size` bytes and writes its header. Returns its size in words; `None` if it
    /// is too long.
    #[inline]
    fn finish(&mut self, from: usize, variable: bool) -> Option<usize> {
        let (header, words) = (header(from, variable)?, from.div_ceil(8));
        let entry = self.words.get_mut(self.used..)?.get_mut(..words)?;
        super::memory::bytes_of_words(entry).get_mut(from..)?.fill(0);
        *entry.first_mut()? = header;
        Some(words)
    }

    /// Forms an entry as the server's `index_form_tuple` does, without its allocations. Returns its size in words;
    /// `None`, if a value is NULL, is too long, or is not one of these kinds: then the server has to do it.
    fn form<'v>(&mut self, columns: impl Iterator<Item = Option<ColumnValue<'v>>>) -> Option<usize> {
        let (mut size, mut count, mut variable) = (ENTRY_HEADER, 0, false);
        self.room();
        let EntryBuffer { words, used, attributes } = self;
        let bytes = super::memory::bytes_of_words(words.get_mut(*used..)?);
        for value in columns {
            let (value, attribute) = (value?, attributes.get(count)?);
            count += 1;
            let at = size.next_multiple_of(attribute.align);
            // Between columns, and before a header of four bytes, there are zeros.
            let put = |bytes: &mut [u8], from: usize, at: usize, parts: [&[u8]; 2]| {
                let len: usize = parts.iter().map(|part| part.len()).sum();
                let place = bytes.get_mut(from..at + len)?;
                let (gap, rest) = place.split_at_mut(at - from);
                gap.fill(0);
                let (first, second) = rest.split_at_mut(parts[0].len());
                first.copy_from_slice(parts[0]);
                second.copy_from_slice(parts[1]);
                Some(at + len)
            };
            let end = match (&value, attribute.len) {
                (ColumnValue::Word(bits), Some(len)) if attribute.by_value => {
                    // The lowest bytes come first on a little-endian machine.
                    let word = bits.to_ne_bytes();
                    let low = if cfg!(target_endian = "big") { word.get(8 - len..) } else { word.get(..len) };
                    put(bytes, size, at, [low.unwrap_or(&[]), &[]])
                }
                (ColumnValue::Fixed(value), Some(len)) if !attribute.by_value && value.len() == len => {
                    put(bytes, size, at, [value, &[]])
                }
                (ColumnValue::Varlena(value), None) if attribute.short && value.len() <= 125 => {
                    variable = true;
                    let header = value.len() as u8 + 1;
                    let header = if cfg!(target_endian = "big") { header | 0x80 } else { header << 1 | 1 };
                    put(bytes, size, size, [&[header], value])
                }
                _ => None,
            };
            size = end?;
        }
        if count != attributes.len() {
            return None;
        }
        self.finish(size, variable)
    }
}

/// The header of an entry of `size` bytes without NULLs, which is as long as whole words; `None` if it is too long. The
/// row's address is not read from an entry that a scan returns.
#[inline]
fn header(size: usize, variable: bool) -> Option<u64> {
    let size = size.next_multiple_of(8);
    if size > pg_sys::INDEX_SIZE_MASK as usize {
        return None;
    }
    let [low, high] = (size as u16 | if variable { ENTRY_VARIABLE } else { 0 }).to_ne_bytes();
    Some(u64::from_ne_bytes([0, 0, 0, 0, 0, 0, low, high]))
}

/// What `part` has of each of `keys`.
#[inline]
fn numbers<'k>(
    keys: &'k (impl Iterator<Item = usize> + Clone),
    part: impl Fn(usize) -> u64 + 'k,
) -> impl Iterator<Item = u64> + 'k {
    keys.clone().map(part)
}

/// Entries of one size, one after the other.
struct Entries<'b> {
    bytes: &'b mut [u8],
    /// Bytes of each.
    size: usize,
}

impl Entries<'_> {
    /// Writes a value to the same place of each entry.
    #[inline]
    fn put<const N: usize>(&mut self, at: usize, values: impl Iterator<Item = [u8; N]>) {
        for (entry, value) in self.bytes.chunks_exact_mut(self.size).zip(values) {
            if let Some(place) = entry.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *place = value;
            }
        }
    }

    /// The same with the last `len` bytes of each value.
    #[inline]
    fn put_bytes(&mut self, at: usize, len: usize, values: impl Iterator<Item = [u8; 8]>) {
        for (entry, value) in self.bytes.chunks_exact_mut(self.size).zip(values) {
            if let (Some(place), Some(value)) = (entry.get_mut(at..at + len), value.get(8 - len..)) {
                place.copy_from_slice(value);
            }
        }
    }
}

/// A column whose encoded value is always at the same place of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedColumn {
    /// Where the value begins; the byte before it is [`FixedColumn::VALUE`], or there is no value.
    pub(crate) at: usize,
    /// Bytes of the value.
    pub(crate) len: usize,
    /// The value is a big-endian number of these bytes, combined (XOR) with this; otherwise, bytes as they are.
    pub(crate) number: Option<u64>,
}

impl FixedColumn {
    /// The byte before a value.
    pub(crate) const VALUE: u8 = 1;
}

/// A value of an entry that is returned.
#[derive(PartialEq, Eq)]
pub(crate) enum ColumnValue<'v> {
    /// Of a type that is passed in the word itself.
    Word(usize),
    /// Of a variable-length type.
    Varlena(Cow<'v, [u8]>),
    /// Of a type with a fixed number of bytes.
    Fixed(Cow<'v, [u8]>),
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
                (ColumnValue::Fixed(bytes), Some(Layout::Fixed(len))) if bytes.len() == len => {
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

    /// What the processes of a parallel scan share; `None` if this is not one.
    pub(crate) fn shared(&self) -> Option<SharedScan<'c>> {
        // SAFETY: a scan of our access method, whose shared state lives as long as the query.
        unsafe { SharedScan::of(self.scan) }
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

    /// Counts searches from the root for EXPLAIN.
    pub(crate) fn count_searches(&self, count: u32) {
        // SAFETY: the server's descriptor.
        unsafe { compat::count_searches(self.scan, count) }
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

    /// Returns a row of which the server must ask the scan's conditions again.
    pub(crate) fn found_perhaps(&mut self, row: pg_sys::ItemPointerData) {
        self.found(row, None);
        // SAFETY: the server's descriptor.
        unsafe { (*self.scan).xs_recheck = true }
    }

    /// Returns a row, and the entry formed at `entry` if the scan returns entries.
    #[inline]
    pub(crate) fn found(&mut self, row: pg_sys::ItemPointerData, entry: Option<u32>) {
        // SAFETY: the server's descriptor; the entry lies in the buffer, which does not change before the next call.
        unsafe {
            (*self.scan).xs_heaptid = row;
            (*self.scan).xs_recheck = false;
            if let Some(entry) = entry
                && let Some(start) = self.entry.words.get_mut(entry as usize)
            {
                (*self.scan).xs_itup = (&raw mut *start).cast();
            }
        }
    }

    /// Forgets the entries that were formed.
    pub(crate) fn clear_entries(&mut self) {
        self.entry.used = 0;
    }

    /// Forms an entry with the values of the columns, for [`Scan::found`]; a column without a value is NULL. `columns`
    /// gives them as often as it is called.
    pub(crate) fn form_entry<'v, I>(&mut self, columns: impl Fn() -> I) -> u32
    where
        I: Iterator<Item = Option<ColumnValue<'v>>>,
    {
        self.read_attributes();
        let at = self.entry.used;
        let words = match self.entry.form(columns()) {
            Some(words) => words,
            None => self.form_by_server(columns()),
        };
        self.entry.used += words;
        at as u32
    }

    /// Forms an entry for each of `keys` from columns at fixed places of a key: `part` has that many bytes, 8 at most, at
    /// a place of each key, as a big-endian number. Returns where the first one is, and how many words each takes; `None`
    /// if a value is NULL.
    pub(crate) fn form_fixed_entries<F: Fn(usize) -> u64>(
        &mut self,
        columns: &[FixedColumn],
        keys: impl ExactSizeIterator<Item = usize> + Clone,
        part: impl Fn(usize, usize) -> Option<F>,
    ) -> Option<(u32, u32)> {
        self.read_attributes();
        let (first, words) = self.entry.form_fixed(columns, keys, part)?;
        Some((first as u32, words as u32))
    }

    /// Reads how the columns of an entry are stored, once.
    #[inline]
    fn read_attributes(&mut self) {
        if self.entry.attributes.is_empty() {
            // SAFETY: the description of the entry's columns, which lives as long as the scan.
            unsafe {
                let description = (*self.scan).xs_itupdesc;
                let count = usize::try_from((*description).natts).unwrap_or(0);
                let attribute = |at| Attribute::of(super::compat::attribute(description, at));
                self.entry.attributes.extend((0..count).map(attribute));
            }
        }
    }

    /// Lets the server form an entry; returns its size in words.
    #[cold]
    fn form_by_server<'v>(&mut self, columns: impl Iterator<Item = Option<ColumnValue<'v>>>) -> usize {
        const MOST: usize = pg_sys::INDEX_MAX_KEYS as usize;
        let mut values = [pg_sys::Datum::from(0usize); MOST];
        let mut nulls = [true; MOST];
        let mut allocated = [false; MOST];
        // SAFETY: the description of the entry's columns, for each of which the arrays have an element of its
        // layout. The entry is no longer than the room for it, is copied there and freed, and so are values by
        // reference.
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
            let out = self.entry.room();
            std::ptr::copy_nonoverlapping(tuple.cast::<u8>(), out.as_mut_ptr().cast::<u8>(), size);
            pg_sys::pfree(tuple.cast());
            for (value, _) in values.iter().zip(&allocated).filter(|(_, allocated)| **allocated) {
                pg_sys::pfree(value.cast_mut_ptr());
            }
            size.div_ceil(8)
        }
    }
}

/// Reads one key of the server's.
fn key_of<'c>(index: Index<'c>, key: &'c pg_sys::ScanKeyData) -> ScanKey<'c> {
    let column = usize::try_from(key.sk_attno).unwrap_or(0).wrapping_sub(1);
    let own = index.input_type(column);
    let other = (key.sk_subtype != pg_sys::InvalidOid && Some(key.sk_subtype) != own)
        .then(|| index.other_type(column, key.sk_subtype, key.sk_collation))
        .flatten();
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
        let layout = match (other, own) {
            (Some(other), _) => other.layout(),
            (None, Some(own)) => Layout::of_type(own),
            (None, None) => Layout::Word,
        };
        // SAFETY: the argument is of that type, and lives as long as the scan's keys.
        Condition::Compare(unsafe { Datum::from_raw(key.sk_argument, layout) })
    };
    ScanKey { column, strategy: key.sk_strategy, other, condition }
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
