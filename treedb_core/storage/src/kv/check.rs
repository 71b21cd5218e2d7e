//! Checking a store: comparing everything in the directory with everything else.

use std::sync::PoisonError;

use super::catalog::{self, Record, Table, TableKind};
use super::cursor::{Cursor, Rows};
use super::dup;
use super::large_values::INLINE;
use super::reads::ReadContext;
use super::store::Inner;
use crate::Result;
use crate::btree::{RowRoot, RowTree, Tree};
use crate::page::{PageAccounting, PageSource};

/// What [`Store::check`](super::Store::check) counted; it returns an error instead if anything is wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables.
    pub tables: u64,
    /// Entries, rows and pairs in them.
    pub entries: u64,
    /// Pages accounted for: of trees, free ones, and the free list's.
    pub pages: u64,
    /// Large values read in the value log.
    pub large_values: u64,
    /// Bytes of those.
    pub large_bytes: u64,
}

/// See [`Store::check`](super::Store::check).
pub(super) fn check(inner: &Inner) -> Result<CheckReport> {
    // No checkpoint, no writer: the free pages and the roots stay as they are.
    let _quiet = inner.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
    inner.with_writer(|writer| {
        let mut accounting = inner.pager.account_pages(&writer.alloc);
        let mut report = CheckReport::default();
        let _epoch = inner.pager.enter_epoch();
        let stats = Tree::check(&inner.pager, &writer.catalog, &mut |id| accounting.visit(id))?;
        let tables = catalog::all(&inner.pager, &writer.catalog)?;
        let records = catalog::records(&inner.pager, &writer.catalog)?;
        let names = tables.len();
        if records != names || stats.entries < 2 * names as u64 || stats.entries > 2 * names as u64 + 1 {
            return Err(inner.pager.damaged(
                writer.catalog.root,
                0,
                "as many records as names in the catalog",
                &format!("{records} records, {names} names, {} entries", stats.entries),
            ));
        }
        for table in &tables {
            let record = writer.record(&inner.pager, table.id)?.ok_or_else(|| table.gone())?;
            check_table(inner, table, &record, &mut accounting, &mut report)?;
        }
        report.tables = names as u64;
        report.pages = accounting.finish()?;
        Ok(report)
    })
}

fn check_table(
    inner: &Inner,
    table: &Table,
    record: &Record,
    accounting: &mut PageAccounting<'_>,
    report: &mut CheckReport,
) -> Result<()> {
    let mut large = 0;
    match record.kind {
        TableKind::Ordered => {
            report.entries +=
                Tree::check(&inner.pager, &record.root, &mut |id| accounting.visit(id))?.entries;
            let mut cursor = Cursor::new(&inner.pager, &inner.values, &record.root);
            while cursor.next()? {
                large += check_value(cursor.value()?.unwrap_or_default(), report);
            }
        }
        TableKind::Rows => {
            let root = RowRoot { tree: record.root, next: record.next_row };
            report.entries += RowTree::check(&inner.pager, &root, &mut |id| accounting.visit(id))?.entries;
            let context = ReadContext { pager: &inner.pager, values: &inner.values, arena: None };
            let mut rows = Rows::new(context, &root, 0);
            while let Some((_, value)) = rows.lend_next()? {
                large += check_value(value, report);
            }
        }
        TableKind::Dup => {
            large = dup::check(&inner.pager, table, record, accounting)?;
            report.entries += record.pairs;
        }
    }
    if large != record.large {
        let what = if record.kind == TableKind::Dup { "trees of values" } else { "large values" };
        return Err(inner.pager.damaged(
            record.root.root,
            0,
            &format!("{} {what} in table {:?}", record.large, table.name()),
            &large.to_string(),
        ));
    }
    Ok(())
}

/// Counts a value, which was read; 1 if it is a large one. One that is in the wrong place makes the table's count wrong.
fn check_value(value: &[u8], report: &mut CheckReport) -> u64 {
    if value.len() <= INLINE {
        return 0;
    }
    report.large_values += 1;
    report.large_bytes += value.len() as u64;
    1
}
