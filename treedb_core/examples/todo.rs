//! A to-do list on the command line, kept in a directory.
//!
//! ```text
//! todo DIR add "Buy milk" [--due 2026-12-24] [--tag home]..
//! todo DIR done 3
//! todo DIR list [TAG]
//! todo DIR tags
//! ```
//!
//! It shows a typed collection, a counter and an insert in one transaction, an index, a sort, and a pipeline.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use treedb_core::bson::{Document, doc};
use treedb_core::{Database, Result, ReturnDocument};

#[derive(Debug, Serialize, Deserialize)]
struct Task {
    #[serde(rename = "_id")]
    number: i64,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    tags: Vec<String>,
    done: bool,
}

#[derive(Debug, Deserialize)]
struct Tag {
    #[serde(rename = "_id")]
    name: String,
    open: i64,
}

fn add(db: &Database, text: &str, options: &[&str]) -> Result<String> {
    let values = |name: &str| -> Vec<String> {
        options
            .chunks(2)
            .filter(|pair| pair.len() == 2 && pair[0] == name)
            .map(|pair| pair[1].to_owned())
            .collect()
    };
    let number = db.transaction(|txn| {
        let counter = txn
            .collection::<Document>("counters")
            .find_one_and_update(doc! { "_id": "tasks" }, doc! { "$inc": { "last": 1_i64 } })
            .upsert(true)
            .return_document(ReturnDocument::After)
            .run()?
            .unwrap_or_default();
        let number = counter.get_i64("last").unwrap_or(1);
        let (due, tags) = (values("--due").pop(), values("--tag"));
        let task = Task { number, text: text.to_owned(), due, tags, done: false };
        txn.collection("tasks").insert_one(task).run()?;
        Ok(number)
    })?;
    Ok(format!("added {number}"))
}

fn done(db: &Database, number: i64) -> Result<String> {
    let tasks = db.collection::<Task>("tasks");
    let update = tasks.update_one(doc! { "_id": number, "done": false }, doc! { "$set": { "done": true } });
    Ok(match update.run()?.modified_count {
        0 => format!("there is no open task {number}"),
        _ => format!("done {number}"),
    })
}

fn list(db: &Database, tag: Option<&str>) -> Result<String> {
    let tasks = db.collection::<Task>("tasks");
    tasks.create_index(doc! { "tags": 1, "due": 1 }).run()?;
    let mut filter = doc! { "done": false };
    if let Some(tag) = tag {
        filter.insert("tags", tag);
    }
    let mut lines = Vec::new();
    for task in tasks.find(filter).sort(doc! { "due": 1, "_id": 1 }).run()? {
        let task = task?;
        let due = task.due.map(|due| format!(" (due {due})")).unwrap_or_default();
        lines.push(format!("{:>3} {}{due}", task.number, task.text));
    }
    Ok(lines.join("\n"))
}

fn tags(db: &Database) -> Result<String> {
    let stages = [
        doc! { "$match": { "done": false } },
        doc! { "$unwind": "$tags" },
        doc! { "$group": { "_id": "$tags", "open": { "$sum": 1_i64 } } },
        doc! { "$sort": { "open": -1, "_id": 1 } },
    ];
    let tags = db.collection::<Task>("tasks").aggregate(stages).with_type::<Tag>().run()?;
    let lines = tags.map(|tag| tag.map(|tag| format!("{:>3} {}", tag.open, tag.name)));
    Ok(lines.collect::<Result<Vec<_>>>()?.join("\n"))
}

fn run(dir: &str, command: &dyn Fn(&Database) -> Result<String>) -> ExitCode {
    match Database::open(dir).and_then(|db| command(&db)) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("todo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [dir, "add", text, options @ ..] => run(dir, &|db| add(db, text, options)),
        [dir, "done", number] if number.parse::<i64>().is_ok() => {
            run(dir, &|db| done(db, number.parse().unwrap_or_default()))
        }
        [dir, "list", tag @ ..] => run(dir, &|db| list(db, tag.first().copied())),
        [dir, "tags"] => run(dir, &tags),
        _ => {
            eprintln!(
                "usage: todo DIR add TEXT [--due DATE] [--tag TAG].. | done NUMBER | list [TAG] | tags"
            );
            ExitCode::from(2)
        }
    }
}
