//! Updates that change no indexed value: the new version of a row joins the HOT chain of the old one, and no index gets an
//! entry.
//!
//! Heap makes an update HOT if it changes no column that an index mentions. A document is one column, which all indexes of a
//! collection mention in their expressions, so no update of a document would be HOT. Here the expressions are evaluated for
//! both versions, unless the caller knows of an index that it has the same for both. If every index has, heap is told for the
//! one call that no column is indexed.
//!
//! What makes that correct: an index leads to the root of a HOT chain, so it must have the same for all versions of the
//! chain, as bytes; that is what is compared, for every index that a change of the table may have to maintain, ready for
//! inserts or not, its predicate included. An index that is made later waits for the transactions that have locked the
//! table for writing before, and its build looks at chains as at any others that differ in a column.

use pgrx::pg_sys;

use super::compat;
use super::datum::{Datum, Layout};
use super::relation::{OpenTable, layout};

/// A row longer than that is compressed or moved out of line: how much of its page it takes is not known before.
const LONGEST_PLAIN: usize = pg_sys::BLCKSZ as usize / 4;
/// The longest header of a row version with a bitmap of a few NULLs, and its line pointer.
const ROW_HEADER: usize = 32;

/// Whether the table access method updates rows as heap does.
pub(super) fn is_heap(table: &OpenTable) -> bool {
    // SAFETY: an open table, which has a routine; the server's own is static.
    unsafe {
        let (own, heap) = ((*table.get().raw()).rd_tableam, pg_sys::GetHeapamTableAmRoutine());
        match ((*own).tuple_update, (*heap).tuple_update) {
            (Some(own), Some(heap)) => std::ptr::fn_addr_eq(own, heap),
            _ => false,
        }
    }
}

/// What the indexes of a table have for its rows.
#[derive(Default)]
pub(super) struct IndexedValues {
    /// How the columns of each index are passed, once that was needed.
    layouts: Option<Vec<Vec<Layout>>>,
}

impl IndexedValues {
    /// Whether all indexes but those that are `untouched` have the same for two versions of a row.
    ///
    /// # Safety
    /// `target` is a table with its indexes open, of the executor's state `estate`; both slots hold rows of it. The current
    /// memory context is that of a row, whose context for expressions the state has.
    pub(super) unsafe fn are_same(
        &mut self,
        target: *mut pg_sys::ResultRelInfo,
        estate: *mut pg_sys::EState,
        versions: [*mut pg_sys::TupleTableSlot; 2],
        untouched: &[pg_sys::Oid],
    ) -> bool {
        // SAFETY: the arrays have an element for each index. Expressions are evaluated in the memory of a row, with the
        // slot as the row that they are about.
        unsafe {
            let count = usize::try_from((*target).ri_NumIndices).unwrap_or(0);
            let infos = std::slice::from_raw_parts((*target).ri_IndexRelationInfo, count);
            let indexes = std::slice::from_raw_parts((*target).ri_IndexRelationDescs, count);
            let relation = (*target).ri_RelationDesc;
            let layouts = self
                .layouts
                .get_or_insert_with(|| infos.iter().map(|info| layouts(relation, *info)).collect());
            let context = (*estate).es_per_tuple_exprcontext;
            let outer = (*context).ecxt_scantuple;
            let same = infos.iter().zip(indexes).zip(layouts).all(|((info, index), layouts)| {
                if untouched.contains(&(**index).rd_id) {
                    return true;
                }
                // An index that is being built, or whose building failed: the server does not evaluate its expressions
                // either, which may be why it failed.
                if !(**info).ii_ReadyForInserts {
                    return false;
                }
                let mut known = [Known::default(), Known::default()];
                for (known, slot) in known.iter_mut().zip(versions) {
                    (*context).ecxt_scantuple = slot;
                    known.included = is_included(*info, context, estate);
                    if known.included {
                        let (values, nulls) = (&raw mut known.values, &raw mut known.nulls);
                        pg_sys::FormIndexDatum(*info, slot, estate, values.cast(), nulls.cast());
                    }
                }
                let [old, new] = &known;
                old.included == new.included && (!old.included || old.equals(new, layouts))
            });
            (*context).ecxt_scantuple = outer;
            same
        }
    }
}

/// What an index has for a row.
struct Known {
    /// The index does not leave the row out.
    included: bool,
    values: [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    nulls: [bool; pg_sys::INDEX_MAX_KEYS as usize],
}

impl Default for Known {
    fn default() -> Known {
        Known { included: false, values: [pg_sys::Datum::from(0usize); _], nulls: [true; _] }
    }
}

impl Known {
    /// Whether two rows have the same, as bytes.
    ///
    /// # Safety
    /// Both are of one index, whose columns are passed as `layouts` say; what they point to is still there.
    unsafe fn equals(&self, other: &Known, layouts: &[Layout]) -> bool {
        let columns = self.values.iter().zip(&self.nulls).zip(other.values.iter().zip(&other.nulls));
        columns.zip(layouts).all(|(((a, a_null), (b, b_null)), layout)| {
            if *a_null || *b_null {
                return a_null == b_null;
            }
            // SAFETY: the caller's.
            let (x, y) = unsafe { (Datum::from_raw(*a, *layout), Datum::from_raw(*b, *layout)) };
            match layout {
                Layout::Word => a.value() == b.value(),
                Layout::Varlena => *x.bytes() == *y.bytes(),
                Layout::Fixed(_) => x.fixed_bytes() == y.fixed_bytes(),
                Layout::CString => x.cstring() == y.cstring(),
            }
        })
    }
}

/// Whether an index has an entry for the row in the context.
///
/// # Safety
/// As for [`IndexedValues::are_same`].
unsafe fn is_included(
    info: *mut pg_sys::IndexInfo,
    context: *mut pg_sys::ExprContext,
    estate: *mut pg_sys::EState,
) -> bool {
    // SAFETY: the caller's. The server prepares the predicate once for a command, too, in the same place.
    unsafe {
        if (*info).ii_Predicate.is_null() {
            return true;
        }
        if (*info).ii_PredicateState.is_null() {
            (*info).ii_PredicateState = pg_sys::ExecPrepareQual((*info).ii_Predicate, estate);
        }
        pg_sys::ExecQual((*info).ii_PredicateState, context)
    }
}

/// How what an index of `table` is over is passed, which need not be the type that the index stores.
///
/// # Safety
/// An open table and one of its indexes.
unsafe fn layouts(table: pg_sys::Relation, info: *const pg_sys::IndexInfo) -> Vec<Layout> {
    // SAFETY: there is an expression for each column of the index without a number.
    unsafe {
        let count = usize::try_from((*info).ii_NumIndexAttrs).unwrap_or(0);
        let mut expressions = 0;
        let numbers = (&raw const (*info).ii_IndexAttrNumbers).cast::<pg_sys::AttrNumber>();
        let column = |at: usize| {
            let number = *numbers.add(at);
            if let Some(at) = usize::try_from(number).ok().and_then(|number| number.checked_sub(1)) {
                return layout((*table).rd_att, at).unwrap_or(Layout::Word);
            }
            let expression = (*(*(*info).ii_Expressions).elements.add(expressions)).ptr_value;
            expressions += 1;
            Layout::of_type(pg_sys::exprType(expression.cast()))
        };
        (0..count).map(column).collect()
    }
}

/// Whether the page of a row has room for another version of it, as far as can be seen without a lock.
///
/// # Safety
/// `old` holds a row of a table of heap's, `new` one with the same columns.
pub(super) unsafe fn may_fit(old: *mut pg_sys::TupleTableSlot, new: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the caller's; the page of a row in a slot of that kind is pinned. The server looks at the free space of a page
    // without a lock, too, before it prunes it.
    unsafe {
        let len =
            pg_sys::heap_compute_data_size((*new).tts_tupleDescriptor, (*new).tts_values, (*new).tts_isnull)
                + ROW_HEADER;
        if !std::ptr::eq((*old).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple) || len > LONGEST_PLAIN {
            return true;
        }
        let buffer = (*old.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
        buffer == pg_sys::InvalidBuffer as pg_sys::Buffer
            || pg_sys::PageGetHeapFreeSpace(pg_sys::BufferGetPage(buffer)) >= len
    }
}

/// `tableoid` in a set of columns.
const TABLE_OID: i32 = pg_sys::TableOidAttributeNumber - pg_sys::FirstLowInvalidHeapAttributeNumber;

/// While it lives, heap takes no column of the table for one that an index mentions.
pub(super) struct NoIndexedColumns {
    table: OpenTable,
    /// What the table's entry in the cache says, which is not the server's meanwhile.
    columns: *mut pg_sys::Bitmapset,
    /// What it says instead: `tableoid`, the same in all versions of a row. An empty set would be computed anew.
    instead: *mut pg_sys::Bitmapset,
}

impl NoIndexedColumns {
    /// For the next call that updates a row.
    pub(super) fn of(table: &OpenTable) -> NoIndexedColumns {
        let relation = table.get().raw();
        // SAFETY: an open table; both sets are in the memory of the cache, which is where the server looks for the one that
        // it frees if it reads the entry anew.
        unsafe {
            // The server computes the sets when they are asked for.
            pg_sys::bms_free(pg_sys::RelationGetIndexAttrBitmap(relation, compat::HOT_BLOCKING));
            let outer = pg_sys::MemoryContextSwitchTo(pg_sys::CacheMemoryContext);
            let instead = pg_sys::bms_make_singleton(TABLE_OID);
            pg_sys::MemoryContextSwitchTo(outer);
            let columns = std::mem::replace(compat::hot_blocking(&mut *relation), instead);
            NoIndexedColumns { table: table.clone(), columns, instead }
        }
    }
}

impl Drop for NoIndexedColumns {
    fn drop(&mut self) {
        // SAFETY: the table is still open. If the server has read its entry anew it has freed what was there, and what we
        // kept is nobody's.
        unsafe {
            let place = compat::hot_blocking(&mut *self.table.get().raw());
            // A set that the server has computed since may be where ours was.
            let ours = std::ptr::eq(*place, self.instead)
                && pg_sys::bms_membership(*place) == pg_sys::BMS_Membership::BMS_SINGLETON
                && pg_sys::bms_is_member(TABLE_OID, *place);
            if ours {
                *place = self.columns;
                pg_sys::bms_free(self.instead);
            } else {
                pg_sys::bms_free(self.columns);
            }
        }
    }
}
