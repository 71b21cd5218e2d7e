//! `profile`: which commands of a database are kept, and `system.profile`, where they can be read.
//!
//! What is kept is in memory, the last thousand of each database, and gone when the server stops. `find`, `count` and `aggregate` of
//! `system.profile` read it.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf, rawdoc};
use treedb_collections::{AggregateRequest, Namespace};
use treedb_query::query::ErrorCode;

use super::Result;
use super::find;
use super::list_collections::batch_size;
use super::request::Request;
use crate::mongo::args::{Arg, args, number};
use crate::mongo::cursors::{Cursor, Deadline, FIRST_BATCH};
use crate::mongo::error::CommandError;
use crate::operations::{EntryFilter, Profiler};

/// The collection where what is kept can be read.
const COLLECTION: &str = "system.profile";

pub(super) fn run(request: &Request<'_>) -> Result {
    let operations = &request.context.operations;
    let level = number(request.subject()?).ok_or_else(|| {
        CommandError::new(
            ErrorCode::TypeMismatch,
            "BSON field 'profile.profile' is the wrong type, expected types '[long, int, decimal, double]'",
        )
    })?;
    let (mut slow, mut rate, mut filter) = (None, None, None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "slowms" => slow = Some(arg.integer()?),
            "sampleRate" => rate = Some(sample_rate(&arg)?),
            "filter" => filter = Some(entry_filter(&arg)?),
            _ => arg.ignored_or_unknown()?,
        }
    }
    let was = operations.profiler(request.database);
    let mut reply = rawdoc! {
        "was": was.level,
        "slowms": operations.slow_millis(),
        "sampleRate": operations.sample_rate(),
    };
    if let Some(filter) = &was.filter {
        reply.append(cstr!("filter"), filter.document().to_owned());
    }
    if was.filter.is_some() || filter.is_some() {
        reply.append(
            cstr!("note"),
            "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines.",
        );
    }
    // Other levels, usually -1, leave it as it is.
    let level = Some(level as i32).filter(|level| (0..=2).contains(level));
    if level.is_some() || filter.is_some() {
        let profiler = Profiler { level: level.unwrap_or(was.level), filter: filter.unwrap_or(was.filter) };
        operations.set_profiler(request.database, profiler);
    }
    if let Some(slow) = slow {
        operations.set_slow_millis(slow);
    }
    if let Some(rate) = rate {
        operations.set_sample_rate(rate);
    }
    Ok(reply)
}

/// The `sampleRate` of the command.
fn sample_rate(arg: &Arg<'_>) -> Result<f64> {
    match number(arg.value()) {
        Some(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        Some(_) => {
            Err(CommandError::new(ErrorCode::BadValue, "'sampleRate' must be between 0.0 and 1.0 inclusive"))
        }
        None => Err(CommandError::new(
            ErrorCode::TypeMismatch,
            "BSON field 'profile.sampleRate' is the wrong type, expected types '[long, int, decimal, double]'",
        )),
    }
}

/// The `filter` of the command: `None` for `"unset"`, which takes away the one there is.
fn entry_filter(arg: &Arg<'_>) -> Result<Option<Arc<EntryFilter>>> {
    match arg.value() {
        RawBsonRef::Document(filter) => Ok(Some(Arc::new(EntryFilter::parse(filter.to_owned())?))),
        RawBsonRef::String("unset") => Ok(None),
        _ => Err(CommandError::new(ErrorCode::BadValue, "Expected an object, or the string 'unset'.")),
    }
}

/// Who may change it; who may read `system.profile` may ask.
pub(super) fn needs(request: &Request<'_>) -> super::Result<()> {
    use crate::access::action::Action;
    use crate::access::resource::Target;
    let mut asks = number(request.subject()?) == Some(-1.0);
    for field in ["slowms", "sampleRate", "filter"] {
        asks &= request.body().get(field)?.is_none();
    }
    let profile = Target::Collection(request.database, COLLECTION);
    if asks && request.permits(Action::Find, profile)? {
        return Ok(());
    }
    request.authorize(Action::EnableProfiler, Target::Database(request.database))
}

/// The reply to a `find`, `count` or `aggregate` of `system.profile`; `None` for other commands.
pub(super) fn read(request: &Request<'_>) -> Option<Result> {
    let name = request.command.name;
    if !matches!(name, "find" | "count" | "aggregate")
        || !request.collection_name().is_ok_and(|it| it == COLLECTION)
    {
        return None;
    }
    Some(answer(request, name))
}

fn answer(request: &Request<'_>, name: &str) -> Result {
    let mut kept = RawArrayBuf::new();
    request.context.operations.profiled(request.database).into_iter().for_each(|entry| kept.push(entry));
    let mut stages = RawArrayBuf::new();
    stages.push(rawdoc! { "$documents": { "$literal": kept } });
    let (mut batch, mut single) = (FIRST_BATCH, false);
    let (mut collation, mut variables) = (None, None);
    match name {
        "aggregate" => {
            for arg in args("aggregate", request.body()).skip(1) {
                let arg = arg?;
                match arg.name {
                    "pipeline" => arg.array()?.into_iter().try_for_each(|stage| {
                        stages.push(stage?);
                        Ok::<_, CommandError>(())
                    })?,
                    "cursor" => batch = batch_size(arg.document()?, batch)?,
                    "allowDiskUse" => drop(arg.bool()?),
                    _ => arg.ignored_or_unknown()?,
                }
            }
        }
        "count" => {
            let counted = super::count::parse(request.body())?;
            push_find(&mut stages, &counted);
            collation = counted.collation;
            stages.push(rawdoc! { "$count": "n" });
        }
        _ => {
            let parsed = find::parse("find", request.body())?;
            push_find(&mut stages, &parsed.request);
            (batch, single) = parsed.batch();
            (collation, variables) = (parsed.request.collation, parsed.request.variables);
        }
    }
    let mut pipeline = AggregateRequest::of(stages);
    (pipeline.collation, pipeline.variables) = (collation, variables);
    // No collection can have the name of `system.profile`, so that a getMore has to be told another.
    let shown = format!("{}.$cmd.profile", request.database);
    let place = Namespace::new(request.database, "profile")?;
    let mut found = request.context.database.aggregate(place.as_str(), &pipeline)?;
    if name == "count" {
        let n =
            found.next().transpose()?.and_then(|counted| counted.get("n").ok().flatten().and_then(number));
        return Ok(rawdoc! { "n": n.unwrap_or(0.0) as i32 });
    }
    let documents = Box::new(found.map(|document| document.map_err(CommandError::from)));
    let cursor = Cursor::new(shown, documents);
    request.context.cursors.first(request, cursor, batch, single, Deadline::NEVER)
}

/// Adds the stages that a find stands for.
fn push_find(stages: &mut RawArrayBuf, find: &treedb_collections::FindRequest) {
    let mut push = |name: &'static bson::raw::CStr, value: Option<RawDocumentBuf>| {
        if let Some(value) = value.filter(|value| value.iter().next().is_some()) {
            let mut stage = RawDocumentBuf::new();
            stage.append(name, value);
            stages.push(stage);
        }
    };
    push(bson::raw::cstr!("$match"), find.filter.clone());
    // The newest first is what everybody asks for; entries have no other order than that of `ts`.
    let natural = find.sort.as_ref().and_then(|sort| sort.get("$natural").ok().flatten()).and_then(number);
    match natural {
        Some(direction) => push(bson::raw::cstr!("$sort"), Some(rawdoc! { "ts": direction as i32 })),
        None => push(bson::raw::cstr!("$sort"), find.sort.clone()),
    }
    if find.skip > 0 {
        stages.push(rawdoc! { "$skip": i64::try_from(find.skip).unwrap_or(i64::MAX) });
    }
    if find.limit > 0 {
        stages.push(rawdoc! { "$limit": i64::try_from(find.limit).unwrap_or(i64::MAX) });
    }
    if let Some(projection) = find.projection.clone().filter(|projection| projection.iter().next().is_some())
    {
        stages.push(rawdoc! { "$project": projection });
    }
}
