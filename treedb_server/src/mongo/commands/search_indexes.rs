//! `createSearchIndexes`, `updateSearchIndex`, `dropSearchIndex` and `listSearchIndexes`: indexes of vectors.
//!
//! The first two reply when the index is ready, also if another client is building it. MongoDB replies at once, and its drivers then ask for the status until it is
//! `READY`: here they find that the first time.

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};
use treedb_collections::{Collection, SearchIndex};
use treedb_query::query::ErrorCode;

use super::Result;
use super::list_collections::batch_size;
use super::request::{Request, done};
use crate::mongo::args::{Arg, args};
use crate::mongo::cursors::{Cursor, Deadline};
use crate::mongo::error::CommandError;

/// The type of index that there is.
const TYPE: &str = "vectorSearch";
/// The name of an index that is given none: MongoDB's.
const DEFAULT_NAME: &str = "default";

/// `createSearchIndexes`.
pub(super) fn create(request: &Request<'_>) -> Result {
    for arg in request.args() {
        let arg = arg?;
        if arg.name != "indexes" {
            arg.ignored_or_unknown()?;
        }
    }
    let collection = request.collection()?;
    request.only_sequence("indexes")?;
    let specs: Vec<RawDocumentBuf> =
        request.documents("indexes")?.into_iter().map(specification).collect::<Result<_>>()?;
    if specs.is_empty() {
        return Err(CommandError::new(ErrorCode::BadValue, "Must specify at least one index to create"));
    }
    let created = collection.create_search_indexes(&specs)?;
    let names: Vec<&str> = created.iter().map(|index| index.name.as_str()).collect();
    tracing::info!(namespace = %collection.namespace(), indexes = ?names, "search indexes created");
    let mut list = RawArrayBuf::new();
    for index in &created {
        list.push(rawdoc! { "id": index.id.as_str(), "name": index.name.as_str() });
    }
    Ok(rawdoc! { "indexesCreated": list })
}

/// Reads one of the `indexes`: its type is checked here, its definition by the engine.
fn specification(spec: &RawDocument) -> Result {
    let (mut name, mut definition, mut kind) = (DEFAULT_NAME, None, "search");
    for arg in args("createSearchIndexes.indexes", spec) {
        let arg = arg?;
        match arg.name {
            "name" => name = arg.str()?,
            "definition" => definition = Some(arg.document()?),
            "type" => kind = arg.str()?,
            _ => arg.nested_ignored_or_unknown()?,
        }
    }
    refuse_other_types(kind)?;
    let definition =
        definition.ok_or_else(|| CommandError::missing("createSearchIndexes.indexes.definition"))?;
    Ok(rawdoc! { "name": name, "type": TYPE, "definition": definition.to_owned() })
}

fn refuse_other_types(kind: &str) -> Result<()> {
    match kind {
        TYPE => Ok(()),
        "search" => Err(CommandError::not_implemented(
            "search indexes of type \"search\", which is the default, are not supported: there are those of type \
             \"vectorSearch\", for vectors",
        )),
        other => Err(CommandError::new(
            ErrorCode::BadValue,
            format!("the type of a search index is \"{TYPE}\", not \"{other}\""),
        )),
    }
}

/// Which index a command is about: its name or its id.
#[derive(Default)]
struct Which<'a> {
    name: Option<&'a str>,
    id: Option<&'a str>,
}

impl<'a> Which<'a> {
    /// Reads an argument; false if it is another one.
    fn read(&mut self, arg: &Arg<'a>) -> Result<bool> {
        match arg.name {
            "name" => self.name = Some(arg.str()?),
            "id" => self.id = Some(arg.str()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn is_meant(&self, index: &SearchIndex) -> bool {
        self.name.is_none_or(|name| name == index.name) && self.id.is_none_or(|id| id == index.id)
    }

    /// The index.
    fn find(&self, command: &str, collection: &Collection) -> Result<SearchIndex> {
        let namespace = collection.namespace();
        let (kind, value) = match (self.name, self.id) {
            (Some(name), None) => ("name", name),
            (None, Some(id)) => ("id", id),
            _ => {
                return Err(CommandError::new(
                    ErrorCode::InvalidOptions,
                    format!("{command} names its index by either 'name' or 'id'"),
                ));
            }
        };
        let indexes = collection.search_indexes()?.ok_or_else(|| {
            let message = format!("Collection '{namespace}' does not exist.");
            CommandError::new(ErrorCode::NamespaceNotFound, message)
        })?;
        indexes.into_iter().find(|index| self.is_meant(index)).ok_or_else(|| {
            let message = format!("No index with {kind} {value} exists in namespace {namespace}");
            CommandError::new(ErrorCode::IndexNotFound, message)
        })
    }
}

/// `updateSearchIndex`.
pub(super) fn update(request: &Request<'_>) -> Result {
    let (mut which, mut definition) = (Which::default(), None);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            _ if which.read(&arg)? => {}
            "definition" => definition = Some(arg.document()?),
            "type" => refuse_other_types(arg.str()?)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let definition = definition.ok_or_else(|| CommandError::missing("updateSearchIndex.definition"))?;
    let collection = request.collection()?;
    let index = which.find("updateSearchIndex", &collection)?;
    collection.update_search_index(&index.name, definition)?;
    tracing::info!(namespace = %collection.namespace(), index = index.name, "search index updated");
    done()
}

/// `dropSearchIndex`.
pub(super) fn drop(request: &Request<'_>) -> Result {
    let mut which = Which::default();
    for arg in request.args() {
        let arg = arg?;
        if !which.read(&arg)? {
            arg.ignored_or_unknown()?;
        }
    }
    let collection = request.collection()?;
    let index = which.find("dropSearchIndex", &collection)?;
    collection.drop_search_index(&index.name)?;
    tracing::info!(namespace = %collection.namespace(), index = index.name, "search index dropped");
    done()
}

/// `listSearchIndexes`: what the stage `$listSearchIndexes` returns.
pub(super) fn list(request: &Request<'_>) -> Result {
    let (mut which, mut batch) = (Which::default(), usize::MAX);
    for arg in request.args() {
        let arg = arg?;
        match arg.name {
            _ if which.read(&arg)? => {}
            "cursor" => batch = batch_size(arg.document()?, batch)?,
            _ => arg.ignored_or_unknown()?,
        }
    }
    let collection = request.collection()?;
    let indexes = collection.search_indexes()?.unwrap_or_default();
    let listed: Vec<Result<RawDocumentBuf>> =
        indexes.iter().filter(|index| which.is_meant(index)).map(|index| Ok(index.listed())).collect();
    let cursor = Cursor::new(collection.namespace().to_string(), Box::new(listed.into_iter()));
    request.context.cursors.first(request, cursor, batch, false, Deadline::NEVER)
}
