//! Properties, approximate sizes, compaction.

use std::fmt::Write;

use super::db::Db;
use crate::Result;
use crate::btree::Tree;
use crate::kv::reads::Reads;
use crate::page::PAGE_SIZE;

/// A mebibyte, in bytes.
const MIB: f64 = (1 << 20) as f64;

impl Db {
    /// A property of the database; `None` for an unknown name. Known names:
    ///
    /// * `leveldb.stats`: the files, as text of several lines
    /// * `leveldb.sstables`: the same for programs, a line each of a file or folder and its bytes
    /// * `leveldb.approximate-memory-usage`: bytes of changes that are in the log and in memory but not yet in the page
    ///   file
    /// * `leveldb.num-files-at-levelN`: 1 for level 0, the page file, and 0 for the others up to 6
    pub fn property(&self, name: &str) -> Result<Option<String>> {
        let Some(name) = name.strip_prefix("leveldb.") else { return Ok(None) };
        let stats = self.store.stats();
        let (pages, log, values) = (stats.page_file_bytes, stats.log.bytes, stats.values.bytes);
        Ok(match name {
            "stats" => {
                let table = self.store.snapshot()?.table_stats(&self.table)?;
                let mut text = String::new();
                let _ = writeln!(text, "File        Size(MB)");
                for (file, bytes) in [("pages", pages), ("log", log), ("values", values)] {
                    let _ = writeln!(text, "{file:<10}{:>10.1}", bytes as f64 / MIB);
                }
                let _ = writeln!(
                    text,
                    "{} keys, {} levels, {} of {} pages in use, {} large values, {} readers",
                    table.entries,
                    table.depth,
                    table.pages(),
                    stats.pages.used,
                    table.large_values,
                    stats.readers
                );
                Some(text)
            }
            "sstables" => Some(format!("pages {pages}\nlog {log}\nvalues {values}\n")),
            "approximate-memory-usage" => Some(log.to_string()),
            _ => {
                let level =
                    name.strip_prefix("num-files-at-level").and_then(|level| level.parse::<u8>().ok());
                level.filter(|&level| level < 7).map(|level| u8::from(level == 0).to_string())
            }
        })
    }

    /// About how many bytes of the files the keys of each range take, its upper end not included. Estimated from the
    /// descents to the two ends, not counted; large values are assumed to be distributed evenly.
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        let read = self.store.snapshot()?;
        let (root, table) = (read.find(&self.table)?.record.root, read.table_stats(&self.table)?);
        let large = if table.large_values > 0 { self.store.stats().values.live } else { 0 };
        let whole = (table.pages() * PAGE_SIZE as u64 + large) as f64;
        let pager = read.context().pager;
        let _epoch = pager.enter_epoch();
        let sizes = ranges.iter().map(|(from, to)| {
            let part = Tree::part_below(pager, &root, to)? - Tree::part_below(pager, &root, from)?;
            Ok((part.max(0.0) * whole) as u64)
        });
        sizes.collect()
    }

    /// Makes the files as small as their content allows, without blocking reads and writes: see
    /// [`Store::compact`](crate::kv::Store::compact). Removed and overwritten keys do not pile up in a B+tree as they
    /// do in LevelDB's files, so there is nothing to do for a range alone: `from` and `to` exist for compatibility only.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        let _ = (from, to);
        self.store.compact(|_| {}).map(|_| ())
    }
}
