//! `treedb.insert_one`, `insert_many`, `update_one`, `update_many`, `replace_one`, `delete_one`, `delete_many`.

use std::ffi::CStr;

use ::bson::raw::cstr;
use ::bson::{RawDocument, rawdoc};
use treedb_query::access::Sink;
use treedb_query::doc::{Doc, json, with_id};
use treedb_query::query::{Changes, Query, Result, Update, delete, update};
use treedb_query::{ErrorCode, QueryError};

use super::options::Options;
use super::table::{Need, Table};
use super::writer::Writer;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::text;
use crate::types::{bson, value};

fn begin(args: &Args, need: Need, name: &CStr, query: Option<&Query>) -> Writer {
    Writer::begin(Table::open(&args.bytes(0), need), need, name, query)
}

pg_function! {
    /// `treedb.insert_one(collection, document)`: the document's `_id`.
    fn treedb_insert_one(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(1);
        let document = accept(with_id(bson::document(&bytes)));
        let mut writer = begin(args, Need::Insert, c"treedb.insert_one()", None);
        let inserted = writer.insert(&document);
        writer.accept(inserted);
        writer.finish();
        Doc::from(&*document).find(b"_id").map(|id| value::varlena(args.memory(), &id))
    }
}

pg_function! {
    /// `treedb.insert_many(collection, documents)` of an array: how many were inserted.
    fn treedb_insert_many(args: [Varlena, Array]) -> i64 {
        let documents = args.elements(1);
        let mut writer = begin(args, Need::Insert, c"treedb.insert_many()", None);
        let mut inserted = 0_i64;
        for element in documents {
            let Some(datum) = element else {
                fail(
                    SqlState::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                    format!("document {inserted} is NULL"),
                    "Leave NULLs out of the array.",
                )
            };
            insert(&mut writer, bson::document(&datum.bytes()));
            inserted += 1;
        }
        writer.finish();
        inserted
    }
}

pg_function! {
    /// The same of JSON: an array of documents, or documents one after the other.
    fn treedb_insert_json(args: [Varlena, Varlena]) -> i64 {
        let bytes = args.bytes(1);
        let documents = match json::documents_from_json(&text::to_utf8(&bytes)) {
            Ok(documents) => documents,
            Err(error) => bson::refuse_text(error),
        };
        let mut writer = begin(args, Need::Insert, c"treedb.insert_many()", None);
        for document in &documents {
            insert(&mut writer, document);
        }
        writer.finish();
        documents.len() as i64
    }
}

fn insert(writer: &mut Writer, document: &RawDocument) {
    pgrx::check_for_interrupts!();
    let document = accept(with_id(document));
    let inserted = writer.insert(&document);
    writer.accept(inserted);
}

/// A function that updates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Many,
    Replace,
}

/// Updates by filter (argument 1), update (2: a document, or the stages of a pipeline) and options (3).
fn change<'c>(args: &'c Args, kind: Kind, name: &CStr) -> Varlena<'c> {
    let (filter, changes, options) = (args.bytes(1), args.bytes(2), args.bytes(3));
    let allowed: &[&str] = match kind {
        Kind::One | Kind::Many => &["upsert", "hint", "collation", "arrayFilters"],
        Kind::Replace => &["upsert", "hint", "collation"],
    };
    let options = accept(Options::read(bson::document(&options), allowed));
    let query: Query = accept(options.query(bson::document(&filter)));
    let changes = accept(match kind {
        Kind::Replace => replacement(bson::document(&changes)),
        Kind::One | Kind::Many => Changes::from_value(value::decode(&changes))
            .and_then(|changes| Update::read(&changes, &options.array_filters)),
    });
    let mut writer = begin(args, Need::Update(options.upsert), name, Some(&query));
    let multi = kind == Kind::Many;
    let done = match options.upsert {
        true => writer.upsert(&query, |writer| update(writer, &query, &changes, multi, true)),
        false => update(&mut writer, &query, &changes, multi, false),
    };
    let done = writer.accept(done);
    writer.finish();
    let mut outcome = rawdoc! { "matchedCount": done.matched as i64, "modifiedCount": done.modified as i64 };
    if let Some(new) = &done.upserted
        && let Ok(Some(id)) = new.get("_id")
    {
        outcome.append(cstr!("upsertedId"), id);
    }
    args.memory().varlena(outcome.as_bytes())
}

/// A document that replaces another.
///
/// # Errors
/// `FailedToParse` for operators.
pub(super) fn replacement(document: &RawDocument) -> Result<Update> {
    let update = Update::parse(document)?;
    if update.is_replacement() {
        return Ok(update);
    }
    Err(QueryError::new(
        ErrorCode::FailedToParse,
        "the replacement document must not contain atomic operators",
    ))
}

pg_function! {
    /// `treedb.update_one(collection, filter, update, options)`.
    fn treedb_update_one(args: [Varlena, Varlena, Varlena, Varlena]) -> Varlena<'_> {
        change(args, Kind::One, c"treedb.update_one()")
    }
}

pg_function! {
    /// `treedb.update_many(collection, filter, update, options)`.
    fn treedb_update_many(args: [Varlena, Varlena, Varlena, Varlena]) -> Varlena<'_> {
        change(args, Kind::Many, c"treedb.update_many()")
    }
}

pg_function! {
    /// `treedb.replace_one(collection, filter, replacement, options)`.
    fn treedb_replace_one(args: [Varlena, Varlena, Varlena, Varlena]) -> Varlena<'_> {
        change(args, Kind::Replace, c"treedb.replace_one()")
    }
}

/// Deletes by filter (argument 1) and options (2), `limit` at most (0: all).
fn remove(args: &Args, limit: u64, name: &CStr) -> i64 {
    let (filter, options) = (args.bytes(1), args.bytes(2));
    let options = accept(Options::read(bson::document(&options), &["hint", "collation"]));
    let query = accept(options.query(bson::document(&filter)));
    let mut writer = begin(args, Need::Delete, name, Some(&query));
    let deleted = delete(&mut writer, &query, limit);
    let deleted = writer.accept(deleted);
    writer.finish();
    deleted as i64
}

pg_function! {
    /// `treedb.delete_one(collection, filter, options)`: 1 or 0.
    fn treedb_delete_one(args: [Varlena, Varlena, Varlena]) -> i64 {
        remove(args, 1, c"treedb.delete_one()")
    }
}

pg_function! {
    /// `treedb.delete_many(collection, filter, options)`: how many were deleted.
    fn treedb_delete_many(args: [Varlena, Varlena, Varlena]) -> i64 {
        remove(args, 0, c"treedb.delete_many()")
    }
}
