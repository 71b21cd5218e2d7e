//! `$unwind`: one document for each element of an array.

use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, OwnedValue, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::borrow_document;
use crate::query::expr::check_path;

use crate::aggregate::context::Context;
use crate::aggregate::operand::{known_fields_or, optional_string_or};
use crate::aggregate::set_value::{set_value, with_value};
use crate::aggregate::stage::{PlannedStage, Reads, Stage, StageParser, UnwindOptions};
use crate::aggregate::stream::{BoxedStream, DocumentStream, Visitor};

/// `$unwind`.
#[derive(Debug)]
pub(crate) struct Unwind {
    path: Path,
    index: Option<Path>,
    /// `preserveNullAndEmptyArrays`: documents without elements are kept.
    preserve_empty: bool,
}

impl Unwind {
    /// Calls `visit` with the documents that `document` becomes, each written to `out` over the one before.
    fn for_each_unwound(&self, document: Doc<'_>, out: &mut Writer, visit: &mut Visitor<'_>) -> Result<Flow> {
        match self.path.get(document) {
            Some(Value::Array(array)) if !array.is_empty() => {
                for (at, element) in array.elements().enumerate() {
                    let flow = match &self.index {
                        Some(_) => {
                            visit(&self.unwound(document, Some(element.value()), i64::try_from(at).ok())?)?
                        }
                        None => {
                            out.restart();
                            set_value(document, self.path.parts(), Some(element.value()), out);
                            visit(borrow_document(out)?)?
                        }
                    };
                    if flow == Flow::Break(()) {
                        return Ok(flow);
                    }
                }
                Ok(Flow::Continue(()))
            }
            Some(Value::Array(_)) if self.preserve_empty => visit(&self.unwound(document, None, None)?),
            Some(Value::Array(_)) => Ok(Flow::Continue(())),
            found @ (None | Some(Value::Null | Value::Undefined)) if self.preserve_empty => {
                visit(&self.unwound(document, found, None)?)
            }
            None | Some(Value::Null | Value::Undefined) => Ok(Flow::Continue(())),
            found => visit(&self.unwound(document, found, None)?),
        }
    }

    /// `document` with `value` at the path and the index of the element at `includeArrayIndex`.
    fn unwound(
        &self,
        document: Doc<'_>,
        value: Option<Value<'_>>,
        at: Option<i64>,
    ) -> Result<RawDocumentBuf> {
        let unwound = with_value(document, &self.path, value)?;
        match &self.index {
            Some(index) => with_value(Doc::from(&unwound), index, Some(at.map_or(Value::Null, Value::Int64))),
            None => Ok(unwound),
        }
    }
}

struct UnwindStream {
    stage: Arc<Unwind>,
    input: BoxedStream,
    /// The document being unwound, the elements of its array, and how many of them were returned.
    current: Option<(RawDocumentBuf, Vec<OwnedValue>, usize)>,
}

impl Stage for Unwind {
    fn parse(stage: &Element<'_>, _: &StageParser) -> Result<Self> {
        let (path, index, preserve_empty) = match stage.value() {
            Value::String(path) => (std::str::from_utf8(path).unwrap_or_default(), None, false),
            Value::Document(doc) => {
                const NAME: &str = "$unwind";
                let known = ["path", "includeArrayIndex", "preserveNullAndEmptyArrays"];
                known_fields_or(ErrorCode::Location28811, NAME, doc, &known)?;
                let path = optional_string_or(ErrorCode::Location28808, NAME, doc, "path")?;
                let path = path.unwrap_or_default();
                let index = optional_string_or(ErrorCode::Location28810, NAME, doc, "includeArrayIndex")?;
                let preserve_empty = match doc.get("preserveNullAndEmptyArrays") {
                    None => false,
                    Some(Value::Bool(preserve)) => preserve,
                    Some(other) => {
                        return Err(QueryError::new(
                            ErrorCode::Location28809,
                            format!(
                                "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}",
                                other.type_name()
                            ),
                        ));
                    }
                };
                (path, index, preserve_empty)
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
            let wrong = |code, what| {
                let message = format!("the includeArrayIndex option to $unwind stage must {what}: '{index}'");
                Err(QueryError::new(code, message))
            };
            if index.is_empty() {
                return wrong(ErrorCode::Location28810, "be a non-empty string");
            }
            if index.starts_with('$') {
                return wrong(ErrorCode::Location28822, "not be prefixed with a '$'");
            }
            check_path(index)?;
        }
        Ok(Unwind { path: Path::new(path), index: index.map(Path::new), preserve_empty })
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        fields.push(self.path.first().to_owned());
        // The result keeps the places of these fields among the others.
        fields.extend(self.index.iter().map(|index| index.first().to_owned()));
        Reads::Named
    }

    fn preserves(&self, field: &str) -> bool {
        field != self.path.first() && self.index.as_ref().is_none_or(|index| field != index.first())
    }

    fn is_per_document(&self) -> bool {
        true
    }

    fn unwinds(&self, path: &Path) -> Option<UnwindOptions> {
        (self.path.as_str() == path.as_str() && self.index.is_none())
            .then_some(UnwindOptions { preserve_empty: self.preserve_empty })
    }

    fn open(self: Arc<Self>, input: BoxedStream, _: &[PlannedStage], _: &Context) -> Result<BoxedStream> {
        Ok(Box::new(UnwindStream { stage: self, input, current: None }))
    }
}

impl DocumentStream for UnwindStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some((document, elements, at)) = &mut self.current {
                if let Some(element) = elements.get(*at) {
                    let number = i64::try_from(*at).ok();
                    *at += 1;
                    return self
                        .stage
                        .unwound(Doc::from(&*document), Some(element.value()), number)
                        .map(Some);
                }
                self.current = None;
            }
            let Some(document) = self.input.next()? else { return Ok(None) };
            let doc = Doc::from(&document);
            let preserve_empty = self.stage.preserve_empty;
            match self.stage.path.get(doc) {
                Some(Value::Array(array)) if array.is_empty() => {
                    if preserve_empty {
                        return self.stage.unwound(doc, None, None).map(Some);
                    }
                }
                Some(Value::Array(array)) => {
                    let elements =
                        array.elements().map(|element| OwnedValue::from_element(&element)).collect();
                    self.current = Some((document, elements, 0));
                }
                found @ (None | Some(Value::Null | Value::Undefined)) => {
                    if preserve_empty {
                        return self.stage.unwound(doc, found, None).map(Some);
                    }
                }
                found => return self.stage.unwound(doc, found, None).map(Some),
            }
        }
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        while self.current.is_some() {
            match self.next()? {
                Some(document) if visit(&document)? == Flow::Continue(()) => {}
                _ => return Ok(()),
            }
        }
        let UnwindStream { stage, input, .. } = self;
        let mut out = Writer::new(256);
        input.for_each(&mut |document| stage.for_each_unwound(Doc::from(document), &mut out, visit))
    }
}
