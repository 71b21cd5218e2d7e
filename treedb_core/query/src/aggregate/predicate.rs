//! [`Predicate`]: the condition of a `$match`, which the optimizer can take apart.
//!
//! It is a filter and any number of expressions (`$expr`), which, unlike those of a filter, may use the pipeline's
//! variables.

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, OwnedValue, Value};
use crate::error::Result;
use crate::query::Filter;
use crate::query::expr::{Arena, Expr, Globals, Names, Scope};
use crate::query::filter::document_without_samples;

/// The condition of a `$match`.
#[derive(Debug)]
pub(crate) struct Predicate {
    filter: Filter,
    collation: Collation,
    /// The filter as it was written, without the expressions.
    source: RawDocumentBuf,
    expressions: Vec<Condition>,
    equalities: Vec<Equality>,
}

/// A path that an expression compares with a variable, and the variable.
type Equality = (String, Expr);

/// An expression that must be true, and how it was written.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) expr: Expr,
    source: OwnedValue,
}

/// A part of a predicate, which is true if all of its conjuncts are.
#[derive(Debug, Clone)]
pub(crate) enum Conjunct {
    /// A filter without an expression at its top level.
    Filter(Filter),
    /// An expression, and the equalities in it.
    Expr(Condition, Vec<Equality>),
}

impl Predicate {
    /// Reads the operand of a `$match`.
    pub(crate) fn parse(operand: Doc<'_>, names: &Names) -> Result<Predicate> {
        let (mut expressions, mut equalities) = (Vec::new(), Vec::new());
        let rest = without_expressions(operand, &mut |condition| {
            expressions.push(Condition {
                expr: Expr::parse(condition, names)?,
                source: OwnedValue::from_value(condition),
            });
            find_equalities(condition, names, &mut equalities)
        })?;
        Self::new(rest, names.collation(), expressions, equalities)
    }

    fn new(
        source: RawDocumentBuf,
        collation: &Collation,
        expressions: Vec<Condition>,
        equalities: Vec<Equality>,
    ) -> Result<Predicate> {
        let filter = Filter::parse(&source)?.collated(collation)?;
        Ok(Predicate { filter, collation: collation.clone(), source, expressions, equalities })
    }

    /// The predicate that is a filter.
    pub(crate) fn from_filter(filter: &RawDocument, collation: &Collation) -> Result<Predicate> {
        Self::new(filter.to_owned(), collation, Vec::new(), Vec::new())
    }

    /// How strings compare.
    pub(crate) fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The predicate as the operand of a `$match`.
    pub(crate) fn to_document(&self) -> RawDocumentBuf {
        if self.expressions.is_empty() {
            return self.source.clone();
        }
        let mut all = ArrayWriter::new();
        for condition in &self.expressions {
            let mut one = Writer::new(64);
            one.value(b"$expr", condition.source.value());
            all.push(Value::Document(Doc::new(&one.into_bytes())));
        }
        if !Doc::from(&self.source).is_empty() {
            all.push(Value::Document(Doc::from(&self.source)));
        }
        let mut out = Writer::new(64);
        out.value(b"$and", Value::Array(Doc::new(&all.into_bytes())));
        out.finish()
    }

    /// The conjuncts.
    ///
    /// # Errors
    /// None: all parts were parsed before.
    pub(crate) fn conjuncts(&self) -> Result<Vec<Conjunct>> {
        let mut all = Vec::new();
        add_conjuncts(Doc::from(&self.source), &self.collation, &mut all)?;
        if let [condition] = self.expressions.as_slice() {
            all.push(Conjunct::Expr(condition.clone(), self.equalities.clone()));
        } else {
            all.extend(
                self.expressions.iter().map(|condition| Conjunct::Expr(condition.clone(), Vec::new())),
            );
            // It does not matter which expression an equality comes from while all stay in one predicate.
            if let Some(Conjunct::Expr(_, equal)) = all.last_mut() {
                equal.clone_from(&self.equalities);
            }
        }
        Ok(all)
    }

    /// The predicate with these conjuncts.
    ///
    /// # Errors
    /// None: all parts were parsed before.
    pub(crate) fn join(conjuncts: &[Conjunct], collation: &Collation) -> Result<Predicate> {
        let (mut filters, mut expressions, mut equalities) = (Vec::new(), Vec::new(), Vec::new());
        for conjunct in conjuncts {
            match conjunct {
                Conjunct::Filter(filter) => filters.push(filter.source().to_owned()),
                Conjunct::Expr(condition, own) => {
                    expressions.push(condition.clone());
                    equalities.extend(own.iter().cloned());
                }
            }
        }
        let source = if filters.len() < 2 {
            filters.pop().unwrap_or_default()
        } else {
            let mut all = RawArrayBuf::new();
            filters.into_iter().for_each(|filter| all.push(filter));
            rawdoc! { "$and": all }
        };
        Self::new(source, collation, expressions, equalities)
    }

    /// Adds the top-level fields that the predicate reads to `names`; `None` if it may be any.
    pub(crate) fn reads(&self, names: &mut Vec<String>) -> Option<()> {
        let mut whole = false;
        match self.filter.reads() {
            Some(plain) => names.extend(plain),
            None => whole = true,
        }
        for condition in &self.expressions {
            let reads = condition.expr.reads();
            whole |= reads.whole;
            names.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        }
        (!whole).then_some(())
    }

    /// Filters that all documents of the result match, for the planner.
    pub(crate) fn planner_filters(&self, globals: &Globals) -> Vec<RawDocumentBuf> {
        let mut all = Vec::new();
        let source = Doc::from(&self.source);
        if !source.is_empty() {
            // What the stage evaluates too must not sample twice.
            all.push(match self.has_expressions() {
                true => document_without_samples(source),
                false => self.source.clone(),
            });
        }
        let arena = Arena::new();
        for (path, expr) in &self.equalities {
            let value = expr.eval(&mut Scope::new(Doc::EMPTY, globals, &arena));
            // A filter compares an array element by element. With other values it finds what the expression does or more.
            if let Ok(Some(value)) = value
                && !matches!(value, Value::Array(_) | Value::Undefined | Value::Regex(..))
            {
                let mut out = Writer::new(64);
                let open = out.open_document(path.as_bytes());
                out.value(b"$eq", value);
                out.close(open);
                all.push(out.finish());
            }
        }
        all
    }

    /// True if a document matches.
    ///
    /// # Errors
    /// Those of the expressions.
    pub(crate) fn matches(
        &self,
        document: &RawDocument,
        globals: &Globals,
        arena: &mut Arena,
    ) -> Result<bool> {
        if !self.filter.matches(document)? {
            return Ok(false);
        }
        for condition in &self.expressions {
            arena.clear();
            if !condition.expr.is_true(&mut Scope::new(Doc::from(document), globals, arena))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the predicate is more than the filters of [`Self::planner_filters`].
    pub(crate) fn has_expressions(&self) -> bool {
        !self.expressions.is_empty()
    }
}

/// Adds the fields of a filter as one conjunct each, also those within `$and`.
fn add_conjuncts(filter: Doc<'_>, collation: &Collation, all: &mut Vec<Conjunct>) -> Result<()> {
    for element in filter.elements() {
        match (element.name, element.value()) {
            (b"$and", Value::Array(parts)) => {
                for part in parts.elements() {
                    if let Value::Document(part) = part.value() {
                        add_conjuncts(part, collation, all)?;
                    }
                }
            }
            _ => {
                let mut one = Writer::new(element.bytes.len() + 32);
                one.copy(&element);
                all.push(Conjunct::Filter(Filter::parse(&one.finish())?.collated(collation)?));
            }
        }
    }
    Ok(())
}

/// The filter without the `$expr` at its top level, each of which is given to `found`.
fn without_expressions(
    filter: Doc<'_>,
    found: &mut dyn FnMut(Value<'_>) -> Result<()>,
) -> Result<RawDocumentBuf> {
    let mut out = Writer::new(filter.as_bytes().len());
    for element in filter.elements() {
        match (element.name, element.value()) {
            (b"$expr", condition) => found(condition)?,
            (b"$and", Value::Array(all)) if !all.is_empty() => {
                let mut rest = ArrayWriter::new();
                for one in all.elements() {
                    match one.value() {
                        Value::Document(doc) => {
                            let kept = without_expressions(doc, found)?;
                            rest.push(Value::Document(Doc::from(&kept)));
                        }
                        other => rest.push(other),
                    }
                }
                out.value(b"$and", Value::Array(Doc::new(&rest.into_bytes())));
            }
            _ => out.copy(&element),
        }
    }
    Ok(out.finish())
}

/// Finds `{ $eq: ["$field", "$$variable"] }`, also within `$and`.
fn find_equalities(condition: Value<'_>, names: &Names, equalities: &mut Vec<Equality>) -> Result<()> {
    let Value::Document(doc) = condition else { return Ok(()) };
    let Some(element) = doc.elements().next() else { return Ok(()) };
    match (element.name, element.value()) {
        (b"$and", Value::Array(all)) => {
            for one in all.elements() {
                find_equalities(one.value(), names, equalities)?;
            }
        }
        (b"$eq", Value::Array(sides)) => {
            let sides: Vec<_> = sides.elements().map(|side| side.value()).collect();
            let &[a, b] = sides.as_slice() else { return Ok(()) };
            for (field, other) in [(a, b), (b, a)] {
                let (Value::String(field), Value::String(other)) = (field, other) else { continue };
                let field = std::str::from_utf8(field).unwrap_or_default();
                let variable = other.starts_with(b"$$")
                    && !other.starts_with(b"$$ROOT")
                    && !other.starts_with(b"$$CURRENT");
                if let Some(path) = field.strip_prefix('$')
                    && !path.starts_with('$')
                    && variable
                {
                    equalities.push((path.to_owned(), Expr::parse(Value::String(other), names)?));
                }
            }
        }
        _ => {}
    }
    Ok(())
}
