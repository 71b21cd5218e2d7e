//! `treedb.find_one_and_update`, `find_one_and_replace`, `find_one_and_delete`: change one document and return it.

use std::ffi::CStr;

use ::bson::raw::cstr;
use ::bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_query::access::{Flow, QueryContext};
use treedb_query::doc::Collation;
use treedb_query::query::{Changes, Execution, Filter, Query, Result, Update, find_and_modify};
use treedb_query::{ErrorCode, QueryError};

use super::options::Options;
use super::reader::Reader;
use super::table::{Need, Table};
use super::write::replacement;
use super::writer::Writer;
use crate::shim::error::accept;
use crate::shim::function::{Args, pg_function};
use crate::shim::memory::Varlena;
use crate::shim::snapshot::Pushed;
use crate::types::{bson, value};

const DELETE: &[&str] = &["sort", "projection", "hint", "collation"];
const REPLACE: &[&str] =
    &["sort", "projection", "hint", "collation", "upsert", "returnDocument", "returnNewDocument"];
const UPDATE: &[&str] = &[
    "sort",
    "projection",
    "hint",
    "collation",
    "upsert",
    "returnDocument",
    "returnNewDocument",
    "arrayFilters",
];

/// Updates the first document that filter (argument 1) and `options` find, or deletes it, and returns it.
fn modify<'c>(
    args: &'c Args,
    options: &Options,
    update: Option<&Update>,
    name: &CStr,
) -> Option<Varlena<'c>> {
    let filter = args.bytes(1);
    let query = accept(options.query(bson::document(&filter)));
    let need = if update.is_some() { Need::Update(options.upsert) } else { Need::Delete };
    let mut writer = Writer::begin(Table::open(&args.bytes(0), need), need, name, Some(&query));
    let own = Collation::Simple;
    let done = match options.upsert {
        true => writer.upsert(&query, |writer| find_and_modify(writer, &query, &own, update, true)),
        false => find_and_modify(&mut writer, &query, &own, update, false),
    };
    let done = writer.accept(done);
    writer.finish();
    let document = match &done.new {
        // As it was stored: a trigger may have changed it.
        Some(new) if options.after => accept(stored(args, new)),
        _ if options.after => None,
        _ => done.old,
    }?;
    let shown = match &query.projection {
        Some(projection) => accept(projection.apply(&document)),
        None => document,
    };
    Some(args.memory().varlena(shown.as_bytes()))
}

/// The document of the same `_id` as the call has left it.
fn stored(args: &Args, document: &RawDocument) -> Result<Option<RawDocumentBuf>> {
    let Some(id) = document.get("_id")? else { return Ok(None) };
    let mut equal = RawDocumentBuf::new();
    equal.append(cstr!("$eq"), id);
    let query = Query::new(Filter::parse(&rawdoc! { "_id": equal })?);
    let _snapshot = Pushed::after_own_changes();
    let reader = Reader::new(Table::open(&args.bytes(0), Need::Select));
    let mut found = None;
    Execution::new(&reader, &QueryContext::default(), query)?.run(
        &reader,
        &QueryContext::default(),
        &mut |document| {
            found = Some(document);
            Flow::Break(())
        },
    )?;
    Ok(found)
}

/// An update that is no replacement.
fn operators(changes: &Changes, options: &Options) -> Result<Update> {
    let update = Update::read(changes, &options.array_filters)?;
    if update.is_replacement() {
        return Err(QueryError::new(
            ErrorCode::FailedToParse,
            "the update document must contain atomic operators; treedb.find_one_and_replace() takes a new document",
        ));
    }
    Ok(update)
}

pg_function! {
    /// `treedb.find_one_and_update(collection, filter, update, options)`: the document; NULL if there is none.
    fn treedb_find_one_and_update(args: [Varlena, Varlena, Varlena, Varlena]) -> Option<Varlena<'_>> {
        let (changes, options) = (args.bytes(2), args.bytes(3));
        let options = accept(Options::read(bson::document(&options), UPDATE));
        let changes = accept(Changes::from_value(value::decode(&changes)));
        let update = accept(operators(&changes, &options));
        modify(args, &options, Some(&update), c"treedb.find_one_and_update()")
    }
}

pg_function! {
    /// `treedb.find_one_and_replace(collection, filter, replacement, options)`.
    fn treedb_find_one_and_replace(args: [Varlena, Varlena, Varlena, Varlena]) -> Option<Varlena<'_>> {
        let (document, options) = (args.bytes(2), args.bytes(3));
        let options = accept(Options::read(bson::document(&options), REPLACE));
        let update = accept(replacement(bson::document(&document)));
        modify(args, &options, Some(&update), c"treedb.find_one_and_replace()")
    }
}

pg_function! {
    /// `treedb.find_one_and_delete(collection, filter, options)`.
    fn treedb_find_one_and_delete(args: [Varlena, Varlena, Varlena]) -> Option<Varlena<'_>> {
        let options = args.bytes(2);
        let options = accept(Options::read(bson::document(&options), DELETE));
        modify(args, &options, None, c"treedb.find_one_and_delete()")
    }
}
