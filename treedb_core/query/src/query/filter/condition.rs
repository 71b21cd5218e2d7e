//! `$expr`: an expression as a filter.

use crate::doc::{Collation, Doc, Element, OwnedValue};
use crate::error::Result;
use crate::query::expr::{Arena, Expr, Globals, Names, Scope};

/// A parsed expression, with the value of `$$NOW`.
#[derive(Debug, Clone)]
pub struct Condition {
    expr: Expr,
    collation: Collation,
    globals: Globals,
    source: OwnedValue,
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.collation == other.collation
    }
}

impl Condition {
    /// Parses the operand of `$expr`.
    ///
    /// # Errors
    /// The errors of [`Expr::parse`].
    pub(super) fn parse(operand: &Element<'_>) -> Result<Self> {
        Ok(Condition {
            expr: Expr::parse_element(operand, &Names::default())?,
            collation: Collation::Simple,
            globals: Globals::now(),
            source: OwnedValue::from_element(operand),
        })
    }

    /// The same expression with another collation.
    ///
    /// # Errors
    /// None: the expression was parsed before.
    pub(super) fn collated(self, collation: &Collation) -> Result<Self> {
        let names = Names::default().collated(collation.clone());
        let expr = Expr::parse(self.source.value(), &names)?;
        Ok(Condition { expr, collation: collation.clone(), ..self })
    }

    /// Whether the expression evaluates to true for `doc`.
    pub(super) fn is_true(&self, doc: Doc<'_>) -> Result<bool> {
        let arena = Arena::new();
        self.expr.is_true(&mut Scope::new(doc, &self.globals, &arena))
    }
}
