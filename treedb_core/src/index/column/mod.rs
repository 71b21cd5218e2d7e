//! Columns for `$group` and `$sort`: read from sealed leaves. Not built yet.
