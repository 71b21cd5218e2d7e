//! [`QueryContext`]: what a query needs beside the rows themselves.

use std::fmt;
use std::io::{Read, Seek, Write};

use crate::doc::Collation;
use crate::error::Result;

use super::PlanCache;

/// A temporary file: it is deleted when it is dropped.
pub trait TempFile: Read + Write + Seek + Send {}

impl<T: Read + Write + Seek + Send> TempFile for T {}

/// Creates temporary files for what does not fit in memory.
pub trait TempFiles {
    /// A new temporary file; `None` where there is no disk to spill to.
    ///
    /// # Errors
    /// `OutOfDiskSpace` and other errors of the device.
    fn create(&self) -> Result<Option<Box<dyn TempFile>>>;
}

/// Passed beside the [`Source`](super::Source) of a query. The default has no disk, no plan cache and the simple
/// collation.
#[derive(Clone, Copy)]
pub struct QueryContext<'a> {
    /// The collation of requests that name none.
    pub collation: &'a Collation,
    /// Where a sort may spill; `None` if everything has to fit in memory.
    pub temp_files: Option<&'a dyn TempFiles>,
    /// The plan cache of the collection; `None` if every query is planned from scratch.
    pub plan_cache: Option<&'a PlanCache>,
}

impl QueryContext<'_> {
    /// A new temporary file, if there can be one.
    ///
    /// # Errors
    /// Those of [`TempFiles::create`].
    pub(crate) fn temp_file(&self) -> Result<Option<Box<dyn TempFile>>> {
        self.temp_files.map_or(Ok(None), TempFiles::create)
    }
}

impl Default for QueryContext<'_> {
    fn default() -> Self {
        QueryContext { collation: &Collation::Simple, temp_files: None, plan_cache: None }
    }
}

impl fmt::Debug for QueryContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryContext")
            .field("collation", &self.collation)
            .field("temp_files", &self.temp_files.is_some())
            .field("plan_cache", &self.plan_cache)
            .finish()
    }
}
