//! Checks collections: rows against indexes, and indexes against rows.
//!
//! The rows of a collection are checked in ranges of row ids, and the entries of an index in ranges of keys, by several threads. What
//! rows require of the indexes is added up first; entries are compared with it in the end. Of several inconsistencies the same is
//! reported as by one thread: tasks have the order of a check by one thread, and the first that fails counts.

use std::sync::{Arc, Mutex};

use treedb_query::access::{Direction, Flow, KeyRange, RowId, Source};
use treedb_query::doc;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;
use treedb_query::query::interrupt::InterruptTick;
use treedb_storage::{ReadTxn, Reads, SharedReadTxn, tasks};

use crate::catalog::meta::Meta;
use crate::index::{IndexKind, Mismatch, Required, by_kind};
use crate::read::view::View;

/// Rows and entries in a task, about: enough that a task is worth its beginning, and few enough that no thread is left with one.
const TASK: u64 = 32_768;
/// Rows and entries between two reports of progress.
const STEP: u64 = 4_096;
/// Bytes of rows after which progress is reported before that.
const STEP_BYTES: usize = 4 << 20;

/// What [`Database::check`](crate::Database::check) has checked in one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionCheck {
    /// Its name.
    pub namespace: String,
    /// The number of rows, each decoded and validated.
    pub rows: u64,
    /// The name of each index, and the number of its entries, each compared with its row: of all fields of a search index together.
    pub indexes: Vec<(String, u64)>,
}

/// Rows of a collection: of this number, with the ids `from..to`.
struct RowTask {
    collection: usize,
    from: u64,
    to: Option<u64>,
}

/// Entries of an index of a collection, both by their numbers.
struct EntryTask {
    collection: usize,
    index: usize,
    keys: KeyRange,
}

/// Rows that a task has seen, and what they require of each index.
struct Rows {
    rows: u64,
    required: Vec<Required>,
}

/// The number of the first collection with a row that is not as it should be, and what is wrong with it.
type Inconsistent = (usize, QueryError);

/// A check that runs.
struct Check<'a> {
    reads: &'a Arc<Mutex<ReadTxn>>,
    metas: &'a [Arc<Meta>],
    threads: usize,
    on_checked: &'a (dyn Fn(u64) + Sync),
}

/// Numbers of rows and of entries of indexes that [`collections`] checks.
pub(crate) fn entries_to_check(reads: &ReadTxn, metas: &[Arc<Meta>]) -> Result<u64> {
    let mut total = 0;
    for meta in metas {
        total += reads.len(&meta.rows)?;
        for index in &meta.indexes {
            total += reads.len(&index.table)?;
        }
    }
    Ok(total)
}

/// Checks collections in a snapshot, by so many threads, this one among them. An index that is being built must not have wrong
/// entries, but may lack some. `on_checked` is called by any of the threads with the number of rows and entries since its last call.
///
/// # Errors
/// The first inconsistency; `Interrupted`, if this thread is to stop.
pub(crate) fn collections(
    reads: ReadTxn,
    metas: &[Arc<Meta>],
    threads: usize,
    on_checked: &(dyn Fn(u64) + Sync),
) -> Result<Vec<CollectionCheck>> {
    let reads = Arc::new(Mutex::new(reads));
    Check { reads: &reads, metas, threads, on_checked }.run()
}

impl Check<'_> {
    fn run(&self) -> Result<Vec<CollectionCheck>> {
        let (rows, failed_rows) = self.rows()?;
        // What is wrong with an index of an earlier collection would have been found first.
        let whole = failed_rows.as_ref().map_or(self.metas.len(), |(collection, _)| *collection);
        let metas = self.metas.get(..whole).unwrap_or_default();
        let mut tasks = Vec::new();
        let shared = SharedReadTxn::new(self.reads);
        for (collection, meta) in metas.iter().enumerate() {
            let view = View { reads: &shared, meta };
            for (number, index) in meta.indexes.iter().enumerate() {
                let parts = self.parts(shared.len(&index.table)?);
                let ranges = by_kind!(&index.def, kind => kind.check_parts(&view, parts))?;
                tasks.extend(ranges.into_iter().map(|keys| EntryTask { collection, index: number, keys }));
            }
        }
        let mut counted =
            self.in_parallel(&tasks, &|reads, task: &EntryTask| self.entries(reads, &rows, task)).into_iter();
        let mut found = Vec::new();
        let mut task = tasks.iter().peekable();
        for (collection, (meta, rows)) in metas.iter().zip(&rows).enumerate() {
            let mut indexes: Vec<(String, u64)> = Vec::new();
            for (number, (index, required)) in meta.indexes.iter().zip(&rows.required).enumerate() {
                let mut entries = 0;
                while task.next_if(|task| task.collection == collection && task.index == number).is_some() {
                    // What comes after a failure may be missing.
                    entries += counted.next().transpose()?.unwrap_or_default();
                }
                by_kind!(&index.def, kind => kind.check_count(index, entries, required))
                    .map_err(|mismatch| inconsistent(meta, &index.def, mismatch))?;
                match indexes.iter_mut().find(|(name, _)| name == index.def.name()) {
                    // Another field of a search index, or one that is to take the place of another.
                    Some((_, sum)) => *sum += entries,
                    None => indexes.push((index.def.name().to_owned(), entries)),
                }
            }
            found.push(CollectionCheck { namespace: meta.namespace.to_string(), rows: rows.rows, indexes });
        }
        match failed_rows {
            Some((_, error)) => Err(error),
            None => Ok(found),
        }
    }

    /// Into how many parts so many rows or entries are divided.
    fn parts(&self, n: u64) -> usize {
        if self.threads == 1 {
            1
        } else {
            usize::try_from(n.div_ceil(TASK)).unwrap_or(usize::MAX).clamp(1, 64 * self.threads)
        }
    }

    /// Checks all rows: what each collection has, up to the first that is not as it should be.
    fn rows(&self) -> Result<(Vec<Rows>, Option<Inconsistent>)> {
        let mut tasks = Vec::new();
        let shared = SharedReadTxn::new(self.reads);
        for (collection, meta) in self.metas.iter().enumerate() {
            let mut ids = shared.rows(&meta.rows, 0)?;
            let first = ids.lend_next()?.map_or(0, |(id, _)| id);
            let last = ids.lend_next_back()?.map_or(first, |(id, _)| id);
            let parts = self.parts(shared.len(&meta.rows)?) as u64;
            let step = (last - first) / parts + 1;
            for part in 0..parts {
                let from = if part == 0 { 0 } else { first.saturating_add(part * step) };
                let to = (part + 1 < parts).then(|| first.saturating_add((part + 1) * step));
                tasks.push(RowTask { collection, from, to });
            }
        }
        let none = |meta: &Arc<Meta>| Rows {
            rows: 0,
            required: meta.indexes.iter().map(|_| Required::default()).collect(),
        };
        let mut all: Vec<Rows> = self.metas.iter().map(none).collect();
        let done = self.in_parallel(&tasks, &|reads, task: &RowTask| self.rows_of(reads, task));
        for (task, done) in tasks.iter().zip(done) {
            match done {
                Ok(part) => {
                    if let Some(sum) = all.get_mut(task.collection) {
                        sum.rows += part.rows;
                        sum.required.iter_mut().zip(part.required).for_each(|(sum, part)| sum.add(part));
                    }
                }
                Err(error) => return Ok((all, Some((task.collection, error)))),
            }
        }
        Ok((all, None))
    }

    fn rows_of(&self, reads: &SharedReadTxn, task: &RowTask) -> Result<Rows> {
        let Some(meta) = self.metas.get(task.collection) else {
            return Ok(Rows { rows: 0, required: Vec::new() });
        };
        let view = View { reads, meta };
        let mut required: Vec<Required> = meta.indexes.iter().map(|_| Required::default()).collect();
        let (mut rows, mut interrupt) = (0, InterruptTick::default());
        let (mut unreported, mut bytes) = (0, 0);
        view.scan(Direction::Forward, task.from.checked_sub(1).map(RowId), &mut |row, document| {
            if task.to.is_some_and(|to| row.0 >= to) {
                return Ok(Flow::Break(()));
            }
            interrupt.tick()?;
            rows += 1;
            (unreported, bytes) = (unreported + 1, bytes + document.as_bytes().len());
            if unreported == STEP || bytes >= STEP_BYTES {
                self.advance(unreported);
                (unreported, bytes) = (0, 0);
            }
            doc::validate(document.as_bytes())?;
            for (index, required) in meta.indexes.iter().zip(&mut required) {
                by_kind!(&index.def, kind => kind.check_row(&view, index, row, document, required))
                    .map_err(|mismatch| inconsistent(meta, &index.def, mismatch))?;
            }
            Ok(Flow::Continue(()))
        })?;
        self.advance(unreported);
        Ok(Rows { rows, required })
    }

    fn entries(&self, reads: &SharedReadTxn, rows: &[Rows], task: &EntryTask) -> Result<u64> {
        let (Some(meta), Some(rows)) = (self.metas.get(task.collection), rows.get(task.collection)) else {
            return Ok(0);
        };
        let (Some(index), Some(required)) = (meta.indexes.get(task.index), rows.required.get(task.index))
        else {
            return Ok(0);
        };
        let view = View { reads, meta };
        let entries = by_kind!(&index.def, kind => kind.check_entries(&view, index, &task.keys, required))
            .map_err(|mismatch| inconsistent(meta, &index.def, mismatch))?;
        self.advance(entries);
        Ok(entries)
    }

    fn advance(&self, n: u64) {
        if n > 0 {
            (self.on_checked)(n);
        }
    }

    /// Runs tasks by the threads. What each has copied from pages goes with it.
    fn in_parallel<K: Sync, T: Send>(
        &self,
        tasks: &[K],
        run: &(dyn Fn(&SharedReadTxn, &K) -> Result<T> + Sync),
    ) -> Vec<Result<T>> {
        tasks::run(self.threads, tasks, &|task| run(&SharedReadTxn::new(self.reads), task))
    }
}

fn inconsistent(meta: &Meta, def: &Definition, mismatch: Mismatch) -> QueryError {
    match mismatch {
        Mismatch::Found(what) => QueryError::new(
            ErrorCode::InternalError,
            format!("{}: index {} {what}; restore from a backup", meta.namespace, def.shown_name()),
        ),
        Mismatch::Failed(error) => error,
    }
}
