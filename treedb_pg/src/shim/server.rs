//! Functions of the server whose headers the generated bindings do not read, and small services of its own: hashes,
//! names in the catalog, quoting, running a command.

// The wrappers that the guard makes take as many arguments as the server's functions do.
#![allow(clippy::too_many_arguments)]

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

#[pgrx::pg_guard]
unsafe extern "C-unwind" {
    /// True if a collation orders by bytes.
    pub(crate) fn lc_collate_is_c(collation: pg_sys::Oid) -> bool;
    /// A hash of 32 bits.
    pub(crate) fn hash_bytes(bytes: *const u8, len: i32) -> u32;
    /// A hash of 64 bits.
    pub(crate) fn hash_bytes_extended(bytes: *const u8, len: i32, seed: u64) -> u64;
    /// Notes that a serializable transaction has read a relation.
    #[link_name = "PredicateLockRelation"]
    pub(crate) fn predicate_lock_relation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
    /// The planner's cost of a btree path: what it says holds for any ordered tree with btree's strategy numbers.
    pub(crate) fn btcostestimate(
        root: *mut pg_sys::PlannerInfo,
        path: *mut pg_sys::IndexPath,
        loop_count: f64,
        startup: *mut pg_sys::Cost,
        total: *mut pg_sys::Cost,
        selectivity: *mut pg_sys::Selectivity,
        correlation: *mut f64,
        pages: *mut f64,
    );
}

/// The server's hash of some bytes, as a hash support function returns it.
pub(crate) fn hash(bytes: &[u8]) -> pg_sys::Datum {
    // SAFETY: the server reads `len` bytes.
    let hash = unsafe { hash_bytes(bytes.as_ptr(), i32::try_from(bytes.len()).unwrap_or(i32::MAX)) };
    pg_sys::Datum::from(hash)
}

/// The same of 64 bits, with the seed that was passed.
pub(crate) fn hash_extended(bytes: &[u8], seed: pg_sys::Datum) -> pg_sys::Datum {
    let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    // SAFETY: as above.
    let hash = unsafe { hash_bytes_extended(bytes.as_ptr(), len, seed.value() as u64) };
    pg_sys::Datum::from(hash as usize)
}

/// Counts a scan of an index in `pg_stat_user_indexes`.
pub(crate) fn count_index_scan(index: pg_sys::Relation) {
    // SAFETY: an open index. Its counters exist from the first time on that something is counted.
    unsafe {
        if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(index);
        }
        if let Some(info) = (*index).pgstat_info.as_mut() {
            info.t_counts.t_numscans += 1;
        }
    }
}

/// The schema of the extension; it cannot be another.
fn own_schema() -> pg_sys::Oid {
    // SAFETY: a catalog look-up, an error if there is none.
    unsafe { pg_sys::get_namespace_oid(c"treedb".as_ptr(), false) }
}

/// A type of the extension's; the invalid one if there is none of that name.
pub(crate) fn own_type(name: &CStr) -> pg_sys::Oid {
    // SAFETY: a catalog look-up by a name and a schema.
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as i32,
            pg_sys::Anum_pg_type_oid as i16,
            pg_sys::Datum::from(name.as_ptr()),
            own_schema().into(),
            pg_sys::Datum::from(0usize),
            pg_sys::Datum::from(0usize),
        )
    }
}

/// Whether a function is the extension's one of that name.
pub(crate) fn is_own_function(function: pg_sys::Oid, name: &CStr) -> bool {
    // SAFETY: catalog look-ups; the name is a copy in the current memory context.
    unsafe {
        let found = pg_sys::get_func_name(function);
        !found.is_null()
            && CStr::from_ptr(found) == name
            && pg_sys::get_func_namespace(function) == own_schema()
    }
}

/// A name of a schema and a name in it, quoted for SQL.
pub(crate) fn qualified(schema: pg_sys::Oid, name: &CStr) -> CString {
    // SAFETY: a catalog look-up; the result is copied.
    unsafe {
        let schema = pg_sys::get_namespace_name(schema);
        CStr::from_ptr(pg_sys::quote_qualified_identifier(schema, name.as_ptr())).to_owned()
    }
}

/// A name, quoted for SQL.
pub(crate) fn quoted(name: &CStr) -> CString {
    // SAFETY: the result is copied.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())).to_owned() }
}

/// A string as a literal of SQL.
pub(crate) fn literal(text: &CStr) -> CString {
    // SAFETY: the result is copied.
    unsafe { CStr::from_ptr(pg_sys::quote_literal_cstr(text.as_ptr())).to_owned() }
}

/// Runs a command of SQL, given in parts, as a statement inside the current one.
pub(crate) fn run(parts: &[&CStr]) {
    let mut command: Vec<u8> = parts.iter().flat_map(|part| part.to_bytes()).copied().collect();
    command.push(0);
    // SAFETY: the command ends with a zero; errors of the command are raised by the server itself.
    unsafe {
        pg_sys::SPI_connect();
        pg_sys::SPI_execute(command.as_ptr().cast(), false, 0);
        pg_sys::SPI_finish();
    }
}

/// The extension's function of that name, of which there is only one.
pub(crate) fn own_function(name: &CStr) -> pg_sys::Oid {
    // SAFETY: a list of two names, which the server copies nothing of beyond the call; an error if there is none.
    unsafe {
        let names =
            pg_sys::lappend(std::ptr::null_mut(), pg_sys::makeString(c"treedb".as_ptr().cast_mut()).cast());
        let names = pg_sys::lappend(names, pg_sys::makeString(name.as_ptr().cast_mut()).cast());
        pg_sys::LookupFuncName(names, -1, std::ptr::null(), false)
    }
}
