//! What `help` says.

use crate::statements::methods::{ON_COLLECTION, ON_CURSOR, ON_DATABASE};

const GENERAL: &str = "\
show dbs | collections | users | roles | profile
use DATABASE                     the database that db is from now on
db.COLL.find({year: 1999})       the first documents; it shows the next ones
db.COLL.insertOne({a: 1})        updateOne, deleteMany, aggregate, createIndex, ..: help collection
db.runCommand({ping: 1})         createUser, stats, currentOp, ..: help database
\\x                               documents with a line for each field, or as tables
\\json                            documents as JSON, one a line, or as tables
help database | collection | cursor | METHOD
exit                             or Ctrl-D

Values are written as in JSON or JavaScript: {name: 'x', _id: ObjectId(\"..\"), at: ISODate(\"2026-01-31\"), n: NumberLong(5)}.
A statement goes on in the next line as long as a bracket is open. Ctrl-C stops what is running. Nothing is computed: there are
no variables and functions.
";

fn forms(table: &[(&str, &str)], before: &str) -> String {
    table.iter().map(|(_, form)| format!("{before}{form}\n")).collect()
}

/// The help about a topic: a kind of object, or a method.
pub(super) fn about(topic: Option<&str>) -> String {
    let tables = [(ON_DATABASE, "db."), (ON_COLLECTION, "db.COLL."), (ON_CURSOR, "db.COLL.find().")];
    match topic {
        None => GENERAL.to_owned(),
        Some("database" | "db") => forms(ON_DATABASE, "db."),
        Some("collection") => forms(ON_COLLECTION, "db.COLL."),
        Some("cursor") => forms(ON_CURSOR, "db.COLL.find()."),
        Some(method) => {
            let of = |(table, before): (&'static [(&str, &str)], &str)| -> String {
                let found = table.iter().filter(|(name, _)| *name == method);
                found.map(|(_, form)| format!("{before}{form}\n")).collect()
            };
            let found: String = tables.into_iter().map(of).collect();
            if found.is_empty() { format!("there is no help about {method}\n\n{GENERAL}") } else { found }
        }
    }
}
