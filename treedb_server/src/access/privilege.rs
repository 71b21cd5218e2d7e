//! A resource, and the actions that are permitted on it.

use bson::{Bson, Document, RawBsonRef, RawDocument};

use super::action::{Action, ActionSet};
use super::resource::{Resource, Target};

/// A resource, and the actions that are permitted on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Privilege {
    /// What it is about.
    pub(crate) resource: Resource,
    /// What may be done with it.
    pub(crate) actions: ActionSet,
}

/// Whether one of the privileges permits an action.
pub(crate) fn permits(privileges: &[Privilege], action: Action, target: Target<'_>) -> bool {
    privileges.iter().any(|privilege| privilege.actions.permits(action) && privilege.resource.covers(target))
}

/// Adds a privilege to others: one for each resource.
pub(crate) fn add(privileges: &mut Vec<Privilege>, new: Privilege) {
    match privileges.iter_mut().find(|known| known.resource == new.resource) {
        Some(known) => known.actions = known.actions.and(new.actions),
        None => privileges.push(new),
    }
}

/// Why a document is no privilege.
#[derive(Debug)]
pub(crate) enum NoPrivilege {
    /// There is no action of this name.
    UnknownAction(String),
    /// It has another form.
    Malformed(String),
}

impl From<String> for NoPrivilege {
    fn from(what: String) -> Self {
        NoPrivilege::Malformed(what)
    }
}

impl Privilege {
    /// Reads `{resource: {..}, actions: [..]}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(document: &RawDocument) -> Result<Privilege, NoPrivilege> {
        let (mut resource, mut actions) = (None, None);
        for field in document {
            let (name, value) = field.map_err(|error| error.to_string())?;
            match (name.as_str(), value) {
                ("resource", RawBsonRef::Document(document)) => resource = Some(Resource::read(document)?),
                ("actions", RawBsonRef::Array(array)) => {
                    let mut set = ActionSet::EMPTY;
                    for action in array {
                        let action = action.map_err(|error| error.to_string())?;
                        let name = action.as_str().ok_or_else(|| "an action is a string".to_owned())?;
                        let action =
                            Action::named(name).ok_or_else(|| NoPrivilege::UnknownAction(name.to_owned()))?;
                        set = set.and(ActionSet::of(&[action]));
                    }
                    actions = Some(set);
                }
                (other, _) => return Err(format!("a privilege has no field {other:?} of that type").into()),
            }
        }
        match (resource, actions) {
            (Some(resource), Some(actions)) if !actions.is_empty() => Ok(Privilege { resource, actions }),
            _ => Err("a privilege is {resource: {..}, actions: [..]}, with one action at least"
                .to_owned()
                .into()),
        }
    }

    /// The same form.
    pub(crate) fn document(&self) -> Document {
        let actions: Vec<Bson> = self.actions.iter().map(|action| action.name().into()).collect();
        bson::doc! { "resource": self.resource.document(), "actions": actions }
    }
}
