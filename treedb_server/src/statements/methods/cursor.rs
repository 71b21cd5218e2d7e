//! Methods of what `find` and `aggregate` return.

use bson::{Bson, Document, doc};

use super::super::statement::Call;
use super::arguments::Arguments;
use super::names::{ON_CURSOR, unknown};
use super::plan::{Show, explain, verbosity};

/// A command after the methods that are called on its result.
pub(super) fn on_cursor(command: Document, show: Show, chain: &[Call]) -> Result<(Document, Show), String> {
    let (mut command, mut show) = (command, show);
    let is_find = command.contains_key("find");
    for call in chain {
        if show != Show::Documents {
            return Err(format!("there is nothing that {} could be called on", call.name));
        }
        let mut arguments = Arguments::of(call, ON_CURSOR);
        match call.name.as_str() {
            "sort" | "skip" | "limit" | "min" | "max" if is_find => {
                drop(command.insert(call.name.clone(), arguments.value()?));
            }
            "projection" | "project" if is_find => {
                drop(command.insert("projection", arguments.document()?));
            }
            "hint" | "maxTimeMS" | "comment" => drop(command.insert(call.name.clone(), arguments.value()?)),
            "collation" => drop(command.insert("collation", arguments.document()?)),
            "allowDiskUse" => {
                let wanted = arguments.left.next().cloned().unwrap_or(Bson::Boolean(true));
                command.insert("allowDiskUse", wanted);
            }
            "batchSize" => {
                let size = arguments.value()?;
                match is_find {
                    true => drop(command.insert("batchSize", size)),
                    false => drop(command.insert("cursor", doc! { "batchSize": size })),
                }
            }
            "count" | "size" if is_find => {
                let mut counted = Document::new();
                for (name, value) in &command {
                    match name.as_str() {
                        "find" => drop(counted.insert("count", value.clone())),
                        "filter" => drop(counted.insert("query", value.clone())),
                        // `count()` of a cursor counts what its filter matches, `size()` what it would return.
                        "skip" | "limit" if call.name == "count" => {}
                        "skip" | "limit" | "hint" | "collation" | "maxTimeMS" | "comment" => {
                            drop(counted.insert(name, value.clone()));
                        }
                        _ => {}
                    }
                }
                (command, show) = (counted, Show::Field("n"));
            }
            "itcount" => show = Show::Counted,
            "explain" => {
                let verbosity = verbosity(call)?;
                arguments.left.next();
                (command, show) = explain(command, &verbosity);
            }
            // Everything is shown anyway.
            "pretty" | "toArray" => {}
            name => return unknown(ON_CURSOR, name, "cursors"),
        }
        arguments.end()?;
    }
    Ok((command, show))
}
