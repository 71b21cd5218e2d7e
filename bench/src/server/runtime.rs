//! The runtime of asynchronous clients.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

use crate::Result;

/// The runtime, one for the whole program, with as many threads as there are cores.
///
/// # Errors
/// The system has no threads left.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread().enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| made))
}
