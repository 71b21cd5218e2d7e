//! Answers of many rows: collected by the server, in memory up to `work_mem` and in a temporary file beyond.

use pgrx::pg_sys;

use super::datum::Layout;
use super::error::{SqlState, fail};
use super::function::Args;
use super::memory::{Memory, Varlena};
use super::relation::layout;

/// The result of a function that returns a set, of values of variable length or of several columns.
pub(crate) struct Rows<'c> {
    store: *mut pg_sys::Tuplestorestate,
    columns: pg_sys::TupleDesc,
    memory: Memory<'c>,
}

/// The result of a function whose rows are in [`Rows`].
pub(crate) struct Set(());

/// The same, where rows have several columns.
pub(crate) struct RecordSet(());

/// A column of a row.
#[derive(Clone, Copy)]
pub(crate) enum Column<'v> {
    /// A value of variable length.
    Varlena(&'v [u8]),
    /// `float8`.
    Float8(f64),
}

impl Column<'_> {
    fn layout(self) -> Layout {
        match self {
            Column::Varlena(_) => Layout::Varlena,
            Column::Float8(_) => Layout::Word,
        }
    }
}

impl<'c> Rows<'c> {
    /// Begins the result of a call. An SQL error where a set is not allowed.
    pub(crate) fn begin(args: &'c Args) -> Rows<'c> {
        // SAFETY: the server's call structure, whose context of the call is that of a set, as the server checks.
        unsafe {
            let call = args.raw();
            pg_sys::InitMaterializedSRF(call, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
            let info = (*call).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            Rows { store: (*info).setResult, columns: (*info).setDesc, memory: args.memory() }
        }
    }

    /// Adds a row.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let value = self.memory.varlena(bytes);
        // SAFETY: the store copies the value. The functions that return sets are declared to return one column of
        // variable length, see `Output for Set`.
        unsafe {
            let (mut raw, mut null) = (value.raw(), false);
            pg_sys::tuplestore_putvalues(self.store, self.columns, &raw mut raw, &raw mut null);
        }
        value.free();
    }

    /// Adds a row of several columns.
    pub(crate) fn put_record(&mut self, row: &[Column<'_>]) {
        // SAFETY: the description of the result's columns.
        let fits = unsafe {
            usize::try_from((*self.columns).natts) == Ok(row.len())
                && row
                    .iter()
                    .enumerate()
                    .all(|(at, column)| layout(self.columns, at) == Some(column.layout()))
        };
        if !fits {
            fail(
                SqlState::ERRCODE_DATATYPE_MISMATCH,
                "a function returns other columns than it is declared with",
                "Drop functions that declare treedb's functions with other columns.",
            );
        }
        let mut copies: Vec<Varlena<'c>> = Vec::new();
        let mut values: Vec<pg_sys::Datum> = Vec::with_capacity(row.len());
        for column in row {
            values.push(match column {
                Column::Varlena(bytes) => {
                    let copy = self.memory.varlena(bytes);
                    let raw = copy.raw();
                    copies.push(copy);
                    raw
                }
                Column::Float8(number) => pg_sys::Datum::from(number.to_bits()),
            });
        }
        let mut nulls = vec![false; row.len()];
        // SAFETY: the store copies the values, one for each column and stored as it says.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
        copies.into_iter().for_each(Varlena::free);
    }

    /// Ends the result.
    pub(crate) fn finish(self) -> Set {
        Set(())
    }

    /// Ends a result of several columns.
    pub(crate) fn finish_records(self) -> RecordSet {
        RecordSet(())
    }
}
