//! Visiting the documents of a query without copying them.

use bson::{RawDocument, RawDocumentBuf};

use treedb_query::access::Flow;
use treedb_query::doc::Value;
use treedb_query::doc::write::Writer;
use treedb_query::error::Result;
use treedb_query::query::{Execution, PlanSummary, PointQuery, interrupt};

use crate::catalog::view_def::is_about_a_view;
use crate::collection::Collection;
use crate::read::point_lookup::{self, Counted};
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
        request: &FindRequest,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<()> {
        if request.projection.is_none()
            && let Some(point) = point_lookup::of_request(request)?
            && self.lend_point(&point, request.limit, visit, Counted::Always)?
        {
            return Ok(());
        }
        let snapshot = match self.snapshot() {
            Err(error) if is_about_a_view(&error) => None,
            Ok(None) if request.as_of.is_none() => return Ok(()),
            snapshot => snapshot?.filter(|_| request.as_of.is_none()),
        };
        let Some((reads, meta)) = snapshot else {
            for document in self.find(request.clone())? {
                if visit(&document?)?.is_break() {
                    break;
                }
            }
            return Ok(());
        };
        let query = parse(request)?;
        let view = View { reads: &reads, meta: &meta };
        let context = view.context();
        Execution::new(&view, &context, query.with_default_collation(&meta.collation)?)?
            .lend(&view, &context, visit)
            .map(drop)
    }

    /// [`Self::for_each`] of a request that needs no plan, because the keys of one index decide it; false, without a call, for any other. If
    /// `visit` breaks, the caller finds the documents in another way: that is no use of the index.
    ///
    /// # Errors
    /// As there.
    pub fn lend_by_key(
        &self,
        request: &FindRequest,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<bool> {
        if request.projection.is_some() {
            return Ok(false);
        }
        match point_lookup::of_request(request)? {
            Some(point) => self.lend_point(&point, request.limit, visit, Counted::IfTaken),
            None => Ok(false),
        }
    }

    /// Lends the documents in which `field` equals `value` to `visit`, in the order in which [`Collection::find`] would return them, until it
    /// breaks, `limit` (0 for none) or an error; false, without a call, if that needs a plan. As with [`Self::lend_by_key`], breaking means to
    /// find them in another way. The value is never read as operators, also if it
    /// is a document. It has been validated.
    ///
    /// # Errors
    /// Those of [`Collection::find`] and those of `visit`.
    pub fn lend_equal(
        &self,
        field: &[u8],
        value: Value<'_>,
        limit: u64,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
    ) -> Result<bool> {
        match PointQuery::of_field(field, value) {
            Some(point) => self.lend_point(&point, limit, visit, Counted::IfTaken),
            None => Ok(false),
        }
    }

    /// Lends what a point query finds; false, without a call, if no index answers it without a plan.
    fn lend_point(
        &self,
        point: &PointQuery<'_>,
        limit: u64,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow>,
        counted: Counted,
    ) -> Result<bool> {
        let (store, catalog) = (&self.database().inner.store, &self.database().inner.catalog);
        let reads = store.snapshot()?;
        let lent = catalog.with_meta(&reads, reads.txn(), self.namespace(), |meta| {
            point_lookup::lend(point, limit, &reads, meta, visit, counted)
        });
        match lent {
            Ok(Some(lent)) => lent,
            Ok(None) => {
                interrupt::note_plan(|| PlanSummary::EOF);
                Ok(true)
            }
            Err(error) if is_about_a_view(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lends the document whose `_id` equals `id` to `visit`; false if there is none. `None`, without a call, if the index of `_id` cannot tell,
    /// or this is a view: [`Self::find_by_id`] does then. The value is never read as operators, also if it
    /// is a document. It has been validated.
    ///
    /// # Errors
    /// Those of [`Collection::find`] and those of `visit`.
    pub fn lend_by_id(
        &self,
        id: Value<'_>,
        visit: &mut dyn FnMut(&RawDocument) -> Result<()>,
    ) -> Result<Option<bool>> {
        let Some(point) = PointQuery::of_field(b"_id", id) else { return Ok(None) };
        let (store, catalog) = (&self.database().inner.store, &self.database().inner.catalog);
        let reads = store.snapshot()?;
        let found = catalog.with_meta(&reads, reads.txn(), self.namespace(), |meta| {
            point_lookup::lend_one(&point, &reads, meta, visit)
        });
        match found {
            Ok(Some(found)) => found,
            Ok(None) => Ok(Some(false)),
            Err(error) if is_about_a_view(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this is a view now.
    ///
    /// # Errors
    /// Those of the storage engine.
    pub fn is_view(&self) -> Result<bool> {
        let (store, catalog) = (&self.database().inner.store, &self.database().inner.catalog);
        let reads = store.snapshot()?;
        match catalog.with_meta(&reads, reads.txn(), self.namespace(), |_| ()) {
            Ok(_) => Ok(false),
            Err(error) if is_about_a_view(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The document whose `_id` equals `id`, as [`Self::lend_by_id`], in a view too: that runs the view's pipeline.
    ///
    /// # Errors
    /// Those of [`Collection::find`].
    pub fn find_by_id(&self, id: Value<'_>) -> Result<Option<RawDocumentBuf>> {
        let mut filter = Writer::new(64);
        let operand = filter.open_document(b"_id");
        filter.value(b"$eq", id);
        filter.close(operand);
        self.find_one(filter.finish())
    }
}
