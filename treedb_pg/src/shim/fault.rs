//! Errors on demand, so that tests can end a change in the middle: `SET treedb.fault = 'leaf_split'`. Development
//! builds only.

use super::error::{SqlState, fail};
use super::setting::Text;

static FAULT: Text =
    Text::hidden(c"treedb.fault", c"Raises an error at a point of the library's code, for tests of it.");

/// Makes the setting known to the server.
pub(crate) fn define() {
    if cfg!(debug_assertions) {
        FAULT.define();
    }
}

/// Raises an error if the setting `treedb.fault` names this point.
pub(crate) fn point(name: &str) {
    if cfg!(debug_assertions) && FAULT.is(name) {
        fail(SqlState::ERRCODE_INTERNAL_ERROR, format!("fault asked for at {name}"), "RESET treedb.fault.");
    }
}
