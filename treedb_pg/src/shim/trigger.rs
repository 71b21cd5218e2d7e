//! Trigger functions: the event they are called for, its rows, and the row they return.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use pgrx::pg_sys;

use super::catalog;
use super::datum::{Datum, Layout};
use super::declared::Class;
use super::function::{Args, Output};
use super::memory::Varlena;
use super::relation::Relation;

/// What fired a trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Insert,
    Update,
    /// DELETE or TRUNCATE.
    Other,
}

/// The call of a trigger function.
#[derive(Clone, Copy)]
pub(crate) struct Trigger<'c> {
    data: &'c pg_sys::TriggerData,
}

/// A row of the trigger's table.
#[derive(Clone, Copy)]
pub(crate) struct Row<'c> {
    tuple: pg_sys::HeapTuple,
    memory: PhantomData<&'c ()>,
}

/// A column of the trigger's table, of a variable-length type.
#[derive(Clone, Copy)]
pub(crate) struct Column<'c> {
    number: i32,
    table: PhantomData<&'c ()>,
}

impl<'c> Trigger<'c> {
    /// The trigger that a function was called as; `None` if it was called otherwise.
    pub(crate) fn of(args: &'c Args) -> Option<Trigger<'c>> {
        // SAFETY: a trigger is passed its data as the context of the call, which its tag tells.
        unsafe {
            let context = (*args.raw()).context;
            if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
                return None;
            }
            Some(Trigger { data: &*context.cast::<pg_sys::TriggerData>() })
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'c CStr {
        // SAFETY: the trigger's definition lives during the call; a name is closed by a zero byte.
        unsafe { CStr::from_ptr((*self.data.tg_trigger).tgname) }
    }

    /// Argument `n` of its definition.
    pub(crate) fn argument(self, n: usize) -> Option<&'c CStr> {
        // SAFETY: as above; there are `tgnargs` arguments, each closed by a zero byte.
        unsafe {
            let trigger = &*self.data.tg_trigger;
            let count = usize::try_from(trigger.tgnargs).unwrap_or(0);
            (n < count).then(|| CStr::from_ptr(*trigger.tgargs.add(n)))
        }
    }

    /// Schema and name of its table.
    pub(crate) fn table(self) -> (CString, CString) {
        // SAFETY: open during the call.
        let table = unsafe { Relation::from_raw(self.data.tg_relation) };
        (catalog::schema_name(table.schema()), table.name())
    }

    /// Whether it is fired before the event, for each row.
    pub(crate) fn is_before_row(self) -> bool {
        let event = self.data.tg_event;
        event & pg_sys::TRIGGER_EVENT_TIMINGMASK == pg_sys::TRIGGER_EVENT_BEFORE
            && event & pg_sys::TRIGGER_EVENT_ROW != 0
    }

    /// What fired it.
    pub(crate) fn event(self) -> Event {
        match self.data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_INSERT => Event::Insert,
            pg_sys::TRIGGER_EVENT_UPDATE => Event::Update,
            _ => Event::Other,
        }
    }

    fn row(tuple: pg_sys::HeapTuple) -> Option<Row<'c>> {
        (!tuple.is_null()).then_some(Row { tuple, memory: PhantomData })
    }

    /// The row to be stored by an INSERT or UPDATE.
    pub(crate) fn new_row(self) -> Option<Row<'c>> {
        match self.event() {
            Event::Insert => Self::row(self.data.tg_trigtuple),
            Event::Update => Self::row(self.data.tg_newtuple),
            Event::Other => None,
        }
    }

    /// The row that an UPDATE replaces.
    pub(crate) fn old_row(self) -> Option<Row<'c>> {
        match self.event() {
            Event::Update => Self::row(self.data.tg_trigtuple),
            _ => None,
        }
    }

    fn columns(self) -> pg_sys::TupleDesc {
        // SAFETY: the trigger's own relation, open during the call.
        unsafe { (*self.data.tg_relation).rd_att }
    }

    /// The column of a name; `None` if there is none, or if its type is not one of variable length.
    pub(crate) fn column(self, name: &CStr) -> Option<Column<'c>> {
        // SAFETY: the number found is that of an attribute of the description.
        unsafe {
            let number = pg_sys::SPI_fnumber(self.columns(), name.as_ptr());
            let at = usize::try_from(number).ok()?.checked_sub(1)?;
            let attribute = super::compat::attribute(self.columns(), at);
            (Layout::of_attribute(attribute) == Layout::Varlena)
                .then_some(Column { number, table: PhantomData })
        }
    }

    /// The value of a column in a row of the table; `None` for NULL.
    pub(crate) fn value(self, row: Row<'c>, column: Column<'c>) -> Option<Datum<'c>> {
        let mut null = false;
        // SAFETY: row and column are of the trigger's table: both have been found through `self`.
        unsafe {
            let datum = pg_sys::SPI_getbinval(row.tuple, self.columns(), column.number, &raw mut null);
            (!null).then(|| Datum::from_raw(datum, Layout::Varlena))
        }
    }

    /// The row with another value in a column.
    pub(crate) fn with_value(self, row: Row<'c>, column: Column<'c>, value: Varlena<'c>) -> Row<'c> {
        let (mut number, mut value, mut null) = (column.number, value.raw(), false);
        // SAFETY: as `value`; the new row is in the caller's memory, as a trigger's is to be.
        let tuple = unsafe {
            pg_sys::heap_modify_tuple_by_cols(
                row.tuple,
                self.columns(),
                1,
                &raw mut number,
                &raw mut value,
                &raw mut null,
            )
        };
        Row { tuple, memory: PhantomData }
    }
}

impl Output for Row<'_> {
    const CLASS: Class = Class::Trigger;

    fn into_datum(self, _: &Args) -> Option<pg_sys::Datum> {
        Some(pg_sys::Datum::from(self.tuple))
    }
}
