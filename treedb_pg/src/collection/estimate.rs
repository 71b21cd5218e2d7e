//! What executing `find`, `count` and `aggregate` is expected to take: rows and cost for the server's planner.
//!
//! The collection is opened and the query planned, as far as the arguments are constants. A call that fails there will
//! fail when it is executed, if it is: nothing here raises an error of its own.

use std::cell::RefCell;
use std::rc::Rc;

use treedb_query::access::IndexInfo;
use treedb_query::doc::{Doc, Value};
use treedb_query::index::ordered::Kind;
use treedb_query::query::{Filter, Path, Plan, Query, SearchedFields, matching_share};

use super::answers::{Answers, KEPT_BYTES, Kept, once};
use super::find::{parse_count, parse_find};
use super::index::{self, Index};
use super::ordered_rows;
use super::parallel_pipeline;
use super::reader::{ESTIMATED, Reader};
use super::spill::spilling;
use super::statistics::KnownStatistics;
use super::table::Table;
use crate::shim::catalog;
use crate::shim::datum::Datum;
use crate::shim::filter_scan::{PathNames, Scanned, SearchedBy, ValueStatistics};
use crate::shim::row_order::RowOrder;
use crate::shim::server::{self, Costs};
use crate::shim::setting::Counter;
use crate::shim::streamed::{ARGUMENTS, Argument, Divided, Estimate};
use crate::shim::text;
use crate::types::{bson, value};

/// How often the query layer has been asked by which of their fields indexes are searched for values that are not known.
pub(crate) static ASKED_INDEXES: Counter = Counter::new(
    c"treedb.asked_indexes",
    c"How often it has been found out which fields of indexes a search for unknown values uses.",
);

thread_local! {
    static ESTIMATES: RefCell<Answers<Estimate>> = Answers::new();
    static SHARES: RefCell<Answers<f64>> = Answers::new();
    static VALUES: RefCell<Answers<ValueStatistics>> = Answers::new();
    static SEARCHED: RefCell<Answers<Rc<[SearchedBy]>>> = Answers::new();
    static INDEXES: RefCell<Answers<SameIndexes>> = Answers::new();
    static KINDS: RefCell<Vec<SameIndexes>> = const { RefCell::new(Vec::new()) };
}

/// The estimate of a call with these arguments, made by `estimate` once. Which collection a name is depends on the schemas that are searched.
fn once_of_call(arguments: &[&[u8]], estimate: impl FnOnce() -> Option<Estimate>) -> Option<Estimate> {
    let schemas = catalog::search_path();
    let mut question: Vec<&[u8]> = vec![&schemas];
    question.extend(arguments);
    once(&ESTIMATES, &question, estimate)
}

/// The collection and the query of a call of `find` with constant arguments; `None` if they are not, or are wrong.
pub(super) fn find_query(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<(Reader, Query)> {
    let [name, filter, options] = arguments.each_ref().map(Argument::constant);
    let query = parse_find(&filter?.bytes(), &options?.bytes()).ok()?;
    let table = Table::open_quietly(&name?.bytes())?;
    Some((Reader::for_estimate(table), query))
}

/// What a call of `find` is expected to take.
pub(super) fn find(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
    let [Some(name), Some(filter), Some(options)] = arguments.each_ref().map(Argument::constant) else {
        return unknown_filter(arguments);
    };
    once_of_call(&[&name.bytes(), &filter.bytes(), &options.bytes()], || {
        let (reader, query) = find_query(arguments)?;
        let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
        Some(priced(&reader, &query, &plan, 1.0))
    })
}

/// The collection and the query of a call of `count` with constant arguments; `None` if they are not, or are wrong.
pub(super) fn count_query(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<(Reader, Query)> {
    let [name, filter, options] = arguments.each_ref().map(Argument::constant);
    let query = parse_count(&filter?.bytes(), &options?.bytes()).ok()?;
    let table = Table::open_quietly(&name?.bytes())?;
    let reader = Reader::for_estimate_of(table, &query);
    Some((reader, query))
}

/// What a call of `count` is expected to take: all of it before its only row.
pub(super) fn count(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
    let [Some(name), Some(filter), Some(options)] = arguments.each_ref().map(Argument::constant) else {
        return unknown_count(arguments);
    };
    once_of_call(&[b"count", &name.bytes(), &filter.bytes(), &options.bytes()], || {
        let (reader, query) = count_query(arguments)?;
        let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
        let read = match plan.counts_by_keys(&reader) && !reader.table.may_lack_documents() {
            true => 1.0 - reader.table.relation.get().all_visible_part(),
            false => 1.0,
        };
        let mut total = priced(&reader, &query, &plan, read).total;
        if parallel_pipeline::planned_to_count(&reader, &plan, &options.bytes()) > 0 {
            let alone = Estimate { startup: 0.0, total, rows: 1.0 };
            if let Some(divided) = scanned(&reader, &alone) {
                total = server::costs().parallel_setup + divided.each.total;
            }
        }
        Some(Estimate { startup: total, total, rows: 1.0 })
    })
}

/// The same of a constant collection with a filter that is not known: filters that vary mostly match few documents, which an
/// index counts. As [`unknown_filter`], it must not look dearer than with its values.
fn unknown_count(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
    if arguments.iter().any(|argument| matches!(argument, Argument::Null)) {
        return Some(Estimate { startup: 0.0, total: 0.0, rows: 1.0 });
    }
    let name = arguments[0].constant()?.bytes();
    once_of_call(&[b"count", &name], || {
        let few = few(&Table::open_quietly(&name)?);
        let total = few.startup + few.rows * server::costs().index_tuple;
        Some(Estimate { startup: total, total, rows: 1.0 })
    })
}

/// A scan of a collection that is estimated so, by several processes.
fn scanned(reader: &Reader, estimate: &Estimate) -> Option<Divided> {
    let table = &reader.table.relation;
    let blocks = f64::from(table.get().blocks());
    Divided::of(table, blocks, estimate, server::costs().seq_page * blocks)
}

/// What looking at documents costs the processor.
fn documents_cost(query: &Query, documents: f64) -> f64 {
    let Costs { tuple, operator, .. } = server::costs();
    documents * (tuple + query.filter.conjuncts().len() as f64 * 10.0 * operator)
}

/// What reads as a variable of a query whose value each process would have for itself.
const VARIABLES: [&[u8]; 2] = [b"$$NOW", b"$$CLUSTER_TIME"];

/// How several processes are expected to share a call of `find`: if its arguments are constants, and its documents come in no order
/// and all. They divide the documents of a scan, and those that an index leads to: there each reads all entries.
pub(super) fn divided_find(arguments: &[Argument<'_>; ARGUMENTS], estimate: &Estimate) -> Option<Divided> {
    let (reader, query) = find_query(arguments)?;
    let in_order = query.sort.is_some() || query.hint.is_some();
    if in_order || query.skip > 0 || query.limit > 0 {
        return None;
    }
    let varies = |argument: &Argument<'_>| {
        let Some(bytes) = argument.constant().map(Datum::bytes) else { return true };
        VARIABLES.iter().any(|name| bytes.windows(name.len()).any(|window| window == *name))
    };
    let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
    if plan.unique || arguments.iter().any(varies) {
        return None;
    }
    let table = &reader.table.relation;
    let blocks = f64::from(table.get().blocks());
    match plan.path {
        Path::CollectionScan => scanned(&reader, estimate),
        Path::Index { .. } | Path::Bitmap(_) => {
            let found = plan.estimate(&reader, &query).documents;
            // As the server has it for indexes of its own: what rows cost the processor is divided, what pages cost is not.
            Divided::of(table, found.min(blocks), estimate, estimate.total - documents_cost(&query, found))
        }
        Path::Empty | Path::Near(_) => None,
    }
}

/// What a call of `find` with a constant collection is expected to take whose filter is not known: filters that vary
/// mostly find few documents by an index. It must not look dearer than the same call with its values, by more than
/// planning it takes: a prepared statement would be planned each time.
fn unknown_filter(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
    if arguments.iter().any(|argument| matches!(argument, Argument::Null)) {
        return Some(Estimate { startup: 0.0, total: 0.0, rows: 0.0 });
    }
    let name = arguments[0].constant()?.bytes();
    once_of_call(&[&name], || {
        let name = arguments[0].constant()?.bytes();
        Some(few(&Table::open_quietly(&name)?))
    })
}

/// The estimate of a search for few documents.
fn few(table: &Table) -> Estimate {
    const FEW: f64 = 10.0;
    let rows = FEW.min(table.estimated_rows() as f64).max(1.0);
    looked_up(rows, rows, 1.0)
}

/// The estimate of a search by so many entries of an index for so many rows, which are in so many pages.
fn looked_up(keys: f64, rows: f64, pages: f64) -> Estimate {
    let Costs { random_page, tuple, operator, index_tuple, .. } = server::costs();
    let startup = random_page + 50.0 * operator;
    let total = startup + random_page * pages + rows * tuple + keys * index_tuple;
    Estimate { startup, total, rows }
}

/// What it takes to find the rows of a table that match a filter by its indexes; `None` if none of them helps. Only an `exact`
/// filter, which is what the query says, is taken for one by `_id` where it is not known.
pub(super) fn filter(table: Scanned, filter: &Argument<'_>, exact: bool) -> Option<Estimate> {
    // No name has a zero byte.
    let mut number = table.table.to_u32().to_le_bytes().to_vec();
    number.push(0);
    match filter {
        Argument::Null => Some(Estimate { startup: 0.0, total: 0.0, rows: 0.0 }),
        Argument::Expression(_) => {
            number.push(u8::from(exact));
            once(&ESTIMATES, &[&number], || {
                let table = Table::of_plan(table);
                (exact || index::has_key_sets(&table)).then(|| few(&table))
            })
        }
        Argument::Constant(filter) => {
            let bytes = filter.bytes();
            once(&ESTIMATES, &[&number, &bytes], || {
                let query = Query::new(Filter::parse(bson::document(&bytes)).ok()?);
                let reader = Reader::for_estimate(Table::of_plan(table));
                let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
                (plan.path != Path::CollectionScan).then(|| priced(&reader, &query, &plan, 1.0))
            })
        }
    }
}

/// What it takes to find these rows in an order; `None` if no index is expected to give it.
pub(super) fn ordered_filter(table: Scanned, filter: &Argument<'_>, order: &RowOrder) -> Option<Estimate> {
    let RowOrder { path, descending, absent_first, with_value: _, wanted } = order;
    let number = table.table.to_u32().to_le_bytes();
    let mut asked = vec![u8::from(*descending), u8::from(*absent_first)];
    asked.extend_from_slice(&wanted.to_le_bytes());
    asked.extend_from_slice(path);
    match filter {
        Argument::Null => Some(Estimate { startup: 0.0, total: 0.0, rows: 0.0 }),
        // Which index finds its rows is decided when it is known; sorting few costs next to nothing.
        Argument::Expression(_) => once(&ESTIMATES, &[&number, &asked], || {
            let reader = Reader::for_estimate(Table::of_plan(table));
            ordered_rows::may_be_in_order(&reader, order).then(|| few(&reader.table))
        }),
        Argument::Constant(filter) => {
            let bytes = filter.bytes();
            once(&ESTIMATES, &[&number, &asked, &bytes], || {
                let query = Query::new(Filter::parse(bson::document(&bytes)).ok()?);
                let query = ordered_rows::sorted(query, order);
                let reader = Reader::for_estimate(Table::of_plan(table));
                let plan = Plan::choose(&reader, &spilling(), &query).ok()?;
                // The server itself knows that it may not need all.
                let all = Query { limit: 0, ..query };
                ordered_rows::is_in_order(&reader, &plan).then(|| priced(&reader, &all, &plan, 1.0))
            })
        }
    }
}

/// Which share of a table's rows matches a filter; `None` if nothing is known, as where one that is not `exact` is empty.
pub(super) fn share(table: Scanned, filter: &Argument<'_>, exact: bool) -> Option<f64> {
    match filter {
        Argument::Null => Some(0.0),
        Argument::Expression(_) => {
            let table = Table::of_plan(table);
            Some(few(&table).rows / (table.estimated_rows() as f64).max(1.0))
        }
        Argument::Constant(filter) => {
            let (number, bytes) = (table.table.to_u32().to_le_bytes(), filter.bytes());
            once(&SHARES, &[&number, &[u8::from(exact)], &bytes], || {
                let query = Query::new(Filter::parse(bson::document(&bytes)).ok()?);
                if !exact && query.filter.is_all() {
                    return None;
                }
                let reader = Reader::for_estimate(Table::of_plan(table));
                (!reader.indexes.is_empty() || reader.has_statistics())
                    .then(|| matching_share(&reader, &query))
            })
        }
    }
}

/// The fields of each index of the table that are among these paths; of a wildcard index, each alone. Indexes
/// are not opened for that.
pub(super) fn fields_of_indexes(table: Scanned, paths: PathNames<'_>) -> Vec<Vec<usize>> {
    let paths: Vec<_> = paths.iter().map(|path| text::to_utf8(path)).collect();
    let position = |wanted: &str| paths.iter().position(|path| *path == wanted);
    let mut fields = Vec::new();
    for known in &index::known(&Table::of_plan(table)).indexes {
        match &known.def.options.kind {
            Kind::Wildcard(wildcard) => {
                fields.extend((0..paths.len()).filter(|at| wildcard.holds(&paths[*at])).map(|at| vec![at]));
            }
            _ => fields.push(known.def.keys.iter().filter_map(|part| position(part.path.as_str())).collect()),
        }
    }
    fields
}

/// The indexes of a table, the same as those of others that share them: partitions mostly have the same ones.
#[derive(Clone)]
struct SameIndexes {
    /// No others have the same number, as long as the backend lives.
    number: u64,
    indexes: Rc<[IndexInfo]>,
}

/// Most different lists of indexes that are kept, as long as they take no more than [`KEPT_BYTES`]; the oldest one goes first.
const KEPT_KINDS: usize = 32;

impl Kept for SameIndexes {
    fn held(&self) -> usize {
        let one = |index: &IndexInfo| {
            size_of::<IndexInfo>() + size_of_val(&*index.def) + index.def.spec().as_bytes().len()
        };
        self.indexes.iter().map(one).sum()
    }
}

impl SameIndexes {
    /// These, known as those that were the same if there were any.
    fn of(indexes: Rc<[IndexInfo]>) -> SameIndexes {
        let is_same = |one: &IndexInfo, other: &IndexInfo| {
            (one.multikey, one.ordered) == (other.multikey, other.ordered) && one.def == other.def
        };
        let are_same = |others: &SameIndexes| {
            let others = &others.indexes;
            others.len() == indexes.len()
                && others.iter().zip(&*indexes).all(|(one, other)| is_same(one, other))
        };
        KINDS.with_borrow_mut(|kinds| {
            if let Some(known) = kinds.iter().rev().find(|known| are_same(known)) {
                return known.clone();
            }
            let number = kinds.last().map_or(0, |last| last.number + 1);
            let new = SameIndexes { number, indexes: Rc::clone(&indexes) };
            kinds.push(new.clone());
            // The last one stays in any case: the next one has the number after it.
            let mut bytes: usize = kinds.iter().map(SameIndexes::held).sum();
            while kinds.len() > KEPT_KINDS || kinds.len() > 1 && bytes > KEPT_BYTES {
                bytes -= kinds.remove(0).held();
            }
            new
        })
    }
}

/// The indexes of a table that can be read.
fn indexes_of(table: Scanned) -> Option<SameIndexes> {
    once(&INDEXES, &[&table.table.to_u32().to_le_bytes()], || {
        ESTIMATED.add();
        let known = index::known(&Table::of_plan(table));
        let indexes = known.indexes.iter().filter_map(|known| {
            let mut index = Index::open_without_facts(known);
            (index.usable && index.knows_facts()).then(|| index.info())
        });
        Some(SameIndexes::of(indexes.collect()))
    })
}

/// By which of `paths` indexes find the rows of a filter in which some values stand for others, of which a part is `known`.
pub(super) fn searched_by(
    table: Scanned,
    filter: &[u8],
    known: &[u8],
    paths: PathNames<'_>,
) -> Rc<[SearchedBy]> {
    let Some(SameIndexes { number, indexes }) = indexes_of(table) else { return Rc::default() };
    let number = number.to_le_bytes();
    let mut asked: Vec<&[u8]> = vec![&number, filter, known];
    asked.extend(paths);
    let found = once(&SEARCHED, &asked, || {
        let paths: Vec<_> = paths.iter().map(|path| text::to_utf8(path)).collect();
        let positions = |names: &[String]| -> Vec<usize> {
            names.iter().filter_map(|name| paths.iter().position(|path| *path == **name)).collect()
        };
        let query = Query::new(Filter::parse(bson::document(filter)).ok()?);
        let known = Filter::parse(bson::document(known)).ok()?;
        ASKED_INDEXES.add();
        let found = Plan::searched_fields(&indexes, &query, &known);
        let by = |fields: &SearchedFields| SearchedBy {
            bounding: positions(&fields.bounding),
            tested: positions(&fields.tested),
            multikey: fields.multikey,
        };
        Some(found.iter().map(by).collect())
    });
    found.unwrap_or_default()
}

/// What it takes to find so many rows of a table of so many blocks by so many entries of an index.
pub(super) fn unknown_values(blocks: f64, keys: f64, rows: f64) -> Estimate {
    looked_up(keys, rows, rows.min(blocks).max(1.0))
}

/// What statistics say of the values at a path of a table's documents.
pub(super) fn value_statistics(table: Scanned, path: &[u8]) -> Option<ValueStatistics> {
    let number = table.table.to_u32().to_le_bytes();
    once(&VALUES, &[&number, path], || {
        let table = Table::of_plan(table);
        let known = KnownStatistics::default().of(&table, &text::to_utf8(path))?;
        let rows = table.estimated_rows() as f64;
        let distinct = if known.distinct < 0.0 { -known.distinct * rows } else { known.distinct };
        Some(ValueStatistics { missing: known.missing.clamp(0.0, 1.0), distinct: distinct.max(1.0) })
    })
}

/// About how many different pages of `pages` are read at so many places: the formula of Mackert and Lohman, as the server has it. The
/// ranges of a region are many, and near each other.
fn pages_fetched(places: f64, pages: f64) -> f64 {
    if pages.is_infinite() || places <= 1.0 {
        return places;
    }
    (2.0 * pages * places / (2.0 * pages + places)).min(pages).ceil()
}

/// The estimate of a plan in the planner's units, if `read` is the part of the documents it examines that it has to fetch.
fn priced(reader: &Reader, query: &Query, plan: &Plan, read: f64) -> Estimate {
    let mut expected = plan.estimate(reader, query);
    expected.documents *= read;
    let Costs { seq_page, random_page, index_tuple, operator, .. } = server::costs();
    let table = reader.table.relation.get();
    let (blocks, rows) = (f64::from(table.blocks()), reader.table.estimated_rows() as f64);
    let (begin, pages) = match &plan.path {
        Path::Empty => (0.0, 0.0),
        Path::CollectionScan => (0.0, seq_page * blocks * (expected.documents / rows.max(1.0)).min(1.0)),
        Path::Index { index, ranges, .. } => {
            let index = reader.indexes.get(*index);
            let pages = index.map_or(f64::INFINITY, |index| f64::from(index.relation.get().blocks()));
            let begun = pages_fetched(ranges.len() as f64, pages);
            (random_page * begun, random_page * expected.documents.min(blocks))
        }
        Path::Bitmap(_) | Path::Near(_) => (2.0 * random_page, random_page * expected.documents.min(blocks)),
    };
    let startup = begin + 50.0 * operator;
    let walk = expected.keys * index_tuple + documents_cost(query, expected.documents) + pages;
    let sort = if plan.sort_in_memory {
        let limit =
            if query.limit == 0 { f64::INFINITY } else { query.skip.saturating_add(query.limit) as f64 };
        2.0 * operator * expected.documents * limit.min(expected.documents).max(2.0).log2()
    } else {
        0.0
    };
    let total = startup + walk + sort;
    // A sort reads everything before its first document.
    let startup = if plan.sort_in_memory { total } else { startup };
    Estimate { startup, total, rows: expected.returned.max(1.0) }
}

/// What a call of `aggregate` is expected to take: the collection is read, and each stage leaves a part.
pub(super) fn aggregate(arguments: &[Argument<'_>; ARGUMENTS]) -> Option<Estimate> {
    let [Some(name), Some(stages), _] = arguments.each_ref().map(Argument::constant) else { return None };
    once_of_call(&[&name.bytes(), &stages.bytes()], || {
        let table = Table::open_quietly(&name.bytes())?;
        let read = table.estimated_rows() as f64;
        let bytes = stages.bytes();
        let Value::Array(list) = value::decode(&bytes) else { return None };
        let mut rows = read;
        let mut streams = true;
        for stage in list.elements() {
            let Value::Document(stage) = stage.value() else { return None };
            streams &= narrow(&stage, &mut rows);
        }
        let Costs { seq_page, tuple, operator, .. } = server::costs();
        let blocks = f64::from(table.relation.get().blocks());
        let total = seq_page * blocks + read * (tuple + 10.0 * operator);
        let startup = if streams { 50.0 * operator } else { total };
        Some(Estimate { startup, total: total.max(startup), rows: rows.max(1.0) })
    })
}

/// What a stage leaves of `rows`; false if it reads all of them before it returns the first one.
fn narrow(stage: &Doc<'_>, rows: &mut f64) -> bool {
    let Some(element) = stage.elements().next() else { return true };
    let number = element.value().as_integer().unwrap_or(0) as f64;
    match element.name {
        b"$match" => *rows *= 0.2,
        b"$limit" => *rows = rows.min(number),
        b"$skip" => *rows = (*rows - number).max(0.0),
        b"$unwind" => *rows *= 5.0,
        b"$sample" => *rows = rows.min(100.0),
        b"$count" => {
            *rows = 1.0;
            return false;
        }
        b"$group" => {
            let all = matches!(element.value(), Value::Document(group) if matches!(group.get("_id"), Some(Value::Null)));
            *rows = if all { 1.0 } else { rows.min(200.0_f64.max(*rows / 10.0)) };
            return false;
        }
        b"$sortByCount" | b"$bucket" | b"$bucketAuto" => {
            *rows = rows.min(200.0);
            return false;
        }
        b"$facet" => {
            *rows = 1.0;
            return false;
        }
        b"$sort" | b"$setWindowFields" => return false,
        _ => {}
    }
    true
}
