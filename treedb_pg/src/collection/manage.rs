//! `treedb.create_collection`, `drop_collection`, `rename_collection`, `coll_mod`, `collection_options`.
//!
//! Each runs the SQL commands that do it, so that privileges, dependencies, locks and event triggers are SQL's.

use std::ffi::{CStr, CString};

use ::bson::RawDocumentBuf;
use pgrx::pg_sys;
use treedb_query::doc::Doc;
use treedb_query::{ErrorCode, QueryError};

use super::index::Index;
use super::manage_index;
use super::options;
use super::search_index::SearchIndex;
use super::table::{Need, Table};
use super::validator;
use crate::shim::catalog::{self, RelationName, qualified, quoted, run};
use crate::shim::error::{SqlState, accept, fail, refuse};
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::setting::Text;
use crate::shim::text;
use crate::types::bson;

/// The table access method that new collections are made with.
pub(crate) static TABLE_ACCESS_METHOD: Text = Text::new(
    c"treedb.table_access_method",
    c"Sets the table access method of collections that treedb.create_collection() creates.",
    c"heap",
);

/// How much of its pages a collection fills by inserts, in percent, as most document databases do: then the first update of a
/// document finds room beside it, too, and need not insert into every index.
const FILL_FACTOR: &CStr = c" WITH (fillfactor = 90)";

/// `table_index`, if that is a name for a relation.
pub(super) fn index_relation(table: &CStr, index: &str) -> CString {
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

fn exists(name: &RelationName) -> QueryError {
    let shown = text::lossy(name.relation());
    QueryError::new(ErrorCode::NamespaceExists, format!("collection \"{shown}\" already exists"))
}

/// The options of a validator in the options of a call, in which there may also be those in `others`.
fn validator_options(given: &::bson::RawDocument, others: &[&str]) -> RawDocumentBuf {
    let allowed: Vec<&str> = validator::OPTIONS.iter().chain(others).copied().collect();
    for element in Doc::from(given).elements() {
        if !allowed.contains(&element.name_str()) {
            refuse(options::unknown(element.name_str(), &allowed));
        }
    }
    given.to_owned()
}

pg_function! {
    /// `treedb.create_collection(name, options)`: the new table.
    fn treedb_create_collection(args: [Varlena, Varlena]) -> Option<pg_sys::Oid> {
        let name = RelationName::parse(&args.bytes(0));
        let options = args.bytes(1);
        let options = validator_options(bson::document(&options), &[]);
        let options = accept(validator::merged(&RawDocumentBuf::new(), &options));
        let (schema, there) = name.place();
        if there.is_some() {
            refuse(exists(&name));
        }
        let id_index = index_relation(name.relation(), "_id_");
        let table = qualified(schema, name.relation());
        let access_method = quoted(&TABLE_ACCESS_METHOD.get());
        run(&[c"CREATE TABLE ", &table, c" (doc treedb.bson NOT NULL) USING ", &access_method, FILL_FACTOR]);
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
        validator::set(&table, &options, false);
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
    /// `treedb.rename_collection(from, to, drop_target)`: the table, whose indexes are renamed with it. Without a schema
    /// in the new name it stays in its own.
    fn treedb_rename_collection(args: [Varlena, Varlena, Bool]) -> pg_sys::Oid {
        let (from, to) = (RelationName::parse(&args.bytes(0)), RelationName::parse(&args.bytes(1)));
        let (oid, old_schema, old_name, old_quoted, indexes) = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            let relation = table.relation.get();
            let mut indexes: Vec<(CString, String)> = Index::all(&table)
                .iter()
                .map(|index| (index.relation.get().name(), index.def.name.clone()))
                .collect();
            let vectors = SearchIndex::all(&table);
            indexes.extend(vectors.iter().map(|index| (index.relation.get().name(), index.def.name.clone())));
            (relation.oid(), relation.schema(), relation.name(), table.quoted(), indexes)
        };
        let new_schema = if to.is_qualified() { to.place().0 } else { old_schema };
        match catalog::relation_in(new_schema, to.relation()) {
            Some(there) if there == oid => refuse(QueryError::new(
                ErrorCode::IllegalOperation,
                format!("cannot rename collection \"{}\" to itself", text::lossy(from.relation())),
            )),
            Some(_) if args.bool(2) => {
                let target = qualified(new_schema, to.relation());
                let is_collection =
                    Table::open_if_exists(&RelationName::parse_string(&target), Need::Manage).is_some();
                if is_collection {
                    run(&[c"DROP TABLE ", &target]);
                }
            }
            Some(_) => refuse(exists(&to)),
            None => {}
        }
        if new_schema != old_schema {
            let schema = quoted(&catalog::schema_name(new_schema));
            run(&[c"ALTER TABLE ", &old_quoted, c" SET SCHEMA ", &schema]);
        }
        if old_name.as_c_str() != to.relation() {
            let moved = qualified(new_schema, &old_name);
            run(&[c"ALTER TABLE ", &moved, c" RENAME TO ", &quoted(to.relation())]);
            for (relation, name) in indexes {
                // An index that is not named after its table keeps its name.
                if relation.to_bytes() == index_relation_bytes(&old_name, &name) {
                    let new = index_relation(to.relation(), &name);
                    run(&[c"ALTER INDEX ", &qualified(new_schema, &relation), c" RENAME TO ", &quoted(&new)]);
                }
            }
        }
        oid
    }
}

/// `table_index`, however long.
fn index_relation_bytes(table: &CStr, index: &str) -> Vec<u8> {
    [table.to_bytes(), b"_", text::owned_cstring(index).to_bytes()].concat()
}

pg_function! {
    /// `treedb.coll_mod(collection, options)`: changes the validator, or `hidden` and `expireAfterSeconds` of an index.
    fn treedb_coll_mod(args: [Varlena, Varlena]) -> Varlena<'_> {
        let options = args.bytes(1);
        let given = bson::document(&options);
        let changes = validator_options(given, &["index"]);
        if validator::OPTIONS.iter().any(|name| Doc::from(given).get(name).is_some()) {
            let (table, old) = {
                let table = Table::open(&args.bytes(0), Need::Manage);
                (table.quoted(), validator::options_of(&table))
            };
            let new = accept(validator::merged(&old, &changes));
            if new != old {
                validator::set(&table, &new, old.iter().next().is_some());
            }
        }
        let reply = match Doc::from(given).get("index") {
            Some(index) => manage_index::modify(&args.bytes(0), index),
            None => RawDocumentBuf::new(),
        };
        args.memory().varlena(reply.as_bytes())
    }
}

pg_function! {
    /// `treedb.collection_options(collection)`: the options that `create_collection` and `coll_mod` gave it.
    fn treedb_collection_options(args: [Varlena]) -> Varlena<'_> {
        let table = Table::open(&args.bytes(0), Need::Manage);
        args.memory().varlena(validator::options_of(&table).as_bytes())
    }
}
