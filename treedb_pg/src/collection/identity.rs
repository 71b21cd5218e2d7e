//! The trigger of a collection's table: every document gets its `_id`, first.

use ::bson::RawDocument;
use pgrx::pg_sys;
use treedb_query::doc::{Doc, with_id};

use crate::shim::error::{SqlState, accept, fail};
use crate::shim::function::pg_function;
use crate::shim::varlena::Bytes;
use crate::types::bson;

pg_function! {
    /// `treedb.set_id()`: a document without `_id` gets a new one, or keeps the old one when it replaces another.
    fn treedb_set_id(args) {
        // SAFETY: a trigger is passed its data as the context of the call.
        let data = unsafe {
            let context = (*args.raw()).context;
            if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
                fail(
                    SqlState::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                    "treedb.set_id() was not called as a trigger",
                    "It is the trigger function of a collection's table.",
                );
            }
            &*context.cast::<pg_sys::TriggerData>()
        };
        let event = data.tg_event;
        let before = event & pg_sys::TRIGGER_EVENT_TIMINGMASK == pg_sys::TRIGGER_EVENT_BEFORE;
        let action = event & pg_sys::TRIGGER_EVENT_OPMASK;
        let update = action == pg_sys::TRIGGER_EVENT_UPDATE;
        if !before || event & pg_sys::TRIGGER_EVENT_ROW == 0 || !(update || action == pg_sys::TRIGGER_EVENT_INSERT) {
            fail(
                SqlState::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "treedb.set_id() must be fired before INSERT or UPDATE, for each row",
                "CREATE TRIGGER .. BEFORE INSERT OR UPDATE ON .. FOR EACH ROW EXECUTE FUNCTION treedb.set_id()",
            );
        }
        let row = if update { data.tg_newtuple } else { data.tg_trigtuple };
        // SAFETY: the trigger's own relation and row; a column of that name is found by its number.
        let (columns, doc) = unsafe {
            let columns = (*data.tg_relation).rd_att;
            (columns, pg_sys::SPI_fnumber(columns, c"doc".as_ptr()))
        };
        if doc <= 0 {
            fail(
                SqlState::ERRCODE_UNDEFINED_COLUMN,
                "treedb.set_id() is for tables with a column doc",
                "Drop the trigger, or name the column doc.",
            );
        }
        let column = |row: pg_sys::HeapTuple| {
            let mut null = false;
            // SAFETY: as above.
            let datum = unsafe { pg_sys::SPI_getbinval(row, columns, doc, &raw mut null) };
            (!null).then(|| Bytes::of(datum))
        };
        // NULL is for a constraint to refuse.
        let Some(bytes) = column(row) else { return pg_sys::Datum::from(row) };
        let document = bson::document(&bytes);
        let mut kept = Vec::new();
        let document = match update.then(|| column(data.tg_trigtuple)).flatten() {
            Some(old) => keeping_id(document, &old, &mut kept),
            None => document,
        };
        let changed = accept(with_id(document));
        if std::ptr::eq(changed.as_bytes(), &*bytes) {
            return pg_sys::Datum::from(row);
        }
        let (mut number, mut value, mut null) = (doc, bson::datum(&changed), false);
        // SAFETY: as above; the new row is in the caller's memory, as a trigger's is to be.
        unsafe {
            pg_sys::Datum::from(pg_sys::heap_modify_tuple_by_cols(
                row,
                columns,
                1,
                &raw mut number,
                &raw mut value,
                &raw mut null,
            ))
        }
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
