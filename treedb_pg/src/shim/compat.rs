//! What differs between the server's major versions: the rest of the extension is written as if there were one.
//!
//! | from | what differs | here |
//! |---|---|---|
//! | 16 | a relation's file is a locator; names of `rd_firstRelfilelocatorSubid` and of the counter of scans | [`FileLocator`], [`file`], [`made_file_here`], [`scans`] |
//! | 16 | privileges of a range table entry are a list of their own | [`insert_target`], [`checked_as`] |
//! | 16 | `object_aclcheck` and `object_ownercheck` in place of a function for each kind; 64 bits of privileges | [`may`], [`owns`], [`class_privileges`] |
//! | 16 | an update of a row says whether only summarizing indexes need an entry; columns that keep updates from being HOT are a set of their own | [`update_row`], [`insert_index_entries`], [`hot_blocking`] |
//! | 16 | expressions are translated for a partition by the relations, not by their numbers | [`of_partition`] |
//! | 16 | an argument more for `EvalPlanQualInit` and `tuplesort_getdatum`; lengths of WAL data are unsigned | [`begin_recheck`], [`sorted_datum`], [`register_data`], [`register_buffer_data`] |
//! | 16 | "a page is reused" says whether the table is a catalog to logical decoding | [`ReusedPage`] |
//! | 16 | conditions of outer joins that may change places have several forms | [`has_several_forms`] |
//! | 16 | several blocks are added to a relation at once | [`extend`] |
//! | 17 | the number of a transaction in its backend is a part of a virtual transaction's | [`transaction_number`] |
//! | 17 | no `old_snapshot_threshold` | [`expect_not_too_old`] |
//! | 17 | whether workers may build an index is the access method's to say | [`complete`] |
//! | 17 | an ordered index returns its order whatever arrays it is searched by | nothing: it always did |
//! | 17, 18 | a parallel scan's size may depend on its keys, then on the index; workers of a build are announced | [`complete`] |
//! | 18 | descriptions of columns have no array of attributes | [`attribute`] |
//! | 18 | a column can be declared NOT NULL without its rows having been checked | [`is_never_null`] |
//! | 18 | the server makes sort keys of the C library, which 16 and 17 refuse | [`LibraryLocale`] |
//! | 18 | searches of an index can be counted for EXPLAIN | [`begin_index_scan`], [`count_searches`] |
//! | 18 | `lc_collate_is_c` is a field of a locale | [`orders_by_bytes`] |
//! | 18 | a storage parameter can tell whether it was set | [`storage_parameter`] |
//! | 18 | `vacuum_delay_point` is told whether it is an ANALYZE | [`vacuum_delay`] |
//! | 18 | the cost of a btree assumes skip scans | [`btree_cost`] |
//! | 18 | paths that must not be taken are counted, not costed | [`disable`], [`disable_path`] |
//! | 18 | the direction of an order is a comparison, not a strategy of btree | [`is_descending`] |
//! | 18 | an access method says how high an index is, and what its strategies mean | [`complete`] |
//!
//! Conditions on the version are only here. Exactly one of the features `pg15` to `pg18` is on.

use std::ffi::CStr;
use std::ptr;

use pgrx::pg_sys;

/// Where the files of a relation are.
#[cfg(feature = "pg15")]
pub(super) type FileLocator = pg_sys::RelFileNode;
/// Where the files of a relation are.
#[cfg(not(feature = "pg15"))]
pub(super) type FileLocator = pg_sys::RelFileLocator;

/// Where the files of a relation are.
///
/// # Safety
/// An open relation.
pub(super) unsafe fn file(relation: pg_sys::Relation) -> FileLocator {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*relation).rd_node;
        #[cfg(not(feature = "pg15"))]
        return (*relation).rd_locator;
    }
}

/// Adds blocks to the main fork of a relation, one at least and as many as there are `buffers` at most, which they are in then, pinned. Returns
/// how many.
///
/// # Safety
/// An open relation that nobody else adds blocks to.
pub(super) unsafe fn extend(relation: pg_sys::Relation, buffers: &mut [pg_sys::Buffer]) -> u32 {
    let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
    #[cfg(feature = "pg15")]
    {
        let mode = pg_sys::ReadBufferMode::RBM_NORMAL;
        let Some(first) = buffers.first_mut() else { return 0 };
        // SAFETY: the caller's; the invalid block number asks for a new block.
        *first = unsafe {
            pg_sys::ReadBufferExtended(relation, fork, pg_sys::InvalidBlockNumber, mode, ptr::null_mut())
        };
        1
    }
    #[cfg(not(feature = "pg15"))]
    {
        let mut added = 0;
        let of = pg_sys::BufferManagerRelation { rel: relation, ..Default::default() };
        let flags = pg_sys::ExtendBufferedFlags::EB_SKIP_EXTENSION_LOCK;
        // SAFETY: the caller's; there is room for the numbers of so many buffers.
        unsafe {
            pg_sys::ExtendBufferedRelBy(
                of,
                fork,
                ptr::null_mut(),
                flags,
                buffers.len() as u32,
                buffers.as_mut_ptr(),
                &raw mut added,
            );
        }
        added
    }
}

/// Whether a condition of a join is one of several forms of it, of which a plan has one.
///
/// # Safety
/// A condition of the planner's.
pub(super) unsafe fn has_several_forms(condition: *const pg_sys::RestrictInfo) -> bool {
    #[cfg(feature = "pg15")]
    let several = {
        let _ = condition;
        false
    };
    #[cfg(not(feature = "pg15"))]
    // SAFETY: the caller's.
    let several = unsafe { (*condition).has_clone || (*condition).is_clone };
    several
}

/// The number of the running transaction: no other one of this backend has it.
pub(super) fn transaction_number() -> u32 {
    // SAFETY: a backend has its process's entry, whose transaction it alone changes.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (*pg_sys::MyProc).lxid;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return (*pg_sys::MyProc).vxid.lxid;
    }
}

/// The number of a relation's files: another one after each rewrite.
///
/// # Safety
/// An open relation.
pub(super) unsafe fn file_number(relation: pg_sys::Relation) -> u32 {
    // SAFETY: the caller's.
    let file = unsafe { file(relation) };
    #[cfg(feature = "pg15")]
    return file.relNode.to_u32();
    #[cfg(not(feature = "pg15"))]
    return file.relNumber.to_u32();
}

/// Whether the running transaction has given a relation the files that it has now.
///
/// # Safety
/// An open relation.
pub(super) unsafe fn made_file_here(relation: pg_sys::Relation) -> bool {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*relation).rd_firstRelfilenodeSubid != 0;
        #[cfg(not(feature = "pg15"))]
        return (*relation).rd_firstRelfilelocatorSubid != 0;
    }
}

/// The counter of a relation's scans.
pub(super) fn scans(counted: &mut pg_sys::PgStat_TableStatus) -> &mut i64 {
    #[cfg(feature = "pg15")]
    return &mut counted.t_counts.t_numscans;
    #[cfg(not(feature = "pg15"))]
    return &mut counted.counts.numscans;
}

/// Attribute `at`, counted from 0, of a description of columns.
///
/// # Safety
/// The description has that attribute; the result is used as long as the description is not changed.
#[inline]
pub(super) unsafe fn attribute<'d>(
    columns: pg_sys::TupleDesc,
    at: usize,
) -> &'d pg_sys::FormData_pg_attribute {
    // SAFETY: the caller's. The attributes of version 18 follow the compact ones, as its macro TupleDescAttrAddress says.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return &*(*columns).attrs.as_ptr().add(at);
        #[cfg(feature = "pg18")]
        return &*(*columns)
            .compact_attrs
            .as_ptr()
            .add(usize::try_from((*columns).natts).unwrap_or(0))
            .cast::<pg_sys::FormData_pg_attribute>()
            .add(at);
    }
}

/// Whether no row has NULL in column `at`, counted from 0, of a description of columns.
///
/// # Safety
/// The description of an open relation, which has that column.
pub(super) unsafe fn is_never_null(columns: pg_sys::TupleDesc, at: usize) -> bool {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        let never_null = attribute(columns, at).attnotnull;
        #[cfg(feature = "pg18")]
        let never_null = {
            let compact = &*(*columns).compact_attrs.as_ptr().add(at);
            compact.attnullability as u8 == pg_sys::ATTNULLABLE_VALID
        };
        never_null
    }
}

/// Gives an executor's state the range table of a command that inserts into a table, or updates it, whose column
/// `member` (its number less the least number of a column) is what is written.
///
/// # Safety
/// A new state of the executor; `entry` is the table's entry, the only one, and may be changed.
pub(super) unsafe fn insert_target(
    estate: *mut pg_sys::EState,
    entry: *mut pg_sys::RangeTblEntry,
    member: i32,
) {
    // SAFETY: the caller's; nodes and sets are made in the current memory context.
    unsafe {
        let written = || pg_sys::bms_make_singleton(member);
        let table = pg_sys::lappend(ptr::null_mut(), entry.cast());
        #[cfg(feature = "pg15")]
        {
            (*entry).insertedCols = written();
            (*entry).updatedCols = written();
            pg_sys::ExecInitRangeTable(estate, table);
        }
        #[cfg(not(feature = "pg15"))]
        {
            let mut permissions = ptr::null_mut();
            let permission = pg_sys::addRTEPermissionInfo(&raw mut permissions, entry);
            (*permission).insertedCols = written();
            (*permission).updatedCols = written();
            #[cfg(not(feature = "pg18"))]
            pg_sys::ExecInitRangeTable(estate, table, permissions);
            // No relation of the range table is one that partition pruning could leave out.
            #[cfg(feature = "pg18")]
            pg_sys::ExecInitRangeTable(estate, table, permissions, pg_sys::bms_make_singleton(1));
        }
    }
}

/// The user whose privileges on a table of a query count; the invalid one for the current user.
///
/// # Safety
/// A table of the planner's, and its entry in the range table.
pub(super) unsafe fn checked_as(
    rel: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) -> pg_sys::Oid {
    let _ = (rel, entry);
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*entry).checkAsUser;
        #[cfg(not(feature = "pg15"))]
        return (*rel).userid;
    }
}

/// An expression about the partitioned table that `partition` belongs to, as one about the partition.
///
/// # Safety
/// The planner, an expression or a list of such, and a partition of its, or a join of such.
pub(super) unsafe fn of_partition(
    root: *mut pg_sys::PlannerInfo,
    expression: *mut pg_sys::Node,
    partition: *mut pg_sys::RelOptInfo,
) -> *mut pg_sys::Node {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "pg15")]
        let (part, whole) = ((*partition).relids, (*partition).top_parent_relids);
        #[cfg(not(feature = "pg15"))]
        let (part, whole) = (partition, (*partition).top_parent);
        pg_sys::adjust_appendrel_attrs_multilevel(root, expression, part, whole)
    }
}

/// What privileges can be had of.
#[derive(Clone, Copy)]
pub(super) enum Object {
    Function,
    Schema,
}

/// Whether the current user has a privilege (`ACL_EXECUTE` and so on) on an object.
pub(super) fn may(object: Object, oid: pg_sys::Oid, privilege: u32) -> pg_sys::AclResult::Type {
    // SAFETY: catalog look-ups; an error if there is no such object.
    unsafe {
        let user = pg_sys::GetUserId();
        #[cfg(feature = "pg15")]
        return match object {
            Object::Function => pg_sys::pg_proc_aclcheck(oid, user, privilege),
            Object::Schema => pg_sys::pg_namespace_aclcheck(oid, user, privilege),
        };
        #[cfg(not(feature = "pg15"))]
        {
            let catalog = match object {
                Object::Function => pg_sys::ProcedureRelationId,
                Object::Schema => pg_sys::NamespaceRelationId,
            };
            pg_sys::object_aclcheck(catalog, oid, user, privilege.into())
        }
    }
}

/// Whether the current user owns a relation.
pub(super) fn owns(relation: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups; an error if there is no such relation.
    unsafe {
        let user = pg_sys::GetUserId();
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(relation, user);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(pg_sys::RelationRelationId, relation, user);
    }
}

/// Privileges (`ACL_SELECT` and so on) as the server's functions for relations take them.
#[allow(clippy::useless_conversion)] // Of version 15, which has 32 bits of them.
pub(super) fn class_privileges(privileges: u32) -> pg_sys::AclMode {
    privileges.into()
}

/// Prepares looking at rows again that other transactions have changed meanwhile.
///
/// # Safety
/// An executor's state without a plan.
pub(super) unsafe fn begin_recheck(recheck: &mut pg_sys::EPQState, estate: *mut pg_sys::EState) {
    // SAFETY: the caller's; there is no plan and no parameter.
    unsafe {
        let (plan, rows) = (ptr::null_mut(), ptr::null_mut());
        #[cfg(feature = "pg15")]
        pg_sys::EvalPlanQualInit(recheck, estate, plan, rows, -1);
        #[cfg(not(feature = "pg15"))]
        pg_sys::EvalPlanQualInit(recheck, estate, plan, rows, -1, ptr::null_mut());
    }
}

/// Where an entry of the cache of relations has the columns that make heap's updates not HOT.
pub(super) fn hot_blocking(relation: &mut pg_sys::RelationData) -> &mut *mut pg_sys::Bitmapset {
    #[cfg(feature = "pg15")]
    return &mut relation.rd_indexattr;
    #[cfg(not(feature = "pg15"))]
    return &mut relation.rd_hotblockingattr;
}

/// The number of that set.
#[cfg(feature = "pg15")]
pub(super) const HOT_BLOCKING: pg_sys::IndexAttrBitmapKind::Type =
    pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_ALL;
/// The number of that set.
#[cfg(not(feature = "pg15"))]
pub(super) const HOT_BLOCKING: pg_sys::IndexAttrBitmapKind::Type =
    pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_HOT_BLOCKING;

/// Which indexes are to get an entry for a new version of a row.
#[cfg(feature = "pg15")]
pub(super) type NewEntries = bool;
/// Which indexes are to get an entry for a new version of a row.
#[cfg(not(feature = "pg15"))]
pub(super) type NewEntries = pg_sys::TU_UpdateIndexes::Type;

/// Replaces the row version at `tid` by the one in `slot`, unless another transaction has changed it.
///
/// # Safety
/// An open table and a slot with a row of it; the executor's state has the command's snapshot and number.
pub(super) unsafe fn update_row(
    table: pg_sys::Relation,
    tid: &mut pg_sys::ItemPointerData,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) -> (pg_sys::TM_Result::Type, NewEntries) {
    let mut entries = NewEntries::default();
    let mut failure = pg_sys::TM_FailureData::default();
    let mut lock = pg_sys::LockTupleMode::LockTupleExclusive;
    // SAFETY: the caller's.
    let result = unsafe {
        pg_sys::table_tuple_update(
            table,
            tid,
            slot,
            (*estate).es_output_cid,
            (*estate).es_snapshot,
            ptr::null_mut(),
            true,
            &raw mut failure,
            &raw mut lock,
            &raw mut entries,
        )
    };
    (result, entries)
}

/// Whether some index needs an entry for a new version of a row.
pub(super) fn are_entries_needed(entries: NewEntries) -> bool {
    #[cfg(feature = "pg15")]
    return entries;
    #[cfg(not(feature = "pg15"))]
    return entries != pg_sys::TU_UpdateIndexes::TU_None;
}

/// Inserts entries for a new version of a row; the result lists indexes that are to be checked later.
///
/// # Safety
/// A table with its indexes open, of the executor's state; the slot has the new version.
pub(super) unsafe fn insert_index_entries(
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
    entries: NewEntries,
) -> *mut pg_sys::List {
    let none = ptr::null_mut();
    // SAFETY: the caller's.
    unsafe {
        #[cfg(feature = "pg15")]
        if entries {
            return pg_sys::ExecInsertIndexTuples(target, slot, estate, true, false, ptr::null_mut(), none);
        }
        #[cfg(not(feature = "pg15"))]
        if entries != pg_sys::TU_UpdateIndexes::TU_None {
            let summarizing = entries == pg_sys::TU_UpdateIndexes::TU_Summarizing;
            let conflict = ptr::null_mut();
            return pg_sys::ExecInsertIndexTuples(
                target,
                slot,
                estate,
                true,
                false,
                conflict,
                none,
                summarizing,
            );
        }
    }
    none
}

/// The next value of a sort of values; `None` at the end, or for NULL. One that is not passed in the word itself is used no longer
/// than the current memory context lives, and than the sort's next value is asked for.
///
/// # Safety
/// A sort of single values that has been performed.
pub(super) unsafe fn sorted_datum(sort: *mut pg_sys::Tuplesortstate) -> Option<pg_sys::Datum> {
    let (mut value, mut null) = (pg_sys::Datum::from(0usize), false);
    // SAFETY: the caller's.
    let found = unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::tuplesort_getdatum(sort, true, &raw mut value, &raw mut null, ptr::null_mut())
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::tuplesort_getdatum(sort, true, false, &raw mut value, &raw mut null, ptr::null_mut())
        }
    };
    (found && !null).then_some(value)
}

/// Whether an order begins with the greatest value.
pub(super) fn is_descending(key: &pg_sys::PathKey) -> bool {
    #[cfg(not(feature = "pg18"))]
    return key.pk_strategy == pg_sys::BTGreaterStrategyNumber as i32;
    #[cfg(feature = "pg18")]
    return key.pk_cmptype == pg_sys::CompareType::COMPARE_GT;
}

/// Adds bytes to the WAL record being made.
///
/// # Safety
/// As `XLogRegisterData`: the bytes stay until the record has been inserted.
pub(super) unsafe fn register_data(bytes: &[u8]) {
    // SAFETY: the caller's; the server only reads them.
    unsafe { pg_sys::XLogRegisterData(bytes.as_ptr().cast_mut().cast(), bytes.len() as _) }
}

/// Adds bytes that belong to a block to the WAL record being made.
///
/// # Safety
/// As `XLogRegisterBufData`: the block is registered, and the bytes stay until the record has been inserted.
pub(super) unsafe fn register_buffer_data(block: u8, bytes: &[u8]) {
    // SAFETY: the caller's; the server only reads them.
    unsafe { pg_sys::XLogRegisterBufData(block, bytes.as_ptr().cast_mut().cast(), bytes.len() as _) }
}

/// Data of the server's btree record "a page is reused": bytes as its structure `xl_btree_reuse_page` has them.
pub(super) struct ReusedPage {
    bytes: [u8; ReusedPage::SIZE],
}

impl ReusedPage {
    /// The locator (tablespace, database, file), the block, the transaction, which needs no padding; then a boolean.
    const SIZE: usize = if cfg!(feature = "pg15") { 24 } else { 25 };

    /// Block `block` of an index of `table` is reused; rows removed by transactions up to `horizon` were in it.
    ///
    /// # Safety
    /// An open index of that open table.
    pub(super) unsafe fn new(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        block: u32,
        horizon: u64,
    ) -> ReusedPage {
        const { assert!(size_of::<FileLocator>() == 12) };
        // SAFETY: the caller's.
        let file = unsafe { file(index) };
        #[cfg(feature = "pg15")]
        let parts = [file.spcNode.into(), file.dbNode.into(), file.relNode.into(), block];
        #[cfg(not(feature = "pg15"))]
        let parts = [file.spcOid.into(), file.dbOid.into(), file.relNumber.into(), block];
        // SAFETY: the caller's.
        let is_catalog = unsafe { is_catalog_to_decoding(table) };
        let bytes = parts.into_iter().flat_map(u32::to_ne_bytes).chain(horizon.to_ne_bytes());
        let mut bytes = bytes.chain([u8::from(is_catalog)]);
        ReusedPage { bytes: std::array::from_fn(|_| bytes.next().unwrap_or(0)) }
    }

    /// The record's data.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether logical decoding reads a table with snapshots of its own: the header's `RelationIsAccessibleInLogicalDecoding`
/// of a table that is logged.
///
/// # Safety
/// An open table.
unsafe fn is_catalog_to_decoding(table: pg_sys::Relation) -> bool {
    // SAFETY: the caller's. Storage parameters of a table and of a materialized view are this structure; a catalog has
    // none that says otherwise.
    unsafe {
        let kind = (*(*table).rd_rel).relkind as u8;
        let options = (*table).rd_options.cast::<pg_sys::StdRdOptions>().as_ref();
        let declared = matches!(kind, pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW)
            && options.is_some_and(|options| options.user_catalog_table);
        pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32
            && (declared || pg_sys::IsCatalogRelation(table))
    }
}

/// Raises an error if rows that a snapshot should see may have been removed from a page that it is about to read.
///
/// # Safety
/// A snapshot or null; an open index, and a buffer with a page of it that is pinned.
pub(super) unsafe fn expect_not_too_old(
    snapshot: pg_sys::Snapshot,
    index: pg_sys::Relation,
    buffer: pg_sys::Buffer,
) {
    let _ = (snapshot, index, buffer);
    // SAFETY: the caller's.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    unsafe {
        if pg_sys::old_snapshot_threshold >= 0 {
            pg_sys::TestForOldSnapshot(snapshot, index, pg_sys::BufferGetPage(buffer));
        }
    }
}

/// Begins a scan of an index that returns rows of a table.
///
/// # Safety
/// An open table and an open index of it; the snapshot lives as long as the scan.
pub(super) unsafe fn begin_index_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    keys: i32,
    order_bys: i32,
) -> pg_sys::IndexScanDesc {
    // SAFETY: the caller's; nothing is counted for EXPLAIN.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return pg_sys::index_beginscan(table, index, snapshot, keys, order_bys);
        #[cfg(feature = "pg18")]
        return pg_sys::index_beginscan(table, index, snapshot, ptr::null_mut(), keys, order_bys);
    }
}

/// Counts searches from the root for EXPLAIN.
///
/// # Safety
/// A scan of the server's.
pub(super) unsafe fn count_searches(scan: pg_sys::IndexScanDesc, count: u32) {
    let _ = (scan, count);
    // SAFETY: the caller's; where EXPLAIN counts, the counter lives as long as the scan.
    #[cfg(feature = "pg18")]
    unsafe {
        if let Some(counters) = (*scan).instrument.as_mut() {
            counters.nsearches += u64::from(count);
        }
    }
}

/// Whether a collation orders by bytes.
#[cfg(not(feature = "pg18"))]
pub(super) fn orders_by_bytes(collation: pg_sys::Oid) -> bool {
    #[pgrx::pg_guard]
    unsafe extern "C-unwind" {
        fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    }

    // SAFETY: a look-up, an error if there is no such collation.
    unsafe { lc_collate_is_c(collation) }
}

/// Whether a collation orders by bytes.
#[cfg(feature = "pg18")]
pub(super) fn orders_by_bytes(collation: pg_sys::Oid) -> bool {
    // SAFETY: the server keeps its locales.
    collation != pg_sys::InvalidOid && unsafe { (*locale_of(collation)).collate_is_c }
}

/// What is read of the server's `pg_locale_struct`.
#[repr(C)]
struct Locale {
    provider: std::ffi::c_char,
    _deterministic: bool,
    /// The locale, if it is one of the C library's; null stands for that of the process.
    #[cfg(not(feature = "pg18"))]
    library: libc::locale_t,
    #[cfg(feature = "pg18")]
    collate_is_c: bool,
}

/// The locale of a collation, which the server keeps; null stands for that of the process. An error if there is no such collation.
fn locale_of(collation: pg_sys::Oid) -> *const Locale {
    #[pgrx::pg_guard]
    unsafe extern "C-unwind" {
        fn pg_newlocale_from_collation(collation: pg_sys::Oid) -> *const Locale;
    }

    // SAFETY: a look-up.
    unsafe { pg_newlocale_from_collation(collation) }
}

/// The locale of a collation of the C library, which the server keeps.
pub(super) struct LibraryLocale(*const Locale);

impl LibraryLocale {
    /// That of a collation; `None` if it is another library's.
    pub(super) fn of(collation: pg_sys::Oid) -> Option<LibraryLocale> {
        let locale = locale_of(collation);
        // SAFETY: the server keeps its locales. That of the process is the library's.
        let of_library = unsafe { locale.as_ref() }.is_none_or(|locale| locale.provider as u8 == b'c');
        of_library.then_some(LibraryLocale(locale))
    }

    /// Puts the sort key of a text, which is closed by a zero byte, into `key`, closed by one too, and returns its length without
    /// it. Where there is not as much room, what is in `key` is nothing.
    pub(super) fn sort_key(&self, text: &[u8], key: &mut [u8]) -> usize {
        #[cfg(not(feature = "pg18"))]
        unsafe extern "C" {
            fn strxfrm_l(
                key: *mut std::ffi::c_char,
                text: *const std::ffi::c_char,
                size: usize,
                locale: libc::locale_t,
            ) -> usize;
        }
        #[cfg(feature = "pg18")]
        #[pgrx::pg_guard]
        unsafe extern "C-unwind" {
            fn pg_strxfrm(
                key: *mut std::ffi::c_char,
                text: *const std::ffi::c_char,
                size: usize,
                locale: *const Locale,
            ) -> usize;
        }

        if text.last() != Some(&0) {
            return 0;
        }
        let (text, size, key) = (text.as_ptr().cast(), key.len(), key.as_mut_ptr().cast());
        // SAFETY: the text is closed by a zero byte, and no more bytes of the key are written than there are. The server keeps its
        // locales.
        unsafe {
            #[cfg(not(feature = "pg18"))]
            return match self.0.as_ref() {
                Some(locale) if !locale.library.is_null() => strxfrm_l(key, text, size, locale.library),
                _ => libc::strxfrm(key, text, size),
            };
            #[cfg(feature = "pg18")]
            return pg_strxfrm(key, text, size, self.0);
        }
    }
}

/// A storage parameter that is parsed into a structure at `offset`.
pub(super) fn storage_parameter(
    name: &'static CStr,
    kind: pg_sys::relopt_type::Type,
    offset: usize,
) -> pg_sys::relopt_parse_elt {
    pg_sys::relopt_parse_elt {
        optname: name.as_ptr(),
        opttype: kind,
        offset: offset as i32,
        #[cfg(feature = "pg18")]
        isset_offset: 0,
    }
}

/// Sleeps as the settings for the cost of a vacuum ask for, and takes interrupts.
#[cfg_attr(not(feature = "pg18"), allow(unused_variables))]
pub(super) fn vacuum_delay(is_analyze: bool) {
    // SAFETY: may be called wherever no lock of a page is held.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::vacuum_delay_point();
        #[cfg(feature = "pg18")]
        pg_sys::vacuum_delay_point(is_analyze);
    }
}

/// The planner's cost of a path of an ordered index, as `amcostestimate` is to tell it: btree's.
///
/// # Safety
/// As `amcostestimate`.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn btree_cost(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup: *mut pg_sys::Cost,
    total: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    use super::server::btcostestimate;
    // SAFETY: the caller's.
    unsafe { btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages) };
    // Version 18 reckons with skip scans, which only its own btrees have: what is read is what the conditions on the
    // leading columns leave.
    #[cfg(feature = "pg18")]
    // SAFETY: the caller's; the path gets its conditions back.
    unsafe {
        let all = (*path).indexclauses;
        let leading = leading_conditions(path);
        if pg_sys::list_length(leading) < pg_sys::list_length(all) {
            let (mut begin, mut end, mut read) = (0.0, 0.0, 0.0);
            let (mut part, mut order) = (0.0, 0.0);
            (*path).indexclauses = leading;
            btcostestimate(
                root,
                path,
                loop_count,
                &raw mut begin,
                &raw mut end,
                &raw mut part,
                &raw mut order,
                &raw mut read,
            );
            (*path).indexclauses = all;
            (*startup, *total, *pages) = ((*startup).max(begin), (*total).max(end), (*pages).max(read));
        }
    }
}

/// The conditions of a path that say where to begin and to end: those on the leading columns, as far as there are
/// equalities, and those on the column after them.
///
/// # Safety
/// A path of an ordered index with btree's strategies.
#[cfg(feature = "pg18")]
unsafe fn leading_conditions(path: *mut pg_sys::IndexPath) -> *mut pg_sys::List {
    // SAFETY: lists of the planner's, in the order of the columns; the tag of a node says what structure it is.
    unsafe {
        let mut leading = ptr::null_mut();
        let (mut column, mut equal) = (0, false);
        for at in 0..pg_sys::list_length((*path).indexclauses) {
            let condition = pg_sys::list_nth((*path).indexclauses, at).cast::<pg_sys::IndexClause>();
            if i32::from((*condition).indexcol) > column {
                if !equal || i32::from((*condition).indexcol) > column + 1 {
                    break;
                }
                (column, equal) = (column + 1, false);
            }
            let family = *(*(*path).indexinfo).opfamily.add(usize::try_from(column).unwrap_or(0));
            for number in 0..pg_sys::list_length((*condition).indexquals) {
                let qual = pg_sys::list_nth((*condition).indexquals, number).cast::<pg_sys::RestrictInfo>();
                let clause = (*qual).clause;
                equal |= match (*clause).type_ {
                    pg_sys::NodeTag::T_OpExpr => is_equality((*clause.cast::<pg_sys::OpExpr>()).opno, family),
                    pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                        is_equality((*clause.cast::<pg_sys::ScalarArrayOpExpr>()).opno, family)
                    }
                    pg_sys::NodeTag::T_NullTest => {
                        (*clause.cast::<pg_sys::NullTest>()).nulltesttype == pg_sys::NullTestType::IS_NULL
                    }
                    _ => false,
                };
            }
            leading = pg_sys::lappend(leading, condition.cast());
        }
        leading
    }
}

/// Whether an operator is the equality of an operator family with btree's strategies.
#[cfg(feature = "pg18")]
fn is_equality(operator: pg_sys::Oid, family: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::get_op_opfamily_strategy(operator, family) == 3 }
}

/// Makes the planner take a path of an index only if there is no other. Its cost must say so too.
///
/// # Safety
/// A path that the planner is estimating.
pub(super) unsafe fn disable(path: *mut pg_sys::IndexPath) {
    // SAFETY: the caller's. A bitmap scan does not count what is disabled below it, so it must not be considered at all;
    // whether it is, is asked after the estimate.
    unsafe {
        disable_path(path);
        #[cfg(feature = "pg18")]
        {
            (*(*path).indexinfo).amhasgetbitmap = false;
        }
    }
}

/// The same for one path alone, of an index that cannot fill bitmaps.
///
/// # Safety
/// As above.
pub(super) unsafe fn disable_path(path: *mut pg_sys::IndexPath) {
    let _ = path;
    // SAFETY: the caller's. A path is disabled once by a setting; this counts for more.
    #[cfg(feature = "pg18")]
    unsafe {
        (*path).path.disabled_nodes = 2;
    }
}

/// Says how many levels an index has above its leaves.
pub(super) type TreeHeight = unsafe extern "C-unwind" fn(pg_sys::Relation) -> i32;

/// Sets what later versions than 15 want to know of an ordered access method with btree's strategies, whose other fields
/// are set.
pub(super) fn complete(am: &mut pg_sys::IndexAmRoutine, height: TreeHeight) {
    let _ = height;
    am.amestimateparallelscan = Some(size_of_parallel_scan);
    // What several processes can scan together, they can build together.
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    {
        am.amcanbuildparallel = am.amcanparallel;
    }
    #[cfg(feature = "pg18")]
    {
        am.amconsistentequality = true;
        am.amconsistentordering = true;
        am.amgettreeheight = Some(height);
        am.amtranslatestrategy = Some(strategy_to_comparison);
        am.amtranslatecmptype = Some(comparison_to_strategy);
    }
}

/// Where an access method's part of the shared state of a parallel scan begins.
///
/// # Safety
/// The state of a parallel scan.
pub(super) unsafe fn state_at(scan: *const pg_sys::ParallelIndexScanDescData) -> usize {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return (*scan).ps_offset;
        #[cfg(feature = "pg18")]
        return (*scan).ps_offset_am;
    }
}

/// Bytes that a parallel scan shares.
#[cfg(any(feature = "pg15", feature = "pg16"))]
unsafe extern "C-unwind" fn size_of_parallel_scan() -> pg_sys::Size {
    super::parallel_scan::SIZE
}
/// Bytes that a parallel scan shares.
#[cfg(feature = "pg17")]
unsafe extern "C-unwind" fn size_of_parallel_scan(_keys: i32, _order_bys: i32) -> pg_sys::Size {
    super::parallel_scan::SIZE
}
/// Bytes that a parallel scan shares.
#[cfg(feature = "pg18")]
unsafe extern "C-unwind" fn size_of_parallel_scan(
    _index: pg_sys::Relation,
    _keys: i32,
    _order_bys: i32,
) -> pg_sys::Size {
    super::parallel_scan::SIZE
}

/// What a strategy means.
#[cfg(feature = "pg18")]
unsafe extern "C-unwind" fn strategy_to_comparison(
    strategy: pg_sys::StrategyNumber,
    _family: pg_sys::Oid,
) -> pg_sys::CompareType::Type {
    use pg_sys::CompareType::{COMPARE_EQ, COMPARE_GE, COMPARE_GT, COMPARE_INVALID, COMPARE_LE, COMPARE_LT};
    match strategy {
        1 => COMPARE_LT,
        2 => COMPARE_LE,
        3 => COMPARE_EQ,
        4 => COMPARE_GE,
        5 => COMPARE_GT,
        _ => COMPARE_INVALID,
    }
}

/// The strategy of a comparison; 0 if there is none.
#[cfg(feature = "pg18")]
unsafe extern "C-unwind" fn comparison_to_strategy(
    comparison: pg_sys::CompareType::Type,
    _family: pg_sys::Oid,
) -> pg_sys::StrategyNumber {
    use pg_sys::CompareType::{COMPARE_EQ, COMPARE_GE, COMPARE_GT, COMPARE_LE, COMPARE_LT};
    match comparison {
        COMPARE_LT => 1,
        COMPARE_LE => 2,
        COMPARE_EQ => 3,
        COMPARE_GE => 4,
        COMPARE_GT => 5,
        _ => 0,
    }
}
