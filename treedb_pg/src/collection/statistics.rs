//! Statistics of documents: what ANALYZE collects of the values in a column of type `bson`, and reading it again.
//!
//! A bounded number of paths has statistics. First come those that somebody has pointed out: the paths of the collection's
//! indexes, and those named as the server's users name what it cannot guess, `CREATE STATISTICS ON (doc -> 'path') FROM films`.
//! So the names are in the catalog, belong to the table, and pg_dump has them; the server itself collects statistics of the
//! expression beside.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use ::bson::RawDocument;
use pgrx::pg_sys;
use treedb_query::access::statistics::{PathStatistics, Sample, Statistics};
use treedb_query::index::ordered::Kind;
use treedb_query::query::Result;

use super::catalog_cache::{self, Moment};
use super::index;
use super::table::Table;
use crate::shim::analyze::{self, ColumnAnalysis, SampledColumn};
use crate::shim::catalog;
use crate::shim::error::accept;
use crate::shim::expression::ColumnCall;
use crate::shim::function::pg_function;
use crate::shim::relation::{LockMode, OpenTable};
use crate::shim::text;
use crate::types::bson;

/// The kind of our slot: of the kinds that are free for private use.
const KIND: i16 = 12_121;
/// Documents that are read at most: the server samples more where `default_statistics_target` is above 100.
const MOST_DOCUMENTS: usize = 30_000;

/// Bytes of documents that are read in one pass, about.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Documents by which the size of the others is estimated.
const MEASURED: usize = 64;

/// ANALYZE of documents: a value for each path, as [`PathStatistics::to_document`] writes it.
struct Documents;

impl ColumnAnalysis for Documents {
    const KIND: i16 = KIND;

    fn statistics(sample: &SampledColumn<'_>, rows: f64, target: usize) -> Vec<Vec<u8>> {
        let wanted = sample.column().map(|(table, column)| wanted_paths(table, column)).unwrap_or_default();
        let statistics = accept(Statistics::of_sample(&mut Sampled::new(sample), &wanted, rows, target));
        statistics.paths().map(|path| path.to_document().into_bytes()).collect()
    }
}

/// The paths of a locked table's indexes, and those that statistics are created of.
fn wanted_paths(table: pg_sys::Oid, column: i16) -> Vec<String> {
    // A partitioned table has no indexes of a collection.
    let Some(relation) = OpenTable::open_quietly(table, LockMode::Held) else { return Vec::new() };
    let table = Table { relation, doc: column };
    let known = index::known(&table);
    let defs = known.indexes.iter().map(|index| &index.def);
    let ordered = defs.filter(|def| !matches!(def.options.kind, Kind::Wildcard(_)));
    let indexed = ordered.flat_map(|def| def.keys.iter().map(|part| part.path.as_str().to_owned()));
    let named = ColumnCall::of_statistics(table.relation.get()).into_iter();
    let named = named.filter(|call| call.column == column && catalog::is_own_function(call.function, c"get"));
    let mut paths: Vec<String> =
        indexed.chain(named.map(|call| text::to_utf8(&call.constant).into_owned())).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Every so many documents of a sample.
struct Sampled<'s, 'a> {
    column: &'s SampledColumn<'a>,
    step: usize,
}

impl<'s, 'a> Sampled<'s, 'a> {
    /// As many documents as may be read: few of large ones, which have to be fetched and decompressed.
    fn new(column: &'s SampledColumn<'a>) -> Self {
        let rows = column.rows();
        let measured = (0..rows).step_by((rows / MEASURED).max(1)).filter_map(|row| column.value(row));
        let (mut count, mut bytes) = (0, 0);
        for value in measured.take(MEASURED) {
            (count, bytes) = (count + 1, bytes + value.bytes().len());
        }
        let average = (bytes / count.max(1)).max(1);
        let most = (MOST_BYTES / average).clamp(1, MOST_DOCUMENTS);
        Sampled { column, step: rows.div_ceil(most).max(1) }
    }
}

impl Sample for Sampled<'_, '_> {
    fn each(&mut self, visit: &mut dyn FnMut(&RawDocument) -> Result<()>) -> Result<()> {
        // The server has them in the order of the table, and none is more likely to be there than others.
        for row in (0..self.column.rows()).step_by(self.step) {
            if let Some(value) = self.column.value(row) {
                visit(bson::document(&value.bytes()))?;
            }
        }
        Ok(())
    }
}

pg_function! {
    /// The `typanalyze` function of the type `bson`.
    fn treedb_bson_analyze(args: [Internal]) -> bool {
        args.prepare_analysis::<Documents>()
    }
}

/// The statistics of a table's documents, read when they are first asked for.
#[derive(Default)]
pub(super) struct KnownStatistics(OnceCell<Stored>);

/// The statistics of a column, each of a path.
type Stored = Rc<Vec<Vec<u8>>>;

/// When, and of which table and column.
type Read = (Moment, pg_sys::Oid, i16);

thread_local! {
    /// The statistics that were read last: the planner asks for each condition of a statement.
    static LAST: RefCell<Option<(Read, Stored)>> = const { RefCell::new(None) };
}

fn stored(table: pg_sys::Oid, column: i16) -> Stored {
    let wanted = (catalog_cache::moment(), table, column);
    let last = LAST.with_borrow(|last| {
        last.as_ref().filter(|(read, _)| *read == wanted).map(|(_, found)| Rc::clone(found))
    });
    last.unwrap_or_else(|| {
        let found = Rc::new(analyze::stored(table, column, KIND));
        LAST.set(Some((wanted, Rc::clone(&found))));
        found
    })
}

impl KnownStatistics {
    fn read(&self, table: &Table) -> &[Vec<u8>] {
        self.0.get_or_init(|| {
            let oid = table.relation.get().oid();
            // They would tell of rows that policies hide from the user.
            if catalog::hides_rows(oid) { Rc::default() } else { stored(oid, table.doc) }
        })
    }

    /// Whether there are any.
    pub(super) fn exist(&self, table: &Table) -> bool {
        !self.read(table).is_empty()
    }

    /// The statistics of the values at a path.
    pub(super) fn of(&self, table: &Table, path: &str) -> Option<PathStatistics> {
        let stored = self.read(table).iter().map(|stored| bson::document(stored));
        let mut named = stored.filter(|stored| stored.get_str("path").is_ok_and(|stored| stored == path));
        PathStatistics::from_document(named.next()?)
    }
}
