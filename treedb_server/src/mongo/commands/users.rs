//! `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`, `grantRolesToUser`, `revokeRolesFromUser`, `usersInfo`.

use bson::{Bson, Document, RawArrayBuf, RawBsonRef, RawDocumentBuf, rawdoc};
use treedb_query::query::{ErrorCode, Filter, QueryError};

use super::Result;
use super::request::{Request, done};
use super::roles::read_roles;
use super::writes::write_concern;
use crate::access::action::Action;
use crate::access::privilege::permits;
use crate::access::resource::Target;
use crate::access::scram::Mechanism;
use crate::access::user::{QualifiedName, User, role_documents};
use crate::access::{EXTERNAL, check_external_name, check_name, set_password};
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;

/// What `createUser` and `updateUser` say of a user.
#[derive(Default)]
struct Changes<'a> {
    password: Option<&'a str>,
    roles: Option<Vec<QualifiedName>>,
    mechanisms: Option<Vec<Mechanism>>,
    custom_data: Option<Document>,
}

fn invalid(message: impl Into<String>) -> CommandError {
    CommandError::new(ErrorCode::BadValue, message)
}

fn read<'a>(request: &Request<'a>) -> Result<Changes<'a>> {
    let mut changes = Changes::default();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "pwd" => changes.password = Some(arg.str()?),
            "roles" => changes.roles = Some(read_roles(&arg, request.database)?),
            "mechanisms" => changes.mechanisms = Some(mechanisms(&arg)?),
            "customData" => changes.custom_data = Some(Document::try_from(arg.document()?)?),
            "digestPassword" if !arg.bool()? => {
                return Err(invalid(
                    "digestPassword: false is not supported: SCRAM-SHA-256 needs the password as it is",
                ));
            }
            "digestPassword" => {}
            "writeConcern" => write_concern(arg.document()?).map(std::mem::drop)?,
            "authenticationRestrictions" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    if is_external(request) && (changes.password.is_some() || changes.mechanisms.is_some()) {
        return Err(invalid(format!(
            "users of {EXTERNAL} have neither 'pwd' nor 'mechanisms': they authenticate by their certificates"
        )));
    }
    Ok(changes)
}

fn mechanisms(arg: &Arg<'_>) -> Result<Vec<Mechanism>> {
    let mut mechanisms = Vec::new();
    for value in arg.array()? {
        let name = value?.as_str().unwrap_or_default();
        let mechanism = Mechanism::named(name).ok_or_else(|| {
            invalid(format!("there is no mechanism '{name}': use SCRAM-SHA-256 or SCRAM-SHA-1"))
        })?;
        if !mechanisms.contains(&mechanism) {
            mechanisms.push(mechanism);
        }
    }
    if mechanisms.is_empty() {
        return Err(invalid("mechanisms field must not be empty"));
    }
    Ok(mechanisms)
}

/// The user that the command is about.
fn name(request: &Request<'_>) -> Result<QualifiedName> {
    let name = request.subject_name()?;
    match is_external(request) {
        true => check_external_name(name)?,
        false => check_name("user", name)?,
    }
    Ok(QualifiedName::new(request.database, name))
}

/// Whether the command is about users without passwords.
fn is_external(request: &Request<'_>) -> bool {
    request.database == EXTERNAL
}

fn not_found(name: &QualifiedName) -> QueryError {
    QueryError::new(
        ErrorCode::UserNotFound,
        format!("Could not find user \"{}\" for db \"{}\"", name.name, name.database),
    )
}

/// Logs a change of users or roles, and who made it.
pub(super) fn log(request: &Request<'_>, what: &QualifiedName) {
    let by = request.session.identity.user().map(|user| user.to_string());
    tracing::info!(command = request.command.name, %what, by, "users or roles changed");
}

/// Refuses roles that the client may not grant.
pub(super) fn may_grant(request: &Request<'_>, roles: &[QualifiedName]) -> Result<()> {
    roles.iter().try_for_each(|role| request.authorize(Action::GrantRole, Target::Database(&role.database)))
}

/// Refuses roles that the client may not revoke.
pub(super) fn may_revoke(request: &Request<'_>, roles: &[QualifiedName]) -> Result<()> {
    roles.iter().try_for_each(|role| request.authorize(Action::RevokeRole, Target::Database(&role.database)))
}

pub(super) fn create(request: &Request<'_>) -> Result {
    let (access, identity) = (&request.context.access, &request.session.identity);
    let first = access.may_create_first_user(identity)?;
    if !first {
        request.authorize(Action::CreateUser, Target::Database(request.database))?;
    }
    let Changes { password, roles, mechanisms, custom_data } = read(request)?;
    let roles = roles.ok_or_else(|| CommandError::missing("createUser.roles"))?;
    let mut user = User::new(name(request)?);
    if password.is_none() && !is_external(request) {
        return Err(invalid(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
        ));
    }
    let able = access.store.resolve(&roles)?.privileges;
    if !first {
        may_grant(request, &roles)?;
    } else if request.database != "admin" || !permits(&able, Action::GrantRole, Target::Database("admin")) {
        // Nobody could create another one afterwards.
        return Err(CommandError::new(
            ErrorCode::Unauthorized,
            "the first user belongs to admin, and has a role that creates others: root, or userAdminAnyDatabase",
        ));
    }
    if let Some(password) = password {
        set_password(&mut user, password, mechanisms.as_deref().unwrap_or(&Mechanism::ALL))?;
    }
    (user.roles, user.custom_data) = (roles, custom_data);
    access.store.change(|change| {
        if first && change.has_user()? {
            return Err(QueryError::new(
                ErrorCode::Unauthorized,
                "another connection has created the first user: authenticate as that",
            ));
        }
        if change.user(&user.name)?.is_some() {
            return Err(QueryError::new(
                ErrorCode::Location51003,
                format!("User \"{}\" already exists", user.name),
            ));
        }
        change.check_roles(&user.roles)?;
        change.put_user(&user)
    })?;
    log(request, &user.name);
    done()
}

pub(super) fn update(request: &Request<'_>) -> Result {
    let Changes { password, roles, mechanisms, custom_data } = read(request)?;
    let name = name(request)?;
    let target = Target::Database(request.database);
    let own = request.session.identity.user().is_some_and(|user| user == name);
    let allowed = |action, of_own| {
        if own && request.permits(of_own, target)? { Ok(()) } else { request.authorize(action, target) }
    };
    if password.is_none() && roles.is_none() && mechanisms.is_none() && custom_data.is_none() {
        return Err(invalid("Must specify at least one field to update in updateUser"));
    }
    if password.is_some() || mechanisms.is_some() {
        allowed(Action::ChangePassword, Action::ChangeOwnPassword)?;
    }
    if custom_data.is_some() {
        allowed(Action::ChangeCustomData, Action::ChangeOwnCustomData)?;
    }
    if let Some(roles) = &roles {
        request.authorize(Action::RevokeRole, target)?;
        may_grant(request, roles)?;
    }
    // Before the transaction, as it takes long.
    let mut with_password = User::new(name.clone());
    if let Some(password) = password {
        set_password(&mut with_password, password, mechanisms.as_deref().unwrap_or(&Mechanism::ALL))?;
    }
    let store = &request.context.access.store;
    let change_user = |before: Option<&[QualifiedName]>| {
        store.change(|change| {
        let mut user = change.user(&name)?.ok_or_else(|| not_found(&name))?;
        if let (Some(roles), Some(before)) = (&roles, before) {
            // Whether these may be revoked has been asked before the transaction, which nothing else is done in.
            if user.roles != before {
                return Ok(false);
            }
            change.check_roles(roles)?;
            user.roles.clone_from(roles);
        }
        match (password, &mechanisms) {
            (Some(_), _) => user.credentials.clone_from(&with_password.credentials),
            (None, Some(kept)) => {
                user.credentials.retain(|(mechanism, _)| kept.contains(mechanism));
                if user.credentials.len() != kept.len() {
                    return Err(QueryError::new(
                        ErrorCode::BadValue,
                        "mechanisms field must be a subset of previously set mechanisms, unless there is a new password",
                    ));
                }
            }
            (None, None) => {}
        }
        if custom_data.is_some() {
            user.custom_data.clone_from(&custom_data);
        }
        change.put_user(&user)?;
        Ok(true)
    })
    };
    loop {
        let before = match &roles {
            Some(_) => Some(store.user(&name)?.ok_or_else(|| not_found(&name))?.roles),
            None => None,
        };
        may_revoke(request, before.as_deref().unwrap_or_default())?;
        // If somebody has given the user other roles meanwhile, those are asked about.
        if change_user(before.as_deref())? {
            break;
        }
    }
    log(request, &name);
    done()
}

/// Accepts no options but those of every command, and a write concern.
pub(super) fn only_write_concern(request: &Request<'_>) -> Result<()> {
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "writeConcern" => write_concern(arg.document()?).map(std::mem::drop)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok(())
}

pub(super) fn drop(request: &Request<'_>) -> Result {
    only_write_concern(request)?;
    let name = name(request)?;
    let dropped = request.context.access.store.change(|change| {
        if change.delete_user(&name)? {
            Ok(())
        } else {
            Err(QueryError::new(ErrorCode::UserNotFound, format!("User '{name}' not found")))
        }
    });
    dropped?;
    log(request, &name);
    done()
}

pub(super) fn drop_all(request: &Request<'_>) -> Result {
    only_write_concern(request)?;
    let store = &request.context.access.store;
    let users = store.users(Some(request.database))?;
    store.change(|change| users.iter().try_for_each(|user| change.delete_user(&user.name).map(|_| ())))?;
    users.iter().for_each(|user| log(request, &user.name));
    let count = i32::try_from(users.len()).unwrap_or(i32::MAX);
    Ok(rawdoc! { "n": count })
}

/// The roles of `grantRolesToUser` and `revokeRolesFromUser`.
pub(super) fn roles_argument(request: &Request<'_>) -> Result<Vec<QualifiedName>> {
    let mut roles = Vec::new();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "roles" => roles = read_roles(&arg, request.database)?,
            "writeConcern" => write_concern(arg.document()?).map(std::mem::drop)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    if roles.is_empty() {
        return Err(invalid(format!(
            "\"{}\" needs a \"roles\" array with one role at least",
            request.command.name
        )));
    }
    Ok(roles)
}

pub(super) fn grant(request: &Request<'_>) -> Result {
    let (roles, name) = (roles_argument(request)?, name(request)?);
    may_grant(request, &roles)?;
    request.context.access.store.change(|change| {
        let mut user = change.user(&name)?.ok_or_else(|| not_found(&name))?;
        change.check_roles(&roles)?;
        for role in roles {
            if !user.roles.contains(&role) {
                user.roles.push(role);
            }
        }
        change.put_user(&user)
    })?;
    log(request, &name);
    done()
}

pub(super) fn revoke(request: &Request<'_>) -> Result {
    let (roles, name) = (roles_argument(request)?, name(request)?);
    may_revoke(request, &roles)?;
    request.context.access.store.change(|change| {
        let mut user = change.user(&name)?.ok_or_else(|| not_found(&name))?;
        change.check_roles(&roles)?;
        user.roles.retain(|role| !roles.contains(role));
        change.put_user(&user)
    })?;
    log(request, &name);
    done()
}

/// The names that `usersInfo` and `rolesInfo` ask for: `"NAME"`, `{KIND: NAME, db: DATABASE}`, or an array of these. `None`
/// for `1`: those of the database.
pub(super) fn asked_for(
    subject: RawBsonRef<'_>,
    kind: &str,
    database: &str,
) -> Result<Option<Vec<QualifiedName>>> {
    let one = |value: RawBsonRef<'_>| -> Result<QualifiedName> {
        if let Some(name) = value.as_str() {
            return Ok(QualifiedName::new(database, name));
        }
        let named = value.as_document().and_then(|document| {
            Some(QualifiedName::new(document.get_str("db").ok()?, document.get_str(kind).ok()?))
        });
        named.ok_or_else(|| invalid(format!("name one by a string, or by {{{kind}: .., db: ..}}")))
    };
    match subject {
        RawBsonRef::String(_) | RawBsonRef::Document(_) => Ok(Some(vec![one(subject)?])),
        RawBsonRef::Array(array) => {
            Ok(Some(array.into_iter().map(|value| one(value?)).collect::<Result<_>>()?))
        }
        value if crate::mongo::args::number(value) == Some(1.0) => Ok(None),
        _ => Err(invalid(format!("ask for 1, a name, {{{kind}: .., db: ..}}, or an array of names"))),
    }
}

pub(super) fn info(request: &Request<'_>) -> Result {
    let (mut credentials, mut privileges, mut custom_data, mut filter) = (false, false, true, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "showCredentials" => credentials = arg.bool()?,
            "showPrivileges" => privileges = arg.bool()?,
            "showCustomData" => custom_data = arg.bool()?,
            "filter" => filter = arg.some_document()?,
            "showAuthenticationRestrictions" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let store = &request.context.access.store;
    let subject = request.subject()?;
    let everywhere = subject.as_document().is_some_and(|document| {
        document.get("forAllDBs").is_ok_and(|value| value.is_some_and(|value| value.as_bool() == Some(true)))
    });
    let own = request.session.identity.user();
    let users = if everywhere {
        request.authorize(Action::ViewUser, Target::Database(""))?;
        store.users(None)?
    } else if let Some(names) = asked_for(subject, "user", request.database)? {
        let mut users = Vec::new();
        for name in names {
            if credentials || own.as_ref() != Some(&name) {
                request.authorize(Action::ViewUser, Target::Database(&name.database))?;
            }
            users.extend(store.user(&name)?);
        }
        users
    } else {
        request.authorize(Action::ViewUser, Target::Database(request.database))?;
        store.users(Some(request.database))?
    };
    let filter = filter.map(|filter: RawDocumentBuf| Filter::parse(&filter)).transpose()?;
    let mut found = RawArrayBuf::new();
    for user in users {
        let mut document = user.document();
        document.insert("_id", user.name.id());
        let mechanisms: Vec<Bson> = match user.name.database == EXTERNAL {
            true => vec!["external".into()],
            false => user.mechanisms().map(|mechanism| mechanism.name().into()).collect(),
        };
        document.insert("mechanisms", mechanisms);
        if !credentials {
            document.remove("credentials");
        }
        if !custom_data {
            document.remove("customData");
        }
        if privileges {
            let resolved = store.resolve(&user.roles)?;
            let privileges: Vec<Bson> =
                resolved.privileges.iter().map(|privilege| privilege.document().into()).collect();
            document.insert("inheritedRoles", role_documents(&resolved.roles));
            document.insert("inheritedPrivileges", privileges);
        }
        let document = RawDocumentBuf::try_from(&document)?;
        if filter.as_ref().map(|filter| filter.matches(&document)).transpose()? != Some(false) {
            found.push(document);
        }
    }
    Ok(rawdoc! { "users": found })
}
