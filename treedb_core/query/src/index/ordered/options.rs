//! Options of an index: which documents have entries, expiry, how keys are computed.
//!
//! A sparse index omits keys in which none of its fields exists, a partial index omits documents that its
//! filter does not match, a wildcard index has keys for every path below its root. Such an index does not
//! have entries for all rows: a query may only use it if all rows that can match have entries.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::geo_keys::GeoFields;
use super::wildcard::Wildcard;
use crate::doc::Collation;
use crate::error::Result;

/// The options of an index; the default is an index of all rows by the values of the fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexOptions {
    /// What the keys consist of.
    pub kind: Kind,
    /// True if documents without any of the fields have no entries.
    pub sparse: bool,
    /// Which documents have entries; `None` for all.
    pub partial: Option<Partial>,
    /// TTL: a document is deleted this many seconds after the date in the (only) field.
    pub expire_after: Option<i64>,
    /// True if queries do not use the index.
    pub hidden: bool,
    /// What the specification said of `background`, which only listings show.
    pub background: Option<bool>,
    /// The collation by which strings in its keys are compared.
    pub collation: Collation,
}

/// What the keys of an index consist of.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Kind {
    /// The values of the fields.
    #[default]
    Values,
    /// The values of the fields, with a hash of the value for the field at this position of the pattern.
    Hashed(usize),
    /// Each path below a root, with its value.
    Wildcard(Wildcard),
    /// The values of the fields, with cells instead of the locations in some.
    Geo(GeoFields),
}

impl Kind {
    /// True if keys consist of the values of the fields. Each write asks this of each index, so it compares nothing else.
    #[inline]
    pub fn is_values(&self) -> bool {
        matches!(self, Kind::Values)
    }
}

/// The condition of a partial index: which documents have entries.
pub trait Covers: Any + fmt::Debug + Send + Sync {
    /// True if `doc` has entries.
    ///
    /// # Errors
    /// The errors of evaluating the condition.
    fn covers(&self, doc: &RawDocument) -> Result<bool>;

    /// The condition as it was specified.
    fn source(&self) -> &RawDocument;
}

/// The condition of a partial index; shared by the clones of a definition.
#[derive(Debug, Clone)]
pub struct Partial(Arc<dyn Covers>);

impl Partial {
    /// A partial index of the documents that `condition` covers.
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

    /// The condition as it was specified.
    pub fn source(&self) -> RawDocumentBuf {
        self.0.source().to_owned()
    }
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.0.source().as_bytes() == other.0.source().as_bytes()
    }
}
