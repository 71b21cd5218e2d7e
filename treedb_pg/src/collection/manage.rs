//! `treedb.create_collection`, `drop_collection`, `create_index`, `drop_index`, `list_indexes`.
//!
//! Each runs the SQL command that does it, so that privileges, dependencies, locks and event triggers are SQL's.

use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;

use ::bson::raw::cstr;
use ::bson::rawdoc;
use pgrx::{PgTryBuilder, pg_sys};
use treedb_query::doc::json;
use treedb_query::index::ordered::IndexDef;
use treedb_query::{ErrorCode, QueryError};

use super::index::Index;
use super::options::Options;
use super::table::{Need, Table};
use crate::shim::catalog::{RelationName, literal, qualified, quoted, run};
use crate::shim::error::{SqlState, accept, fail, refuse};
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::rows::{Rows, Set};
use crate::shim::text;
use crate::types::bson;

/// `table_index`, if that is a name for a relation.
fn index_relation(table: &CStr, index: &str) -> CString {
    let mut name = table.to_bytes().to_vec();
    name.push(b'_');
    name.extend_from_slice(text::owned_cstring(index).to_bytes());
    let most = pg_sys::NAMEDATALEN as usize - 1;
    if name.len() > most {
        fail(
            SqlState::ERRCODE_NAME_TOO_LONG,
            format!("\"{}\" is longer than the {most} bytes of a name", String::from_utf8_lossy(&name)),
            "Choose a shorter name for the collection, or name the index: treedb.create_index(.., '{\"name\": \"..\"}').",
        );
    }
    CString::new(name).unwrap_or_default()
}

pg_function! {
    /// `treedb.create_collection(name)`: the new table.
    fn treedb_create_collection(args: [Varlena]) -> Option<pg_sys::Oid> {
        let name = RelationName::parse(&args.bytes(0));
        let (schema, there) = name.place();
        let shown = text::lossy(name.relation());
        if there.is_some() {
            refuse(QueryError::new(ErrorCode::NamespaceExists, format!("collection \"{shown}\" already exists")));
        }
        let id_index = index_relation(name.relation(), "_id_");
        let table = qualified(schema, name.relation());
        run(&[c"CREATE TABLE ", &table, c" (doc treedb.bson NOT NULL) USING treedb"]);
        run(&[
            c"CREATE UNIQUE INDEX ",
            &quoted(&id_index),
            c" ON ",
            &table,
            c" USING btree ((doc OPERATOR(treedb.->) '_id'::pg_catalog.text))",
        ]);
        run(&[
            c"CREATE TRIGGER treedb_id BEFORE INSERT OR UPDATE ON ",
            &table,
            c" FOR EACH ROW EXECUTE FUNCTION treedb.set_id()",
        ]);
        name.place().1
    }
}

pg_function! {
    /// `treedb.drop_collection(name)`: false if there was none.
    fn treedb_drop_collection(args: [Varlena]) -> bool {
        let name = RelationName::parse(&args.bytes(0));
        // Closed before it is dropped.
        let table = Table::open_if_exists(&name, Need::Manage).map(|table| table.quoted());
        if let Some(table) = &table {
            run(&[c"DROP TABLE ", table]);
        }
        table.is_some()
    }
}

pg_function! {
    /// `treedb.create_index(collection, keys, options)`: the index's name.
    fn treedb_create_index(args: [Varlena, Varlena, Varlena]) -> Varlena<'_> {
        let (keys, options) = (args.bytes(1), args.bytes(2));
        let options = accept(Options::read(bson::document(&options), &["name", "unique"]));
        let def = accept(IndexDef::parse(bson::document(&keys), options.name.as_deref(), options.unique));
        let (table, relation) = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            for index in Index::all(&table) {
                if index.usable && accept(def.is_same_as(&index.info.def)) {
                    return args.memory().text(&def.name);
                }
            }
            (table.quoted(), index_relation(&table.name(), &def.name))
        };
        let pattern = literal(&text::owned_cstring(&json::to_json(&def.key_pattern())));
        let (kind, access, function) = if def.unique {
            (c"UNIQUE ", c"btree", c"unique_key")
        } else {
            (c"", c"treedb_btree", c"keys")
        };
        let parts: [&CStr; 13] = [
            c"CREATE ", kind, c"INDEX ", &quoted(&relation), c" ON ", &table, c" USING ", access, c" (treedb.",
            function, c"(doc, ", &pattern, c"::treedb.bson))",
        ];
        let duplicate = PgTryBuilder::new(AssertUnwindSafe(|| {
            run(&parts);
            false
        }))
        .catch_when(SqlState::ERRCODE_UNIQUE_VIOLATION, |_| true)
        .execute();
        if duplicate {
            refuse(QueryError::new(
                ErrorCode::DuplicateKey,
                format!("E11000 duplicate key error collection: {} index: {}", text::lossy(&table), def.name),
            ));
        }
        args.memory().text(&def.name)
    }
}

pg_function! {
    /// `treedb.drop_index(collection, name)`.
    fn treedb_drop_index(args: [Varlena, Varlena]) -> () {
        let wanted = args.bytes(1);
        let wanted = text::to_utf8(&wanted);
        let found = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            let all = Index::all(&table);
            let found = all.iter().find(|index| {
                index.info.def.name == wanted || index.relation_name() == wanted
            });
            if found.is_some_and(|index| index.info.def.is_id()) {
                refuse(QueryError::new(ErrorCode::InvalidOptions, "cannot drop _id index"));
            }
            found.map(Index::quoted)
        };
        match found {
            Some(index) => run(&[c"DROP INDEX ", &index]),
            None => refuse(QueryError::new(
                ErrorCode::IndexNotFound,
                format!("index not found with name [{wanted}]"),
            )),
        }
    }
}

pg_function! {
    /// `treedb.list_indexes(collection)`: as MongoDB lists them.
    fn treedb_list_indexes(args: [Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let table = Table::open(&args.bytes(0), Need::Manage);
        for index in Index::all(&table).iter().filter(|index| index.usable) {
            let def = &index.info.def;
            let mut shown = rawdoc! { "v": 2_i32, "key": def.key_pattern(), "name": def.name.as_str() };
            if def.unique && !def.is_id() {
                shown.append(cstr!("unique"), true);
            }
            rows.put(shown.as_bytes());
        }
        rows.finish()
    }
}
