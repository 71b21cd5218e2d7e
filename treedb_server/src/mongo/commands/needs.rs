//! Who may run a command: what the rows of the table of commands say, and what depends on the arguments.
//!
//! A field that occurs twice counts both times, for what it would do each time: which of them the command reads does not
//! matter then.

use bson::{RawBsonRef, RawDocument};
use treedb_collections::Namespace;
use treedb_query::query::ErrorCode;

use super::Result;
use super::request::Request;
use super::{bulk_write, get_more, rename_collection};
use crate::access::action::Action;
use crate::access::resource::Target;
use crate::mongo::args::truth;
use crate::mongo::error::CommandError;

/// Who may run a command.
pub(super) enum Needs {
    /// Any client: it is part of authenticating, says nothing of anybody's data, or checks by itself.
    Nothing,
    /// Who has authenticated: it is about the user's own things, or checks by itself.
    Login,
    /// Who may do this to the server.
    Cluster(Action),
    /// Who may do this to the database.
    Database(Action),
    /// Who may do this to the collection that the command's own field names.
    Collection(Action),
    /// Who may do what the arguments ask for.
    Arguments(fn(&Request<'_>) -> Result<()>),
}

impl Needs {
    /// Refuses a command of somebody who may not run it.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub(super) fn check(&self, request: &Request<'_>) -> Result<()> {
        let access = &request.context.access;
        if !access.checks(&request.session.identity) || matches!(self, Needs::Nothing) {
            return Ok(());
        }
        // Before the arguments are looked at.
        access.require_login(&request.session.identity, request.command.name)?;
        match self {
            Needs::Nothing | Needs::Login => Ok(()),
            Needs::Cluster(action) => request.authorize(*action, Target::Cluster),
            Needs::Database(action) => request.authorize(*action, Target::Database(request.database)),
            Needs::Collection(action) => {
                let collection = request.collection_name()?;
                request.authorize(*action, Target::Collection(request.database, collection))
            }
            Needs::Arguments(check) => check(request),
        }
    }
}

/// Whether a field is `wanted`, true or false, in one of its occurrences.
fn is_set_to(document: &RawDocument, name: &str, wanted: bool) -> Result<bool> {
    for field in document {
        let (field, value) = field?;
        // What is neither true nor false is refused by the command.
        if field.as_str() == name && truth(value).unwrap_or(true) == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a field is true in one of its occurrences.
fn is_set(document: &RawDocument, name: &str) -> Result<bool> {
    is_set_to(document, name, true)
}

/// A write `command` that is to pass by the collection's validator needs that too.
fn bypass(request: &Request<'_>, command: &RawDocument, target: Target<'_>) -> Result<()> {
    match is_set(command, "bypassDocumentValidation")? {
        true => request.authorize(Action::BypassDocumentValidation, target),
        false => Ok(()),
    }
}

/// An `insert`.
pub(super) fn insert(request: &Request<'_>) -> Result<()> {
    let target = Target::Collection(request.database, request.collection_name()?);
    request.authorize(Action::Insert, target)?;
    bypass(request, request.body(), target)
}

/// An `update`.
pub(super) fn update(request: &Request<'_>) -> Result<()> {
    let target = Target::Collection(request.database, request.collection_name()?);
    update_in(request, request.body(), target, || request.documents("updates"))
}

/// The `update` that `command` is, also one that is explained. One that may insert needs that too.
fn update_in<'a>(
    request: &Request<'_>,
    command: &RawDocument,
    target: Target<'_>,
    statements: impl FnOnce() -> Result<Vec<&'a RawDocument>>,
) -> Result<()> {
    request.authorize(Action::Update, target)?;
    bypass(request, command, target)?;
    for statement in statements()? {
        // Only its length has been checked. What follows a damaged field is not executed.
        if is_set(statement, "upsert").unwrap_or(true) {
            return request.authorize(Action::Insert, target);
        }
    }
    Ok(())
}

/// A `bulkWrite` needs what each of its operations does.
pub(super) fn bulk_write(request: &Request<'_>) -> Result<()> {
    let collections = bulk_write::collections(request)?;
    for namespace in &collections {
        bypass(request, request.body(), Target::Collection(namespace.database(), namespace.collection()))?;
    }
    for operation in request.documents("ops")? {
        let (kind, on) = bulk_write::subject(operation)?;
        // The command refuses a number that is none of theirs.
        let Some(namespace) = collections.get(on) else { continue };
        let target = Target::Collection(namespace.database(), namespace.collection());
        let action = match kind {
            "insert" => Action::Insert,
            "update" => Action::Update,
            _ => Action::Remove,
        };
        request.authorize(action, target)?;
        if kind == "update" && is_set(operation, "upsert")? {
            request.authorize(Action::Insert, target)?;
        }
    }
    Ok(())
}

/// A `findAndModify`.
pub(super) fn find_and_modify(request: &Request<'_>) -> Result<()> {
    let target = Target::Collection(request.database, request.collection_name()?);
    find_and_modify_in(request, request.body(), target)
}

/// The `findAndModify` that `command` is, also one that is explained. It reads, and deletes or updates.
fn find_and_modify_in(request: &Request<'_>, command: &RawDocument, target: Target<'_>) -> Result<()> {
    request.authorize(Action::Find, target)?;
    bypass(request, command, target)?;
    let removes = is_set(command, "remove")?;
    if removes {
        request.authorize(Action::Remove, target)?;
    }
    if !removes || is_set_to(command, "remove", false)? || command.get("update")?.is_some() {
        request.authorize(Action::Update, target)?;
    }
    if is_set(command, "upsert")? { request.authorize(Action::Insert, target) } else { Ok(()) }
}

/// A `create`.
pub(super) fn create(request: &Request<'_>) -> Result<()> {
    define(request, Action::CreateCollection)
}

/// A `collMod`.
pub(super) fn coll_mod(request: &Request<'_>) -> Result<()> {
    define(request, Action::CollMod)
}

/// The definition of a view that the user may read needs what its pipeline does, or else it would let him read what he may not.
fn define(request: &Request<'_>, action: Action) -> Result<()> {
    let view = Target::Collection(request.database, request.collection_name()?);
    request.authorize(action, view)?;
    let mut sources = Vec::new();
    let mut pipelines = Vec::new();
    for field in request.body() {
        let (name, value) = field?;
        match name.as_str() {
            "viewOn" => sources.extend(value.as_str()),
            "pipeline" => pipelines.extend(value.as_array()),
            _ => {}
        }
    }
    if sources.is_empty() && pipelines.is_empty() || !request.permits(Action::Find, view)? {
        return Ok(());
    }
    // Without `viewOn` a pipeline is refused by the command.
    for source in sources {
        let source = Target::Collection(request.database, source);
        request.authorize(Action::Find, source)?;
        for stages in &pipelines {
            pipeline(request, request.body(), source, stages, 0)?;
        }
    }
    Ok(())
}

/// A `renameCollection` reads the collection and drops it, and makes another; within a database there is an action for it, unless it would let the
/// user read documents that could not be read before.
pub(super) fn rename_collection(request: &Request<'_>) -> Result<()> {
    let (from, to) = rename_collection::names(request)?;
    let source = Target::Collection(from.database(), from.collection());
    let target = Target::Collection(to.database(), to.collection());
    let drops = is_set(request.body(), "dropTarget")?;
    if from.database() == to.database() {
        let database = Target::Database(from.database());
        if request.permits(Action::RenameCollectionSameDb, database)?
            && (!drops || request.permits(Action::DropCollection, target)?)
            && (request.permits(Action::Find, source)? || !request.permits(Action::Find, target)?)
        {
            return Ok(());
        }
    }
    for action in [Action::Find, Action::DropCollection] {
        request.authorize(action, source)?;
    }
    for action in [Action::CreateCollection, Action::Insert, Action::CreateIndex] {
        request.authorize(action, target)?;
    }
    if drops { request.authorize(Action::DropCollection, target) } else { Ok(()) }
}

/// One's own operations may be seen by anybody.
pub(super) fn current_op(request: &Request<'_>) -> Result<()> {
    if is_set(request.body(), "$ownOps")? && !is_set_to(request.body(), "$ownOps", false)? {
        return Ok(());
    }
    request.authorize(Action::Inprog, Target::Cluster)
}

/// Names of the collections that the user may read are listed for users who ask for no more.
pub(super) fn list_collections(request: &Request<'_>) -> Result<()> {
    if is_set(request.body(), "nameOnly")? && is_set(request.body(), "authorizedCollections")? {
        return Ok(());
    }
    request.authorize(Action::ListCollections, Target::Database(request.database))
}

/// An `aggregate` needs what each of its stages does.
pub(super) fn aggregate(request: &Request<'_>) -> Result<()> {
    pipelines(request, request.body())
}

/// An `explain` needs what the command does that it explains.
pub(super) fn explain(request: &Request<'_>) -> Result<()> {
    let Some(command) = request.subject()?.as_document() else { return Ok(()) };
    let Some((name, collection)) = command.iter().next().transpose()? else { return Ok(()) };
    if name.as_str() == "aggregate" {
        return pipelines(request, command);
    }
    // Refused by the command itself.
    let Some(collection) = collection.as_str() else { return Ok(()) };
    let target = Target::Collection(request.database, collection);
    match name.as_str() {
        // What would be changed may be counted by those who may change it.
        "update" => update_in(request, command, target, || explained_updates(command)),
        "delete" => request.authorize(Action::Remove, target),
        "findAndModify" | "findandmodify" => find_and_modify_in(request, command, target),
        _ => request.authorize(Action::Find, target),
    }
}

/// The statements of an `update` that is explained. What is none is refused by the command.
fn explained_updates(command: &RawDocument) -> Result<Vec<&RawDocument>> {
    let mut statements = Vec::new();
    for field in command {
        let (name, value) = field?;
        if name.as_str() == "updates"
            && let Some(array) = value.as_array()
        {
            for statement in array {
                statements.extend(statement?.as_document());
            }
        }
    }
    Ok(statements)
}

/// Every pipeline of a command, which begins with `aggregate`.
fn pipelines(request: &Request<'_>, command: &RawDocument) -> Result<()> {
    let mut fields = command.iter();
    let subject = fields.next().transpose()?.map(|(_, value)| value);
    let source = match subject.and_then(|subject| subject.as_str()) {
        Some(collection) => Target::Collection(request.database, collection),
        None => Target::Database(request.database),
    };
    let mut any = false;
    for field in fields {
        let (name, value) = field?;
        if name.as_str() == "pipeline"
            && let Some(stages) = value.as_array()
        {
            any = true;
            pipeline(request, command, source, stages, 0)?;
        }
    }
    // Without a pipeline the command fails, but not before it is known who may say so.
    if any { Ok(()) } else { request.authorize(Action::Find, source) }
}

/// Nesting of pipelines in stages.
pub(super) const DEEPEST: usize = 200;

/// The next batch of a cursor needs what the command that opened it did: who may no longer do that gets no more of its result either. A cursor that
/// there is not, or that is another's, is refused here, so that nothing is counted for it.
pub(super) fn get_more(request: &Request<'_>) -> Result<()> {
    let id = get_more::cursor_id(request)?;
    let permissions = request.context.cursors.permissions(&request.session.identity, id)?;
    permissions.iter().try_for_each(|needed| request.authorize(needed.action, needed.target.target()))
}

/// What a pipeline of `command` does that reads `source`; that is the command that is explained, of an explanation.
fn pipeline(
    request: &Request<'_>,
    command: &RawDocument,
    source: Target<'_>,
    stages: &bson::RawArray,
    depth: usize,
) -> Result<()> {
    let reads_source = each_stage(request, command, source, stages, depth)?;
    if reads_source { request.authorize(Action::Find, source) } else { Ok(()) }
}

/// What the stages of a pipeline do besides reading `source`; whether they read that.
fn each_stage(
    request: &Request<'_>,
    command: &RawDocument,
    source: Target<'_>,
    stages: &bson::RawArray,
    depth: usize,
) -> Result<bool> {
    if depth > DEEPEST {
        return Err(CommandError::new(ErrorCode::FailedToParse, "pipelines are nested too deeply"));
    }
    let mut reads_source = true;
    for (at, stage) in stages.into_iter().enumerate() {
        let Some(stage) = stage?.as_document() else { continue };
        for field in stage {
            let (name, spec) = field?;
            match name.as_str() {
                "$changeStream" if at == 0 => {
                    reads_source = false;
                    let everything = match spec.as_document() {
                        Some(spec) => is_set(spec, "allChangesForCluster")?,
                        None => false,
                    };
                    let watched = if everything { Target::Collection("", "") } else { source };
                    request.authorize(Action::ChangeStream, watched)?;
                    request.authorize(Action::Find, watched)?;
                }
                "$documents" if at == 0 => reads_source = false,
                "$currentOp" if at == 0 => {
                    reads_source = false;
                    // One's own operations may be seen by anybody.
                    if spec.as_document().is_some_and(|spec| is_set(spec, "allUsers").unwrap_or(true)) {
                        request.authorize(Action::Inprog, Target::Cluster)?;
                    }
                }
                "$listLocalSessions" | "$listSessions" if at == 0 => {
                    reads_source = false;
                    request.authorize(Action::ListSessions, Target::Cluster)?;
                }
                "$collStats" if at == 0 => {
                    reads_source = false;
                    request.authorize(Action::CollStats, source)?;
                }
                "$planCacheStats" if at == 0 => {
                    reads_source = false;
                    request.authorize(Action::PlanCacheRead, source)?;
                }
                "$queryStats" if at == 0 => {
                    reads_source = false;
                    let action = match spec.as_document().map(|spec| spec.get("transformIdentifiers")) {
                        None | Some(Ok(None)) => Action::QueryStatsRead,
                        Some(_) => Action::QueryStatsReadTransformed,
                    };
                    request.authorize(action, Target::Cluster)?;
                }
                "$indexStats" if at == 0 => {
                    reads_source = false;
                    request.authorize(Action::IndexStats, source)?;
                }
                "$listSearchIndexes" if at == 0 => {
                    reads_source = false;
                    request.authorize(Action::ListSearchIndexes, source)?;
                }
                "$facet" => {
                    for branch in spec.as_document().into_iter().flatten() {
                        if let Some(stages) = branch?.1.as_array() {
                            pipeline(request, command, source, stages, depth + 1)?;
                        }
                    }
                }
                "$lookup" | "$graphLookup" | "$unionWith" => joined(request, command, spec, depth)?,
                "$out" | "$merge" => written(request, command, name.as_str(), spec, depth)?,
                _ => {}
            }
        }
    }
    Ok(reads_source)
}

/// A stage that reads another collection, of the same database.
fn joined(request: &Request<'_>, command: &RawDocument, spec: RawBsonRef<'_>, depth: usize) -> Result<()> {
    let database = request.database;
    if let Some(collection) = spec.as_str() {
        return request.authorize(Action::Find, Target::Collection(database, collection));
    }
    let Some(spec) = spec.as_document() else { return Ok(()) };
    let mut source = Target::Database(database);
    for field in spec {
        let (name, value) = field?;
        if matches!(name.as_str(), "from" | "coll")
            && let Some(collection) = value.as_str()
        {
            source = Target::Collection(database, collection);
            request.authorize(Action::Find, source)?;
        }
    }
    for field in spec {
        let (name, value) = field?;
        if name.as_str() == "pipeline"
            && let Some(stages) = value.as_array()
        {
            pipeline(request, command, source, stages, depth + 1)?;
        }
    }
    Ok(())
}

/// A stage that writes a collection, maybe of another database.
fn written(
    request: &Request<'_>,
    command: &RawDocument,
    stage: &str,
    spec: RawBsonRef<'_>,
    depth: usize,
) -> Result<()> {
    let actions: &[Action] = match stage {
        // It replaces what there is.
        "$out" => &[Action::Insert, Action::Remove],
        _ => &[Action::Insert, Action::Update],
    };
    let into = |target: RawBsonRef<'_>| -> Result<()> {
        let mut targets: Vec<(&str, &str)> = Vec::new();
        if let Some(collection) = target.as_str() {
            targets.push((request.database, collection));
        } else if let Some(target) = target.as_document() {
            let (mut databases, mut collections) = (Vec::new(), Vec::new());
            for field in target {
                let (name, value) = field?;
                match (name.as_str(), value.as_str()) {
                    ("db", Some(name)) => databases.push(name),
                    ("coll", Some(name)) => collections.push(name),
                    _ => {}
                }
            }
            if databases.is_empty() {
                databases.push(request.database);
            }
            for database in databases {
                targets.extend(collections.iter().map(|collection| (database, *collection)));
            }
        }
        for (database, collection) in targets {
            // What it will be, also if the name of the database has a dot.
            Namespace::new(database, collection)?;
            for action in actions {
                request.authorize(*action, Target::Collection(database, collection))?;
            }
            bypass(request, command, Target::Collection(database, collection))?;
        }
        Ok(())
    };
    match spec.as_document() {
        Some(spec) if stage == "$merge" => {
            for field in spec {
                let (name, value) = field?;
                if name.as_str() == "into" {
                    into(value)?;
                } else if let Some(stages) = value.as_array() {
                    // `whenMatched`: stages on a document that is there already.
                    each_stage(request, command, Target::Database(request.database), stages, depth + 1)?;
                }
            }
            Ok(())
        }
        _ => into(spec),
    }
}
