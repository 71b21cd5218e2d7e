//! `aggregate`: a pipeline, run by the core.

use bson::raw::cstr;
use bson::rawdoc;
use treedb_core::query::ErrorCode;
use treedb_core::{AggregateRequest, Namespace};

use super::Result;
use super::find::hint;
use super::list_collections::batch_size;
use super::request::Request;
use super::writes::{simple_collation, write_concern};
use crate::mongo::cursors::{Cursor, Deadline, FIRST_BATCH};
use crate::mongo::error::CommandError;

/// What a pipeline that reads no collection is called.
const NO_COLLECTION: &str = "$cmd.aggregate";

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut stages, mut batch, mut by, mut until) = (None, FIRST_BATCH, None, Deadline::NEVER);
    let (mut disk, mut variables, mut explain, mut durability) = (true, None, false, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "pipeline" => stages = Some(arg.array()?),
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            "hint" => by = Some(arg),
            "maxTimeMS" => until = Deadline::after(arg.count()?),
            "collation" => simple_collation(&arg)?,
            "let" => variables = arg.some_document()?,
            "allowDiskUse" => disk = arg.bool()?,
            "explain" => explain = arg.bool()?,
            "writeConcern" => durability = write_concern(arg.document()?)?,
            "bypassDocumentValidation" | "fromMongos" | "needsMerge" => {}
            "isMapReduceCommand" | "exchange" => arg.unsupported()?,
            _ => arg.generic()?,
        }
    }
    let stages = stages.ok_or_else(|| {
        CommandError::location(40_414, "BSON field 'aggregate.pipeline' is missing but a required field")
    })?;
    let mut pipeline = AggregateRequest::of(stages.to_owned());
    pipeline.allow_disk_use = disk;
    pipeline.variables = variables;
    pipeline.until = until.instant();
    pipeline.durability = Some(durability.unwrap_or(request.context.durability));
    let database = &request.context.database;
    let (namespace, shown) = match request.subject()?.as_str() {
        Some(_) => {
            let collection = request.collection()?;
            pipeline.hint = by.map(|arg| hint(&collection, &arg)).transpose()?.flatten();
            (request.namespace()?, request.namespace()?.to_string())
        }
        // Only a pipeline with documents of its own needs no collection.
        None => {
            let first = stages.into_iter().next().transpose()?;
            let own = first.and_then(|stage| stage.as_document()).is_some_and(|stage| {
                stage
                    .iter()
                    .next()
                    .is_some_and(|field| field.is_ok_and(|(name, _)| name.as_str() == "$documents"))
            });
            if !own {
                return Err(CommandError::new(
                    ErrorCode::InvalidNamespace,
                    "aggregate of a whole database needs a pipeline that begins with $documents: name a collection",
                ));
            }
            (Namespace::new(request.database, "aggregate")?, format!("{}.{NO_COLLECTION}", request.database))
        }
    };
    let found = database.aggregate(namespace.as_str(), &pipeline)?;
    if explain {
        let collection = database.collection(namespace.as_str())?;
        let mut reply = rawdoc! { "explainVersion": "1", "queryPlanner": {
            "namespace": namespace.as_str(),
            "winningPlan": super::explain::winning_plan(&collection, found.plan())?,
            "rejectedPlans": [],
        } };
        reply.append(cstr!("stages"), stages.to_owned());
        return Ok(reply);
    }
    let documents = Box::new(found.map(|document| document.map_err(CommandError::from)));
    request.context.cursors.first(Cursor::new(shown, documents), batch, false, until)
}
