//! Answers of many rows: collected by the server, in memory up to `work_mem` and in a temporary file beyond.

use pgrx::pg_sys;

/// The result of a function that `RETURNS SETOF` or `TABLE`.
pub(crate) struct Rows {
    store: *mut pg_sys::Tuplestorestate,
    columns: pg_sys::TupleDesc,
}

impl Rows {
    /// Begins the result of a call. An SQL error where a set is not allowed. `scalar` is for SETOF a plain type.
    pub(crate) fn begin(call: pg_sys::FunctionCallInfo, scalar: bool) -> Rows {
        // SAFETY: the server's call structure; it checks that the caller takes sets.
        unsafe {
            let flags = if scalar { pg_sys::MAT_SRF_USE_EXPECTED_DESC } else { 0 };
            pg_sys::InitMaterializedSRF(call, flags);
            let info = (*call).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            Rows { store: (*info).setResult, columns: (*info).setDesc }
        }
    }

    /// Adds a row; `None` is NULL. There is a value for each column.
    pub(crate) fn put<const N: usize>(&mut self, row: [Option<pg_sys::Datum>; N]) {
        let mut values = row.map(|value| value.unwrap_or(pg_sys::Datum::from(0usize)));
        let mut nulls = row.map(|value| value.is_none());
        // SAFETY: the store copies the values; the arrays are as long as the function's result has columns.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.columns, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }
}
