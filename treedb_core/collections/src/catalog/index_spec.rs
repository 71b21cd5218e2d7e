//! The specification of an index to create.

use bson::raw::{CStr, cstr};
use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::doc::Collation;
use treedb_query::error::Result;
use treedb_query::index::Definition;
use treedb_query::query::new_definitions_of;

/// An index to create: the specification that `createIndexes` takes.
///
/// ```
/// # use treedb_collections::{IndexSpec, bson::rawdoc};
/// IndexSpec::new(rawdoc! { "mail": 1 }).unique().partial(rawdoc! { "mail": { "$exists": true } });
/// IndexSpec::new(rawdoc! { "seen": 1 }).expire_after(3600);
/// IndexSpec::new(rawdoc! { "attributes.$**": 1 });
/// IndexSpec::new(rawdoc! { "user": "hashed" });
/// IndexSpec::new(rawdoc! { "place": "2dsphere", "kind": 1 });
/// IndexSpec::vector(rawdoc! { "path": "embedding", "numDimensions": 384, "similarity": "cosine" }).name("by meaning");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSpec {
    spec: RawDocumentBuf,
}

impl IndexSpec {
    /// An index on `keys`: `{ year: 1, title: -1 }`, `{ user: "hashed" }`, `{ "$**": 1 }`. Without a name it gets
    /// MongoDB's default, `year_1_title_-1`.
    pub fn new(keys: RawDocumentBuf) -> Self {
        IndexSpec { spec: rawdoc! { "key": keys } }
    }

    /// An index of the vectors in a field, as `createSearchIndexes` describes it: `path`, `numDimensions`, `similarity` (`cosine`,
    /// `dotProduct`, `euclidean`) and, if wanted, `quantization` (`none`, `scalar`, `binary`, `bits2`, `bits4`) and `hnswOptions` (`maxEdges`,
    /// `numEdgeCandidates`). Without a name it is called `embedding_vectorSearch`.
    ///
    /// A document is in the index if the field is an array of so many numbers, or binary data of subtype 9.
    pub fn vector(field: RawDocumentBuf) -> Self {
        let mut vector = rawdoc! { "type": "vector" };
        for (name, value) in field.iter().flatten() {
            vector.append(name, value);
        }
        let mut fields = RawArrayBuf::new();
        fields.push(vector);
        IndexSpec { spec: rawdoc! { "type": "vectorSearch", "definition": { "fields": fields } } }
    }

    /// The index that a `createIndexes` or `listIndexes` document describes.
    pub fn from_document(spec: &RawDocument) -> Self {
        IndexSpec { spec: spec.to_owned() }
    }

    fn with(mut self, name: &'static CStr, value: impl Into<RawBson>) -> Self {
        self.spec.append(name, value.into());
        self
    }

    /// Refuses duplicate keys.
    pub fn unique(self) -> Self {
        self.with(cstr!("unique"), true)
    }

    /// Sets the name.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.with(cstr!("name"), name.into())
    }

    /// Leaves out the documents that have none of its fields.
    pub fn sparse(self) -> Self {
        self.with(cstr!("sparse"), true)
    }

    /// Indexes only the documents that match `filter`.
    pub fn partial(self, filter: RawDocumentBuf) -> Self {
        self.with(cstr!("partialFilterExpression"), filter)
    }

    /// Deletes documents `seconds` after the date in the indexed field.
    pub fn expire_after(self, seconds: u32) -> Self {
        self.with(cstr!("expireAfterSeconds"), i64::from(seconds))
    }

    /// Hides the index from queries.
    pub fn hidden(self) -> Self {
        self.with(cstr!("hidden"), true)
    }

    /// Compares strings by this collation: `{ locale: "en", strength: 2 }`.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        self.with(cstr!("collation"), collation)
    }

    /// Restricts an index of all paths (`{ "$**": 1 }`) to those that `projection` includes.
    pub fn wildcard_projection(self, projection: RawDocumentBuf) -> Self {
        self.with(cstr!("wildcardProjection"), projection)
    }

    /// The name of the index: the one that was given, or MongoDB's default.
    ///
    /// # Errors
    /// If the specification is not valid.
    pub fn index_name(&self) -> Result<String> {
        Ok(new_definitions_of(&self.spec)?.first().map(Definition::name).unwrap_or_default().to_owned())
    }

    /// The checked definitions for a collection whose default is `collation`, which an index without a collation of its own
    /// inherits: several of a search index with several fields of vectors, otherwise one.
    pub(crate) fn definitions(&self, collation: &Collation) -> Result<Vec<Definition>> {
        match collation.document() {
            Some(own) if self.spec.get("collation")?.is_none() => {
                let mut spec = self.spec.clone();
                spec.append(cstr!("collation"), own);
                new_definitions_of(&spec)
            }
            _ => new_definitions_of(&self.spec),
        }
    }

    /// The only one of these definitions.
    #[cfg(test)]
    pub(crate) fn definition(&self, collation: &Collation) -> Result<Definition> {
        let mut all = self.definitions(collation)?;
        assert_eq!(all.len(), 1);
        Ok(all.remove(0))
    }
}

impl From<RawDocumentBuf> for IndexSpec {
    fn from(keys: RawDocumentBuf) -> Self {
        IndexSpec::new(keys)
    }
}
