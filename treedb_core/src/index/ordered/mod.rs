//! Ordered indexes: the keys a document has under an index definition, and their entry bytes.
