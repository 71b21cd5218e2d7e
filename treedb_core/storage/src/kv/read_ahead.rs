//! Whether the operating system reads ahead in the mapped files.
//!
//! While all files fit into memory, reading ahead fills it soon. When they do not, each page read ahead evicts another:
//! with a device that reads ahead 8 MiB, random gets in four times as much data as memory come to a standstill.

use std::sync::atomic::Ordering;

use super::store::Inner;
use crate::disk::memory_limit;

impl Inner {
    /// Turns read-ahead on or off, depending on the size of the files.
    pub(super) fn set_read_ahead(&self) {
        let on = self.options.read_ahead.unwrap_or_else(|| {
            let files = self.pager.file_bytes().saturating_add(self.values.stats().bytes);
            files <= memory_limit() / 2
        });
        if self.reads_ahead.swap(on, Ordering::Relaxed) != on {
            self.pager.read_ahead(on);
            self.values.read_ahead(on);
        }
    }
}
