//! Methods of a collection.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::super::statement::Call;
use super::arguments::Arguments;
use super::names::{ON_COLLECTION, unknown};
use super::plan::{Show, Write};
use super::with;

/// Moves an option out of a document.
fn take(options: &mut Document, name: &str, to: &mut Document) {
    if let Some(value) = options.remove(name) {
        to.insert(name, value);
    }
}

fn id_of(document: &mut Document) -> Bson {
    if let Some(id) = document.get("_id") {
        return id.clone();
    }
    let id = Bson::ObjectId(ObjectId::new());
    // First, where servers put it.
    let mut whole = doc! { "_id": id.clone() };
    whole.extend(std::mem::take(document));
    *document = whole;
    id
}

fn insert_many(collection: &str, values: Vec<Bson>, options: Document) -> Result<(Document, Show), String> {
    let (mut documents, mut ids) = (Vec::new(), Vec::new());
    for value in values {
        let Bson::Document(mut document) = value else {
            return Err("only documents can be inserted".to_owned());
        };
        ids.push(id_of(&mut document));
        documents.push(document);
    }
    let command = with(doc! { "insert": collection, "documents": documents }, options);
    Ok((command, Show::Written(Write::InsertedMany(ids))))
}

/// The name that drivers give to an index.
fn index_name(keys: &Document) -> String {
    let parts = keys.iter().map(|(field, direction)| match direction {
        Bson::String(kind) => format!("{field}_{kind}"),
        Bson::Double(number) => format!("{field}_{number:.0}"),
        other => format!("{field}_{other}"),
    });
    parts.collect::<Vec<_>>().join("_")
}

fn create_indexes(collection: &str, all: Vec<Bson>, options: &Document) -> Result<(Document, Show), String> {
    let mut indexes = Vec::new();
    for keys in all {
        let Bson::Document(keys) = keys else { return Err("the keys of an index are a document".to_owned()) };
        let name = index_name(&keys);
        let mut index = doc! { "key": keys, "name": name };
        index.extend(options.clone());
        indexes.push(index);
    }
    Ok((doc! { "createIndexes": collection, "indexes": indexes }, Show::Reply))
}

fn has_operators(update: &Bson) -> bool {
    match update {
        Bson::Array(_) => true,
        Bson::Document(update) => update.keys().next().is_some_and(|name| name.starts_with('$')),
        _ => false,
    }
}

fn update(call: &Call, collection: &str) -> Result<(Document, Show), String> {
    let mut arguments = Arguments::of(call, ON_COLLECTION);
    let (filter, change, mut options) = (arguments.document()?, arguments.value()?, arguments.optional()?);
    arguments.end()?;
    if has_operators(&change) == (call.name == "replaceOne") {
        return Err(match call.name.as_str() {
            "replaceOne" => "a replacement has no operators: use updateOne".to_owned(),
            name => format!("{name} needs operators, such as $set: use replaceOne to replace the document"),
        });
    }
    let mut statement = doc! { "q": filter, "u": change, "multi": call.name == "updateMany" };
    for name in ["upsert", "collation", "arrayFilters", "hint", "sort"] {
        take(&mut options, name, &mut statement);
    }
    let command = doc! { "update": collection, "updates": [statement] };
    Ok((with(command, options), Show::Written(Write::Updated)))
}

fn find_and_modify(call: &Call, collection: &str) -> Result<(Document, Show), String> {
    let mut arguments = Arguments::of(call, ON_COLLECTION);
    let mut command = doc! { "findAndModify": collection, "query": arguments.document()? };
    if call.name == "findOneAndDelete" {
        command.insert("remove", true);
    } else {
        let change = arguments.value()?;
        if has_operators(&change) == (call.name == "findOneAndReplace") {
            return arguments.wrong();
        }
        command.insert("update", change);
    }
    let options = arguments.optional()?;
    arguments.end()?;
    for (name, value) in options {
        match (name.as_str(), &value) {
            ("returnDocument", Bson::String(which)) => drop(command.insert("new", which == "after")),
            ("returnNewDocument", _) => drop(command.insert("new", value)),
            ("projection", _) => drop(command.insert("fields", value)),
            _ => drop(command.insert(name, value)),
        }
    }
    Ok((command, Show::Field("value")))
}

pub(super) fn on_collection(call: &Call, collection: &str) -> Result<(Document, Show), String> {
    let mut arguments = Arguments::of(call, ON_COLLECTION);
    let planned = match call.name.as_str() {
        "find" | "findOne" => {
            let (filter, projection, options) =
                (arguments.optional()?, arguments.optional()?, arguments.optional()?);
            let mut command = doc! { "find": collection, "filter": filter };
            if !projection.is_empty() {
                command.insert("projection", projection);
            }
            command.extend(options);
            if call.name == "find" {
                (command, Show::Documents)
            } else {
                (with(command, doc! { "limit": 1, "singleBatch": true }), Show::First)
            }
        }
        "aggregate" => {
            let pipeline = match arguments.left.as_slice() {
                // Stages one after the other, as old shells take them.
                [Bson::Document(stage), ..] if stage.keys().all(|name| name.starts_with('$')) => {
                    arguments.left.by_ref().cloned().collect()
                }
                _ => arguments.array()?,
            };
            let options = arguments.optional()?;
            let command = doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} };
            (with(command, options), Show::Documents)
        }
        "countDocuments" => {
            let (filter, mut options) = (arguments.optional()?, arguments.optional()?);
            let mut pipeline = vec![doc! { "$match": filter }];
            for (option, stage) in [("skip", "$skip"), ("limit", "$limit")] {
                pipeline.extend(options.remove(option).map(|n| doc! { stage: n }));
            }
            pipeline.push(doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
            let command = doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} };
            (with(command, options), Show::FirstNumber)
        }
        "estimatedDocumentCount" => (doc! { "count": collection }, Show::Field("n")),
        "count" => {
            let (filter, options) = (arguments.optional()?, arguments.optional()?);
            (with(doc! { "count": collection, "query": filter }, options), Show::Field("n"))
        }
        "distinct" => {
            let (field, filter, options) = (arguments.text()?, arguments.optional()?, arguments.optional()?);
            let command = doc! { "distinct": collection, "key": field, "query": filter };
            (with(command, options), Show::Field("values"))
        }
        "insertOne" => {
            let (mut document, options) = (arguments.document()?, arguments.optional()?);
            let id = id_of(&mut document);
            let command = with(doc! { "insert": collection, "documents": [document] }, options);
            (command, Show::Written(Write::InsertedOne(id)))
        }
        "insertMany" => insert_many(collection, arguments.array()?, arguments.optional()?)?,
        "insert" => match arguments.value()? {
            Bson::Array(documents) => insert_many(collection, documents, arguments.optional()?)?,
            document => insert_many(collection, vec![document], arguments.optional()?)?,
        },
        "updateOne" | "updateMany" | "replaceOne" => return update(call, collection),
        "deleteOne" | "deleteMany" => {
            let (filter, mut options) = (arguments.document()?, arguments.optional()?);
            let mut statement = doc! { "q": filter, "limit": i32::from(call.name == "deleteOne") };
            for name in ["collation", "hint"] {
                take(&mut options, name, &mut statement);
            }
            let command = doc! { "delete": collection, "deletes": [statement] };
            (with(command, options), Show::Written(Write::Deleted))
        }
        "findOneAndUpdate" | "findOneAndReplace" | "findOneAndDelete" => {
            return find_and_modify(call, collection);
        }
        "createIndex" => {
            let (keys, options) = (arguments.document()?, arguments.optional()?);
            create_indexes(collection, vec![Bson::Document(keys)], &options)?
        }
        "createIndexes" => create_indexes(collection, arguments.array()?, &arguments.optional()?)?,
        "getIndexes" => (doc! { "listIndexes": collection }, Show::Documents),
        "dropIndex" => (doc! { "dropIndexes": collection, "index": arguments.value()? }, Show::Reply),
        "hideIndex" | "unhideIndex" => {
            let by = match arguments.value()? {
                Bson::Document(keys) => doc! { "keyPattern": keys },
                name => doc! { "name": name },
            };
            let index = with(by, doc! { "hidden": call.name == "hideIndex" });
            (doc! { "collMod": collection, "index": index }, Show::Reply)
        }
        "dropIndexes" => {
            let which = arguments.left.next().cloned().unwrap_or_else(|| "*".into());
            (doc! { "dropIndexes": collection, "index": which }, Show::Reply)
        }
        "createSearchIndex" => {
            let index = match arguments.value()? {
                Bson::Document(index) => index,
                Bson::String(name) => match arguments.value()? {
                    Bson::String(kind) => {
                        doc! { "name": name, "type": kind, "definition": arguments.document()? }
                    }
                    Bson::Document(definition) => {
                        doc! { "name": name, "type": "vectorSearch", "definition": definition }
                    }
                    _ => return arguments.wrong(),
                },
                _ => return arguments.wrong(),
            };
            (doc! { "createSearchIndexes": collection, "indexes": [index] }, Show::Reply)
        }
        "getSearchIndexes" => (doc! { "listSearchIndexes": collection }, Show::Documents),
        "updateSearchIndex" => {
            let (name, definition) = (arguments.text()?, arguments.document()?);
            (doc! { "updateSearchIndex": collection, "name": name, "definition": definition }, Show::Reply)
        }
        "dropSearchIndex" => (doc! { "dropSearchIndex": collection, "name": arguments.text()? }, Show::Reply),
        "drop" => (doc! { "drop": collection }, Show::Reply),
        "stats" => (with(doc! { "collStats": collection }, arguments.optional()?), Show::Reply),
        "validate" => (with(doc! { "validate": collection }, arguments.optional()?), Show::Reply),
        name => return unknown(ON_COLLECTION, name, "collections"),
    };
    arguments.end()?;
    Ok(planned)
}
