//! The common part of the write commands: options, statements, and the reply.

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::Collection;
use treedb_query::doc::{self, Origin, validate_with};
use treedb_query::query::ErrorCode;
use treedb_storage::Durability;

use super::Result;
use super::hello::MAX_WRITE_BATCH;
use super::request::Request;
use crate::mongo::args::{Arg, args, number};
use crate::mongo::error::CommandError;
use crate::mongo::ignored_options::is_ignored;
use crate::mongo::protocol_code::ProtocolCode;
use crate::mongo::sessions::{ApplyStatement, CommandScope, Statements};
use crate::mongo::topology::Topology;
use crate::mongo::write_target::{Outcome, WriteTarget};

/// Bytes of write errors in one reply; the rest are counted only. A reply is a document.
const ERROR_BYTES: usize = 8 << 20;

/// The options of a write command.
pub(super) struct Options {
    /// Stop at the first statement that fails.
    pub(super) ordered: bool,
    /// When the write is acknowledged; `None` for the database's own default.
    pub(super) durability: Option<Durability>,
    /// Documents need not match the collection's validator.
    bypass: bool,
    /// Timestamps of zero are stored as they are.
    keeps_empty_timestamps: bool,
    /// The number of the first statement; the others follow.
    first: Option<i32>,
    /// The number of each.
    numbers: Option<Vec<i32>>,
}

impl Options {
    /// The defaults.
    pub(super) fn new() -> Self {
        Options {
            ordered: true,
            durability: None,
            bypass: false,
            keeps_empty_timestamps: false,
            first: None,
            numbers: None,
        }
    }

    /// The number of the statement with index `at`, by which a retry identifies it.
    fn number(&self, at: usize) -> i32 {
        match &self.numbers {
            Some(numbers) => numbers.get(at).copied().unwrap_or(i32::MAX),
            None => self.first.unwrap_or(0).saturating_add(i32::try_from(at).unwrap_or(i32::MAX)),
        }
    }

    /// Refuses numbers that are not those of `count` statements.
    pub(super) fn check_numbers(&self, count: usize) -> Result<()> {
        let Some(numbers) = &self.numbers else { return Ok(()) };
        if self.first.is_some() {
            let message = "May not specify both stmtId and stmtIds in write command";
            return Err(CommandError::new(ErrorCode::InvalidOptions, message));
        }
        if numbers.len() != count {
            let message = format!(
                "Number of statement ids must match the number of batch entries. Got {} statement ids but {count} operations.",
                numbers.len()
            );
            return Err(CommandError::new(ErrorCode::InvalidLength, message));
        }
        Ok(())
    }

    /// What is known of the documents to store.
    pub(super) fn origin(&self) -> Origin {
        if self.keeps_empty_timestamps { Origin::Program } else { Origin::Client }
    }

    /// `collection`, writing as the command asks.
    pub(super) fn acknowledge(&self, collection: Collection) -> Collection {
        let collection = if self.bypass { collection.without_validation() } else { collection };
        match self.durability {
            Some(durability) => collection.with_durability(durability),
            None => collection,
        }
    }

    /// The durability of the acknowledged command.
    pub(super) fn promised(&self, request: &Request<'_>) -> Durability {
        self.durability.unwrap_or(request.context.durability)
    }

    /// `collection` for the statements before the last: the log is flushed in order, so that waiting for the last
    /// statement makes all of them durable.
    pub(super) fn in_between(&self, request: &Request<'_>, collection: &Collection) -> Collection {
        match self.promised(request) {
            Durability::Durable => collection.with_durability(Durability::Relaxed),
            other => collection.with_durability(other),
        }
    }

    /// Flushes the writes of [`Self::in_between`], if the last statement wrote nothing itself.
    pub(super) fn flush(&self, request: &Request<'_>) -> Result<()> {
        if self.promised(request) == Durability::Durable {
            request.context.flush()?;
        }
        Ok(())
    }

    /// Reads `arg` if it is an option of every write command; false if it is none.
    pub(super) fn read(&mut self, arg: &Arg<'_>) -> Result<bool> {
        match arg.name {
            "ordered" => self.ordered = arg.bool()?,
            "writeConcern" => self.durability = write_concern(arg.document()?)?,
            "bypassDocumentValidation" => self.bypass = arg.bool()?,
            "bypassEmptyTsReplacement" => self.keeps_empty_timestamps = arg.bool()?,
            "isTimeseriesNamespace" => arg.unsupported()?,
            "stmtId" => self.first = Some(statement_number(arg.integer()?)?),
            "stmtIds" => {
                let mut numbers = Vec::new();
                for number in arg.array()? {
                    let number = crate::mongo::args::number(number?).unwrap_or(-1.0);
                    numbers.push(statement_number(number as i64)?);
                }
                self.numbers = Some(numbers);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn statement_number(number: i64) -> Result<i32> {
    i32::try_from(number).ok().filter(|&number| number >= 0).ok_or_else(|| {
        CommandError::new(ErrorCode::BadValue, "statement numbers must be non-negative integers")
    })
}

/// The durability that a write concern specifies.
///
/// | write concern | acknowledged |
/// |---|---|
/// | none, `w: 1`, `w: "majority"` | the server's default: durable unless configured otherwise |
/// | `j: true` | when it is on disk |
/// | `j: false` | when it is visible; a power cut may lose the most recent writes |
/// | `w: 0` | like `j: false`, and drivers do not wait for the reply at all |
///
/// # Errors
/// `FailedToParse` and `BadValue` for what is no write concern.
pub(crate) fn write_concern(concern: &RawDocument) -> Result<Option<Durability>> {
    let (mut w0, mut journal) = (false, None);
    for element in concern {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("w", RawBsonRef::String(_)) => {}
            ("w", value) => match number(value) {
                Some(0.0) => w0 = true,
                // Of more members than there are: [`Unsatisfiable`].
                Some(1.0..=50.0) => {}
                _ => {
                    return Err(CommandError::new(
                        ErrorCode::FailedToParse,
                        "w must be a number from 0 to 50, or a string",
                    ));
                }
            },
            ("j" | "fsync", RawBsonRef::Boolean(wanted)) => journal = Some(wanted),
            ("j" | "fsync", value) => match number(value) {
                Some(n) => journal = Some(n != 0.0),
                None => {
                    return Err(CommandError::new(
                        ErrorCode::FailedToParse,
                        "j must be numeric or a boolean value",
                    ));
                }
            },
            (option, _) if is_ignored("writeConcern", option) => {}
            (other, _) => {
                return Err(CommandError::new(
                    ErrorCode::FailedToParse,
                    format!("unrecognized write concern field: {other}"),
                ));
            }
        }
    }
    if w0 && journal == Some(true) {
        return Err(CommandError::new(ErrorCode::BadValue, "cannot use 'j: true' with 'w: 0'"));
    }
    Ok(match journal {
        Some(true) => Some(Durability::Durable),
        Some(false) => Some(Durability::Relaxed),
        None if w0 => Some(Durability::Relaxed),
        None => None,
    })
}

/// A write concern that more members would have to acknowledge than there are.
pub(super) struct Unsatisfiable(RawDocumentBuf);

impl Unsatisfiable {
    /// That of a command; `None` if the only member is enough.
    ///
    /// # Errors
    /// `BadValue` on a standalone. The member of a replica set executes the command, and reports the failure afterwards.
    pub(super) fn of(request: &Request<'_>) -> Result<Option<Self>> {
        let Some(RawBsonRef::Document(concern)) = request.fields.write_concern else {
            return Ok(None);
        };
        let Some(w) = concern.get("w")? else { return Ok(None) };
        let (code, message) = match w {
            RawBsonRef::String("majority") => return Ok(None),
            RawBsonRef::String(tag) => {
                (ProtocolCode::UnknownReplWriteConcern, format!("No write concern mode named '{tag}' found"))
            }
            other if number(other).is_some_and(|n| n > 1.0) => {
                (ProtocolCode::UnsatisfiableWriteConcern, "Not enough data-bearing nodes".to_owned())
            }
            _ => return Ok(None),
        };
        if matches!(request.context.topology, Topology::Standalone) {
            return Err(CommandError::new(
                ErrorCode::BadValue,
                match w {
                    RawBsonRef::String(tag) => format!(
                        "cannot use non-majority 'w' mode '{tag}' when a host is not a member of a replica set"
                    ),
                    _ => "cannot use 'w' > 1 when a host is not replicated".to_owned(),
                },
            ));
        }
        let info = rawdoc! { "writeConcern": concern.to_owned() };
        Ok(Some(Unsatisfiable(
            rawdoc! { "code": code.number(), "codeName": code.name(), "errmsg": message, "errInfo": info },
        )))
    }

    /// Adds the failure to the reply of the command, which has been executed.
    pub(super) fn report(self, mut reply: RawDocumentBuf) -> RawDocumentBuf {
        reply.append(cstr!("writeConcernError"), self.0);
        reply
    }
}

/// Makes a change of the catalog, which is committed as the server's default says, as durable as its write concern asks.
pub(super) fn flush_catalog_change(request: &Request<'_>, requested: Option<Durability>) -> Result<()> {
    if requested == Some(Durability::Durable) && request.context.durability != Durability::Durable {
        request.context.flush()?;
    }
    Ok(())
}

/// The statements of a write command.
pub(super) fn statements<'a>(request: &Request<'a>, name: &str) -> Result<Vec<&'a RawDocument>> {
    request.only_sequence(name)?;
    checked_count(request.documents(name)?)
}

/// The same statements, if they are not too many.
pub(super) fn checked_count(statements: Vec<&RawDocument>) -> Result<Vec<&RawDocument>> {
    if statements.is_empty() || statements.len() > MAX_WRITE_BATCH {
        return Err(CommandError::new(
            ErrorCode::InvalidLength,
            format!(
                "Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {} operations.",
                statements.len()
            ),
        ));
    }
    Ok(statements)
}

/// The variables that a command's `let` gives its statements.
pub(super) fn variables(owner: &str, command: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let mut variables = None;
    for arg in args(owner, command).skip(1) {
        let arg = arg?;
        if arg.name == "let" {
            variables = arg.some_document()?;
        }
    }
    Ok(variables)
}

/// What is known of the documents that a command stores, before its options are read.
pub(super) fn origin(request: &Request<'_>) -> Result<Origin> {
    let mut options = Options::new();
    for arg in request.args() {
        let arg = arg?;
        if arg.name == "bypassEmptyTsReplacement" {
            options.read(&arg)?;
        }
    }
    Ok(options.origin())
}

/// Executes the statements `name` of a command. `each` gets a statement's index, the statement and the target of its writes.
/// With `ordered` the first error ends the command.
///
/// | the command is | |
/// |---|---|
/// | standalone | each statement is one transaction; it waits for the disk once, after the last |
/// | a retryable write | its statements are one transaction, up to one that fails: see [`Retries`](crate::mongo::sessions::Retries) |
/// | in a transaction | the first statement that fails has ended the transaction |
pub(super) fn each_statement(
    request: &Request<'_>,
    name: &str,
    each: &mut ApplyStatement<'_>,
) -> Result<Tally> {
    let mut options = Options::new();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            _ if arg.name == name => {}
            // Read by the command.
            "let" if name != "documents" => {}
            _ if options.read(&arg)? => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    let statements = statements(request, name)?;
    let collection = options.acknowledge(request.collection()?);
    let mut tally = Tally::default();
    let inserts = name == "documents";
    execute(request, &options, &statements, &collection, inserts, each, &mut |at, done| tally.add(at, done))?;
    Ok(tally)
}

/// Executes statements, which are `inserts` if they are documents, and reports the outcome of each.
pub(super) fn execute(
    request: &Request<'_>,
    options: &Options,
    statements: &[&RawDocument],
    collection: &Collection,
    inserts: bool,
    each: &mut ApplyStatement<'_>,
    report: &mut dyn FnMut(usize, Result<Outcome>),
) -> Result<()> {
    options.check_numbers(statements.len())?;
    match request.scope {
        CommandScope::Standalone => {
            let relaxed = options.in_between(request, collection);
            let last = statements.len().saturating_sub(1);
            // There are writes that have not been flushed.
            let mut unflushed = false;
            for (index, statement) in statements.iter().enumerate() {
                let to = if index == last { collection } else { &relaxed };
                let done = each(index, statement, &mut WriteTarget::Collection(to));
                unflushed = match &done {
                    Ok(outcome) if outcome.wrote() => index != last,
                    _ => unflushed,
                };
                let failed = done.is_err();
                report(index, done);
                if failed && options.ordered {
                    break;
                }
            }
            if unflushed {
                options.flush(request)?;
            }
        }
        CommandScope::Retryable(retries) => {
            let promised = options.promised(request);
            let between = if promised == Durability::Durable { Durability::Relaxed } else { promised };
            let statements = Statements {
                statements,
                number: &|at| options.number(at),
                ordered: options.ordered,
                inserts: inserts.then(|| options.origin()),
                durability: (promised, between),
            };
            let unflushed = retries.borrow_mut().run(&statements, collection, each, report)?;
            if unflushed {
                options.flush(request)?;
            }
        }
        CommandScope::Transaction(open) => {
            let mut open = open.borrow_mut();
            for (index, statement) in statements.iter().enumerate() {
                match each(index, statement, &mut WriteTarget::Transaction(&mut open.txn, collection)) {
                    Err(error) if error.is_conflict() => return Err(error),
                    done => {
                        open.failed = done.is_err();
                        report(index, done);
                    }
                }
                if open.failed {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The outcomes of the statements of a command.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) found: u64,
    pub(super) modified: u64,
    pub(super) upserted: Option<RawArrayBuf>,
    pub(super) errors: WriteErrors,
}

impl Tally {
    fn add(&mut self, index: usize, done: Result<Outcome>) {
        match done {
            Ok(outcome) => {
                self.found += outcome.found;
                self.modified += outcome.modified;
                if let Some(id) = outcome.upserted {
                    let mut entry = RawDocumentBuf::new();
                    entry.append(cstr!("index"), i32::try_from(index).unwrap_or(i32::MAX));
                    entry.append(cstr!("_id"), id);
                    self.upserted.get_or_insert_with(RawArrayBuf::new).push(entry);
                }
            }
            Err(error) => self.errors.push(index, error),
        }
    }
}

/// Refuses statements that modify several documents in a retryable write: a retry could find others.
pub(super) fn not_many(request: &Request<'_>, many: bool) -> Result<()> {
    match request.scope {
        CommandScope::Retryable(_) if many => Err(CommandError::new(
            ErrorCode::InvalidOptions,
            "Cannot use retryable writes with statements about many documents (multi: true, limit: 0)",
        )),
        _ => Ok(()),
    }
}

/// Validates a statement of a section, of which only the length has been checked.
pub(super) fn check_statement(statement: &RawDocument) -> Result<()> {
    let limits = doc::Limits { size: 2 * doc::MAX_DOCUMENT_SIZE, depth: doc::MAX_DEPTH + 3 };
    validate_with(statement.as_bytes(), limits)?;
    Ok(())
}

/// An error as a reply has it that holds so many bytes already: after [`ERROR_BYTES`] without what users have sent.
pub(super) fn bounded(mut error: CommandError, bytes: usize) -> CommandError {
    if bytes > ERROR_BYTES {
        error.shorten();
    }
    error
}

/// The statements that failed, for a reply.
#[derive(Default)]
pub(super) struct WriteErrors {
    entries: RawArrayBuf,
    bytes: usize,
    any: bool,
}

impl WriteErrors {
    /// Records that statement `index` failed.
    pub(super) fn push(&mut self, index: usize, error: CommandError) {
        self.any = true;
        let entry = bounded(error, self.bytes).write_error(index);
        self.bytes += entry.as_bytes().len();
        self.entries.push(entry);
    }

    /// Adds `writeErrors` to `reply`, if there are any.
    pub(super) fn append_to(self, reply: &mut RawDocumentBuf) {
        if self.any {
            reply.append(cstr!("writeErrors"), self.entries);
        }
    }
}

/// A count as the reply's int32, or int64 where that is too small.
pub(super) fn append_count(reply: &mut RawDocumentBuf, name: &'static bson::raw::CStr, count: u64) {
    match i32::try_from(count) {
        Ok(count) => reply.append(name, count),
        Err(_) => reply.append(name, i64::try_from(count).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn write_concerns_mean_what_their_table_says() {
        for (concern, expected) in [
            (rawdoc! {}, None),
            (rawdoc! { "w": 1 }, None),
            (rawdoc! { "w": "majority", "wtimeout": 10 }, None),
            (rawdoc! { "w": 1, "j": true }, Some(Durability::Durable)),
            (rawdoc! { "j": false }, Some(Durability::Relaxed)),
            (rawdoc! { "w": 0 }, Some(Durability::Relaxed)),
        ] {
            assert_eq!(write_concern(&concern).unwrap(), expected, "{concern:?}");
        }
        for (concern, code) in [
            (rawdoc! { "w": 51 }, 9),
            (rawdoc! { "w": -1 }, 9),
            (rawdoc! { "w": true }, 9),
            (rawdoc! { "w": 0, "j": true }, 2),
            (rawdoc! { "x": 0 }, 9),
        ] {
            assert_eq!(write_concern(&concern).unwrap_err().code, code, "{concern:?}");
        }
    }

    #[test]
    fn a_reply_with_100_000_errors_stays_a_document() {
        let mut errors = WriteErrors::default();
        for i in 0..100_000 {
            errors.push(i, CommandError::new(ErrorCode::BadValue, "m".repeat(1000)));
        }
        let mut reply = RawDocumentBuf::new();
        errors.append_to(&mut reply);
        assert!(reply.as_bytes().len() < doc::MAX_DOCUMENT_SIZE);
        assert_eq!(reply.get_array("writeErrors").unwrap().into_iter().count(), 100_000);
    }
}
