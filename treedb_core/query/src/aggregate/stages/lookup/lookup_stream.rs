//! The documents of a `$lookup`: each document of the input with those found for it in an array, or, where a `$unwind` of
//! that array follows, one document for each that is found.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::RawDocumentBuf;

use crate::access::Flow;
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Fields, Value};
use crate::error::Result;
use crate::query::borrow_document;

use crate::aggregate::context::Context;
use crate::aggregate::operand::memory_exceeded;
use crate::aggregate::set_value::set_value;
use crate::aggregate::stage::UnwindOptions;
use crate::aggregate::stream::{BoxedStream, DocumentStream, Visitor};

use super::Lookup;
use super::join::Join;

/// The name of the stage in the error about the memory limit.
const NAME: &str = "$lookup (the documents found for one)";

/// The documents of a `$lookup`.
pub(super) struct LookupStream {
    joiner: Joiner,
    input: BoxedStream,
    /// Documents made from the last one of the input.
    ready: VecDeque<RawDocumentBuf>,
}

struct Joiner {
    stage: Arc<Lookup>,
    join: Option<Join>,
    /// The `$unwind` that is done at once.
    unwind: Option<UnwindOptions>,
    /// Top-level fields that are needed of the documents found; `None` for all.
    subfields: Option<Fields>,
    context: Context,
    out: Writer,
}

impl LookupStream {
    pub(super) fn new(
        stage: Arc<Lookup>,
        join: Option<Join>,
        unwind: Option<UnwindOptions>,
        subfields: Option<Fields>,
        input: BoxedStream,
        context: &Context,
    ) -> Self {
        let (context, out) = (context.clone(), Writer::new(256));
        let joiner = Joiner { stage, join, unwind, subfields, context, out };
        LookupStream { joiner, input, ready: VecDeque::new() }
    }
}

impl Joiner {
    /// Calls `visit` with the documents that are made from `document`.
    fn for_each(&mut self, document: Doc<'_>, visit: &mut Visitor<'_>) -> Result<Flow> {
        let Joiner { stage, join, unwind, subfields, context, out } = self;
        let path = stage.to.parts();
        let mut write = |value: Option<Value<'_>>| {
            out.restart();
            set_value(document, path, value, out);
            visit(borrow_document(out)?)
        };
        let Some(UnwindOptions { preserve_empty }) = *unwind else {
            let mut array = ArrayWriter::new();
            stage.for_each_foreign(document, join, subfields.as_ref(), context, &mut |found| {
                array.push(Value::Document(Doc::from(found)));
                match array.bytes() > context.memory_limit {
                    true => Err(memory_exceeded(NAME, context.memory_limit)),
                    false => Ok(()),
                }
            })?;
            let bytes = array.into_bytes();
            return write(Some(Value::Array(Doc::new(&bytes))));
        };
        let (mut is_empty, mut flow) = (true, Flow::Continue(()));
        stage.for_each_foreign(document, join, subfields.as_ref(), context, &mut |found| {
            is_empty = false;
            if flow == Flow::Continue(()) {
                flow = write(Some(Value::Document(Doc::from(found))))?;
            }
            Ok(())
        })?;
        if is_empty && preserve_empty { write(None) } else { Ok(flow) }
    }
}

impl DocumentStream for LookupStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let LookupStream { joiner, input, ready } = self;
        while ready.is_empty() {
            let Some(document) = input.next()? else { return Ok(None) };
            let (limit, mut bytes) = (joiner.context.memory_limit, 0);
            let _ = joiner.for_each(Doc::from(&document), &mut |made| {
                bytes += made.as_bytes().len();
                // A single document is limited by the maximum size of a document.
                if !ready.is_empty() && bytes > limit {
                    return Err(memory_exceeded(NAME, limit));
                }
                ready.push_back(made.to_owned());
                Ok(Flow::Continue(()))
            })?;
        }
        Ok(ready.pop_front())
    }

    fn for_each(&mut self, visit: &mut Visitor<'_>) -> Result<()> {
        let LookupStream { joiner, input, ready } = self;
        for document in ready.drain(..) {
            if visit(&document)? == Flow::Break(()) {
                return Ok(());
            }
        }
        input.for_each(&mut |document| joiner.for_each(Doc::from(document), visit))
    }
}
