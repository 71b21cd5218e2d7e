//! The catalog: types and functions of the extension, names, privileges; commands of SQL.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::rc::Rc;

use pgrx::pg_sys;

use super::compat;
use super::datum::Bytes;
use super::relation::{LockMode, OpenRelation, OpenTable, Relation};
use super::unguarded;

/// The schema of the extension; it cannot be another. `None` if there is none: hooks of the planner are called in a session that has
/// dropped the extension, too.
fn own_schema() -> Option<pg_sys::Oid> {
    // SAFETY: a catalog look-up.
    let schema = unsafe { pg_sys::get_namespace_oid(c"treedb".as_ptr(), true) };
    (schema != pg_sys::InvalidOid).then_some(schema)
}

/// Numbers that this backend has looked up, by kind and name.
type Numbers = Vec<(Kind, &'static CStr, pg_sys::Oid)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Type,
    Function,
}

thread_local! {
    static NUMBERS: RefCell<Numbers> = const { RefCell::new(Vec::new()) };
}

/// A privilege of a user on an object: the user, the object, and what it is (`ACL_SELECT` and so on).
type Privilege = (pg_sys::Oid, pg_sys::Oid, u32);

/// Most privileges that are remembered; when there would be more, all are forgotten.
const MOST_ALLOWED: usize = 64;

thread_local! {
    /// What this backend has found to be allowed. Tables and functions are different objects of the same number so rarely
    /// that they are told apart by the privileges that they can have.
    static ALLOWED: RefCell<Vec<Privilege>> = const { RefCell::new(Vec::new()) };
}

/// Calls `check`, which raises an error unless the current user has privileges on a table or a function, unless it has
/// not raised one since something changed that it depends on.
pub(super) fn once_allowed(object: pg_sys::Oid, privileges: u32, check: impl FnOnce()) {
    let wanted = (unguarded::GetUserId(), object, privileges);
    if ALLOWED.with_borrow(|allowed| allowed.contains(&wanted)) {
        return;
    }
    let before = CHANGES.get();
    check();
    // What has changed while it was checked is checked again.
    if CHANGES.get() == before {
        ALLOWED.with_borrow_mut(|allowed| {
            if allowed.len() >= MOST_ALLOWED {
                allowed.clear();
            }
            allowed.push(wanted);
        });
    }
}

thread_local! {
    /// How often something has changed that privileges or names depend on.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Forgets what is allowed and what names stand for, because a relation, a function, a schema, a role, a membership or a
/// database has changed.
pub(super) fn forget_allowed() {
    CHANGES.set(CHANGES.get().wrapping_add(1));
    ALLOWED.with_borrow_mut(Vec::clear);
    FOUND.with_borrow_mut(Vec::clear);
}

/// Forgets all numbers, and which functions are the extension's, because a type, a function or a schema has changed.
pub(super) fn forget_numbers() {
    NUMBERS.with_borrow_mut(Vec::clear);
    OWN_FUNCTIONS.with_borrow_mut(HashMap::clear);
}

/// The number of an object of the extension's, from `look_up` unless it is known.
fn number(kind: Kind, name: &'static CStr, look_up: impl FnOnce() -> pg_sys::Oid) -> pg_sys::Oid {
    let known = |numbers: &Numbers| {
        numbers.iter().find(|(of, known, _)| *of == kind && *known == name).map(|(.., oid)| *oid)
    };
    if let Some(oid) = NUMBERS.with_borrow(known) {
        return oid;
    }
    let oid = look_up();
    if oid != pg_sys::InvalidOid {
        NUMBERS.with_borrow_mut(|numbers| numbers.push((kind, name, oid)));
    }
    oid
}

/// A type of the extension's; the invalid one if there is none of that name.
pub(crate) fn own_type(name: &'static CStr) -> pg_sys::Oid {
    number(Kind::Type, name, || {
        let Some(schema) = own_schema() else { return pg_sys::InvalidOid };
        // SAFETY: a catalog look-up by a name and a schema.
        unsafe {
            pg_sys::GetSysCacheOid(
                pg_sys::SysCacheIdentifier::TYPENAMENSP as i32,
                pg_sys::Anum_pg_type_oid as i16,
                pg_sys::Datum::from(name.as_ptr()),
                schema.into(),
                pg_sys::Datum::from(0usize),
                pg_sys::Datum::from(0usize),
            )
        }
    })
}

/// Most functions that are remembered; when there would be more, all are forgotten.
const MOST_FUNCTIONS: usize = 1024;

thread_local! {
    /// The functions that this backend has been asked about, with the names of those that are the extension's. The planner asks about those
    /// of every condition again and again.
    static OWN_FUNCTIONS: RefCell<HashMap<pg_sys::Oid, Option<Rc<CStr>>>> = RefCell::default();
}

/// The name of a function, if it is the extension's.
fn own_name(function: pg_sys::Oid) -> Option<Rc<CStr>> {
    if let Some(known) = OWN_FUNCTIONS.with_borrow(|known| known.get(&function).cloned()) {
        return known;
    }
    let before = CHANGES.get();
    // SAFETY: catalog look-ups; the name is copied.
    let name = unsafe {
        let own = Some(pg_sys::get_func_namespace(function)) == own_schema();
        let name = if own { pg_sys::get_func_name(function) } else { std::ptr::null_mut() };
        (!name.is_null()).then(|| Rc::from(CStr::from_ptr(name)))
    };
    // What has changed while it was looked up is looked up again.
    if CHANGES.get() == before {
        OWN_FUNCTIONS.with_borrow_mut(|known| {
            if known.len() >= MOST_FUNCTIONS {
                known.clear();
            }
            known.insert(function, name.clone());
        });
    }
    name
}

/// That of `known` whose name is that of a function of the extension's.
pub(crate) fn own_function_among<T>(
    function: pg_sys::Oid,
    known: &[T],
    name: impl Fn(&T) -> &CStr,
) -> Option<&T> {
    let found = own_name(function)?;
    known.iter().find(|one| *name(one) == *found)
}

/// Whether a function is the extension's one of that name.
pub(crate) fn is_own_function(function: pg_sys::Oid, name: &CStr) -> bool {
    own_name(function).is_some_and(|found| *found == *name)
}

/// The extension's function of that name, of which there is only one; an error if there is none.
pub(crate) fn own_function(name: &'static CStr) -> pg_sys::Oid {
    look_up_function(name, false)
}

/// The same; `None` if there is none, as the extension is of an earlier version than the library.
pub(super) fn own_function_if_exists(name: &'static CStr) -> Option<pg_sys::Oid> {
    Some(look_up_function(name, true)).filter(|function| *function != pg_sys::InvalidOid)
}

fn look_up_function(name: &'static CStr, missing_ok: bool) -> pg_sys::Oid {
    // SAFETY: a list of two names, which the server copies nothing of beyond the call; an error if there is none.
    number(Kind::Function, name, || unsafe {
        let names =
            pg_sys::lappend(std::ptr::null_mut(), pg_sys::makeString(c"treedb".as_ptr().cast_mut()).cast());
        let names = pg_sys::lappend(names, pg_sys::makeString(name.as_ptr().cast_mut()).cast());
        // No list of types is given (-1), but a server with assertions wants to see the beginning of one.
        let types = pg_sys::InvalidOid;
        pg_sys::LookupFuncName(names, -1, &raw const types, missing_ok)
    })
}

/// The first argument of the trigger of a table that executes the extension's function of that name; `None` if there is
/// no such trigger.
pub(crate) fn trigger_argument(table: &OpenTable, function: &CStr) -> Option<CString> {
    // SAFETY: the description of an open table has `numtriggers` triggers, each with `tgnargs` arguments closed by a
    // zero byte; the argument is copied.
    unsafe {
        let triggers = (*table.get().raw()).trigdesc.as_ref()?;
        let count = usize::try_from(triggers.numtriggers).unwrap_or(0);
        (0..count).find_map(|at| {
            let trigger = &*triggers.triggers.add(at);
            (trigger.tgnargs > 0 && is_own_function(trigger.tgfoid, function))
                .then(|| CStr::from_ptr(*trigger.tgargs).to_owned())
        })
    }
}

/// The relation of a name in a schema, if there is one.
pub(crate) fn relation_in(schema: pg_sys::Oid, name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog look-up.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// An index access method by name; `None` if there is none.
pub(crate) fn index_access_method(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog look-up.
    let oid = unsafe { pg_sys::get_index_am_oid(name.as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Whether a relation has the index access method of this name.
pub(crate) fn is_index_of(relation: pg_sys::Oid, method: &CStr) -> bool {
    let open = OpenRelation::open(relation, LockMode::AccessShare);
    Some(open.get().access_method()) == index_access_method(method)
}

/// The table that an index is of; an SQL error if it is not an index.
pub(crate) fn table_of_index(index: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::IndexGetRelation(index, false) }
}

/// The column of a name, with the number of its type; `None` if there is none.
pub(crate) fn column(table: pg_sys::Oid, name: &CStr) -> Option<(i16, pg_sys::Oid)> {
    // SAFETY: catalog look-ups.
    unsafe {
        let number = pg_sys::get_attnum(table, name.as_ptr());
        (number > 0).then(|| (number, pg_sys::get_atttype(table, number)))
    }
}

/// The name of a schema; empty if there is none.
pub(crate) fn schema_name(schema: pg_sys::Oid) -> CString {
    // SAFETY: a catalog look-up, whose result is copied.
    unsafe {
        let name = pg_sys::get_namespace_name(schema);
        if name.is_null() { CString::default() } else { CStr::from_ptr(name).to_owned() }
    }
}

/// A name of a schema and a name in it, quoted for SQL.
pub(crate) fn qualified(schema: pg_sys::Oid, name: &CStr) -> CString {
    // SAFETY: the result is copied.
    unsafe {
        let schema = schema_name(schema);
        CStr::from_ptr(pg_sys::quote_qualified_identifier(schema.as_ptr(), name.as_ptr())).to_owned()
    }
}

/// A name, quoted for SQL.
pub(crate) fn quoted(name: &CStr) -> CString {
    // SAFETY: the result is copied.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())).to_owned() }
}

/// A string as a literal of SQL.
pub(crate) fn literal(text: &CStr) -> CString {
    // SAFETY: the result is copied.
    unsafe { CStr::from_ptr(pg_sys::quote_literal_cstr(text.as_ptr())).to_owned() }
}

/// Runs a command of SQL, given in parts, as a statement inside the current one.
pub(crate) fn run(parts: &[&CStr]) {
    let mut command: Vec<u8> = parts.iter().flat_map(|part| part.to_bytes()).copied().collect();
    command.push(0);
    // SAFETY: the command ends with a zero; errors of the command are raised by the server itself.
    unsafe {
        pg_sys::SPI_connect();
        pg_sys::SPI_execute(command.as_ptr().cast(), false, 0);
        pg_sys::SPI_finish();
    }
}

/// Most bytes of a name that is remembered with its parts: of a longer one the server may say that it is truncated.
const LONGEST_KEPT: usize = 63;

thread_local! {
    /// The name that was read last, and its parts.
    static LAST_NAME: RefCell<Option<(Vec<u8>, Rc<RelationName>)>> = const { RefCell::new(None) };
    /// The relations of names, as long as nothing changes that they depend on.
    static FOUND: RefCell<Vec<FoundName>> = const { RefCell::new(Vec::new()) };
}

/// Most names whose relations are remembered; when there would be more, all are forgotten.
const MOST_FOUND: usize = 16;

/// The relation that a name stands for, to a user with a search path.
struct FoundName {
    user: pg_sys::Oid,
    path: Vec<u8>,
    name: RelationName,
    relation: pg_sys::Oid,
}

/// A name of a relation as in SQL, resolved as SQL does: folded unless quoted, with or without schema.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RelationName {
    catalog: Option<CString>,
    schema: Option<CString>,
    relation: CString,
}

impl RelationName {
    /// Reads a name; an SQL error if it is none.
    pub(crate) fn parse(name: &Bytes<'_>) -> Rc<RelationName> {
        let last = LAST_NAME.with_borrow(|last| {
            last.as_ref().filter(|(read, _)| **read == **name).map(|(_, parts)| Rc::clone(parts))
        });
        if let Some(parts) = last {
            return parts;
        }
        // SAFETY: a text, which is only read.
        let parts = Rc::new(unsafe { RelationName::from_text(name.as_text()) });
        if name.len() <= LONGEST_KEPT {
            LAST_NAME.set(Some((name.to_vec(), Rc::clone(&parts))));
        }
        parts
    }

    /// The same without an error: `None` if it is no name of one or two parts.
    pub(crate) fn parse_quietly(name: &Bytes<'_>) -> Option<RelationName> {
        // SAFETY: the server makes a copy of the text, splits it in place, and returns a list of pointers into it, which
        // are copied.
        unsafe {
            let text = pg_sys::text_to_cstring(name.as_text());
            let mut list = std::ptr::null_mut();
            if !pg_sys::SplitIdentifierString(text, b'.' as std::ffi::c_char, &raw mut list) {
                return None;
            }
            let part = |at| CStr::from_ptr(pg_sys::list_nth(list, at).cast()).to_owned();
            match pg_sys::list_length(list) {
                1 => Some(RelationName { catalog: None, schema: None, relation: part(0) }),
                2 => Some(RelationName { catalog: None, schema: Some(part(0)), relation: part(1) }),
                _ => None,
            }
        }
    }

    /// The same of a string in the encoding of the database.
    pub(crate) fn parse_string(name: &CStr) -> RelationName {
        // SAFETY: a new text.
        unsafe { RelationName::from_text(pg_sys::cstring_to_text(name.as_ptr())) }
    }

    /// # Safety
    /// `name` is a text.
    unsafe fn from_text(name: *mut pg_sys::text) -> RelationName {
        // SAFETY: the server makes a list of names out of a text, or raises an error; the names are copied.
        unsafe {
            let list = pg_sys::textToQualifiedNameList(name);
            let range = &*pg_sys::makeRangeVarFromNameList(list);
            let copy =
                |name: *mut std::ffi::c_char| (!name.is_null()).then(|| CStr::from_ptr(name).to_owned());
            RelationName {
                catalog: copy(range.catalogname),
                schema: copy(range.schemaname),
                relation: copy(range.relname).unwrap_or_default(),
            }
        }
    }

    /// The server's form, whose strings are those of `self`.
    fn range(&self) -> pg_sys::RangeVar {
        let raw = |name: &Option<CString>| {
            name.as_ref().map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut())
        };
        pg_sys::RangeVar {
            type_: pg_sys::NodeTag::T_RangeVar,
            catalogname: raw(&self.catalog),
            schemaname: raw(&self.schema),
            relname: self.relation.as_ptr().cast_mut(),
            inh: true,
            relpersistence: pg_sys::RELPERSISTENCE_PERMANENT as std::ffi::c_char,
            location: -1,
            ..Default::default()
        }
    }

    /// The relation of that name, if there is one, locked.
    pub(crate) fn find(&self, lock: LockMode) -> Option<pg_sys::Oid> {
        // A label provider may want to know of each look-up.
        // SAFETY: a variable of the server's.
        let hook = unsafe { pg_sys::object_access_hook };
        if let Some(found) = self.found_before().filter(|_| hook.is_none()) {
            let before = CHANGES.get();
            // SAFETY: a lock of a relation by its number, also of one that is gone.
            unsafe { unguarded::guard(|| unguarded::LockRelationOid(found, lock.number())) };
            // Taking a lock tells of what was committed before.
            if CHANGES.get() == before {
                return Some(found);
            }
            // SAFETY: taken above.
            unsafe { pg_sys::UnlockRelationOid(found, lock.number()) };
        }
        let range = self.range();
        let missing_ok = pg_sys::RVROption::RVR_MISSING_OK;
        let before = CHANGES.get();
        // SAFETY: the server reads the range variable during the call.
        let oid = unsafe {
            pg_sys::RangeVarGetRelidExtended(
                &raw const range,
                lock.number(),
                missing_ok,
                None,
                std::ptr::null_mut(),
            )
        };
        let found = (oid != pg_sys::InvalidOid).then_some(oid)?;
        if CHANGES.get() == before {
            self.remember(found);
        }
        Some(found)
    }

    /// The relation that this name has stood for since something changed that names or privileges depend on.
    fn found_before(&self) -> Option<pg_sys::Oid> {
        let user = unguarded::GetUserId();
        FOUND.with_borrow(|found| {
            let mut of_name = found.iter().filter(|found| found.user == user && found.name == *self);
            let found = of_name
                .find(|found| self.is_qualified() || unguarded::with_search_path(|path| found.path == path));
            found.map(|found| found.relation)
        })
    }

    fn remember(&self, relation: pg_sys::Oid) {
        let path = search_path();
        let found = FoundName { user: unguarded::GetUserId(), path, name: self.clone(), relation };
        FOUND.with_borrow_mut(|all| {
            if all.len() >= MOST_FOUND {
                all.clear();
            }
            all.push(found);
        });
    }

    /// The same without a lock and without an error: `None` too if the user may not look into the schema.
    pub(crate) fn find_quietly(&self) -> Option<pg_sys::Oid> {
        // SAFETY: catalog look-ups by names closed by zeros.
        let oid = unsafe {
            match &self.schema {
                None => pg_sys::RelnameGetRelid(self.relation.as_ptr()),
                Some(schema) => {
                    let schema = pg_sys::get_namespace_oid(schema.as_ptr(), true);
                    if schema == pg_sys::InvalidOid
                        || compat::may(compat::Object::Schema, schema, pg_sys::ACL_USAGE)
                            != pg_sys::AclResult::ACLCHECK_OK
                    {
                        return None;
                    }
                    pg_sys::get_relname_relid(self.relation.as_ptr(), schema)
                }
            }
        };
        (oid != pg_sys::InvalidOid).then_some(oid)
    }

    /// Where a new relation of that name would be created: the schema, and the relation there is in its place.
    pub(crate) fn place(&self) -> (pg_sys::Oid, Option<pg_sys::Oid>) {
        let range = self.range();
        // SAFETY: the server reads the range variable during the call.
        unsafe {
            let schema = pg_sys::RangeVarGetCreationNamespace(&raw const range);
            let there = pg_sys::get_relname_relid(range.relname, schema);
            (schema, (there != pg_sys::InvalidOid).then_some(there))
        }
    }

    /// Whether the name has a schema.
    pub(crate) fn is_qualified(&self) -> bool {
        self.schema.is_some()
    }

    /// The name without schema.
    pub(crate) fn relation(&self) -> &CStr {
        &self.relation
    }
}

/// Raises an error if the user does not have all of `privileges` (`ACL_SELECT` and so on) on a table.
pub(crate) fn expect_privileges(table: pg_sys::Oid, privileges: u32, name: &CStr) {
    // SAFETY: catalog look-ups.
    once_allowed(table, privileges, || unsafe {
        let mask = pg_sys::AclMaskHow::ACLMASK_ALL;
        let privileges = compat::class_privileges(privileges);
        if pg_sys::pg_class_aclmask(table, unguarded::GetUserId(), privileges, mask) != privileges {
            let (denied, kind) = (pg_sys::AclResult::ACLCHECK_NO_PRIV, pg_sys::ObjectType::OBJECT_TABLE);
            pg_sys::aclcheck_error(denied, kind, name.as_ptr());
        }
    });
}

/// The setting `search_path`.
pub(crate) fn search_path() -> Vec<u8> {
    unguarded::with_search_path(<[u8]>::to_vec)
}

/// Whether the user may read all rows of a table.
pub(crate) fn may_read(table: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups, which raise no error for a table that exists.
    unsafe {
        let select = compat::class_privileges(pg_sys::ACL_SELECT);
        let allowed = pg_sys::pg_class_aclcheck(table, pg_sys::GetUserId(), select);
        let policies = pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true);
        allowed == pg_sys::AclResult::ACLCHECK_OK
            && policies != pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
    }
}

/// Raises an error unless the user owns a relation, or is a superuser.
pub(crate) fn expect_owner(relation: pg_sys::Oid) {
    // SAFETY: catalog look-ups.
    unsafe {
        if !pg_sys::superuser() && !compat::owns(relation) {
            let (denied, kind) = (pg_sys::AclResult::ACLCHECK_NOT_OWNER, pg_sys::ObjectType::OBJECT_TABLE);
            pg_sys::aclcheck_error(denied, kind, pg_sys::get_rel_name(relation));
        }
    }
}

/// Whether policies decide which rows of a table the user sees.
pub(crate) fn has_policies(table: Relation<'_>) -> bool {
    if !table.has_row_security() {
        return false;
    }
    // SAFETY: a catalog look-up.
    let policies = unsafe { pg_sys::check_enable_rls(table.oid(), pg_sys::InvalidOid, false) };
    policies == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
}

/// The same for an estimate: without an error where the user has asked for one instead of filtered rows.
pub(crate) fn hides_rows(table: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    let policies = unsafe { pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true) };
    policies == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
}
