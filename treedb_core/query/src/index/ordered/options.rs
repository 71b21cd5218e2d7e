//! Options of an index: which documents it holds, expiry, how its keys are made.
//!
//! A sparse index omits keys in which none of its fields exists, a partial index the documents that its filter does not
//! match, a wildcard index has keys for every path below its root. Such an index does not list all rows: whoever walks it
//! must know that the rows looked for have entries.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::wildcard::Wildcard;
use crate::doc::Collation;
use crate::error::Result;

/// The options of an index; the default is an index of all rows, by plain values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexOptions {
    /// What the keys are made of.
    pub kind: Kind,
    /// True if keys without any of the fields are left out.
    pub sparse: bool,
    /// Which documents have entries; `None` for all.
    pub partial: Option<Partial>,
    /// Seconds after the date in the (only) field at which a document is deleted.
    pub expire_after: Option<i64>,
    /// True if queries do not use it.
    pub hidden: bool,
    /// How strings in its keys compare.
    pub collation: Collation,
}

/// What the keys of an index are made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Kind {
    /// The values of the fields.
    #[default]
    Values,
    /// The same, but of the field at this position of the pattern a hash of the value.
    Hashed(usize),
    /// Each path below a root, with its value.
    Wildcard(Wildcard),
}

/// Tells which documents a partial index has entries for.
pub trait Covers: Any + fmt::Debug + Send + Sync {
    /// True if `doc` has entries.
    ///
    /// # Errors
    /// Those of evaluating the condition.
    fn covers(&self, doc: &RawDocument) -> Result<bool>;

    /// The condition as it was given.
    fn source(&self) -> &RawDocument;
}

/// The condition of a partial index; shared by the clones of a definition.
#[derive(Debug, Clone)]
pub struct Partial(Arc<dyn Covers>);

impl Partial {
    /// The documents that `condition` covers.
    pub fn new(condition: impl Covers) -> Self {
        Partial(Arc::new(condition))
    }

    /// The condition, if it is a `T`.
    pub fn condition<T: Covers>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    /// True if `doc` has entries.
    pub(super) fn covers(&self, doc: &RawDocument) -> Result<bool> {
        self.0.covers(doc)
    }

    /// The condition as it was given.
    pub fn source(&self) -> RawDocumentBuf {
        self.0.source().to_owned()
    }
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.0.source().as_bytes() == other.0.source().as_bytes()
    }
}
