//! Errors on demand, so that tests can end a change in the middle: `SET treedb.fault = 'leaf_split'`. Development
//! builds only.

use pgrx::pg_sys;

use super::error::{SqlState, fail};

/// Raises an error if the setting `treedb.fault` names this point.
pub(crate) fn point(name: &str) {
    if cfg!(debug_assertions) {
        // SAFETY: a null-terminated name; the server returns a string of its own, or null where nobody set it.
        let wanted = unsafe {
            let setting = pg_sys::GetConfigOption(c"treedb.fault".as_ptr(), true, false);
            setting.as_ref().map(|text| std::ffi::CStr::from_ptr(text))
        };
        if wanted.is_some_and(|wanted| wanted.to_bytes() == name.as_bytes()) {
            fail(
                SqlState::ERRCODE_INTERNAL_ERROR,
                format!("fault asked for at {name}"),
                "RESET treedb.fault.",
            );
        }
    }
}
