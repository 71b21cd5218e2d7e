//! Answers of many rows: collected by the server, in memory up to `work_mem` and in a temporary file beyond.

use pgrx::pg_sys;

use super::function::Args;
use super::memory::Memory;

/// The result of a function that returns a set of values of variable length.
pub(crate) struct Rows<'c> {
    store: *mut pg_sys::Tuplestorestate,
    columns: pg_sys::TupleDesc,
    memory: Memory<'c>,
}

/// The result of a function whose rows are in [`Rows`].
pub(crate) struct Set(());

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

    /// Ends the result.
    pub(crate) fn finish(self) -> Set {
        Set(())
    }
}
