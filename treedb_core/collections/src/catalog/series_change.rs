//! When the documents of a time series or a clustered collection expire, and the span of the buckets of a time series.
//!
//! A time series has an index by date through which its documents are deleted, and the option `expireAfterSeconds`, which is listed: the two
//! have the same number. So no other index of a time series deletes documents by date alone, whatever changes the index changes the option,
//! and a time series without the index has no such option.

use std::sync::Arc;

use bson::{Bson, Document};

use treedb_query::doc::{Doc, Value};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{IndexDef, SortOrder, expiry};

use crate::catalog::meta::{IndexMeta, Meta};
use crate::catalog::special::{change_span, indexes_of_series};
use crate::changes::Defined;
use crate::maintenance::index_build::{self, expires};
use crate::write::edit::Edit;

impl Meta {
    /// Whether this is the index that deletes documents as the collection's option `expireAfterSeconds` says, or would if there were one.
    fn expires_by(&self, def: &IndexDef) -> bool {
        match (&self.special.time_field, def.keys.as_slice()) {
            (Some(field), [part]) => {
                part.path.as_str() == field
                    && part.direction == SortOrder::Ascending
                    && def.options.kind.is_values()
                    && def.options.partial.is_none()
            }
            (Some(_), _) => false,
            (None, _) => self.special.clustered && def.is_id(),
        }
    }

    /// Sets the option; `None` removes it.
    fn set_expiry_option(&mut self, expire_after: Option<i64>) {
        match expire_after {
            Some(seconds) => drop(self.options.insert("expireAfterSeconds", seconds)),
            None => drop(self.options.remove("expireAfterSeconds")),
        }
    }

    /// Refuses a new index that deletes documents of a time series, unless it is about those with certain values of the `metaField`: when
    /// the others expire is an option of the collection.
    ///
    /// # Errors
    /// `InvalidOptions`.
    pub(crate) fn check_expiring_index(&self, def: &IndexDef) -> Result<()> {
        if def.options.expire_after.is_none() || self.special.time_field.is_none() {
            return Ok(());
        }
        let meta_field =
            self.options.get_document("timeseries").and_then(|series| series.get_str("metaField"));
        let source = def.options.partial.as_ref().map(|partial| partial.source());
        let is_about_meta = source.zip(meta_field.ok()).is_some_and(|(filter, meta_field)| {
            let mut paths = Doc::from(&*filter).elements().map(|element| element.name_str()).peekable();
            paths.peek().is_some() && paths.all(|path| path.split('.').next() == Some(meta_field))
        });
        if is_about_meta {
            return Ok(());
        }
        Err(QueryError::new(
            ErrorCode::InvalidOptions,
            "TTL indexes on time-series collections require a partialFilterExpression on the metaField: when all of its documents expire is \
             the option 'expireAfterSeconds' of the collection",
        ))
    }
}

impl Edit<'_> {
    /// Adds the index through which a time series is to expire after so many seconds, unless it has it; returns its id and name. It is to be
    /// built before [`Self::change_expiry`], which makes it delete documents: until then it is as any other.
    ///
    /// # Errors
    /// Those of `change_expiry`, and of creating the index.
    pub(crate) fn add_expiry_index(&mut self, seconds: i64) -> Result<Option<(i64, String)>> {
        expiry(Value::Int64(seconds))?;
        self.check_expires()?;
        if self.expiry_index().is_some() {
            return Ok(None);
        }
        let mut options = self.meta.options.clone();
        options.insert("expireAfterSeconds", seconds);
        let Some(mut def) = indexes_of_series(&options)?.into_iter().find(expires) else { return Ok(None) };
        if let Some(def) = def.as_ordered_mut() {
            def.options.expire_after = None;
        }
        Ok(index_build::add(self, &def)?.map(|id| (id, def.name().to_owned())))
    }

    /// Removes the index `id`, which [`Self::add_expiry_index`] has added for a change that has failed.
    pub(crate) fn remove_expiry_index(&mut self, id: i64) -> Result<()> {
        // Another change may have made use of it meanwhile.
        let is_unused = |index: &IndexMeta| index.id == id && !expires(&index.def);
        let ready = self.meta.indexes.iter().find(|index| is_unused(index) && index.building.is_none());
        if let Some(def) = ready.map(|index| index.def.clone()) {
            self.record_index(Defined::DropIndexes, &def)?;
        }
        self.remove_indexes(is_unused).map(drop)
    }

    /// Where the index is that [`Meta::expires_by`] means.
    fn expiry_index(&self) -> Option<usize> {
        let is_meant =
            |index: &IndexMeta| index.def.as_ordered().is_some_and(|def| self.meta.expires_by(def));
        self.meta.indexes.iter().position(is_meant)
    }

    /// Refuses a collection whose documents do not expire by an option.
    fn check_expires(&self) -> Result<()> {
        let meta = &self.meta;
        if meta.special.time_field.is_none() && !meta.special.clustered {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is specified",
            ));
        }
        Ok(())
    }

    /// Changes `expireAfterSeconds` of the collection.
    ///
    /// # Errors
    /// `InvalidOptions` for a collection that is neither a time series nor clustered; `IndexBuildAborted` for a time series without the
    /// index; those of the number.
    pub(crate) fn change_expiry(&mut self, expire_after: Option<i64>) -> Result<()> {
        if let Some(seconds) = expire_after {
            expiry(Value::Int64(seconds))?;
        }
        self.check_expires()?;
        let found = self.expiry_index();
        let meta = Arc::make_mut(&mut self.meta);
        if meta.special.time_field.is_some() && found.is_none() && expire_after.is_some() {
            return Err(QueryError::new(
                ErrorCode::IndexBuildAborted,
                format!("{}: the index by which documents expire was dropped meanwhile", meta.namespace),
            ));
        }
        meta.set_expiry_option(expire_after);
        if let Some(name) = found.and_then(|at| Some(meta.indexes.get(at)?.def.name().to_owned())) {
            for def in meta.ordered_named(&name) {
                def.options.expire_after = expire_after;
            }
        }
        meta.sort_indexes();
        self.catalog.write(self.txn, meta)?;
        self.record_expiry(expire_after);
        Ok(())
    }

    /// Makes the option of the collection that of `def`, if this is the index by which its documents expire; false if it is another.
    pub(crate) fn follow_index_expiry(&mut self, def: &IndexDef, expire_after: Option<i64>) -> Result<bool> {
        if !self.meta.expires_by(def) {
            return Ok(false);
        }
        let meta = Arc::make_mut(&mut self.meta);
        meta.set_expiry_option(expire_after);
        self.catalog.write(self.txn, meta)?;
        self.record_expiry(expire_after);
        Ok(true)
    }

    fn record_expiry(&mut self, expire_after: Option<i64>) {
        let said = expire_after.map_or(Bson::from("off"), Bson::from);
        self.record_modification(&bson::doc! { "expireAfterSeconds": said });
    }

    /// Changes the span of the buckets of a time series.
    ///
    /// # Errors
    /// `InvalidOptions` for another collection, and for a span that is shorter than it was.
    pub(crate) fn change_buckets(&mut self, changes: &Document) -> Result<()> {
        let meta = Arc::make_mut(&mut self.meta);
        meta.options = change_span(&meta.options, changes)?;
        self.catalog.write(self.txn, meta)?;
        self.record_modification(&bson::doc! { "timeseries": changes.clone() });
        Ok(())
    }
}
