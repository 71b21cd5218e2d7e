//! Changing the options of an index, as `collMod` does: `hidden` and `expireAfterSeconds`.

use std::sync::Arc;

use bson::RawDocumentBuf;

use treedb_query::doc::{Doc, Value, shown};
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::ordered::{IndexDef, expiry, same_key_pattern};
use treedb_query::query::index_of;

use crate::catalog::modification::Modification;
use crate::database::Database;
use crate::write::edit::Edit;

/// The index that is meant.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexChoice {
    /// That of this name.
    Name(String),
    /// The first with these keys.
    KeyPattern(RawDocumentBuf),
}

/// Changes of an index; what is `None` stays.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexModification {
    /// Which.
    pub index: IndexChoice,
    /// Whether it is hidden from queries.
    pub hidden: Option<bool>,
    /// After how many seconds its documents expire.
    pub expire_after: Option<i64>,
}

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
        let index = IndexModification { index: IndexChoice::Name(name.to_owned()), hidden, expire_after };
        let modification = Modification { index: Some(index), ..Modification::default() };
        self.modify_collection(namespace, modification)?.ok_or_else(|| not_found(name, namespace))
    }
}

fn not_found(index: &str, namespace: &str) -> QueryError {
    QueryError::new(ErrorCode::IndexNotFound, format!("cannot find index {index} for ns {namespace}"))
}

impl Edit<'_> {
    /// Changes an index; returns its definition as it was.
    ///
    /// # Errors
    /// As [`Database::modify_index`].
    pub(crate) fn change_index(&mut self, change: &IndexModification) -> Result<IndexDef> {
        let IndexModification { index: choice, hidden, expire_after } = change;
        let meta = Arc::make_mut(&mut self.meta);
        let index = meta.indexes.iter().find(|index| match choice {
            IndexChoice::Name(name) => index.def.name() == name,
            IndexChoice::KeyPattern(pattern) => {
                index.def.as_ordered().is_some_and(|def| same_key_pattern(&def.key_pattern(), pattern))
            }
        });
        let Some(index) = index else {
            let named = match choice {
                IndexChoice::Name(name) => name.clone(),
                IndexChoice::KeyPattern(pattern) => shown(Value::Document(Doc::from(&**pattern))),
            };
            return Err(not_found(&named, meta.namespace.as_str()));
        };
        if let Some(seconds) = expire_after {
            expiry(Value::Int64(*seconds))?;
        }
        let name = index.def.name().to_owned();
        let Some(def) = index.def.as_ordered() else {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                format!("index {name} has no options that can be changed: drop it and create it again"),
            ));
        };
        let old = def.clone();
        let mut new = old.clone();
        new.options.hidden = hidden.unwrap_or(old.options.hidden);
        new.options.expire_after = expire_after.or(old.options.expire_after);
        if new != old {
            // Parsing the new specification refuses options that are not allowed.
            index_of(&new.spec())?;
            for def in meta.ordered_named(&name) {
                def.options.hidden = new.options.hidden;
                def.options.expire_after = new.options.expire_after;
            }
            meta.sort_indexes();
            self.catalog.write(self.txn, meta)?;
            let mut changed = bson::doc! { "name": name };
            changed.extend(hidden.map(|hidden| ("hidden".to_owned(), hidden.into())));
            changed.extend(expire_after.map(|after| ("expireAfterSeconds".to_owned(), after.into())));
            self.record_modification(&bson::doc! { "index": changed });
            if expire_after.is_some() && !self.follow_index_expiry(&old, *expire_after)? {
                self.meta.check_expiring_index(&new)?;
            }
        }
        Ok(old)
    }
}
