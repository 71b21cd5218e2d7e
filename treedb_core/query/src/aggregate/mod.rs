//! Aggregation: pipelines of stages over the documents of collections.
//!
//! [`Pipeline::parse`] reads the stages, [`Pipeline::open`] makes a [`DocumentStream`] of them: each stage pulls documents
//! from the stage before it. The front of a pipeline, as far as a find can do it (`$match`, `$sort`, `$skip`, `$limit`,
//! `$project`), goes to the planner as one [`crate::query::Query`]. A stage that does not keep its documents (`$group`,
//! `$count`) borrows them from the rows without a copy.
//!
//! Limits: a stage holds at most [`Context::memory_limit`] bytes. Beyond it `$sort` and `$group` use scratch files if they
//! may; other stages fail with an error that names the stage. Collections are reached through [`Collections`] only.
//!
//! The modules are layers, each of which uses those above it in this table:
//!
//! | file | what it holds |
//! |---|---|
//! | `stream`, `deadline`, `operand`, `threads` | [`DocumentStream`]; time limits; reading operands; parallel work |
//! | `collections`, `context` | [`Collections`] and [`Context`]: what a run of a pipeline is given |
//! | `score` | the scores of documents that a search has found |
//! | `predicate` | the condition of a `$match`, and how it is taken apart |
//! | `stage` | the trait of a stage: how it is parsed, opened, explained and what the optimizer knows of it |
//! | `following`, `reorder` | what later stages need of a stage; moving stages to the front |
//! | `pipeline` | [`Pipeline`]: the query in front, and the streams of the stages |
//! | `divided` | [`DividedPipeline`]: the front of a pipeline run by several processes |
//! | `key_table`, `group_key`, `accumulator`, `state_bytes`, `set_value` | what several stages are made of |
//! | `stages/` | the stages, one file or folder each |
//! | `parser` | the table of all stages, and [`Pipeline::parse`] |
//!
//! A new stage is a file in `stages/` with a type that implements `Stage`, and a row in the table of `parser`.

mod accumulator;
mod collections;
mod context;
mod deadline;
mod divided;
mod following;
mod group_key;
mod key_table;
mod operand;
mod parser;
mod pipeline;
mod predicate;
mod reorder;
mod score;
mod set_value;
mod spool;
mod stage;
mod stages;
mod state_bytes;
mod stream;
mod threads;

pub use crate::access::TempFile;
pub use collections::{Collections, EqualityLookup, Target, WriteBody};
pub use context::Context;
pub use divided::{DividedPipeline, PipelinePart};
pub use parser::{MAX_STAGES, check_stage_exists};
pub use pipeline::Pipeline;
pub use stream::{BoxedStream, DocumentStream, VecStream, Visitor};
pub use threads::run_in_parallel;

/// Bytes that a stage may hold unless the request says otherwise: MongoDB's limit.
pub const DEFAULT_MEMORY_LIMIT: usize = 100 * 1024 * 1024;
