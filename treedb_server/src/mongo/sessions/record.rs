//! The records of transactions and retryable writes: documents of `config.transactions`.
//!
//! ```text
//! { _id: { id: UUID, part: int }, txnNum: long, lastWriteDate: date,
//!   state: "committed",                                          of a transaction
//!   statements: [ { i: int, c: int, n: long, m: long, u: any } ],  of a write: c statements from number i on
//!   reply: binary }                                              of a findAndModify: (a part of) its reply
//! ```
//!
//! A session has only the parts of its last number, part 0 first. `n` is the number of documents that a statement found,
//! inserted or deleted, `m` the number it modified, `u` the `_id` it upserted; consecutive statements with the same outcome
//! share an entry. The database `config` is excluded from the change log.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::{Database, DeleteRequest, FindRequest, Transaction, UpdateRequest, WriteBatch};
use treedb_query::query::{ErrorCode, interrupt};

use super::SessionId;
use crate::mongo::error::CommandError;
use crate::mongo::write_target::Outcome;

type Result<T> = std::result::Result<T, CommandError>;

/// The collection.
const RECORDS: &str = "config.transactions";
/// Bytes of a reply in one part.
const REPLY_PART: usize = 8 << 20;

/// The record of a number.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) number: i64,
    /// It is a transaction, and committed.
    pub(super) committed: bool,
    /// Number of parts.
    pub(super) parts: i32,
    pub(super) done: CompletedStatements,
}

/// Executed statements with their outcomes.
#[derive(Debug, Default)]
pub(super) struct CompletedStatements {
    /// Runs of statements with the same outcome: by the number of the first, with their count.
    runs: BTreeMap<i32, (i32, Outcome)>,
    reply: Vec<u8>,
}

impl CompletedStatements {
    /// The outcome of a statement, by its number.
    pub(super) fn get(&self, statement: i32) -> Option<&Outcome> {
        let (first, (count, outcome)) = self.runs.range(..=statement).next_back()?;
        (statement - first < *count).then_some(outcome)
    }

    /// The reply of the command, if it was recorded.
    pub(super) fn reply(&self) -> Result<Option<RawDocumentBuf>> {
        if self.reply.is_empty() {
            return Ok(None);
        }
        Ok(Some(RawDocumentBuf::from_bytes(self.reply.clone())?))
    }

    fn read(&mut self, part: &RawDocument) -> Result<()> {
        if let Some(RawBsonRef::Binary(bytes)) = part.get("reply")? {
            self.reply.extend_from_slice(bytes.bytes);
        }
        let Some(RawBsonRef::Array(statements)) = part.get("statements")? else { return Ok(()) };
        for statement in statements {
            let run = statement?.as_document().ok_or_else(damaged)?;
            let number = |name| run.get_i64(name).map_err(|_| damaged());
            let count = |name| run.get_i32(name).map_err(|_| damaged());
            let outcome = Outcome {
                found: number("n")?.unsigned_abs(),
                modified: number("m")?.unsigned_abs(),
                upserted: run.get("u")?.map(Into::into),
            };
            self.runs.insert(count("i")?, (count("c")?, outcome));
        }
        Ok(())
    }
}

fn damaged() -> CommandError {
    CommandError::new(
        ErrorCode::InternalError,
        format!("a document of {RECORDS} was not written by this server: delete it"),
    )
}

fn part_id(session: SessionId, part: i32) -> RawDocumentBuf {
    rawdoc! { "id": session.binary(), "part": part }
}

/// The record of a session.
pub(super) fn load(database: &Database, session: SessionId) -> Result<Option<Record>> {
    interrupt::aside(|| find(database, session))
}

fn find(database: &Database, session: SessionId) -> Result<Option<Record>> {
    let filter = rawdoc! { "_id": { "$gte": part_id(session, 0), "$lte": part_id(session, i32::MAX) } };
    let parts = database.collection(RECORDS)?.find(FindRequest::filter(filter).sort(rawdoc! { "_id": 1 }))?;
    let mut record: Option<Record> = None;
    for part in parts {
        let part = part?;
        let number = part.get_i64("txnNum").map_err(|_| damaged())?;
        let record = record.get_or_insert_with(|| Record {
            number,
            committed: part.get_str("state").is_ok_and(|state| state == "committed"),
            parts: 0,
            done: CompletedStatements::default(),
        });
        record.parts += 1;
        record.done.read(&part)?;
    }
    Ok(record)
}

/// The parts for a committed transaction.
pub(super) fn committed() -> Vec<RawDocumentBuf> {
    vec![rawdoc! { "state": "committed" }]
}

/// The part for statements with their numbers.
pub(super) fn statements<'o>(done: impl Iterator<Item = (i32, &'o Outcome)>) -> Vec<RawDocumentBuf> {
    let mut runs: Vec<(i32, i32, &Outcome)> = Vec::new();
    for (statement, outcome) in done {
        match runs.last_mut() {
            Some((first, count, same)) if *same == outcome && statement == *first + *count => *count += 1,
            _ => runs.push((statement, 1, outcome)),
        }
    }
    let mut all = RawArrayBuf::new();
    for (first, count, outcome) in runs {
        let long = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let mut run =
            rawdoc! { "i": first, "c": count, "n": long(outcome.found), "m": long(outcome.modified) };
        if let Some(id) = &outcome.upserted {
            run.append(cstr!("u"), id.clone());
        }
        all.push(run);
    }
    vec![rawdoc! { "statements": all }]
}

/// The parts for a reply.
pub(super) fn reply(reply: &RawDocument) -> Vec<RawDocumentBuf> {
    let part = |bytes: &[u8]| {
        rawdoc! { "reply": Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() } }
    };
    reply.as_bytes().chunks(REPLY_PART).map(part).collect()
}

/// The transaction that a record is written in, together with the changes that it describes.
pub(super) trait RecordWriter {
    fn put(&mut self, part: UpdateRequest) -> Result<()>;
    fn delete(&mut self, parts: DeleteRequest) -> Result<()>;
}

impl RecordWriter for Transaction {
    fn put(&mut self, part: UpdateRequest) -> Result<()> {
        self.collection(RECORDS)?.update(part)?;
        Ok(())
    }

    fn delete(&mut self, parts: DeleteRequest) -> Result<()> {
        self.collection(RECORDS)?.delete(parts)?;
        Ok(())
    }
}

impl RecordWriter for WriteBatch {
    fn put(&mut self, part: UpdateRequest) -> Result<()> {
        self.update(RECORDS, part)?;
        Ok(())
    }

    fn delete(&mut self, parts: DeleteRequest) -> Result<()> {
        WriteBatch::delete(self, RECORDS, parts)?;
        Ok(())
    }
}

/// Writes parts in the transaction that they describe, starting at part number `from`; if that is 0, they replace the `old`
/// existing parts.
pub(super) fn write(
    to: &mut impl RecordWriter,
    (session, number): (SessionId, i64),
    from: i32,
    old: i32,
    parts: Vec<RawDocumentBuf>,
) -> Result<()> {
    if from == 0 && old > 1 {
        let others = rawdoc! { "$gte": part_id(session, 1), "$lte": part_id(session, i32::MAX) };
        let filter = rawdoc! { "_id": others };
        interrupt::aside(|| to.delete(DeleteRequest::many(filter)))?;
    }
    for (at, content) in (from..).zip(parts) {
        let id = part_id(session, at);
        let mut document = rawdoc! {
            "_id": id.clone(), "txnNum": number, "lastWriteDate": DateTime::now(),
        };
        for field in &content {
            let (name, value) = field?;
            document.append(name, RawBson::from(value));
        }
        interrupt::aside(|| to.put(UpdateRequest::one(rawdoc! { "_id": id }, document).upsert()))?;
    }
    Ok(())
}

/// Deletes records that were last written longer than `age` ago.
pub(super) fn forget(database: &Database, age: Duration) -> Result<u64> {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let before = DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(age));
    let filter = rawdoc! { "lastWriteDate": { "$lt": before } };
    let records = database.collection(RECORDS)?;
    Ok(records.delete(DeleteRequest::many(filter))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (Database, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Database::open(dir.path()).unwrap(), dir)
    }

    fn session() -> SessionId {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: vec![9; 16] };
        SessionId::read(RawBson::Document(rawdoc! { "id": id }).as_raw_bson_ref(), None).unwrap()
    }

    fn outcome(found: u64, upserted: Option<i32>) -> Outcome {
        Outcome { found, modified: found, upserted: upserted.map(RawBson::Int32) }
    }

    #[test]
    fn a_record_round_trips_and_is_replaced_by_the_next() {
        let (database, _dir) = database();
        assert!(load(&database, session()).unwrap().is_none());
        let outcomes = [outcome(1, None), outcome(1, None), outcome(0, Some(5)), outcome(1, None)];
        let numbered = || (3..).zip(&outcomes);
        for (number, parts) in
            [(4, vec![statements(numbered()), statements([(9, &outcomes[0])].into_iter())])]
        {
            for (at, part) in (0..).zip(parts) {
                let mut txn = database.begin().unwrap();
                write(&mut txn, (session(), number), at, 0, part).unwrap();
                txn.commit().unwrap();
            }
        }
        let record = load(&database, session()).unwrap().unwrap();
        assert_eq!((record.number, record.committed, record.parts), (4, false, 2));
        for (statement, outcome) in numbered() {
            assert_eq!(record.done.get(statement), Some(outcome));
        }
        assert_eq!(record.done.get(9), Some(&outcomes[0]));
        assert!([2, 7, 8, 10].iter().all(|&statement| record.done.get(statement).is_none()));
        assert!(record.done.reply().unwrap().is_none());

        let mut txn = database.begin().unwrap();
        write(&mut txn, (session(), 5), 0, 2, committed()).unwrap();
        txn.commit().unwrap();
        let record = load(&database, session()).unwrap().unwrap();
        assert_eq!((record.number, record.committed, record.parts), (5, true, 1));
        assert_eq!(forget(&database, Duration::from_secs(60)).unwrap(), 0);
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(forget(&database, Duration::ZERO).unwrap(), 1);
    }

    #[test]
    fn a_reply_of_the_maximal_document_size_is_recorded() {
        let (database, _dir) = database();
        let large = rawdoc! { "value": { "x": "y".repeat(16_777_000) } };
        let mut txn = database.begin().unwrap();
        write(&mut txn, (session(), 1), 0, 0, reply(&large)).unwrap();
        txn.commit().unwrap();
        let record = load(&database, session()).unwrap().unwrap();
        assert_eq!(record.parts, 2);
        assert_eq!(record.done.reply().unwrap().unwrap(), large);
    }
}
