//! Changing the options of an index, as `collMod` does: `hidden` and `expireAfterSeconds`.

use std::sync::Arc;

use treedb_query::doc::Value;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{IndexDef, expiry};
use treedb_query::query::index_of;

use crate::catalog::namespace::Namespace;
use crate::database::Database;

impl Database {
    /// Hides an index from queries or shows it again (`hidden`), and sets the time after which its documents expire
    /// (`expire_after`, in seconds), where they are given. Returns its definition as it was.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`; those of creating such an index.
    pub fn modify_index(
        &self,
        namespace: &str,
        name: &str,
        hidden: Option<bool>,
        expire_after: Option<i64>,
    ) -> Result<IndexDef> {
        let namespace = Namespace::parse(namespace)?;
        let old = self.edit(&namespace, false, None, |edit| {
            let meta = Arc::make_mut(&mut edit.meta);
            let Some(index) = meta.indexes.iter_mut().find(|index| index.def.name() == name) else {
                return Err(QueryError::new(
                    ErrorCode::IndexNotFound,
                    format!("cannot find index {name} for ns {namespace}"),
                ));
            };
            if let Some(seconds) = expire_after {
                expiry(Value::Int64(seconds))?;
            }
            let Some(def) = index.def.as_ordered_mut() else {
                return Err(QueryError::new(
                    ErrorCode::InvalidOptions,
                    format!("index {name} has no options that can be changed: drop it and create it again"),
                ));
            };
            let old = def.clone();
            let options = &mut def.options;
            options.hidden = hidden.unwrap_or(options.hidden);
            options.expire_after = expire_after.or(options.expire_after);
            if *def != old {
                // Parsing the new specification refuses options that are not allowed.
                index_of(&def.spec())?;
                meta.sort_indexes();
                edit.catalog.write(edit.txn, meta)?;
                let mut changed = bson::doc! { "name": name };
                changed.extend(hidden.map(|hidden| ("hidden".to_owned(), hidden.into())));
                changed.extend(expire_after.map(|after| ("expireAfterSeconds".to_owned(), after.into())));
                edit.record_modification(&bson::doc! { "index": changed });
            }
            Ok(old)
        })?;
        if expire_after.is_some() {
            self.inner.ttl_monitor.start(self);
        }
        old.ok_or_else(|| Database::namespace_not_found(&namespace))
    }
}
