//! The parameters of a change stream: the stage `$changeStream` and the stages after it.

use bson::raw::RawBsonRef;
use bson::{RawArray, RawArrayBuf, RawDocument, RawDocumentBuf, Timestamp};

use treedb_query::error::{ErrorCode, QueryError, Result};

use crate::catalog::namespace::Namespace;

/// Stages that may follow `$changeStream`: those that return at most one document for each.
const STAGES: &[&str] =
    &["$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact"];

/// The stage that may be the last one.
const SPLIT: &str = "$changeStreamSplitLargeEvent";

/// What a change stream watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A collection, until it is dropped.
    Collection(Namespace),
    /// All collections of a database, until it is dropped.
    Database(String),
    /// All collections of all databases.
    Everything,
}

/// Whether the event of an update has the whole document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullDocument {
    /// No: only what changed.
    #[default]
    Default,
    /// As it is when the event is read; null if it no longer exists.
    UpdateLookup,
    /// As the update left it; null if the collection's `changeStreamPreAndPostImages` are not enabled.
    WhenAvailable,
    /// As the update left it; without it the stream fails with `NoMatchingDocument`.
    Required,
}

/// Whether events have the document before the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullDocumentBeforeChange {
    /// No.
    #[default]
    Off,
    /// Yes; null if the collection's `changeStreamPreAndPostImages` are not enabled.
    WhenAvailable,
    /// Yes; without it the stream fails with `NoMatchingDocument`.
    Required,
}

/// Where a change stream starts.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum WatchFrom {
    /// At the next change.
    #[default]
    Now,
    /// After the event with this `_id`.
    ResumeAfter(RawDocumentBuf),
    /// After the event with this `_id`, which may be an `invalidate`.
    StartAfter(RawDocumentBuf),
    /// At the first change with this `clusterTime` or a later one.
    OperationTime(Timestamp),
}

/// The parameters of a change stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WatchRequest {
    /// Where it starts.
    pub from: WatchFrom,
    /// The document in the events of updates.
    pub full_document: FullDocument,
    /// The document before the change.
    pub before: FullDocumentBeforeChange,
    /// The option `allChangesForCluster`: watch all collections of all databases.
    pub all_changes_for_cluster: bool,
    /// Events of collections and indexes that were created, changed or dropped, too, and more fields in the others.
    pub show_expanded_events: bool,
    /// Events of more than 16 MiB are split into several documents, as by the stage `$changeStreamSplitLargeEvent`.
    pub split_large_events: bool,
    /// The stages after `$changeStream`. They must not change `_id`.
    pub pipeline: RawArrayBuf,
}

impl WatchRequest {
    /// Parses a pipeline that begins with `$changeStream`; `None` if it begins with another stage.
    ///
    /// # Errors
    /// Those of the stage, naming the field; `IllegalOperation` for a stage that cannot follow it.
    pub fn read(stages: &RawArray) -> Result<Option<WatchRequest>> {
        let mut all = stages.into_iter();
        let Some(RawBsonRef::Document(first)) = all.next().transpose()? else { return Ok(None) };
        let Some(Ok((name, value))) = first.iter().next() else { return Ok(None) };
        if name.as_str() != "$changeStream" {
            return Ok(None);
        }
        let RawBsonRef::Document(stage) = value else {
            return Err(QueryError::new(
                ErrorCode::Location50808,
                "$changeStream stage expects a document as argument",
            ));
        };
        let mut request = WatchRequest::options(stage)?;
        for stage in all {
            let stage = stage?;
            if request.split_large_events {
                return Err(QueryError::new(
                    ErrorCode::Location7182802,
                    "$changeStreamSplitLargeEvent must be the last stage in the pipeline",
                ));
            }
            match stage.as_document().and_then(|stage| stage.get(SPLIT).transpose()).transpose()? {
                Some(RawBsonRef::Document(options)) if options.is_empty() => {
                    request.split_large_events = true
                }
                Some(_) => {
                    return Err(QueryError::new(
                        ErrorCode::Location7182800,
                        "$changeStreamSplitLargeEvent spec should be an empty object",
                    ));
                }
                None => request.pipeline.push(stage),
            }
        }
        request.check_stages()?;
        Ok(Some(request))
    }

    /// Refuses stages that cannot follow `$changeStream`.
    pub(super) fn check_stages(&self) -> Result<()> {
        for stage in &self.pipeline {
            if let RawBsonRef::Document(stage) = stage?
                && let Some(field) = stage.iter().next()
            {
                let (name, _) = field?;
                if !STAGES.contains(&name.as_str()) {
                    return Err(QueryError::new(
                        ErrorCode::IllegalOperation,
                        format!("{} is not permitted in a $changeStream pipeline", name.as_str()),
                    ));
                }
            }
        }
        Ok(())
    }

    fn options(stage: &RawDocument) -> Result<WatchRequest> {
        let mut request = WatchRequest::default();
        let mut froms = 0;
        for field in stage {
            let (name, value) = field?;
            let name = name.as_str();
            let wrong = |expected: &str| {
                QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!(
                        "BSON field '$changeStream.{name}' is the wrong type, expected type '{expected}'"
                    ),
                )
            };
            let one_of = |choices: &[&str]| -> Result<usize> {
                let RawBsonRef::String(text) = value else { return Err(wrong("string")) };
                choices.iter().position(|choice| *choice == text).ok_or_else(|| {
                    QueryError::bad_value(format!(
                        "Enumeration value '{text}' for field '$changeStream.{name}' is not a valid value: use one of {}",
                        choices.join(", ")
                    ))
                })
            };
            match name {
                "fullDocument" => {
                    use FullDocument::*;
                    let at = one_of(&["default", "updateLookup", "whenAvailable", "required"])?;
                    request.full_document = [Default, UpdateLookup, WhenAvailable, Required][at];
                }
                "fullDocumentBeforeChange" => {
                    use FullDocumentBeforeChange::*;
                    let at = one_of(&["off", "whenAvailable", "required"])?;
                    request.before = [Off, WhenAvailable, Required][at];
                }
                "resumeAfter" | "startAfter" => {
                    let RawBsonRef::Document(token) = value else { return Err(wrong("object")) };
                    let token = token.to_owned();
                    froms += 1;
                    request.from = match name {
                        "resumeAfter" => WatchFrom::ResumeAfter(token),
                        _ => WatchFrom::StartAfter(token),
                    };
                }
                "startAtOperationTime" => {
                    let RawBsonRef::Timestamp(time) = value else { return Err(wrong("timestamp")) };
                    froms += 1;
                    request.from = WatchFrom::OperationTime(time);
                }
                "allChangesForCluster" | "showExpandedEvents" | "showMigrationEvents" => {
                    let RawBsonRef::Boolean(on) = value else { return Err(wrong("bool")) };
                    request.all_changes_for_cluster |= on && name == "allChangesForCluster";
                    request.show_expanded_events |= on && name == "showExpandedEvents";
                }
                _ => {
                    return Err(QueryError::new(
                        ErrorCode::Location40415,
                        format!("BSON field '$changeStream.{name}' is an unknown field."),
                    ));
                }
            }
        }
        if froms > 1 {
            return Err(QueryError::new(
                ErrorCode::Location40674,
                "Only one type of resume option is allowed, but multiple were found.",
            ));
        }
        Ok(request)
    }
}
