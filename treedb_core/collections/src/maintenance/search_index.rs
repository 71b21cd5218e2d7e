//! Creating, replacing and dropping search indexes, as the commands of MongoDB do it.
//!
//! An index with another definition is built next to the old one under the same name, which searches use until the new one is
//! ready and replaces it, in one transaction. After a crash the build is resumed like any other.

use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::doc::Collation;
use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;

use crate::catalog::index_spec::IndexSpec;
use crate::catalog::search_index::SearchIndex;
use crate::collection::Collection;
use crate::database::Database;
use crate::index::building;
use crate::maintenance::index_build;

/// How long a call waits for another one's build before it looks again whether there still is one.
const WAIT: Duration = Duration::from_millis(100);

/// What there is of an index with the definition that an update asks for.
enum Begun {
    Ready,
    /// Another call builds it: two builds of one index would be in each other's way.
    ByAnother(i64),
    Here(i64),
}

impl Collection {
    /// Creates search indexes, all of them or no new one, and returns them when they are ready, in the order of their specifications:
    /// `{ name: "by meaning", type: "vectorSearch", definition: { fields: [..] } }`. One that exists already is no error; if another call is still
    /// building it, this one waits for it.
    ///
    /// # Errors
    /// `IndexBuildAborted` if that call fails, or the index is dropped meanwhile; `NamespaceNotFound`; `IndexAlreadyExists` if there is another index of the name; `CannotCreateIndex` for a definition that
    /// is not complete or not supported.
    pub fn create_search_indexes(&self, specs: &[RawDocumentBuf]) -> Result<Vec<SearchIndex>> {
        let specs: Vec<IndexSpec> = specs.iter().map(|spec| IndexSpec::from_document(spec)).collect();
        let names: Vec<String> = specs.iter().map(IndexSpec::index_name).collect::<Result<_>>()?;
        if self.search_indexes()?.is_none() {
            return Err(self.missing());
        }
        self.create_indexes(&specs).map_err(|error| match error.code {
            ErrorCode::IndexKeySpecsConflict | ErrorCode::IndexOptionsConflict => {
                QueryError { code: ErrorCode::IndexAlreadyExists, ..error }
            }
            _ => error,
        })?;
        names.iter().map(|name| self.queryable_search_index(name)).collect()
    }

    /// Waits until another call has built the index of this number.
    fn wait_for_build(&self, id: i64, name: &str) -> Result<()> {
        let inner = &self.database().inner;
        loop {
            let reads = inner.store.begin_read()?;
            let meta = inner.catalog.find(&reads, self.namespace())?.ok_or_else(|| self.missing())?;
            match building(&meta, id) {
                Some((_, None)) => return Ok(()),
                Some((_, Some(_))) => {}
                None => return Err(self.dropped_meanwhile(name)),
            }
            drop(reads);
            inner.builds.wait(WAIT);
        }
    }

    fn dropped_meanwhile(&self, name: &str) -> QueryError {
        let message = format!("{}: the index {name} was dropped while it was being built", self.namespace());
        QueryError::new(ErrorCode::IndexBuildAborted, message)
    }

    /// The search index of this name, once it can be used.
    fn queryable_search_index(&self, name: &str) -> Result<SearchIndex> {
        loop {
            let listed = self.search_indexes()?.unwrap_or_default();
            match listed.into_iter().find(|index| index.name == name) {
                Some(index) if index.queryable => return Ok(index),
                Some(_) => self.database().inner.builds.wait(WAIT),
                None => return Err(self.dropped_meanwhile(name)),
            }
        }
    }

    /// Gives the search index of this name another definition: `{ fields: [..] }`. It returns when the index is ready; until then
    /// searches use the index as it was.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`; `CannotCreateIndex` as for a new index; `IndexBuildAborted` if the index is dropped
    /// meanwhile, or updated once more.
    pub fn update_search_index(&self, name: &str, definition: &RawDocument) -> Result<()> {
        let spec = rawdoc! { "name": name, "type": "vectorSearch", "definition": definition.to_owned() };
        let def = IndexSpec::from_document(&spec).definition(&Collation::Simple)?;
        let (db, namespace) = (self.database(), self.namespace());
        let begun = db.edit(namespace, false, None, |edit| {
            let same_name = |def: &Definition| def.as_vector().is_some_and(|def| def.name == name);
            let mut latest = None;
            for index in edit.meta.indexes.iter().filter(|index| same_name(&index.def)) {
                latest = latest.max(Some((index.id, index.building.is_some())));
            }
            let Some((latest, building)) = latest else { return Err(self.no_search_index(name)) };
            if edit.meta.indexes.iter().any(|index| index.id == latest && index.def == def) {
                return Ok(if building { Begun::ByAnother(latest) } else { Begun::Ready });
            }
            // An unfinished build, of the index or of its replacement, is given up.
            edit.remove_indexes(|index| same_name(&index.def) && index.building.is_some())?;
            index_build::add_empty(edit, &def).map(Begun::Here)
        })?;
        match begun {
            None => Err(self.missing()),
            Some(Begun::Ready) => Ok(()),
            Some(Begun::ByAnother(id)) => self.wait_for_build(id, name),
            Some(Begun::Here(id)) => {
                index_build::build(db, namespace, id, name, &mut |_| {}).or_else(|error| {
                    db.edit(namespace, false, None, |edit| {
                        edit.remove_indexes(|index| index.id == id && index.building.is_some())
                    })?;
                    Err(error)
                })
            }
        }
    }

    /// Drops the search index of this name. An index of another kind that has the name stays.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`.
    pub fn drop_search_index(&self, name: &str) -> Result<()> {
        let dropped = self.database().edit(self.namespace(), false, None, |edit| {
            edit.remove_indexes(|index| index.def.as_vector().is_some_and(|def| def.name == name))
        })?;
        match dropped {
            None => Err(self.missing()),
            Some(false) => Err(self.no_search_index(name)),
            Some(true) => Ok(()),
        }
    }

    fn missing(&self) -> QueryError {
        Database::namespace_not_found(self.namespace())
    }

    fn no_search_index(&self, name: &str) -> QueryError {
        let message = format!("No index with name {name} exists in namespace {}", self.namespace());
        QueryError::new(ErrorCode::IndexNotFound, message)
    }
}
