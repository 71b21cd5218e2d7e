//! Indexes to create.

use bson::{Bson, Document};
use treedb_collections::{IndexBuild, IndexSpec};

use crate::convert::IntoDocument;
use crate::error::Result;
use crate::target::Target;

/// An index: its keys, and its options.
///
/// ```
/// use treedb_core::{IndexModel, bson::doc};
///
/// IndexModel::new(doc! { "year": -1, "title": 1 });
/// IndexModel::new(doc! { "mail": 1 }).unique().partial_filter_expression(doc! { "mail": { "$exists": true } });
/// IndexModel::new(doc! { "seen": 1 }).expire_after(std::time::Duration::from_secs(3600));
/// IndexModel::new(doc! { "attributes.$**": 1 });
/// IndexModel::new(doc! { "user": "hashed" }).name("by_user");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct IndexModel {
    spec: Document,
}

impl IndexModel {
    /// An index on `keys`. Without a name it gets MongoDB's default: `year_-1_title_1`.
    pub fn new(keys: Document) -> Self {
        IndexModel { spec: bson::doc! { "key": keys } }
    }

    /// Any option by MongoDB's name.
    fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.spec.insert(name, value);
        self
    }

    /// Refuses a second document with the same key.
    pub fn unique(self) -> Self {
        self.option("unique", true)
    }

    /// Called `name`.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.option("name", name.into())
    }

    /// Without the documents that have none of its fields.
    pub fn sparse(self) -> Self {
        self.option("sparse", true)
    }

    /// With the documents that match `filter` alone.
    pub fn partial_filter_expression(self, filter: Document) -> Self {
        self.option("partialFilterExpression", filter)
    }

    /// Deletes documents when the date in its field is older than this.
    pub fn expire_after(self, age: std::time::Duration) -> Self {
        self.option("expireAfterSeconds", i64::try_from(age.as_secs()).unwrap_or(i64::MAX))
    }

    /// Kept up to date, but not used by queries.
    pub fn hidden(self) -> Self {
        self.option("hidden", true)
    }

    /// Strings are compared as this says: `doc! { "locale": "en", "strength": 2 }`.
    pub fn collation(self, collation: Document) -> Self {
        self.option("collation", collation)
    }

    /// Which paths an index on `{ "$**": 1 }` has, or leaves out.
    pub fn wildcard_projection(self, projection: Document) -> Self {
        self.option("wildcardProjection", projection)
    }
}

impl From<Document> for IndexModel {
    fn from(keys: Document) -> Self {
        IndexModel::new(keys)
    }
}

/// The action of [`Collection::create_index`](crate::Collection::create_index) and
/// [`create_indexes`](crate::Collection::create_indexes).
#[must_use = "an action does nothing until it is run"]
pub struct CreateIndexes<'c> {
    target: &'c Target,
    indexes: Vec<IndexModel>,
    on_progress: OnProgress<'c>,
}

/// Told how far the build of an index is.
pub(crate) type OnProgress<'c> = Box<dyn FnMut(&IndexBuild) + 'c>;

impl<'c> CreateIndexes<'c> {
    pub(crate) fn new(target: &'c Target, indexes: impl IntoIterator<Item = IndexModel>) -> Self {
        CreateIndexes { target, indexes: indexes.into_iter().collect(), on_progress: Box::new(|_| {}) }
    }

    /// Calls `on_progress` after each step of a build, some thousand documents or fewer, and when an index is ready: then
    /// [`IndexBuild::done`] is [`IndexBuild::total`]. It is not called for an index that exists already. It may use the database: nothing
    /// is locked meanwhile. [`Database::index_builds`](crate::Database::index_builds) tells the same to other threads.
    ///
    /// ```
    /// # use treedb_core::{Database, bson::{Document, doc}};
    /// # fn main() -> treedb_core::Result<()> {
    /// # let db = Database::in_memory()?;
    /// # let films = db.collection::<Document>("films");
    /// films.insert_many((0..10_000).map(|n| doc! { "year": n % 90 })).run()?;
    /// let mut last = 0;
    /// films.create_index(doc! { "year": 1 }).on_progress(|build| {
    ///     println!("{}: {} of {} documents", build.name, build.done, build.total);
    ///     last = build.done;
    /// }).run()?;
    /// assert_eq!(last, 10_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_progress(mut self, on_progress: impl FnMut(&IndexBuild) + 'c) -> Self {
        self.on_progress = Box::new(on_progress);
        self
    }

    /// Creates the indexes and returns their names, once they are ready. One that exists already is no error.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`](crate::Error::DuplicateKey) for a unique index over documents with equal keys;
    /// `CannotCreateIndex`, `IndexOptionsConflict`, `IndexKeySpecsConflict`, `OperationNotSupportedInTransaction`.
    pub fn run(mut self) -> Result<Vec<String>> {
        let collection = self.target.outside("create_index")?;
        let specs: Vec<IndexSpec> = self
            .indexes
            .into_iter()
            .map(|index| Ok(IndexSpec::from_document(&index.spec.into_document()?)))
            .collect::<Result<_>>()?;
        collection.create_indexes_with_progress(&specs, &mut self.on_progress)?;
        specs.iter().map(|spec| Ok(spec.index_name()?)).collect()
    }
}
