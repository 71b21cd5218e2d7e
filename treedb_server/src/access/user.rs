//! A user, a role, and how they are stored.
//!
//! ```text
//! table server/users, key "DATABASE.NAME": { user, db, userId: UUID, credentials: { MECHANISM: {..}, .. },
//!                                            roles: [ { role, db }, .. ], customData: {..} }
//! table server/roles, key "DATABASE.NAME": { role, db, privileges: [ {resource, actions}, .. ], roles: [ .. ] }
//! ```
//!
//! A database's name has no dot, so a key is read from its first one.

use std::fmt;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawArray, RawDocument, RawDocumentBuf, doc};

use super::privilege::Privilege;
use super::scram::{Credentials, Mechanism};

/// A name in a database: that of a user, or that of a role.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QualifiedName {
    /// The database.
    pub(crate) database: String,
    /// The name in it.
    pub(crate) name: String,
}

impl QualifiedName {
    /// A name in a database.
    pub(crate) fn new(database: &str, name: &str) -> QualifiedName {
        QualifiedName { database: database.to_owned(), name: name.to_owned() }
    }

    /// `DATABASE.NAME`.
    pub(crate) fn id(&self) -> String {
        format!("{}.{}", self.database, self.name)
    }

    /// `{role: NAME, db: DATABASE}`.
    pub(crate) fn role_document(&self) -> Document {
        doc! { "role": &self.name, "db": &self.database }
    }

    /// Reads `"NAME"`, a role of `database`, or `{role: NAME, db: DATABASE}`.
    ///
    /// # Errors
    /// It is neither.
    pub(crate) fn read_role(value: bson::RawBsonRef<'_>, database: &str) -> Result<QualifiedName, String> {
        if let Some(name) = value.as_str() {
            return Ok(QualifiedName::new(database, name));
        }
        let document = value.as_document().ok_or("a role is a string, or {role: .., db: ..}")?;
        match (document.get_str("role"), document.get_str("db")) {
            (Ok(_), Ok(database)) if database.contains('.') => {
                Err(format!("there is no database '{database}': its name may not have a dot"))
            }
            (Ok(name), Ok(database)) => Ok(QualifiedName::new(database, name)),
            _ => Err("a role as a document has a string 'role' and a string 'db'".to_owned()),
        }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.database)
    }
}

/// Roles, each once, as they are stored.
pub(crate) fn role_documents(roles: &[QualifiedName]) -> Vec<Bson> {
    roles.iter().map(|role| role.role_document().into()).collect()
}

/// A user as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct User {
    /// The user's name.
    pub(crate) name: QualifiedName,
    /// A random number that no other user has, nor had.
    pub(crate) id: Binary,
    /// What passwords are checked against.
    pub(crate) credentials: Vec<(Mechanism, Credentials)>,
    /// The roles that were granted.
    pub(crate) roles: Vec<QualifiedName>,
    /// Data of the application's (`customData`).
    pub(crate) custom_data: Option<Document>,
}

impl User {
    /// A new one, without a password.
    pub(crate) fn new(name: QualifiedName) -> User {
        let id = Binary { subtype: BinarySubtype::Uuid, bytes: bson::Uuid::new().bytes().to_vec() };
        User { name, id, credentials: Vec::new(), roles: Vec::new(), custom_data: None }
    }

    /// The mechanisms that it can authenticate with.
    pub(crate) fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        self.credentials.iter().map(|(mechanism, _)| *mechanism)
    }

    /// The credentials for a mechanism.
    pub(crate) fn credentials(&self, mechanism: Mechanism) -> Option<&Credentials> {
        self.credentials.iter().find(|(own, _)| *own == mechanism).map(|(_, credentials)| credentials)
    }

    /// As it is stored.
    pub(crate) fn document(&self) -> Document {
        let mut credentials = Document::new();
        for (mechanism, own) in &self.credentials {
            credentials.insert(mechanism.name(), own.document());
        }
        let mut document = doc! {
            "user": &self.name.name,
            "db": &self.name.database,
            "userId": self.id.clone(),
            "credentials": credentials,
            "roles": role_documents(&self.roles),
        };
        if let Some(data) = &self.custom_data {
            document.insert("customData", data.clone());
        }
        document
    }

    /// Reads it; `None` if it is not one.
    pub(crate) fn read(bytes: &[u8]) -> Option<User> {
        let document = RawDocument::from_bytes(bytes).ok()?;
        let credentials = document.get_document("credentials").ok()?;
        let credentials = Mechanism::ALL.into_iter().filter_map(|mechanism| {
            let own = credentials.get_document(mechanism.name()).ok()?;
            Some((mechanism, Credentials::read(mechanism, own)?))
        });
        let id = document.get_binary("userId").ok()?;
        Some(User {
            name: QualifiedName::new(document.get_str("db").ok()?, document.get_str("user").ok()?),
            id: Binary { subtype: id.subtype, bytes: id.bytes.to_vec() },
            credentials: credentials.collect(),
            roles: read_roles(document.get_array("roles").ok()?)?,
            custom_data: match document.get_document("customData") {
                Ok(data) => Some(Document::try_from(data).ok()?),
                Err(_) => None,
            },
        })
    }
}

/// A role that somebody created.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    /// Its name.
    pub(crate) name: QualifiedName,
    /// Its own privileges.
    pub(crate) privileges: Vec<Privilege>,
    /// The roles whose privileges it has besides.
    pub(crate) roles: Vec<QualifiedName>,
}

impl Role {
    /// As it is stored.
    pub(crate) fn document(&self) -> Document {
        let privileges: Vec<Bson> = self.privileges.iter().map(|own| own.document().into()).collect();
        doc! {
            "role": &self.name.name,
            "db": &self.name.database,
            "privileges": privileges,
            "roles": role_documents(&self.roles),
        }
    }

    /// Reads it; `None` if it is not one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Role> {
        let document = RawDocument::from_bytes(bytes).ok()?;
        let privileges = document.get_array("privileges").ok()?.into_iter();
        let privileges = privileges.map(|value| Privilege::read(value.ok()?.as_document()?).ok());
        Some(Role {
            name: QualifiedName::new(document.get_str("db").ok()?, document.get_str("role").ok()?),
            privileges: privileges.collect::<Option<_>>()?,
            roles: read_roles(document.get_array("roles").ok()?)?,
        })
    }
}

fn read_roles(array: &RawArray) -> Option<Vec<QualifiedName>> {
    array.into_iter().map(|value| QualifiedName::read_role(value.ok()?, "").ok()).collect()
}

/// A document as bytes.
pub(super) fn encoded(document: &Document) -> Result<Vec<u8>, bson::error::Error> {
    Ok(RawDocumentBuf::try_from(document)?.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::action::{Action, ActionSet};
    use super::super::resource::Resource;
    use super::*;

    #[test]
    fn users_and_roles_are_read_as_they_are_stored() {
        let name = QualifiedName::new("shop", "ann.of.green");
        let mut user = User::new(name.clone());
        for mechanism in Mechanism::ALL {
            user.credentials.push((mechanism, Credentials::new(mechanism, "ann", "secret").unwrap()));
        }
        user.roles.push(QualifiedName::new("admin", "root"));
        user.custom_data = Some(doc! { "team": 3 });
        let read = User::read(&encoded(&user.document()).unwrap()).unwrap();
        assert_eq!(read.document(), user.document());
        assert_eq!(read.name, name);
        let role = Role {
            name,
            privileges: vec![Privilege {
                resource: Resource::database("shop"),
                actions: ActionSet::of(&[Action::Find, Action::Insert]),
            }],
            roles: vec![QualifiedName::new("shop", "read")],
        };
        let bytes = encoded(&role.document()).unwrap();
        assert_eq!(Role::read(&bytes).unwrap().document(), role.document());
        for end in 0..bytes.len() {
            assert!(Role::read(&bytes[..end]).is_none());
        }
    }
}
