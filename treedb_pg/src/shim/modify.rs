//! Changing rows of a table through the server's executor, without a plan: as its logical replication does it.
//!
//! Rows go the way of any INSERT, UPDATE and DELETE: triggers, generated columns, constraints, the table access
//! method, every index. All changes of a [`RowWriter`] belong to one command.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::ptr;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgTryBuilder, pg_sys};

use super::catalog;
use super::compat;
use super::datum::Layout;
use super::error::{SqlState, fail};
use super::error_frame::ErrorObject;
use super::hot_update::{self, IndexedValues, NoIndexedColumns};
use super::memory::Memory;
use super::relation::{OpenTable, layout};
use super::snapshot::Snapshot;
use super::table::Slot;
use super::{subtransaction, text};

/// A command, which fires triggers for each statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    Insert,
    Update,
    /// As INSERT ON CONFLICT DO UPDATE.
    InsertOrUpdate,
    Delete,
}

impl Command {
    fn inserts(self) -> bool {
        matches!(self, Command::Insert | Command::InsertOrUpdate)
    }

    fn updates(self) -> bool {
        matches!(self, Command::Update | Command::InsertOrUpdate)
    }
}

/// A unique index that refused a row, or an exclusion constraint.
pub(crate) struct UniqueViolation {
    error: Box<CaughtError>,
    object: ErrorObject,
}

impl UniqueViolation {
    fn new(error: CaughtError) -> UniqueViolation {
        let object = match &error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => ErrorObject::of(report),
            CaughtError::RustPanic { .. } => ErrorObject::default(),
        };
        UniqueViolation { error: Box::new(error), object }
    }

    /// The index, as the constraint that was violated, with its table.
    pub(crate) fn object(&self) -> &ErrorObject {
        &self.object
    }

    /// What the server says of the rows that clash; nothing if the user may not see them.
    pub(crate) fn detail(&self) -> &str {
        match &*self.error {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => {
                report.detail().unwrap_or("")
            }
            CaughtError::RustPanic { .. } => "",
        }
    }

    /// Raises the error again.
    pub(crate) fn rethrow(self) -> ! {
        self.error.rethrow()
    }
}

/// The outcome of locking a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Locked {
    /// Locked; its newest version is in the slot.
    Yes,
    /// Deleted, or changed by this very command.
    Gone,
}

/// The outcome of an update of a row version that has not been locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Updated {
    Yes,
    /// Nothing was done: the row has been changed or deleted, by another transaction or this very command, or it takes the
    /// way of the server's own that asks for a lock.
    LockFirst,
}

/// A value to be stored.
#[derive(Clone, Copy)]
pub(crate) struct Value<'v> {
    pub(crate) bytes: &'v [u8],
    /// The trigger that a [`RowWriter`] may leave out would not change it.
    pub(crate) settled: bool,
}

/// A command that changes rows of a table.
pub(crate) struct RowWriter {
    table: OpenTable,
    /// The column that the caller gives values for, counted from 0.
    column: usize,
    command: Command,
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    recheck: Box<pg_sys::EPQState>,
    /// The defaults of other columns, as soon as there was an insert.
    defaults: Option<Vec<(usize, *mut pg_sys::ExprState)>>,
    /// The row to be stored.
    new: *mut pg_sys::TupleTableSlot,
    /// The row that it replaces, its value at hand.
    replaced: *mut pg_sys::TupleTableSlot,
    /// Whether triggers are to be called before a row is inserted or updated: always, or for values that are not settled.
    triggers: [Before; 2],
    /// Nothing else of the server's steps of an update needs the row to be locked first.
    plain: bool,
    /// The indexes are open, as they need to be before a row gets entries.
    opened: bool,
    /// The functions of the triggers before each row have been looked up.
    looked_up: bool,
    indexed: IndexedValues,
}

/// When triggers are to be called before a row is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Never,
    Unsettled,
    Always,
}

impl Before {
    /// What the triggers of a table ask for that have the bit of an event in their type; `left_out` is the function of the
    /// trigger that may be left out.
    ///
    /// # Safety
    /// A table's triggers, or null.
    unsafe fn of(triggers: *const pg_sys::TriggerDesc, event: u32, left_out: pg_sys::Oid) -> Before {
        let bits = pg_sys::TRIGGER_TYPE_ROW | pg_sys::TRIGGER_TYPE_BEFORE | event;
        let mut before = Before::Never;
        // SAFETY: the caller's; the array has as many elements.
        unsafe {
            let Some(triggers) = triggers.as_ref() else { return before };
            let count = usize::try_from(triggers.numtriggers).unwrap_or(0);
            for trigger in (0..count).map(|at| &*triggers.triggers.add(at)) {
                if u32::from(trigger.tgtype as u16) & bits != bits {
                    continue;
                }
                match before {
                    Before::Never if trigger.tgfoid == left_out => before = Before::Unsettled,
                    _ => return Before::Always,
                }
            }
        }
        before
    }

    fn calls(self, settled: bool) -> bool {
        self == Before::Always || (self == Before::Unsettled && !settled)
    }
}

impl RowWriter {
    /// Begins a command: `column` is the number of the column that it gives values of variable length for, `name` the
    /// command's name for the message of a read-only transaction, `left_out` the function of a trigger that need not be
    /// called before a settled value is stored.
    pub(crate) fn begin(
        table: &OpenTable,
        column: i16,
        command: Command,
        name: &CStr,
        left_out: pg_sys::Oid,
    ) -> RowWriter {
        let relation = table.get().raw();
        let at = usize::try_from(column).unwrap_or(0).wrapping_sub(1);
        // SAFETY: an open table. What is allocated here lives in the context of the call that the command is a part
        // of, and in the executor's state. The active snapshot stays until `finish`, or the abort.
        unsafe {
            if layout((*relation).rd_att, at) != Some(Layout::Varlena) {
                fail(
                    SqlState::ERRCODE_DATATYPE_MISMATCH,
                    format!("table \"{}\" has no column of documents", table.get().shown()),
                    "Name a collection.",
                );
            }
            pg_sys::PreventCommandIfReadOnly(name.as_ptr());
            pg_sys::PreventCommandIfParallelMode(name.as_ptr());
            // What the statement this is a part of has done so far is to be seen.
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let estate = pg_sys::CreateExecutorState();
            let entry = node::<pg_sys::RangeTblEntry>(pg_sys::NodeTag::T_RangeTblEntry);
            (*entry).rtekind = pg_sys::RTEKind::RTE_RELATION;
            (*entry).relid = table.get().oid();
            (*entry).relkind = (*(*relation).rd_rel).relkind;
            (*entry).rellockmode = pg_sys::RowExclusiveLock as i32;
            // The columns that triggers and generated columns may ask for.
            let member = i32::from(column) - pg_sys::FirstLowInvalidHeapAttributeNumber;
            compat::insert_target(estate, entry, member);
            let target = node::<pg_sys::ResultRelInfo>(pg_sys::NodeTag::T_ResultRelInfo);
            pg_sys::InitResultRelInfo(target, relation, 1, ptr::null_mut(), 0);
            // Where triggers that run at the end look for it.
            (*estate).es_opened_result_relations =
                pg_sys::lappend((*estate).es_opened_result_relations, target.cast());
            (*estate).es_output_cid = pg_sys::GetCurrentCommandId(true);
            (*estate).es_snapshot = pg_sys::GetActiveSnapshot();
            (*estate).es_per_tuple_exprcontext = pg_sys::MakePerTupleExprContext(estate);
            let mut recheck = Box::<pg_sys::EPQState>::default();
            compat::begin_recheck(&mut recheck, estate);
            pg_sys::AfterTriggerBeginQuery();
            let slot =
                || pg_sys::MakeSingleTupleTableSlot((*relation).rd_att, &raw const pg_sys::TTSOpsVirtual);
            let before = |event| Before::of((*target).ri_TrigDesc, event, left_out);
            let rules = (*(*relation).rd_att).constr.as_ref();
            let mut writer = RowWriter {
                table: table.clone(),
                column: at,
                command,
                estate,
                target,
                recheck,
                defaults: None,
                new: slot(),
                replaced: slot(),
                triggers: [before(pg_sys::TRIGGER_TYPE_INSERT), before(pg_sys::TRIGGER_TYPE_UPDATE)],
                plain: hot_update::is_heap(table)
                    && !rules.is_some_and(|rules| rules.has_generated_stored)
                    && !(*(*relation).rd_rel).relispartition,
                opened: false,
                looked_up: false,
                indexed: IndexedValues::default(),
            };
            if command.inserts() {
                writer.open_indexes();
            }
            writer.statement_triggers(false);
            writer
        }
    }

    /// Opens the indexes, unless they are. To open them takes longer than to update a row whose new version needs no entries.
    fn open_indexes(&mut self) {
        if !std::mem::replace(&mut self.opened, true) {
            // SAFETY: the table is open; what is allocated lives as long as the executor's state.
            unsafe {
                let outer = pg_sys::MemoryContextSwitchTo((*self.estate).es_query_cxt);
                pg_sys::ExecOpenIndices(self.target, false);
                pg_sys::MemoryContextSwitchTo(outer);
            }
        }
    }

    /// Fires the triggers for each statement: those before it, or those after it.
    fn statement_triggers(&self, after: bool) {
        let (estate, target, none) = (self.estate, self.target, ptr::null_mut());
        let (inserts, updates) = (self.command.inserts(), self.command.updates());
        let deletes = self.command == Command::Delete;
        // SAFETY: the relation and the executor's state are open. As for ON CONFLICT DO UPDATE, those for INSERT come
        // first before the statement and last after it.
        unsafe {
            let Some(triggers) = (*target).ri_TrigDesc.as_ref() else { return };
            if (inserts && triggers.trig_insert_new_table)
                || (updates && (triggers.trig_update_old_table || triggers.trig_update_new_table))
                || (deletes && triggers.trig_delete_old_table)
            {
                let table = self.table.get();
                let schema = text::lossy(&catalog::schema_name(table.schema()));
                fail(
                    SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                    format!(
                        "collection \"{schema}.{}\" has a trigger with a transition table",
                        table.shown()
                    ),
                    "Change it in SQL, which fills them: UPDATE .. SET doc = ..; or write the trigger for each row.",
                );
            }
            match after {
                false => {
                    if inserts {
                        pg_sys::ExecBSInsertTriggers(estate, target);
                    }
                    if updates {
                        pg_sys::ExecBSUpdateTriggers(estate, target);
                    }
                    if deletes {
                        pg_sys::ExecBSDeleteTriggers(estate, target);
                    }
                }
                true => {
                    if updates {
                        pg_sys::ExecASUpdateTriggers(estate, target, none);
                    }
                    if inserts {
                        pg_sys::ExecASInsertTriggers(estate, target, none);
                    }
                    if deletes {
                        pg_sys::ExecASDeleteTriggers(estate, target, none);
                    }
                }
            }
        }
    }

    /// Ends the command: triggers that wait for its end run now.
    pub(crate) fn finish(mut self) {
        self.statement_triggers(true);
        // SAFETY: begun by us, and ended once.
        unsafe {
            pg_sys::AfterTriggerEndQuery(self.estate);
            pg_sys::EvalPlanQualEnd(&raw mut *self.recheck);
            if self.opened {
                pg_sys::ExecCloseIndices(self.target);
            }
            pg_sys::ExecDropSingleTupleTableSlot(self.new);
            pg_sys::ExecDropSingleTupleTableSlot(self.replaced);
            pg_sys::ExecResetTupleTable((*self.estate).es_tupleTable, false);
            pg_sys::FreeExecutorState(self.estate);
            pg_sys::PopActiveSnapshot();
        }
    }

    /// The expressions of columns other than the caller's that have a default; generated ones are the executor's.
    fn defaults(&mut self) -> &[(usize, *mut pg_sys::ExprState)] {
        let (relation, own, estate) = (self.table.get().raw(), self.column, self.estate);
        self.defaults.get_or_insert_with(|| {
            // SAFETY: an open relation; expressions are made in the memory of the statement, not of a row.
            unsafe {
                let columns = (*relation).rd_att;
                let outer = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
                let mut found = Vec::new();
                for at in 0..usize::try_from((*columns).natts).unwrap_or(0) {
                    let column = compat::attribute(columns, at);
                    if at == own || column.attisdropped || column.attgenerated != 0 {
                        continue;
                    }
                    let expression = pg_sys::build_column_default(relation, at as i32 + 1);
                    if !expression.is_null() {
                        let expression = pg_sys::expression_planner(expression.cast());
                        found.push((at, pg_sys::ExecInitExpr(expression, ptr::null_mut())));
                    }
                }
                pg_sys::MemoryContextSwitchTo(outer);
                found
            }
        })
    }

    /// Puts a row into the slot of new rows: the row in `old` with another value, else one of the value and the other
    /// columns' defaults.
    ///
    /// # Safety
    /// `old`, if any, holds a row of the table. The current memory context lives until the row has been stored.
    unsafe fn compose(&mut self, old: Option<*mut pg_sys::TupleTableSlot>, value: &[u8]) {
        // SAFETY: both slots have the table's columns; what is by reference lies in the old slot, which keeps its
        // row until the next, and in the memory of this row.
        unsafe {
            let slot = &mut *self.new;
            pg_sys::ExecClearTuple(slot);
            let count = usize::try_from((*slot.tts_tupleDescriptor).natts).unwrap_or(0);
            if let Some(old) = old {
                pg_sys::slot_getallattrs(old);
            }
            for at in 0..count {
                let (value, null) = match old {
                    Some(old) => (*(*old).tts_values.add(at), *(*old).tts_isnull.add(at)),
                    None => (pg_sys::Datum::from(0usize), true),
                };
                *slot.tts_values.add(at) = value;
                *slot.tts_isnull.add(at) = null;
            }
            if old.is_none() {
                let context = (*self.estate).es_per_tuple_exprcontext;
                for (at, expression) in self.defaults() {
                    *slot.tts_values.add(*at) =
                        pg_sys::ExecEvalExpr(*expression, context, slot.tts_isnull.add(*at));
                }
            }
            if self.column < count {
                *slot.tts_values.add(self.column) = Memory::current().varlena(value).raw();
                *slot.tts_isnull.add(self.column) = false;
            }
            pg_sys::ExecStoreVirtualTuple(slot);
        }
    }

    /// Runs `work` in the memory of one row, and catches its unique violations.
    fn store(&mut self, work: impl FnOnce(&mut RowWriter)) -> Result<(), UniqueViolation> {
        // SAFETY: the context lives as long as the executor's state.
        let (memory, outer) = unsafe {
            let memory = (*(*self.estate).es_per_tuple_exprcontext).ecxt_per_tuple_memory;
            (memory, pg_sys::MemoryContextSwitchTo(memory))
        };
        let caught = {
            let this = AssertUnwindSafe(&mut *self);
            let work = AssertUnwindSafe(work);
            PgTryBuilder::new(move || {
                let (AssertUnwindSafe(this), AssertUnwindSafe(work)) = (this, work);
                work(this);
                None
            })
            .catch_when(SqlState::ERRCODE_UNIQUE_VIOLATION, Some)
            .catch_when(SqlState::ERRCODE_EXCLUSION_VIOLATION, Some)
            .execute()
        };
        // SAFETY: the context that was current.
        unsafe { pg_sys::MemoryContextSwitchTo(outer) };
        if let Some(caught) = caught {
            return Err(UniqueViolation::new(caught));
        }
        // SAFETY: nothing of the row is used any more: `work` is of this module, and keeps nothing.
        unsafe {
            pg_sys::ExecClearTuple(self.new);
            pg_sys::ExecClearTuple(self.replaced);
            pg_sys::MemoryContextReset(memory);
        }
        Ok(())
    }

    /// Tells the server's steps whether there are triggers to be called before this value is stored.
    fn expect_triggers(&mut self, value: Value<'_>) {
        let [insert, update] = self.triggers.map(|before| before.calls(value.settled));
        // SAFETY: the command's own copy of the description of the table's triggers.
        if let Some(triggers) = unsafe { (*self.target).ri_TrigDesc.as_mut() } {
            triggers.trig_insert_before_row = insert;
            triggers.trig_update_before_row = update;
            if insert || update {
                self.look_up_triggers();
            }
        }
    }

    /// Looks up the functions that are called before each row, once. The server would do so when it calls them first: in the
    /// memory of that row, with which everything would go that a function keeps from one call to the next, but for its address.
    fn look_up_triggers(&mut self) {
        if std::mem::replace(&mut self.looked_up, true) {
            return;
        }
        const BEFORE_ROW: u32 = pg_sys::TRIGGER_TYPE_ROW | pg_sys::TRIGGER_TYPE_BEFORE;
        // SAFETY: the command's own description of the triggers, and an array with a place for the function of each.
        unsafe {
            let memory = (*self.estate).es_query_cxt;
            let (Some(triggers), functions) =
                ((*self.target).ri_TrigDesc.as_ref(), (*self.target).ri_TrigFunctions)
            else {
                return;
            };
            for at in 0..usize::try_from(triggers.numtriggers).unwrap_or(0) {
                let trigger = &*triggers.triggers.add(at);
                if u32::from(trigger.tgtype as u16) & BEFORE_ROW == BEFORE_ROW {
                    pg_sys::fmgr_info_cxt(trigger.tgfoid, functions.add(at), memory);
                }
            }
        }
    }

    /// Inserts a row. Its address is the invalid one if a trigger kept the row out.
    pub(crate) fn insert(&mut self, value: Value<'_>) -> Result<pg_sys::ItemPointerData, UniqueViolation> {
        self.expect_triggers(value);
        self.open_indexes();
        self.store(|this| {
            // SAFETY: `store` has switched to the memory of the row; the slot then holds a row of the table.
            unsafe {
                this.compose(None, value.bytes);
                pg_sys::ExecSimpleRelationInsert(this.target, this.estate, this.new);
            }
        })?;
        // SAFETY: the address stays in the slot when its row is cleared.
        Ok(unsafe { (*self.new).tts_tid })
    }

    /// The same, but if a unique index refuses the row, all that the insert has done is undone and the command may go on.
    /// Takes a subtransaction.
    pub(crate) fn try_insert(
        &mut self,
        value: Value<'_>,
    ) -> Result<pg_sys::ItemPointerData, UniqueViolation> {
        let done = subtransaction::undone_if_refused(|| self.insert(value));
        if done.is_err() {
            // SAFETY: the row in the slot is in the memory of one row; nothing else uses that.
            unsafe {
                pg_sys::ExecClearTuple(self.new);
                pg_sys::MemoryContextReset((*(*self.estate).es_per_tuple_exprcontext).ecxt_per_tuple_memory);
            }
        }
        done
    }

    /// Lets the rest of the command see what has been committed since it began, and what it did itself.
    pub(crate) fn look_again(&mut self) {
        // SAFETY: the active snapshot is the one that `begin` has pushed; the server copies the new one.
        unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::PopActiveSnapshot();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            (*self.estate).es_output_cid = pg_sys::GetCurrentCommandId(true);
            (*self.estate).es_snapshot = pg_sys::GetActiveSnapshot();
        }
    }

    /// Replaces the row version in `old`, as a snapshot shows it, by one with another value, unless another transaction has
    /// changed the row: then it is to be locked, and changed as it is now. `untouched` are indexes that the caller knows to have the
    /// same for both versions.
    pub(crate) fn update_unlocked(
        &mut self,
        old: &mut Slot,
        value: Value<'_>,
        untouched: &[pg_sys::Oid],
    ) -> Result<Updated, UniqueViolation> {
        let [_, triggers] = self.triggers;
        if !self.plain || triggers.calls(value.settled) {
            return Ok(Updated::LockFirst);
        }
        let old = self.row_of(old);
        let mut outcome = Updated::LockFirst;
        self.store(|this| {
            let (target, estate, new) = (this.target, this.estate, this.new);
            // SAFETY: the old slot holds a row version of the table, the new one the row in its place. These are the steps
            // of `ExecSimpleRelationUpdate` for a table without triggers before the row, generated columns and parents.
            unsafe {
                let relation = (*target).ri_RelationDesc;
                pg_sys::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_UPDATE);
                this.compose(Some(old), value.bytes);
                (*new).tts_tableOid = (*relation).rd_id;
                if !(*(*relation).rd_att).constr.is_null() {
                    pg_sys::ExecConstraints(target, new, estate);
                }
                let hot = this.is_hot(old, untouched).then(|| NoIndexedColumns::of(&this.table));
                let mut tid = (*old).tts_tid;
                let (result, entries) = compat::update_row(relation, &mut tid, new, estate);
                drop(hot);
                if result != pg_sys::TM_Result::TM_Ok {
                    return;
                }
                outcome = Updated::Yes;
                if compat::are_entries_needed(entries) {
                    this.open_indexes();
                }
                let later = compat::insert_index_entries(target, new, estate, entries);
                let none = ptr::null_mut();
                pg_sys::ExecARUpdateTriggers(
                    estate,
                    target,
                    none,
                    none,
                    &raw mut tid,
                    ptr::null_mut(),
                    new,
                    later,
                    ptr::null_mut(),
                    false,
                );
                pg_sys::list_free(later);
            }
        })?;
        Ok(outcome)
    }

    /// Whether the update of the row in `old` to the one in the slot of new rows changes no indexed value, and may be HOT.
    ///
    /// # Safety
    /// Both slots hold rows of the table; the current memory context is that of a row.
    unsafe fn is_hot(&mut self, old: *mut pg_sys::TupleTableSlot, untouched: &[pg_sys::Oid]) -> bool {
        // SAFETY: the caller's. The copy of the old row has the same values in the slot's memory and that of the row.
        unsafe {
            let indexes = self.table.get().indexes();
            if indexes.is_empty() || !hot_update::may_fit(old, self.new) {
                return false;
            }
            if indexes.iter().all(|index| untouched.contains(index)) {
                return true;
            }
            self.open_indexes();
            let replaced = &mut *self.replaced;
            pg_sys::ExecClearTuple(replaced);
            for at in 0..usize::try_from((*replaced.tts_tupleDescriptor).natts).unwrap_or(0) {
                let null = *(*old).tts_isnull.add(at);
                let mut value = *(*old).tts_values.add(at);
                // Fetched and decompressed once, not by each index.
                if at == self.column && !null {
                    value = pg_sys::pg_detoast_datum_packed(value.cast_mut_ptr()).into();
                }
                *replaced.tts_values.add(at) = value;
                *replaced.tts_isnull.add(at) = null;
            }
            pg_sys::ExecStoreVirtualTuple(replaced);
            replaced.tts_tableOid = (*self.new).tts_tableOid;
            self.indexed.are_same(self.target, self.estate, [self.replaced, self.new], untouched)
        }
    }

    /// Replaces the row in `old`, which has been locked, by one with another value.
    pub(crate) fn update(&mut self, old: &mut Slot, value: Value<'_>) -> Result<(), UniqueViolation> {
        self.expect_triggers(value);
        self.open_indexes();
        let old = self.row_of(old);
        self.store(|this| {
            // SAFETY: the old slot holds the locked version, the new one the row in its place.
            unsafe {
                this.compose(Some(old), value.bytes);
                let recheck = &raw mut *this.recheck;
                pg_sys::ExecSimpleRelationUpdate(this.target, this.estate, recheck, old, this.new);
            }
        })
    }

    /// Deletes the row in `old`, which has been locked.
    pub(crate) fn delete(&mut self, old: &mut Slot) -> Result<(), UniqueViolation> {
        // SAFETY: see `expect_triggers`.
        if unsafe { (*self.target).ri_TrigDesc.as_ref() }
            .is_some_and(|triggers| triggers.trig_delete_before_row)
        {
            self.look_up_triggers();
        }
        let old = self.row_of(old);
        self.store(|this| {
            // SAFETY: the old slot holds the locked version.
            unsafe {
                pg_sys::ExecSimpleRelationDelete(this.target, this.estate, &raw mut *this.recheck, old);
            }
        })
    }

    /// The slot of a row of the table.
    fn row_of(&self, old: &mut Slot) -> *mut pg_sys::TupleTableSlot {
        old.expect_table(&self.table);
        if old.is_empty() {
            fail(SqlState::ERRCODE_INTERNAL_ERROR, "no row to change", "Report this as a bug of treedb.");
        }
        old.raw()
    }

    /// Locks the row at `tid` and puts its newest version into `slot`. Under the stricter isolation levels a row that
    /// another transaction has changed is an SQL error.
    pub(crate) fn lock(
        &self,
        mut tid: pg_sys::ItemPointerData,
        snapshot: Snapshot<'_>,
        slot: &mut Slot,
    ) -> Locked {
        slot.expect_table(&self.table);
        // SAFETY: slot and snapshot are of this table; the level is the transaction's.
        let (outcome, strict) = unsafe {
            let strict = pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32;
            let mut flags = pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS;
            if !strict {
                flags |= pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
            }
            let mut failure = pg_sys::TM_FailureData::default();
            let outcome = pg_sys::table_tuple_lock(
                self.table.get().raw(),
                &raw mut tid,
                snapshot.raw(),
                slot.raw(),
                (*self.estate).es_output_cid,
                pg_sys::LockTupleMode::LockTupleExclusive,
                pg_sys::LockWaitPolicy::LockWaitBlock,
                flags as u8,
                &raw mut failure,
            );
            (outcome, strict)
        };
        match outcome {
            pg_sys::TM_Result::TM_Ok => Locked::Yes,
            // Changed by this very command, through a trigger: its change stands.
            pg_sys::TM_Result::TM_SelfModified => Locked::Gone,
            pg_sys::TM_Result::TM_Deleted if !strict => Locked::Gone,
            pg_sys::TM_Result::TM_Updated | pg_sys::TM_Result::TM_Deleted => fail(
                SqlState::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update",
                "Run the transaction again.",
            ),
            other => fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                format!("a row could not be locked (outcome {other})"),
                "Run the transaction again; if it stays, check the table.",
            ),
        }
    }
}

/// A zeroed node of the server's in the current memory context.
///
/// # Safety
/// `T` is the structure that has this tag, and begins with it.
unsafe fn node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: as many bytes as the structure has.
    unsafe {
        let node = pg_sys::palloc0(size_of::<T>()).cast::<T>();
        *node.cast::<pg_sys::NodeTag>() = tag;
        node
    }
}
