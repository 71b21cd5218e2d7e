//! A table of documents being written: [`Sink`] through the server's executor.
//!
//! Rows go the way of any INSERT, UPDATE and DELETE: triggers, generated columns, constraints, the table access
//! method, every index. Before a row is changed it is locked; under READ COMMITTED the newest version is what is
//! shown and changed, under the stricter levels a row that somebody else has changed is a serialization failure.
//!
//! All changes of a writer belong to one command: it does not see them itself.

use std::panic::AssertUnwindSafe;

use ::bson::RawDocument;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgTryBuilder, pg_sys};
use treedb_query::access::{Change, QueryContext, ReadWritten, RowId, Sink};
use treedb_query::query::Result;

use super::reader::{Reader, Slot, address, row_id};
use super::table::{Need, Table};
use crate::shim::error::{SqlState, fail, refuse};
use crate::types::bson;

/// A collection being written.
pub(super) struct Writer {
    reader: Reader,
    need: Need,
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    recheck: Box<pg_sys::EPQState>,
    /// The defaults of other columns, as soon as there was an insert.
    defaults: Option<Vec<(usize, *mut pg_sys::ExprState)>>,
    /// The row to be stored.
    new: *mut pg_sys::TupleTableSlot,
    old: Slot,
}

impl Writer {
    /// Begins a command that changes `table` as `need` says: `name` is its name for the message of a read-only
    /// transaction.
    pub(super) fn begin(table: Table, need: Need, name: &std::ffi::CStr) -> Writer {
        // SAFETY: the server's own way of changing rows without a plan, as its logical replication does it. The
        // active snapshot stays until `finish`, or the abort.
        unsafe {
            pg_sys::PreventCommandIfReadOnly(name.as_ptr());
            pg_sys::PreventCommandIfParallelMode(name.as_ptr());
            // What the statement this is a part of has done so far is to be seen.
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let relation = table.relation;
            let estate = pg_sys::CreateExecutorState();
            let entry = palloc_node::<pg_sys::RangeTblEntry>(pg_sys::NodeTag::T_RangeTblEntry);
            (*entry).rtekind = pg_sys::RTEKind::RTE_RELATION;
            (*entry).relid = table.oid();
            (*entry).relkind = (*(*relation).rd_rel).relkind;
            (*entry).rellockmode = pg_sys::RowExclusiveLock as i32;
            // The columns that triggers and generated columns may ask for.
            let column = i32::from(table.doc) - pg_sys::FirstLowInvalidHeapAttributeNumber;
            (*entry).insertedCols = pg_sys::bms_make_singleton(column);
            (*entry).updatedCols = pg_sys::bms_make_singleton(column);
            pg_sys::ExecInitRangeTable(estate, pg_sys::lappend(std::ptr::null_mut(), entry.cast()));
            let target = palloc_node::<pg_sys::ResultRelInfo>(pg_sys::NodeTag::T_ResultRelInfo);
            pg_sys::InitResultRelInfo(target, relation, 1, std::ptr::null_mut(), 0);
            // Where triggers that run at the end look for it.
            (*estate).es_opened_result_relations =
                pg_sys::lappend((*estate).es_opened_result_relations, target.cast());
            pg_sys::ExecOpenIndices(target, false);
            (*estate).es_output_cid = pg_sys::GetCurrentCommandId(true);
            (*estate).es_snapshot = pg_sys::GetActiveSnapshot();
            (*estate).es_per_tuple_exprcontext = pg_sys::MakePerTupleExprContext(estate);
            let mut recheck = Box::<pg_sys::EPQState>::default();
            pg_sys::EvalPlanQualInit(
                &raw mut *recheck,
                estate,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                -1,
            );
            pg_sys::AfterTriggerBeginQuery();
            let new = pg_sys::MakeSingleTupleTableSlot((*relation).rd_att, &raw const pg_sys::TTSOpsVirtual);
            let old = Slot::new(&table);
            let writer = Writer {
                reader: Reader::new(table),
                need,
                estate,
                target,
                recheck,
                defaults: None,
                new,
                old,
            };
            writer.statement_triggers(false);
            writer
        }
    }

    /// Fires the triggers for each statement: those before it, or those after it.
    fn statement_triggers(&self, after: bool) {
        let (estate, target, none) = (self.estate, self.target, std::ptr::null_mut());
        let inserts = matches!(self.need, Need::Insert | Need::Update(true));
        let updates = matches!(self.need, Need::Update(_));
        let deletes = self.need == Need::Delete;
        // SAFETY: the relation and the executor's state are open. As for ON CONFLICT DO UPDATE, those for INSERT come
        // first before the statement and last after it.
        unsafe {
            let Some(triggers) = (*target).ri_TrigDesc.as_ref() else { return };
            if (inserts && triggers.trig_insert_new_table)
                || (updates && (triggers.trig_update_old_table || triggers.trig_update_new_table))
                || (deletes && triggers.trig_delete_old_table)
            {
                fail(
                    SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                    format!(
                        "collection \"{}\" has a trigger with a transition table",
                        self.reader.table.namespace()
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
    pub(super) fn finish(mut self) {
        self.statement_triggers(true);
        // SAFETY: begun by us, and ended once.
        unsafe {
            pg_sys::AfterTriggerEndQuery(self.estate);
            pg_sys::EvalPlanQualEnd(&raw mut *self.recheck);
            pg_sys::ExecCloseIndices(self.target);
            pg_sys::ExecDropSingleTupleTableSlot(self.new);
            pg_sys::ExecResetTupleTable((*self.estate).es_tupleTable, false);
            pg_sys::FreeExecutorState(self.estate);
            drop(self);
            pg_sys::PopActiveSnapshot();
        }
    }

    /// The expressions of columns other than `doc` that have a default; generated ones are the executor's.
    fn defaults(&mut self) -> &[(usize, *mut pg_sys::ExprState)] {
        let (relation, doc) =
            (self.reader.table.relation, usize::try_from(self.reader.table.doc).unwrap_or(1) - 1);
        self.defaults.get_or_insert_with(|| {
            // SAFETY: an open relation; expressions are made in the memory of the statement, not of a row.
            unsafe {
                let columns = (*relation).rd_att;
                let outer = pg_sys::MemoryContextSwitchTo((*self.estate).es_query_cxt);
                let mut found = Vec::new();
                for at in 0..usize::try_from((*columns).natts).unwrap_or(0) {
                    let column = &*(*columns).attrs.as_ptr().add(at);
                    if at == doc || column.attisdropped || column.attgenerated != 0 {
                        continue;
                    }
                    let expression = pg_sys::build_column_default(relation, at as i32 + 1);
                    if !expression.is_null() {
                        let expression = pg_sys::expression_planner(expression.cast());
                        found.push((at, pg_sys::ExecInitExpr(expression, std::ptr::null_mut())));
                    }
                }
                pg_sys::MemoryContextSwitchTo(outer);
                found
            }
        })
    }

    /// Puts a row into the slot of new rows: with `keep` the old one with another document,
    /// else one of a document and the other columns' defaults.
    fn compose(&mut self, keep: bool, document: &RawDocument) {
        let doc = usize::try_from(self.reader.table.doc).unwrap_or(1) - 1;
        // SAFETY: both slots have the table's columns; what is by reference lies in the old slot, which keeps its
        // row until the next, and in the memory of this row.
        unsafe {
            let slot = &mut *self.new;
            pg_sys::ExecClearTuple(slot);
            let count = usize::try_from((*slot.tts_tupleDescriptor).natts).unwrap_or(0);
            let old = self.old.raw();
            if keep {
                pg_sys::slot_getallattrs(old);
            }
            for at in 0..count {
                let (value, null) = if keep {
                    (*(*old).tts_values.add(at), *(*old).tts_isnull.add(at))
                } else {
                    (pg_sys::Datum::from(0usize), true)
                };
                *slot.tts_values.add(at) = value;
                *slot.tts_isnull.add(at) = null;
            }
            if !keep {
                let context = (*self.estate).es_per_tuple_exprcontext;
                for (at, expression) in self.defaults() {
                    *slot.tts_values.add(*at) =
                        pg_sys::ExecEvalExpr(*expression, context, slot.tts_isnull.add(*at));
                }
            }
            if doc < count {
                *slot.tts_values.add(doc) = bson::datum(document);
                *slot.tts_isnull.add(doc) = false;
            }
            pg_sys::ExecStoreVirtualTuple(slot);
        }
    }

    /// Runs `work` in the memory of one row, and turns its unique violations into the engine's error about `document`.
    fn store(&mut self, document: Option<&RawDocument>, work: impl FnOnce(&mut Writer)) {
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
            .execute()
        };
        // SAFETY: the context that was current.
        unsafe { pg_sys::MemoryContextSwitchTo(outer) };
        if let Some(caught) = caught {
            self.duplicate(document, caught);
        }
        // SAFETY: nothing of the row is used any more.
        unsafe {
            pg_sys::ExecClearTuple(self.new);
            pg_sys::MemoryContextReset(memory);
        }
    }

    /// Raises the error of a unique index in MongoDB's words, if it is one of the collection's.
    fn duplicate(&self, document: Option<&RawDocument>, caught: CaughtError) -> ! {
        if let CaughtError::PostgresError(report) = &caught
            && let Some(document) = document
        {
            // The message has the index's name in quotes, whatever its language.
            let named = |name: String| report.message().contains(&format!("\"{name}\""));
            let index = self
                .reader
                .indexes
                .iter()
                .find(|index| named(crate::shim::text::lossy(index.relation_name())));
            if let Some(index) = index
                && let Ok(keys) = index.info.def.keys(document)
                && let Some(key) = keys.keys.first()
            {
                refuse(index.info.def.duplicate(&self.reader.table.namespace(), key, document));
            }
        }
        caught.rethrow()
    }

    /// Locks the row at `tid` and puts its newest version into the slot of old rows. False if it is gone.
    fn lock(&self, mut tid: pg_sys::ItemPointerData) -> bool {
        // SAFETY: slot and snapshot are of this table.
        let (outcome, strict) = unsafe {
            let strict = pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32;
            let mut flags = pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS;
            if !strict {
                flags |= pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION;
            }
            let mut failure = pg_sys::TM_FailureData::default();
            let outcome = pg_sys::table_tuple_lock(
                self.reader.table.relation,
                &raw mut tid,
                self.reader.snapshot,
                self.old.raw(),
                (*self.estate).es_output_cid,
                pg_sys::LockTupleMode::LockTupleExclusive,
                pg_sys::LockWaitPolicy::LockWaitBlock,
                flags as u8,
                &raw mut failure,
            );
            (outcome, strict)
        };
        match outcome {
            pg_sys::TM_Result::TM_Ok => true,
            // Changed by this very command, through a trigger: its change stands.
            pg_sys::TM_Result::TM_SelfModified => false,
            pg_sys::TM_Result::TM_Deleted if !strict => false,
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
unsafe fn palloc_node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: as many bytes as the structure has, which begins with its tag.
    unsafe {
        let node = pg_sys::palloc0(size_of::<T>()).cast::<T>();
        *node.cast::<pg_sys::NodeTag>() = tag;
        node
    }
}

impl Sink for Writer {
    fn read(&self, read: &mut ReadWritten<'_>) -> Result<()> {
        read(&self.reader, &QueryContext::default())
    }

    fn insert(&mut self, doc: &RawDocument) -> Result<RowId> {
        self.store(Some(doc), |this| {
            this.compose(false, doc);
            // SAFETY: the slot holds a row of the table.
            unsafe { pg_sys::ExecSimpleRelationInsert(this.target, this.estate, this.new) };
        });
        // SAFETY: the address stays in the slot when its row is cleared; it is invalid if a trigger kept the row out.
        Ok(row_id(unsafe { (*self.new).tts_tid }))
    }

    fn modify(&mut self, id: RowId, change: &mut dyn FnMut(&RawDocument) -> Result<Change>) -> Result<bool> {
        pgrx::check_for_interrupts!();
        // The row version the snapshot shows, to begin the lock with: the id may be the root of its HOT chain.
        if !self.reader.read(address(id), &self.old) || !self.lock(self.old.tid()) {
            return Ok(false);
        }
        let Some(bytes) = self.old.document(&self.reader.table) else { return Ok(false) };
        match change(bson::document(&bytes))? {
            Change::Keep => {}
            Change::Replace(document) | Change::Update(document) => self.store(Some(&document), |this| {
                this.compose(true, &document);
                // SAFETY: the old slot holds the locked version, the new one the row in its place.
                unsafe {
                    pg_sys::ExecSimpleRelationUpdate(
                        this.target,
                        this.estate,
                        &raw mut *this.recheck,
                        this.old.raw(),
                        this.new,
                    );
                }
            }),
            Change::Delete => self.store(None, |this| {
                // SAFETY: as above.
                unsafe {
                    pg_sys::ExecSimpleRelationDelete(
                        this.target,
                        this.estate,
                        &raw mut *this.recheck,
                        this.old.raw(),
                    );
                }
            }),
        }
        Ok(true)
    }
}
