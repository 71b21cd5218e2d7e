//! Methods of databases, collections and cursors, as the commands of the wire protocol that they stand for.

use bson::{Bson, Document, doc, oid::ObjectId};

use super::statement::{Call, Calls};

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
}

impl Plan {
    /// The same, explained instead of run. What is explained already stays as it is.
    pub(crate) fn explained(mut self, verbosity: &str) -> Plan {
        if self.command.keys().next().is_none_or(|name| name != "explain") {
            (self.command, self.show) = explain(self.command, verbosity);
        }
        self
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

/// What can be called on what, with its forms, for `help` and completion.
pub(crate) const ON_DATABASE: &[(&str, &str)] = &[
    ("adminCommand", "adminCommand({command: 1, ..})"),
    ("aggregate", "aggregate([stages], {options})"),
    ("auth", "auth(\"user\", passwordPrompt())"),
    ("changeUserPassword", "changeUserPassword(\"user\", passwordPrompt())"),
    ("createCollection", "createCollection(\"name\", {options})"),
    ("createRole", "createRole({role, privileges, roles})"),
    ("createUser", "createUser({user, pwd: passwordPrompt(), roles})"),
    ("createView", "createView(\"name\", \"source\", [stages])"),
    ("currentOp", "currentOp({filter})"),
    ("dropDatabase", "dropDatabase()"),
    ("dropRole", "dropRole(\"role\")"),
    ("dropUser", "dropUser(\"user\")"),
    ("fsyncLock", "fsyncLock()"),
    ("fsyncUnlock", "fsyncUnlock()"),
    ("getCollection", "getCollection(\"name\")"),
    ("getCollectionInfos", "getCollectionInfos({filter})"),
    ("getCollectionNames", "getCollectionNames()"),
    ("getName", "getName()"),
    ("getProfilingStatus", "getProfilingStatus()"),
    ("getRoles", "getRoles()"),
    ("getSiblingDB", "getSiblingDB(\"name\")"),
    ("getUser", "getUser(\"user\")"),
    ("getUsers", "getUsers()"),
    ("grantRolesToUser", "grantRolesToUser(\"user\", [roles])"),
    ("hello", "hello()"),
    ("hostInfo", "hostInfo()"),
    ("killOp", "killOp(opid)"),
    ("logout", "logout()"),
    ("revokeRolesFromUser", "revokeRolesFromUser(\"user\", [roles])"),
    ("runCommand", "runCommand({command: 1, ..})"),
    ("serverBuildInfo", "serverBuildInfo()"),
    ("serverStatus", "serverStatus()"),
    ("setProfilingLevel", "setProfilingLevel(level, {slowms, sampleRate, filter})"),
    ("shutdownServer", "shutdownServer({options})"),
    ("stats", "stats()"),
    ("updateUser", "updateUser(\"user\", {pwd, roles})"),
    ("version", "version()"),
];

/// Those of them that are for the database `admin`, whatever database is in use.
const ON_ADMIN: &[&str] = &[
    "adminCommand",
    "currentOp",
    "fsyncLock",
    "fsyncUnlock",
    "hostInfo",
    "killOp",
    "serverBuildInfo",
    "shutdownServer",
];

/// Methods of a collection.
pub(crate) const ON_COLLECTION: &[(&str, &str)] = &[
    ("aggregate", "aggregate([stages], {options})"),
    ("count", "count({filter})"),
    ("countDocuments", "countDocuments({filter}, {options})"),
    ("createIndex", "createIndex({keys}, {options})"),
    ("createIndexes", "createIndexes([{keys}, ..], {options})"),
    ("createSearchIndex", "createSearchIndex(\"name\", \"vectorSearch\", {definition})"),
    ("deleteMany", "deleteMany({filter})"),
    ("deleteOne", "deleteOne({filter})"),
    ("distinct", "distinct(\"field\", {filter})"),
    ("drop", "drop()"),
    ("dropIndex", "dropIndex(\"name\" or {keys})"),
    ("dropIndexes", "dropIndexes()"),
    ("dropSearchIndex", "dropSearchIndex(\"name\")"),
    ("estimatedDocumentCount", "estimatedDocumentCount()"),
    ("explain", "explain(\"executionStats\").find({filter})"),
    ("find", "find({filter}, {projection})"),
    ("findOne", "findOne({filter}, {projection})"),
    ("findOneAndDelete", "findOneAndDelete({filter}, {options})"),
    ("findOneAndReplace", "findOneAndReplace({filter}, {document}, {options})"),
    ("findOneAndUpdate", "findOneAndUpdate({filter}, {update}, {options})"),
    ("getIndexes", "getIndexes()"),
    ("getSearchIndexes", "getSearchIndexes()"),
    ("hideIndex", "hideIndex(\"name\" or {keys})"),
    ("insert", "insert({document} or [documents])"),
    ("insertMany", "insertMany([documents], {ordered})"),
    ("insertOne", "insertOne({document})"),
    ("renameCollection", "renameCollection(\"name\")"),
    ("replaceOne", "replaceOne({filter}, {document}, {upsert})"),
    ("stats", "stats()"),
    ("unhideIndex", "unhideIndex(\"name\" or {keys})"),
    ("updateMany", "updateMany({filter}, {update}, {upsert})"),
    ("updateOne", "updateOne({filter}, {update}, {upsert})"),
    ("updateSearchIndex", "updateSearchIndex(\"name\", {definition})"),
    ("validate", "validate()"),
];

/// Methods of what `find` and `aggregate` return.
pub(crate) const ON_CURSOR: &[(&str, &str)] = &[
    ("allowDiskUse", "allowDiskUse()"),
    ("batchSize", "batchSize(n)"),
    ("collation", "collation({locale, ..})"),
    ("comment", "comment(\"text\")"),
    ("count", "count()"),
    ("explain", "explain(\"executionStats\")"),
    ("hint", "hint(\"index\" or {keys})"),
    ("itcount", "itcount()"),
    ("limit", "limit(n)"),
    ("max", "max({key})"),
    ("maxTimeMS", "maxTimeMS(n)"),
    ("min", "min({key})"),
    ("pretty", "pretty()"),
    ("projection", "projection({fields})"),
    ("size", "size()"),
    ("skip", "skip(n)"),
    ("sort", "sort({keys})"),
    ("toArray", "toArray()"),
];

/// The form of a method, which an error message shows.
fn form(table: &[(&str, &'static str)], name: &str) -> String {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| format!("{name}()"), |(_, form)| (*form).to_owned())
}

fn unknown<T>(table: &[(&str, &str)], name: &str, of: &str) -> Result<T, String> {
    let close = |known: &&str| strsim::normalized_damerau_levenshtein(known, name);
    let near = table.iter().map(|(known, _)| *known).max_by(|a, b| close(a).total_cmp(&close(b)));
    let hint = match near.filter(|near| close(near) >= 0.6) {
        Some(near) => format!(": did you mean {near}?"),
        None => ": help lists them".to_owned(),
    };
    Err(format!("{of} have no method {name} here{hint}"))
}

/// The arguments of a method, taken one after the other.
struct Arguments<'c> {
    left: std::slice::Iter<'c, Bson>,
    form: String,
}

impl<'c> Arguments<'c> {
    fn of(call: &'c Call, table: &[(&str, &'static str)]) -> Self {
        Arguments { left: call.arguments.iter(), form: form(table, &call.name) }
    }

    fn wrong<T>(&self) -> Result<T, String> {
        Err(format!("the form is {}", self.form))
    }

    fn value(&mut self) -> Result<Bson, String> {
        self.left.next().map_or_else(|| self.wrong(), |value| Ok(value.clone()))
    }

    /// A document that may be missing.
    fn optional(&mut self) -> Result<Document, String> {
        match self.left.next() {
            Some(Bson::Document(document)) => Ok(document.clone()),
            None | Some(Bson::Null) => Ok(Document::new()),
            Some(_) => self.wrong(),
        }
    }

    fn document(&mut self) -> Result<Document, String> {
        match self.left.next() {
            Some(Bson::Document(document)) => Ok(document.clone()),
            _ => self.wrong(),
        }
    }

    fn array(&mut self) -> Result<Vec<Bson>, String> {
        match self.left.next() {
            Some(Bson::Array(array)) => Ok(array.clone()),
            _ => self.wrong(),
        }
    }

    fn text(&mut self) -> Result<String, String> {
        match self.left.next() {
            Some(Bson::String(text)) => Ok(text.clone()),
            _ => self.wrong(),
        }
    }

    fn end(mut self) -> Result<(), String> {
        if self.left.next().is_some() { self.wrong() } else { Ok(()) }
    }
}

impl Plan {
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

fn verbosity(call: &Call) -> Result<String, String> {
    match &call.arguments[..] {
        [] => Ok("queryPlanner".to_owned()),
        [Bson::String(verbosity)] => Ok(verbosity.clone()),
        _ => Err(format!("the form is {}", form(ON_CURSOR, "explain"))),
    }
}

fn explain(mut command: Document, verbosity: &str) -> (Document, Show) {
    command.remove("batchSize");
    (doc! { "explain": command, "verbosity": verbosity }, Show::Reply)
}

/// A command after the methods that are called on its result.
fn on_cursor(command: Document, show: Show, chain: &[Call]) -> Result<(Document, Show), String> {
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

fn with(mut command: Document, options: Document) -> Document {
    command.extend(options);
    command
}

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

fn on_collection(call: &Call, collection: &str) -> Result<(Document, Show), String> {
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

fn on_database(call: &Call, database: &str) -> Result<(Document, Show), String> {
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
        "getCollectionNames" => (collections(), Show::Names),
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
fn collections() -> Document {
    doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true }
}

/// What `show` shows.
pub(crate) fn show(what: &str, database: &str) -> Option<Plan> {
    let plan = |database: &str, command, show| Some(Plan { database: database.to_owned(), command, show });
    match what {
        "dbs" | "databases" => plan("admin", doc! { "listDatabases": 1 }, Show::Table("databases")),
        "collections" | "tables" => plan(database, collections(), Show::Names),
        "users" => plan(database, doc! { "usersInfo": 1 }, Show::Table("users")),
        "roles" => plan(database, doc! { "rolesInfo": 1, "showBuiltinRoles": true }, Show::Table("roles")),
        "profile" => {
            let command = doc! { "find": "system.profile", "sort": { "$natural": -1 }, "limit": 5 };
            plan(database, command, Show::Documents)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement::{Statement, parse};
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        let parsed = parse(text, &|| Ok("secret".to_owned())).unwrap().unwrap().0;
        let Statement::Calls(calls) = parsed else { panic!("{text}") };
        Plan::of(&calls, "shop").map(Option::unwrap)
    }

    fn command(text: &str) -> Document {
        plan(text).unwrap_or_else(|error| panic!("{text}: {error}")).command
    }

    #[test]
    fn methods_are_the_commands_that_drivers_send() {
        for (text, expected) in [
            (
                "db.a.find({x: 1}, {y: 1}).sort({z: -1}).skip(2).limit(5).hint('x_1')",
                doc! {"find": "a", "filter": {"x": 1}, "projection": {"y": 1}, "sort": {"z": -1}, "skip": 2, "limit": 5, "hint": "x_1"},
            ),
            ("db.a.find().limit(3).count()", doc! {"count": "a", "query": {}}),
            ("db.a.find({x: 1}).limit(3).size()", doc! {"count": "a", "query": {"x": 1}, "limit": 3}),
            ("db.a.findOne()", doc! {"find": "a", "filter": {}, "limit": 1, "singleBatch": true}),
            (
                "db.a.updateMany({x: 1}, {$set: {y: 2}}, {upsert: true})",
                doc! {"update": "a", "updates": [{"q": {"x": 1}, "u": {"$set": {"y": 2}}, "multi": true, "upsert": true}]},
            ),
            (
                "db.a.replaceOne({x: 1}, {y: 2})",
                doc! {"update": "a", "updates": [{"q": {"x": 1}, "u": {"y": 2}, "multi": false}]},
            ),
            ("db.a.deleteMany({})", doc! {"delete": "a", "deletes": [{"q": {}, "limit": 0}]}),
            ("db.a.deleteOne({x: 1})", doc! {"delete": "a", "deletes": [{"q": {"x": 1}, "limit": 1}]}),
            (
                "db.a.aggregate([{$match: {x: 1}}], {allowDiskUse: true})",
                doc! {"aggregate": "a", "pipeline": [{"$match": {"x": 1}}], "cursor": {}, "allowDiskUse": true},
            ),
            (
                "db.aggregate([{$currentOp: {}}])",
                doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}},
            ),
            (
                "db.a.countDocuments({x: 1}, {limit: 5})",
                doc! {"aggregate": "a", "pipeline": [{"$match": {"x": 1}}, {"$limit": 5}, {"$group": {"_id": 1, "n": {"$sum": 1}}}], "cursor": {}},
            ),
            (
                "db.a.createIndex({x: 1, y: -1, t: 'text'}, {unique: true})",
                doc! {"createIndexes": "a", "indexes": [{"key": {"x": 1, "y": -1, "t": "text"}, "name": "x_1_y_-1_t_text", "unique": true}]},
            ),
            (
                "db.a.findOneAndUpdate({x: 1}, {$inc: {n: 1}}, {returnDocument: 'after', projection: {n: 1}})",
                doc! {"findAndModify": "a", "query": {"x": 1}, "update": {"$inc": {"n": 1}}, "new": true, "fields": {"n": 1}},
            ),
            (
                "db.a.find({x: 1}).explain('executionStats')",
                doc! {"explain": {"find": "a", "filter": {"x": 1}}, "verbosity": "executionStats"},
            ),
            (
                "db.a.explain().aggregate([])",
                doc! {"explain": {"aggregate": "a", "pipeline": [], "cursor": {}}, "verbosity": "queryPlanner"},
            ),
            (
                "db.createUser({user: 'ann', pwd: passwordPrompt(), roles: []})",
                doc! {"createUser": "ann", "pwd": "secret", "roles": []},
            ),
            ("db.a.hideIndex('x_1')", doc! {"collMod": "a", "index": {"name": "x_1", "hidden": true}}),
            (
                "db.a.unhideIndex({x: 1})",
                doc! {"collMod": "a", "index": {"keyPattern": {"x": 1}, "hidden": false}},
            ),
            (
                "db.a.updateSearchIndex('near', {fields: []})",
                doc! {"updateSearchIndex": "a", "name": "near", "definition": {"fields": []}},
            ),
            ("db.fsyncLock()", doc! {"fsync": 1, "lock": true}),
            ("db.fsyncUnlock()", doc! {"fsyncUnlock": 1}),
            ("db.updateUser('ann', {pwd: 'x'})", doc! {"updateUser": "ann", "pwd": "x"}),
            ("db.runCommand('ping')", doc! {"ping": 1}),
        ] {
            assert_eq!(command(text), expected, "{text}");
        }
        for text in ["db.adminCommand({ping: 1})", "db.fsyncLock()", "db.getSiblingDB('x').fsyncUnlock()"] {
            assert_eq!(plan(text).unwrap().database, "admin", "{text}");
        }
        assert_eq!(plan("db.getSiblingDB('x').a.find()").unwrap().database, "x");
        let renamed = plan("db.a.renameCollection('b')").unwrap();
        assert_eq!(renamed.command, doc! {"renameCollection": "shop.a", "to": "shop.b", "dropTarget": false});
        let inserted = command("db.a.insertOne({x: 1})");
        let document = inserted.get_array("documents").unwrap()[0].as_document().unwrap();
        assert_eq!(document.keys().collect::<Vec<_>>(), ["_id", "x"]);
    }

    #[test]
    fn wrong_calls_are_told_the_form() {
        for (text, what) in [
            ("db.a.fnd()", "did you mean find?"),
            ("db.a.xyzzy()", "help lists them"),
            ("db.runComand({ping: 1})", "did you mean runCommand?"),
            ("db.a.find().srt({a: 1})", "did you mean sort?"),
            ("db.a.find(5)", "find({filter}, {projection})"),
            ("db.a.deleteMany()", "deleteMany({filter})"),
            ("db.a.updateOne({}, {x: 1})", "$set"),
            ("db.a.replaceOne({}, {$set: {x: 1}})", "updateOne"),
            ("db.a.insertMany([1])", "only documents"),
            ("db.a.drop().sort({})", "nothing that sort"),
            ("db.a.drop(1, 2)", "drop()"),
            ("db.a.aggregate([]).limit(1)", "cursors have no method limit"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn an_explained_plan_is_explained_once_and_never_run() {
        let explained = |text: &str| plan(text).unwrap().explained("executionStats");
        let delete = doc! {"delete": "a", "deletes": [{"q": {"x": ".explain("}, "limit": 0}]};
        for text in ["db.a.deleteMany({x: '.explain('})", "db.a.deleteMany({x: '.explain('}) // old"] {
            let expected = doc! {"explain": delete.clone(), "verbosity": "executionStats"};
            assert_eq!(explained(text).command, expected, "{text}");
            assert_eq!(explained(text).show, Show::Reply);
        }
        let already = doc! {"explain": {"find": "a", "filter": {}}, "verbosity": "queryPlanner"};
        assert_eq!(explained("db.a.find({}).explain()").command, already);
        // A field of that name is no command.
        assert!(explained("db.runCommand({drop: 'a', explain: 1})").command.contains_key("verbosity"));
    }

    #[test]
    fn every_method_that_help_lists_exists() {
        let is_known = |result: Result<(Document, Show), String>| match result {
            Ok(_) => true,
            Err(error) => !error.contains("have no method"),
        };
        let call = |name: &str| Call { name: name.to_owned(), arguments: vec![] };
        for (name, form) in ON_DATABASE {
            let elsewhere = ["auth", "getCollection", "getName", "getSiblingDB"];
            assert!(elsewhere.contains(name) || is_known(on_database(&call(name), "")), "{name}");
            assert!(form.starts_with(name));
        }
        for (name, form) in ON_COLLECTION {
            let elsewhere = ["explain", "renameCollection"];
            assert!(elsewhere.contains(name) || is_known(on_collection(&call(name), "a")), "{name}");
            assert!(form.starts_with(name));
        }
        for (name, form) in ON_CURSOR {
            let found = on_cursor(doc! {"find": "a"}, Show::Documents, &[call(name)]);
            assert!(is_known(found), "{name}");
            assert!(form.starts_with(name));
        }
    }
}
