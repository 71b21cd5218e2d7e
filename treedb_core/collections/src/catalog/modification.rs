//! [`Modification`]: what `collMod` changes of a collection or view, in one transaction: all of it, or nothing. An index that a time series
//! needs for it is built before, and removed if the rest fails; a crash can leave that index, which is then one that deletes nothing.

use std::sync::Arc;

use bson::Document;

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::IndexDef;

use crate::catalog::index_change::IndexModification;
use crate::catalog::namespace::Namespace;
use crate::catalog::special::make_capped;
use crate::catalog::validator::Validator;
use crate::database::Database;
use crate::maintenance::index_build;
use crate::write::edit::Edit;

/// The options that are replaced by others.
const REPLACEABLE: [&str; 4] =
    ["validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages"];

/// Changes of a collection, or of a view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Modification {
    /// Options that replace the old ones: `validator`, `validationLevel` and `validationAction`, which apply to documents written from then
    /// on, and `changeStreamPreAndPostImages`; of a view, `viewOn` and `pipeline`.
    pub options: Document,
    /// Limits of a capped collection: `size`, `max`.
    pub limits: Document,
    /// The span of the buckets of a time series, which are listed and nothing else, as its documents are not kept in buckets: `granularity`,
    /// or `bucketMaxSpanSeconds` with `bucketRoundingSeconds`.
    pub buckets: Option<Document>,
    /// After how many seconds the documents of a time series or a clustered collection are deleted; `Some(None)` for never. A time series
    /// that has no index by date gets one.
    pub expire_after: Option<Option<i64>>,
    /// Changes of an index.
    pub index: Option<IndexModification>,
}

impl From<Document> for Modification {
    fn from(options: Document) -> Self {
        Modification { options, ..Self::default() }
    }
}

impl Modification {
    /// A change that views do not have.
    fn of_collections_only(&self) -> Option<&str> {
        let others = [
            (self.buckets.is_some(), "timeseries"),
            (self.expire_after.is_some(), "expireAfterSeconds"),
            (self.index.is_some(), "index"),
        ];
        let other = others.iter().find(|(given, _)| *given).map(|(_, name)| *name);
        self.limits.keys().next().map(String::as_str).or(other)
    }
}

fn invalid(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorCode::InvalidOptions, message)
}

impl Database {
    /// Changes a collection or a view, as `collMod` does: in all that `modification` says, or, if that is an error, in nothing. (After a crash
    /// a time series may have the index by date that a change of `expire_after` needs, and not the change.) Returns the definition of the
    /// changed index as it was.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`; those of the validator's filter, of a view's pipeline, of the numbers, of creating such an
    /// index; `InvalidOptions` for what the collection does not have or cannot change: `collation`, and what makes it capped, clustered or
    /// a time series.
    pub fn modify_collection(
        &self,
        namespace: &str,
        modification: impl Into<Modification>,
    ) -> Result<Option<IndexDef>> {
        let modification = &modification.into();
        let namespace = Namespace::parse(namespace)?;
        if self.modify_view(&namespace, &modification.options, modification.of_collections_only())? {
            return Ok(None);
        }
        let expire_after = modification.expire_after.flatten();
        let added = match expire_after {
            Some(after) => self.edit(&namespace, false, None, |edit| edit.add_expiry_index(after))?.flatten(),
            None => None,
        };
        let built = match &added {
            Some((id, name)) => index_build::build(self, &namespace, *id, name, &mut |_| {}),
            None => Ok(()),
        };
        let modified = built.and_then(|()| {
            self.edit_documents(&namespace, false, None, |edit| edit.modify(modification))?
                .ok_or_else(|| Self::namespace_not_found(&namespace))
        });
        if let (Err(_), Some((id, _))) = (&modified, &added) {
            self.edit(&namespace, false, None, |edit| edit.remove_expiry_index(*id))?;
        }
        let changed_index = modified?;
        let index_expires = modification.index.as_ref().is_some_and(|index| index.expire_after.is_some());
        if index_expires || expire_after.is_some() {
            self.inner.ttl_monitor.start(self);
        }
        Ok(changed_index)
    }
}

impl Edit<'_> {
    /// Makes the changes. Returns the definition of the changed index as it was.
    fn modify(&mut self, modification: &Modification) -> Result<Option<IndexDef>> {
        let Modification { options, limits, buckets, expire_after, index } = modification;
        self.replace_options(options)?;
        if !limits.is_empty() {
            if self.meta.special.capped.is_none() {
                let namespace = &self.meta.namespace;
                return Err(invalid(format!("{namespace} is not capped: its limits cannot be changed")));
            }
            self.record_modification(limits);
            make_capped(self, limits)?;
        }
        if let Some(changes) = buckets {
            self.change_buckets(changes)?;
        }
        if let Some(after) = expire_after {
            self.change_expiry(*after)?;
        }
        index.as_ref().map(|change| self.change_index(change)).transpose()
    }

    fn replace_options(&mut self, options: &Document) -> Result<()> {
        if options.is_empty() {
            return Ok(());
        }
        let namespace = &self.meta.namespace;
        if options.contains_key("viewOn") || options.contains_key("pipeline") {
            return Err(invalid(format!(
                "{namespace} is not a view: it has neither 'viewOn' nor 'pipeline'"
            )));
        }
        if options.contains_key("collation") {
            return Err(invalid(
                "the collation of a collection cannot be changed: create another collection and copy the documents",
            ));
        }
        if let Some(other) = options.keys().find(|name| !REPLACEABLE.contains(&name.as_str())) {
            return Err(invalid(format!(
                "the option '{other}' of a collection cannot be replaced: a Modification has fields for those that can be changed, and \
                 convert_to_capped makes a collection capped"
            )));
        }
        if self.meta.special.time_field.is_some()
            && let Some(other) = options.keys().find(|name| name.starts_with("valid"))
        {
            return Err(invalid(format!("'timeseries' is not allowed with '{other}'")));
        }
        let meta = Arc::make_mut(&mut self.meta);
        meta.options.extend(options.clone());
        meta.validator = Validator::from_options(&meta.namespace, &meta.options, &meta.collation)?;
        self.catalog.write(self.txn, meta)?;
        self.record_modification(options);
        Ok(())
    }
}
