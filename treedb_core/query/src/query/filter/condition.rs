//! `$expr`: an expression as a filter.

use crate::doc::{Collation, Doc, Element, OwnedValue};
use crate::error::Result;
use crate::query::expr::{Arena, Expr, Globals, Scope, Variables};

/// A parsed expression, with the values of its variables and of `$$NOW`.
#[derive(Debug, Clone)]
pub struct Condition {
    expr: Expr,
    collation: Collation,
    variables: Variables,
    globals: Globals,
    source: OwnedValue,
    /// It is a `$sampleRate`.
    samples: bool,
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.collation == other.collation
    }
}

impl Condition {
    /// Parses the operand of `$expr`, which may use `variables`.
    ///
    /// # Errors
    /// The errors of [`Expr::parse`].
    pub(super) fn parse(operand: &Element<'_>, variables: &Variables) -> Result<Self> {
        Ok(Condition {
            expr: Expr::parse_element(operand, &variables.names(&Collation::Simple))?,
            collation: Collation::Simple,
            variables: variables.clone(),
            globals: variables.globals(),
            source: OwnedValue::from_element(operand),
            samples: false,
        })
    }

    /// The condition of a `$sampleRate`.
    pub(super) fn sampling(self) -> Self {
        Condition { samples: true, ..self }
    }

    /// True for a `$sampleRate`, which says something else each time it is asked.
    pub(super) fn samples(&self) -> bool {
        self.samples
    }

    /// The same expression with another collation.
    ///
    /// # Errors
    /// None: the expression was parsed before.
    pub(super) fn collated(self, collation: &Collation) -> Result<Self> {
        let expr = Expr::parse(self.source.value(), &self.variables.names(collation))?;
        Ok(Condition { expr, collation: collation.clone(), ..self })
    }

    /// Whether the expression evaluates to true for `doc`.
    pub(super) fn is_true(&self, doc: Doc<'_>) -> Result<bool> {
        let arena = Arena::new();
        self.expr.is_true(&mut Scope::new(doc, &self.globals, &arena))
    }
}
