//! Temporary files: they count against `temp_file_limit` and go away with the transaction.

use std::ffi::c_void;
use std::marker::PhantomData;

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
        self.seek(0);
    }

    /// Goes to a place, counted in bytes from the beginning.
    fn seek(&mut self, place: u64) {
        const FROM_BEGINNING: i32 = 0;
        // SAFETY: our own file.
        if unsafe { pg_sys::BufFileSeek(self.file, 0, place as pg_sys::off_t, FROM_BEGINNING) } != 0 {
            fail(
                SqlState::ERRCODE_IO_ERROR,
                "cannot go to a place in a temporary file",
                "Check the temporary directory's disk.",
            );
        }
    }

    /// Fills `out` with the next bytes; returns how many there were.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        // SAFETY: the server writes at most that many bytes.
        unsafe { pg_sys::BufFileRead(self.file, out.as_mut_ptr().cast::<c_void>(), out.len()) }
    }

    /// Ends writing to a file of [`SharedFiles`] and closes it, so that another process can open it.
    pub(crate) fn hand_over(self) {
        // SAFETY: our own file, which is shared; closed once.
        unsafe {
            pg_sys::BufFileExportFileSet(self.file);
            pg_sys::BufFileClose(self.file);
        }
    }

    /// Closes the file, and removes it unless it is one of [`SharedFiles`].
    pub(crate) fn close(self) {
        // SAFETY: our own file, closed once.
        unsafe { pg_sys::BufFileClose(self.file) }
    }
}

/// Temporary files of one worker that other processes of its group can open. They are removed when the last process has
/// ended its part.
#[derive(Clone, Copy)]
pub(crate) struct SharedFiles<'c> {
    set: *mut pg_sys::SharedFileSet,
    worker: u32,
    lifetime: PhantomData<&'c ()>,
}

impl SharedFiles<'_> {
    /// # Safety
    /// This process is attached to the set, for as long as the result lives.
    pub(super) unsafe fn from_raw(set: *mut pg_sys::SharedFileSet, worker: u32) -> Self {
        SharedFiles { set, worker, lifetime: PhantomData }
    }

    fn name(self, number: u32) -> std::ffi::CString {
        std::ffi::CString::new(format!("worker{}.run{number}", self.worker)).unwrap_or_default()
    }

    /// A new, empty file with this number.
    pub(crate) fn create(self, number: u32) -> TempFile {
        let name = self.name(number);
        // SAFETY: attached to the set; the server raises an error if it cannot make the file.
        let file = unsafe { pg_sys::BufFileCreateFileSet(&raw mut (*self.set).fs, name.as_ptr()) };
        TempFile { file }
    }

    /// A file that was handed over, to be read from its beginning.
    pub(crate) fn open(self, number: u32) -> TempFile {
        const READ_ONLY: i32 = 0;
        let name = self.name(number);
        // SAFETY: attached to the set; the server raises an error if there is no such file.
        let file =
            unsafe { pg_sys::BufFileOpenFileSet(&raw mut (*self.set).fs, name.as_ptr(), READ_ONLY, false) };
        TempFile { file }
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

    /// Fills `out` with the bytes at a place, counted from the beginning; returns how many there were.
    pub(crate) fn read_at(&mut self, place: u64, out: &mut [u8]) -> usize {
        self.0.iter_mut().for_each(|file| file.seek(place));
        self.read(out)
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
