//! Retryable writes: statements that are applied once, however often they arrive.
//!
//! A command's statements and the record of their outcomes are one transaction. If one fails, those before it are committed;
//! those after it form the next transaction, unless the command is ordered.

use std::collections::BTreeSet;
use std::ops::Range;

use bson::{RawDocument, RawDocumentBuf};
use treedb_collections::{Collection, Database, WriteBatch};
use treedb_query::doc::Origin;
use treedb_storage::Durability;

use super::SessionId;
use super::record::{self, CompletedStatements};
use crate::mongo::error::CommandError;
use crate::mongo::write_target::{Outcome, WriteTarget};

type Result<T> = std::result::Result<T, CommandError>;

/// The state of a session's record in the database.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordState {
    /// The number that it describes.
    pub(super) number: i64,
    /// Number of documents; 0 if there is no record.
    pub(super) parts: i32,
}

/// A retryable write, which may have been executed already.
pub(crate) struct Retries {
    key: (SessionId, i64),
    database: Database,
    written: RecordState,
    /// The number has been seen before.
    seen_before: bool,
}

/// The statements of a command.
pub(crate) struct Statements<'s> {
    pub(crate) statements: &'s [&'s RawDocument],
    /// The number of each, by its index.
    pub(crate) number: &'s dyn Fn(usize) -> i32,
    /// Whether to stop at the first that fails.
    pub(crate) ordered: bool,
    /// They are documents to insert.
    pub(crate) inserts: Option<Origin>,
    /// Durability of the last, and of the others.
    pub(crate) durability: (Durability, Durability),
}

/// Applies a statement, given its index.
pub(crate) type ApplyStatement<'e> =
    dyn FnMut(usize, &RawDocument, &mut WriteTarget<'_>) -> Result<Outcome> + 'e;

/// Why statements could not be committed together.
enum Failed {
    /// This statement failed.
    At(usize, CommandError),
    /// The commit failed.
    WriteBatch,
}

impl Retries {
    pub(super) fn new(
        key: (SessionId, i64),
        database: Database,
        written: RecordState,
        seen_before: bool,
    ) -> Self {
        Retries { key, database, written, seen_before }
    }

    pub(super) fn written(&self) -> RecordState {
        self.written
    }

    /// The statements that an earlier attempt with this number has completed.
    fn done(&mut self) -> Result<CompletedStatements> {
        if !self.seen_before {
            return Ok(CompletedStatements::default());
        }
        let Some(record) = record::load(&self.database, self.key.0)? else {
            self.written = RecordState::default();
            return Ok(CompletedStatements::default());
        };
        self.written = RecordState { number: record.number, parts: record.parts };
        Ok(if record.number == self.key.1 { record.done } else { CompletedStatements::default() })
    }

    /// Applies the statements that have not been applied, and reports the outcome of each, by its index. Returns true if
    /// there are writes that are less durable than requested for the last.
    ///
    /// # Errors
    /// Those of reading the record.
    pub(crate) fn run(
        &mut self,
        statements: &Statements<'_>,
        collection: &Collection,
        each: &mut ApplyStatement<'_>,
        report: &mut dyn FnMut(usize, Result<Outcome>),
    ) -> Result<bool> {
        let done = self.done()?;
        let total = statements.statements.len();
        if let Some(origin) = statements.inserts
            && !(0..total).any(|at| done.get((statements.number)(at)).is_some())
        {
            self.insert(statements, origin, collection, report)?;
            return Ok(false);
        }
        let (mut from, mut unflushed) = (0, false);
        while from < total {
            if let Some(outcome) = done.get((statements.number)(from)) {
                report(from, Ok(outcome.clone()));
                from += 1;
                continue;
            }
            let is_done = |at: &usize| done.get((statements.number)(*at)).is_some();
            let mut end = (from..total).find(is_done).unwrap_or(total);
            let mut failed = None;
            while from < end {
                match self.write_batch(from..end, statements, collection, each) {
                    Ok((outcomes, committed)) => {
                        // Without changes nothing was committed, nor flushed that was before.
                        if committed {
                            unflushed = end != total;
                        }
                        (from..).zip(outcomes).for_each(|(at, outcome)| report(at, Ok(outcome)));
                        from = end;
                    }
                    // It waits for the other transaction if it comes first.
                    Err(Failed::At(at, error)) if at > from && error.is_conflict() => {
                        end = at;
                        failed = None;
                    }
                    Err(Failed::At(at, error)) => {
                        end = at;
                        failed = Some(error);
                    }
                    Err(Failed::WriteBatch) => {
                        end = from + (end - from) / 2;
                        failed = None;
                    }
                }
            }
            if let Some(error) = failed {
                report(end, Err(error));
                if statements.ordered {
                    break;
                }
                from = end + 1;
            }
        }
        Ok(unflushed)
    }

    /// Runs a command of one statement, unless it has been run, and returns its reply.
    ///
    /// # Errors
    /// The command's.
    pub(crate) fn once(
        &mut self,
        durability: Durability,
        collection: &Collection,
        apply: &mut dyn FnMut(&mut WriteTarget<'_>) -> Result<RawDocumentBuf>,
    ) -> Result<RawDocumentBuf> {
        if let Some(reply) = self.done()?.reply()? {
            return Ok(reply);
        }
        let mut batch = self.database.write_batch()?;
        let reply = apply(&mut WriteTarget::Batch(&mut batch, collection))?;
        self.commit(batch, durability, || record::reply(&reply))?;
        Ok(reply)
    }

    /// Inserts all documents that are not refused, in one transaction.
    fn insert(
        &mut self,
        statements: &Statements<'_>,
        origin: Origin,
        collection: &Collection,
        report: &mut dyn FnMut(usize, Result<Outcome>),
    ) -> Result<()> {
        let mut batch = self.database.write_batch()?;
        batch.set_validation(collection.validates());
        let namespace = collection.namespace().as_str();
        let (documents, ordered) = (statements.statements, statements.ordered);
        let done = batch.insert_many_of(namespace, documents, ordered, origin)?;
        let inserted = Outcome { found: 1, ..Outcome::default() };
        let total = match done.errors.first() {
            Some((at, _)) if statements.ordered => at + 1,
            _ => statements.statements.len(),
        };
        let refused: BTreeSet<usize> = done.errors.iter().map(|(at, _)| *at).collect();
        let here = (0..total).filter(|at| !refused.contains(at));
        let numbers = || here.map(|at| ((statements.number)(at), &inserted));
        self.commit(batch, statements.durability.0, || record::statements(numbers()))?;
        let mut errors = done.errors.into_iter().peekable();
        for at in 0..total {
            match errors.next_if(|(refused, _)| *refused == at) {
                Some((_, error)) => report(at, Err(error.into())),
                None => report(at, Ok(inserted.clone())),
            }
        }
        Ok(())
    }

    /// Applies the statements in `range` in one transaction; returns their outcomes, and whether there was anything to commit.
    fn write_batch(
        &mut self,
        range: Range<usize>,
        statements: &Statements<'_>,
        collection: &Collection,
        each: &mut ApplyStatement<'_>,
    ) -> std::result::Result<(Vec<Outcome>, bool), Failed> {
        let alone = range.len() == 1;
        let last = range.end == statements.statements.len();
        let durability = if last { statements.durability.0 } else { statements.durability.1 };
        let mut batch = self.database.write_batch().map_err(|error| Failed::At(range.start, error.into()))?;
        let mut outcomes = Vec::with_capacity(range.len());
        for (at, statement) in
            (range.start..).zip(statements.statements.get(range.clone()).unwrap_or_default())
        {
            match each(at, statement, &mut WriteTarget::Batch(&mut batch, collection)) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => return Err(Failed::At(at, error)),
            }
        }
        let numbered = || (range.start..).map(statements.number).zip(&outcomes);
        match self.commit(batch, durability, || record::statements(numbered())) {
            Ok(committed) => Ok((outcomes, committed)),
            Err(error) if alone => Err(Failed::At(range.start, error)),
            Err(_) => Err(Failed::WriteBatch),
        }
    }

    /// Commits changes together with their record; false if there are no changes.
    fn commit(
        &mut self,
        mut batch: WriteBatch,
        durability: Durability,
        parts: impl FnOnce() -> Vec<RawDocumentBuf>,
    ) -> Result<bool> {
        if batch.changes() == 0 {
            return Ok(false);
        }
        let parts = parts();
        let RecordState { number, parts: old } = self.written;
        let continues = old > 0 && number == self.key.1;
        let from = if continues { old } else { 0 };
        let many = from.saturating_add(i32::try_from(parts.len()).unwrap_or(i32::MAX));
        record::write(&mut batch, self.key, from, old, parts)?;
        batch.commit_with(durability)?;
        self.written = RecordState { number: self.key.1, parts: many };
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, RawBson, rawdoc};
    use treedb_query::query::ErrorCode;

    use super::*;

    #[test]
    fn writes_that_were_not_flushed_are_told_also_if_the_last_statements_change_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path()).unwrap();
        let collection = database.collection("db.c").unwrap();
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![9; 16] };
        let lsid = RawBson::Document(rawdoc! { "id": id });
        let session = SessionId::read(lsid.as_raw_bson_ref(), None).unwrap();
        let [writes, fails, nothing] = ["writes", "fails", "nothing"].map(|does| rawdoc! { "does": does });
        let mut apply = |at: usize, statement: &RawDocument, target: &mut WriteTarget<'_>| match statement
            .get_str("does")
            .unwrap()
        {
            "writes" => target.insert(&rawdoc! { "at": i32::try_from(at).unwrap() }, Origin::Program),
            "fails" => Err(CommandError::new(ErrorCode::BadValue, "as it should")),
            _ => Ok(Outcome::default()),
        };
        for (number, statements, expected) in [
            (1, vec![&writes, &fails, &nothing], true),
            (2, vec![&writes, &fails], true),
            (3, vec![&writes, &fails, &writes], false),
            (4, vec![&nothing, &fails, &nothing], false),
            (5, vec![&writes, &fails, &writes, &fails, &nothing], true),
        ] {
            let statements: Vec<&RawDocument> = statements.into_iter().map(|each| &**each).collect();
            let mut retries =
                Retries::new((session, number), database.clone(), RecordState::default(), false);
            let statements = Statements {
                statements: &statements,
                number: &|at| i32::try_from(at).unwrap(),
                ordered: false,
                inserts: None,
                durability: (Durability::Durable, Durability::Relaxed),
            };
            let unflushed = retries.run(&statements, &collection, &mut apply, &mut |_, _| {}).unwrap();
            assert_eq!(unflushed, expected, "command {number}");
        }
    }
}
