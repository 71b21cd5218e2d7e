//! `aggregate`: the pipelines that drivers send themselves, and the stages that are a find in other words.
//!
//! A pipeline that begins with `$match`, `$sort`, `$skip`, `$limit`, `$project` in this order is one find, with its
//! planner and indexes. What comes behind it works on the find's documents one by one: `$match`, `$skip`, `$limit`,
//! `$project`, `$count`, and `$group` in the one form that `countDocuments` sends. Every other stage is refused by name.

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use treedb_core::query::{ErrorCode, Filter, Projection};
use treedb_core::{Collection, FindRequest};

use super::Result;
use super::find::hint;
use super::list_collections::batch_size;
use super::request::Request;
use super::writes::simple_collation;
use crate::mongo::args::{number, type_name};
use crate::mongo::cursors::{Cursor, Deadline, Documents, FIRST_BATCH};
use crate::mongo::error::CommandError;

/// Stages that MongoDB has and this server does not (yet).
const NOT_BUILT: &[&str] = &[
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$collStats",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$merge",
    "$out",
    "$planCacheStats",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$search",
    "$searchMeta",
    "$set",
    "$setWindowFields",
    "$sortByCount",
    "$unionWith",
    "$unset",
    "$unwind",
    "$vectorSearch",
];

pub(super) fn run(request: &Request<'_>) -> Result {
    let (mut pipeline, mut batch, mut by, mut until) = (None, FIRST_BATCH, None, Deadline::NEVER);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            "pipeline" => pipeline = Some(arg.array()?),
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            "hint" => by = Some(arg),
            "maxTimeMS" => until = Deadline::after(arg.count()?),
            "collation" => simple_collation(&arg)?,
            "allowDiskUse" | "bypassDocumentValidation" | "fromMongos" | "needsMerge" => {}
            "explain" | "let" | "isMapReduceCommand" | "exchange" => arg.unsupported()?,
            _ => arg.generic()?,
        }
    }
    let pipeline = pipeline.ok_or_else(|| {
        CommandError::location(40_414, "BSON field 'aggregate.pipeline' is missing but a required field")
    })?;
    let stages = pipeline.into_iter().map(|stage| Stage::parse(stage?)).collect::<Result<Vec<_>>>()?;
    if request.subject()?.as_str().is_none() {
        return Err(CommandError::new(
            ErrorCode::InvalidNamespace,
            "aggregate of a whole database is not supported: name a collection",
        ));
    }
    let collection = request.collection()?;
    let by = by.map(|arg| hint(&collection, &arg)).transpose()?.flatten();
    let namespace = collection.namespace().to_string();
    let documents = open(&collection, stages, by)?;
    request.context.cursors.first(Cursor::new(namespace, documents), batch, false, until)
}

/// A stage that is understood.
#[derive(Debug, PartialEq)]
enum Stage {
    Match(RawDocumentBuf),
    Sort(RawDocumentBuf),
    Skip(u64),
    Limit(u64),
    Project(RawDocumentBuf),
    /// One document with the number of documents in `field`; with `id`, if it is a `$group`. None for no documents.
    Count {
        id: Option<RawBson>,
        field: String,
    },
}

impl Stage {
    fn parse(stage: RawBsonRef<'_>) -> Result<Self> {
        let stage = stage.as_document().ok_or_else(|| {
            CommandError::new(
                ErrorCode::TypeMismatch,
                "Each element of the 'pipeline' array must be an object",
            )
        })?;
        let mut elements = stage.iter();
        let (name, value) = match (elements.next().transpose()?, elements.next()) {
            (Some((name, value)), None) => (name.as_str(), value),
            _ => {
                return Err(CommandError::location(
                    40_323,
                    "A pipeline stage specification object must contain exactly one field.",
                ));
            }
        };
        let document = |number: i32| {
            value.as_document().map(RawDocument::to_owned).ok_or_else(|| {
                CommandError::location(number, format!("the {name} stage specification must be an object"))
            })
        };
        match name {
            "$match" => Ok(Stage::Match(document(15_959)?)),
            "$sort" => Ok(Stage::Sort(document(15_973)?)),
            "$project" => {
                let fields = document(15_969)?;
                plain_projection(&fields)?;
                Ok(Stage::Project(fields))
            }
            "$skip" => Ok(Stage::Skip(amount(name, value, 15_956)?)),
            "$limit" => match amount(name, value, 15_957)? {
                0 => Err(CommandError::location(15_958, "the limit must be positive")),
                limit => Ok(Stage::Limit(limit)),
            },
            "$count" => match value.as_str() {
                Some(field)
                    if !field.is_empty() && !field.starts_with('$') && !field.contains(['.', '\0']) =>
                {
                    Ok(Stage::Count { id: None, field: field.to_owned() })
                }
                _ => Err(CommandError::location(
                    40_156,
                    "the count field must be a non-empty string without '$' at its start and without '.'",
                )),
            },
            "$group" => count_group(value),
            "$changeStream" => Err(CommandError::location(
                40_573,
                "The $changeStream stage is only supported on replica sets",
            )),
            name if NOT_BUILT.contains(&name) => {
                Err(CommandError::not_implemented(format!("the stage {name} is not supported")))
            }
            name => {
                Err(CommandError::location(40_324, format!("Unrecognized pipeline stage name: '{name}'")))
            }
        }
    }
}

fn amount(name: &str, value: RawBsonRef<'_>, code: i32) -> Result<u64> {
    match number(value) {
        Some(n) if n >= 0.0 && n.fract() == 0.0 && n < 9e18 => Ok(n as u64),
        _ => Err(CommandError::location(
            code,
            format!(
                "invalid argument to {name} stage: expected a whole number that is not negative, found a {}",
                type_name(value)
            ),
        )),
    }
}

/// `NotImplemented` for a projection that computes: only fields in and out are what a find does as well.
fn plain_projection(fields: &RawDocument) -> Result<()> {
    for element in fields {
        let (name, value) = element?;
        match value {
            RawBsonRef::Document(inner) => plain_projection(inner)?,
            RawBsonRef::Boolean(_) => {}
            value if number(value).is_some() => {}
            _ => {
                return Err(CommandError::not_implemented(format!(
                    "$project: '{name}' is computed by an expression, which is not supported"
                )));
            }
        }
    }
    Ok(())
}

/// `{_id: constant, field: {$sum: 1}}`.
fn count_group(value: RawBsonRef<'_>) -> Result<Stage> {
    let refuse = || {
        CommandError::not_implemented(
            "the stage $group is supported only in the form that counts documents: {_id: constant, n: {$sum: 1}}",
        )
    };
    let fields: Vec<_> =
        value.as_document().ok_or_else(refuse)?.iter().collect::<std::result::Result<_, _>>()?;
    let [(id_name, id), (field, accumulator)] = fields.as_slice() else { return Err(refuse()) };
    let constant = match id {
        RawBsonRef::Document(_) | RawBsonRef::Array(_) => false,
        RawBsonRef::String(text) => !text.starts_with('$'),
        _ => true,
    };
    let accumulator: Vec<_> =
        accumulator.as_document().ok_or_else(refuse)?.iter().collect::<std::result::Result<_, _>>()?;
    match accumulator.as_slice() {
        [(name, one)]
            if name.as_str() == "$sum"
                && number(*one) == Some(1.0)
                && id_name.as_str() == "_id"
                && constant =>
        {
            Ok(Stage::Count { id: Some((*id).into()), field: field.as_str().to_owned() })
        }
        _ => Err(refuse()),
    }
}

/// The place of a stage in a find: filter, order, skip, limit, fields.
fn rank(stage: &Stage) -> u8 {
    match stage {
        Stage::Match(_) => 0,
        Stage::Sort(_) => 1,
        Stage::Skip(_) => 2,
        Stage::Limit(_) => 3,
        Stage::Project(_) => 4,
        Stage::Count { .. } => u8::MAX,
    }
}

/// Takes the stages that a find can do off the front of `stages`.
fn absorb(stages: Vec<Stage>, hint: Option<String>) -> (FindRequest, std::vec::IntoIter<Stage>) {
    let mut find = FindRequest { hint, ..FindRequest::default() };
    let mut filters = Vec::new();
    let mut reached = 0;
    let mut used = 0;
    for stage in &stages {
        // Several filters are one; everything else can be there once, and only in its order.
        let fits = rank(stage) > reached || (rank(stage) == 0 && reached == 0);
        if !fits {
            break;
        }
        match stage {
            Stage::Match(filter) => filters.push(filter.clone()),
            Stage::Sort(sort) => find.sort = Some(sort.clone()),
            Stage::Skip(skip) => find.skip = *skip,
            Stage::Limit(limit) => find.limit = *limit,
            Stage::Project(fields) => find.projection = Some(fields.clone()),
            Stage::Count { .. } => break,
        }
        reached = rank(stage);
        used += 1;
    }
    find.filter = match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => {
            let mut all = RawArrayBuf::new();
            for filter in filters {
                all.push(filter);
            }
            Some(rawdoc! { "$and": all })
        }
    };
    let mut rest = stages.into_iter();
    rest.by_ref().take(used).for_each(drop);
    (find, rest)
}

fn open(collection: &Collection, stages: Vec<Stage>, hint: Option<String>) -> Result<Documents> {
    let (find, mut rest) = absorb(stages, hint);
    if let [Stage::Count { .. }] = rest.as_slice()
        && find.sort.is_none()
        && find.projection.is_none()
        && let Some(Stage::Count { id, field }) = rest.next()
    {
        let n = collection.count(find)?;
        return Ok(Box::new(counted(n, id, &field)?.map(Ok).into_iter()));
    }
    let mut documents: Documents =
        Box::new(collection.find(find)?.map(|document| document.map_err(CommandError::from)));
    for stage in rest {
        documents = match stage {
            Stage::Match(filter) => {
                let filter = Filter::parse(&filter)?;
                Box::new(documents.filter_map(move |found| match found {
                    Ok(found) => match filter.matches(&found) {
                        Ok(matches) => matches.then_some(Ok(found)),
                        Err(error) => Some(Err(error.into())),
                    },
                    Err(error) => Some(Err(error)),
                }))
            }
            Stage::Skip(n) => Box::new(Skip { documents, left: n }),
            Stage::Limit(n) => Box::new(documents.take(usize::try_from(n).unwrap_or(usize::MAX))),
            Stage::Project(fields) => match Projection::parse(&fields)? {
                Some(projection) => Box::new(documents.map(move |found| Ok(projection.apply(&found?)?))),
                None => documents,
            },
            Stage::Count { id, field } => {
                let mut n = 0;
                for document in documents {
                    document?;
                    n += 1;
                }
                Box::new(counted(n, id, &field)?.map(Ok).into_iter())
            }
            Stage::Sort(_) => {
                return Err(CommandError::not_implemented(
                    "the stage $sort is supported only before $skip, $limit and $project",
                ));
            }
        };
    }
    Ok(documents)
}

/// The one document of a count, or none if there was nothing to count.
fn counted(n: u64, id: Option<RawBson>, field: &str) -> Result<Option<RawDocumentBuf>> {
    if n == 0 {
        return Ok(None);
    }
    let mut document = RawDocumentBuf::new();
    if let Some(id) = id {
        document.append(bson::raw::cstr!("_id"), id);
    }
    let field = CString::try_from(field)?;
    match i32::try_from(n) {
        Ok(n) => document.append(field, n),
        Err(_) => document.append(field, i64::try_from(n).unwrap_or(i64::MAX)),
    }
    Ok(Some(document))
}

/// Leaves out documents, but no errors.
struct Skip {
    documents: Documents,
    left: u64,
}

impl Iterator for Skip {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            match self.documents.next()? {
                Ok(_) => self.left -= 1,
                Err(error) => return Some(Err(error)),
            }
        }
        self.documents.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(document: RawDocumentBuf) -> Result<Stage> {
        Stage::parse(RawBsonRef::Document(&document))
    }

    #[test]
    fn the_front_of_a_pipeline_becomes_one_find() {
        let (a, b) = (rawdoc! { "a": 1 }, rawdoc! { "b": 1 });
        let stages = vec![
            Stage::Match(a.clone()),
            Stage::Match(b.clone()),
            Stage::Sort(a.clone()),
            Stage::Limit(5),
            Stage::Skip(2),
            Stage::Limit(1),
        ];
        let (find, rest) = absorb(stages, None);
        assert_eq!(find.filter, Some(rawdoc! { "$and": [a.clone(), b] }));
        assert_eq!((find.sort, find.skip, find.limit), (Some(a), 0, 5));
        assert_eq!(rest.collect::<Vec<_>>(), [Stage::Skip(2), Stage::Limit(1)]);
    }

    #[test]
    fn the_pipeline_of_count_documents_is_a_count() {
        let group = rawdoc! { "$group": { "_id": 1, "n": { "$sum": 1 } } };
        assert_eq!(stage(group).unwrap(), Stage::Count { id: Some(RawBson::Int32(1)), field: "n".into() });
        for other in [
            rawdoc! { "$group": { "_id": "$a", "n": { "$sum": 1 } } },
            rawdoc! { "$group": { "_id": 1, "n": { "$sum": "$x" } } },
            rawdoc! { "$group": { "_id": 1, "n": { "$avg": 1 } } },
            rawdoc! { "$group": { "_id": 1 } },
        ] {
            let error = stage(other).unwrap_err();
            assert!(error.code == 238 && error.message.contains("$group"), "{error:?}");
        }
    }

    #[test]
    fn stages_that_are_not_understood_are_refused_by_name() {
        for (document, code) in [
            (rawdoc! { "$lookup": {} }, 238),
            (rawdoc! { "$nonsense": {} }, 40_324),
            (rawdoc! { "$changeStream": {} }, 40_573),
            (rawdoc! {}, 40_323),
            (rawdoc! { "$match": {}, "$limit": 1 }, 40_323),
            (rawdoc! { "$limit": 0 }, 15_958),
            (rawdoc! { "$skip": -1 }, 15_956),
            (rawdoc! { "$match": 1 }, 15_959),
            (rawdoc! { "$project": { "a": "$b" } }, 238),
        ] {
            assert_eq!(stage(document.clone()).unwrap_err().code, code, "{document:?}");
        }
    }
}
