//! Users and roles in the database, and what they permit.
//!
//! Every change gets a new version, which connections compare with that of the privileges that they remember: a change of a
//! role, or a dropped user, has its effect on the next command of every connection.

use std::collections::{HashSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use treedb_collections::{Database, ErrorCode, QueryError};
use treedb_storage::{Durability, Reads, TableKind, WriteTxn};

use super::builtin_roles;
use super::privilege::{Privilege, add};
use super::user::{QualifiedName, Role, User, encoded};

type Result<T> = std::result::Result<T, QueryError>;

const USERS: &str = "server/users";
const ROLES: &str = "server/roles";
const SECRETS: &str = "server/secrets";
/// The key of the secret that salts of users that do not exist are made of.
const SALT: &[u8] = b"salt";

/// Roles that a user may have, inherited ones included.
const MOST_ROLES: usize = 1_000;

/// Users and roles.
pub(crate) struct Store {
    database: Database,
    version: AtomicU64,
    /// There was a user when it was asked for the last time, and none has been dropped since.
    has_user: AtomicBool,
}

/// What a user or a role was stored as cannot be read.
fn damaged(name: &QualifiedName) -> QueryError {
    QueryError::new(
        ErrorCode::InternalError,
        format!("what is stored of {name} cannot be read: drop it and create it again"),
    )
}

/// A list of roles that have been resolved: themselves, those they inherit, and their privileges.
#[derive(Debug, Default, Clone)]
pub(crate) struct Resolved {
    /// Every role, inherited ones included.
    pub(crate) roles: Vec<QualifiedName>,
    /// What they permit.
    pub(crate) privileges: Vec<Privilege>,
}

impl Store {
    /// The users and roles of a database.
    pub(crate) fn new(database: Database) -> Store {
        Store { database, version: AtomicU64::new(0), has_user: AtomicBool::new(false) }
    }

    /// The version of the users and roles.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether there is any user.
    pub(crate) fn has_user(&self) -> Result<bool> {
        if self.has_user.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let reads = self.database.store().snapshot()?;
        let found = match reads.table(USERS)? {
            Some(table) => reads
                .range(&table, (Bound::Unbounded::<&[u8]>, Bound::Unbounded))?
                .next()
                .transpose()?
                .is_some(),
            None => false,
        };
        self.has_user.store(found, Ordering::Relaxed);
        Ok(found)
    }

    /// Random bytes that a database keeps, made when they are asked for the first time.
    ///
    /// # Errors
    /// There is no randomness; those of the storage engine.
    pub(crate) fn secret(&self) -> Result<Vec<u8>> {
        let mut txn = self.database.store().begin_write()?;
        let table = txn.open_table(SECRETS, TableKind::Ordered)?;
        if let Some(secret) = txn.get(&table, SALT)? {
            return Ok(secret.to_vec());
        }
        let mut secret = vec![0; 32];
        getrandom::fill(&mut secret).map_err(|error| {
            QueryError::new(ErrorCode::InternalError, format!("the system has no random numbers: {error}"))
        })?;
        txn.put(&table, SALT, &secret)?;
        txn.commit_with(Durability::Durable)?;
        Ok(secret)
    }

    /// A user.
    pub(crate) fn user(&self, name: &QualifiedName) -> Result<Option<User>> {
        let reads = self.database.store().snapshot()?;
        let Some(bytes) = get(&reads, USERS, name)? else { return Ok(None) };
        User::read(&bytes).map(Some).ok_or_else(|| damaged(name))
    }

    /// The users of a database, or all of them, by database and name.
    pub(crate) fn users(&self, database: Option<&str>) -> Result<Vec<User>> {
        self.list(USERS, database, User::read)
    }

    /// The roles of a database, or all of them, by database and name, without built-in ones.
    pub(crate) fn roles(&self, database: Option<&str>) -> Result<Vec<Role>> {
        self.list(ROLES, database, Role::read)
    }

    fn list<T>(&self, table: &str, database: Option<&str>, read: fn(&[u8]) -> Option<T>) -> Result<Vec<T>> {
        let reads = self.database.store().snapshot()?;
        let Some(table) = reads.table(table)? else { return Ok(Vec::new()) };
        let prefix = database.map(|name| format!("{name}.")).unwrap_or_default();
        let mut found = Vec::new();
        for entry in reads.range(&table, (Bound::Included(prefix.as_bytes()), Bound::Unbounded))? {
            let (key, value) = entry?;
            if !key.starts_with(prefix.as_bytes()) {
                break;
            }
            // What cannot be read permits nothing, and must not hide the others.
            found.extend(read(value));
        }
        Ok(found)
    }

    /// A role that somebody created.
    pub(crate) fn role(&self, name: &QualifiedName) -> Result<Option<Role>> {
        let reads = self.database.store().snapshot()?;
        read_role(&reads, name)
    }

    /// Changes users and roles in one transaction, which is durable afterwards.
    ///
    /// # Errors
    /// Those of `change`, which then changes nothing; those of the storage engine.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Change<'_>) -> Result<T>) -> Result<T> {
        let mut txn = self.database.store().begin_write()?;
        let done = change(&mut Change { txn: &mut txn })?;
        txn.commit_with(Durability::Durable)?;
        self.has_user.store(false, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        Ok(done)
    }

    /// What these roles permit. Roles that do not exist permit nothing.
    pub(crate) fn resolve(&self, roles: &[QualifiedName]) -> Result<Resolved> {
        let reads = self.database.store().snapshot()?;
        resolve(&reads, roles)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("version", &self.version).finish_non_exhaustive()
    }
}

fn resolve(reads: &impl Reads, roles: &[QualifiedName]) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    let mut next: VecDeque<QualifiedName> = roles.iter().cloned().collect();
    let mut seen = HashSet::new();
    while let Some(name) = next.pop_front() {
        if seen.len() >= MOST_ROLES || !seen.insert(name.clone()) {
            continue;
        }
        let privileges = match builtin_roles::privileges(&name.name, &name.database) {
            Some(privileges) => privileges,
            None => match read_role(reads, &name)? {
                Some(role) => {
                    next.extend(role.roles);
                    role.privileges
                }
                None => continue,
            },
        };
        privileges.into_iter().for_each(|privilege| add(&mut resolved.privileges, privilege));
        resolved.roles.push(name);
    }
    Ok(resolved)
}

fn get(reads: &impl Reads, table: &str, name: &QualifiedName) -> Result<Option<Vec<u8>>> {
    let Some(table) = reads.table(table)? else { return Ok(None) };
    Ok(reads.get(&table, name.id().as_bytes())?.map(|value| value.to_vec()))
}

fn read_role(reads: &impl Reads, name: &QualifiedName) -> Result<Option<Role>> {
    let Some(bytes) = get(reads, ROLES, name)? else { return Ok(None) };
    Role::read(&bytes).map(Some).ok_or_else(|| damaged(name))
}

/// A change of users and roles that is not committed yet.
pub(crate) struct Change<'t> {
    txn: &'t mut WriteTxn,
}

impl Change<'_> {
    /// Whether there is any user.
    pub(crate) fn has_user(&self) -> Result<bool> {
        Ok(match self.txn.table(USERS)? {
            Some(table) => self
                .txn
                .range(&table, (Bound::Unbounded::<&[u8]>, Bound::Unbounded))?
                .next()
                .transpose()?
                .is_some(),
            None => false,
        })
    }

    /// A user.
    pub(crate) fn user(&self, name: &QualifiedName) -> Result<Option<User>> {
        let Some(bytes) = get(self.txn, USERS, name)? else { return Ok(None) };
        User::read(&bytes).map(Some).ok_or_else(|| damaged(name))
    }

    /// A role that somebody created.
    pub(crate) fn role(&self, name: &QualifiedName) -> Result<Option<Role>> {
        read_role(self.txn, name)
    }

    /// Refuses roles that do not exist.
    ///
    /// # Errors
    /// `RoleNotFound`.
    pub(crate) fn check_roles(&self, names: &[QualifiedName]) -> Result<()> {
        for name in names {
            let exists =
                builtin_roles::privileges(&name.name, &name.database).is_some() || self.role(name)?.is_some();
            if !exists {
                let message = format!("Could not find role: {name}");
                return Err(QueryError::new(ErrorCode::RoleNotFound, message));
            }
        }
        Ok(())
    }

    /// Whether a role is among these, or they inherit it.
    pub(crate) fn inherits(&self, roles: &[QualifiedName], name: &QualifiedName) -> Result<bool> {
        Ok(resolve(self.txn, roles)?.roles.contains(name))
    }

    /// Writes a user, new or not.
    pub(crate) fn put_user(&mut self, user: &User) -> Result<()> {
        self.put(USERS, &user.name, &user.document())
    }

    /// Writes a role, new or not.
    pub(crate) fn put_role(&mut self, role: &Role) -> Result<()> {
        self.put(ROLES, &role.name, &role.document())
    }

    fn put(&mut self, table: &str, name: &QualifiedName, document: &bson::Document) -> Result<()> {
        let table = self.txn.open_table(table, TableKind::Ordered)?;
        let bytes = encoded(document).map_err(QueryError::from)?;
        Ok(self.txn.put(&table, name.id().as_bytes(), &bytes)?)
    }

    /// Deletes a user; false if there was none.
    pub(crate) fn delete_user(&mut self, name: &QualifiedName) -> Result<bool> {
        self.delete(USERS, name)
    }

    /// Deletes a role; false if there was none. Users and roles that have it lose it.
    pub(crate) fn delete_role(&mut self, name: &QualifiedName) -> Result<bool> {
        if !self.delete(ROLES, name)? {
            return Ok(false);
        }
        for mut user in self.all(USERS, User::read)? {
            if user.roles.contains(name) {
                user.roles.retain(|role| role != name);
                self.put_user(&user)?;
            }
        }
        for mut role in self.all(ROLES, Role::read)? {
            if role.roles.contains(name) {
                role.roles.retain(|other| other != name);
                self.put_role(&role)?;
            }
        }
        Ok(true)
    }

    fn all<T>(&self, table: &str, read: fn(&[u8]) -> Option<T>) -> Result<Vec<T>> {
        let Some(table) = self.txn.table(table)? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for entry in self.txn.range(&table, (Bound::Unbounded::<&[u8]>, Bound::Unbounded))? {
            all.extend(read(entry?.1));
        }
        Ok(all)
    }

    fn delete(&mut self, table: &str, name: &QualifiedName) -> Result<bool> {
        match self.txn.table(table)? {
            Some(table) => Ok(self.txn.delete(&table, name.id().as_bytes())?),
            None => Ok(false),
        }
    }
}
