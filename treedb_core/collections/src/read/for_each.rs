//! Visiting the documents of a query without copying them.

use bson::RawDocument;

use treedb_query::access::Flow;
use treedb_query::error::Result;
use treedb_query::query::Execution;

use crate::catalog::view_def::is_about_a_view;
use crate::collection::Collection;
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
}
