//! `find`: the first batch of a result.

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf};
use treedb_collections::{Collection, FindRequest};
use treedb_query::query::ErrorCode;

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

pub(super) fn run(request: &Request<'_>) -> Result {
    let collection = request.collection()?;
    let mut find = parse(&collection, "find", request.body())?;
    let namespace = collection.namespace().to_string();
    let cursors = &request.context.cursors;
    if let Some(mut open) = request.transaction() {
        let found = open.txn.collection(&namespace)?.find(&find.request)?;
        let cursor = Cursor::of_transaction(namespace, found, &open);
        return cursors.first_in(Some(&mut *open), cursor, find.batch, find.single, find.until);
    }
    find.request.as_of = request.at.map(|at| at.moment);
    let found = collection.find(find.request)?.map(|document| document.map_err(CommandError::from));
    let cursor = Cursor::new(namespace, Box::new(found)).kept(find.keep);
    ReadAt::append_to_reply(request.at, cursors.first(cursor, find.batch, find.single, find.until)?)
}

/// Reads the arguments of a `find`.
pub(super) fn parse(collection: &Collection, owner: &str, command: &RawDocument) -> Result<Find> {
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
            "hint" => find.request.hint = hint(collection, &arg)?,
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

/// The name of the index that a hint specifies by name or by key pattern.
pub(super) fn hint(collection: &Collection, arg: &Arg<'_>) -> Result<Option<String>> {
    let pattern = match arg.value() {
        RawBsonRef::String(name) => return Ok(Some(name.to_owned())),
        _ => arg.some_document()?,
    };
    let Some(pattern) = pattern else { return Ok(None) };
    if let Some(direction) = pattern.get("$natural")? {
        if number(direction).is_some_and(|direction| direction < 0.0) {
            return Err(CommandError::not_implemented(
                "the hint { $natural: -1 } is not supported: use { $natural: 1 }, or sort",
            ));
        }
        return Ok(Some("$natural".to_owned()));
    }
    // A collection that does not exist is empty, with any hint.
    let Some(indexes) = collection.indexes()? else { return Ok(None) };
    match index_with_pattern(&indexes, &pattern) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(CommandError::new(
            ErrorCode::BadValue,
            "error processing query: hint provided does not correspond to an existing index",
        )),
    }
}

/// The name of the index with a key pattern.
pub(super) fn index_with_pattern<'a>(indexes: &'a [Document], pattern: &RawDocument) -> Option<&'a str> {
    indexes.iter().find_map(|index| {
        let keys = RawDocumentBuf::try_from(index.get_document("key").ok()?).ok()?;
        if same_pattern(&keys, pattern) { index.get_str("name").ok() } else { None }
    })
}

/// True if two key patterns have the same fields in the same order and direction; `1`, `1.0` and `NumberLong(1)` are
/// the same direction.
fn same_pattern(a: &RawDocument, b: &RawDocument) -> bool {
    let fields = |pattern: &RawDocument| -> Option<Vec<(String, String)>> {
        pattern
            .iter()
            .map(|element| {
                let (name, value) = element.ok()?;
                let direction = match number(value) {
                    Some(number) => if number < 0.0 { "-1" } else { "1" }.to_owned(),
                    None => value.as_str()?.to_owned(),
                };
                Some((name.as_str().to_owned(), direction))
            })
            .collect()
    };
    fields(a).is_some_and(|a| fields(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn key_patterns_are_the_same_whatever_number_says_the_direction() {
        assert!(same_pattern(&rawdoc! { "a": 1, "b": -1 }, &rawdoc! { "a": 1.0, "b": -1_i64 }));
        assert!(!same_pattern(&rawdoc! { "a": 1, "b": 1 }, &rawdoc! { "b": 1, "a": 1 }));
        assert!(!same_pattern(&rawdoc! { "a": 1 }, &rawdoc! { "a": -1 }));
    }
}
