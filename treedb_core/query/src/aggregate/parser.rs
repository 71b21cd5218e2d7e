//! Parsing a pipeline. [`STAGES`] is the one place that lists the stages.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::Names;

use super::operand::raw;
use super::pipeline::Pipeline;
use super::stage::{PlannedStage, Role, Stage, StageParser};
use super::stages::{
    BucketAuto, Densify, Facet, GeoNear, GraphLookup, Group, Limit, Lookup, Match, OwnSource, Project,
    Redact, Sample, Skip, SortStage, UnionWith, Unwind, VectorSearch, Window, Write, bucket, count, fill,
    sort_by_count,
};

/// Stages that a pipeline may have, not counting those of nested pipelines: MongoDB's limit.
pub const MAX_STAGES: usize = 1000;

/// How a stage is parsed.
enum Parse {
    /// As a stage of its own.
    Stage(fn(&Element<'_>, &StageParser) -> Result<Arc<dyn Stage>>),
    /// As other stages, which do the same.
    Rewrite(fn(&Element<'_>, &StageParser) -> Result<Vec<RawDocumentBuf>>),
}

const fn stage<S: Stage + 'static>() -> Parse {
    Parse::Stage(|element, parser| Ok(Arc::new(S::parse(element, parser)?)))
}

/// Every stage by its name.
const STAGES: &[(&str, Parse)] = &[
    ("$addFields", stage::<Project>()),
    ("$bucket", Parse::Rewrite(bucket)),
    ("$bucketAuto", stage::<BucketAuto>()),
    ("$collStats", stage::<OwnSource>()),
    ("$count", Parse::Rewrite(count)),
    ("$densify", stage::<Densify>()),
    ("$documents", stage::<OwnSource>()),
    ("$facet", stage::<Facet>()),
    ("$fill", Parse::Rewrite(fill)),
    ("$geoNear", stage::<GeoNear>()),
    ("$graphLookup", stage::<GraphLookup>()),
    ("$group", stage::<Group>()),
    ("$indexStats", stage::<OwnSource>()),
    ("$limit", stage::<Limit>()),
    ("$lookup", stage::<Lookup>()),
    ("$listSearchIndexes", stage::<OwnSource>()),
    ("$match", stage::<Match>()),
    ("$merge", stage::<Write>()),
    ("$out", stage::<Write>()),
    ("$project", stage::<Project>()),
    ("$redact", stage::<Redact>()),
    ("$replaceRoot", stage::<Project>()),
    ("$replaceWith", stage::<Project>()),
    ("$sample", stage::<Sample>()),
    ("$set", stage::<Project>()),
    ("$setWindowFields", stage::<Window>()),
    ("$skip", stage::<Skip>()),
    ("$sort", stage::<SortStage>()),
    ("$sortByCount", Parse::Rewrite(sort_by_count)),
    ("$unionWith", stage::<UnionWith>()),
    ("$unset", stage::<Project>()),
    ("$unwind", stage::<Unwind>()),
    ("$vectorSearch", stage::<VectorSearch>()),
];

/// Stages that evaluate expressions after they have taken further documents: the current score is then another one's.
const WITHOUT_SCORES: &[&str] = &["$bucketAuto", "$fill", "$merge", "$setWindowFields"];

/// Stages of MongoDB that do not exist here.
const UNSUPPORTED: &[&str] = &[
    "$currentOp",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$rankFusion",
    "$search",
    "$searchMeta",
    "$shardedDataDistribution",
];

/// Those among them that are about a server, which replaces them by its documents where they come first.
const OF_A_SERVER: &[&str] =
    &["$currentOp", "$listLocalSessions", "$listSessions", "$planCacheStats", "$queryStats"];

impl Pipeline {
    /// Parses an array of stages; `names` are the variables that its expressions may use.
    ///
    /// # Errors
    /// MongoDB's code for what is wrong, and a message that names the stage.
    pub fn parse(stages: Value<'_>, names: &Names) -> Result<Pipeline> {
        Pipeline::within(stages, &StageParser::new(names, parse_stages))
    }
}

/// Parses an array of stages.
fn parse_stages(stages: Value<'_>, parser: &StageParser) -> Result<Vec<PlannedStage>> {
    let Value::Array(stages) = stages else {
        return Err(QueryError::new(ErrorCode::TypeMismatch, "A pipeline must be an array of stages"));
    };
    let mut parsed: Vec<PlannedStage> = Vec::new();
    let mut has_scores = false;
    // The parser of the next stage, if it is not `parser`.
    let mut own = parser.names.has_scores().then(|| parser.with_scores(false));
    for (at, stage) in stages.elements().enumerate() {
        let Value::Document(stage) = stage.value() else {
            return Err(QueryError::new(
                ErrorCode::TypeMismatch,
                "Each element of the 'pipeline' array must be an object",
            ));
        };
        if at >= MAX_STAGES {
            return Err(QueryError::new(
                ErrorCode::Location7749501,
                format!("Pipeline length must be no longer than {MAX_STAGES} stages."),
            ));
        }
        if parsed.last().is_some_and(|last| matches!(last.role(), Role::Write)) {
            return Err(QueryError::new(
                ErrorCode::Location40601,
                "$out and $merge can only be the final stage in the pipeline",
            ));
        }
        let name = stage.elements().next().map(|element| element.name_str().to_owned()).unwrap_or_default();
        let only_first = || {
            QueryError::new(
                ErrorCode::Location40602,
                format!("{name} is only valid as the first stage in a pipeline"),
            )
        };
        // As the first stage they are not among these.
        if at > 0 && (name == "$changeStream" || OF_A_SERVER.contains(&name.as_str())) {
            return Err(only_first());
        }
        let without_scores =
            (has_scores && WITHOUT_SCORES.contains(&name.as_str())).then(|| parser.with_scores(false));
        let found = parse_stage(stage, without_scores.as_ref().or(own.as_ref()).unwrap_or(parser))?;
        if at > 0 && found.first().is_some_and(|first| matches!(first.role(), Role::Source(_))) {
            return Err(only_first());
        }
        let after = found.iter().fold(has_scores, |before, stage| stage.stage.scores().after(before));
        if after != has_scores {
            (has_scores, own) = (after, Some(parser.with_scores(after)));
        }
        parsed.extend(found);
    }
    Ok(parsed)
}

/// Parses `{ $name: operand }`.
fn parse_stage(stage: Doc<'_>, parser: &StageParser) -> Result<Vec<PlannedStage>> {
    let mut elements = stage.elements();
    let (Some(element), None) = (elements.next(), elements.next()) else {
        return Err(QueryError::new(
            ErrorCode::Location40323,
            "A pipeline stage specification object must contain exactly one field.",
        ));
    };
    let name = element.name_str();
    match STAGES.iter().find(|(known, _)| *known == name) {
        Some((_, Parse::Stage(parse))) => Ok(vec![PlannedStage::new(parse(&element, parser)?, raw(stage)?)]),
        Some((_, Parse::Rewrite(rewrite))) => {
            let mut parsed = Vec::new();
            for stage in rewrite(&element, parser)? {
                parsed.extend(parse_stage(Doc::from(&stage), parser)?);
            }
            Ok(parsed)
        }
        None => Err(unknown_stage(name)),
    }
}

/// Refuses a stage that there is not, by its name.
///
/// # Errors
/// `NotImplemented` for those of MongoDB, `Location40324` for others.
pub fn check_stage_exists(name: &str) -> Result<()> {
    match STAGES.iter().any(|(known, _)| *known == name) {
        true => Ok(()),
        false => Err(unknown_stage(name)),
    }
}

fn unknown_stage(name: &str) -> QueryError {
    match name {
        "$changeStream" => QueryError::new(
            ErrorCode::Location40573,
            "the stage $changeStream is only supported as the first of a pipeline that watches a collection or database \
             whose changes are recorded",
        ),
        name if UNSUPPORTED.contains(&name) => {
            QueryError::new(ErrorCode::NotImplemented, format!("the stage {name} is not supported"))
        }
        name => QueryError::unknown_stage(name),
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::query::Update;

    #[test]
    fn updates_refuse_stages_that_only_pipelines_have_and_do_not_know_others() {
        let code = |name: &str| {
            let mut stage = RawDocumentBuf::new();
            stage.append(bson::raw::CString::try_from(name).unwrap(), rawdoc! {});
            Update::read(&vec![stage].into(), &[]).err().map(|error| error.code)
        };
        for name in STAGES.iter().map(|(name, _)| *name).chain(UNSUPPORTED.iter().copied()) {
            let own =
                ["$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"].contains(&name);
            assert!(own || code(name) == Some(ErrorCode::InvalidOptions), "{name}");
        }
        assert_eq!(code("$nonsense"), Some(ErrorCode::Location40324));
    }
}
