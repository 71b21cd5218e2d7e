//! The page layer of the index access methods: what every page of a relation of ours has, and how pages are taken and
//! given back.
//!
//! | module | what it is |
//! |---|---|
//! | [`page`] | the bytes around a page's payload: trailer, bound, hole |
//! | [`allocate`] | pages for new content: deleted ones that may be reused, or new ones |
//! | [`meta`] | what every meta page begins with: magic and version |
//! | [`check`] | what `treedb.check` reports |
//!
//! How pages are locked and logged is in [`crate::shim::buffer`] and [`crate::shim::wal`].

pub(crate) mod allocate;
pub(crate) mod check;
pub(crate) mod meta;
pub(crate) mod page;
