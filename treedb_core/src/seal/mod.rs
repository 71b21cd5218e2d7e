//! Sealed leaves: cold rows as packed columns, one row out without unpacking. Not built yet; the folder marks the
//! layer's place between `btree` and `page`.
