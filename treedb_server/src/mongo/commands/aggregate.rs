//! `aggregate`: a pipeline, run by the core.

use bson::RawDocument;
use treedb_collections::{AggregateRequest, Collection, Namespace, WatchRequest, Watched};
use treedb_query::aggregate::check_stage_exists;
use treedb_query::query::ErrorCode;

use super::Result;
use super::find::hint;
use super::list_collections::batch_size;
use super::request::Request;
use super::writes::write_concern;
use crate::mongo::args::{Arg, args};
use crate::mongo::cursors::{Cursor, Deadline, FIRST_BATCH};
use crate::mongo::error::CommandError;
use crate::mongo::read_concern::ReadAt;

/// The namespace of a pipeline that reads no collection.
const NO_COLLECTION: &str = "$cmd.aggregate";

/// A command's arguments.
struct Arguments {
    pipeline: AggregateRequest,
    batch: usize,
    until: Deadline,
    explain: bool,
}

/// Reads the arguments.
fn read<'a>(
    args: impl Iterator<Item = std::result::Result<Arg<'a>, CommandError>>,
) -> std::result::Result<Arguments, CommandError> {
    let (mut stages, mut batch, mut index_hint, mut until) = (None, FIRST_BATCH, None, Deadline::NEVER);
    let (mut disk, mut variables, mut explain, mut durability) = (true, None, false, None);
    let (mut collation, mut bypass) = (None, false);
    for arg in args {
        let arg = arg?;
        match arg.name {
            "pipeline" => stages = Some(arg.array()?),
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            "hint" => index_hint = hint(&arg)?,
            "maxTimeMS" => until = Deadline::after(arg.count()?),
            "collation" => collation = arg.some_document()?,
            "let" => variables = arg.some_document()?,
            "allowDiskUse" => disk = arg.bool()?,
            "explain" => explain = arg.bool()?,
            "writeConcern" => durability = write_concern(arg.document()?)?,
            "bypassDocumentValidation" => bypass = arg.bool()?,
            "exchange" | "fromMongos" | "isMapReduceCommand" | "needsMerge" => {
                arg.unsupported()?;
            }
            _ => arg.ignored_or_unknown()?,
        }
    }
    let stages = stages.ok_or_else(|| CommandError::missing("aggregate.pipeline"))?;
    let mut pipeline = AggregateRequest::of(stages.to_owned());
    pipeline.allow_disk_use = disk;
    pipeline.variables = variables;
    pipeline.collation = collation;
    pipeline.until = until.instant();
    pipeline.durability = durability;
    pipeline.hint = index_hint;
    pipeline.validates = !bypass;
    Ok(Arguments { pipeline, batch, until, explain })
}

/// Explains the pipeline of `command`, an `aggregate` of `collection`, and also executes it if `execute` is set.
pub(super) fn explain(collection: &Collection, command: &RawDocument, execute: bool) -> Result {
    let parsed = read(args("aggregate", command).skip(1))?;
    explained(collection, &parsed.pipeline, command, execute)
}

fn explained(
    collection: &Collection,
    pipeline: &AggregateRequest,
    command: &RawDocument,
    execute: bool,
) -> Result {
    let mut reply = collection.explain_pipeline(pipeline, execute)?;
    super::explain::append_command(&mut reply, command);
    Ok(reply)
}

pub(super) fn run(request: &Request<'_>) -> Result {
    let Arguments { mut pipeline, batch, until, explain } = read(request.args())?;
    pipeline.as_of = request.at.map(|at| at.moment);
    if let Some(parsed) = WatchRequest::read(&pipeline.pipeline)? {
        if request.at.is_some() {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                "A change stream cannot be opened with the read concern snapshot: startAtOperationTime is the time that it begins at",
            ));
        }
        return watch(request, parsed, batch).map_err(CommandError::of_change_stream);
    }
    refuse_linearizable_writes(request, &pipeline)?;
    let replaced = super::own_sources::replaced(request, &pipeline.pipeline)?;
    let is_own = replaced.is_some();
    if let Some(replaced) = replaced {
        pipeline.pipeline = replaced;
    }
    pipeline.durability = Some(pipeline.durability.unwrap_or(request.context.durability));
    let database = &request.context.database;
    let (namespace, shown) = match request.subject()?.as_str() {
        Some(_) if !is_own => (request.namespace()?, request.namespace()?.to_string()),
        // Only a pipeline with documents of its own needs no collection.
        _ => {
            let first = pipeline.pipeline.into_iter().next().transpose()?;
            let first = first.and_then(|stage| stage.as_document()).and_then(|stage| stage.iter().next());
            let name = first.transpose()?.map_or("", |(name, _)| name.as_str());
            if !name.is_empty() {
                check_stage_exists(name)?;
            }
            if name != "$documents" {
                return Err(CommandError::new(
                    ErrorCode::InvalidNamespace,
                    "aggregate of a whole database needs a pipeline that begins with $documents, $currentOp or $listLocalSessions: name a collection",
                ));
            }
            (Namespace::new(request.database, "aggregate")?, format!("{}.{NO_COLLECTION}", request.database))
        }
    };
    if explain {
        return explained(&database.collection(namespace.as_str())?, &pipeline, request.body(), false);
    }
    if let Some(mut open) = request.transaction() {
        let found = open.txn.collection(namespace.as_str())?.aggregate(&pipeline)?;
        let documents = Box::new(found.map(|document| document.map_err(CommandError::from)));
        let cursor = Cursor::new(shown, documents).in_transaction(&open);
        return request.context.cursors.first_in(Some(&mut *open), request, cursor, batch, false, until);
    }
    let found = database.aggregate(namespace.as_str(), &pipeline)?;
    let documents = Box::new(found.map(|document| document.map_err(CommandError::from)));
    let cursor = Cursor::new(shown, documents);
    let reply = request.context.cursors.first(request, cursor, batch, false, until)?;
    ReadAt::append_to_reply(request.at, reply)
}

/// What a pipeline writes is not read at one moment with what it reads.
fn refuse_linearizable_writes(request: &Request<'_>, pipeline: &AggregateRequest) -> Result<()> {
    let concern = request.body().get("readConcern")?.and_then(|concern| concern.as_document());
    let level = concern.map(|concern| concern.get("level")).transpose()?.flatten();
    if level.and_then(|level| level.as_str()) != Some("linearizable") {
        return Ok(());
    }
    for stage in &pipeline.pipeline {
        let first = stage?.as_document().and_then(|stage| stage.iter().next()).transpose()?;
        if let Some((name, _)) = first
            && matches!(name.as_str(), "$out" | "$merge")
        {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                format!("{} cannot be used with a 'linearizable' read concern level", name.as_str()),
            ));
        }
    }
    Ok(())
}

/// Opens a change stream.
fn watch(request: &Request<'_>, watch: WatchRequest, batch: usize) -> Result {
    let (watched, shown) = match request.subject()?.as_str() {
        Some(_) if watch.all_changes_for_cluster => {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                "A $changeStream with 'allChangesForCluster' may not be opened on a collection: aggregate the database admin",
            ));
        }
        _ if matches!(request.database, "admin" | "config" | "local") && !watch.all_changes_for_cluster => {
            return Err(CommandError::new(
                ErrorCode::InvalidNamespace,
                format!("$changeStream may not be opened on the internal {} database", request.database),
            ));
        }
        Some(_) => {
            let namespace = request.namespace()?;
            (Watched::Collection(namespace.clone()), namespace.to_string())
        }
        None if watch.all_changes_for_cluster && request.database != "admin" => {
            return Err(CommandError::new(
                ErrorCode::InvalidOptions,
                format!(
                    "A $changeStream with 'allChangesForCluster' may only be opened on the 'admin' database, and not on \
                     '{}'",
                    request.database
                ),
            ));
        }
        None => {
            let shown = format!("{}.{NO_COLLECTION}", request.database);
            let watched = match watch.all_changes_for_cluster {
                true => Watched::Everything,
                false => Watched::Database(request.database.to_owned()),
            };
            (watched, shown)
        }
    };
    let stream = request.context.database.watch(watched, watch)?;
    request.context.cursors.first(request, Cursor::changes(shown, stream), batch, false, Deadline::NEVER)
}
