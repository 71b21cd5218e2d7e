//! `createRole`, `updateRole`, `dropRole`, `dropAllRolesFromDatabase`, `grantPrivilegesToRole`, `revokePrivilegesFromRole`,
//! `grantRolesToRole`, `revokeRolesFromRole`, `rolesInfo`.

use bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, rawdoc};
use treedb_query::query::{ErrorCode, QueryError};

use super::Result;
use super::request::{Request, done};
use super::users::{asked_for, log, may_grant, may_revoke, only_write_concern, roles_argument};
use super::writes::write_concern;
use crate::access::action::Action;
use crate::access::builtin_roles;
use crate::access::check_name;
use crate::access::privilege::{NoPrivilege, Privilege, add};
use crate::access::resource::{Resource, Target};
use crate::access::store::Change;
use crate::access::user::{QualifiedName, Role, role_documents};
use crate::mongo::args::Arg;
use crate::mongo::error::CommandError;

fn invalid(message: impl Into<String>) -> CommandError {
    CommandError::new(ErrorCode::BadValue, message)
}

/// The roles of an argument, each once; names alone are roles of `database`.
pub(super) fn read_roles(arg: &Arg<'_>, database: &str) -> Result<Vec<QualifiedName>> {
    let mut roles = Vec::new();
    for value in arg.array()? {
        let role = QualifiedName::read_role(value?, database).map_err(invalid)?;
        check_count(roles.len(), "roles")?;
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    Ok(roles)
}

/// Refuses more of something than a user or a role may have.
fn check_count(count: usize, of: &str) -> Result<()> {
    if count < MOST {
        return Ok(());
    }
    Err(invalid(format!("there may be at most {MOST} {of}: put some into roles of their own")))
}

fn read_privileges(arg: &Arg<'_>) -> Result<Vec<Privilege>> {
    let mut privileges = Vec::new();
    for document in arg.documents()? {
        check_count(privileges.len(), "privileges")?;
        let privilege = Privilege::read(&document).map_err(|error| match error {
            NoPrivilege::UnknownAction(name) => CommandError::new(
                ErrorCode::FailedToParse,
                format!("Unrecognized action privilege strings: {name}"),
            ),
            NoPrivilege::Malformed(what) => invalid(what),
        })?;
        add(&mut privileges, privilege);
    }
    Ok(privileges)
}

/// Roles, or privileges, of one user or role.
const MOST: usize = 1_000;

/// What a command says of a role.
#[derive(Default)]
struct Changes {
    privileges: Option<Vec<Privilege>>,
    roles: Option<Vec<QualifiedName>>,
}

fn read(request: &Request<'_>) -> Result<Changes> {
    let mut changes = Changes::default();
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "privileges" => changes.privileges = Some(read_privileges(&arg)?),
            "roles" => changes.roles = Some(read_roles(&arg, request.database)?),
            "writeConcern" => write_concern(arg.document()?).map(std::mem::drop)?,
            "authenticationRestrictions" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    Ok(changes)
}

/// The role that the command is about.
fn name(request: &Request<'_>) -> Result<QualifiedName> {
    let name = request.subject_name()?;
    check_name("role", name)?;
    if builtin_roles::privileges(name, request.database).is_some() {
        if request.command.name == "createRole" {
            return Err(invalid("Cannot create roles with the same name as a built-in role"));
        }
        return Err(CommandError::new(
            ErrorCode::InvalidRoleModification,
            format!("{name}@{} is a built-in role, which cannot be changed or dropped", request.database),
        ));
    }
    Ok(QualifiedName::new(request.database, name))
}

fn not_found(name: &QualifiedName) -> QueryError {
    QueryError::new(ErrorCode::RoleNotFound, format!("Role \"{name}\" not found"))
}

/// The database whose administrators decide about a resource.
fn database_of(resource: &Resource) -> &str {
    match resource {
        Resource::Collections { database, .. } if !database.is_empty() => database,
        _ => "admin",
    }
}

/// Refuses privileges that the client may not grant or revoke, by `action`.
fn may_change(request: &Request<'_>, action: Action, privileges: &[Privilege]) -> Result<()> {
    privileges.iter().try_for_each(|privilege| {
        request.authorize(action, Target::Database(database_of(&privilege.resource)))
    })
}

/// Only roles of `admin` may be about more than their own database.
fn check_scope(role: &Role) -> std::result::Result<(), QueryError> {
    let own = &role.name.database;
    let alone = own == "admin"
        || role.roles.iter().all(|other| other.database == *own)
            && role.privileges.iter().all(|privilege| {
                matches!(&privilege.resource, Resource::Collections { database, .. } if database == own)
            });
    if alone {
        return Ok(());
    }
    Err(QueryError::new(
        ErrorCode::InvalidRoleModification,
        format!(
            "Roles on the '{own}' database cannot be granted privileges or roles of other databases or the cluster: \
             create the role in admin"
        ),
    ))
}

/// Writes a role, if it may be as it is.
fn put(change: &mut Change<'_>, role: &Role) -> std::result::Result<(), QueryError> {
    check_scope(role)?;
    change.check_roles(&role.roles)?;
    if change.inherits(&role.roles, &role.name)? {
        return Err(QueryError::new(
            ErrorCode::InvalidRoleModification,
            format!("the roles given to {} would introduce a cycle in the role graph", role.name),
        ));
    }
    change.put_role(role)
}

pub(super) fn create(request: &Request<'_>) -> Result {
    request.authorize(Action::CreateRole, Target::Database(request.database))?;
    let Changes { privileges, roles } = read(request)?;
    let privileges = privileges.ok_or_else(|| CommandError::missing("createRole.privileges"))?;
    let roles = roles.ok_or_else(|| CommandError::missing("createRole.roles"))?;
    let name = name(request)?;
    may_grant(request, &roles)?;
    may_change(request, Action::GrantRole, &privileges)?;
    let role = Role { name, privileges, roles };
    request.context.access.store.change(|change| {
        if change.role(&role.name)?.is_some() {
            let message = format!("Role \"{}\" already exists", role.name);
            return Err(QueryError::new(ErrorCode::Location51002, message));
        }
        put(change, &role)
    })?;
    log(request, &role.name);
    done()
}

/// Changes a role that there is.
fn change_role(
    request: &Request<'_>,
    name: &QualifiedName,
    edit: impl FnOnce(&mut Role) -> std::result::Result<(), QueryError>,
) -> Result {
    request.context.access.store.change(|change| {
        let mut role = change.role(name)?.ok_or_else(|| not_found(name))?;
        edit(&mut role)?;
        put(change, &role)
    })?;
    log(request, name);
    done()
}

pub(super) fn update(request: &Request<'_>) -> Result {
    let Changes { privileges, roles } = read(request)?;
    let name = name(request)?;
    if privileges.is_none() && roles.is_none() {
        return Err(invalid("\"updateRole\" command requires a \"privileges\" or a \"roles\" array"));
    }
    request.authorize(Action::RevokeRole, Target::Database(request.database))?;
    let before = request.context.access.store.role(&name)?;
    if let Some(roles) = &roles {
        may_grant(request, roles)?;
        may_revoke(request, before.as_ref().map_or(&[], |role| &role.roles))?;
    }
    if let Some(privileges) = &privileges {
        may_change(request, Action::GrantRole, privileges)?;
        may_change(request, Action::RevokeRole, before.as_ref().map_or(&[], |role| &role.privileges))?;
    }
    change_role(request, &name, |role| {
        if let Some(privileges) = privileges {
            role.privileges = privileges;
        }
        if let Some(roles) = roles {
            role.roles = roles;
        }
        Ok(())
    })
}

pub(super) fn drop(request: &Request<'_>) -> Result {
    only_write_concern(request)?;
    let name = name(request)?;
    request
        .context
        .access
        .store
        .change(|change| if change.delete_role(&name)? { Ok(()) } else { Err(not_found(&name)) })?;
    log(request, &name);
    done()
}

pub(super) fn drop_all(request: &Request<'_>) -> Result {
    only_write_concern(request)?;
    let store = &request.context.access.store;
    let roles = store.roles(Some(request.database))?;
    store.change(|change| roles.iter().try_for_each(|role| change.delete_role(&role.name).map(|_| ())))?;
    roles.iter().for_each(|role| log(request, &role.name));
    Ok(rawdoc! { "n": i32::try_from(roles.len()).unwrap_or(i32::MAX) })
}

/// The privileges of `grantPrivilegesToRole` and `revokePrivilegesFromRole`.
fn privileges_argument(request: &Request<'_>) -> Result<Vec<Privilege>> {
    match read(request)? {
        Changes { privileges: Some(privileges), roles: None } if !privileges.is_empty() => Ok(privileges),
        _ => Err(invalid(format!("\"{}\" needs a \"privileges\" array, and no roles", request.command.name))),
    }
}

pub(super) fn grant_privileges(request: &Request<'_>) -> Result {
    let (privileges, name) = (privileges_argument(request)?, name(request)?);
    may_change(request, Action::GrantRole, &privileges)?;
    change_role(request, &name, |role| {
        privileges.into_iter().for_each(|privilege| add(&mut role.privileges, privilege));
        Ok(())
    })
}

pub(super) fn revoke_privileges(request: &Request<'_>) -> Result {
    let (privileges, name) = (privileges_argument(request)?, name(request)?);
    may_change(request, Action::RevokeRole, &privileges)?;
    change_role(request, &name, |role| {
        for gone in privileges {
            if let Some(known) = role.privileges.iter_mut().find(|known| known.resource == gone.resource) {
                known.actions = known.actions.without(gone.actions);
            }
        }
        role.privileges.retain(|privilege| !privilege.actions.is_empty());
        Ok(())
    })
}

pub(super) fn grant_roles(request: &Request<'_>) -> Result {
    let (roles, name) = (roles_argument(request)?, name(request)?);
    may_grant(request, &roles)?;
    change_role(request, &name, |role| {
        for granted in roles {
            if !role.roles.contains(&granted) {
                role.roles.push(granted);
            }
        }
        Ok(())
    })
}

pub(super) fn revoke_roles(request: &Request<'_>) -> Result {
    let (roles, name) = (roles_argument(request)?, name(request)?);
    may_revoke(request, &roles)?;
    change_role(request, &name, |role| {
        role.roles.retain(|known| !roles.contains(known));
        Ok(())
    })
}

pub(super) fn info(request: &Request<'_>) -> Result {
    let (mut show_privileges, mut builtin) = (false, false);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "showPrivileges" => show_privileges = arg.bool()?,
            "showBuiltinRoles" => builtin = arg.bool()?,
            "showAuthenticationRestrictions" => arg.unsupported()?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let store = &request.context.access.store;
    let own = request.session.identity.login(&request.context.access)?;
    let built_in = |name: &QualifiedName| {
        let privileges = builtin_roles::privileges(&name.name, &name.database)?;
        Some((Role { name: name.clone(), privileges, roles: Vec::new() }, true))
    };
    let mut roles = Vec::new();
    match asked_for(request.subject()?, "role", request.database)? {
        Some(names) => {
            for name in names {
                if !own.as_ref().is_some_and(|login| login.roles.contains(&name)) {
                    request.authorize(Action::ViewRole, Target::Database(&name.database))?;
                }
                match built_in(&name) {
                    Some(found) => roles.push(found),
                    None => roles.extend(store.role(&name)?.map(|role| (role, false))),
                }
            }
        }
        None => {
            request.authorize(Action::ViewRole, Target::Database(request.database))?;
            roles.extend(store.roles(Some(request.database))?.into_iter().map(|role| (role, false)));
            if builtin {
                let names = builtin_roles::names(request.database);
                roles.extend(names.filter_map(|name| built_in(&QualifiedName::new(request.database, name))));
            }
        }
    }
    let mut found = RawArrayBuf::new();
    for (role, is_builtin) in roles {
        found.push(RawDocumentBuf::try_from(&shown(request, &role, is_builtin, show_privileges)?)?);
    }
    Ok(rawdoc! { "roles": found })
}

/// A role as `rolesInfo` shows it.
fn shown(request: &Request<'_>, role: &Role, is_builtin: bool, show_privileges: bool) -> Result<Document> {
    let resolved = request.context.access.store.resolve(&role.roles)?;
    let mut document = bson::doc! {
        "_id": role.name.id(),
        "role": &role.name.name,
        "db": &role.name.database,
        "isBuiltin": is_builtin,
        "roles": role_documents(&role.roles),
        "inheritedRoles": role_documents(&resolved.roles),
    };
    if show_privileges {
        let documents = |all: &[Privilege]| -> Vec<Bson> {
            all.iter().map(|privilege| privilege.document().into()).collect()
        };
        let mut inherited = role.privileges.clone();
        resolved.privileges.into_iter().for_each(|privilege| add(&mut inherited, privilege));
        document.insert("privileges", documents(&role.privileges));
        document.insert("inheritedPrivileges", documents(&inherited));
    }
    Ok(document)
}
