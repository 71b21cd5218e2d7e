//! Whether the system reads ahead in the mapped files.
//!
//! While all of them fit into memory, reading what lies around a missing page fills it soon. When they do not, each page
//! read that way pushes out another: with a device that reads ahead 8 MiB, random gets in four times as much data as
//! memory come to a standstill.

use std::sync::atomic::Ordering;

use super::store::Inner;
use crate::disk::memory_limit;

impl Inner {
    /// Says whether the system is to read ahead, by what the files have grown to.
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
