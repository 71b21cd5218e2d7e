//! `treedb.bulk_write`: several operations on a collection, one after the other, each of which may fail by itself.
//!
//! Operations are MongoDB's: `{"insertOne": {"document": ..}}`, `{"updateOne": {"filter": .., "update": ..}}` and so on. All
//! of them are read before the first is carried out, so that one that is no operation is an SQL error. Each is carried out
//! in a subtransaction; one that fails is undone and reported in `writeErrors`, as drivers report it, and with `ordered`
//! the rest is left out.

use std::ffi::CStr;

use ::bson::raw::{CString, cstr};
use ::bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::access::Sink;
use treedb_query::doc::{OwnedValue, Value, with_id};
use treedb_query::query::{Changes, Query, Result, Update, delete, update};
use treedb_query::{ErrorCode, QueryError};

use super::options::{self, Options};
use super::table::{Need, Table};
use super::write::replacement;
use super::writer::Writer;
use crate::shim::datum::Bytes;
use crate::shim::error::{accept, refuse};
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::subtransaction::attempt;
use crate::types::{bson, value};

const NAME: &CStr = c"treedb.bulk_write()";

/// An operation, as it was written.
enum Operation {
    Insert(RawDocumentBuf),
    Update { filter: RawDocumentBuf, update: OwnedValue, options: Options, multi: bool },
    Replace { filter: RawDocumentBuf, replacement: RawDocumentBuf, options: Options },
    Delete { filter: RawDocumentBuf, options: Options, limit: u64 },
}

/// Which fields an operation has beside its options, and which options.
struct Form {
    fields: &'static [&'static str],
    options: &'static [&'static str],
}

impl Form {
    fn of(operation: &str) -> Option<Form> {
        let (fields, options): (&[&str], &[&str]) = match operation {
            "insertOne" => (&["document"], &[]),
            "updateOne" | "updateMany" => {
                (&["filter", "update"], &["upsert", "hint", "collation", "arrayFilters"])
            }
            "replaceOne" => (&["filter", "replacement"], &["upsert", "hint", "collation"]),
            "deleteOne" | "deleteMany" => (&["filter"], &["hint", "collation"]),
            _ => return None,
        };
        Some(Form { fields, options })
    }
}

impl Operation {
    /// Reads the operation number `at`.
    fn read(at: usize, operation: Value<'_>) -> Result<Operation> {
        let malformed = |what: String| {
            QueryError::new(ErrorCode::FailedToParse, format!("operation {at} of the bulk write {what}"))
        };
        let Value::Document(document) = operation else {
            return Err(malformed("is not a document".to_owned()));
        };
        let mut elements = document.elements();
        let (Some(first), None) = (elements.next(), elements.next()) else {
            return Err(malformed("must have one field, its name".to_owned()));
        };
        let name = first.name_str();
        let Some(form) = Form::of(name) else {
            return Err(malformed(format!(
                "is '{name}'; there are: insertOne, updateOne, updateMany, replaceOne, deleteOne, deleteMany"
            )));
        };
        let Value::Document(body) = first.value() else {
            return Err(malformed(format!("has no document under '{name}'")));
        };
        let mut read = Options::default();
        for element in body.elements().filter(|element| !form.fields.contains(&element.name_str())) {
            if !form.options.contains(&element.name_str()) {
                let allowed: Vec<&str> = form.fields.iter().chain(form.options).copied().collect();
                let unknown = options::unknown(element.name_str(), &allowed);
                return Err(QueryError::new(unknown.code, format!("operation {at}: {}", unknown.message)));
            }
            read.set(element.name_str(), element.value())?;
        }
        let field = |name: &str| body.get(name).ok_or_else(|| malformed(format!("has no field '{name}'")));
        let document = |name: &str| {
            options::document(name, field(name)?)?
                .ok_or_else(|| malformed(format!("has no document in its field '{name}'")))
        };
        Ok(match name {
            "insertOne" => Operation::Insert(document("document")?),
            "updateOne" | "updateMany" => Operation::Update {
                filter: document("filter")?,
                update: OwnedValue::from_value(field("update")?),
                options: read,
                multi: name == "updateMany",
            },
            "replaceOne" => Operation::Replace {
                filter: document("filter")?,
                replacement: document("replacement")?,
                options: read,
            },
            _ => Operation::Delete {
                filter: document("filter")?,
                options: read,
                limit: u64::from(name == "deleteOne"),
            },
        })
    }

    /// Carries the operation out as a command of its own.
    fn run(&self, collection: &Bytes<'_>) -> Result<Done> {
        let mut done = Done::default();
        let begin =
            |need, query: Option<&Query>| Writer::begin(Table::open(collection, need), need, NAME, query);
        match self {
            Operation::Insert(document) => {
                let document = with_id(document)?;
                let mut writer = begin(Need::Insert, None);
                writer.insert(&document)?;
                writer.finish();
                done.inserted = document.get("_id")?.map(OwnedValue::from);
            }
            Operation::Update { filter, update, options, multi } => {
                let changes = Changes::from_value(update.value())?;
                let changes = Update::read(&changes, &options.array_filters)?;
                if changes.is_replacement() {
                    return Err(QueryError::new(
                        ErrorCode::FailedToParse,
                        "the update document must contain atomic operators; replaceOne takes a new document",
                    ));
                }
                let query = options.query(filter)?;
                let writer = begin(Need::Update(options.upsert), Some(&query));
                done.update(writer, &query, &changes, options.upsert, *multi)?;
            }
            Operation::Replace { filter, replacement: document, options } => {
                let changes = replacement(document)?;
                let query = options.query(filter)?;
                let writer = begin(Need::Update(options.upsert), Some(&query));
                done.update(writer, &query, &changes, options.upsert, false)?;
            }
            Operation::Delete { filter, options, limit } => {
                let query = options.query(filter)?;
                let mut writer = begin(Need::Delete, Some(&query));
                done.deleted = delete(&mut writer, &query, *limit)?;
                writer.finish();
            }
        }
        Ok(done)
    }
}

/// What an operation did.
#[derive(Default)]
struct Done {
    /// The `_id` of the inserted document.
    inserted: Option<OwnedValue>,
    matched: u64,
    modified: u64,
    deleted: u64,
    /// The `_id` of the document that an upsert inserted.
    upserted: Option<OwnedValue>,
}

impl Done {
    fn update(
        &mut self,
        mut writer: Writer,
        query: &Query,
        changes: &Update,
        upsert: bool,
        multi: bool,
    ) -> Result<()> {
        let done = match upsert {
            true => writer.upsert(query, |writer| update(writer, query, changes, multi, true))?,
            false => update(&mut writer, query, changes, multi, false)?,
        };
        writer.finish();
        (self.matched, self.modified) = (done.matched, done.modified);
        if let Some(new) = &done.upserted {
            self.upserted = new.get("_id")?.map(OwnedValue::from);
        }
        Ok(())
    }
}

/// The result of a bulk write.
#[derive(Default)]
struct Tally {
    inserted: u64,
    matched: u64,
    modified: u64,
    deleted: u64,
    upserted: u64,
    inserted_ids: RawDocumentBuf,
    upserted_ids: RawDocumentBuf,
    errors: RawArrayBuf,
    failed: bool,
}

/// Appends an `_id` under the number of its operation.
fn append_id(ids: &mut RawDocumentBuf, at: usize, id: &OwnedValue) {
    if let (Ok(name), Some(id)) = (CString::try_from(at.to_string().as_str()), id.as_raw()) {
        ids.append(name, id);
    }
}

impl Tally {
    fn add(&mut self, at: usize, done: &Done) {
        if let Some(id) = &done.inserted {
            self.inserted += 1;
            append_id(&mut self.inserted_ids, at, id);
        }
        if let Some(id) = &done.upserted {
            self.upserted += 1;
            append_id(&mut self.upserted_ids, at, id);
        }
        self.matched += done.matched;
        self.modified += done.modified;
        self.deleted += done.deleted;
    }

    fn fail(&mut self, at: usize, error: QueryError) {
        let mut entry = rawdoc! { "index": at as i64, "code": error.code.number(), "errmsg": error.message };
        if let Some(duplicate) = error.duplicate {
            entry.append(cstr!("keyPattern"), duplicate.key_pattern);
            entry.append(cstr!("keyValue"), duplicate.key_value);
        }
        if let Some(info) = error.info {
            entry.append(cstr!("errInfo"), *info);
        }
        self.errors.push(entry);
        self.failed = true;
    }

    fn document(self) -> RawDocumentBuf {
        let mut shown = RawDocumentBuf::new();
        for (name, count) in [
            (cstr!("insertedCount"), self.inserted),
            (cstr!("matchedCount"), self.matched),
            (cstr!("modifiedCount"), self.modified),
            (cstr!("deletedCount"), self.deleted),
            (cstr!("upsertedCount"), self.upserted),
        ] {
            shown.append(name, count as i64);
        }
        shown.append(cstr!("insertedIds"), self.inserted_ids);
        shown.append(cstr!("upsertedIds"), self.upserted_ids);
        if self.failed {
            shown.append(cstr!("writeErrors"), self.errors);
        }
        shown
    }
}

pg_function! {
    /// `treedb.bulk_write(collection, operations, options)`: what was done, and which operations failed.
    fn treedb_bulk_write(args: [Varlena, Varlena, Varlena]) -> Varlena<'_> {
        let (collection, operations, options) = (args.bytes(0), args.bytes(1), args.bytes(2));
        let options = accept(Options::read(bson::document(&options), &["ordered"]));
        let Value::Array(list) = value::decode(&operations) else {
            refuse(QueryError::new(ErrorCode::TypeMismatch, "the operations of a bulk write must be an array"))
        };
        let operations: Vec<Operation> = accept(
            list.elements().enumerate().map(|(at, element)| Operation::read(at, element.value())).collect(),
        );
        // An SQL error, not one of each operation.
        drop(Table::open(&collection, Need::Manage));
        let mut tally = Tally::default();
        for (at, operation) in operations.iter().enumerate() {
            pgrx::check_for_interrupts!();
            match attempt(|| operation.run(&collection)) {
                Ok(done) => tally.add(at, &done),
                Err(error) => {
                    tally.fail(at, error);
                    if options.ordered {
                        break;
                    }
                }
            }
        }
        args.memory().varlena(tally.document().as_bytes())
    }
}
