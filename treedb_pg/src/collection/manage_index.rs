//! `treedb.create_index`, `drop_index`, `list_indexes`, `expire`, and the index part of `coll_mod`.
//!
//! As in [`super::manage`], SQL commands do the work.

use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;
use std::time::{SystemTime, UNIX_EPOCH};

use ::bson::{DateTime, RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use pgrx::PgTryBuilder;
use treedb_query::doc::{Value, json};
use treedb_query::index::ordered::{IndexDef, IndexOptions, expiry, same_key_pattern};
use treedb_query::query::{Filter, Query, Result, delete, index_of};
use treedb_query::{ErrorCode, QueryError};

use super::index::Index;
use super::manage::index_relation;
use super::options;
use super::table::{Need, Table};
use super::writer::Writer;
use crate::shim::catalog::{literal, quoted, run};
use crate::shim::datum::Bytes;
use crate::shim::error::{SqlState, accept, fail, refuse};
use crate::shim::function::pg_function;
use crate::shim::memory::Varlena;
use crate::shim::rows::{Rows, Set};
use crate::shim::text;
use crate::types::{bson, keyset};

/// The options of an index.
const INDEX_OPTIONS: &[&str] = &[
    "name",
    "unique",
    "sparse",
    "hidden",
    "background",
    "partialFilterExpression",
    "expireAfterSeconds",
    "collation",
    "wildcardProjection",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
];

/// The index that keys and options ask for.
fn definition(keys: &RawDocument, options: &RawDocument) -> Result<IndexDef> {
    let mut spec = rawdoc! { "key": keys.to_owned() };
    for element in options {
        let (name, value) = element?;
        if !INDEX_OPTIONS.contains(&name.as_str()) {
            return Err(options::unknown(name.as_str(), INDEX_OPTIONS));
        }
        spec.append(name, value);
    }
    index_of(&spec)
}

/// Creates the relation of an index on a table. Both names are quoted for SQL.
fn create(def: &IndexDef, relation: &CStr, table: &CStr) {
    let described = keyset::description(def);
    let json = json::to_exact_json(&described).unwrap_or_else(|| json::to_json(&described));
    let described = literal(&text::owned_cstring(&json));
    let keys: [&CStr; 3] = [c" USING treedb_btree (treedb.keys(doc, ", &described, c"::treedb.bson)"];
    let parts: Vec<&CStr> = match def.unique {
        false => [c"CREATE INDEX ", relation, c" ON ", table].into_iter().chain(keys).chain([c")"]).collect(),
        true => [c"ALTER TABLE ", table, c" ADD CONSTRAINT ", relation, c" EXCLUDE"]
            .into_iter()
            .chain(keys)
            .chain([c" WITH OPERATOR(treedb.&&))"])
            .collect(),
    };
    let failed = PgTryBuilder::new(AssertUnwindSafe(|| {
        run(&parts);
        None
    }))
    .catch_when(SqlState::ERRCODE_EXCLUSION_VIOLATION, |_| Some(SqlState::ERRCODE_EXCLUSION_VIOLATION))
    .catch_when(SqlState::ERRCODE_UNDEFINED_FUNCTION, |_| Some(SqlState::ERRCODE_UNDEFINED_FUNCTION))
    .execute();
    match failed {
        None => {}
        Some(SqlState::ERRCODE_EXCLUSION_VIOLATION) => refuse(QueryError::new(
            ErrorCode::DuplicateKey,
            format!("E11000 duplicate key error collection: {} index: {}", text::lossy(table), def.name),
        )),
        Some(_) => fail(
            SqlState::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "this database has an earlier version of the extension, whose unique indexes do not reach into arrays",
            "ALTER EXTENSION treedb UPDATE, as a superuser, and create the index then.",
        ),
    }
}

pg_function! {
    /// `treedb.create_index(collection, keys, options)`: the index's name.
    fn treedb_create_index(args: [Varlena, Varlena, Varlena]) -> Varlena<'_> {
        let (keys, options) = (args.bytes(1), args.bytes(2));
        let def = accept(definition(bson::document(&keys), bson::document(&options)));
        let (table, relation) = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            for index in Index::all(&table).iter().filter(|index| index.built) {
                let there = &index.def;
                // The index on _id is unique whether that is asked for or not.
                let is_id = there.is_id() && def.keys == there.keys && def.options == IndexOptions::default();
                if is_id || accept(def.is_same_as(there)) {
                    return args.memory().text(&there.name);
                }
            }
            (table.quoted(), index_relation(&table.name(), &def.name))
        };
        create(&def, &quoted(&relation), &table);
        args.memory().text(&def.name)
    }
}

/// An index to be dropped, or the constraint that it belongs to. Names are quoted for SQL.
struct Dropped {
    index: CString,
    /// The table and the constraint.
    constraint: Option<(CString, CString)>,
}

impl Dropped {
    fn of(index: &Index, table: &Table) -> Dropped {
        let relation = index.relation.get();
        let constraint = relation.is_exclusion().then(|| (table.quoted(), quoted(&relation.name())));
        Dropped { index: index.quoted(), constraint }
    }

    fn run(&self) {
        match &self.constraint {
            Some((table, constraint)) => run(&[c"ALTER TABLE ", table, c" DROP CONSTRAINT ", constraint]),
            None => run(&[c"DROP INDEX ", &self.index]),
        }
    }
}

fn not_found(name: &str) -> QueryError {
    QueryError::new(ErrorCode::IndexNotFound, format!("index not found with name [{name}]"))
}

pg_function! {
    /// `treedb.drop_index(collection, name)`.
    fn treedb_drop_index(args: [Varlena, Varlena]) -> () {
        let wanted = args.bytes(1);
        let wanted = text::to_utf8(&wanted);
        let found = {
            let table = Table::open(&args.bytes(0), Need::Manage);
            let all = Index::all(&table);
            let found = { all.iter().find(|index| index.def.name == wanted) }
                .or_else(|| all.iter().find(|index| index.relation_name() == wanted));
            if found.is_some_and(|index| index.def.is_id()) {
                refuse(QueryError::new(ErrorCode::InvalidOptions, "cannot drop _id index"));
            }
            found.map(|index| Dropped::of(index, &table))
        };
        match found {
            Some(index) => index.run(),
            None => refuse(not_found(&wanted)),
        }
    }
}

pg_function! {
    /// `treedb.list_indexes(collection)`: as MongoDB lists them.
    fn treedb_list_indexes(args: [Varlena]) -> Set {
        let mut rows = Rows::begin(args);
        let table = Table::open(&args.bytes(0), Need::Manage);
        for index in Index::all(&table).iter().filter(|index| index.built) {
            rows.put(index.def.spec().as_bytes());
        }
        rows.finish()
    }
}

/// What `coll_mod` is to change of an index.
#[derive(Default)]
struct IndexChange {
    name: Option<String>,
    pattern: Option<RawDocumentBuf>,
    hidden: Option<bool>,
    expire_after: Option<i64>,
}

impl IndexChange {
    fn read(spec: Value<'_>) -> Result<IndexChange> {
        const ALLOWED: &[&str] = &["name", "keyPattern", "hidden", "expireAfterSeconds"];
        let Value::Document(spec) = spec else { return Err(options::wrong("index", "a document", spec)) };
        let mut change = IndexChange::default();
        for element in spec.elements() {
            let (name, value) = (element.name_str(), element.value());
            match name {
                "name" => change.name = Some(options::text(name, value)?),
                "keyPattern" => change.pattern = options::document(name, value)?,
                "hidden" => change.hidden = Some(options::flag(name, value)?),
                "expireAfterSeconds" => change.expire_after = Some(expiry(value)?),
                _ => return Err(options::unknown(name, ALLOWED)),
            }
        }
        let refused = |message: &str| Err(QueryError::new(ErrorCode::InvalidOptions, message));
        if change.name.is_some() == change.pattern.is_some() {
            return refused("option 'index' names its index by either name or keyPattern");
        }
        if change.hidden.is_none() && change.expire_after.is_none() {
            return refused("option 'index' changes hidden or expireAfterSeconds: neither is given");
        }
        Ok(change)
    }

    fn names(&self, def: &IndexDef) -> bool {
        match (&self.name, &self.pattern) {
            (Some(name), _) => def.name == *name,
            (None, Some(pattern)) => same_key_pattern(&def.key_pattern(), pattern),
            (None, None) => false,
        }
    }
}

/// Changes options of an index, which is built again, and returns them as they were and as they are.
pub(super) fn modify(collection: &Bytes<'_>, change: Value<'_>) -> RawDocumentBuf {
    let change = accept(IndexChange::read(change));
    let found = {
        let table = Table::open(collection, Need::Manage);
        let all = Index::all(&table);
        let found = all.iter().find(|index| change.names(&index.def));
        found.map(|index| {
            let relation = quoted(&index.relation.get().name());
            (table.quoted(), Dropped::of(index, &table), relation, (*index.def).clone())
        })
    };
    let Some((table, index, relation, old)) = found else {
        refuse(not_found(change.name.as_deref().unwrap_or("of this key pattern")))
    };
    let mut new = old.clone();
    new.options.hidden = change.hidden.unwrap_or(old.options.hidden);
    new.options.expire_after = change.expire_after.or(old.options.expire_after);
    if new != old {
        // Refuses options that are not allowed.
        accept(index_of(&new.spec()));
        index.run();
        create(&new, &relation, &table);
    }
    old.shown_change(change.hidden, change.expire_after)
}

/// The documents that have expired by an index at `now`, in milliseconds since 1970; `None` if it has no expiry.
fn expired(def: &IndexDef, now: i64) -> Result<Option<Query>> {
    let (Some(seconds), Some(key)) = (def.options.expire_after, def.keys.first()) else { return Ok(None) };
    let last = DateTime::from_millis(now.saturating_sub(seconds.saturating_mul(1000)));
    let mut field = RawDocumentBuf::new();
    if let Ok(path) = ::bson::raw::CString::try_from(key.path.as_str()) {
        field.append(path, rawdoc! { "$lte": last });
    }
    let mut both = RawArrayBuf::new();
    both.push(field);
    if let Some(partial) = &def.options.partial {
        both.push(partial.source());
    }
    Ok(Some(Query::new(Filter::parse(&rawdoc! { "$and": both })?)))
}

pg_function! {
    /// `treedb.expire(collection)`: deletes the documents that have expired by its TTL indexes, and returns how many.
    fn treedb_expire(args: [Varlena]) -> i64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        let table = Table::open(&args.bytes(0), Need::Delete);
        let queries: Vec<Query> = Index::all(&table)
            .iter()
            .filter(|index| index.usable)
            .filter_map(|index| accept(expired(&index.def, now)))
            .collect();
        if queries.is_empty() {
            return 0;
        }
        let mut writer = Writer::begin(table, Need::Delete, c"treedb.expire()", None);
        let mut deleted = 0;
        for query in &queries {
            writer.select_by(query);
            let done = delete(&mut writer, query, 0);
            deleted += writer.accept(done);
        }
        writer.finish();
        deleted as i64
    }
}
