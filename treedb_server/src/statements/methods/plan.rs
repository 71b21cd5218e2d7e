//! What a statement comes to: a command to run, and how to show what comes back.

use bson::{Bson, Document, doc};

use super::super::statement::{Call, Calls};
use super::arguments::Arguments;
use super::collection::on_collection;
use super::cursor::on_cursor;
use super::database::{names_of_collections, on_database};
use super::names::{ON_ADMIN, ON_COLLECTION, ON_CURSOR, form};

/// A command to run, and how to show what comes back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) database: String,
    pub(crate) command: Document,
    pub(crate) show: Show,
}

impl Plan {
    /// Asks for so many documents at a time, unless the statement says how many.
    pub(crate) fn limit_batch(&mut self, size: i32) {
        if self.show != Show::Documents {
            return;
        }
        if let Some(Bson::Document(cursor)) = self.command.get_mut("cursor") {
            cursor.entry("batchSize").or_insert(size.into());
        } else if self.command.contains_key("find") {
            self.command.entry("batchSize").or_insert(size.into());
        }
    }

    /// The same, explained instead of run. What is explained already stays as it is.
    pub(crate) fn explained(mut self, verbosity: &str) -> Plan {
        if self.command.keys().next().is_none_or(|name| name != "explain") {
            (self.command, self.show) = explain(self.command, verbosity);
        }
        self
    }

    /// The command that calls stand for; `current` is the database in use. `None` if they only name a database or collection.
    ///
    /// # Errors
    /// There is no such method, or it has other arguments.
    pub(crate) fn of(calls: &Calls, current: &str) -> Result<Option<Plan>, String> {
        let database = calls.database.clone().unwrap_or_else(|| current.to_owned());
        let Some((first, chain)) = calls.calls.split_first() else { return Ok(None) };
        let plan = |(command, show)| Some(Plan { database: database.clone(), command, show });
        let Some(collection) = &calls.collection else {
            let found = on_database(first, &database)?;
            let (command, show) = on_cursor(found.0, found.1, chain)?;
            let database =
                if ON_ADMIN.contains(&first.name.as_str()) { "admin".to_owned() } else { database };
            return Ok(Some(Plan { database, command, show }));
        };
        if first.name == "explain" {
            let verbosity = verbosity(first)?;
            let Some((explained, chain)) = chain.split_first() else {
                return Err(format!("the form is {}", form(ON_COLLECTION, "explain")));
            };
            let (command, show) = on_collection(explained, collection)?;
            let (command, _) = on_cursor(command, show, chain)?;
            return Ok(plan(explain(command, &verbosity)));
        }
        if first.name == "renameCollection" {
            let mut arguments = Arguments::of(first, ON_COLLECTION);
            let to = arguments.text()?;
            let drop = matches!(arguments.left.next(), Some(Bson::Boolean(true)));
            arguments.end()?;
            let (from, to) = (format!("{database}.{collection}"), format!("{database}.{to}"));
            let command = doc! { "renameCollection": from, "to": to, "dropTarget": drop };
            return Ok(Some(Plan { database: "admin".to_owned(), command, show: Show::Reply }));
        }
        let (command, show) = on_collection(first, collection)?;
        Ok(plan(on_cursor(command, show, chain)?))
    }
}

impl Show {
    /// The field of the reply that is shown, or how else the page has to show it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Show::Documents | Show::First | Show::Counted | Show::FirstNumber | Show::Names => "cursor",
            Show::Field(name) | Show::Table(name) => name,
            Show::Reply | Show::Written(_) => "",
        }
    }
}

/// How a reply is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Show {
    /// The documents of a cursor.
    Documents,
    /// The first document of a cursor, or null.
    First,
    /// How many documents a cursor returns.
    Counted,
    /// The number `n` of the first document of a cursor, or 0.
    FirstNumber,
    /// The field `name` of each document of a cursor.
    Names,
    /// The reply, without what every reply has.
    Reply,
    /// One field of the reply.
    Field(&'static str),
    /// The documents in an array of the reply.
    Table(&'static str),
    /// What a write did.
    Written(Write),
}

/// What a write did, as drivers call it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    InsertedOne(Bson),
    InsertedMany(Vec<Bson>),
    Updated,
    Deleted,
}

pub(super) fn verbosity(call: &Call) -> Result<String, String> {
    match &call.arguments[..] {
        [] => Ok("queryPlanner".to_owned()),
        [Bson::String(verbosity)] => Ok(verbosity.clone()),
        _ => Err(format!("the form is {}", form(ON_CURSOR, "explain"))),
    }
}

pub(super) fn explain(mut command: Document, verbosity: &str) -> (Document, Show) {
    command.remove("batchSize");
    (doc! { "explain": command, "verbosity": verbosity }, Show::Reply)
}

/// What `show` shows.
pub(crate) fn show(what: &str, database: &str) -> Option<Plan> {
    let plan = |database: &str, command, show| Some(Plan { database: database.to_owned(), command, show });
    match what {
        "dbs" | "databases" => plan("admin", doc! { "listDatabases": 1 }, Show::Table("databases")),
        "collections" | "tables" => plan(database, names_of_collections(), Show::Names),
        "users" => plan(database, doc! { "usersInfo": 1 }, Show::Table("users")),
        "roles" => plan(database, doc! { "rolesInfo": 1, "showBuiltinRoles": true }, Show::Table("roles")),
        "profile" => {
            let command = doc! { "find": "system.profile", "sort": { "$natural": -1 }, "limit": 5 };
            plan(database, command, Show::Documents)
        }
        _ => None,
    }
}
