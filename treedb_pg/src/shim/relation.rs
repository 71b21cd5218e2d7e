//! Relations: open tables and indexes.
//!
//! [`Relation`], [`Table`] and [`Index`] are views of a relation that stays open and locked for their lifetime: kept so
//! by the server while it calls us, or by an [`OpenTable`] or [`OpenIndex`] of our own. A lock that was taken here stays
//! until the end of the transaction.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;

use pgrx::pg_sys;

use super::catalog;
use super::comparison::{Comparison, OtherType};
use super::compat;
use super::datum::Layout;
use super::error::{SqlState, fail};
use super::error_frame::ErrorObject;
use super::release::may_release;
use super::text;
use super::unguarded;

/// Number of the comparison function in an operator class of ours, as in one of btree.
pub(super) const COMPARISON: u16 = 1;
/// Number of the function that declares options of the operator class, as in one of btree.
pub(super) const OPTIONS: u16 = 5;
/// Number of the function that says which kind of column the operator class is for. From version 18 on the server takes
/// functions of an ordered access method for what btree has under the same number (sort support under 2, in_range under
/// 3 and so on); this number leaves it room for more.
pub(super) const KIND: u16 = 11;
/// How many numbers there are.
pub(super) const NUMBERS: u16 = KIND;

/// An open, locked relation.
#[derive(Clone, Copy)]
pub(crate) struct Relation<'r> {
    raw: pg_sys::Relation,
    open: PhantomData<&'r pg_sys::RelationData>,
}

impl<'r> Relation<'r> {
    /// # Safety
    /// `raw` is a relation that stays open and locked for `'r`.
    pub(super) unsafe fn from_raw(raw: pg_sys::Relation) -> Relation<'r> {
        Relation { raw, open: PhantomData }
    }

    /// The server's form.
    pub(super) fn raw(self) -> pg_sys::Relation {
        self.raw
    }

    /// The row of `pg_class`. Not handed out: the server overwrites it when it hears of a change.
    fn class(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: every open relation has one, which stays in its place while it is open.
        unsafe { &*(*self.raw).rd_rel }
    }

    /// Its number in the catalog.
    pub(crate) fn oid(self) -> pg_sys::Oid {
        // SAFETY: open.
        unsafe { (*self.raw).rd_id }
    }

    /// The number of its files: another one after each rewrite.
    pub(crate) fn file_number(self) -> u32 {
        // SAFETY: open.
        unsafe { super::compat::file_number(self.raw) }
    }

    /// Its name, without schema, in the encoding of the database.
    pub(crate) fn name(self) -> CString {
        // SAFETY: a name is closed by a zero byte.
        unsafe { CStr::from_ptr(self.class().relname.data.as_ptr()).to_owned() }
    }

    /// The same for messages.
    pub(crate) fn shown(self) -> String {
        text::lossy(&self.name())
    }

    /// Its schema.
    pub(crate) fn schema(self) -> pg_sys::Oid {
        self.class().relnamespace
    }

    /// Schema and name, quoted for SQL, in the encoding of the database.
    pub(crate) fn quoted(self) -> CString {
        catalog::qualified(self.schema(), &self.name())
    }

    /// What kind of relation it is, as in `pg_class.relkind`.
    pub(crate) fn kind(self) -> u8 {
        self.class().relkind as u8
    }

    /// Whether row security is on; whether it is for this user is another question.
    pub(super) fn has_row_security(self) -> bool {
        self.class().relrowsecurity
    }

    /// Its access method.
    pub(crate) fn access_method(self) -> pg_sys::Oid {
        self.class().relam
    }

    /// How many rows the server believes it to have; `None` before the first ANALYZE.
    pub(crate) fn estimated_rows(self) -> Option<f32> {
        Some(self.class().reltuples).filter(|rows| *rows >= 0.0)
    }

    /// How many rows or entries it has, if it has grown evenly since the server counted them; `None` before the first
    /// ANALYZE.
    pub(crate) fn extrapolated_rows(self) -> Option<f64> {
        let (rows, pages) = (self.class().reltuples, self.class().relpages);
        (rows > 0.0 && pages > 0).then(|| f64::from(rows) * f64::from(self.blocks()) / f64::from(pages))
    }

    /// Which part of its pages had only rows that everybody sees when the server counted them last.
    pub(crate) fn all_visible_part(self) -> f64 {
        let visible = self.class().relallvisible.max(0);
        (f64::from(visible) / f64::from(self.blocks().max(1))).min(1.0)
    }

    /// The indexes of a table; none of a relation of another kind.
    pub(crate) fn indexes(self) -> Vec<pg_sys::Oid> {
        // SAFETY: the server returns a list of its own with the numbers of the indexes.
        unsafe {
            let list = pg_sys::RelationGetIndexList(self.raw);
            let count = if list.is_null() { 0 } else { usize::try_from((*list).length).unwrap_or(0) };
            let oids = (0..count).map(|i| (*(*list).elements.add(i)).oid_value).collect();
            pg_sys::list_free(list);
            oids
        }
    }

    /// How many blocks the main fork has.
    pub(crate) fn blocks(self) -> u32 {
        // SAFETY: open; an SQL error for a relation without storage.
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.raw, pg_sys::ForkNumber::MAIN_FORKNUM) }
    }

    /// Whether no row has NULL in column `at`, counted from 0.
    pub(crate) fn is_never_null(self, at: usize) -> bool {
        // SAFETY: open.
        unsafe {
            let columns = (*self.raw).rd_att;
            let count = usize::try_from((*columns).natts).unwrap_or(0);
            at < count && compat::is_never_null(columns, at)
        }
    }

    /// Whether it is a catalog of the server's.
    pub(crate) fn is_catalog(self) -> bool {
        // SAFETY: open.
        unsafe { pg_sys::IsSystemRelation(self.raw) }
    }

    /// Whether changes are logged (the header's `RelationNeedsWAL`).
    pub(super) fn needs_wal(self) -> bool {
        let permanent = self.class().relpersistence == pg_sys::RELPERSISTENCE_PERMANENT as std::ffi::c_char;
        // SAFETY: open; the level is a setting that does not change while the server runs.
        unsafe {
            permanent
                && (pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32
                    || ((*self.raw).rd_createSubid == 0 && !compat::made_file_here(self.raw)))
        }
    }

    /// Whether it is a temporary one, whose pages are in local buffers.
    pub(crate) fn is_temporary(self) -> bool {
        self.class().relpersistence == pg_sys::RELPERSISTENCE_TEMP as std::ffi::c_char
    }

    /// Whether changes are logged.
    pub(crate) fn is_logged(self) -> bool {
        self.needs_wal()
    }

    /// Whether no other backend can see it yet, so that only this one adds blocks to it.
    pub(super) fn is_own(self) -> bool {
        // SAFETY: open.
        unsafe { (*self.raw).rd_islocaltemp || (*self.raw).rd_createSubid != 0 }
    }

    /// The description of its columns.
    pub(super) fn columns(self) -> pg_sys::TupleDesc {
        // SAFETY: open.
        unsafe { (*self.raw).rd_att }
    }
}

/// The layout of column `at`, counted from 0, of a row or entry; `None` if there is no such column.
///
/// # Safety
/// `columns` is a description of columns.
#[inline]
pub(super) unsafe fn layout(columns: pg_sys::TupleDesc, at: usize) -> Option<Layout> {
    // SAFETY: the description has `natts` attributes.
    unsafe {
        let count = usize::try_from((*columns).natts).unwrap_or(0);
        (at < count).then(|| Layout::of_attribute(compat::attribute(columns, at)))
    }
}

/// A table: a relation with a table access method.
#[derive(Clone, Copy)]
pub(crate) struct Table<'r>(Relation<'r>);

impl<'r> Table<'r> {
    /// # Safety
    /// As for a relation; it has a table access method.
    pub(super) unsafe fn from_raw(raw: pg_sys::Relation) -> Table<'r> {
        // SAFETY: the caller's.
        Table(unsafe { Relation::from_raw(raw) })
    }
}

impl<'r> Deref for Table<'r> {
    type Target = Relation<'r>;

    fn deref(&self) -> &Relation<'r> {
        &self.0
    }
}

/// A key column of an index.
pub(crate) struct KeyColumn {
    /// What support function 11 of its operator class returns; `None` if there is none, or it takes arguments.
    pub(crate) kind: Option<i32>,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    pub(crate) collation: pg_sys::Oid,
    pub(crate) layout: Layout,
}

/// What a backend remembers of an index of ours between statements.
#[derive(Default)]
struct CachedTree {
    /// The root, 0 if it is not known.
    block: u32,
    level: u16,
    /// The buffers where the meta page and the root were, as far as they are known: they may hold other blocks by now.
    meta_buffer: pg_sys::Buffer,
    root_buffer: pg_sys::Buffer,
    /// What the meta page is known to say of the entries, which never becomes less.
    facts: u32,
}

/// An index.
#[derive(Clone, Copy)]
pub(crate) struct Index<'r>(Relation<'r>);

impl<'r> Index<'r> {
    /// # Safety
    /// As for a relation; it is an index.
    pub(super) unsafe fn from_raw(raw: pg_sys::Relation) -> Index<'r> {
        // SAFETY: the caller's.
        Index(unsafe { Relation::from_raw(raw) })
    }

    /// The row of `pg_index`.
    fn form(&self) -> &pg_sys::FormData_pg_index {
        // SAFETY: every open index has one, which stays in its place while it is open.
        unsafe { &*(*self.raw()).rd_index }
    }

    /// The table it is an index of.
    pub(crate) fn table_oid(self) -> pg_sys::Oid {
        self.form().indrelid
    }

    /// The name of that table.
    pub(crate) fn table_name(self) -> String {
        // SAFETY: a catalog look-up; the string is copied.
        unsafe {
            let name = pg_sys::get_rel_name(self.table_oid());
            if name.is_null() { String::new() } else { text::lossy(CStr::from_ptr(name)) }
        }
    }

    /// Index and table as the object of an error about a row.
    pub(crate) fn error_object(self) -> ErrorObject {
        ErrorObject {
            schema: Some(text::lossy(&catalog::schema_name(self.schema()))),
            table: Some(self.table_name()),
            constraint: Some(self.shown()),
        }
    }

    /// Whether inserts go into it.
    pub(crate) fn is_ready(self) -> bool {
        self.form().indisready
    }

    /// Whether queries may use it.
    pub(crate) fn is_valid(self) -> bool {
        self.form().indisvalid
    }

    /// Whether it has not been given up.
    pub(crate) fn is_live(self) -> bool {
        self.form().indislive
    }

    /// Whether it is unique.
    pub(crate) fn is_unique(self) -> bool {
        self.form().indisunique
    }

    /// Whether it belongs to an exclusion constraint.
    pub(crate) fn is_exclusion(self) -> bool {
        self.form().indisexclusion
    }

    /// Whether its constraint is checked at once, not at the end of the transaction.
    pub(crate) fn is_immediate(self) -> bool {
        self.form().indimmediate
    }

    /// Whether it leaves rows out.
    pub(crate) fn is_partial(self) -> bool {
        // SAFETY: open.
        unsafe { !pg_sys::RelationGetIndexPredicate(self.raw()).is_null() }
    }

    /// The number of its columns, with those that it only includes.
    pub(crate) fn column_count(self) -> usize {
        usize::try_from(self.form().indnatts).unwrap_or(0)
    }

    /// The number of its key columns.
    pub(crate) fn key_count(self) -> usize {
        usize::try_from(self.form().indnkeyatts).unwrap_or(0)
    }

    /// Whether key column `at` is in the order of its type, NULLs last.
    pub(crate) fn is_ascending(self, at: usize) -> bool {
        // SAFETY: an element for each key column.
        at < self.key_count() && unsafe { *(*self.raw()).rd_indoption.add(at) == 0 }
    }

    /// The key columns of an index of ours.
    pub(crate) fn key_columns(self) -> Vec<KeyColumn> {
        let column = |at: usize| {
            // SAFETY: the arrays have an element for each key column.
            unsafe {
                let kind = self.support_number(at, KIND);
                let option = u32::from(*(*self.raw()).rd_indoption.add(at) as u16);
                KeyColumn {
                    kind,
                    descending: option & pg_sys::INDOPTION_DESC != 0,
                    nulls_first: option & pg_sys::INDOPTION_NULLS_FIRST != 0,
                    collation: *(*self.raw()).rd_indcollation.add(at),
                    layout: layout(self.columns(), at).unwrap_or(Layout::Word),
                }
            }
        };
        (0..self.key_count()).map(column).collect()
    }

    /// What the support function of this number of key column `at` returns; `None` if there is none, or it takes
    /// arguments.
    pub(crate) fn support_number(self, at: usize, number: u16) -> Option<i32> {
        let (index, column) = (self.raw(), at as i16 + 1);
        // SAFETY: the index has that column. The function is called with as many arguments as it is declared with. Nothing
        // in the boundary needs to be dropped: every scan begins here, so there is one for all three calls.
        let result = unsafe {
            unguarded::guard(|| {
                if unguarded::index_getprocid(index, column, number) == pg_sys::InvalidOid {
                    return None;
                }
                let function = unguarded::index_getprocinfo(index, column, number);
                ((*function).fn_nargs == 0)
                    .then(|| unguarded::FunctionCall0Coll(function, pg_sys::InvalidOid))
            })
        };
        result.map(|number| number.value() as i32)
    }

    /// The type modifier of column `at`; `None` if it has none.
    pub(crate) fn modifier(self, at: usize) -> Option<i32> {
        // SAFETY: the description of the index's columns.
        let modifier = unsafe {
            let count = usize::try_from((*self.columns()).natts).unwrap_or(0);
            (at < count).then(|| compat::attribute(self.columns(), at).atttypmod)
        };
        modifier.filter(|modifier| *modifier >= 0)
    }

    /// Block and level of the root of a tree, as this backend saw it last; `None` since the server heard of a change of
    /// the index.
    #[inline]
    pub(crate) fn cached_root(self) -> Option<(u32, u16)> {
        self.cached().filter(|cached| cached.block != 0).map(|cached| (cached.block, cached.level))
    }

    /// What of the facts about its entries this backend has seen in the meta page.
    #[inline]
    pub(crate) fn cached_facts(self) -> u32 {
        self.cached().map_or(0, |cached| cached.facts)
    }

    fn cached(self) -> Option<&'r CachedTree> {
        // SAFETY: open; only `remember` sets the field of an index of ours, and the server frees and clears it where it
        // hears of a change of the index, which it does not while this is used.
        unsafe { (*self.raw()).rd_amcache.cast::<CachedTree>().as_ref() }
    }

    /// The buffer where the meta page (block 0) or the root was, if it is known.
    #[inline]
    pub(super) fn cached_buffer(self, block: u32) -> Option<pg_sys::Buffer> {
        let cached = self.cached()?;
        let buffer = if block == 0 { cached.meta_buffer } else { cached.root_buffer };
        (buffer > 0 && (block == 0 || block == cached.block)).then_some(buffer)
    }

    /// Remembers such a buffer.
    pub(super) fn cache_buffer(self, block: u32, buffer: pg_sys::Buffer) {
        // SAFETY: as above; nobody else uses what is remembered meanwhile.
        let Some(cached) = (unsafe { (*self.raw()).rd_amcache.cast::<CachedTree>().as_mut() }) else {
            return;
        };
        match block {
            0 => cached.meta_buffer = buffer,
            _ if block == cached.block => cached.root_buffer = buffer,
            _ => {}
        }
    }

    /// Remembers block and level of the root.
    pub(crate) fn cache_root(self, block: u32, level: u16) {
        self.remember(CachedTree { block, level, facts: self.cached_facts(), ..CachedTree::default() });
    }

    /// Remembers facts that the meta page says.
    pub(crate) fn cache_facts(self, facts: u32) {
        match self.cached() {
            Some(CachedTree { block, level, meta_buffer, root_buffer, facts: known }) => {
                let (block, level, meta_buffer, root_buffer) = (*block, *level, *meta_buffer, *root_buffer);
                self.remember(CachedTree { block, level, meta_buffer, root_buffer, facts: known | facts });
            }
            None => self.remember(CachedTree { facts, ..CachedTree::default() }),
        }
    }

    fn remember(self, tree: CachedTree) {
        // SAFETY: open; the memory is of the context whose parts the server frees by this pointer.
        unsafe {
            let place = &mut (*self.raw()).rd_amcache;
            if place.is_null() {
                *place = pg_sys::MemoryContextAlloc((*self.raw()).rd_indexcxt, size_of::<CachedTree>());
            }
            place.cast::<CachedTree>().write(tree);
        }
    }

    /// A block where the next insert may belong: the rightmost leaf, if the last insert of this backend went there.
    #[inline]
    pub(crate) fn target_block(self) -> Option<u32> {
        // SAFETY: open; the storage handle is not used beyond this.
        let block = unsafe { (*pg_sys::RelationGetSmgr(self.raw())).smgr_targblock };
        (block != pg_sys::InvalidBlockNumber).then_some(block)
    }

    /// Remembers such a block, or forgets it.
    pub(crate) fn set_target_block(self, block: Option<u32>) {
        // SAFETY: as above.
        unsafe {
            (*pg_sys::RelationGetSmgr(self.raw())).smgr_targblock =
                block.unwrap_or(pg_sys::InvalidBlockNumber);
        }
    }

    /// How the values of its included columns are passed.
    pub(crate) fn included_layouts(self) -> Vec<Layout> {
        // SAFETY: the description of the index's columns.
        (self.key_count()..).map_while(|at| unsafe { layout(self.columns(), at) }).collect()
    }

    /// The type of the operator class of key column `at`.
    pub(super) fn input_type(self, at: usize) -> Option<pg_sys::Oid> {
        // SAFETY: an element for each key column.
        (at < self.key_count()).then(|| unsafe { *(*self.raw()).rd_opcintype.add(at) })
    }

    /// How key column `at` compares with another type; `None` if there is no such column.
    pub(super) fn other_type(
        self,
        at: usize,
        other: pg_sys::Oid,
        collation: pg_sys::Oid,
    ) -> Option<OtherType> {
        let own = self.input_type(at)?;
        // SAFETY: an element for each key column; a function of these two types that returns a 32-bit integer,
        // according to the operator family.
        unsafe {
            let family = *(*self.raw()).rd_opfamily.add(at);
            let function = pg_sys::get_opfamily_proc(family, own, other, COMPARISON as i16);
            let function = (function != pg_sys::InvalidOid).then_some(function);
            Some(OtherType::new(own, other, function, collation))
        }
    }

    /// The comparison function of key column `at`; an SQL error if its operator class has none.
    pub(crate) fn comparison(self, at: usize, layout: Layout, collation: pg_sys::Oid) -> Comparison {
        // SAFETY: the index has that column. Only a superuser can declare an operator class, whose function 1 takes two
        // values of the column's type.
        unsafe {
            let function = pg_sys::index_getprocid(self.raw(), at as i16 + 1, COMPARISON);
            if function == pg_sys::InvalidOid || pg_sys::get_func_nargs(function) != 2 {
                fail(
                    SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
                    format!("operator class of column {} has no comparison function", at + 1),
                    "Add FUNCTION 1, a comparison as of a btree operator class, to the operator class.",
                )
            }
            Comparison::new(function, collation, layout)
        }
    }

    /// Whether the transaction that built the index over broken HOT chains is too recent for this one's snapshots:
    /// then it does not have every row that they show.
    pub(crate) fn is_too_new(self) -> bool {
        // SAFETY: open; its row of the catalog is kept with it, and is an ordinary row.
        unsafe {
            self.form().indcheckxmin
                && !pg_sys::TransactionIdPrecedes(
                    super::heap::xmin((*(*self.raw()).rd_indextuple).t_data),
                    pg_sys::TransactionXmin,
                )
        }
    }

    /// Counts a scan in `pg_stat_user_indexes`.
    pub(crate) fn count_scan(self) {
        // SAFETY: open. Its counters exist from the first time on that something is counted.
        unsafe {
            let index = self.raw();
            if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
                pg_sys::pgstat_assoc_relation(index);
            }
            if let Some(info) = (*index).pgstat_info.as_mut() {
                *compat::scans(info) += 1;
            }
        }
    }
}

impl<'r> Deref for Index<'r> {
    type Target = Relation<'r>;

    fn deref(&self) -> &Relation<'r> {
        &self.0
    }
}

/// A relation's lock, as the server numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockMode {
    /// Already locked by the caller.
    Held,
    /// As SELECT takes it.
    AccessShare,
    /// As INSERT, UPDATE and DELETE take it.
    RowExclusive,
    /// As VACUUM and CREATE INDEX CONCURRENTLY take it.
    ShareUpdateExclusive,
    /// Keeps others from changing the table.
    Share,
    /// Keeps others away.
    AccessExclusive,
}

impl LockMode {
    /// The server's number.
    pub(super) fn number(self) -> i32 {
        let mode = match self {
            LockMode::Held => pg_sys::NoLock,
            LockMode::AccessShare => pg_sys::AccessShareLock,
            LockMode::RowExclusive => pg_sys::RowExclusiveLock,
            LockMode::ShareUpdateExclusive => pg_sys::ShareUpdateExclusiveLock,
            LockMode::Share => pg_sys::ShareLock,
            LockMode::AccessExclusive => pg_sys::AccessExclusiveLock,
        };
        mode as i32
    }
}

/// What closes a relation.
struct Opened(pg_sys::Relation);

impl Drop for Opened {
    fn drop(&mut self) {
        if may_release() {
            // SAFETY: opened by us; the lock stays until the end of the transaction.
            unsafe { unguarded::relation_close(self.0, pg_sys::NoLock as i32) }
        }
    }
}

/// A table that we have opened. Clones share it; the last one closes it.
#[derive(Clone)]
pub(crate) struct OpenTable(Rc<Opened>);

impl OpenTable {
    /// Opens a table; an SQL error if `oid` is not one (or a materialized view).
    pub(crate) fn open(oid: pg_sys::Oid, lock: LockMode) -> OpenTable {
        // SAFETY: the server raises an error if there is no such relation, or none that is a table.
        let raw = unsafe { unguarded::guard(|| unguarded::table_open(oid, lock.number())) };
        let opened = OpenTable(Rc::new(Opened(raw)));
        // SAFETY: open.
        if unsafe { (*raw).rd_tableam.is_null() } {
            fail(
                SqlState::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a plain table", opened.get().shown()),
                "Name a table that holds rows itself: no view, no partitioned or foreign table.",
            );
        }
        opened
    }

    /// Opens a table once more that is open already.
    pub(crate) fn again(table: Table<'_>) -> OpenTable {
        let raw = table.raw();
        // SAFETY: open; it is counted once more, as closing it counts.
        unsafe { unguarded::guard(|| unguarded::RelationIncrementReferenceCount(raw)) };
        OpenTable(Rc::new(Opened(raw)))
    }

    /// The same without an error: `None` if `oid` is gone, or not a plain table.
    pub(crate) fn open_quietly(oid: pg_sys::Oid, lock: LockMode) -> Option<OpenTable> {
        // SAFETY: the server returns null if there is no such relation any more.
        let raw = unsafe { pg_sys::try_relation_open(oid, lock.number()) };
        if raw.is_null() {
            return None;
        }
        let opened = Opened(raw);
        // SAFETY: open.
        let plain = unsafe {
            (*(*raw).rd_rel).relkind as u8 == pg_sys::RELKIND_RELATION && !(*raw).rd_tableam.is_null()
        };
        plain.then(|| OpenTable(Rc::new(opened)))
    }

    /// The open table.
    pub(crate) fn get(&self) -> Table<'_> {
        // SAFETY: `open` has seen that it is a table; it is open as long as `self`.
        unsafe { Table::from_raw(self.0.0) }
    }
}

/// An index that we have opened. The last clone closes it.
#[derive(Clone)]
pub(crate) struct OpenIndex(Rc<Opened>);

impl OpenIndex {
    /// Opens an index; an SQL error if `oid` is not one.
    pub(crate) fn open(oid: pg_sys::Oid, lock: LockMode) -> OpenIndex {
        // SAFETY: the server raises an error if there is no such relation, or if it is no index.
        let raw = unsafe { unguarded::guard(|| unguarded::index_open(oid, lock.number())) };
        let opened = OpenIndex(Rc::new(Opened(raw)));
        // SAFETY: open. Without a routine it is a partitioned index, which has no entries of its own.
        if unsafe { (*raw).rd_indam.is_null() } {
            fail(
                SqlState::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{}\" is a partitioned index", opened.get().shown()),
                "Name the index of a partition.",
            );
        }
        opened
    }

    /// The open index.
    pub(crate) fn get(&self) -> Index<'_> {
        // SAFETY: the server has seen that it is an index; it is open as long as `self`.
        unsafe { Index::from_raw(self.0.0) }
    }
}

/// A relation of any kind that we have opened.
pub(crate) struct OpenRelation(Opened);

impl OpenRelation {
    /// Opens a relation; an SQL error if there is none.
    pub(crate) fn open(oid: pg_sys::Oid, lock: LockMode) -> OpenRelation {
        // SAFETY: the server raises an error if there is no such relation.
        OpenRelation(Opened(unsafe { pg_sys::relation_open(oid, lock.number()) }))
    }

    /// The open relation.
    pub(crate) fn get(&self) -> Relation<'_> {
        // SAFETY: open as long as `self`.
        unsafe { Relation::from_raw(self.0.0) }
    }
}
