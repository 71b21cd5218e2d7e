//! Template rows: what similar documents have in common is stored once, as a *shape*; a row contains the
//! rest.
//!
//! A `Shape` is the ordered list of a document's field names and their types, including nested documents. A
//! row contains the number of its shape and the values. Decoding gives back exactly the bytes of the BSON
//! document, also for duplicate or empty names. A field that is not in every document, or not always of the
//! same type, is *loose*: two bits of the row tell whether the row has it and of which type.
//!
//! | file | what it holds |
//! |---|---|
//! | `shape` | `Shape`: fields, and where in a row their values are; its bytes |
//! | `shapes` | [`Shapes`]: the shapes of a collection, numbered; shapes are only ever added |
//! | `derive` | deriving the shape of a document, and widening a shape for another document |
//! | `encode` | from documents to rows |
//! | `decode` | from rows to documents |
//! | `doubles` | arrays of doubles, such as vectors |
//! | `fields` | [`Fields`]: decoding only some fields of a row |
//! | `number` | variable-length integers |
//!
//! # A row
//!
//! ```text
//! number    the number of the shape, plus 1; 0 if a plain BSON document follows
//! bits      one bit for each boolean, two for each loose field (0 of the usual type, 1 absent, 2 null, 3 of another
//!           type), in the shape's order, lowest bit first, padded to a whole byte
//! fixed     the bytes of each double (8), timestamp (8), object id (12) and decimal (16), in the shape's order
//! values    the values of all other fields in the shape's order; a loose field of another type has its type byte first
//! ```
//!
//! So the booleans and fixed values of a shape are at fixed offsets. A *number* has 7 bits per byte, lowest
//! first; the top bit is set in all bytes but the last. The encoding of a value depends on its type:
//!
//! ```text
//! int32, int64, date            a number, zigzag: 0, -1, 1, -2 are 0, 1, 2, 3
//! string, code, symbol          the length in bytes, the bytes without their closing NUL
//! binary                        the length in bytes, the subtype, the bytes
//! document                      the length in bytes, a row
//! array                         the length in bytes; a type byte and the elements' values, or 0xFE and for each element its
//!                               type byte and value, or 0xFD and 4 bytes of each of 8 to 4,096 doubles that are floats of 4
//!                               bytes, or 0x00 and the BSON of an array with names that are not 0, 1, 2 ..
//! boolean                       a byte (of an element, or of a loose field)
//! double, object id and so on   as in BSON (of an element, or of a loose field)
//! regular expression, pointer,
//! code with scope               the length in bytes, the bytes as in BSON
//! null, undefined, MinKey,
//! MaxKey                        nothing
//! ```
//!
//! # A shape
//!
//! ```text
//! number of fields, then for each field:
//! mode    0 always present with this type, 1 loose, 2 a document whose shape follows the name
//! type    the type byte of BSON; for a loose field the usual type
//! name    the length in bytes, the bytes
//! ```

mod decode;
mod derive;
mod doubles;
mod encode;
mod fields;
mod number;
mod shape;
mod shapes;
#[cfg(test)]
mod tests;

pub use decode::Stored;
pub use fields::FieldMasks;
pub use fields::Fields;
pub use shapes::Shapes;

/// The maximum nesting depth of rows in rows, and of documents in a shape.
const MAX_NESTING: usize = crate::doc::MAX_DEPTH + 1;

/// The form byte of an array, if it is not the type byte of all its elements.
mod array_form {
    /// The array is stored as BSON.
    pub(super) const BSON: u8 = 0;
    /// Each element has its own type byte.
    pub(super) const MIXED: u8 = 0xfe;
    /// The elements are doubles that are floats of 4 bytes.
    pub(super) const FLOATS: u8 = 0xfd;
}
