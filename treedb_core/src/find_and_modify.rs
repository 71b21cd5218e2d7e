//! Changing one document and returning it, atomically.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use treedb_collections::{FindAndModifyRequest, FindRequest};
use treedb_query::query::Changes;

use crate::Hint;
use crate::convert::{Deferred, IntoDocument, IntoPipeline, UpdateModifications};
use crate::cursor::decode;
use crate::error::Result;
use crate::target::Target;
use crate::update::{operators, whole};

/// Which version of a document is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReturnDocument {
    /// The one before the change.
    #[default]
    Before,
    /// The one after it.
    After,
}

/// What the three actions share.
struct Modify<'c> {
    target: &'c Target,
    request: FindAndModifyRequest,
    deferred: Deferred,
    update: Option<Result<Changes>>,
}

impl<'c> Modify<'c> {
    fn new(target: &'c Target, filter: impl IntoDocument, update: Option<Result<Changes>>) -> Self {
        let mut deferred = Deferred::default();
        let find = FindRequest { filter: deferred.take(filter), ..FindRequest::default() };
        Modify { target, request: FindAndModifyRequest { find, ..Default::default() }, deferred, update }
    }

    fn run<T: DeserializeOwned>(mut self) -> Result<Option<T>> {
        self.deferred.check()?;
        self.request.update = self.update.transpose()?;
        self.target.find_and_modify(self.request)?.map(|document| decode(&document)).transpose()
    }
}

/// Options of an action that is a `Modify` and its type.
macro_rules! options {
    (find) => {
        /// The first in this order.
        pub fn sort(mut self, sort: impl IntoDocument) -> Self {
            self.modify.request.find.sort = self.modify.deferred.take(sort);
            self
        }

        /// With these fields.
        pub fn projection(mut self, projection: impl IntoDocument) -> Self {
            self.modify.request.find.projection = self.modify.deferred.take(projection);
            self
        }

        /// Found with the index of this name or key pattern.
        pub fn hint(mut self, index: impl Into<Hint>) -> Self {
            self.modify.request.find.hint = Some(index.into());
            self
        }

        /// Strings are compared as this says.
        pub fn collation(mut self, collation: impl IntoDocument) -> Self {
            self.modify.request.find.collation = self.modify.deferred.take(collation);
            self
        }

        /// Changes the document and returns it; `None` if none matches.
        ///
        /// # Errors
        /// Those of a find and of an update.
        pub fn run(self) -> Result<Option<T>>
        where
            T: DeserializeOwned,
        {
            self.modify.run()
        }
    };
    (change) => {
        /// Inserts a document if none matches.
        pub fn upsert(mut self, upsert: bool) -> Self {
            self.modify.request.upsert = upsert;
            self
        }

        /// Returns the document as it was before the change (the default) or as it is after it.
        pub fn return_document(mut self, which: ReturnDocument) -> Self {
            self.modify.request.after = which == ReturnDocument::After;
            self
        }
    };
}

/// The action of [`Collection::find_one_and_update`](crate::Collection::find_one_and_update).
#[must_use = "an action does nothing until it is run"]
pub struct FindOneAndUpdate<'c, T> {
    modify: Modify<'c>,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> FindOneAndUpdate<'c, T> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument, update: UpdateModifications) -> Self {
        FindOneAndUpdate { modify: Modify::new(target, filter, Some(operators(update))), kind: PhantomData }
    }

    options!(find);
    options!(change);

    /// The conditions of the elements that `$[name]` in the update's paths stands for.
    pub fn array_filters(mut self, filters: impl IntoPipeline) -> Self {
        match filters.into_pipeline() {
            Ok(filters) => self.modify.request.array_filters = filters,
            Err(error) => self.modify.update = Some(Err(error)),
        }
        self
    }
}

/// The action of [`Collection::find_one_and_replace`](crate::Collection::find_one_and_replace).
#[must_use = "an action does nothing until it is run"]
pub struct FindOneAndReplace<'c, T> {
    modify: Modify<'c>,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> FindOneAndReplace<'c, T> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument, replacement: &impl Serialize) -> Self {
        FindOneAndReplace { modify: Modify::new(target, filter, Some(whole(replacement))), kind: PhantomData }
    }

    options!(find);
    options!(change);
}

/// The action of [`Collection::find_one_and_delete`](crate::Collection::find_one_and_delete).
#[must_use = "an action does nothing until it is run"]
pub struct FindOneAndDelete<'c, T> {
    modify: Modify<'c>,
    kind: PhantomData<fn() -> T>,
}

impl<'c, T> FindOneAndDelete<'c, T> {
    pub(crate) fn new(target: &'c Target, filter: impl IntoDocument) -> Self {
        FindOneAndDelete { modify: Modify::new(target, filter, None), kind: PhantomData }
    }

    options!(find);
}
