//! Creating, changing and reading views ([`crate::catalog::view_def`]).

use std::collections::HashSet;

use bson::{Bson, Document};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::query::interrupt;
use treedb_storage::{Reads, WriteTxn};

use crate::catalog::Catalog;
use crate::catalog::namespace::Namespace;
use crate::catalog::view_def::{MAX_DEPTH, MAX_PIPELINE, ResolvedView, ViewDef, stages_of};
use crate::collection::Collection;
use crate::database::Database;

impl Catalog {
    /// The collection that a view reads in the end, and the stages of all views on the way; `None` if this is no view.
    ///
    /// # Errors
    /// `ViewDepthLimitExceeded`, `ViewPipelineMaxSizeExceeded`.
    pub(crate) fn resolve_view(
        &self,
        reads: &impl Reads,
        namespace: &Namespace,
    ) -> Result<Option<ResolvedView>> {
        let Some(view) = self.view(reads, namespace)? else { return Ok(None) };
        let mut resolved = ResolvedView { source: view.on, stages: view.pipeline, collation: view.collation };
        for _ in 0..MAX_DEPTH {
            let Some(below) = self.view(reads, &resolved.source)? else {
                if stages_of(&resolved.stages)?.as_bytes().len() > MAX_PIPELINE {
                    return Err(QueryError::new(
                        ErrorCode::ViewPipelineMaxSizeExceeded,
                        format!(
                            "the pipelines of the view {namespace} and of those that it reads take more than {MAX_PIPELINE} bytes"
                        ),
                    ));
                }
                return Ok(Some(resolved));
            };
            let mut stages = below.pipeline;
            stages.append(&mut resolved.stages);
            resolved = ResolvedView { source: below.on, stages, ..resolved };
        }
        Err(too_deep(namespace))
    }

    /// Stores a view, after checking it against those that it reads.
    fn put_view(&self, txn: &mut WriteTxn, view: &ViewDef) -> Result<()> {
        self.check_graph(txn, view, view, 0, &mut HashSet::new())?;
        self.write_view(txn, view)?;
        // The depth and size of the whole.
        self.resolve_view(txn, &view.namespace).map(drop)
    }

    /// Refuses a `new` view that would read itself by way of `view`, or views that compare strings otherwise. Those in `checked` have been
    /// looked at.
    fn check_graph(
        &self,
        txn: &WriteTxn,
        new: &ViewDef,
        view: &ViewDef,
        depth: usize,
        checked: &mut HashSet<Namespace>,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_deep(&new.namespace));
        }
        interrupt::check()?;
        for read in view.reads() {
            if read == new.namespace {
                return Err(QueryError::new(
                    ErrorCode::GraphContainsCycle,
                    format!(
                        "View cycle detected: {} reads itself by way of {}",
                        new.namespace, view.namespace
                    ),
                ));
            }
            if !checked.insert(read.clone()) {
                continue;
            }
            let Some(below) = self.view(txn, &read)? else { continue };
            if below.collation != new.collation {
                return Err(QueryError::new(
                    ErrorCode::OptionNotSupportedOnView,
                    format!(
                        "View {} has a collation that does not match the collation of view {}",
                        new.namespace, below.namespace
                    ),
                ));
            }
            self.check_graph(txn, new, &below, depth + 1, checked)?;
        }
        Ok(())
    }
}

/// The error of views that read each other too deeply.
pub(crate) fn too_deep(namespace: &Namespace) -> QueryError {
    QueryError::new(
        ErrorCode::ViewDepthLimitExceeded,
        format!(
            "View depth too deep or view cycle detected; maximum depth is {MAX_DEPTH} (view {namespace})"
        ),
    )
}

impl Database {
    /// Creates a view: a name by which the documents are read that `pipeline` makes of those of the collection or view `on`, of the same
    /// database. Its documents cannot be written.
    ///
    /// # Errors
    /// `NamespaceExists`; those of the stages; `GraphContainsCycle`, `ViewDepthLimitExceeded`; `OptionNotSupportedOnView` for a pipeline that
    /// writes, and for a view of another collation below it.
    pub fn create_view(&self, namespace: &str, on: &str, pipeline: Vec<Document>) -> Result<Collection> {
        let pipeline: Vec<Bson> = pipeline.into_iter().map(Bson::Document).collect();
        self.create_collection(namespace, bson::doc! { "viewOn": on, "pipeline": pipeline })
    }

    /// Creates the view that the options of `create` describe.
    pub(crate) fn create_view_of(&self, namespace: Namespace, options: Document) -> Result<()> {
        let view = ViewDef::new(namespace, options)?;
        let mut txn = self.inner.store.begin_write()?;
        self.inner.catalog.check_free(&txn, &view.namespace)?;
        self.inner.catalog.put_view(&mut txn, &view)?;
        Ok(txn.commit()?)
    }

    /// Changes what a view reads, and its pipeline. False if there is no such view. `of_collections` names a change that is asked for and that
    /// only collections have.
    ///
    /// # Errors
    /// Those of [`Self::create_view`]; `InvalidOptions`.
    pub(crate) fn modify_view(
        &self,
        namespace: &Namespace,
        options: &Document,
        of_collections: Option<&str>,
    ) -> Result<bool> {
        let mut txn = self.inner.store.begin_write()?;
        let Some(old) = self.inner.catalog.view(&txn, namespace)? else { return Ok(false) };
        if let Some(other) = of_collections {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                format!("option not supported on a view: {other}"),
            ));
        }
        if options.is_empty() {
            return Ok(true);
        }
        if options.contains_key("collation") {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                "the collation of a view cannot be changed: drop it and create it again",
            ));
        }
        let mut changed = old.options;
        changed.extend(options.clone());
        let view = ViewDef::new(namespace.clone(), changed)?;
        self.inner.catalog.put_view(&mut txn, &view)?;
        txn.commit()?;
        Ok(true)
    }
}
