//! Temporary files: they count against `temp_file_limit` and go away with the transaction.

use std::ffi::c_void;

use pgrx::{PgMemoryContexts, pg_sys};

use super::error::{SqlState, fail};
use super::release::may_release;

/// A temporary file: written from its beginning, rewound, read, closed. One that is not closed goes away with the
/// transaction.
pub(crate) struct TempFile {
    file: *mut pg_sys::BufFile,
}

impl TempFile {
    /// A new, empty file.
    pub(crate) fn create() -> TempFile {
        // SAFETY: the server chooses a tablespace and opens a file of this transaction, or raises an error.
        unsafe {
            pg_sys::PrepareTempTablespaces();
            TempFile { file: pg_sys::BufFileCreateTemp(false) }
        }
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // SAFETY: the server reads that many bytes, or raises an error.
        unsafe { pg_sys::BufFileWrite(self.file, bytes.as_ptr().cast::<c_void>().cast_mut(), bytes.len()) }
    }

    /// Goes back to the beginning.
    pub(crate) fn rewind(&mut self) {
        // SAFETY: our own file.
        if unsafe { pg_sys::BufFileSeek(self.file, 0, 0, 0) } != 0 {
            fail(
                SqlState::ERRCODE_IO_ERROR,
                "cannot rewind a temporary file",
                "Check the temporary directory's disk.",
            );
        }
    }

    /// Fills `out` with the next bytes; returns how many there were.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        // SAFETY: the server writes at most that many bytes.
        unsafe { pg_sys::BufFileRead(self.file, out.as_mut_ptr().cast::<c_void>(), out.len()) }
    }

    /// Closes and removes the file.
    pub(crate) fn close(self) {
        // SAFETY: our own file, closed once.
        unsafe { pg_sys::BufFileClose(self.file) }
    }
}

/// A temporary file whose memory is the transaction's, whatever context is current when it is created: it can be kept
/// from one call of a plan's node to the next. It is closed when it is dropped.
pub(crate) struct TransactionFile(Option<TempFile>);

impl TransactionFile {
    /// A new, empty file.
    pub(crate) fn create() -> TransactionFile {
        // SAFETY: inside a transaction, as every call of a function is; its context is current only during the call.
        let file =
            unsafe { PgMemoryContexts::For(pg_sys::TopTransactionContext).switch_to(|_| TempFile::create()) };
        TransactionFile(Some(file))
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|file| file.write(bytes));
    }

    /// Goes back to the beginning.
    pub(crate) fn rewind(&mut self) {
        self.0.iter_mut().for_each(TempFile::rewind);
    }

    /// Fills `out` with the next bytes; returns how many there were.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        self.0.as_mut().map_or(0, |file| file.read(out))
    }
}

impl Drop for TransactionFile {
    fn drop(&mut self) {
        if let Some(file) = self.0.take()
            && may_release()
        {
            file.close();
        }
    }
}
