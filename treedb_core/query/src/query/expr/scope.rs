//! [`Scope`]: the document, the variables and the arena of one evaluation.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use bumpalo::Bump;

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};

use super::Found;

/// Bytes that the results of one evaluation may take: MongoDB's limit for one operator.
const MAX_ARENA: usize = 100 * 1024 * 1024;

/// Memory for the results of one evaluation; it is cleared between documents.
#[derive(Debug, Default)]
pub struct Arena(Bump);

impl Arena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees all results.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    fn store(&self, bytes: &[u8]) -> Result<&[u8]> {
        if self.0.allocated_bytes().saturating_add(bytes.len()) > MAX_ARENA {
            return Err(QueryError::new(
                ErrorCode::ExceededMemoryLimit,
                format!("an expression needs more than {MAX_ARENA} bytes for one document"),
            ));
        }
        Ok(self.0.alloc_slice_copy(bytes))
    }
}

/// What parsing an expression needs: the names of the variables it may use, and its collation.
#[derive(Debug, Clone, Default)]
pub struct Names {
    globals: Vec<String>,
    pub(super) locals: Vec<String>,
    collation: Collation,
    has_scores: bool,
}

impl Names {
    /// The names `globals`, in the order of [`Globals::values`].
    pub fn new(globals: Vec<String>) -> Self {
        Names { globals, ..Self::default() }
    }

    /// The same names with another collation.
    pub fn collated(self, collation: Collation) -> Self {
        Names { collation, ..self }
    }

    /// Other global names with the same collation.
    pub fn renamed(&self, globals: Vec<String>) -> Self {
        Names::new(globals).collated(self.collation.clone())
    }

    /// The collation by which strings are compared.
    pub fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The same names, for documents that have scores (`{ $meta: "vectorSearchScore" }`) or have none.
    pub(crate) fn with_scores(self, has_scores: bool) -> Self {
        Names { has_scores, ..self }
    }

    /// True if the documents have scores.
    pub(crate) fn has_scores(&self) -> bool {
        self.has_scores
    }

    /// The names of the whole pipeline.
    pub fn globals(&self) -> &[String] {
        &self.globals
    }

    pub(super) fn find(&self, name: &str) -> Option<super::Base> {
        let local = self.locals.iter().rposition(|local| local == name).map(super::Base::Local);
        local.or_else(|| self.globals.iter().rposition(|global| global == name).map(super::Base::Global))
    }
}

/// What is the same for all documents: the time, and the variables of the command or of a `$lookup`.
#[derive(Debug, Clone, Default)]
pub struct Globals {
    /// `$$NOW`, milliseconds since 1970.
    pub now: i64,
    /// The values of the names given to the parser; `None` for missing.
    pub values: Vec<Option<OwnedValue>>,
    /// The score of the document that the pipeline is at.
    pub score: CurrentScore,
}

impl Globals {
    /// No variables; `$$NOW` is the time of the call.
    pub fn now() -> Self {
        Globals {
            now: bson::DateTime::now().timestamp_millis(),
            values: Vec::new(),
            score: CurrentScore::default(),
        }
    }
}

/// The score of the document that a pipeline is at, which is not part of the document: MongoDB's metadata `vectorSearchScore`. The
/// search in front of the pipeline sets it with each document that it passes on.
#[derive(Debug, Clone, Default)]
pub struct CurrentScore(Option<Arc<AtomicU64>>);

impl CurrentScore {
    /// The score of a pipeline whose documents have scores.
    pub(crate) fn kept() -> Self {
        CurrentScore(Some(Arc::new(AtomicU64::new(f64::NAN.to_bits()))))
    }

    /// True if the documents have scores.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the score of the document that is passed on next.
    pub(crate) fn set(&self, score: Option<f64>) {
        if let Some(current) = &self.0 {
            // The stages of a pipeline run in one thread at a time.
            current.store(score.unwrap_or(f64::NAN).to_bits(), Memory::Relaxed);
        }
    }

    /// The score of the document.
    pub(crate) fn get(&self) -> Option<f64> {
        let score = f64::from_bits(self.0.as_ref()?.load(Memory::Relaxed));
        (!score.is_nan()).then_some(score)
    }
}

/// What one evaluation uses: the document, the variables, the arena and the collation.
#[derive(Debug)]
pub struct Scope<'a> {
    pub(crate) root: Value<'a>,
    pub(crate) current: Value<'a>,
    pub(crate) globals: &'a Globals,
    arena: &'a Arena,
    pub(super) locals: Vec<Found<'a>>,
    /// The collation by which strings are compared: set by the expression that is evaluated.
    pub(super) collation: &'a Collation,
}

impl<'a> Scope<'a> {
    /// The scope of `root`, whose results live in `arena`.
    pub fn new(root: Doc<'a>, globals: &'a Globals, arena: &'a Arena) -> Self {
        let root = Value::Document(root);
        Scope { root, current: root, globals, arena, locals: Vec::new(), collation: &Collation::Simple }
    }

    /// Compares two values in MongoDB's order; missing sorts before null.
    pub(super) fn order(&self, a: Found<'_>, b: Found<'_>) -> Ordering {
        self.collation.compare(a.unwrap_or(Value::Undefined), b.unwrap_or(Value::Undefined))
    }

    /// The same document with `current` as `$$CURRENT`.
    pub(crate) fn at(&self, current: Value<'a>) -> Self {
        Scope { current, locals: Vec::new(), ..*self }
    }

    /// The whole document.
    pub(crate) fn root(&self) -> Value<'a> {
        self.root
    }

    /// A string as a value.
    pub(crate) fn text(&self, text: &str) -> Result<Found<'a>> {
        self.bytes(text.as_bytes()).map(|bytes| Some(Value::String(bytes)))
    }

    /// Bytes that live as long as the evaluation.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<&'a [u8]> {
        self.arena.store(bytes)
    }

    /// An array as a value.
    pub(crate) fn array(&self, array: ArrayWriter) -> Result<Value<'a>> {
        Ok(Value::Array(Doc::new(self.arena.store(&array.into_bytes())?)))
    }

    /// A document as a value.
    pub(crate) fn document(&self, document: Writer) -> Result<Value<'a>> {
        Ok(Value::Document(Doc::new(self.arena.store(&document.into_bytes())?)))
    }

    /// A copy of a value that lives as long as the evaluation.
    pub(crate) fn copy(&self, value: Value<'_>) -> Result<Value<'a>> {
        let mut wrapper = Writer::new(64);
        wrapper.value(b"", value);
        let stored = Doc::new(self.arena.store(&wrapper.into_bytes())?);
        Ok(stored.elements().next().map_or(Value::Undefined, |element| element.value()))
    }

    /// `ExceededMemoryLimit` if a result that is being built has grown too large.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes > MAX_ARENA {
            return Err(QueryError::new(
                ErrorCode::ExceededMemoryLimit,
                format!("an expression needs more than {MAX_ARENA} bytes for one document"),
            ));
        }
        Ok(())
    }
}
