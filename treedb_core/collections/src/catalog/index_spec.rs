//! An index to create, as the library's users say it.

use bson::raw::{CStr, cstr};
use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};

use treedb_query::doc::Collation;
use treedb_query::error::Result;
use treedb_query::index::ordered::IndexDef;
use treedb_query::query::index_of;

/// An index to create: the specification that `createIndexes` takes.
///
/// ```
/// # use treedb_collections::{IndexSpec, bson::rawdoc};
/// IndexSpec::new(rawdoc! { "mail": 1 }).unique().partial(rawdoc! { "mail": { "$exists": true } });
/// IndexSpec::new(rawdoc! { "seen": 1 }).expire_after(3600);
/// IndexSpec::new(rawdoc! { "attributes.$**": 1 });
/// IndexSpec::new(rawdoc! { "user": "hashed" });
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

    /// The index of a specification in MongoDB's words, as `listIndexes` shows it.
    pub fn from_document(spec: &RawDocument) -> Self {
        IndexSpec { spec: spec.to_owned() }
    }

    fn with(mut self, name: &'static CStr, value: impl Into<RawBson>) -> Self {
        self.spec.append(name, value.into());
        self
    }

    /// The same, refusing duplicate keys.
    pub fn unique(self) -> Self {
        self.with(cstr!("unique"), true)
    }

    /// The same, called `name`.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.with(cstr!("name"), name.into())
    }

    /// The same, without the documents that have none of its fields.
    pub fn sparse(self) -> Self {
        self.with(cstr!("sparse"), true)
    }

    /// The same, of the documents that match `filter` alone.
    pub fn partial(self, filter: RawDocumentBuf) -> Self {
        self.with(cstr!("partialFilterExpression"), filter)
    }

    /// The same, deleting documents when the date in its field has been past for so many seconds.
    pub fn expire_after(self, seconds: u32) -> Self {
        self.with(cstr!("expireAfterSeconds"), i64::from(seconds))
    }

    /// The same, not used by queries.
    pub fn hidden(self) -> Self {
        self.with(cstr!("hidden"), true)
    }

    /// The same, texts compared as `collation` says: `{ locale: "en", strength: 2 }`.
    pub fn collation(self, collation: RawDocumentBuf) -> Self {
        self.with(cstr!("collation"), collation)
    }

    /// The same index of all paths (`{ "$**": 1 }`), but of those that `projection` names or leaves.
    pub fn wildcard_projection(self, projection: RawDocumentBuf) -> Self {
        self.with(cstr!("wildcardProjection"), projection)
    }

    /// The name of the index: the one that was given, or MongoDB's default.
    ///
    /// # Errors
    /// Those of a specification that is not valid.
    pub fn index_name(&self) -> Result<String> {
        Ok(index_of(&self.spec)?.name)
    }

    /// What is asked for, checked, in a collection whose texts compare by `collation`: so they do in an index that does
    /// not name another.
    pub(crate) fn definition(&self, collation: &Collation) -> Result<IndexDef> {
        match collation.document() {
            Some(own) if self.spec.get("collation")?.is_none() => {
                let mut spec = self.spec.clone();
                spec.append(cstr!("collation"), own);
                index_of(&spec)
            }
            _ => index_of(&self.spec),
        }
    }
}

impl From<RawDocumentBuf> for IndexSpec {
    fn from(keys: RawDocumentBuf) -> Self {
        IndexSpec::new(keys)
    }
}
