//! The PostgreSQL extension `treedb`.
