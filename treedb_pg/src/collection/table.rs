//! A table of documents, by its name.

use std::ffi::CString;

use pgrx::pg_sys;
use treedb_query::{ErrorCode, QueryError};

use super::catalog_cache;
use crate::shim::catalog::{self, RelationName};
use crate::shim::datum::Bytes;
use crate::shim::error::{SqlState, fail, refuse};
use crate::shim::filter_scan::Scanned;
use crate::shim::relation::{LockMode, OpenRelation, OpenTable};
use crate::shim::scan_team::SharedScan;
use crate::shim::text;

/// How many rows a block of a table is taken to have before the first ANALYZE.
const ROWS_PER_BLOCK: u64 = 20;

/// What the caller is going to do, and so what it must be allowed to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Select,
    Insert,
    /// Update; with true, insert too.
    Update(bool),
    Delete,
    /// Change the table itself: the command that does it checks that.
    Manage,
}

impl Need {
    fn privileges(self) -> u32 {
        match self {
            Need::Select => pg_sys::ACL_SELECT,
            Need::Insert => pg_sys::ACL_INSERT,
            Need::Update(false) => pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE,
            Need::Update(true) => pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE | pg_sys::ACL_INSERT,
            Need::Delete => pg_sys::ACL_SELECT | pg_sys::ACL_DELETE,
            Need::Manage => 0,
        }
    }

    /// The lock that the same statement in SQL takes.
    fn lock(self) -> LockMode {
        match self {
            Need::Select | Need::Manage => LockMode::AccessShare,
            _ => LockMode::RowExclusive,
        }
    }
}

/// An open table of documents. The lock stays until the end of the transaction. Clones share it.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) relation: OpenTable,
    /// Number of the column `doc`.
    pub(super) doc: i16,
}

impl Table {
    /// Opens the collection called `name` and checks that the caller may do what it is going to. An SQL error if
    /// there is none.
    pub(super) fn open(name: &Bytes<'_>, need: Need) -> Table {
        Table::open_named(&RelationName::parse(name), need)
    }

    /// The same of a name that has been read.
    pub(super) fn open_named(name: &RelationName, need: Need) -> Table {
        match Table::open_if_exists(name, need) {
            Some(table) => table,
            None => refuse(QueryError::new(
                ErrorCode::NamespaceNotFound,
                format!("collection \"{}\" does not exist", text::lossy(name.relation())),
            )),
        }
    }

    /// The same; `None` if there is no such table.
    pub(super) fn open_if_exists(name: &RelationName, need: Need) -> Option<Table> {
        let oid = name.find(need.lock())?;
        let doc = match catalog_cache::known(oid) {
            Some(known) => known.doc,
            None => Table::documents_of(oid, name),
        };
        let table = Table { relation: OpenTable::open(oid, LockMode::Held), doc };
        table.allow(name, need);
        Some(table)
    }

    /// The number of the column of documents of a locked relation, which is called `name`; an SQL error if it is no
    /// collection.
    fn documents_of(oid: pg_sys::Oid, name: &RelationName) -> i16 {
        let not_a_collection = || {
            fail(
                SqlState::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a collection", text::lossy(name.relation())),
                "A collection is a plain table with a column doc of type treedb.bson; treedb.create_collection() makes one.",
            )
        };
        if OpenRelation::open(oid, LockMode::Held).get().kind() != pg_sys::RELKIND_RELATION {
            not_a_collection();
        }
        let Some((doc, column_type)) = catalog::column(oid, c"doc") else { not_a_collection() };
        if column_type != catalog::own_type(c"bson") {
            not_a_collection();
        }
        doc
    }

    /// Opens the collection called `name` for an estimate of what reading it takes. Without an error: `None` if there is
    /// none, or if the caller may not read it.
    pub(super) fn open_quietly(name: &Bytes<'_>) -> Option<Table> {
        let oid = RelationName::parse_quietly(name)?.find_quietly()?;
        let relation = OpenTable::open_quietly(oid, LockMode::AccessShare)?;
        let (doc, column_type) = catalog::column(oid, c"doc")?;
        let readable = column_type == catalog::own_type(c"bson") && catalog::may_read(oid);
        readable.then_some(Table { relation, doc })
    }

    /// A table that a statement's plan reads: the statement has locked it, and checks itself what the user may do.
    pub(super) fn of_plan(table: Scanned) -> Table {
        Table { relation: OpenTable::open(table.table, LockMode::Held), doc: table.column }
    }

    /// The table of a scan that several processes share: their leader has locked it, and has checked what the user may do.
    pub(super) fn of_part(part: &SharedScan) -> Table {
        let relation = part.open_table();
        let doc = catalog::column(relation.get().oid(), c"doc").map_or(0, |(doc, _)| doc);
        Table { relation, doc }
    }

    fn allow(&self, name: &RelationName, need: Need) {
        let privileges = need.privileges();
        if privileges == 0 {
            return;
        }
        let oid = self.relation.get().oid();
        catalog::expect_privileges(oid, privileges, name.relation());
        if catalog::has_policies(*self.relation.get()) {
            fail(
                SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("collection \"{}\" has row-level security policies", text::lossy(name.relation())),
                "Ask it in SQL, which applies them: SELECT doc FROM .. WHERE doc OPERATOR(treedb.@@) '{..}'.",
            );
        }
    }

    /// Whether the column of documents may be NULL.
    pub(super) fn may_lack_documents(&self) -> bool {
        let at = usize::try_from(self.doc - 1);
        !at.is_ok_and(|at| self.relation.get().is_never_null(at))
    }

    /// How many rows it has, as far as the server knows.
    pub(super) fn estimated_rows(&self) -> u64 {
        let table = self.relation.get();
        match table.estimated_rows() {
            Some(rows) => rows as u64,
            None => u64::from(table.blocks()) * ROWS_PER_BLOCK,
        }
    }

    /// Its name, without schema.
    pub(super) fn name(&self) -> CString {
        self.relation.get().name()
    }

    /// `schema.name`, as messages show it.
    pub(super) fn namespace(&self) -> String {
        let schema = catalog::schema_name(self.relation.get().schema());
        format!("{}.{}", text::lossy(&schema), text::lossy(&self.name()))
    }

    /// Schema and name, quoted for SQL, in the database's encoding.
    pub(super) fn quoted(&self) -> CString {
        self.relation.get().quoted()
    }
}
