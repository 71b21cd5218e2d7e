//! `$unwind`: a document for each element of an array; and putting a value at a path.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::path::Part;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, OwnedValue, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::expr::check_path;
use crate::query::{finished, lent};

use super::looking::Apart;
use super::pipeline::Stage;
use super::stream::{Docs, Stream, Visit};
use super::world::Context;

/// `$unwind`.
#[derive(Debug)]
pub(super) struct Unwind {
    path: Path,
    index: Option<Path>,
    /// Documents without elements go on as they are.
    preserve: bool,
}

impl Unwind {
    pub(super) fn parse(stage: &Element<'_>) -> Result<Unwind> {
        let (path, index, preserve) = match stage.value() {
            Value::String(path) => (std::str::from_utf8(path).unwrap_or_default(), None, false),
            Value::Document(doc) => {
                super::only("$unwind", doc, &["path", "includeArrayIndex", "preserveNullAndEmptyArrays"])?;
                let path = super::string("$unwind", doc, "path")?.unwrap_or_default();
                let index = super::string("$unwind", doc, "includeArrayIndex")?;
                (path, index, doc.get("preserveNullAndEmptyArrays").is_some_and(|value| value.truthy()))
            }
            other => {
                return Err(QueryError::new(
                    ErrorCode::Location15981,
                    format!(
                        "expected either a string or an object as specification for $unwind stage, got {}",
                        other.type_name()
                    ),
                ));
            }
        };
        if path.is_empty() {
            return Err(QueryError::new(ErrorCode::Location28812, "no path specified to $unwind stage"));
        }
        let Some(path) = path.strip_prefix('$') else {
            return Err(QueryError::new(
                ErrorCode::Location28818,
                format!("path option to $unwind stage should be prefixed with a '$': {path}"),
            ));
        };
        check_path(path)?;
        if let Some(index) = index {
            check_path(index)?;
        }
        Ok(Unwind { path: Path::new(path), index: index.map(Path::new), preserve })
    }

    /// Shows the documents that `document` becomes, each written over the one before.
    fn each(&self, document: Doc<'_>, out: &mut Writer, visit: &mut Visit<'_>) -> Result<Flow> {
        match self.path.get(document) {
            Some(Value::Array(array)) if !array.is_empty() => {
                for (at, element) in array.elements().enumerate() {
                    let flow = match &self.index {
                        Some(_) => {
                            visit(&self.one(document, Some(element.value()), i64::try_from(at).ok())?)?
                        }
                        None => {
                            out.restart();
                            put(document, self.path.parts(), Some(element.value()), out);
                            visit(lent(out)?)?
                        }
                    };
                    if flow == Flow::Break(()) {
                        return Ok(flow);
                    }
                }
                Ok(Flow::Continue(()))
            }
            Some(Value::Array(_)) if self.preserve => visit(&self.one(document, None, None)?),
            Some(Value::Array(_)) => Ok(Flow::Continue(())),
            found @ (None | Some(Value::Null | Value::Undefined)) if self.preserve => {
                visit(&self.one(document, found, None)?)
            }
            None | Some(Value::Null | Value::Undefined) => Ok(Flow::Continue(())),
            found => visit(&self.one(document, found, None)?),
        }
    }

    /// `document` with `value` at the path and the element's number at its own.
    fn one(&self, document: Doc<'_>, value: Option<Value<'_>>, at: Option<i64>) -> Result<RawDocumentBuf> {
        let unwound = with_value(document, &self.path, value)?;
        match &self.index {
            Some(index) => with_value(Doc::from(&unwound), index, Some(at.map_or(Value::Null, Value::Int64))),
            None => Ok(unwound),
        }
    }
}

/// `document` with `value` at `path`, or with nothing there. What is no document on the way becomes one.
pub(super) fn with_value(document: Doc<'_>, path: &Path, value: Option<Value<'_>>) -> Result<RawDocumentBuf> {
    let mut out = Writer::new(document.as_bytes().len() + 32);
    put(document, path.parts(), value, &mut out);
    finished(out)
}

/// The same, written to `out`.
pub(super) fn put(document: Doc<'_>, parts: &[Part], value: Option<Value<'_>>, out: &mut Writer) {
    let Some((part, rest)) = parts.split_first() else { return };
    let name = part.name.as_bytes();
    let inner = |below: Doc<'_>, out: &mut Writer| match value {
        Some(value) if rest.is_empty() => out.value(name, value),
        None if rest.is_empty() => {}
        _ => {
            let open = out.open_document(name);
            put(below, rest, value, out);
            out.close(open);
        }
    };
    let mut there = false;
    for element in document.elements() {
        if element.name != name || there {
            out.copy(&element);
            continue;
        }
        there = true;
        match element.value() {
            Value::Document(below) => inner(below, out),
            _ if rest.is_empty() || value.is_some() => inner(Doc::EMPTY, out),
            _ => out.copy(&element),
        }
    }
    if !there && value.is_some() {
        inner(Doc::EMPTY, out);
    }
}

struct Unwinding {
    stage: Arc<Unwind>,
    input: Docs,
    /// The document being unwound, its array, and the elements handed out.
    current: Option<(RawDocumentBuf, Vec<OwnedValue>, usize)>,
}

impl Stage for Unwind {
    fn reads(&self, names: &mut Vec<String>) -> Option<()> {
        names.push(self.path.first().to_owned());
        // Elsewhere than in its place among the fields it would not be the same document.
        names.extend(self.index.iter().map(|index| index.first().to_owned()));
        Some(())
    }

    fn leaves(&self, name: &str) -> bool {
        name != self.path.first() && self.index.as_ref().is_none_or(|index| name != index.first())
    }

    fn is_for_each(&self) -> bool {
        true
    }

    fn unwinds(&self, path: &Path) -> Option<Apart> {
        (self.path.as_str() == path.as_str() && self.index.is_none())
            .then_some(Apart { preserve: self.preserve })
    }

    fn open(self: Arc<Self>, input: Docs, _: &Context) -> Result<Docs> {
        Ok(Box::new(Unwinding { stage: self, input, current: None }))
    }
}

impl Stream for Unwinding {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some((document, elements, at)) = &mut self.current {
                if let Some(element) = elements.get(*at) {
                    let number = i64::try_from(*at).ok();
                    *at += 1;
                    return self.stage.one(Doc::from(&*document), Some(element.value()), number).map(Some);
                }
                self.current = None;
            }
            let Some(document) = self.input.next()? else { return Ok(None) };
            let doc = Doc::from(&document);
            let preserve = self.stage.preserve;
            match self.stage.path.get(doc) {
                Some(Value::Array(array)) if array.is_empty() => {
                    if preserve {
                        return self.stage.one(doc, None, None).map(Some);
                    }
                }
                Some(Value::Array(array)) => {
                    let elements =
                        array.elements().map(|element| OwnedValue::from_element(&element)).collect();
                    self.current = Some((document, elements, 0));
                }
                found @ (None | Some(Value::Null | Value::Undefined)) => {
                    if preserve {
                        return self.stage.one(doc, found, None).map(Some);
                    }
                }
                found => return self.stage.one(doc, found, None).map(Some),
            }
        }
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        while self.current.is_some() {
            match self.next()? {
                Some(document) if visit(&document)? == Flow::Continue(()) => {}
                _ => return Ok(()),
            }
        }
        let Unwinding { stage, input, .. } = self;
        let mut out = Writer::new(256);
        input.each(&mut |document| stage.each(Doc::from(document), &mut out, visit))
    }
}
