//! [`Definition`]: an index of any kind, as the catalog has it.

use std::borrow::Cow;

use bson::{RawDocument, RawDocumentBuf};

use super::ordered::{IndexDef, Partial};
use super::vector::VectorDef;
use crate::doc::Collation;
use crate::error::{ErrorCode, QueryError, Result};

/// The definition of an index: one variant for each kind. What all kinds have is asked for here; what only one has, of
/// the definition of that kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// Keys in order: values of fields, hashes of them, or paths with their values.
    Ordered(IndexDef),
    /// Vectors, near ones linked to each other.
    Vector(VectorDef),
}

impl Definition {
    /// The index on `_id` that every collection has.
    pub fn id() -> Self {
        Definition::Ordered(IndexDef::id())
    }

    /// Parses the specification of an index as in `createIndexes` and `listIndexes`, or in `createSearchIndexes`; see
    /// [`IndexDef::from_spec`] and [`VectorDef::from_spec`].
    ///
    /// # Errors
    /// Those of the kind that the specification describes.
    pub fn from_spec(
        spec: &RawDocument,
        partial: &dyn Fn(&RawDocument, &Collation) -> Result<Partial>,
    ) -> Result<Self> {
        match VectorDef::is_specified_by(spec) {
            true => VectorDef::from_spec(spec).map(Definition::Vector),
            false => IndexDef::from_spec(spec, partial).map(Definition::Ordered),
        }
    }

    /// The indexes of a specification: several if it is of a search index with several fields of vectors.
    ///
    /// # Errors
    /// As [`Self::from_spec`].
    pub fn all_from_spec(
        spec: &RawDocument,
        partial: &dyn Fn(&RawDocument, &Collation) -> Result<Partial>,
    ) -> Result<Vec<Self>> {
        match VectorDef::is_specified_by(spec) {
            true => Ok(VectorDef::all_from_spec(spec)?.into_iter().map(Definition::Vector).collect()),
            false => Ok(vec![Self::from_spec(spec, partial)?]),
        }
    }

    /// Its name, unique in its collection, but for the fields of one search index.
    #[inline]
    pub fn name(&self) -> &str {
        match self {
            Definition::Ordered(def) => &def.name,
            Definition::Vector(def) => &def.name,
        }
    }

    /// The name, with the field if it is one of several of a search index.
    pub fn shown_name(&self) -> Cow<'_, str> {
        match self {
            Definition::Ordered(def) => Cow::Borrowed(&def.name),
            Definition::Vector(def) => Cow::Owned(def.shown_name()),
        }
    }

    /// The specification as in `listIndexes` or `$listSearchIndexes`; [`Self::from_spec`] parses it.
    pub fn spec(&self) -> RawDocumentBuf {
        match self {
            Definition::Ordered(def) => def.spec(),
            Definition::Vector(def) => def.spec(),
        }
    }

    /// The key pattern, by which requests may name the index.
    pub fn key_pattern(&self) -> RawDocumentBuf {
        match self {
            Definition::Ordered(def) => def.key_pattern(),
            Definition::Vector(def) => def.key_pattern(),
        }
    }

    /// Whether `existing`, an index of the same collection, already is the index of this definition.
    ///
    /// # Errors
    /// `IndexKeySpecsConflict` or `IndexOptionsConflict` if a collection cannot have both.
    pub fn is_same_as(&self, existing: &Definition) -> Result<bool> {
        match (self, existing) {
            (Definition::Ordered(def), Definition::Ordered(existing)) => def.is_same_as(existing),
            (Definition::Vector(def), Definition::Vector(existing)) => def.is_same_as(existing),
            _ if self.name() == existing.name() => Err(QueryError::new(
                ErrorCode::IndexKeySpecsConflict,
                format!(
                    "An existing index of another kind has the name {}: drop it first, or choose another name.",
                    self.name()
                ),
            )),
            _ => Ok(false),
        }
    }

    /// True for the index on `_id`.
    pub fn is_id(&self) -> bool {
        self.as_ordered().is_some_and(IndexDef::is_id)
    }

    /// The definition of an ordered index; `None` for other kinds.
    #[inline]
    pub fn as_ordered(&self) -> Option<&IndexDef> {
        match self {
            Definition::Ordered(def) => Some(def),
            Definition::Vector(_) => None,
        }
    }

    /// The definition of a vector index; `None` for other kinds.
    pub fn as_vector(&self) -> Option<&VectorDef> {
        match self {
            Definition::Vector(def) => Some(def),
            Definition::Ordered(_) => None,
        }
    }

    /// [`Self::as_vector`], to change options.
    pub fn as_vector_mut(&mut self) -> Option<&mut VectorDef> {
        match self {
            Definition::Vector(def) => Some(def),
            Definition::Ordered(_) => None,
        }
    }

    /// [`Self::as_ordered`], to change options.
    pub fn as_ordered_mut(&mut self) -> Option<&mut IndexDef> {
        match self {
            Definition::Ordered(def) => Some(def),
            Definition::Vector(_) => None,
        }
    }
}

impl From<IndexDef> for Definition {
    fn from(def: IndexDef) -> Self {
        Definition::Ordered(def)
    }
}
