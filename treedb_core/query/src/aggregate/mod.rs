//! Aggregation: pipelines of stages over the documents of collections.
//!
//! [`Pipeline::parse`] reads the stages, [`Pipeline::open`] makes a [`Stream`] of them: each stage pulls documents from
//! the one before. What the front of a pipeline asks for that a find can do (`$match`, `$sort`, `$skip`, `$limit`,
//! `$project`) goes to the planner as one [`crate::query::Query`]. A stage that needs no document as a whole
//! (`$group`, `$count`) is lent the rows where they lie.
//!
//! Bounds: a stage holds at most [`Context::memory`] bytes; `$sort` and `$group` go on in scratch files if they may,
//! the others say which stage needs too much. Other collections are reached through [`World`] alone.
//!
//! | file | what it holds |
//! |---|---|
//! | `pipeline` | reading stages, moving work to the planner, putting streams together |
//! | `reorder` | moving filters, sorts and limits towards the front |
//! | `stream`, `world` | [`Stream`]; [`World`] and [`Context`] |
//! | `accumulator` | `$sum` .. `$percentile`, for groups, buckets and windows |
//! | `shape`, `limit`, `sort`, `group`, `unwind`, `lookup`, `looking`, `graph`, `facet`, `bucket`, `redact`, `window`, `densify`, `write`, `source` | the stages |
//! | `groups`, `fields`, `identity` | the groups of a `$group`, and how they are found by the fields of a row |
//! | `shard`, `table`, `aside`, `parallel` | where groups are kept, what has no room, and groups by several threads |
//! | `join` | documents of another collection, by index or by a table |
//! | `slide` | accumulators over sliding windows |

mod accumulator;
mod aside;
mod bucket;
mod densify;
mod facet;
mod fields;
mod graph;
mod group;
mod groups;
mod identity;
mod join;
mod limit;
mod looking;
mod lookup;
mod parallel;
mod pipeline;
mod redact;
mod reorder;
mod shape;
mod shard;
mod slide;
mod sort;
mod source;
mod stream;
mod table;
mod unwind;
mod window;
mod world;
mod write;

pub use crate::access::TempFile;
pub use parallel::spread;
pub use pipeline::{MAX_STAGES, Pipeline};
pub use stream::Clock;
pub use stream::{Docs, List, Stream, Visit};
pub use world::{Context, Equal, Work, World};

use crate::doc::{Doc, Element, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// Bytes a stage may hold unless told otherwise: MongoDB's limit.
pub const MEMORY: usize = 100 * 1024 * 1024;

fn too_much_memory(what: &str, memory: usize) -> QueryError {
    QueryError::new(
        ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed,
        format!(
            "{what} exceeded its memory limit of {memory} bytes: filter or project earlier in the pipeline, \
             or pass allowDiskUse: true where the stage can use it ($sort, $group)"
        ),
    )
}

fn failed(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorCode::FailedToParse, message)
}

/// A stage's operand that must be a document.
fn document<'a>(stage: &Element<'a>) -> Result<Doc<'a>> {
    match stage.value() {
        Value::Document(doc) => Ok(doc),
        other => Err(failed(format!(
            "the {} stage specification must be an object, found {}",
            stage.name_str(),
            other.type_name()
        ))),
    }
}

/// Refuses fields of a stage's operand that it does not know.
fn only(stage: &str, doc: Doc<'_>, known: &[&str]) -> Result<()> {
    match doc.elements().find(|element| !known.contains(&element.name_str())) {
        Some(unknown) => Err(QueryError::new(
            ErrorCode::Location40415,
            format!("BSON field '{stage}.{}' is an unknown field.", unknown.name_str()),
        )),
        None => Ok(()),
    }
}

/// A field of a stage's operand that must be a string.
fn string<'a>(stage: &str, doc: Doc<'a>, name: &str) -> Result<Option<&'a str>> {
    match doc.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(std::str::from_utf8(text).unwrap_or_default())),
        Some(other) => {
            Err(failed(format!("{stage}: '{name}' must be a string, found {}", other.type_name())))
        }
    }
}

/// The same, which must be there.
fn required<'a>(stage: &str, doc: Doc<'a>, name: &str) -> Result<&'a str> {
    string(stage, doc, name)?.ok_or_else(|| failed(format!("{stage} needs the field '{name}'")))
}
