//! `document @@ filter`: does a document match a filter, as `find` would say.

use treedb_query::query::Filter;

use super::bson::document;
use crate::shim::error::accept;
use crate::shim::function::pg_function;

/// The filter that a call site was last called with.
#[derive(Default)]
struct LastFilter(Option<Filter>);

pg_function! {
    /// `treedb.matches(document, filter)`. The filter is parsed once per call site, as long as it stays the same.
    fn treedb_matches(args: [Varlena, Varlena]) -> bool {
        let (bytes, wanted) = (args.bytes(0), args.bytes(1));
        let (document, wanted) = (document(&bytes), document(&wanted));
        accept(args.with_kept(|LastFilter(kept)| {
            if kept.as_ref().is_none_or(|kept| kept.source().as_bytes() != wanted.as_bytes()) {
                *kept = None;
            }
            kept.get_or_insert_with(|| accept(Filter::parse(wanted))).matches(document)
        }))
    }
}
