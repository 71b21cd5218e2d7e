//! `treedb.create_search_index`, `list_search_indexes`, `update_search_index`, `drop_search_index`.
//!
//! As in [`super::manage`], SQL commands do the work.

use std::ffi::CStr;

use ::bson::raw::cstr;
use ::bson::{RawDocument, RawDocumentBuf, rawdoc};
use pgrx::pg_sys::Oid;
use treedb_query::doc::Doc;
use treedb_query::index::Definition;
use treedb_query::index::vector::{Element, Metric, VectorDef};
use treedb_query::query::Result;
use treedb_query::{ErrorCode, QueryError};

use super::index::Index;
use super::manage::index_relation;
use super::options;
use super::search_index::{SearchIndex, function, not_found};
use super::table::{Need, Table};
use crate::shim::catalog::{literal, qualified, quoted, run};
use crate::shim::error::{accept, refuse};
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::rows::{Rows, Set};
use crate::shim::text;
use crate::shim::vector_options::quantization_name;
use crate::types::bson;
use crate::vector_am;

/// The options of a search index.
const OPTIONS: &[&str] = &["name"];

/// The index that a definition and options ask for. A definition is MongoDB's, `{"fields": [..]}`, or the whole specification
/// that `list_search_indexes` shows.
fn definition(given: &RawDocument, options: &RawDocument) -> Result<VectorDef> {
    let is_whole = Doc::from(given).get("definition").is_some();
    let mut spec = match is_whole {
        true => given.to_owned(),
        false => rawdoc! { "type": "vectorSearch", "definition": given.to_owned() },
    };
    if !VectorDef::is_specified_by(&spec) {
        let message = "the \"type\" of a search index must be \"vectorSearch\"";
        return Err(QueryError::new(ErrorCode::CannotCreateIndex, message));
    }
    for element in Doc::from(options).elements() {
        let (name, value) = (element.name_str(), element.value());
        if !OPTIONS.contains(&name) {
            return Err(options::unknown(name, OPTIONS));
        }
        spec = with_name(&spec, &options::text(name, value)?)?;
    }
    let mut def = vector_am::limited(VectorDef::from_spec(&spec)?);
    if !def.others.is_empty() {
        let message = "an index has one field of type \"vector\" in PostgreSQL: create one for each";
        return Err(QueryError::new(ErrorCode::CannotCreateIndex, message));
    }
    // A search may filter by any field, and the catalog has no place for their names.
    def.filters.clear();
    if def.elements != Element::Float32 {
        let message = "\"elements\" must be \"float32\" in PostgreSQL, where an index keeps vectors in elements of 4 bytes";
        return Err(QueryError::new(ErrorCode::CannotCreateIndex, message));
    }
    // Any quantization will do: it is kept to be shown again. The codes of an index are what its dimensions and its metric make them, and
    // what a search finds is compared by the vectors themselves.
    Ok(def)
}

/// A specification with another name.
fn with_name(spec: &RawDocument, name: &str) -> Result<RawDocumentBuf> {
    let mut named = RawDocumentBuf::new();
    for element in spec {
        let (field, value) = element?;
        if field.as_str() != "name" {
            named.append(field, value);
        }
    }
    named.append(cstr!("name"), name);
    Ok(named)
}

/// The operator class of a metric.
fn operator_class(metric: Metric) -> &'static CStr {
    match metric {
        Metric::Cosine => c"treedb.real_cosine_ops",
        Metric::L2 => c"treedb.real_l2_ops",
        Metric::InnerProduct => c"treedb.real_ip_ops",
        Metric::L1 => c"treedb.real_l1_ops",
        Metric::Hamming => c"treedb.bit_hamming_ops",
        Metric::Jaccard => c"treedb.bit_jaccard_ops",
    }
}

/// Whether a definition asks for another quantization than one that says nothing of it.
fn says_quantization(def: &VectorDef) -> bool {
    def.quantization != VectorDef::new("", def.dimensions, def.metric).quantization
}

/// Creates the relation of an index.
fn create(table: &CStr, schema: Oid, relation: &CStr, def: &VectorDef) {
    let number = |number: usize| text::owned_cstring(&number.to_string());
    let dimensions = number(def.dimensions);
    let quantization = if says_quantization(def) { quantization_name(def.quantization) } else { c"" };
    run(&[
        c"CREATE INDEX ",
        &quoted(relation),
        c" ON ",
        table,
        c" USING treedb_hnsw (treedb.",
        function(def.metric),
        c"(doc, ",
        &literal(&text::owned_cstring(def.path.as_str())),
        c"::pg_catalog.text, ",
        &dimensions,
        c") ",
        operator_class(def.metric),
        c") WITH (dimensions = ",
        &dimensions,
        c", m = ",
        &number(def.links),
        c", ef_construction = ",
        &number(def.candidates),
        if quantization.is_empty() { c"" } else { c", quantization = " },
        quantization,
        c")",
    ]);
    // Most common elements of vectors, which ANALYZE would collect, are of no use to the planner.
    run(&[c"ALTER INDEX ", &qualified(schema, relation), c" ALTER COLUMN 1 SET STATISTICS 0"]);
}

pg_function! {
    /// `treedb.create_search_index(collection, definition, options)`: the index's name.
    fn treedb_create_search_index(args: [Varlena, Varlena, Varlena]) -> Varlena<'_> {
        let (given, options) = (args.bytes(1), args.bytes(2));
        let def = accept(definition(bson::document(&given), bson::document(&options)));
        let (table, schema, relation) = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            for index in SearchIndex::all(&table).iter().filter(|index| index.built) {
                if accept(def.is_same_as(&index.def)) {
                    return args.memory().text(&index.def.name);
                }
            }
            let wanted = Definition::Vector(def.clone());
            for index in &Index::all(&table) {
                accept(wanted.is_same_as(&Definition::Ordered((*index.def).clone())));
            }
            let relation = index_relation(&table.name(), &def.name);
            (table.quoted(), table.relation.get().schema(), relation)
        };
        create(&table, schema, &relation, &def);
        args.memory().text(&def.name)
    }
}

pg_function! {
    /// `treedb.list_search_indexes(collection)`: as the library lists them.
    fn treedb_list_search_indexes(args: [Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let table = Table::open(&args.bytes(0), Need::Manage);
        for index in SearchIndex::all(&table).iter().filter(|index| index.built) {
            rows.put(index.def.spec().as_bytes());
        }
        rows.finish()
    }
}

pg_function! {
    /// `treedb.update_search_index(collection, name, definition)`: the index is built anew, and replaces the old one with the transaction.
    fn treedb_update_search_index(args: [Varlena, Varlena, Varlena]) -> () {
        let (wanted, given) = (args.bytes(1), args.bytes(2));
        let wanted = text::to_utf8(&wanted);
        let (table, schema, relation, aside, def, is_same_graph) = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            let all = SearchIndex::all(&table);
            let Some(old) = SearchIndex::position(&all, &wanted).and_then(|at| all.get(at)) else {
                refuse(not_found(&wanted))
            };
            let def = accept(definition(bson::document(&given), &rawdoc! { "name": old.def.name.as_str() }));
            if old.built && def == old.def {
                return;
            }
            let relation = old.relation.get();
            let aside = text::owned_cstring(&format!("treedb_replaced_{}", u32::from(relation.oid())));
            let is_same_graph =
                old.built && def == VectorDef { quantization: def.quantization, ..old.def.clone() };
            (table.quoted(), table.relation.get().schema(), relation.name(), aside, def, is_same_graph)
        };
        if is_same_graph {
            let quantization = quantization_name(def.quantization);
            let index = qualified(schema, &relation);
            return run(&[c"ALTER INDEX ", &index, c" SET (quantization = ", quantization, c")"]);
        }
        // Two that have both built an index would wait for each other when they drop the old ones.
        run(&[c"LOCK TABLE ", &table, c" IN SHARE ROW EXCLUSIVE MODE"]);
        // The old one is dropped last: until then searches go on by it.
        run(&[c"ALTER INDEX ", &qualified(schema, &relation), c" RENAME TO ", &quoted(&aside)]);
        create(&table, schema, &relation, &def);
        run(&[c"DROP INDEX ", &qualified(schema, &aside)]);
    }
}

pg_function! {
    /// `treedb.drop_search_index(collection, name)`.
    fn treedb_drop_search_index(args: [Varlena, Varlena]) -> () {
        let wanted = args.bytes(1);
        let wanted = text::to_utf8(&wanted);
        let found = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            let all = SearchIndex::all(&table);
            SearchIndex::position(&all, &wanted)
                .and_then(|at| all.get(at))
                .map(|index| index.relation.get().quoted())
        };
        match found {
            Some(index) => run(&[c"DROP INDEX ", &index]),
            None => refuse(not_found(&wanted)),
        }
    }
}
