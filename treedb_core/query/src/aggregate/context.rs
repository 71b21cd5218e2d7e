//! [`Context`]: what all stages of one run share.

use std::sync::Arc;
use std::time::Instant;

use crate::access::TempFile;
use crate::error::Result;
use crate::query::expr::Globals;

use super::collections::Collections;
use super::operand::memory_exceeded;

/// What all stages of one run share: the collections, the variables and the limits.
#[derive(Clone)]
pub struct Context {
    /// The collections that stages read and write.
    pub collections: Arc<dyn Collections>,
    /// The database of collection names that do not say one.
    pub database: String,
    /// The current time and the variables.
    pub globals: Arc<Globals>,
    /// Bytes that a stage may hold.
    pub memory_limit: usize,
    /// Whether a stage that needs more may use scratch files.
    pub allow_disk_use: bool,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// Threads for a parallel scan; `None` lets the collection choose.
    pub threads: Option<usize>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("database", &self.database)
            .field("memory_limit", &self.memory_limit)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A scratch file; an error that names `stage` where scratch files are not allowed or not available.
    pub(crate) fn temp_file(&self, stage: &str) -> Result<Box<dyn TempFile>> {
        let refused = || memory_exceeded(stage, self.memory_limit);
        if !self.allow_disk_use {
            return Err(refused());
        }
        self.collections.temp_file()?.ok_or_else(refused)
    }

    /// The same context with other variables.
    pub(crate) fn with_globals(&self, globals: Globals) -> Context {
        Context { globals: Arc::new(globals), ..self.clone() }
    }

    /// The full name of a collection of the current database.
    pub(crate) fn namespace(&self, collection: &str) -> String {
        format!("{}.{collection}", self.database)
    }
}
