//! A table of documents, by its name.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use treedb_query::{ErrorCode, QueryError};

use crate::shim::error::{SqlState, fail, refuse};
use crate::shim::server;
use crate::shim::text;
use crate::shim::varlena::Bytes;

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
    fn lock(self) -> i32 {
        let lock = match self {
            Need::Select | Need::Manage => pg_sys::AccessShareLock,
            _ => pg_sys::RowExclusiveLock,
        };
        lock as i32
    }
}

/// A name as in SQL, resolved as SQL does: folded unless quoted, with or without schema.
pub(super) struct Name {
    range: *mut pg_sys::RangeVar,
}

impl Name {
    /// Reads a name; an SQL error if it is none.
    pub(super) fn parse(name: &Bytes) -> Name {
        // SAFETY: the server makes a list of names out of a text, or raises an error.
        unsafe {
            let list = pg_sys::textToQualifiedNameList(name.as_text());
            Name { range: pg_sys::makeRangeVarFromNameList(list) }
        }
    }

    /// The table of that name, if there is one, locked.
    fn find(&self, lock: i32) -> Option<pg_sys::Oid> {
        // SAFETY: a range variable of the server's.
        let oid = unsafe {
            pg_sys::RangeVarGetRelidExtended(
                self.range,
                lock,
                pg_sys::RVROption::RVR_MISSING_OK,
                None,
                std::ptr::null_mut(),
            )
        };
        (oid != pg_sys::InvalidOid).then_some(oid)
    }

    /// Where a new table of that name would be created: the schema, and the table there is in its place.
    pub(super) fn place(&self) -> (pg_sys::Oid, Option<pg_sys::Oid>) {
        // SAFETY: as above.
        unsafe {
            let schema = pg_sys::RangeVarGetCreationNamespace(self.range);
            let there = pg_sys::get_relname_relid((*self.range).relname, schema);
            (schema, (there != pg_sys::InvalidOid).then_some(there))
        }
    }

    /// The name without schema.
    pub(super) fn relation(&self) -> &CStr {
        // SAFETY: as above.
        unsafe { CStr::from_ptr((*self.range).relname) }
    }

    /// The name as it was meant, for messages.
    fn shown(&self) -> String {
        text::lossy(self.relation())
    }
}

/// An open table of documents. The lock stays until the end of the transaction.
pub(super) struct Table {
    pub(super) relation: pg_sys::Relation,
    /// Number of the column `doc`.
    pub(super) doc: i16,
}

impl Table {
    /// Opens the collection called `name` and checks that the caller may do what it is going to. An SQL error if
    /// there is none.
    pub(super) fn open(name: &Bytes, need: Need) -> Table {
        let name = Name::parse(name);
        match Table::open_if_there(&name, need) {
            Some(table) => table,
            None => refuse(QueryError::new(
                ErrorCode::NamespaceNotFound,
                format!("collection \"{}\" does not exist", name.shown()),
            )),
        }
    }

    /// The same; `None` if there is no such table.
    pub(super) fn open_if_there(name: &Name, need: Need) -> Option<Table> {
        let oid = name.find(need.lock())?;
        // SAFETY: locked, so it is there; its fields stay while it is open.
        let table = unsafe {
            let relation = pg_sys::relation_open(oid, pg_sys::NoLock as i32);
            let doc = pg_sys::get_attnum(oid, c"doc".as_ptr());
            let table = Table { relation, doc };
            let plain = (*(*relation).rd_rel).relkind == pg_sys::RELKIND_RELATION as i8;
            if !plain || doc <= 0 || pg_sys::get_atttype(oid, doc) != server::own_type(c"bson") {
                fail(
                    SqlState::ERRCODE_WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a collection", name.shown()),
                    "A collection is a plain table with a column doc of type treedb.bson; treedb.create_collection() makes one.",
                );
            }
            table
        };
        table.allow(name, need);
        Some(table)
    }

    fn allow(&self, name: &Name, need: Need) {
        // SAFETY: an open relation, catalog look-ups.
        unsafe {
            let privileges = need.privileges();
            if privileges == 0 {
                return;
            }
            let user = pg_sys::GetUserId();
            let mask = pg_sys::AclMaskHow::ACLMASK_ALL;
            if pg_sys::pg_class_aclmask(self.oid(), user, privileges, mask) != privileges {
                pg_sys::aclcheck_error(
                    pg_sys::AclResult::ACLCHECK_NO_PRIV,
                    pg_sys::ObjectType::OBJECT_TABLE,
                    (*name.range).relname,
                );
            }
            let policies = pg_sys::check_enable_rls(self.oid(), pg_sys::InvalidOid, false);
            if policies == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32 {
                fail(
                    SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
                    format!("collection \"{}\" has row-level security policies", name.shown()),
                    "Ask it in SQL, which applies them: SELECT doc FROM .. WHERE doc OPERATOR(treedb.@@) '{..}'.",
                );
            }
        }
    }

    /// Its identity in the catalog.
    pub(super) fn oid(&self) -> pg_sys::Oid {
        // SAFETY: open.
        unsafe { (*self.relation).rd_id }
    }

    /// Its name, without schema.
    pub(super) fn name(&self) -> &CStr {
        // SAFETY: open.
        unsafe { CStr::from_ptr((*(*self.relation).rd_rel).relname.data.as_ptr()) }
    }

    /// Its schema.
    pub(super) fn schema(&self) -> pg_sys::Oid {
        // SAFETY: open.
        unsafe { (*(*self.relation).rd_rel).relnamespace }
    }

    /// `schema.name`, as messages show it.
    pub(super) fn namespace(&self) -> String {
        // SAFETY: a catalog look-up.
        let schema = unsafe {
            let name = pg_sys::get_namespace_name(self.schema());
            if name.is_null() { CString::default() } else { CStr::from_ptr(name).to_owned() }
        };
        format!("{}.{}", text::lossy(&schema), text::lossy(self.name()))
    }

    /// Schema and name, quoted for SQL, in the database's encoding.
    pub(super) fn quoted(&self) -> CString {
        server::qualified(self.schema(), self.name())
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened by us.
            unsafe { pg_sys::relation_close(self.relation, pg_sys::NoLock as i32) }
        }
    }
}
