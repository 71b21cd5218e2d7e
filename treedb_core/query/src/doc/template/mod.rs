//! Template rows: what documents of one kind have in common is stored once, as a *shape*; a row holds the rest.
//!
//! A `Shape` is the ordered list of a document's field names with the type each has, nested documents included. A
//! row names its shape and holds the values; decoding gives back the very bytes of the BSON document, whatever its
//! types, doubled or empty names. A field that is not always there, or not always of the same type, is *loose*: two
//! bits of the row say what it is.
//!
//! | file | what it holds |
//! |---|---|
//! | `shape` | `Shape`: fields, and where in a row each of them lies; its bytes |
//! | `shapes` | [`Shapes`]: the shapes of a collection, numbered; only ever added to |
//! | `derive` | the shape of a document, and one wide enough for another document too |
//! | `encode` | documents as rows |
//! | `decode` | rows as documents |
//! | `fields` | [`Fields`]: some fields of a row, the others not decoded |
//! | `number` | numbers in as few bytes as they need |
//!
//! # A row
//!
//! ```text
//! number    which shape, plus 1; 0 if a plain BSON document follows
//! bits      one bit for each boolean, two for each loose field (0 of the usual type, 1 absent, 2 null, 3 of another
//!           type), in the shape's order, lowest bit first, filled up to a byte
//! fixed     the bytes of each double (8), timestamp (8), object id (12) and decimal (16), in the shape's order
//! values    of all other fields in the shape's order; of a loose field of another type its type byte, then its value
//! ```
//!
//! Booleans and fixed values of a shape thus lie at an offset that the shape knows. *Numbers* are of 7 bits to a byte,
//! lowest first, the top bit set in all but the last. A value is, by its type:
//!
//! ```text
//! int32, int64, date            a number, zigzag: 0, -1, 1, -2 are 0, 1, 2, 3
//! string, code, symbol          a number of bytes, the bytes without their closing NUL
//! binary                        a number of bytes, the subtype, the bytes
//! document                      a number of bytes, a row of its own
//! array                         a number of bytes; a type byte and the elements' values, or 0xFE and for each element its
//!                               type byte and value, or 0x00 and the BSON of an array with names that are not 0, 1, 2 ..
//! boolean                       a byte (of an element, or of a loose field)
//! double, object id and so on   as in BSON (of an element, or of a loose field)
//! regular expression, pointer,
//! code with scope               a number of bytes, the bytes as in BSON
//! null, undefined, the keys     nothing
//! ```
//!
//! # A shape
//!
//! ```text
//! number of fields, then for each field:
//! mode    0 always there and of this type, 1 loose, 2 a document whose own shape follows the name
//! type    the type byte of BSON; of a loose field the usual one
//! name    a number of bytes, the bytes
//! ```

mod decode;
mod derive;
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

/// Deepest nesting of rows in rows, and of documents in a shape.
const MAX_NESTING: usize = crate::doc::MAX_DEPTH + 1;

/// How the elements of an array are stored, if not by the type that all of them have.
mod array_form {
    /// As a BSON array.
    pub(super) const BSON: u8 = 0;
    /// Each with its type.
    pub(super) const MIXED: u8 = 0xfe;
}
