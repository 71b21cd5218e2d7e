//! Storage parameters of an index: what stands after `WITH` of `CREATE INDEX`.

use std::mem::offset_of;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::compat;
use super::relation::Index;

/// How full a build leaves leaves, in percent, unless the index says otherwise: as btree's.
const DEFAULT_FILL_FACTOR: i32 = 90;
const LEAST_FILL_FACTOR: i32 = 10;
const GREATEST_FILL_FACTOR: i32 = 100;

/// The parameters as the server keeps them with an open index.
#[repr(C)]
struct Parsed {
    /// The header of a value of variable length.
    size: i32,
    fill_factor: i32,
}

/// The kind of relation that the parameters are declared for, once in a backend.
fn kind() -> pg_sys::relopt_kind::Type {
    static DECLARED: OnceLock<pg_sys::relopt_kind::Type> = OnceLock::new();
    *DECLARED.get_or_init(|| {
        // SAFETY: the server copies the strings.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            pg_sys::add_int_reloption(
                kind,
                c"fillfactor".as_ptr(),
                c"Packs treedb_btree index pages only to this percentage".as_ptr(),
                DEFAULT_FILL_FACTOR,
                LEAST_FILL_FACTOR,
                GREATEST_FILL_FACTOR,
                pg_sys::ShareUpdateExclusiveLock as i32,
            );
            kind
        }
    })
}

/// Parses parameters; an SQL error for unknown ones if they are to be validated.
///
/// # Safety
/// `options` is what the server passes to `amoptions`.
pub(super) unsafe fn parse(options: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    let integer = pg_sys::relopt_type::RELOPT_TYPE_INT;
    let fill_factor = compat::storage_parameter(c"fillfactor", integer, offset_of!(Parsed, fill_factor));
    // SAFETY: the server fills a structure of this size, in which the parameter has that place.
    unsafe {
        pg_sys::build_reloptions(options, validate, kind(), size_of::<Parsed>(), &raw const fill_factor, 1)
            .cast()
    }
}

/// How full the index wants leaves that are written from left to right, in percent.
pub(crate) fn fill_factor(index: Index<'_>) -> usize {
    // SAFETY: open; the server keeps what `parse` returned for it, or nothing.
    let parsed = unsafe { (*index.raw()).rd_options.cast::<Parsed>().as_ref() };
    let percent = parsed.map_or(DEFAULT_FILL_FACTOR, |parsed| parsed.fill_factor);
    percent.clamp(LEAST_FILL_FACTOR, GREATEST_FILL_FACTOR) as usize
}
