//! Who may connect, and what they may do: users, roles, authentication.
//!
//! | file | what it holds |
//! |---|---|
//! | [`action`] | what a command does: MongoDB's privilege actions |
//! | [`resource`] | what it does it to |
//! | [`privilege`] | a resource and the actions permitted on it |
//! | [`builtin_roles`] | the roles that every server has |
//! | [`user`] | users and roles, and how they are stored |
//! | [`store`] | users and roles in the database |
//! | [`scram`] | proving that one knows a password |
//! | [`certificate`] | who a client's certificate is of |
//! | [`identity`] | who a connection is |
//! | [`throttle`] | limiting failed log-ins |
//! | [`strangers`] | limiting connections that have not authenticated |
//!
//! Both protocols ask [`Access::authorize`] before they execute anything. Users and roles are in tables of the store that no
//! query can name; commands about users change them. A password is never stored, and neither that nor anything derived from
//! it is logged.

pub(crate) mod action;
pub(crate) mod builtin_roles;
pub(crate) mod certificate;
pub(crate) mod identity;
pub(crate) mod privilege;
pub(crate) mod resource;
pub(crate) mod scram;
pub(crate) mod store;
pub(crate) mod strangers;
pub(crate) mod throttle;
pub(crate) mod user;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use treedb_collections::{Database, ErrorCode, QueryError};

use action::Action;
use identity::Identity;
use resource::Target;
use scram::{Credentials, Mechanism};
use store::Store;
use strangers::Strangers;
use throttle::Throttle;
use user::{QualifiedName, User};

/// The address by which clients are told apart: of version 6 its network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

type Result<T> = std::result::Result<T, QueryError>;

/// The database of users who have no password: they authenticate by their certificates.
pub(crate) const EXTERNAL: &str = "$external";
/// How they do so.
pub(crate) const X509: &str = "MONGODB-X509";
/// The longest password, in bytes.
const LONGEST_PASSWORD: usize = 1024;
/// No user has a longer name, nor a database.
const LONGEST_NAME: usize = 1024;

/// Who may do what on a server.
pub(crate) struct Access {
    /// Users and roles.
    pub(crate) store: Store,
    required: bool,
    throttle: Throttle,
    /// Connections that have not authenticated.
    pub(crate) strangers: Arc<Strangers>,
    /// What salts of users that do not exist are made of: always the same, as those of the others are.
    secret: Vec<u8>,
}

impl Access {
    /// Access to a database, with or without authentication.
    ///
    /// # Errors
    /// There is no randomness; those of the storage engine.
    pub(crate) fn new(database: Database, required: bool) -> Result<Access> {
        let store = Store::new(database);
        let secret = if required { store.secret()? } else { Vec::new() };
        Ok(Access { store, required, throttle: Throttle::default(), strangers: Arc::default(), secret })
    }

    /// Whether clients have to authenticate.
    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    /// Whether what the client may do depends on its roles.
    pub(crate) fn checks(&self, identity: &Identity) -> bool {
        self.required || identity.is_limited()
    }

    /// Refuses what the client may not do.
    ///
    /// # Errors
    /// `Unauthorized`; those of reading users.
    pub(crate) fn authorize(
        &self,
        identity: &Identity,
        action: Action,
        target: Target<'_>,
        command: &str,
    ) -> Result<()> {
        if !self.checks(identity) {
            return Ok(());
        }
        let login = identity.login(self)?.ok_or_else(|| not_authenticated(command))?;
        if login.permits(action, target) { Ok(()) } else { Err(denied(&login.user, target, command)) }
    }

    /// Refuses a client that has not authenticated.
    ///
    /// # Errors
    /// `Unauthorized`; those of reading users.
    pub(crate) fn require_login(&self, identity: &Identity, command: &str) -> Result<()> {
        if self.required && identity.login(self)?.is_none() {
            return Err(not_authenticated(command));
        }
        Ok(())
    }

    /// Whether a connection may send long messages and has sessions: it has authenticated, or need not.
    pub(crate) fn trusts(&self, identity: &Identity) -> bool {
        !self.required || identity.owner().is_some()
    }

    /// Whether the client may do something.
    ///
    /// # Errors
    /// Those of reading users.
    pub(crate) fn permits(&self, identity: &Identity, action: Action, target: Target<'_>) -> Result<bool> {
        if !self.checks(identity) {
            return Ok(true);
        }
        Ok(identity.login(self)?.is_some_and(|login| login.permits(action, target)))
    }

    /// The localhost exception: as long as there is no user, a connection from this machine may create one.
    ///
    /// # Errors
    /// Those of reading users.
    pub(crate) fn may_create_first_user(&self, identity: &Identity) -> Result<bool> {
        Ok(self.required && identity.address().is_loopback() && !self.store.has_user()?)
    }

    /// What a client that claims to be this user has to prove. For a user that does not exist, nothing proves it.
    fn credentials(&self, name: &QualifiedName, mechanism: Mechanism) -> Result<Credentials> {
        let user = self.store.user(name)?;
        let own = user.as_ref().and_then(|user| user.credentials(mechanism)).cloned();
        Ok(own.unwrap_or_else(|| Credentials::of_nobody(mechanism, &self.secret, &name.id())))
    }

    /// Log-ins that succeeded, and those that failed or had to wait, since the server started.
    pub(crate) fn authentications(&self) -> (u64, u64) {
        self.throttle.so_far()
    }

    /// Refuses an address that has failed too often.
    fn check_throttle(&self, identity: &Identity, user: &QualifiedName) -> Result<()> {
        match self.throttle.wait(identity.address(), user, Instant::now()) {
            Some(wait) => {
                self.throttle.refused();
                let seconds = wait.as_secs() + 1;
                Err(QueryError::new(
                    ErrorCode::AuthenticationFailed,
                    format!("too many failed log-ins from this address: try again in {seconds} s"),
                ))
            }
            None => Ok(()),
        }
    }

    /// Creates a user with the role `root` unless there is any user; false if there is one.
    ///
    /// # Errors
    /// Those of [`set_password`]; those of writing.
    pub(crate) fn create_first_user(&self, name: &str, password: &str) -> Result<bool> {
        if self.store.has_user()? {
            return Ok(false);
        }
        let mut user = User::new(QualifiedName::new("admin", name));
        check_name("user", name)?;
        set_password(&mut user, password, &Mechanism::ALL)?;
        user.roles.push(QualifiedName::new("admin", "root"));
        self.store.change(|change| {
            if change.has_user()? {
                return Ok(false);
            }
            change.put_user(&user)?;
            Ok(true)
        })
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("store", &self.store)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

fn not_authenticated(command: &str) -> QueryError {
    QueryError::new(ErrorCode::Unauthorized, format!("Command {command} requires authentication"))
}

fn denied(user: &QualifiedName, target: Target<'_>, command: &str) -> QueryError {
    let on = match target {
        Target::Cluster => "admin".to_owned(),
        Target::Database(database) => database.to_owned(),
        Target::Collection(database, collection) => format!("{database}.{collection}"),
    };
    let message = format!("not authorized on {on} to execute command {command}: {user} needs another role");
    QueryError::new(ErrorCode::Unauthorized, message)
}

/// Refuses a name that no user or role can have.
///
/// # Errors
/// `BadValue`.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    check_length(what, name, 128)
}

/// Refuses names that no user of [`EXTERNAL`] can have: the subjects of certificates are longer than other names.
pub(crate) fn check_external_name(name: &str) -> Result<()> {
    check_length("user", name, LONGEST_NAME)
}

fn check_length(what: &str, name: &str, most: usize) -> Result<()> {
    if name.is_empty() || name.len() > most || name.contains('\0') {
        return Err(QueryError::new(
            ErrorCode::BadValue,
            format!("the name of a {what} has 1 to {most} bytes, and no NUL"),
        ));
    }
    Ok(())
}

/// Lets a user authenticate with a password, by these mechanisms.
///
/// # Errors
/// `BadValue` for a password that is empty or too long, or has characters that none may have.
pub(crate) fn set_password(user: &mut User, password: &str, mechanisms: &[Mechanism]) -> Result<()> {
    if password.is_empty() || password.len() > LONGEST_PASSWORD {
        return Err(QueryError::new(
            ErrorCode::BadValue,
            format!("a password has 1 to {LONGEST_PASSWORD} bytes"),
        ));
    }
    let credentials = mechanisms.iter().map(|mechanism| {
        let own = Credentials::new(*mechanism, &user.name.name, password);
        own.map(|own| (*mechanism, own))
            .map_err(|error| QueryError::new(ErrorCode::BadValue, error.to_string()))
    });
    user.credentials = credentials.collect::<Result<_>>()?;
    Ok(())
}
