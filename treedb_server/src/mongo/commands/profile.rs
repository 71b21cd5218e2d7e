//! `profile`: which commands of a database are kept, and `system.profile`, where they can be read.
//!
//! What is kept is in memory, the last thousand of each database, and gone when the server stops. It is read as `system.profile`, which can
//! also be dropped and created, as it is where it is a collection.

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawBsonRef, RawDocumentBuf, rawdoc};
use treedb_collections::{AggregateRequest, CappedLimits, CollectionStats, Namespace};
use treedb_query::doc::Collation;
use treedb_query::query::{DistinctValues, ErrorCode};

use super::list_collections::batch_size;
use super::request::{Request, done};
use super::{Result, coll_stats, distinct, find, own_sources};
use crate::mongo::args::{Arg, args, number};
use crate::mongo::cursors::{Cursor, Deadline, FIRST_BATCH};
use crate::mongo::error::CommandError;
use crate::operations::{EntryFilter, PROFILED, Profiler};

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

/// Bytes that an entry has at most, more or less: a command is kept by its beginning.
const ENTRY_BYTES: u64 = 4 << 10;

/// The reply to a command about `system.profile`; `None` for commands that it does not take, and for others.
pub(super) fn read(request: &Request<'_>) -> Option<Result> {
    let name = request.command.name;
    if !request.collection_name().is_ok_and(|it| it == COLLECTION) {
        return None;
    }
    match name {
        "aggregate" | "count" | "distinct" | "find" => Some(answer(request, name)),
        "collStats" => Some(coll_stats::scale_factor(request).and_then(|scale| {
            let stats = statistics(&request.context.operations.profiled(request.database));
            coll_stats::reply(&format!("{}.{COLLECTION}", request.database), Some(&stats), scale)
        })),
        "create" => Some(create(request)),
        "drop" => Some(drop_kept(request)),
        _ => None,
    }
}

/// Its sizes.
fn statistics(kept: &[RawDocumentBuf]) -> CollectionStats {
    let bytes = kept.iter().map(|entry| entry.as_bytes().len() as u64).sum();
    let max = PROFILED as u64;
    CollectionStats {
        documents: kept.len() as u64,
        data_bytes: bytes,
        storage_bytes: bytes,
        estimated: false,
        capped: Some(CappedLimits { size: max * ENTRY_BYTES, max: Some(max) }),
        indexes: Vec::new(),
    }
}

/// A `create` with another size, which is the way to change that in MongoDB. There is one size here.
fn create(request: &Request<'_>) -> Result {
    let mut capped = false;
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "capped" => capped = arg.bool()?,
            "size" | "max" => drop(arg.count()?),
            "autoIndexId" => drop(arg.bool()?),
            "writeConcern" => {}
            _ => arg.ignored_or_unknown()?,
        }
    }
    if !capped {
        return Err(CommandError::new(ErrorCode::InvalidOptions, "system.profile is a capped collection"));
    }
    if !request.context.operations.profiled(request.database).is_empty() {
        return Err(CommandError::new(
            ErrorCode::NamespaceExists,
            format!("Collection {}.{COLLECTION} already exists.", request.database),
        ));
    }
    done()
}

/// A `drop`.
fn drop_kept(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        if arg.name != "writeConcern" {
            arg.ignored_or_unknown()?;
        }
    }
    let operations = &request.context.operations;
    if operations.profiler(request.database).level > 0 {
        return Err(CommandError::new(
            ErrorCode::IllegalOperation,
            "turn off profiling before dropping system.profile collection",
        ));
    }
    if !operations.forget_profile(request.database) {
        return done();
    }
    Ok(rawdoc! { "nIndexesWas": 0, "ns": format!("{}.{COLLECTION}", request.database) })
}

fn answer(request: &Request<'_>, name: &str) -> Result {
    let profiled = request.context.operations.profiled(request.database);
    let mut kept = RawArrayBuf::new();
    profiled.iter().for_each(|entry| kept.push(&**entry));
    let mut stages = RawArrayBuf::new();
    stages.push(rawdoc! { "$documents": { "$literal": kept } });
    let (mut batch, mut single) = (FIRST_BATCH, false);
    let (mut collation, mut variables, mut path) = (None, None, None);
    match name {
        "aggregate" => {
            for arg in args("aggregate", request.body()).skip(1) {
                let arg = arg?;
                match arg.name {
                    "pipeline" => {
                        for (at, stage) in arg.array()?.into_iter().enumerate() {
                            let stage = stage?;
                            let asked =
                                stage.as_document().and_then(|stage| stage.get_document("$collStats").ok());
                            let Some(asked) = asked.filter(|_| at == 0) else {
                                stages.push(stage);
                                continue;
                            };
                            let shown = format!("{}.{COLLECTION}", request.database);
                            let stats = statistics(&profiled);
                            let stats = own_sources::collection_stats(request, &shown, &stats, asked)?;
                            stages = RawArrayBuf::new();
                            stages.push(rawdoc! { "$documents": [{ "$literal": stats }] });
                        }
                    }
                    "cursor" => batch = batch_size(arg.document()?, batch)?,
                    "allowDiskUse" => drop(arg.bool()?),
                    _ => arg.ignored_or_unknown()?,
                }
            }
        }
        "count" => {
            let counted = super::count::parse(request.args())?;
            push_find(&mut stages, &counted);
            collation = counted.collation;
            stages.push(rawdoc! { "$count": "n" });
        }
        "distinct" => {
            let (found, key) = distinct::parse(request.args())?;
            push_find(&mut stages, &found);
            (collation, path) = (found.collation, Some(key));
        }
        _ => {
            let parsed = find::parse(request.args())?;
            push_find(&mut stages, &parsed.request);
            (batch, single) = parsed.batch();
            (collation, variables) = (parsed.request.collation, parsed.request.variables);
        }
    }
    let mut values = match path {
        None => None,
        Some(path) => {
            let collation = collation.as_deref().map(Collation::parse).transpose()?;
            Some(DistinctValues::new(path, collation.unwrap_or_default()))
        }
    };
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
    if let Some(values) = &mut values {
        found.try_for_each(|document| values.add(&document?))?;
    }
    if let Some(values) = values {
        return Ok(rawdoc! { "values": values.finish() });
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
