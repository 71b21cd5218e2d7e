//! `bulkWrite`: inserts, updates and deletes in any number of collections, one after the other.
//!
//! Each operation is what a statement of `insert`, `update` or `delete` is, also as to transactions, retries and durability. The reply has the
//! sums, and a cursor over the outcomes of the single operations.

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, DeleteRequest, Namespace, UpdateRequest};
use treedb_query::doc::Origin;
use treedb_query::query::{Changes, ErrorCode};

use super::Result;
use super::find::hint;
use super::list_collections::batch_size;
use super::request::Request;
use super::update::{changes, refuse_many_replacements};
use super::writes::{Options, append_count, bounded, check_statement, checked_count, execute, not_many};
use crate::mongo::args::args;
use crate::mongo::cursors::{Cursor, Deadline};
use crate::mongo::error::CommandError;
use crate::mongo::write_target::{Outcome, WriteTarget};
use crate::operations::{self, Operations};

/// The sections that its arguments may come in.
const SECTIONS: &[&str] = &["ops", "nsInfo"];

/// An operation on the collection number `on`.
struct Operation {
    on: usize,
    kind: Kind,
}

enum Kind {
    Insert(RawDocumentBuf),
    Update(Box<UpdateRequest>),
    Delete(DeleteRequest),
}

/// The sums of the reply.
#[derive(Default)]
struct Sums {
    errors: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
    /// Inserts, updates and deletes that were executed.
    executed: [u64; 3],
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let mut options = Options::new();
    let (mut variables, mut errors_only, mut batch) = (None, false, usize::MAX);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "ops" | "nsInfo" => {}
            "let" => variables = arg.some_document()?,
            "errorsOnly" => errors_only = arg.bool()?,
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            _ if options.read(&arg)? => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collections = collections(request)?;
    if request.transaction().is_some() {
        collections.iter().try_for_each(|name| CommandError::refuse_in_transaction(name.database()))?;
    }
    let statements = checked_count(request.documents("ops")?)?;
    let operations: Vec<Operation> = statements
        .iter()
        .map(|statement| parse(statement, collections.len(), variables.as_ref(), options.origin()))
        .collect::<Result<_>>()?;
    let Some(first) = collections.first() else {
        return Err(CommandError::new(ErrorCode::InvalidLength, "nsInfo must name at least one collection"));
    };
    let first = options.acknowledge(request.context.database.collection(first.as_str())?);
    let (mut sums, mut outcomes, mut bytes) = (Sums::default(), Vec::new(), 0);
    let mut each = |at: usize, _: &RawDocument, target: &mut WriteTarget<'_>| {
        let Some(Operation { on, kind }) = operations.get(at) else { return Ok(Outcome::default()) };
        let namespace = collections.get(*on).map_or("", Namespace::as_str);
        apply(request, kind, options.origin(), target, namespace)
    };
    let executed = execute(request, &options, &statements, &first, false, &mut each, &mut |at, done| {
        let Some(operation) = operations.get(at) else { return };
        let failed = done.is_err();
        let outcome = sums.add(at, &operation.kind, done.map_err(|error| bounded(error, bytes)));
        if failed || !errors_only {
            bytes += outcome.as_bytes().len();
            outcomes.push(Ok(outcome));
        }
    });
    // Those before an error that ended it count too.
    sums.count(&request.context.operations);
    executed?;
    // Those of retried operations are reported first.
    outcomes.sort_by_key(|outcome| match outcome {
        Ok(outcome) => outcome.get_i32("idx").unwrap_or(0),
        Err(_) => 0,
    });
    let cursor = Cursor::new(format!("{}.$cmd.bulkWrite", request.database), Box::new(outcomes.into_iter()));
    let cursors = &request.context.cursors;
    let mut reply = match request.transaction() {
        Some(mut open) => {
            let cursor = cursor.in_transaction(&open);
            cursors.first_in(Some(&mut *open), request, cursor, batch, false, Deadline::NEVER)?
        }
        None => cursors.first(request, cursor, batch, false, Deadline::NEVER)?,
    };
    sums.append_to(&mut reply);
    Ok(reply)
}

/// The collections of `nsInfo`.
pub(super) fn collections(request: &Request<'_>) -> Result<Vec<Namespace>> {
    if let Some(other) = request.message.sequence_names().find(|name| !SECTIONS.contains(name)) {
        return Err(CommandError::new(
            ErrorCode::Location40415,
            format!("BSON field 'bulkWrite.{other}' is an unknown field."),
        ));
    }
    let mut collections = Vec::new();
    for info in request.documents("nsInfo")? {
        check_statement(info)?;
        let mut namespace = None;
        for arg in args("bulkWrite.nsInfo", info) {
            let arg = arg?;
            match arg.name {
                "ns" => namespace = Some(Namespace::parse(arg.str()?)?),
                "collectionUUID" | "encryptionInformation" => arg.unsupported()?,
                _ => arg.nested_ignored_or_unknown()?,
            }
        }
        collections.push(namespace.ok_or_else(|| missing("nsInfo.ns"))?);
    }
    Ok(collections)
}

fn missing(field: &str) -> CommandError {
    CommandError::missing(&format!("bulkWrite.{field}"))
}

/// The kind of an operation and the number of its collection: its first field.
pub(super) fn subject(operation: &RawDocument) -> Result<(&str, usize)> {
    check_statement(operation)?;
    let refused = |what: &str| CommandError::new(ErrorCode::FailedToParse, what);
    let Some(first) = args("bulkWrite.ops", operation).next().transpose()? else {
        return Err(refused("an operation of bulkWrite is empty"));
    };
    if !matches!(first.name, "insert" | "update" | "delete") {
        return Err(refused("BulkWrite ops must begin with 'insert', 'update' or 'delete'"));
    }
    Ok((first.name, usize::try_from(first.count()?).unwrap_or(usize::MAX)))
}

/// Reads an operation; there are `collections`.
fn parse(
    operation: &RawDocument,
    collections: usize,
    variables: Option<&RawDocumentBuf>,
    origin: Origin,
) -> Result<Operation> {
    let (kind, on) = subject(operation)?;
    if on >= collections {
        return Err(CommandError::new(
            ErrorCode::BadValue,
            format!("BulkWrite ops entry has an invalid nsInfo index: {on}"),
        ));
    }
    let kind = match kind {
        "insert" => insert(operation)?,
        "update" => Kind::Update(Box::new(update(operation, variables, origin)?)),
        _ => Kind::Delete(delete(operation, variables)?),
    };
    Ok(Operation { on, kind })
}

fn insert(operation: &RawDocument) -> Result<Kind> {
    let mut document = None;
    for arg in args("bulkWrite.insert", operation).skip(1) {
        let arg = arg?;
        match arg.name {
            "document" => document = Some(arg.document()?.to_owned()),
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    document.map(Kind::Insert).ok_or_else(|| missing("insert.document"))
}

fn update(
    operation: &RawDocument,
    variables: Option<&RawDocumentBuf>,
    origin: Origin,
) -> Result<UpdateRequest> {
    let empty = || Changes::Document(RawDocumentBuf::new());
    let mut update =
        UpdateRequest { variables: variables.cloned(), ..UpdateRequest::one(rawdoc! {}, empty()) };
    let (mut filtered, mut changed) = (false, false);
    for arg in args("bulkWrite.update", operation).skip(1) {
        let arg = arg?;
        match arg.name {
            "filter" => {
                update.filter = arg.document()?.to_owned();
                filtered = true;
            }
            "updateMods" => {
                update.update = changes(&arg, origin)?;
                changed = true;
            }
            "multi" => update.multi = arg.bool()?,
            "upsert" => update.upsert = arg.bool()?,
            "hint" => update.hint = hint(&arg)?,
            "sort" => update.sort = arg.some_document()?,
            "collation" => update.collation = arg.some_document()?,
            "arrayFilters" => update.array_filters = arg.documents()?,
            "constants" | "upsertSupplied" => arg.unsupported()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    match (filtered, changed) {
        (false, _) => return Err(missing("update.filter")),
        (_, false) => return Err(missing("update.updateMods")),
        _ => {}
    }
    refuse_many_replacements(&update)?;
    Ok(update)
}

fn delete(operation: &RawDocument, variables: Option<&RawDocumentBuf>) -> Result<DeleteRequest> {
    let mut filter = None;
    let mut delete = DeleteRequest { variables: variables.cloned(), ..DeleteRequest::one(rawdoc! {}) };
    for arg in args("bulkWrite.delete", operation).skip(1) {
        let arg = arg?;
        match arg.name {
            "filter" => filter = Some(arg.document()?.to_owned()),
            "multi" => delete.limit = u64::from(!arg.bool()?),
            "hint" => delete.hint = hint(&arg)?,
            "collation" => delete.collation = arg.some_document()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    delete.filter = filter.ok_or_else(|| missing("delete.filter"))?;
    Ok(delete)
}

/// Applies an operation to the collection `namespace`, in the way that `target` is written.
fn apply(
    request: &Request<'_>,
    kind: &Kind,
    origin: Origin,
    target: &mut WriteTarget<'_>,
    namespace: &str,
) -> Result<Outcome> {
    let of = |collection: &Collection| collection.sibling(namespace);
    let own = match &*target {
        WriteTarget::Collection(collection)
        | WriteTarget::Transaction(_, collection)
        | WriteTarget::Batch(_, collection) => of(collection)?,
    };
    let mut target = match target {
        WriteTarget::Collection(_) => WriteTarget::Collection(&own),
        WriteTarget::Transaction(txn, _) => WriteTarget::Transaction(txn, &own),
        WriteTarget::Batch(batch, _) => WriteTarget::Batch(batch, &own),
    };
    match kind {
        Kind::Insert(document) => target.insert(document, origin),
        Kind::Update(update) => {
            not_many(request, update.multi)?;
            target.update((**update).clone())
        }
        Kind::Delete(delete) => {
            not_many(request, delete.limit == 0)?;
            target.delete(delete.clone())
        }
    }
}

impl Sums {
    /// Adds the outcome of operation `at`, and returns it as the reply has it.
    fn add(&mut self, at: usize, kind: &Kind, done: Result<Outcome>) -> RawDocumentBuf {
        let index = i32::try_from(at).unwrap_or(i32::MAX);
        let [inserts, updates, deletes] = &mut self.executed;
        *match kind {
            Kind::Insert(_) => inserts,
            Kind::Update(_) => updates,
            Kind::Delete(_) => deletes,
        } += 1;
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(error) => {
                self.errors += 1;
                let mut entry = rawdoc! { "ok": 0.0, "idx": index };
                for field in error.write_error(at).iter().flatten() {
                    if field.0 != "index" {
                        entry.append(field.0, field.1);
                    }
                }
                append_count(&mut entry, cstr!("n"), 0);
                return entry;
            }
        };
        let mut entry = rawdoc! { "ok": 1.0, "idx": index };
        append_count(&mut entry, cstr!("n"), outcome.found);
        match kind {
            Kind::Insert(_) => self.inserted += outcome.found,
            Kind::Delete(_) => self.deleted += outcome.found,
            Kind::Update(_) => {
                self.matched += outcome.found - u64::from(outcome.upserted.is_some());
                self.modified += outcome.modified;
                append_count(&mut entry, cstr!("nModified"), outcome.modified);
                if let Some(id) = outcome.upserted {
                    self.upserted += 1;
                    entry.append(cstr!("upserted"), rawdoc! { "_id": id });
                }
            }
        }
        entry
    }

    /// Counts the operations as the commands that would do the same.
    fn count(&self, counters: &Operations) {
        let [inserts, updates, deletes] = self.executed;
        counters.count_statements(operations::Kind::Insert, inserts, self.inserted);
        counters.count_statements(operations::Kind::Update, updates, self.modified);
        counters.count_statements(operations::Kind::Delete, deletes, self.deleted);
    }

    fn append_to(&self, reply: &mut RawDocumentBuf) {
        for (name, sum) in [
            (cstr!("nErrors"), self.errors),
            (cstr!("nInserted"), self.inserted),
            (cstr!("nMatched"), self.matched),
            (cstr!("nModified"), self.modified),
            (cstr!("nUpserted"), self.upserted),
            (cstr!("nDeleted"), self.deleted),
        ] {
            append_count(reply, name, sum);
        }
    }
}
