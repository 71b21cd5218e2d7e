//! The stages, one file or folder each. They use what is beside this folder, except `parser`, and not each other;
//! `$lookup` and `$graphLookup`, which share a folder, are the exception.

mod bucket;
mod densify;
mod facet;
mod group;
mod limit;
mod lookup;
mod match_stage;
mod project;
mod redact;
mod sample;
mod sort;
mod source;
mod union_with;
mod unwind;
mod vector_search;
mod window;
mod write;

pub(super) use bucket::{BucketAuto, bucket};
pub(super) use densify::{Densify, fill};
pub(super) use facet::Facet;
pub(super) use group::{Group, count, sort_by_count};
pub(super) use limit::{Limit, Skip};
pub(super) use lookup::{GraphLookup, Lookup};
pub(super) use match_stage::Match;
pub(super) use project::Project;
pub(super) use redact::Redact;
pub(super) use sample::Sample;
pub(super) use sort::SortStage;
pub(super) use source::OwnSource;
pub(super) use union_with::UnionWith;
pub(super) use unwind::Unwind;
pub(super) use vector_search::VectorSearch;
pub(super) use window::Window;
pub(super) use write::Write;
