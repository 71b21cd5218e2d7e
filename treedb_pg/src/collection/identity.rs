//! The trigger of a collection's table: every document gets its `_id`, first.

use ::bson::RawDocument;
use treedb_query::doc::{Doc, with_id};

use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::pg_function;
use crate::shim::trigger::{Row, Trigger};
use crate::types::bson;

pg_function! {
    /// `treedb.set_id()`: a document without `_id` gets a new one, or keeps the old one when it replaces another.
    fn treedb_set_id(args: []) -> Row<'_> {
        let Some(trigger) = Trigger::of(args) else {
            fail(
                SqlState::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "treedb.set_id() was not called as a trigger",
                "It is the trigger function of a collection's table.",
            )
        };
        let (true, Some(row)) = (trigger.is_before_row(), trigger.new_row()) else {
            fail(
                SqlState::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "treedb.set_id() must be fired before INSERT or UPDATE, for each row",
                "CREATE TRIGGER .. BEFORE INSERT OR UPDATE ON .. FOR EACH ROW EXECUTE FUNCTION treedb.set_id()",
            )
        };
        let Some(column) = trigger.column(c"doc") else {
            fail(
                SqlState::ERRCODE_UNDEFINED_COLUMN,
                "treedb.set_id() is for tables with a column doc of type treedb.bson",
                "Drop the trigger, or give the table such a column.",
            )
        };
        // NULL is for a constraint to refuse.
        let Some(bytes) = trigger.value(row, column).map(|value| value.bytes()) else { return row };
        let document = bson::document(&bytes);
        let mut kept = Vec::new();
        let old = trigger.old_row().and_then(|old| trigger.value(old, column)).map(|value| value.bytes());
        let document = match &old {
            Some(old) => keeping_id(document, old, &mut kept),
            None => document,
        };
        let changed = accept(with_id(document));
        if std::ptr::eq(changed.as_bytes(), &*bytes) {
            return row;
        }
        trigger.with_value(row, column, args.memory().varlena(changed.as_bytes()))
    }
}

/// `document`, or a copy in `out` with the `_id` of `old` in front if it has none.
fn keeping_id<'d>(document: &'d RawDocument, old: &[u8], out: &'d mut Vec<u8>) -> &'d RawDocument {
    let id = Doc::new(old).find(b"_id").filter(|_| Doc::from(document).find(b"_id").is_none());
    let (Some(id), Some(rest)) = (id, document.as_bytes().get(4..)) else { return document };
    let len = 4 + 1 + id.name.len() + 1 + id.bytes.len() + rest.len();
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.push(id.kind);
    out.extend_from_slice(id.name);
    out.push(0);
    out.extend_from_slice(id.bytes);
    out.extend_from_slice(rest);
    bson::document(out)
}
