//! Ordered indexes: the keys a document has under an index definition, and their entry bytes.

mod def;

pub use def::{Direction, IndexDef, KeyPart};
