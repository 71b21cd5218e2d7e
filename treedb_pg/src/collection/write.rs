//! `treedb.insert_one`, `insert_many`, `update_one`, `update_many`, `delete_one`, `delete_many`.

use std::ffi::CStr;

use ::bson::raw::cstr;
use ::bson::{RawDocument, rawdoc};
use treedb_query::access::Sink;
use treedb_query::doc::{Doc, json, with_id};
use treedb_query::query::{Changes, Query, Update, delete, update};

use super::options::Options;
use super::table::{Need, Table};
use super::writer::Writer;
use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::text;
use crate::types::{bson, value};

fn begin(args: &Args, need: Need, name: &CStr) -> Writer {
    Writer::begin(Table::open(&args.bytes(0), need), need, name)
}

pg_function! {
    /// `treedb.insert_one(collection, document)`: the document's `_id`.
    fn treedb_insert_one(args: [Varlena, Varlena]) -> Option<Varlena<'_>> {
        let bytes = args.bytes(1);
        let document = accept(with_id(bson::document(&bytes)));
        let mut writer = begin(args, Need::Insert, c"treedb.insert_one()");
        accept(writer.insert(&document));
        writer.finish();
        Doc::from(&*document).find(b"_id").map(|id| value::varlena(args.memory(), &id))
    }
}

pg_function! {
    /// `treedb.insert_many(collection, documents)` of an array: how many were inserted.
    fn treedb_insert_many(args: [Varlena, Array]) -> i64 {
        let documents = args.elements(1);
        let mut writer = begin(args, Need::Insert, c"treedb.insert_many()");
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
        let mut writer = begin(args, Need::Insert, c"treedb.insert_many()");
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
    accept(writer.insert(&document));
}

/// Updates by filter (argument 1), update (2: a document, or the stages of a pipeline) and options (3).
fn change<'c>(args: &'c Args, multi: bool, name: &CStr) -> Varlena<'c> {
    let (filter, changes, options) = (args.bytes(1), args.bytes(2), args.bytes(3));
    let options = accept(Options::read(bson::document(&options), &["upsert", "hint", "arrayFilters"]));
    let query: Query = accept(options.query(bson::document(&filter)));
    let changes = accept(
        Changes::from_value(value::decode(&changes))
            .and_then(|changes| Update::read(&changes, &options.array_filters)),
    );
    let mut writer = begin(args, Need::Update(options.upsert), name);
    let done = accept(update(&mut writer, &query, &changes, multi, options.upsert));
    writer.finish();
    let mut outcome = rawdoc! { "matchedCount": done.matched as i64, "modifiedCount": done.modified as i64 };
    if let Some(new) = &done.upserted
        && let Ok(Some(id)) = new.get("_id")
    {
        outcome.append(cstr!("upsertedId"), id);
    }
    args.memory().varlena(outcome.as_bytes())
}

pg_function! {
    /// `treedb.update_one(collection, filter, update, options)`.
    fn treedb_update_one(args: [Varlena, Varlena, Varlena, Varlena]) -> Varlena<'_> {
        change(args, false, c"treedb.update_one()")
    }
}

pg_function! {
    /// `treedb.update_many(collection, filter, update, options)`.
    fn treedb_update_many(args: [Varlena, Varlena, Varlena, Varlena]) -> Varlena<'_> {
        change(args, true, c"treedb.update_many()")
    }
}

/// Deletes by filter (argument 1), `limit` at most (0: all).
fn remove(args: &Args, limit: u64, name: &CStr) -> i64 {
    let filter = args.bytes(1);
    let query = accept(Options::default().query(bson::document(&filter)));
    let mut writer = begin(args, Need::Delete, name);
    let deleted = accept(delete(&mut writer, &query, limit));
    writer.finish();
    deleted as i64
}

pg_function! {
    /// `treedb.delete_one(collection, filter)`: 1 or 0.
    fn treedb_delete_one(args: [Varlena, Varlena]) -> i64 {
        remove(args, 1, c"treedb.delete_one()")
    }
}

pg_function! {
    /// `treedb.delete_many(collection, filter)`: how many were deleted.
    fn treedb_delete_many(args: [Varlena, Varlena]) -> i64 {
        remove(args, 0, c"treedb.delete_many()")
    }
}
