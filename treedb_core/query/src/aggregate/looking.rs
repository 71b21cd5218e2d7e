//! A `$lookup` at work: each document with those found for it, as an array or, where a `$unwind` of that array follows, one
//! by one.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Fields, Value};
use crate::error::Result;
use crate::query::lent;

use super::join::Join;
use super::lookup::Lookup;
use super::stream::{Docs, Stream, Visit};
use super::unwind::put;
use super::world::Context;

/// How an array is taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// Documents for which nothing is found go on.
    pub(super) preserve: bool,
}

/// A lookup at work.
pub(super) struct Looking {
    work: Work,
    input: Docs,
    /// Made of the document that was read last.
    ready: VecDeque<RawDocumentBuf>,
}

struct Work {
    stage: Arc<Lookup>,
    join: Option<Join>,
    apart: Option<Apart>,
    /// Top-level fields of the documents found that are used; `None` for all.
    fields: Option<Fields>,
    context: Context,
    out: Writer,
}

impl Looking {
    pub(super) fn new(
        stage: Arc<Lookup>,
        join: Option<Join>,
        apart: Option<Apart>,
        fields: Option<Fields>,
        input: Docs,
        context: &Context,
    ) -> Self {
        let (context, out) = (context.clone(), Writer::new(256));
        let work = Work { stage, join, apart, fields, context, out };
        Looking { work, input, ready: VecDeque::new() }
    }
}

impl Work {
    /// Shows what a document becomes.
    fn show(&mut self, document: Doc<'_>, visit: &mut Visit<'_>) -> Result<Flow> {
        let Work { stage, join, apart, fields, context, out } = self;
        let parts = stage.to.parts();
        let mut write = |value: Option<Value<'_>>| {
            out.restart();
            put(document, parts, value, out);
            visit(lent(out)?)
        };
        let Some(Apart { preserve }) = *apart else {
            let mut all = ArrayWriter::new();
            stage.each(document, join, fields.as_ref(), context, &mut |found| {
                all.push(Value::Document(Doc::from(found)));
                match all.bytes() > context.memory {
                    true => {
                        Err(super::too_much_memory("$lookup (the documents found for one)", context.memory))
                    }
                    false => Ok(()),
                }
            })?;
            let bytes = all.into_bytes();
            return write(Some(Value::Array(Doc::new(&bytes))));
        };
        let (mut none, mut flow) = (true, Flow::Continue(()));
        stage.each(document, join, fields.as_ref(), context, &mut |found| {
            none = false;
            if flow == Flow::Continue(()) {
                flow = write(Some(Value::Document(Doc::from(found))))?;
            }
            Ok(())
        })?;
        if none && preserve { write(None) } else { Ok(flow) }
    }
}

impl Stream for Looking {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Looking { work, input, ready } = self;
        while ready.is_empty() {
            let Some(document) = input.next()? else { return Ok(None) };
            let (memory, mut bytes) = (work.context.memory, 0);
            let _ = work.show(Doc::from(&document), &mut |made| {
                bytes += made.as_bytes().len();
                // A single one is bounded by what a document may be.
                if !ready.is_empty() && bytes > memory {
                    return Err(super::too_much_memory("$lookup (the documents found for one)", memory));
                }
                ready.push_back(made.to_owned());
                Ok(Flow::Continue(()))
            })?;
        }
        Ok(ready.pop_front())
    }

    fn each(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let Looking { work, input, ready } = self;
        for document in ready.drain(..) {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        input.each(&mut |document| work.show(Doc::from(document), visit))
    }
}
