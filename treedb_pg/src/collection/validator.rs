//! Validators: the trigger that checks each document, and the options it was made with.
//!
//! `validator`, `validationLevel` and `validationAction` of a collection are the argument, as JSON, of its trigger
//! `treedb_validator`, so that pg_dump, ALTER and DROP of the table take them along.
//! Triggers fire in the order of their names: after `treedb_id`, which gives the document its `_id`, and before a
//! trigger with a later name, whose changes are not checked.

use std::ffi::CStr;

use ::bson::{RawDocument, RawDocumentBuf};
use treedb_query::doc::{Collation, json};
use treedb_query::query::{Result, Validator};

use super::table::Table;
use crate::shim::catalog::{self, literal, run};
use crate::shim::error::{SqlState, accept, fail, refuse, refuse_about, warn};
use crate::shim::error_frame::ErrorObject;
use crate::shim::function::pg_function;
use crate::shim::text;
use crate::shim::trigger::{Row, Trigger};
use crate::types::bson;

/// The options that belong to a validator.
pub(super) const OPTIONS: &[&str] = &["validator", "validationLevel", "validationAction"];

/// The options of the validator of a table; an empty document if it has none.
pub(super) fn options_of(table: &Table) -> RawDocumentBuf {
    let argument = catalog::trigger_argument(&table.relation, c"validate_document");
    let options = argument.and_then(|argument| json::from_json(&text::to_utf8(argument.to_bytes())).ok());
    options.unwrap_or_default()
}

/// `old` with the options in `new` in their place. Those that are null are left out.
pub(super) fn merged(old: &RawDocument, new: &RawDocument) -> Result<RawDocumentBuf> {
    let mut merged = RawDocumentBuf::new();
    for name in OPTIONS {
        let value = match new.get(name)? {
            Some(value) => Some(value),
            None => old.get(name)?,
        };
        if let (Some(value), Ok(name)) = (value, ::bson::raw::CString::try_from(*name))
            && value.as_null().is_none()
        {
            merged.append(name, value);
        }
    }
    // Refuses what is wrong.
    Validator::from_options(&merged, &Collation::Simple)?;
    Ok(merged)
}

/// Gives a table, whose name is quoted for SQL, the validator of these options, in the place of the one it has.
pub(super) fn set(table: &CStr, options: &RawDocument, existed: bool) {
    if existed {
        run(&[c"DROP TRIGGER treedb_validator ON ", table]);
    }
    if options.iter().next().is_some() {
        let json = json::to_exact_json(options).unwrap_or_else(|| json::to_json(options));
        run(&[
            c"CREATE TRIGGER treedb_validator BEFORE INSERT OR UPDATE ON ",
            table,
            c" FOR EACH ROW EXECUTE FUNCTION treedb.validate_document(",
            &literal(&text::owned_cstring(&json)),
            c")",
        ]);
    }
}

/// The validator that a trigger was last called with.
#[derive(Default)]
struct LastValidator(Option<(String, Option<Validator>)>);

fn misused(message: &str) -> ! {
    fail(
        SqlState::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        message,
        "treedb.coll_mod() gives a collection a validator, or takes it away.",
    )
}

pg_function! {
    /// `treedb.validate_document(options)`: refuses documents that the validator in the options does not accept.
    fn treedb_validate_document(args: []) -> Row<'_> {
        let Some(trigger) = Trigger::of(args) else {
            misused("treedb.validate_document() was not called as a trigger")
        };
        let (true, Some(row), Some(column), Some(argument)) =
            (trigger.is_before_row(), trigger.new_row(), trigger.column(c"doc"), trigger.argument(0))
        else {
            misused(
                "treedb.validate_document() must be fired before INSERT or UPDATE, for each row of a table with a \
                 column doc, with options of a validator",
            )
        };
        // NULL is for a constraint to refuse.
        let Some(new) = trigger.value(row, column).map(|value| value.bytes()) else { return row };
        let old = trigger.old_row().and_then(|old| trigger.value(old, column)).map(|value| value.bytes());
        let options = text::to_utf8(argument.to_bytes());
        let checked = args.with_kept(|LastValidator(kept)| {
            if kept.as_ref().is_none_or(|(kept, _)| *kept != options) {
                *kept = None;
            }
            let (_, validator) = kept.get_or_insert_with(|| {
                let document = match json::from_json(&options) {
                    Ok(document) => document,
                    Err(error) => refuse(error),
                };
                let validator = accept(Validator::from_options(&document, &Collation::Simple));
                (options.clone().into_owned(), validator)
            });
            match validator {
                Some(validator) => validator.check(old.as_ref().map(|old| bson::document(old)), bson::document(&new)),
                None => Ok(None),
            }
        });
        match checked {
            Ok(None) => {}
            Ok(Some(info)) => {
                warn(SqlState::ERRCODE_CHECK_VIOLATION, "Document failed validation", json::to_json(&info));
            }
            Err(error) => {
                let (schema, table) = trigger.table();
                let object = ErrorObject {
                    schema: Some(text::lossy(&schema)),
                    table: Some(text::lossy(&table)),
                    constraint: Some(text::lossy(trigger.name())),
                };
                refuse_about(&object, error)
            }
        }
        row
    }
}
