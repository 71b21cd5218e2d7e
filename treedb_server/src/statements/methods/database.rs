//! Methods of a database.

use bson::{Bson, Document, doc};

use super::super::statement::Call;
use super::arguments::Arguments;
use super::names::{ON_DATABASE, unknown};
use super::plan::Show;
use super::with;

pub(super) fn on_database(call: &Call, database: &str) -> Result<(Document, Show), String> {
    let mut arguments = Arguments::of(call, ON_DATABASE);
    let planned = match call.name.as_str() {
        "runCommand" | "adminCommand" => match arguments.value()? {
            Bson::Document(command) if !command.is_empty() => (command, Show::Reply),
            Bson::String(name) => (doc! { name: 1 }, Show::Reply),
            _ => return arguments.wrong(),
        },
        "aggregate" => {
            let (pipeline, options) = (arguments.array()?, arguments.optional()?);
            let command = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} };
            (with(command, options), Show::Documents)
        }
        "createCollection" => {
            (with(doc! { "create": arguments.text()? }, arguments.optional()?), Show::Reply)
        }
        "createView" => {
            let (name, source) = (arguments.text()?, arguments.text()?);
            let pipeline = arguments.array()?;
            let command = doc! { "create": name, "viewOn": source, "pipeline": pipeline };
            (with(command, arguments.optional()?), Show::Reply)
        }
        "dropDatabase" => (doc! { "dropDatabase": 1 }, Show::Reply),
        "getCollectionNames" => (names_of_collections(), Show::Names),
        "getCollectionInfos" => {
            (doc! { "listCollections": 1, "filter": arguments.optional()? }, Show::Documents)
        }
        "stats" => (doc! { "dbStats": 1 }, Show::Reply),
        "serverStatus" => (doc! { "serverStatus": 1 }, Show::Reply),
        "fsyncLock" => (doc! { "fsync": 1, "lock": true }, Show::Reply),
        "fsyncUnlock" => (doc! { "fsyncUnlock": 1 }, Show::Reply),
        "hostInfo" => (doc! { "hostInfo": 1 }, Show::Reply),
        "serverBuildInfo" => (doc! { "buildInfo": 1 }, Show::Reply),
        "version" => (doc! { "buildInfo": 1 }, Show::Field("version")),
        "hello" => (doc! { "hello": 1 }, Show::Reply),
        "currentOp" => match arguments.left.next() {
            Some(Bson::Boolean(all)) => (doc! { "currentOp": 1, "$all": *all }, Show::Reply),
            Some(Bson::Document(filter)) => (with(doc! { "currentOp": 1 }, filter.clone()), Show::Reply),
            None => (doc! { "currentOp": 1 }, Show::Reply),
            Some(_) => return arguments.wrong(),
        },
        "killOp" => (doc! { "killOp": 1, "op": arguments.value()? }, Show::Reply),
        "shutdownServer" => (with(doc! { "shutdown": 1 }, arguments.optional()?), Show::Reply),
        "createUser" | "updateUser" | "createRole" => {
            // `user` or `role` is what the command itself is about; updateUser("name", {..}) has it before.
            let named = if call.name == "createRole" { "role" } else { "user" };
            let mut about = Document::new();
            if call.name == "updateUser" {
                about.insert("updateUser", arguments.text()?);
            }
            let mut options = arguments.document()?;
            if let Some(name) = options.remove(named) {
                about.insert(call.name.clone(), name);
            }
            if about.is_empty() {
                return arguments.wrong();
            }
            (with(about, options), Show::Reply)
        }
        "changeUserPassword" => {
            (doc! { "updateUser": arguments.text()?, "pwd": arguments.text()? }, Show::Reply)
        }
        "dropUser" | "dropRole" => (doc! { call.name.clone(): arguments.text()? }, Show::Reply),
        "grantRolesToUser" | "revokeRolesFromUser" => {
            let (user, roles) = (arguments.text()?, arguments.array()?);
            (doc! { call.name.clone(): user, "roles": roles }, Show::Reply)
        }
        "getUsers" => (doc! { "usersInfo": 1 }, Show::Table("users")),
        "getUser" => (doc! { "usersInfo": arguments.text()? }, Show::Table("users")),
        "getRoles" => (doc! { "rolesInfo": 1, "showBuiltinRoles": true }, Show::Table("roles")),
        "logout" => (doc! { "logout": 1 }, Show::Reply),
        "setProfilingLevel" => {
            let (level, options) = (arguments.value()?, arguments.optional()?);
            (with(doc! { "profile": level }, options), Show::Reply)
        }
        "getProfilingStatus" => (doc! { "profile": -1 }, Show::Reply),
        name => {
            let hint = format!("(a collection of that name is db.getCollection(\"{name}\"))");
            return unknown(ON_DATABASE, name, "databases").map_err(|error: String| {
                if database.is_empty() { error } else { format!("{error} {hint}") }
            });
        }
    };
    arguments.end()?;
    Ok(planned)
}

/// The names of a database's collections, of those that the user may know.
pub(super) fn names_of_collections() -> Document {
    doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true }
}
