//! Visiting the documents of a query without copying them.

use bson::RawDocument;

use treedb_query::access::Flow;
use treedb_query::doc::Value;
use treedb_query::doc::write::Writer;
use treedb_query::error::Result;
use treedb_query::query::{Execution, PointQuery};

use crate::catalog::view_def::is_about_a_view;
use crate::collection::Collection;
use crate::read::point_lookup;
use crate::read::view::View;
use crate::request::FindRequest;
use crate::write::statement::parse;

impl Collection {
    /// Calls `visit` with each document that [`Collection::find`] would return, in order, until it breaks or returns an
    /// error. A document is borrowed from its page where possible, and valid during the call only.
    ///
    /// # Errors
    /// Those of [`Collection::find`] and those of `visit`.
    pub fn for_each(
        &self,
        request: FindRequest,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<()> {
        let snapshot = match self.snapshot() {
            Err(error) if is_about_a_view(&error) => None,
            Ok(None) if request.as_of.is_none() => return Ok(()),
            snapshot => snapshot?.filter(|_| request.as_of.is_none()),
        };
        let Some((reads, meta)) = snapshot else {
            for document in self.find(request)? {
                if visit(&document?)?.is_break() {
                    break;
                }
            }
            return Ok(());
        };
        let query = parse(&request)?;
        let view = View { reads: &reads, meta: &meta };
        let context = view.context();
        Execution::new(&view, &context, query.with_default_collation(&meta.collation)?)?
            .lend(&view, &context, visit)
            .map(drop)
    }

    /// Lends the document whose `_id` equals `id` to `visit`; false if there is none. The value is never read as operators, also if it is
    /// a document. It has been validated.
    ///
    /// # Errors
    /// Those of [`Collection::find`] and those of `visit`.
    pub fn lend_by_id(
        &self,
        id: Value<'_>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<bool> {
        if let Some(point) = PointQuery::of_field(b"_id", id) {
            let (store, catalog) = (&self.database().inner.store, &self.database().inner.catalog);
            let reads = store.snapshot()?;
            let found = catalog.with_meta(&reads, reads.txn(), self.namespace(), |meta| {
                point_lookup::lend_one(&point, &reads, meta, visit)
            });
            match found {
                Ok(Some(found)) => {
                    if let Some(found) = found? {
                        return Ok(found);
                    }
                }
                Ok(None) => return Ok(false),
                Err(error) if is_about_a_view(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut filter = Writer::new(64);
        let operand = filter.open_document(b"_id");
        filter.value(b"$eq", id);
        filter.close(operand);
        match self.find_one(filter.finish())? {
            Some(document) => visit(&document).map(|()| true),
            None => Ok(false),
        }
    }
}
