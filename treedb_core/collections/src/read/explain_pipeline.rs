//! What `explain` shows of a pipeline: the stages as MongoDB shows them, the initial find as `$cursor`, followed by the others; only the find
//! if there are no others. A find, a count and the distinct values of a field of a view are a pipeline.

use std::time::Instant;

use bson::raw::cstr;
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::error::Result;
use treedb_query::query::Counters;
use treedb_query::query::explain::execution_stats;

use crate::collection::Collection;
use crate::read::aggregate::AggregateRequest;

/// Whether a stage is one of these.
fn is_one_of(stage: Option<&RawDocumentBuf>, names: &[&str]) -> bool {
    let first = stage.and_then(|stage| stage.iter().next()).and_then(std::result::Result::ok);
    first.is_some_and(|(name, _)| names.contains(&name.as_str()))
}

impl Collection {
    /// The document that `explain` returns for a pipeline over the collection or view: how it would be run and, with `execute`, the execution
    /// statistics of its search. Stages that write are not executed, nor those that begin with other documents than those of a search.
    ///
    /// # Errors
    /// Those of [`Collection::aggregate`].
    pub fn explain_pipeline(&self, pipeline: &AggregateRequest, execute: bool) -> Result<RawDocumentBuf> {
        let started = Instant::now();
        let mut found = self.database().explain_aggregate(self.namespace().as_str(), pipeline)?;
        let mut search = found.planner.map(|planner| rawdoc! { "queryPlanner": planner });
        let writes = is_one_of(found.stages.last(), &["$out", "$merge"]);
        let searches = search.is_some() || is_one_of(found.stages.first(), &["$vectorSearch"]);
        if execute && searches && !writes {
            let mut documents = self.aggregate(pipeline)?;
            let mut returned = 0;
            for document in documents.by_ref() {
                document?;
                returned += 1;
            }
            let counters = Counters { returned, ..documents.counters() };
            if let Some(search) = &mut search {
                let planner = search.get_document("queryPlanner");
                let stages = planner.and_then(|planner| planner.get_document("winningPlan"));
                let stages = stages.map(RawDocument::to_owned).unwrap_or_default();
                let stats = execution_stats(counters, started.elapsed(), stages);
                search.append(cstr!("executionStats"), stats);
            } else if let (Some(first), Some(work)) = (found.stages.first_mut(), documents.search_work()) {
                let stats = execution_stats(counters, started.elapsed(), work.shown());
                first.append(cstr!("executionStats"), stats);
            }
        }
        let mut shown = rawdoc! { "explainVersion": "1" };
        match search {
            Some(search) if found.stages.is_empty() => {
                for field in &search {
                    let (name, value) = field?;
                    shown.append(name, value);
                }
            }
            search => {
                let mut stages = RawArrayBuf::new();
                search.into_iter().for_each(|search| stages.push(rawdoc! { "$cursor": search }));
                found.stages.into_iter().for_each(|stage| stages.push(stage));
                shown.append(cstr!("stages"), stages);
            }
        }
        Ok(shown)
    }
}
