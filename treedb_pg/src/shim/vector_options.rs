//! Storage parameters of a vector index: what stands after `WITH` of `CREATE INDEX .. USING treedb_hnsw`.

use std::ffi::CStr;
use std::mem::offset_of;
use std::sync::OnceLock;

use pgrx::pg_sys;
use treedb_query::index::vector::Quantization;

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
    /// The place in [`QUANTIZATIONS`], counted from 1, of the one that a search index was asked for; 0 if it is what the metric has.
    quantization: i32,
}

/// Their names.
const QUANTIZATIONS: [(&CStr, Quantization); 5] = [
    (c"none", Quantization::None),
    (c"scalar", Quantization::Scalar),
    (c"binary", Quantization::Binary),
    (c"bits2", Quantization::Bits2),
    (c"bits4", Quantization::Bits4),
];

/// The name of a quantization.
pub(crate) fn quantization_name(wanted: Quantization) -> &'static CStr {
    QUANTIZATIONS.iter().find(|(_, own)| *own == wanted).map_or(c"", |(name, _)| name)
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

/// The parameter that is no number.
const QUANTIZATION: &CStr = c"quantization";

/// The kind of relation that the parameters are declared for, once in a backend.
fn kind() -> pg_sys::relopt_kind::Type {
    static DECLARED: OnceLock<pg_sys::relopt_kind::Type> = OnceLock::new();
    *DECLARED.get_or_init(|| {
        // SAFETY: the server copies the strings; what it does not copy stays.
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
            // The server keeps the pointer.
            let names = QUANTIZATIONS.iter().zip(1..);
            let members: Vec<_> = names
                .map(|((name, _), symbol_val)| pg_sys::relopt_enum_elt_def { string_val: name.as_ptr(), symbol_val })
                .chain([pg_sys::relopt_enum_elt_def::default()])
                .collect();
            pg_sys::add_enum_reloption(
                kind,
                QUANTIZATION.as_ptr(),
                c"What the definition of a search index says of it; an index has the codes that it needs whatever that is".as_ptr(),
                members.leak().as_mut_ptr(),
                0,
                c"Valid values are \"none\", \"scalar\", \"binary\", \"bits2\" and \"bits4\".".as_ptr(),
                pg_sys::AccessExclusiveLock as i32,
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
    let numbers =
        PARAMETERS.map(|parameter| compat::storage_parameter(parameter.name, integer, parameter.offset));
    let (kind_of_name, offset) =
        (pg_sys::relopt_type::RELOPT_TYPE_ENUM, offset_of!(VectorOptions, quantization));
    let [m, ef_construction, dimensions] = numbers;
    let places =
        [m, ef_construction, dimensions, compat::storage_parameter(QUANTIZATION, kind_of_name, offset)];
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
        parsed.copied().unwrap_or(VectorOptions { size: 0, m, ef_construction, dimensions, quantization: 0 })
    }

    /// What a search index was asked for, if not what its metric has.
    pub(crate) fn quantization(&self) -> Option<Quantization> {
        let place = usize::try_from(self.quantization).ok()?.checked_sub(1)?;
        QUANTIZATIONS.get(place).map(|(_, quantization)| *quantization)
    }
}
