//! `$sort`: in memory, or in sorted runs in scratch files that are merged. With a limit after it, the collection is first
//! asked for the top documents ([`top_k`]).

mod top_k;

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, rawdoc};

use crate::access::Flow;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Sort;
use crate::query::expr::score_metadata;
use crate::query::external_sort::{KeyedDocument, SortedRuns, memory_size};

use crate::aggregate::context::Context;
use crate::aggregate::following::{documents_needed, fields_needed_by_sort};
use crate::aggregate::operand::{document_or, raw};
use crate::aggregate::score::{SCORE_FIELD, Scores};
use crate::aggregate::stage::{PlannedStage, Reads, Role, Scan, Stage, StageParser};
use crate::aggregate::stream::{BoxedStream, DocumentStream};

use top_k::TopKStream;

/// With a limit, the documents beyond it are dropped whenever there are twice as many as the limit and this together.
const SLACK: usize = 500;

/// `$sort`.
#[derive(Debug)]
pub(crate) struct SortStage(Sort);

impl Stage for SortStage {
    fn parse(stage: &Element<'_>, parser: &StageParser) -> Result<Self> {
        let score = |operator: Doc<'_>| match operator.elements().next() {
            Some(first) if first.name == b"$meta" => {
                score_metadata(first.value(), &parser.names).map(|()| Some(SCORE_FIELD))
            }
            _ => Ok(None),
        };
        match Sort::parse_with(raw(document_or(ErrorCode::Location15973, stage)?)?, score)? {
            Some(sort) => Ok(SortStage(sort.collated(parser.names.collation()))),
            None => {
                Err(QueryError::new(ErrorCode::Location15976, "$sort stage must have at least one sort key"))
            }
        }
    }

    fn open(
        self: Arc<Self>,
        input: BoxedStream,
        following: &[PlannedStage],
        context: &Context,
    ) -> Result<BoxedStream> {
        let (limit, fields) = (documents_needed(following), fields_needed_by_sort(&self.0, following));
        Ok(Box::new(SortStream::new(self.0.clone(), limit, fields, input, context)))
    }

    fn open_scan(self: Arc<Self>, scan: &Scan<'_>, context: &Context) -> Result<Option<BoxedStream>> {
        let query = scan.query;
        let is_plain = scan.before == 0
            && query.sort.is_none()
            && query.skip == 0
            && query.limit == 0
            && query.projection.is_none();
        let Some(limit) = documents_needed(scan.following()).filter(|_| is_plain) else { return Ok(None) };
        let fields = fields_needed_by_sort(&self.0, scan.following());
        let stream = TopKStream::new(scan.namespace, query.clone(), self.0.clone(), limit, fields, context);
        Ok(Some(Box::new(stream)))
    }

    fn explain(&self, source: &RawDocument) -> RawDocumentBuf {
        match self.0.keys.iter().any(|key| key.path.as_str() == SCORE_FIELD) {
            true => source.to_owned(),
            false => rawdoc! { "$sort": self.0.written() },
        }
    }

    fn scores(&self) -> Scores {
        Scores::Held
    }

    fn role(&self) -> Role<'_> {
        Role::Sort(&self.0)
    }

    fn reads(&self, fields: &mut Vec<String>) -> Reads {
        fields.extend(self.0.keys.iter().map(|key| key.path.first().to_owned()));
        Reads::Named
    }
}

/// The documents of a stream, sorted.
struct SortStream {
    sort: Sort,
    /// How many of the first documents are needed; `None` for all.
    limit: Option<usize>,
    /// Top-level fields that the following stages and the sort need; `None` for all.
    fields: Option<Vec<String>>,
    context: Context,
    input: Option<BoxedStream>,
    runs: SortedRuns,
}

/// The document with the top-level fields that are needed.
fn reduced(document: &RawDocument, fields: Option<&[String]>) -> RawDocumentBuf {
    let Some(fields) = fields else { return document.to_owned() };
    let mut out = Writer::new(document.as_bytes().len());
    for element in Doc::from(document).elements() {
        if fields.iter().any(|name| name.as_bytes() == element.name) {
            out.copy(&element);
        }
    }
    out.finish()
}

impl SortStream {
    fn new(
        sort: Sort,
        limit: Option<usize>,
        fields: Option<Vec<String>>,
        input: BoxedStream,
        context: &Context,
    ) -> Self {
        SortStream {
            sort,
            limit,
            fields,
            context: context.clone(),
            input: Some(input),
            runs: SortedRuns::default(),
        }
    }

    fn read(&mut self, mut input: BoxedStream) -> Result<()> {
        let SortStream { sort, limit, fields, context, runs, .. } = self;
        let mut buffer: Vec<KeyedDocument> = Vec::new();
        // The greatest key that can be in the result, once there are as many documents as the limit.
        let (mut bytes, mut greatest): (usize, Option<Vec<u8>>) = (0, None);
        let mut key = Vec::new();
        input.for_each(&mut |document| {
            sort.key_into(document, &mut key)?;
            if greatest.as_ref().is_some_and(|greatest| *greatest <= key) {
                return Ok(Flow::Continue(()));
            }
            let document = reduced(document, fields.as_deref());
            bytes += memory_size(&key, &document);
            buffer.push((key.clone(), document));
            // The sort is stable, so the documents that are dropped are those that sort last in the whole.
            if let Some(limit) = *limit
                && buffer.len() / 2 > limit.saturating_add(SLACK)
            {
                buffer.sort_by(|a, b| a.0.cmp(&b.0));
                buffer.truncate(limit);
                greatest = buffer.last().map(|(key, _)| key.clone());
                bytes = buffer.iter().map(|(key, document)| memory_size(key, document)).sum();
            }
            if bytes > context.memory_limit {
                let file = context.temp_file("$sort")?;
                buffer.sort_by(|a, b| a.0.cmp(&b.0));
                runs.spill(buffer.drain(..), file)?;
                bytes = 0;
            }
            Ok(Flow::Continue(()))
        })?;
        buffer.sort_by(|a, b| a.0.cmp(&b.0));
        runs.add_in_memory(buffer)
    }
}

impl DocumentStream for SortStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(input) = self.input.take() {
            self.read(input)?;
        }
        self.runs.next()
    }
}
