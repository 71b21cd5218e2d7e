//! Scans of the server's own btree indexes, by keys that the engine has.

use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::catalog;
use super::compat;
use super::datum::Datum;
use super::error::{SqlState, fail};
use super::index_scan::to_server;
use super::memory::aligned_varlena;
use super::relation::{OpenIndex, OpenTable, layout};
use super::release::may_release;
use super::snapshot::Snapshot;

/// What the first column of a btree must be.
pub(crate) enum BtreeKey<'k> {
    /// A `bytea` that is not below these bytes.
    BytesFrom(&'k [u8]),
    /// A `bytea` below these bytes.
    BytesBelow(&'k [u8]),
    /// A `treedb.bson_value` whose key is not below this one.
    ValueFrom(&'k [u8]),
    /// A `treedb.bson_value` whose key is below this one.
    ValueBelow(&'k [u8]),
    /// NULL.
    Null,
}

/// Number of the strategy `<`.
const BELOW: u16 = 1;
/// Number of the strategy `>=`.
const FROM: u16 = 4;

/// A scan of a btree for its entries, ended when it goes away.
pub(crate) struct BtreeScan<'s> {
    scan: pg_sys::IndexScanDesc,
    /// What the scan's keys point to.
    _limits: Vec<Vec<u32>>,
    _table: OpenTable,
    _index: OpenIndex,
    snapshot: PhantomData<Snapshot<'s>>,
}

/// An entry of a btree, which the scan holds until the next one is asked for.
pub(crate) struct Entry<'e> {
    pub(crate) tid: pg_sys::ItemPointerData,
    entry: pg_sys::IndexTuple,
    columns: pg_sys::TupleDesc,
    scan: PhantomData<&'e ()>,
}

impl<'e> Entry<'e> {
    /// The first column; `None` for NULL.
    pub(crate) fn value(&self) -> Option<Datum<'e>> {
        const MOST: usize = pg_sys::INDEX_MAX_KEYS as usize;
        let (mut values, mut nulls) = ([pg_sys::Datum::from(0usize); MOST], [true; MOST]);
        // SAFETY: an entry of these columns, which stays as it is for the lifetime. The arrays have an element for as
        // many columns as an index can have.
        unsafe {
            pg_sys::index_deform_tuple(self.entry, self.columns, values.as_mut_ptr(), nulls.as_mut_ptr());
            let layout = layout(self.columns, 0)?;
            (!nulls[0]).then(|| Datum::from_raw(values[0], layout))
        }
    }
}

impl<'s> BtreeScan<'s> {
    /// Scans the entries that fulfil all `keys`.
    pub(crate) fn begin(
        table: &OpenTable,
        index: &OpenIndex,
        snapshot: Snapshot<'s>,
        keys: &[BtreeKey<'_>],
    ) -> BtreeScan<'s> {
        let btree = index.get();
        if btree.access_method() != pg_sys::BTREE_AM_OID || btree.table_oid() != table.get().oid() {
            wrong_index(index);
        }
        // SAFETY: an element for each key column, of which there is at least one.
        let column_type = unsafe { *(*btree.raw()).rd_opcintype };
        let mut limits: Vec<Vec<u32>> = Vec::with_capacity(keys.len());
        let mut raw: Vec<pg_sys::ScanKeyData> = Vec::with_capacity(keys.len());
        for key in keys {
            let (bytes, wanted, subtype, function, strategy) = match key {
                BtreeKey::BytesFrom(bytes) => {
                    (Some(bytes), pg_sys::BYTEAOID, pg_sys::InvalidOid, pg_sys::F_BYTEAGE.into(), FROM)
                }
                BtreeKey::BytesBelow(bytes) => {
                    (Some(bytes), pg_sys::BYTEAOID, pg_sys::InvalidOid, pg_sys::F_BYTEALT.into(), BELOW)
                }
                BtreeKey::ValueFrom(bytes) => {
                    let function = catalog::own_function(c"bson_value_ge_key");
                    (Some(bytes), catalog::own_type(c"bson_value"), pg_sys::BYTEAOID, function, FROM)
                }
                BtreeKey::ValueBelow(bytes) => {
                    let function = catalog::own_function(c"bson_value_lt_key");
                    (Some(bytes), catalog::own_type(c"bson_value"), pg_sys::BYTEAOID, function, BELOW)
                }
                BtreeKey::Null => (None, column_type, pg_sys::InvalidOid, pg_sys::InvalidOid, 0),
            };
            if wanted != column_type {
                wrong_index(index);
            }
            let mut entry = pg_sys::ScanKeyData::default();
            let (flags, argument) = match bytes {
                Some(bytes) => {
                    let limit = aligned_varlena(bytes);
                    let argument = pg_sys::Datum::from(limit.as_ptr().cast_mut());
                    limits.push(limit);
                    (0, argument)
                }
                None => ((pg_sys::SK_ISNULL | pg_sys::SK_SEARCHNULL) as i32, pg_sys::Datum::from(0usize)),
            };
            // SAFETY: a function of two arguments, a value of the index's type and a bytea, that returns a boolean;
            // a key that asks for NULL has neither function nor argument.
            unsafe {
                pg_sys::ScanKeyEntryInitialize(
                    &raw mut entry,
                    flags,
                    1,
                    strategy,
                    subtype,
                    pg_sys::InvalidOid,
                    function,
                    argument,
                );
            }
            raw.push(entry);
        }
        // SAFETY: open relations and a snapshot, which live as long as this; the scan copies the keys, and their
        // arguments are kept in `limits`.
        let scan = unsafe {
            let count = raw.len() as i32;
            let scan = compat::begin_index_scan(table.get().raw(), btree.raw(), snapshot.raw(), count, 0);
            (*scan).xs_want_itup = true;
            pg_sys::index_rescan(scan, raw.as_mut_ptr(), count, ptr::null_mut(), 0);
            scan
        };
        let (_table, _index) = (table.clone(), index.clone());
        BtreeScan { scan, _limits: limits, _table, _index, snapshot: PhantomData }
    }

    /// The next entry.
    pub(crate) fn next(&mut self, direction: Direction) -> Option<Entry<'_>> {
        // SAFETY: the scan is ours; after a hit it holds the entry until the next one.
        unsafe {
            let tid = pg_sys::index_getnext_tid(self.scan, to_server(direction));
            if tid.is_null() {
                return None;
            }
            let (entry, columns) = ((*self.scan).xs_itup, (*self.scan).xs_itupdesc);
            Some(Entry { tid: *tid, entry, columns, scan: PhantomData })
        }
    }
}

impl Drop for BtreeScan<'_> {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: begun by us.
            unsafe { pg_sys::index_endscan(self.scan) }
        }
    }
}

fn wrong_index(index: &OpenIndex) -> ! {
    fail(
        SqlState::ERRCODE_WRONG_OBJECT_TYPE,
        format!("index \"{}\" is not a btree that a collection can be searched by", index.get().shown()),
        "Drop the index and create it with treedb.create_index().",
    )
}
