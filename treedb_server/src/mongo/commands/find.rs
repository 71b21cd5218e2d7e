//! `find`: the first batch of a result.

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_collections::FindRequest;
use treedb_query::index::ordered::same_key_pattern;
use treedb_query::query::Hint;

use super::Result;
use super::request::Request;
use crate::mongo::args::{Arg, args, number};
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
    let mut find = parse("find", request.body())?;
    let namespace = collection.namespace().to_string();
    let (cursors, identity) = (&request.context.cursors, &request.session.identity);
    if let Some(mut open) = request.transaction() {
        let found = open.txn.collection(&namespace)?.find(&find.request)?;
        let cursor = Cursor::of_transaction(namespace, found, &open);
        return cursors.first_in(Some(&mut *open), identity, cursor, find.batch, find.single, find.until);
    }
    find.request.as_of = request.at.map(|at| at.moment);
    let found = collection.find(find.request)?.map(|document| document.map_err(CommandError::from));
    let cursor = Cursor::new(namespace, Box::new(found)).kept(find.keep);
    ReadAt::append_to_reply(request.at, cursors.first(identity, cursor, find.batch, find.single, find.until)?)
}

/// Reads the arguments of a `find`.
pub(super) fn parse(owner: &str, command: &RawDocument) -> Result<Find> {
    let mut find = Find {
        request: FindRequest::default(),
        batch: FIRST_BATCH,
        single: false,
        keep: false,
        until: Deadline::NEVER,
    };
    for arg in args(owner, command).skip(1) {
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
            "awaitData" | "let" | "max" | "min" | "requestResumeToken" | "resumeAfter" | "returnKey"
            | "showRecordId" | "tailable" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok(find)
}

/// The hint of a command: the name or the key pattern of an index.
pub(super) fn hint(arg: &Arg<'_>) -> Result<Option<Hint>> {
    if let RawBsonRef::String(name) = arg.value() {
        return Ok(Some(Hint::from(name)));
    }
    let Some(pattern) = arg.some_document()? else { return Ok(None) };
    if let Some(direction) = pattern.get("$natural")?
        && number(direction).is_some_and(|direction| direction < 0.0)
    {
        return Err(CommandError::not_implemented(
            "the hint { $natural: -1 } is not supported: use { $natural: 1 }, or sort",
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
