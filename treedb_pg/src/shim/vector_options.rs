//! Storage parameters of a vector index: what stands after `WITH` of `CREATE INDEX .. USING treedb_hnsw`.

use std::ffi::CStr;
use std::mem::offset_of;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::compat;
use super::relation::Index;

/// The parameters as the server keeps them with an open index.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct VectorOptions {
    /// The header of a value of variable length.
    size: i32,
    /// Links that a new node gets; a node has up to three times as many.
    pub(crate) m: i32,
    /// Nodes that are compared more closely when a new one is linked.
    pub(crate) ef_construction: i32,
    /// Dimensions of the vectors; 0 if the column's type tells.
    pub(crate) dimensions: i32,
}

/// Most dimensions that a vector may have: it must fit into a page.
pub(crate) const MOST_DIMENSIONS: i32 = 2000;

/// The same of vectors whose elements take 2 bytes.
pub(crate) const MOST_HALVES: i32 = 4000;

/// The same of vectors of bits, which share the page with links, of which there may be three times [`MOST_LINKS`].
pub(crate) const MOST_BITS: i32 = 40_000;

/// Greatest `m`.
pub(crate) const MOST_LINKS: u16 = 100;

struct Parameter {
    name: &'static CStr,
    description: &'static CStr,
    default: i32,
    least: i32,
    greatest: i32,
    offset: usize,
}

const PARAMETERS: [Parameter; 3] = [
    Parameter {
        name: c"m",
        description: c"Links that a new node of the graph gets",
        default: 16,
        least: 2,
        greatest: MOST_LINKS as i32,
        offset: offset_of!(VectorOptions, m),
    },
    Parameter {
        name: c"ef_construction",
        description: c"Candidates that are compared when a new node is linked",
        default: 64,
        least: 4,
        greatest: 1000,
        offset: offset_of!(VectorOptions, ef_construction),
    },
    Parameter {
        name: c"dimensions",
        description: c"Dimensions of the vectors, where the type of the column does not tell",
        default: 0,
        least: 0,
        greatest: MOST_BITS,
        offset: offset_of!(VectorOptions, dimensions),
    },
];

/// The kind of relation that the parameters are declared for, once in a backend.
fn kind() -> pg_sys::relopt_kind::Type {
    static DECLARED: OnceLock<pg_sys::relopt_kind::Type> = OnceLock::new();
    *DECLARED.get_or_init(|| {
        // SAFETY: the server copies the strings.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            for parameter in &PARAMETERS {
                pg_sys::add_int_reloption(
                    kind,
                    parameter.name.as_ptr(),
                    parameter.description.as_ptr(),
                    parameter.default,
                    parameter.least,
                    parameter.greatest,
                    pg_sys::AccessExclusiveLock as i32,
                );
            }
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
    let places =
        PARAMETERS.map(|parameter| compat::storage_parameter(parameter.name, integer, parameter.offset));
    // SAFETY: the server fills a structure of this size, in which the parameters have these places.
    unsafe {
        let size = size_of::<VectorOptions>();
        pg_sys::build_reloptions(options, validate, kind(), size, places.as_ptr(), places.len() as i32).cast()
    }
}

impl VectorOptions {
    /// Those of an index.
    pub(crate) fn of(index: Index<'_>) -> VectorOptions {
        // SAFETY: open; the server keeps what `parse` returned for it, or nothing.
        let parsed = unsafe { (*index.raw()).rd_options.cast::<VectorOptions>().as_ref() };
        let [m, ef_construction, dimensions] = PARAMETERS.map(|parameter| parameter.default);
        parsed.copied().unwrap_or(VectorOptions { size: 0, m, ef_construction, dimensions })
    }
}
