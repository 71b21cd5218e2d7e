//! Creating, replacing and dropping search indexes, as the commands of MongoDB do it.
//!
//! An index with another definition is built next to the old one under the same name, which searches use until the new one is
//! ready and replaces it, in one transaction. After a crash the build is resumed like any other.
//!
//! An index of several fields is several graphs under one name, which become ready in one transaction. A new definition leaves those that it has too as
//! they are; if it has no others, nothing is built.

use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::error::{ErrorCode, QueryError, Result};
use treedb_query::index::Definition;
use treedb_query::index::vector::VectorDef;

use crate::catalog::index_spec::IndexSpec;
use crate::catalog::meta::IndexMeta;
use crate::catalog::search_index::SearchIndex;
use crate::collection::Collection;
use crate::database::Database;
use crate::index::building;
use crate::maintenance::index_build;
use crate::write::edit::Edit;

/// How long a call waits for another one's build before it looks again whether there still is one.
const WAIT: Duration = Duration::from_millis(100);

/// What there is of an index with the definition that an update asks for.
enum Begun {
    Ready,
    /// Another call builds it: two builds of one index would be in each other's way.
    ByAnother(i64),
    /// Fields to build, by id and name.
    Here(Vec<(i64, String)>),
}

/// Begins to give a search index the definition of these fields; `None` if there is none of this name.
fn begin_update(edit: &mut Edit<'_>, name: &str, fields: &[VectorDef]) -> Result<Option<Begun>> {
    let Some(def) = fields.first() else { return Ok(None) };
    let own = || edit.meta.indexes.iter().filter(|index| index.is_of_search_index(name));
    // Those that are being built come last.
    let Some(latest) = own().next_back() else { return Ok(None) };
    let is_same =
        |index: &IndexMeta| fields.iter().any(|field| index.def == Definition::Vector(field.clone()));
    let mut current = own().filter(|index| index.building.is_some() == latest.building.is_some());
    let is_whole = latest.building.is_some() || current.clone().count() == fields.len();
    if is_whole && current.all(is_same) {
        return Ok(Some(if latest.building.is_some() { Begun::ByAnother(latest.id) } else { Begun::Ready }));
    }
    // An unfinished build, of the index or of its replacement, is given up.
    edit.remove_indexes(|index| index.is_of_search_index(name) && index.building.is_some())?;
    let is_there = |field: &&VectorDef| {
        let mut own = edit.meta.indexes.iter().filter(|index| index.is_of_search_index(name));
        own.any(|index| index.def.as_vector().is_some_and(|own| own.is_same_graph(field)))
    };
    let missing: Vec<&VectorDef> = fields.iter().filter(|field| !is_there(field)).collect();
    let others = edit.meta.indexes.iter().filter(|index| !index.is_of_search_index(name)).count();
    index_build::check_count(&edit.meta.namespace, (others + fields.len()).saturating_sub(1))?;
    let mut new = Vec::new();
    for field in &missing {
        let id = index_build::add_empty(edit, &Definition::Vector((*field).clone()))?;
        new.push((id, name.to_owned()));
    }
    if new.is_empty() {
        edit.finish_search_index(def)?;
        return Ok(Some(Begun::Ready));
    }
    Ok(Some(Begun::Here(new)))
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
    /// searches use the index as it was. Fields of vectors that are in both, with the same options, are not built again.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`; `CannotCreateIndex` as for a new index; `IndexBuildAborted` if the index is dropped
    /// meanwhile, or updated once more.
    pub fn update_search_index(&self, name: &str, definition: &RawDocument) -> Result<()> {
        let spec = rawdoc! { "name": name, "type": "vectorSearch", "definition": definition.to_owned() };
        let fields = VectorDef::all_from_spec(&spec)?;
        let (db, namespace) = (self.database(), self.namespace());
        let begun = db.edit(namespace, false, None, |edit| begin_update(edit, name, &fields))?;
        let begun = begun.ok_or_else(|| self.missing())?;
        match begun.ok_or_else(|| self.no_search_index(name))? {
            Begun::Ready => Ok(()),
            Begun::ByAnother(id) => self.wait_for_build(id, name),
            Begun::Here(new) => index_build::build_all(db, namespace, &new, &mut |_| {}),
        }
    }

    /// Drops the search index of this name. An index of another kind that has the name stays.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`.
    pub fn drop_search_index(&self, name: &str) -> Result<()> {
        let dropped = self.database().edit(self.namespace(), false, None, |edit| {
            edit.record_dropped_search_index(name)?;
            edit.remove_indexes(|index| index.is_of_search_index(name))
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
