//! Scans of an index of vectors for the rows nearest to one, through the access method, as the executor scans it.

use std::marker::PhantomData;
use std::ptr;

use pgrx::pg_sys;
use treedb_query::access::Direction;

use super::catalog;
use super::compat;
use super::error::{SqlState, fail};
use super::index_scan::to_server;
use super::memory::{Context, aligned_varlena};
use super::operator_class::DISTANCE;
use super::relation::{OpenIndex, OpenTable};
use super::release::may_release;
use super::snapshot::Snapshot;

/// A scan of an index `USING treedb_hnsw` over `real[]` or `varbit`, ended when it goes away.
pub(crate) struct NearestScan<'s> {
    scan: pg_sys::IndexScanDesc,
    /// What the scan allocates, and the state of the access method: they are gone before the caller's context is, in which
    /// there may be many scans.
    context: Context,
    /// What the scan's key points to.
    _vector: Vec<u32>,
    _table: OpenTable,
    _index: OpenIndex,
    snapshot: PhantomData<Snapshot<'s>>,
}

impl<'s> NearestScan<'s> {
    /// Looks for the rows nearest to `vector`: the bytes of a value of the index's type after the header of its length.
    pub(crate) fn begin(
        table: &OpenTable,
        index: &OpenIndex,
        snapshot: Snapshot<'s>,
        vector: &[u8],
    ) -> NearestScan<'s> {
        let opened = index.get();
        let is_hnsw = catalog::index_access_method(c"treedb_hnsw") == Some(opened.access_method());
        let own = [pg_sys::FLOAT4ARRAYOID, pg_sys::BITOID];
        let is_of_vectors = opened.input_type(0).is_some_and(|input| own.contains(&input));
        if !is_hnsw || !is_of_vectors || opened.table_oid() != table.get().oid() {
            fail(
                SqlState::ERRCODE_WRONG_OBJECT_TYPE,
                format!("index \"{}\" is not an index of vectors of this collection", opened.shown()),
                "Drop the index and create it with treedb.create_search_index().",
            );
        }
        let vector = aligned_varlena(vector);
        let mut key = pg_sys::ScanKeyData {
            sk_flags: pg_sys::SK_ORDER_BY as i32,
            sk_attno: 1,
            sk_strategy: DISTANCE as u16,
            sk_argument: pg_sys::Datum::from(vector.as_ptr().cast_mut()),
            ..Default::default()
        };
        let context = Context::new(c"TreeDB nearest scan");
        // SAFETY: open relations and a snapshot, which live as long as this; the scan copies the key, whose argument is
        // of the type of the index's operator class and is kept here. The access method calls no function of the key.
        let scan = context.enter(|| unsafe {
            let scan = compat::begin_index_scan(table.get().raw(), opened.raw(), snapshot.raw(), 0, 1);
            pg_sys::index_rescan(scan, ptr::null_mut(), 0, &raw mut key, 1);
            scan
        });
        let (_table, _index) = (table.clone(), index.clone());
        NearestScan { scan, context, _vector: vector, _table, _index, snapshot: PhantomData }
    }

    /// The next row, visible to the snapshot or not.
    pub(crate) fn next(&mut self) -> Option<pg_sys::ItemPointerData> {
        // SAFETY: the scan is ours.
        self.context.enter(|| unsafe {
            let tid = pg_sys::index_getnext_tid(self.scan, to_server(Direction::Forward));
            tid.as_ref().copied()
        })
    }
}

impl Drop for NearestScan<'_> {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: begun by us.
            unsafe { pg_sys::index_endscan(self.scan) }
        }
    }
}
