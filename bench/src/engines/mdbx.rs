//! libmdbx, through its C interface: its Rust wrappers lock or copy on every call.
//!
//! Version 14, because 13.11 without flushes never reuses free pages while a flushed meta page exists, which a new file
//! has: the file grows with every commit, and small commits take tens of microseconds.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::null_mut;

use mdbx_sys::*;

use super::{DurabilityClass, EntryFormat, EntryGenerator, KeyValueStore, Scan};
use crate::Result;
use bench_common::Checksum;

/// An error unless the code means success.
fn done(code: i32) -> Result<()> {
    if code == MDBX_SUCCESS {
        return Ok(());
    }
    // SAFETY: returns a constant string for every code, or null.
    let name = unsafe { mdbx_liberr2str(code) };
    // SAFETY: not null, a constant, zero-terminated string of the library.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy());
    Err(format!("libmdbx: {} ({code})", name.unwrap_or_default()).into())
}

/// False for "not found".
fn found(code: i32) -> Result<bool> {
    if code == MDBX_NOTFOUND { Ok(false) } else { done(code).map(|()| true) }
}

fn val(bytes: &[u8]) -> MDBX_val {
    MDBX_val { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

const NOTHING: MDBX_val = MDBX_val { iov_base: null_mut(), iov_len: 0 };

struct Env(*mut MDBX_env);

// SAFETY: an environment may be used by all threads; transactions do not change threads here.
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

impl Drop for Env {
    fn drop(&mut self) {
        // SAFETY: opened by `Env::open`; all transactions have ended, because they borrow it.
        unsafe { mdbx_env_close_ex(self.0, false) };
    }
}

impl Env {
    fn open(dir: &Path, flags: MDBX_env_flags_t) -> Result<Env> {
        // SAFETY: sets the log level, and no logger.
        unsafe { mdbx_setup_debug(MDBX_LOG_ERROR, MDBX_DBG_DONTCHANGE, None) };
        let mut env = null_mut();
        // SAFETY: `env` is a valid place for the result.
        done(unsafe { mdbx_env_create(&mut env) })?;
        let env = Env(env);
        let path = CString::new(dir.as_os_str().as_encoded_bytes())?;
        // SAFETY: created and not yet opened; the path is zero-terminated and outlives the call.
        unsafe {
            done(mdbx_env_set_option(env.0, MDBX_opt_max_db, 4))?;
            done(mdbx_env_set_geometry(env.0, 0, -1, 16 << 30, 64 << 20, 0, 4096))?;
            done(mdbx_env_open(env.0, path.as_ptr(), flags | MDBX_NOMEMINIT, 0o600))?;
        }
        Ok(env)
    }

    fn begin(&self, flags: MDBX_txn_flags_t) -> Result<Txn<'_>> {
        let mut txn = null_mut();
        // SAFETY: an open environment, and a valid place for the result.
        done(unsafe { mdbx_txn_begin_ex(self.0, null_mut(), flags, &mut txn, null_mut()) })?;
        Ok(Txn(txn, PhantomData))
    }
}

struct Txn<'e>(*mut MDBX_txn, PhantomData<&'e Env>);

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        // SAFETY: a transaction that has not ended.
        unsafe { mdbx_txn_abort_ex(self.0, null_mut()) };
    }
}

impl Txn<'_> {
    fn commit(self) -> Result<()> {
        let txn = self.0;
        std::mem::forget(self);
        // SAFETY: a transaction that has not ended; forgotten above, so that it does not end twice.
        done(unsafe { mdbx_txn_commit_ex(txn, null_mut()) })
    }

    /// Releases the snapshot and takes the newest one, which libmdbx recommends over beginning a new transaction.
    #[inline]
    fn renew(&mut self) -> Result<()> {
        // SAFETY: a read transaction that has not ended.
        unsafe {
            done(mdbx_txn_reset(self.0))?;
            done(mdbx_txn_renew(self.0))
        }
    }

    fn table(&self, flags: MDBX_db_flags_t) -> Result<MDBX_dbi> {
        let mut dbi = 0;
        // SAFETY: a transaction that has not ended, a zero-terminated name, and a valid place for the result.
        done(unsafe { mdbx_dbi_open(self.0, c"t".as_ptr(), flags, &mut dbi) })?;
        Ok(dbi)
    }

    #[inline]
    fn get(&self, table: MDBX_dbi, key: &[u8]) -> Result<&[u8]> {
        let mut value = NOTHING;
        // SAFETY: a transaction that has not ended, and a key that outlives the call.
        done(unsafe { mdbx_get(self.0, table, &val(key), &mut value) })?;
        // SAFETY: found; the value is in the map and valid until the transaction ends or is renewed.
        Ok(unsafe { bytes(&value) })
    }

    #[inline]
    fn put(&mut self, table: MDBX_dbi, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: a write transaction that has not ended; key and value outlive the call and are only read.
        done(unsafe { mdbx_put(self.0, table, &val(key), &mut val(value), MDBX_UPSERT) })
    }

    fn cursor(&self, table: MDBX_dbi) -> Result<Cursor<'_>> {
        let mut cursor = null_mut();
        // SAFETY: a transaction that has not ended, and a valid place for the result.
        done(unsafe { mdbx_cursor_open(self.0, table, &mut cursor) })?;
        Ok(Cursor(cursor, PhantomData))
    }
}

/// The bytes that a value points to.
///
/// # Safety
/// It was set by a call that succeeded, and its transaction outlives `'a`.
#[inline]
unsafe fn bytes<'a>(value: &MDBX_val) -> &'a [u8] {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(value.iov_base.cast::<u8>(), value.iov_len) }
}

struct Cursor<'t>(*mut MDBX_cursor, PhantomData<&'t ()>);

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by `Txn::cursor`, and closed once.
        unsafe { mdbx_cursor_close(self.0) };
    }
}

impl Cursor<'_> {
    /// Moves the cursor, to `key` if the operation takes a key; `None` if there is no entry.
    #[inline]
    fn go(&mut self, key: &[u8], how: MDBX_cursor_op) -> Result<Option<(&[u8], &[u8])>> {
        let (mut key, mut value) = (val(key), NOTHING);
        // SAFETY: an open cursor; the key outlives the call and is only read.
        if !found(unsafe { mdbx_cursor_get(self.0, &mut key, &mut value, how) })? {
            return Ok(None);
        }
        // SAFETY: found; both are in the map and valid until the transaction ends, which outlives the cursor.
        Ok(Some(unsafe { (bytes(&key), bytes(&value)) }))
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: an open cursor of a write transaction; key and value outlive the call and are only read.
        done(unsafe { mdbx_cursor_put(self.0, &val(key), &mut val(value), MDBX_UPSERT) })
    }
}

/// libmdbx as a key/value store.
pub(super) struct MdbxKeyValue {
    env: Env,
    table: MDBX_dbi,
    format: EntryFormat,
}

impl MdbxKeyValue {
    /// Opens the store in `dir`; `write_map` is ignored if commits are flushed.
    pub(super) fn open(
        class: DurabilityClass,
        format: EntryFormat,
        dir: &Path,
        write_map: bool,
    ) -> Result<MdbxKeyValue> {
        let flags = match (class, write_map) {
            (DurabilityClass::Durable, _) => MDBX_SYNC_DURABLE | MDBX_LIFORECLAIM,
            (DurabilityClass::Relaxed, true) => MDBX_UTTERLY_NOSYNC | MDBX_LIFORECLAIM | MDBX_WRITEMAP,
            (DurabilityClass::Relaxed, false) => MDBX_UTTERLY_NOSYNC | MDBX_LIFORECLAIM,
        };
        // As for LMDB: otherwise it decides by the machine's memory, not by the limit that the memory suite sets.
        let env = Env::open(dir, flags | MDBX_NORDAHEAD)?;
        let txn = env.begin(MDBX_TXN_READWRITE)?;
        let table = txn.table(MDBX_CREATE)?;
        txn.commit()?;
        Ok(MdbxKeyValue { env, table, format })
    }

    fn put_with<'a>(
        &'a self,
        numbers: &[u64],
        batch: usize,
        mut put: impl FnMut(&mut Txn<'a>, &[u64]) -> Result<()>,
    ) -> Result<()> {
        for numbers in numbers.chunks(batch) {
            let mut txn = self.env.begin(MDBX_TXN_READWRITE)?;
            put(&mut txn, numbers)?;
            txn.commit()?;
        }
        Ok(())
    }
}

impl KeyValueStore for MdbxKeyValue {
    fn put(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        self.put_with(numbers, batch, |txn, numbers| {
            numbers.iter().try_for_each(|&n| {
                let (key, value) = entries.entry(n, version);
                txn.put(self.table, key, value)
            })
        })
    }

    fn put_sorted(&self, numbers: &[u64], batch: usize, version: u64) -> Result<()> {
        let mut entries = EntryGenerator::with_values(self.format);
        self.put_with(numbers, batch, |txn, numbers| {
            let mut cursor = txn.cursor(self.table)?;
            numbers.iter().try_for_each(|&n| {
                let (key, value) = entries.entry(n, version);
                cursor.put(key, value)
            })
        })
    }

    fn get(&self, numbers: &[u64], batch: usize) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let mut txn = self.env.begin(MDBX_TXN_RDONLY)?;
        for numbers in numbers.chunks(batch) {
            txn.renew()?;
            for &n in numbers {
                checksum.add_prefix(txn.get(self.table, entries.key(n))?);
            }
        }
        Ok(checksum.finish())
    }

    fn seek(&self, numbers: &[u64]) -> Result<u64> {
        let (mut entries, mut checksum) = (EntryGenerator::keys_only(self.format), Checksum::default());
        let txn = self.env.begin(MDBX_TXN_RDONLY)?;
        let mut cursor = txn.cursor(self.table)?;
        for &n in numbers {
            checksum.add_prefix(cursor.go(entries.key(n), MDBX_SET_RANGE)?.ok_or("a key is missing")?.1);
        }
        Ok(checksum.finish())
    }

    fn scan(&self, scan: Scan) -> Result<u64> {
        let mut checksum = Checksum::default();
        let txn = self.env.begin(MDBX_TXN_RDONLY)?;
        let mut cursor = txn.cursor(self.table)?;
        let (mut go, on) = match scan {
            Scan::Backward => (MDBX_LAST, MDBX_PREV),
            _ => (MDBX_FIRST, MDBX_NEXT),
        };
        while let Some((key, value)) = cursor.go(&[], go)? {
            match scan {
                Scan::Verify => checksum.add_entry(key, value),
                _ => checksum.add_entry_prefix(key, value),
            }
            go = on;
        }
        Ok(checksum.finish())
    }

    fn snapshots(&self, count: u64) -> Result<()> {
        let mut txn = self.env.begin(MDBX_TXN_RDONLY)?;
        (0..count).try_for_each(|_| txn.renew())
    }

    fn checkpoint(&self) -> Result<()> {
        // A flush would create a checkpoint that later unflushed commits must preserve, so that each of them would
        // allocate new pages instead of reusing free ones: 20 times slower. No work is deferred in this mode.
        Ok(())
    }
}
