//! `find`: the first batch of a result.

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_collections::FindRequest;
use treedb_query::index::ordered::same_key_pattern;
use treedb_query::query::{ErrorCode, Hint};

use super::Result;
use super::request::Request;
use crate::mongo::args::{Arg, number};
use crate::mongo::cursors::{Cursor, Deadline, FIRST_BATCH};
use crate::mongo::error::CommandError;
use crate::mongo::read_concern::ReadAt;

/// The arguments of a `find`.
pub(super) struct Find {
    /// What to find.
    pub(super) request: FindRequest,
    batch: usize,
    single: bool,
    keep: bool,
    tailable: bool,
    /// A tailable cursor waits for documents.
    awaits: bool,
    until: Deadline,
}

impl Find {
    /// How many documents the first batch has, and whether it is the only one.
    pub(super) fn batch(&self) -> (usize, bool) {
        (self.batch, self.single)
    }
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let mut find = parse(request.args())?;
    let namespace = collection.namespace().to_string();
    let cursors = &request.context.cursors;
    if find.tailable {
        if request.transaction().is_some() || request.at.is_some() {
            return Err(CommandError::new(
                ErrorCode::OperationNotSupportedInTransaction,
                "tailable cursors are not supported in a transaction or at a time in the past",
            ));
        }
        let cursor = match collection.namespace().is_oplog() {
            true => Cursor::tail(namespace, collection.database().oplog(&find.request, true)?, find.awaits),
            false => Cursor::tail(namespace, collection.tail(&find.request)?, find.awaits),
        };
        let cursor = cursor.kept(find.keep);
        return cursors.first(request, cursor, find.batch, false, find.until);
    }
    if collection.namespace().is_oplog() {
        let found = collection.database().oplog(&find.request, false)?;
        let found = Box::new(found.map(|entry| entry.map_err(CommandError::from)));
        let cursor = Cursor::new(namespace, found).kept(find.keep);
        return cursors.first(request, cursor, find.batch, find.single, find.until);
    }
    if let Some(mut open) = request.transaction() {
        let found = open.txn.collection(&namespace)?.find(&find.request)?;
        let cursor = Cursor::of_transaction(namespace, found, &open);
        return cursors.first_in(Some(&mut *open), request, cursor, find.batch, find.single, find.until);
    }
    find.request.as_of = request.at.map(|at| at.moment);
    if find.batch > 0
        && let Some(reply) = cursors
            .at_once(&namespace, find.batch, |visit| Ok(collection.lend_by_key(&find.request, visit)?))?
    {
        return Ok(reply);
    }
    let found = collection.find(find.request)?.map(|document| document.map_err(CommandError::from));
    let cursor = Cursor::new(namespace, Box::new(found)).kept(find.keep);
    ReadAt::append_to_reply(request.at, cursors.first(request, cursor, find.batch, find.single, find.until)?)
}

/// Reads the arguments of a `find`.
pub(super) fn parse<'a>(args: impl Iterator<Item = Result<Arg<'a>>>) -> Result<Find> {
    let mut find = Find {
        request: FindRequest::default(),
        batch: FIRST_BATCH,
        single: false,
        keep: false,
        tailable: false,
        awaits: false,
        until: Deadline::NEVER,
    };
    for arg in args {
        let arg = arg?;
        match arg.name {
            "filter" => find.request.filter = arg.some_document()?,
            "sort" => find.request.sort = arg.some_document()?,
            "projection" => find.request.projection = arg.some_document()?,
            "hint" => find.request.hint = hint(&arg)?,
            "skip" => find.request.skip = arg.count()?,
            "limit" => find.request.limit = arg.count()?,
            "batchSize" => find.batch = usize::try_from(arg.count()?).unwrap_or(usize::MAX),
            "singleBatch" => find.single = arg.bool()?,
            "noCursorTimeout" => find.keep = arg.bool()?,
            "maxTimeMS" => find.until = Deadline::after(arg.count()?),
            "collation" => find.request.collation = arg.some_document()?,
            "allowDiskUse" => find.request.in_memory = !arg.bool()?,
            "let" => find.request.variables = arg.some_document()?,
            "min" => find.request.bounds.min = arg.some_document()?,
            "max" => find.request.bounds.max = arg.some_document()?,
            "returnKey" => find.request.returns.key = arg.bool()?,
            "showRecordId" => find.request.returns.record_id = arg.bool()?,
            "tailable" => find.tailable = arg.bool()?,
            "awaitData" => find.awaits = arg.bool()?,
            "$_requestResumeToken" | "$_resumeAfter" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let contradiction = match find.tailable {
        false if find.awaits => Some("Cannot set 'awaitData' without also setting 'tailable'"),
        true if find.single => Some("Cannot use 'tailable' option with the 'singleBatch' option"),
        _ => None,
    };
    match contradiction {
        Some(message) => Err(CommandError::new(ErrorCode::FailedToParse, message)),
        None => Ok(find),
    }
}

/// The hint of a command: the name or the key pattern of an index.
pub(super) fn hint(arg: &Arg<'_>) -> Result<Option<Hint>> {
    if let RawBsonRef::String(name) = arg.value() {
        return Ok(Some(Hint::from(name)));
    }
    let Some(pattern) = arg.some_document()? else { return Ok(None) };
    if let Some(direction) = pattern.get("$natural")?
        && !matches!(number(direction), Some(1.0 | -1.0))
    {
        return Err(CommandError::new(
            ErrorCode::BadValue,
            "$natural hint cannot be set to a value other than -1 or 1.",
        ));
    }
    Ok(Some(Hint::from(pattern)))
}

/// The name of the index with a key pattern.
pub(super) fn index_with_pattern<'a>(indexes: &'a [Document], pattern: &RawDocument) -> Option<&'a str> {
    indexes.iter().find_map(|index| {
        let keys = RawDocumentBuf::try_from(index.get_document("key").ok()?).ok()?;
        if same_key_pattern(&keys, pattern) { index.get_str("name").ok() } else { None }
    })
}
