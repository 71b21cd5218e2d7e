//! Checking a store: comparing everything in the directory with everything else.
//!
//! The trees are walked in parts by several threads, each part once: its pages, the order of what is in them, and its large values. What
//! the parts have is added up and compared with the records of the tables, and the pages that none has met with the free list.
//!
//! The damage that is reported is that which one thread finds first, whatever the number of threads: parts have the order of a walk by
//! one thread, and the first that fails counts. They depend on each other only if a page is in two of them; which of them then comes second is
//! up to the threads, so one thread walks again.
//!
//! Memory: a bit for each page, and for each thread the branches on its way and a large value. Of a file that is not mapped, each page is
//! read in an epoch of its own, so that the cache keeps to its budget.

use std::sync::PoisonError;

use super::catalog::{self, Record, Table, TableKind};
use super::dup;
use super::edit::Writer;
use super::large_values::{self, INLINE};
use super::store::Inner;
use crate::btree::{
    CheckedTree, KeyBound, Part, RowRoot, RowTree, Tree, TreeRoot, TreeStats, Value, Visitor,
};
use crate::page::{EpochGuard, PageAccounting, PageId, PageSource};
use crate::{Error, Result, tasks};

/// Into how many parts for each thread the trees are divided, if they are as large: enough that no thread waits long for the last.
const PARTS: usize = 16;
/// What a large value counts for when they are divided, in entries.
const LARGE: u64 = 16;
/// Entries between two reports of progress.
const STEP: u64 = 4_096;

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

/// See [`Store::check_with`](super::Store::check_with).
pub(super) fn check(inner: &Inner, threads: usize, on_checked: &(dyn Fn(u64) + Sync)) -> Result<CheckReport> {
    // No checkpoint, no writer: the free pages and the roots stay as they are.
    let _quiet = inner.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
    inner.with_writer(|writer| {
        let check = Check { inner, accounting: inner.pager.account_pages(&writer.alloc)?, on_checked };
        let found = check.run(writer, threads);
        if found.is_err() && threads > 1 && check.accounting.met_twice() {
            let accounting = inner.pager.account_pages(&writer.alloc)?;
            return Check { inner, accounting, on_checked: &|_| {} }.run(writer, 1);
        }
        found
    })
}

/// A check that runs.
struct Check<'a> {
    inner: &'a Inner,
    accounting: PageAccounting<'a>,
    on_checked: &'a (dyn Fn(u64) + Sync),
}

/// A part of a table's tree.
struct Task {
    /// The number of the table, and its kind.
    table: usize,
    kind: TableKind,
    part: TreePart,
}

enum TreePart {
    Keys(Part<KeyBound>),
    Rows(Part<u64>),
}

/// What a part of a tree has.
#[derive(Default)]
struct Found {
    /// Keys or rows.
    entries: u64,
    /// Pairs of a dup table.
    pairs: u64,
    /// Large values; in a dup table, trees of values.
    large: u64,
    large_bytes: u64,
}

impl Found {
    fn add(&mut self, part: &Found) {
        self.entries += part.entries;
        self.pairs += part.pairs;
        self.large += part.large;
        self.large_bytes += part.large_bytes;
    }
}

impl Check<'_> {
    fn run(&self, writer: &Writer, threads: usize) -> Result<CheckReport> {
        let tables = self.catalog(&writer.catalog)?;
        let record = |table: &Table| writer.record(&self.inner.pager, table.id)?.ok_or_else(|| table.gone());
        let records = tables.iter().map(record).collect::<Result<Vec<Record>>>()?;
        let (tasks, mut failed) = self.divide(&records, threads);
        let mut done = tasks::run(threads, &tasks, &|task| self.part(task)).into_iter();
        let mut tasks = tasks.iter().peekable();
        let mut report = CheckReport { tables: tables.len() as u64, ..CheckReport::default() };
        for (number, (table, record)) in tables.iter().zip(&records).enumerate() {
            let mut found = Found::default();
            while tasks.next_if(|task| task.table == number).is_some() {
                // What comes after a failure may be missing.
                if let Some(part) = done.next().transpose()? {
                    found.add(&part);
                }
            }
            if let Some((_, error)) = failed.take_if(|(table, _)| *table == number) {
                return Err(error);
            }
            self.compare(table, record, &found)?;
            report.entries += record.entries();
            if record.kind != TableKind::Dup {
                report.large_values += found.large;
                report.large_bytes += found.large_bytes;
            }
        }
        report.pages = self.accounting.finish()?;
        Ok(report)
    }

    /// Checks the catalog. Returns the tables, by name.
    fn catalog(&self, root: &TreeRoot) -> Result<Vec<Table>> {
        let pager = &self.inner.pager;
        let stats = self.pages_of(root)?;
        let _epoch = pager.enter_epoch();
        let tables = catalog::all(pager, root)?;
        let records = catalog::records(pager, root)?;
        let names = tables.len();
        if records != names || stats.entries < 2 * names as u64 || stats.entries > 2 * names as u64 + 1 {
            return Err(pager.damaged(
                root.root,
                0,
                "as many records as names in the catalog",
                &format!("{records} records, {names} names, {} entries", stats.entries),
            ));
        }
        Ok(tables)
    }

    /// Accounts for a page that is about to be read, in an epoch of its own.
    fn enter_page(&self, id: PageId) -> Result<EpochGuard<'_>> {
        let epoch = self.inner.pager.enter_epoch();
        self.accounting.visit(id)?;
        Ok(epoch)
    }

    /// Checks a tree without its values.
    fn pages_of(&self, root: &TreeRoot) -> Result<TreeStats> {
        let pager = &self.inner.pager;
        let Some(part) = Tree::part(pager, root)? else { return Ok(TreeStats::default()) };
        let stats = part.check::<Tree, _, _>(pager, &mut Pages { check: self, epoch: None })?;
        root.expect_entries(pager, stats.entries)?;
        Ok(stats)
    }

    /// Divides the trees of tables into parts, in their order; up to a table with damage in the branches that were read for it, which is the
    /// error: it comes after the parts.
    fn divide(&self, records: &[Record], threads: usize) -> (Vec<Task>, Option<(usize, Error)>) {
        let pager = &self.inner.pager;
        let weight =
            |record: &Record| u128::from(record.entries()) + u128::from(LARGE) * u128::from(record.large);
        let total = records.iter().map(weight).sum::<u128>().max(1);
        let parts = if threads > 1 { PARTS * threads } else { 1 };
        let mut tasks = Vec::new();
        for (table, record) in records.iter().enumerate() {
            let (kind, root) = (record.kind, record.root);
            let wanted = (parts as u128 * weight(record)).div_ceil(total) as usize;
            let mut add = |part| tasks.push(Task { table, kind, part });
            let divided = match kind {
                TableKind::Rows => RowTree::part(pager, &RowRoot { tree: root, next: record.next_row })
                    .and_then(|whole| {
                        self.parts::<RowTree>(whole, wanted, &mut |part| add(TreePart::Rows(part)))
                    }),
                TableKind::Ordered | TableKind::Dup => Tree::part(pager, &root).and_then(|whole| {
                    self.parts::<Tree>(whole, wanted, &mut |part| add(TreePart::Keys(part)))
                }),
            };
            if let Err(error) = divided {
                return (tasks, Some((table, error)));
            }
        }
        (tasks, None)
    }

    /// Divides a tree into at least so many parts, if it has as many leaves. Damage comes after the parts before it.
    fn parts<T: CheckedTree>(
        &self,
        whole: Option<Part<T::Bound>>,
        wanted: usize,
        add: &mut dyn FnMut(Part<T::Bound>),
    ) -> Result<()> {
        let mut parts = Vec::from_iter(whole);
        let mut divided = Ok(());
        while divided.is_ok() && parts.len() < wanted && parts.first().is_some_and(Part::has_children) {
            let (mut visitor, mut stats) = (Pages { check: self, epoch: None }, TreeStats::default());
            let mut below = Vec::new();
            divided = parts.iter().try_for_each(|part| {
                let before = below.len();
                let read =
                    part.check_page::<T, _, _>(&self.inner.pager, &mut visitor, &mut stats, &mut below);
                // A branch is damaged before what is below it.
                if read.is_err() {
                    below.truncate(before);
                }
                read
            });
            parts = below;
        }
        parts.into_iter().for_each(add);
        divided
    }

    fn part(&self, task: &Task) -> Result<Found> {
        let pager = &self.inner.pager;
        let mut entries = Entries {
            check: self,
            kind: task.kind,
            epoch: None,
            found: Found::default(),
            unreported: 0,
            value_trees: Vec::new(),
            large_read: false,
            large: Vec::new(),
        };
        let stats = match &task.part {
            TreePart::Keys(part) => part.check::<Tree, _, _>(pager, &mut entries)?,
            TreePart::Rows(part) => part.check::<RowTree, _, _>(pager, &mut entries)?,
        };
        entries.report(1);
        Ok(Found { entries: stats.entries, ..entries.found })
    }

    fn compare(&self, table: &Table, record: &Record, found: &Found) -> Result<()> {
        let pager = &self.inner.pager;
        record.root.expect_entries(pager, found.entries)?;
        let is_dup = record.kind == TableKind::Dup;
        let expect = |what: &str, expected: u64, found: u64| {
            if expected == found {
                return Ok(());
            }
            let expected = format!("{expected} {what} in table {:?}", table.name());
            Err(pager.damaged(record.root.root, 0, &expected, &found.to_string()))
        };
        if is_dup {
            expect("pairs", record.pairs, found.pairs)?;
        }
        expect(if is_dup { "trees of values" } else { "large values" }, record.large, found.large)
    }
}

/// Walks a tree of which only the pages are of interest.
struct Pages<'a> {
    check: &'a Check<'a>,
    /// That of the page that is being read.
    epoch: Option<EpochGuard<'a>>,
}

impl Visitor for Pages<'_> {
    fn page(&mut self, id: PageId) -> Result<()> {
        self.epoch = Some(self.check.enter_page(id)?);
        Ok(())
    }

    fn value(&mut self, _: Value<'_>) -> Result<()> {
        Ok(())
    }

    fn page_is_done(&mut self) -> Result<()> {
        self.epoch = None;
        Ok(())
    }
}

/// Walks a table's tree: reads large values, and the trees of values of a dup table.
struct Entries<'a> {
    check: &'a Check<'a>,
    kind: TableKind,
    /// That of the page that is being read.
    epoch: Option<EpochGuard<'a>>,
    found: Found,
    /// Entries, or pairs, since progress was last reported.
    unreported: u64,
    /// Trees of values in the leaf that is being read.
    value_trees: Vec<TreeRoot>,
    /// Whether that leaf has large values.
    large_read: bool,
    /// A large value, of a store whose files are not mapped.
    large: Vec<u8>,
}

impl Entries<'_> {
    /// Reports progress, if there is as much.
    fn report(&mut self, least: u64) {
        if self.unreported >= least {
            (self.check.on_checked)(std::mem::take(&mut self.unreported));
        }
    }

    /// Reads a large value. One that is in the wrong place makes the table's count wrong.
    #[cold]
    fn large_value(&mut self, cell: Value<'_>) -> Result<()> {
        self.large_read = true;
        let Inner { pager, values, .. } = self.check.inner;
        let value = match pager.is_mapped() {
            true => large_values::resolve(pager, values, cell)?,
            false => large_values::copy(pager, values, cell, &mut self.large)?,
        };
        if value.len() > INLINE {
            self.found.large += 1;
            self.found.large_bytes += value.len() as u64;
        }
        Ok(())
    }

    fn values_of_key(&mut self, cell: Value<'_>) -> Result<()> {
        let (pairs, tree) = dup::check_cell(&self.check.inner.pager, cell)?;
        self.found.pairs = self.found.pairs.saturating_add(pairs);
        self.unreported = self.unreported.saturating_add(pairs);
        self.found.large += u64::from(tree.is_some());
        self.value_trees.extend(tree);
        Ok(())
    }
}

impl Visitor for Entries<'_> {
    fn page(&mut self, id: PageId) -> Result<()> {
        self.epoch = Some(self.check.enter_page(id)?);
        Ok(())
    }

    #[inline]
    fn value(&mut self, cell: Value<'_>) -> Result<()> {
        if self.kind == TableKind::Dup {
            return self.values_of_key(cell);
        }
        self.unreported += 1;
        if cell.pointer { self.large_value(cell) } else { Ok(()) }
    }

    fn page_is_done(&mut self) -> Result<()> {
        self.epoch = None;
        for root in std::mem::take(&mut self.value_trees) {
            self.check.pages_of(&root)?;
        }
        // Large values take long.
        let least = if std::mem::take(&mut self.large_read) { 1 } else { STEP };
        self.report(least);
        Ok(())
    }
}
