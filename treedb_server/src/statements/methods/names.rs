//! The names of methods, with their forms, for `help`, completion and errors.

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
pub(super) const ON_ADMIN: &[&str] = &[
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
pub(super) fn form(table: &[(&str, &'static str)], name: &str) -> String {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| format!("{name}()"), |(_, form)| (*form).to_owned())
}

pub(super) fn unknown<T>(table: &[(&str, &str)], name: &str, of: &str) -> Result<T, String> {
    let close = |known: &&str| strsim::normalized_damerau_levenshtein(known, name);
    let near = table.iter().map(|(known, _)| *known).max_by(|a, b| close(a).total_cmp(&close(b)));
    let hint = match near.filter(|near| close(near) >= 0.6) {
        Some(near) => format!(": did you mean {near}?"),
        None => ": help lists them".to_owned(),
    };
    Err(format!("{of} have no method {name} here{hint}"))
}
