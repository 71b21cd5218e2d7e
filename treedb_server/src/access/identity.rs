//! Who a connection is.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treedb_collections::{ErrorCode, QueryError};

use super::action::Action;
use super::privilege::{self, Privilege};
use super::resource::Target;
use super::scram::{ClientFirst, Exchange, Mechanism, Refused};
use super::user::QualifiedName;
use super::{Access, EXTERNAL, LONGEST_NAME, Result, X509};

/// Who a connection is: nobody, until it has authenticated.
#[derive(Debug)]
pub(crate) struct Identity {
    peer: SocketAddr,
    /// It may do only what its roles permit, even on a server without authentication.
    limited: bool,
    /// The subject of its certificate, which an authority of the server's has signed.
    subject: Option<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    login: Option<Arc<Login>>,
    pending: Option<Pending>,
    /// The exchange after which the client sends an empty message.
    ending: Option<i32>,
    exchanges: i32,
}

/// How long a client may take to answer in an authentication.
const PATIENCE: Duration = Duration::from_secs(30);

/// What no other user has, nor had: who cursors and sessions belong to.
pub(crate) type UserId = [u8; 16];

/// An authentication that is not finished.
#[derive(Debug)]
struct Pending {
    user: QualifiedName,
    mechanism: Mechanism,
    exchange: Exchange,
    began: Instant,
    id: i32,
    /// The client does not send an empty message after the server's last one.
    skip_empty: bool,
}

/// An answer of an authentication.
#[derive(Debug)]
pub(crate) struct Step {
    /// The number of the exchange.
    pub(crate) id: i32,
    /// What to send to the client.
    pub(crate) payload: Vec<u8>,
    /// The exchange has ended.
    pub(crate) done: bool,
}

/// A user that has authenticated, and what it may do as of a version of users and roles.
#[derive(Debug)]
pub(crate) struct Login {
    /// The user.
    pub(crate) user: QualifiedName,
    /// Its roles, inherited ones included.
    pub(crate) roles: Vec<QualifiedName>,
    /// What it may do.
    pub(crate) privileges: Vec<Privilege>,
    id: UserId,
    version: u64,
    /// It is no stored user, and stays as it is.
    fixed: bool,
}

impl Login {
    /// Whether the user may do something.
    pub(crate) fn permits(&self, action: Action, target: Target<'_>) -> bool {
        privilege::permits(&self.privileges, action, target)
    }

    /// A user as it is stored now; `None` if there is none of that name, or another one than before.
    fn load(access: &Access, user: &QualifiedName, before: Option<&Login>) -> Result<Option<Login>> {
        // The version first: what is read afterwards is of this version or a later one.
        let version = access.store.version();
        let Some(stored) = access.store.user(user)? else { return Ok(None) };
        let id = stored.id.bytes.first_chunk().copied().unwrap_or_default();
        if before.is_some_and(|before| before.id != id) {
            return Ok(None);
        }
        let resolved = access.store.resolve(&stored.roles)?;
        let (roles, privileges) = (resolved.roles, resolved.privileges);
        Ok(Some(Login { user: stored.name, roles, privileges, id, version, fixed: false }))
    }

    /// Somebody who has these roles without being a user.
    fn with_roles(access: &Access, name: &str, roles: &[QualifiedName]) -> Result<Login> {
        let resolved = access.store.resolve(roles)?;
        Ok(Login {
            user: QualifiedName::new("admin", name),
            roles: resolved.roles,
            privileges: resolved.privileges,
            id: UserId::default(),
            version: 0,
            fixed: true,
        })
    }
}

impl Identity {
    /// Nobody, at an address.
    pub(crate) fn new(peer: SocketAddr) -> Identity {
        Identity { peer, limited: false, subject: None, state: Mutex::default() }
    }

    /// The same, with a certificate that has this subject.
    pub(crate) fn certified(self, subject: Option<String>) -> Identity {
        Identity { subject, ..self }
    }

    /// Somebody at an address who need not authenticate and may read everything, and change nothing: on a server without
    /// authentication too, where others may do everything.
    ///
    /// # Errors
    /// Those of reading roles.
    pub(crate) fn reader(peer: SocketAddr, access: &Access, name: &str) -> Result<Identity> {
        let roles = ["readAnyDatabase", "clusterMonitor"].map(|role| QualifiedName::new("admin", role));
        let login = Login::with_roles(access, name, &roles)?;
        let state = State { login: Some(Arc::new(login)), ..State::default() };
        Ok(Identity { peer, limited: true, subject: None, state: Mutex::new(state) })
    }

    /// The same user at another address: of another connection of the same browser.
    pub(crate) fn at(&self, peer: SocketAddr) -> Identity {
        let login = self.lock().login.clone();
        let state = Mutex::new(State { login, ..State::default() });
        Identity { peer, limited: self.limited, subject: None, state }
    }

    /// Whether it may do only what its roles permit, even on a server without authentication.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }

    /// The address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address without its port, in the shortest form.
    pub(crate) fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Who it is, with the privileges that this user has now; `None` if it has not authenticated, or the user was dropped.
    ///
    /// # Errors
    /// Those of reading users.
    pub(crate) fn login(&self, access: &Access) -> Result<Option<Arc<Login>>> {
        let Some(login) = self.lock().login.clone() else { return Ok(None) };
        if login.fixed || login.version == access.store.version() {
            return Ok(Some(login));
        }
        let now = Login::load(access, &login.user, Some(&login))?.map(Arc::new);
        let mut state = self.lock();
        // Unless it has logged out meanwhile, or as somebody else.
        if state.login.as_ref().is_some_and(|current| current.id == login.id) {
            state.login.clone_from(&now);
        }
        Ok(now)
    }

    /// Who its cursors and sessions belong to.
    pub(crate) fn owner(&self) -> Option<UserId> {
        self.lock().login.as_ref().map(|login| login.id)
    }

    /// The user that has authenticated, whether or not it still exists.
    pub(crate) fn user(&self) -> Option<QualifiedName> {
        self.lock().login.as_ref().map(|login| login.user.clone())
    }

    /// Begins to authenticate as a user of `database`; a former attempt is given up. With `skip_empty` the exchange ends with
    /// the server's last answer, otherwise the client sends an empty message after that.
    ///
    /// # Errors
    /// `AuthenticationFailed`, also for an address that has to wait; `BadValue` for a mechanism that there is not.
    pub(crate) fn begin(
        &self,
        access: &Access,
        database: &str,
        mechanism: &str,
        payload: &[u8],
        skip_empty: bool,
    ) -> Result<Step> {
        {
            let mut state = self.lock();
            (state.pending, state.ending) = (None, None);
        }
        let Some(mechanism) = Mechanism::named(mechanism) else {
            return Err(QueryError::new(
                ErrorCode::MechanismUnavailable,
                format!("Received authentication for mechanism {mechanism} which is not enabled"),
            ));
        };
        let first =
            ClientFirst::parse(payload).map_err(|why| self.refuse_message(access, mechanism.name(), &why))?;
        if database.len().max(first.user.len()) > LONGEST_NAME {
            let why = "no user has a name that is so long";
            return Err(self.refuse_message(access, mechanism.name(), &why));
        }
        let user = QualifiedName::new(database, &first.user);
        access.check_throttle(self, &user)?;
        self.check_is_no_other(&user)?;
        let credentials = access.credentials(&user, mechanism)?;
        let (exchange, answer) = Exchange::new(first, credentials)
            .map_err(|why| QueryError::new(ErrorCode::InternalError, why.to_string()))?;
        let mut state = self.lock();
        state.exchanges = state.exchanges.wrapping_add(1);
        let id = state.exchanges;
        state.pending = Some(Pending { user, mechanism, exchange, began: Instant::now(), id, skip_empty });
        Ok(Step { id, payload: answer.into_bytes(), done: false })
    }

    /// Goes on with exchange `id`, to its end.
    ///
    /// # Errors
    /// `AuthenticationFailed`; `ProtocolError` if there is no such exchange.
    pub(crate) fn proceed(&self, access: &Access, id: i32, payload: &[u8]) -> Result<Step> {
        let pending = {
            let mut state = self.lock();
            if payload.is_empty() && state.ending.take() == Some(id) {
                return Ok(Step { id, payload: Vec::new(), done: true });
            }
            state.pending.take().filter(|pending| pending.id == id && pending.began.elapsed() < PATIENCE)
        };
        let Some(Pending { user, mechanism, exchange, skip_empty, .. }) = pending else {
            return Err(QueryError::new(ErrorCode::ProtocolError, "No SASL session state found"));
        };
        // So exchanges that were begun on many connections cannot all be finished.
        access.check_throttle(self, &user)?;
        let answer =
            exchange.finish(payload).map_err(|why| self.refuse(access, &user, mechanism.name(), &why))?;
        let login = Login::load(access, &user, None)?;
        // The user may have got another password meanwhile, or be another one of the same name.
        let login = match login {
            Some(login) if access.credentials(&user, mechanism)? == *exchange.credentials() => login,
            _ => return Err(self.refuse(access, &user, mechanism.name(), &Refused::WrongProof)),
        };
        let mut state = self.become_user(access, &user, mechanism.name(), login);
        state.ending = (!skip_empty).then_some(id);
        drop(state);
        Ok(Step { id, payload: answer.into_bytes(), done: skip_empty })
    }

    /// Authenticates by the certificate of the connection as the user of [`EXTERNAL`] that has the name of its subject, and returns this
    /// name. `named` is who the client says to be.
    ///
    /// # Errors
    /// `AuthenticationFailed`, also for an address that has to wait; those of reading users.
    pub(crate) fn authenticate_by_certificate(&self, access: &Access, named: Option<&str>) -> Result<&str> {
        {
            let mut state = self.lock();
            (state.pending, state.ending) = (None, None);
        }
        let subject = self.subject.as_deref().unwrap_or_default();
        let user = QualifiedName::new(EXTERNAL, subject);
        access.check_throttle(self, &user)?;
        let why = match (subject, named) {
            ("", _) => Some("the connection has no certificate"),
            (subject, Some(named)) if named != subject => Some("the certificate has another subject"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(self.refuse(access, &user, X509, &why));
        }
        self.check_is_no_other(&user)?;
        let Some(login) = Login::load(access, &user, None)? else {
            return Err(self.refuse(access, &user, X509, &"there is no such user"));
        };
        drop(self.become_user(access, &user, X509, login));
        Ok(subject)
    }

    /// Refuses to become another user than the connection is already.
    fn check_is_no_other(&self, user: &QualifiedName) -> Result<()> {
        match self.user().filter(|known| known != user) {
            None => Ok(()),
            Some(known) => Err(QueryError::new(
                ErrorCode::IllegalOperation,
                format!("this connection has authenticated as {known}: log out first"),
            )),
        }
    }

    /// Is this user from now on.
    fn become_user(
        &self,
        access: &Access,
        user: &QualifiedName,
        mechanism: &str,
        login: Login,
    ) -> MutexGuard<'_, State> {
        access.throttle.succeeded(self.address(), user, Instant::now());
        tracing::info!(user = %user.to_string().escape_debug(), mechanism, peer = %self.peer, "authenticated");
        access.strangers.forget(self.peer);
        let mut state = self.lock();
        state.login = Some(Arc::new(login));
        state
    }

    /// Becomes nobody again.
    pub(crate) fn log_out(&self) {
        let mut state = self.lock();
        *state = State { exchanges: state.exchanges, ..State::default() };
    }

    /// Counts and logs a failure. The client does not get to know the reason.
    fn refuse(
        &self,
        access: &Access,
        user: &QualifiedName,
        mechanism: &str,
        why: &dyn std::fmt::Display,
    ) -> QueryError {
        access.throttle.failed(self.address(), user, Instant::now());
        tracing::warn!(user = %user.to_string().escape_debug(), mechanism, peer = %self.peer, %why, "authentication failed");
        QueryError::new(ErrorCode::AuthenticationFailed, "Authentication failed.")
    }

    /// Refuses a malformed first message. No password is guessed by it, so it does not count against the address.
    fn refuse_message(&self, access: &Access, mechanism: &str, why: &dyn std::fmt::Display) -> QueryError {
        access.throttle.refused();
        tracing::warn!(mechanism, peer = %self.peer, %why, "authentication failed");
        QueryError::new(ErrorCode::AuthenticationFailed, "Authentication failed.")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while it was held cannot have left it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use treedb_collections::Database;

    use super::super::action::ActionSet;
    use super::super::scram::ClientExchange;
    use super::super::user::{Role, User};
    use super::super::{resource::Resource, set_password};
    use super::*;

    fn access() -> (Access, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Access::new(Database::open(dir.path()).unwrap(), true).unwrap(), dir)
    }

    fn connect() -> Identity {
        Identity::new("127.0.0.1:5".parse().unwrap())
    }

    fn log_in(access: &Access, identity: &Identity, user: &str, password: &str) -> Result<()> {
        let (mut client, first) = ClientExchange::new(Mechanism::Sha256, user, password).unwrap();
        let step = identity.begin(access, "shop", "SCRAM-SHA-256", first.as_bytes(), true)?;
        let answer = client.answer(&step.payload).unwrap();
        let step = identity.proceed(access, step.id, answer.as_bytes())?;
        client.verify(&step.payload).unwrap();
        Ok(())
    }

    fn create(access: &Access, name: &str, roles: &[&str]) {
        let mut user = User::new(QualifiedName::new("shop", name));
        set_password(&mut user, "secret", &[Mechanism::Sha256]).unwrap();
        user.roles = roles.iter().map(|role| QualifiedName::new("shop", role)).collect();
        access.store.change(|change| change.put_user(&user)).unwrap();
    }

    const ORDERS: Target<'_> = Target::Collection("shop", "orders");

    #[test]
    fn a_user_may_do_what_its_roles_permit_and_nobody_may_do_anything() {
        let (access, _dir) = access();
        create(&access, "ann", &["read"]);
        let identity = connect();
        let may = |action| access.authorize(&identity, action, ORDERS, "find").is_ok();
        assert!(!may(Action::Find));
        assert_eq!(log_in(&access, &identity, "ann", "wrong").unwrap_err().code.number(), 18);
        assert_eq!(log_in(&access, &identity, "bob", "secret").unwrap_err().code.number(), 18);
        assert!(!may(Action::Find));
        log_in(&access, &identity, "ann", "secret").unwrap();
        assert!(may(Action::Find) && !may(Action::Insert));
        identity.log_out();
        assert!(!may(Action::Find));
    }

    #[test]
    fn a_change_of_a_user_or_a_role_has_its_effect_on_open_connections() {
        let (access, _dir) = access();
        create(&access, "ann", &["clerk"]);
        let identity = connect();
        log_in(&access, &identity, "ann", "secret").unwrap();
        let may = |action| access.authorize(&identity, action, ORDERS, "find").is_ok();
        assert!(!may(Action::Find));
        let mut role = Role {
            name: QualifiedName::new("shop", "clerk"),
            privileges: vec![Privilege {
                resource: Resource::database("shop"),
                actions: ActionSet::of(&[Action::Find]),
            }],
            roles: vec![],
        };
        access.store.change(|change| change.put_role(&role)).unwrap();
        assert!(may(Action::Find) && !may(Action::Insert));
        role.roles = vec![QualifiedName::new("shop", "readWrite"), QualifiedName::new("shop", "clerk")];
        access.store.change(|change| change.put_role(&role)).unwrap();
        assert!(may(Action::Insert));
        access.store.change(|change| change.delete_role(&role.name)).unwrap();
        assert!(!may(Action::Find));
        create(&access, "ann", &["read"]);
        assert!(!may(Action::Find), "another user of the same name");
        log_in(&access, &identity, "ann", "secret").unwrap();
        assert!(may(Action::Find));
        access.store.change(|change| change.delete_user(&QualifiedName::new("shop", "ann"))).unwrap();
        assert!(!may(Action::Find));
    }

    #[test]
    fn an_exchange_is_finished_once_and_only_by_its_number() {
        let (access, _dir) = access();
        create(&access, "ann", &["read"]);
        let identity = connect();
        let (mut client, first) = ClientExchange::new(Mechanism::Sha256, "ann", "secret").unwrap();
        let step = identity.begin(&access, "shop", "SCRAM-SHA-256", first.as_bytes(), true).unwrap();
        let answer = client.answer(&step.payload).unwrap();
        assert_eq!(identity.proceed(&access, step.id + 1, answer.as_bytes()).unwrap_err().code.number(), 17);
        assert_eq!(identity.proceed(&access, step.id, answer.as_bytes()).unwrap_err().code.number(), 17);
        assert_eq!(identity.begin(&access, "shop", "PLAIN", b"", true).unwrap_err().code.number(), 334);
    }

    #[test]
    fn after_many_failures_even_the_right_password_has_to_wait() {
        let (access, _dir) = access();
        create(&access, "ann", &["read"]);
        for _ in 0..10 {
            assert!(log_in(&access, &connect(), "ann", "wrong").is_err());
        }
        let error = log_in(&access, &connect(), "ann", "secret").unwrap_err();
        assert!(error.message.contains("too many failed log-ins"), "{}", error.message);
        let elsewhere = Identity::new("127.0.0.2:5".parse().unwrap());
        log_in(&access, &elsewhere, "ann", "secret").unwrap();
    }

    #[test]
    fn the_first_user_is_created_once_from_this_machine_only() {
        let (access, _dir) = access();
        assert!(access.may_create_first_user(&connect()).unwrap());
        let far = Identity::new("10.0.0.1:5".parse().unwrap());
        assert!(!access.may_create_first_user(&far).unwrap());
        assert!(access.create_first_user("root", "secret").unwrap());
        assert!(!access.create_first_user("root", "secret").unwrap());
        assert!(!access.may_create_first_user(&connect()).unwrap());
    }
}
