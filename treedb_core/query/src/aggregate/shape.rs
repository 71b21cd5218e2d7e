//! `$match`, and the stages that make a document of each document.

use std::sync::Arc;

use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, Element, OwnedValue, Value};
use crate::error::Result;
use crate::query::expr::{Arena, Expr, Globals, Names, Scope};
use crate::query::{Filter, Reshape};

use super::pipeline::Stage;
use super::stream::{Docs, Stream, Visit};
use super::world::Context;

/// `$match`: what a filter can say, and expressions (`$expr`) that may use the pipeline's variables.
#[derive(Debug)]
pub(super) struct Match {
    filter: Filter,
    collation: Collation,
    source: RawDocumentBuf,
    conditions: Vec<Condition>,
    /// Fields that a condition compares with a variable: `path`, variable's value.
    equal: Vec<(String, Expr)>,
}

/// An expression as a condition, and how it was written.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) expr: Expr,
    source: OwnedValue,
}

/// A part of a `$match`: what all parts are true of, the whole is.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// A filter that has no expression at its top.
    Plain(Filter),
    /// An expression, and the fields it compares with variables.
    Condition(Condition, Vec<(String, Expr)>),
}

impl Match {
    pub(super) fn parse(stage: &Element<'_>, names: &Names) -> Result<Match> {
        let (mut conditions, mut equal) = (Vec::new(), Vec::new());
        let rest = without_expressions(super::document(stage)?, &mut |condition| {
            conditions.push(Condition {
                expr: Expr::parse(condition, names)?,
                source: OwnedValue::from_value(condition),
            });
            equalities(condition, names, &mut equal)
        })?;
        Self::new(rest, names.collation(), conditions, equal)
    }

    fn new(
        source: RawDocumentBuf,
        collation: &Collation,
        conditions: Vec<Condition>,
        equal: Vec<(String, Expr)>,
    ) -> Result<Match> {
        let filter = Filter::parse(&source)?.collated(collation)?;
        Ok(Match { filter, collation: collation.clone(), source, conditions, equal })
    }

    /// The documents that `filter` matches.
    pub(super) fn of(filter: &RawDocument, collation: &Collation) -> Result<Match> {
        Self::new(filter.to_owned(), collation, Vec::new(), Vec::new())
    }

    /// How texts compare.
    pub(super) fn collation(&self) -> &Collation {
        &self.collation
    }

    /// The condition in MongoDB's notation.
    pub(super) fn written(&self) -> RawDocumentBuf {
        if self.conditions.is_empty() {
            return self.source.clone();
        }
        let mut all = ArrayWriter::new();
        for condition in &self.conditions {
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

    /// The parts of the condition.
    ///
    /// # Errors
    /// None: each part was read before.
    pub(super) fn pieces(&self) -> Result<Vec<Piece>> {
        let mut all = Vec::new();
        add_pieces(Doc::from(&self.source), &self.collation, &mut all)?;
        if let [condition] = self.conditions.as_slice() {
            all.push(Piece::Condition(condition.clone(), self.equal.clone()));
        } else {
            all.extend(
                self.conditions.iter().map(|condition| Piece::Condition(condition.clone(), Vec::new())),
            );
            // Which of several conditions an equality is of does not matter while they stay together.
            if let Some(Piece::Condition(_, equal)) = all.last_mut() {
                equal.clone_from(&self.equal);
            }
        }
        Ok(all)
    }

    /// All parts as one condition.
    ///
    /// # Errors
    /// None: each part was read before.
    pub(super) fn join(pieces: &[Piece], collation: &Collation) -> Result<Match> {
        let (mut plain, mut conditions, mut equal) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Plain(filter) => plain.push(filter.source().to_owned()),
                Piece::Condition(condition, own) => {
                    conditions.push(condition.clone());
                    equal.extend(own.iter().cloned());
                }
            }
        }
        let source = if plain.len() < 2 {
            plain.pop().unwrap_or_default()
        } else {
            let mut all = RawArrayBuf::new();
            plain.into_iter().for_each(|filter| all.push(filter));
            rawdoc! { "$and": all }
        };
        Self::new(source, collation, conditions, equal)
    }

    /// The fields the condition reads at the top; `None` if it may read any.
    pub(super) fn reads(&self, names: &mut Vec<String>) -> Option<()> {
        let mut whole = false;
        match self.filter.reads() {
            Some(plain) => names.extend(plain),
            None => whole = true,
        }
        for condition in &self.conditions {
            let reads = condition.expr.reads();
            whole |= reads.whole;
            names.extend(reads.paths.iter().map(|path| path.first().to_owned()));
        }
        (!whole).then_some(())
    }

    /// Filters that every document of the answer matches, for the planner.
    pub(super) fn pushed(&self, globals: &Globals) -> Vec<RawDocumentBuf> {
        let mut all = Vec::new();
        if !Doc::from(&self.source).is_empty() {
            all.push(self.source.clone());
        }
        let arena = Arena::new();
        for (path, expr) in &self.equal {
            let value = expr.eval(&mut Scope::new(Doc::EMPTY, globals, &arena));
            // Of an array the filter would look at the elements; the others it finds, and perhaps more.
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

    /// True if the filters of [`Self::pushed`] do not decide everything.
    pub(super) fn has_rest(&self) -> bool {
        !self.conditions.is_empty()
    }
}

/// The fields of a filter, each as a filter of its own, `$and`s opened.
fn add_pieces(filter: Doc<'_>, collation: &Collation, all: &mut Vec<Piece>) -> Result<()> {
    for element in filter.elements() {
        match (element.name, element.value()) {
            (b"$and", Value::Array(parts)) => {
                for part in parts.elements() {
                    if let Value::Document(part) = part.value() {
                        add_pieces(part, collation, all)?;
                    }
                }
            }
            _ => {
                let mut one = Writer::new(element.bytes.len() + 32);
                one.copy(&element);
                all.push(Piece::Plain(Filter::parse(&one.finish())?.collated(collation)?));
            }
        }
    }
    Ok(())
}

/// The filter without the `$expr` at its top, which are shown to `found`.
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

/// Finds `{ $eq: ["$field", "$$variable"] }`, within `$and` too.
fn equalities(condition: Value<'_>, names: &Names, equal: &mut Vec<(String, Expr)>) -> Result<()> {
    let Value::Document(doc) = condition else { return Ok(()) };
    let Some(element) = doc.elements().next() else { return Ok(()) };
    match (element.name, element.value()) {
        (b"$and", Value::Array(all)) => {
            for one in all.elements() {
                equalities(one.value(), names, equal)?;
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
                    equal.push((path.to_owned(), Expr::parse(Value::String(other), names)?));
                }
            }
        }
        _ => {}
    }
    Ok(())
}

struct Matching {
    stage: Arc<Match>,
    globals: Arc<Globals>,
    arena: Arena,
    input: Docs,
}

impl Stage for Match {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let globals = Arc::clone(&context.globals);
        Ok(Box::new(Matching { stage: self, globals, arena: Arena::new(), input }))
    }
}

fn matches(stage: &Match, globals: &Globals, arena: &mut Arena, document: &RawDocument) -> Result<bool> {
    if !stage.filter.matches(document)? {
        return Ok(false);
    }
    for condition in &stage.conditions {
        arena.clear();
        if !condition.expr.holds(&mut Scope::new(Doc::from(document), globals, arena))? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Stream for Matching {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        while let Some(document) = self.input.next()? {
            if matches(&self.stage, &self.globals, &mut self.arena, &document)? {
                return Ok(Some(document));
            }
        }
        Ok(None)
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let Matching { stage, globals, arena, input } = self;
        input.each(&mut |document| {
            if matches(stage, globals, arena, document)? { visit(document) } else { Ok(Flow::Continue(())) }
        })
    }
}

/// `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`, `$replaceWith`.
///
/// With the stage as it was written.
#[derive(Debug)]
pub(super) struct Shape(pub(super) Reshape, pub(super) RawDocumentBuf);

struct Shaping {
    stage: Arc<Shape>,
    globals: Arc<Globals>,
    arena: Arena,
    input: Docs,
}

impl Stage for Shape {
    fn open(self: Arc<Self>, input: Docs, context: &Context) -> Result<Docs> {
        let globals = Arc::clone(&context.globals);
        Ok(Box::new(Shaping { stage: self, globals, arena: Arena::new(), input }))
    }
}

impl Stream for Shaping {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.input.next()? else { return Ok(None) };
        self.arena.clear();
        self.stage.0.apply(&document, &self.globals, &self.arena).map(Some)
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let Shaping { stage, globals, arena, input } = self;
        input.each(&mut |document| {
            arena.clear();
            visit(&stage.0.apply(document, globals, arena)?)
        })
    }
}
