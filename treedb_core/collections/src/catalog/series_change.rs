//! Changing what the options of a collection say of its documents' dates, as `collMod` does: when those of a time series or a clustered
//! collection expire, and the span of the buckets of a time series.

use std::sync::Arc;

use bson::{Bson, Document, RawDocumentBuf};

use treedb_query::doc::Value;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{expiry, same_key_pattern};

use crate::catalog::index_spec::IndexSpec;
use crate::catalog::namespace::Namespace;
use crate::catalog::special::{change_span, indexes_of_series};
use crate::database::Database;
use crate::maintenance::index_build::expires;

impl Database {
    /// Sets how many seconds after their dates the documents of a time series or a clustered collection are deleted; `None` for never. A
    /// time series that has no index by date gets one.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `InvalidOptions` for another collection; those of the number, and of creating the index.
    pub fn modify_expiry(&self, namespace: &str, expire_after: Option<i64>) -> Result<()> {
        if let Some(seconds) = expire_after {
            expiry(Value::Int64(seconds))?;
        }
        let namespace = Namespace::parse(namespace)?;
        let missing = self.edit(&namespace, false, None, |edit| {
            let meta = Arc::make_mut(&mut edit.meta);
            let by_date = match &meta.special.time_field {
                None if !meta.special.clustered => {
                    return Err(QueryError::new(
                        ErrorCode::InvalidOptions,
                        "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is specified",
                    ));
                }
                field => field.as_ref().map(|field| RawDocumentBuf::try_from(&bson::doc! { field: 1 })).transpose()?,
            };
            match expire_after {
                Some(seconds) => drop(meta.options.insert("expireAfterSeconds", seconds)),
                None => drop(meta.options.remove("expireAfterSeconds")),
            }
            let mut ordered = meta.indexes.iter_mut().filter_map(|index| index.def.as_ordered_mut());
            let index = ordered.find(|def| match &by_date {
                Some(pattern) => def.options.partial.is_none() && same_key_pattern(&def.key_pattern(), pattern),
                None => def.is_id(),
            });
            let found = index.is_some();
            if let Some(def) = index {
                def.options.expire_after = expire_after;
            }
            meta.sort_indexes();
            edit.catalog.write(edit.txn, meta)?;
            let said = expire_after.map_or(Bson::from("off"), Bson::from);
            let missing = (!found && expire_after.is_some()).then(|| edit.meta.options.clone());
            edit.record_modification(&bson::doc! { "expireAfterSeconds": said });
            Ok(missing)
        })?;
        let missing = missing.ok_or_else(|| Database::namespace_not_found(&namespace))?;
        if let Some(options) = missing {
            for index in indexes_of_series(&options)?.iter().filter(|index| expires(index)) {
                self.collection(namespace.as_str())?.create_index(IndexSpec::from_document(&index.spec()))?;
            }
        }
        if expire_after.is_some() {
            self.inner.ttl_monitor.start(self);
        }
        Ok(())
    }

    /// Changes the span of the buckets of a time series, which are listed and nothing else, as its documents are not kept in buckets: by
    /// `granularity`, or by `bucketMaxSpanSeconds` with `bucketRoundingSeconds`.
    ///
    /// # Errors
    /// `NamespaceNotFound`; `InvalidOptions` for another collection, and for a span that is shorter than it was.
    pub fn modify_series(&self, namespace: &str, changes: &Document) -> Result<()> {
        let namespace = Namespace::parse(namespace)?;
        let done = self.edit(&namespace, false, None, |edit| {
            let meta = Arc::make_mut(&mut edit.meta);
            meta.options = change_span(&meta.options, changes)?;
            edit.catalog.write(edit.txn, meta)?;
            edit.record_modification(&bson::doc! { "timeseries": changes.clone() });
            Ok(())
        })?;
        done.ok_or_else(|| Database::namespace_not_found(&namespace))
    }
}
