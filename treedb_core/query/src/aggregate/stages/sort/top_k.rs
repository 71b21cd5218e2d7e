//! A `$sort` with a limit over a whole collection.

use bson::RawDocumentBuf;

use crate::error::Result;
use crate::query::{Query, Sort};

use crate::aggregate::context::Context;
use crate::aggregate::deadline::with_deadline;
use crate::aggregate::stream::{BoxedStream, DocumentStream, VecStream};

use super::SortStream;

/// The first documents of an order: from [`crate::aggregate::Collections::top_k`] if it has them, otherwise from a
/// [`SortStream`] over all documents of the query.
pub(super) struct TopKStream {
    namespace: String,
    query: Query,
    sort: Sort,
    limit: usize,
    fields: Option<Vec<String>>,
    context: Context,
    documents: Option<BoxedStream>,
}

impl TopKStream {
    pub(super) fn new(
        namespace: &str,
        query: Query,
        sort: Sort,
        limit: usize,
        fields: Option<Vec<String>>,
        context: &Context,
    ) -> Self {
        let (namespace, context) = (namespace.to_owned(), context.clone());
        TopKStream { namespace, query, sort, limit, fields, context, documents: None }
    }

    fn open(&self) -> Result<BoxedStream> {
        let TopKStream { namespace, query, sort, limit, fields, context, .. } = self;
        let top = Query { sort: Some(sort.clone()), limit: *limit as u64, ..query.clone() };
        let Context { collections, memory_limit, deadline, threads, .. } = context;
        if let Some(top) = collections.top_k(namespace, &top, *memory_limit, *deadline, *threads)? {
            return Ok(Box::new(VecStream::new(top)));
        }
        let all = with_deadline(collections.find(namespace, query.clone())?, *deadline);
        Ok(Box::new(SortStream::new(sort.clone(), Some(*limit), fields.clone(), all, context)))
    }
}

impl DocumentStream for TopKStream {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if self.documents.is_none() {
            self.documents = Some(self.open()?);
        }
        self.documents.as_mut().map_or(Ok(None), |documents| documents.next())
    }
}
