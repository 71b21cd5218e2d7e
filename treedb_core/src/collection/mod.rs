//! Collections: catalog, rows by [`crate::RowId`], index maintenance, the document API.
