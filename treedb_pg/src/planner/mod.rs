//! Calls of `treedb.find`, `treedb.aggregate` and `treedb.count` as parts of the server's plans.
//!
//! In FROM they are nodes of the plan. Those of `find` and `aggregate` read documents as they are asked for, so that a LIMIT
//! stops them early, and a lateral join reads a few documents for each row. Elsewhere (in a SELECT list, in FROM with ORDINALITY,
//! with volatile arguments, or where rows of the call are needed as a whole, as in `UPDATE .. FROM`) they are ordinary
//! functions, which collect their answer.
//!
//! `WHERE doc @@ filter` on a table with indexes of a collection is a node of the plan too, which finds rows by them. It
//! serves any query of the table: with other columns, with row security, of rows that are changed or locked. So do `@>`, `<@`
//! with the document on the right, `?`, `?|` and `?&`, and comparisons of `doc -> 'path'` and `doc #> '{path}'`, by the
//! filters that they imply.
//!
//! The server asks the function's support function to simplify each call before it makes paths, so the library is
//! loaded, and the hook in place, before it is needed.

use crate::collection::{
    ASKED_INDEXES, AggregateStream, CountStream, ESTIMATED_SEARCHES, FilterRows, FindStream, forget_changed,
};
use crate::shim::filter_path::{FilterOperator, FilterPaths};
use crate::shim::function::pg_function;
use crate::shim::function_path::{self, Answer, Planned};
use crate::shim::setting::{self, Switch, on_load};
use crate::shim::{fault, invalidation, unread_distance, value_share};

/// Off: calls in FROM are scanned as other functions are, and conditions on documents are evaluated on every row.
static ENABLED: Switch = Switch::new(
    c"treedb.enable_find_scan",
    c"Enables the planner's use of scans that read treedb.find and treedb.aggregate in FROM document by document and show how treedb.count does its work there, and of scans that find rows by indexes of documents for @@, @>, <@, ?, ?|, ?& and values at paths.",
    true,
);

static FUNCTIONS: [Planned; 3] =
    [Planned::new::<FindStream>(), Planned::new::<AggregateStream>(), Planned::new::<CountStream>()];

/// `WHERE doc @@ filter`, and the operators that imply filters.
static FILTERS: FilterPaths = FilterPaths::new::<FilterRows>(OPERATORS);

const OPERATORS: &[FilterOperator] = &[
    FilterOperator { function: c"matches", document: 0, filter: None, finds_few: true },
    FilterOperator { function: c"contains", document: 0, filter: Some(c"contains_filter"), finds_few: true },
    FilterOperator { function: c"contained", document: 1, filter: Some(c"contains_filter"), finds_few: true },
    FilterOperator {
        function: c"has_field",
        document: 0,
        filter: Some(c"has_field_filter"),
        finds_few: false,
    },
    FilterOperator {
        function: c"has_any_field",
        document: 0,
        filter: Some(c"has_any_field_filter"),
        finds_few: false,
    },
    FilterOperator {
        function: c"has_all_fields",
        document: 0,
        filter: Some(c"has_all_fields_filter"),
        finds_few: false,
    },
];

fn load() {
    ENABLED.define();
    crate::collection::TABLE_ACCESS_METHOD.define();
    crate::collection::STAGE_MEM.define();
    crate::types::bson::EXACT_TEXT.define();
    crate::vector_am::define_settings();
    fault::define();
    for counter in [&ESTIMATED_SEARCHES, &ASKED_INDEXES] {
        counter.define();
    }
    value_share::define();
    setting::refuse_others();
    invalidation::listen(forget_changed);
    function_path::install(&FUNCTIONS, &FILTERS, &ENABLED);
    unread_distance::install(c"treedb_hnsw");
}

on_load!(load);

pg_function! {
    /// The support function of `find`, `aggregate` and `count`: rows and cost of a call.
    fn treedb_find_support(args: [Internal]) -> Answer {
        match args.request(0) {
            Some(request) => request.answer(),
            None => Answer::none(),
        }
    }
}

pg_function! {
    /// The estimator of `@@` and the operators of `jsonb`: the share of a table's rows that match.
    fn treedb_matchsel(args: [Internal, Oid, Internal, Int4]) -> f64 {
        args.filter_share(&FILTERS)
    }
}

pg_function! {
    /// The estimator of these between two tables: the share of all pairs of rows that match.
    fn treedb_matchjoinsel(args: [Internal, Oid, Internal, Int2, Internal]) -> f64 {
        args.filter_share(&FILTERS)
    }
}

pg_function! {
    /// The estimator of comparisons of values: the share of a table's rows of which one is true.
    fn treedb_valuesel(args: [Internal, Oid, Internal, Int4]) -> f64 {
        args.value_share(&FILTERS)
    }
}

pg_function! {
    /// The estimator of these between two tables: the share of all pairs of rows.
    fn treedb_valuejoinsel(args: [Internal, Oid, Internal, Int2, Internal]) -> f64 {
        args.value_join_share(&FILTERS)
    }
}
