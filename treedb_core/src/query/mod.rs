//! Filter, update, projection, sort, planner and executor, over [`crate::access`].
