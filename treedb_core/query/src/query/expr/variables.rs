//! [`Variables`]: what a command's `let` defines.

use std::borrow::Cow;

use bson::RawDocument;

use crate::doc::{Collation, Doc, MESSAGE, OwnedValue, validate_with};
use crate::error::{ErrorCode, QueryError, Result};

use super::{Arena, Expr, Globals, Names, Scope};

/// Variables with their values, which the expressions of filters, projections, updates and pipelines use as `$$name`.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    names: Vec<String>,
    /// `None` for missing.
    values: Vec<Option<OwnedValue>>,
}

impl Variables {
    /// None.
    pub const NONE: &'static Variables = &Variables { names: Vec::new(), values: Vec::new() };

    /// Those of a `let`: names, each with an expression, which is evaluated once. Strings compare by `collation`.
    ///
    /// # Errors
    /// `FailedToParse` for a name that no variable can have; those of the expressions.
    pub fn parse(given: &RawDocument, collation: &Collation) -> Result<Self> {
        let (plain, globals) = (Names::default().collated(collation.clone()), Globals::now());
        let mut variables = Variables::default();
        validate_with(given.as_bytes(), MESSAGE)?;
        let arena = Arena::new();
        for variable in Doc::from(given).elements() {
            let name = variable.name_str();
            if name.starts_with('$') || name.is_empty() || name.contains('.') {
                return Err(QueryError::new(
                    ErrorCode::FailedToParse,
                    format!("let: '{name}' cannot name a variable"),
                ));
            }
            let expr = Expr::parse_element(&variable, &plain)?;
            let value = expr.eval(&mut Scope::new(Doc::EMPTY, &globals, &arena))?;
            variables.values.push(value.map(OwnedValue::from_value));
            variables.names.push(name.to_owned());
        }
        Ok(variables)
    }

    /// [`Self::parse`] of a `let` that may be missing.
    ///
    /// # Errors
    /// As there.
    pub fn of(given: Option<&RawDocument>, collation: &Collation) -> Result<Cow<'static, Self>> {
        Ok(match given {
            Some(given) => Cow::Owned(Self::parse(given, collation)?),
            None => Cow::Borrowed(Self::NONE),
        })
    }

    /// The names, for a parser that compares strings by `collation`.
    pub fn names(&self, collation: &Collation) -> Names {
        Names::new(self.names.clone()).collated(collation.clone())
    }

    /// The values, in the order of the names, and the time of the call.
    pub fn globals(&self) -> Globals {
        Globals { values: self.values.clone(), ..Globals::now() }
    }
}
