//! Random documents, filters, sorts and indexes: every plan gives what a naive evaluation gives.

mod collated;
mod memory;
pub mod naive;
mod updates;

use bson::{Bson, Document, RawDocumentBuf, doc};
use treedb_testing::{Rng, oracle_factor, seeds};

use memory::Memory;
use treedb_query::access::{Flow, Source};
use treedb_query::error::ErrorCode;
use treedb_query::index::ordered::{IndexDef, Kind};
use treedb_query::query::{
    BitmapScan, Execution, Filter, Path, Projection, Query, Sort, count, find_rows, index_of,
};

pub const PATHS: &[&str] =
    &["a", "a", "b", "b", "c", "a.x", "a.x", "a.y", "a.y", "b.x", "a.0", "a.0.x", "b.1", "a.x.y", "c.x"];
const SORT_PATHS: &[&str] = &["a", "b", "c", "a.x", "b.x", "a.x.y", "c.x", "n"];

fn raw(doc: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(doc).unwrap()
}

/// A value that is neither a document nor an array.
pub fn scalar(rng: &mut Rng) -> Bson {
    // Mostly small numbers, so that conditions meet values, and two conditions two elements of one array.
    match rng.below(48) {
        0..32 => Bson::Int32(rng.below(5) as i32),
        32 => {
            Bson::Double(*rng.pick(&[0.0, -0.0, 1.0, 1.5, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]))
        }
        33 => Bson::Int64(rng.below(4) as i64),
        34..36 => {
            let written = [
                "0",
                "-0",
                "1",
                "1.0",
                "1.5",
                "2",
                "2.00",
                "0.1",
                "2E+1",
                "1E+300",
                "1E+6000",
                "-1E-6000",
                "NaN",
                "Infinity",
                "-Infinity",
            ];
            Bson::Decimal128(rng.pick(&written).parse().unwrap())
        }
        36..39 => Bson::String((*rng.pick(&["", "a", "b", "ab", "a\0"])).to_owned()),
        39 => Bson::Null,
        40 => rng.pick(&[Bson::Boolean(false), Bson::Boolean(true), Bson::Null]).clone(),
        41 => Bson::DateTime(bson::DateTime::from_millis(*rng.pick(&[-1, 0, 1, i64::MIN, i64::MAX]))),
        42 => Bson::ObjectId(bson::oid::ObjectId::from_bytes([rng.below(2) as u8; 12])),
        43 => rng.pick(&[Bson::MinKey, Bson::MaxKey]).clone(),
        44 => Bson::Timestamp(bson::Timestamp { time: rng.below(2) as u32, increment: rng.below(3) as u32 }),
        45 => Bson::Binary(bson::Binary {
            subtype: (*rng.pick(&[0_u8, 4, 128])).into(),
            bytes: (0..rng.below(3)).map(|_| *rng.pick(&[0, 1, 0xff])).collect(),
        }),
        46 => regex(rng),
        _ => Bson::Symbol("a".to_owned()),
    }
}

/// A value that every comparison takes: a regular expression is refused by all but `$eq`, `$in`, `$nin` and `$all`.
pub(crate) fn comparable(rng: &mut Rng) -> Bson {
    loop {
        let value = scalar(rng);
        if !matches!(value, Bson::RegularExpression(_)) {
            return value;
        }
    }
}

fn value(rng: &mut Rng, depth: usize, arrays: bool) -> Bson {
    match rng.below(if depth == 0 { 7 } else { 12 }) {
        0..7 => scalar(rng),
        9.. if arrays => Bson::Array((0..rng.below(4)).map(|_| value(rng, depth - 1, arrays)).collect()),
        _ => Bson::Document(inner(rng, depth - 1, arrays)),
    }
}

fn inner(rng: &mut Rng, depth: usize, arrays: bool) -> Document {
    let mut doc = Document::new();
    for name in ["x", "y"] {
        if rng.below(3) > 0 {
            doc.insert(name, value(rng, depth, arrays));
        }
    }
    if rng.below(40) == 0 {
        doc.insert("0", value(rng, depth, arrays));
    }
    doc
}

/// A document with arrays only in the fields named: two arrays under one compound index are refused.
pub fn document(rng: &mut Rng, number: usize, arrays: &[&str]) -> Document {
    let mut doc = doc! { "_id": number as i32, "n": rng.below(5) as i32 };
    for name in ["a", "b", "c"] {
        if arrays.contains(&name) && rng.below(3) == 0 {
            // What arrays mostly hold in practice: records.
            let record = |rng: &mut Rng| doc! { "x": rng.below(4) as i32, "y": rng.below(4) as i32 };
            doc.insert(name, (0..1 + rng.below(3)).map(|_| record(rng)).collect::<Vec<_>>());
        } else if rng.below(5) > 0 {
            doc.insert(name, value(rng, 3, arrays.contains(&name)));
        }
    }
    doc
}

fn constant(rng: &mut Rng) -> Bson {
    match rng.below(120) {
        // No decimal is one of these doubles; the documents hold decimals just beside them.
        0 => Bson::Double(*rng.pick(&[0.1, 1e300, f64::MAX])),
        1..20 => value(rng, 2, true),
        _ => scalar(rng),
    }
}

/// The same without a regular expression in its place; those inside documents and arrays are values like others.
fn comparable_constant(rng: &mut Rng) -> Bson {
    match constant(rng) {
        Bson::RegularExpression(_) => comparable(rng),
        other => other,
    }
}

fn regex(rng: &mut Rng) -> Bson {
    let pattern = *rng.pick(&["^a", "^ab", "b", "a$", "^b$", "^", "^A"]);
    let options = *rng.pick(&["", "", "i"]);
    let text = |text: &str| bson::raw::CString::try_from(text).unwrap();
    Bson::RegularExpression(bson::Regex { pattern: text(pattern), options: text(options) })
}

/// The operators that came after those of comparison.
fn later_operator(rng: &mut Rng, depth: usize) -> (&'static str, Bson) {
    match rng.below(if depth > 0 { 12 } else { 7 }) {
        0 => {
            let kinds = [
                "int",
                "number",
                "string",
                "null",
                "array",
                "object",
                "double",
                "bool",
                "symbol",
                "minKey",
                "maxKey",
                "decimal",
                "timestamp",
                "binData",
                "regex",
                "date",
                "objectId",
                "long",
            ];
            ("$type", Bson::String((*rng.pick(&kinds)).to_owned()))
        }
        1 => (
            "$mod",
            Bson::Array(vec![Bson::Int32(2 + rng.below(2) as i32), Bson::Int32(rng.below(2) as i32)]),
        ),
        2 | 3 => ("$regex", regex(rng)),
        4 => {
            let names = ["$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"];
            (*rng.pick(&names), Bson::Int32(rng.below(4) as i32))
        }
        5 => ("$size", Bson::Int32(rng.below(4) as i32)),
        6 => ("$all", Bson::Array((0..rng.below(3)).map(|_| constant(rng)).collect())),
        7 => {
            let each =
                (0..1 + rng.below(2)).map(|_| doc! { "$elemMatch": elem_match(rng, depth - 1) }.into());
            ("$all", Bson::Array(each.collect()))
        }
        _ => ("$elemMatch", elem_match(rng, depth - 1).into()),
    }
}

fn elem_match(rng: &mut Rng, depth: usize) -> Document {
    let conditions = |rng: &mut Rng| -> Document {
        (0..1 + rng.below(2))
            .map(|_| {
                let (name, operand) = any_operator(rng, depth);
                (name.to_owned(), operand)
            })
            .collect()
    };
    match rng.below(5) {
        0 | 1 => conditions(rng),
        2 => doc! { "$or": [{ "x": scalar(rng) }, { "y": conditions(rng) }] },
        _ => {
            let mut inner = Document::new();
            for _ in 0..1 + rng.below(2) {
                let path = *rng.pick(&["x", "y", "x", "y", "x.y", "0"]);
                let condition = if rng.below(2) == 0 { scalar(rng) } else { conditions(rng).into() };
                inner.insert(path, condition);
            }
            inner
        }
    }
}

fn any_operator(rng: &mut Rng, depth: usize) -> (&'static str, Bson) {
    if rng.below(3) == 0 { later_operator(rng, depth) } else { operator(rng) }
}

fn operator(rng: &mut Rng) -> (&'static str, Bson) {
    match rng.below(14) {
        0 | 1 => ("$eq", constant(rng)),
        2 | 3 => ("$gt", comparable_constant(rng)),
        4 | 5 => ("$gte", comparable_constant(rng)),
        6 | 7 => ("$lt", comparable_constant(rng)),
        8 => ("$lte", comparable_constant(rng)),
        9 => ("$ne", comparable_constant(rng)),
        10 | 11 => ("$in", Bson::Array((0..rng.below(4)).map(|_| constant(rng)).collect())),
        12 => ("$nin", Bson::Array((0..rng.below(3)).map(|_| constant(rng)).collect())),
        _ => ("$exists", Bson::Boolean(rng.below(2) == 0)),
    }
}

pub fn filter(rng: &mut Rng, depth: usize) -> Document {
    if rng.below(10) == 0 {
        let (name, operand) = operator(rng);
        return doc! { "a.x": scalar(rng), "a.y": { name: operand } };
    }
    let mut filter = Document::new();
    for _ in 0..[1, 1, 1, 2, 2, 3][rng.below(6)] {
        let path = if rng.below(12) == 0 { "_id" } else { *rng.pick(PATHS) };
        match rng.below(if depth > 0 { 12 } else { 9 }) {
            0..3 => {
                let constant = match constant(rng) {
                    // A document of operators would be read as such.
                    Bson::Document(doc) if doc.keys().any(|name| name.starts_with('$')) => Bson::Null,
                    _ if rng.below(20) == 0 => regex(rng),
                    other => other,
                };
                filter.insert(path, constant);
            }
            3..8 => {
                let operators = (0..1 + rng.below(2)).map(|_| any_operator(rng, 2));
                filter.insert(
                    path,
                    operators.map(|(name, operand)| (name.to_owned(), operand)).collect::<Document>(),
                );
            }
            8 => {
                let (name, operand) = any_operator(rng, 1);
                let negated = if rng.below(8) == 0 { regex(rng) } else { doc! { name: operand }.into() };
                filter.insert(path, doc! { "$not": negated });
            }
            _ => {
                let clauses: Vec<Document> =
                    (0..1 + rng.below(3)).map(|_| self::filter(rng, depth - 1)).collect();
                filter.insert(*rng.pick(&["$and", "$or", "$nor", "$and"]), clauses);
            }
        }
    }
    filter
}

pub fn pattern(rng: &mut Rng, paths: &[&'static str]) -> Document {
    if rng.below(6) == 0 {
        return doc! { "a.x": 1, "a.y": if rng.below(2) == 0 { 1 } else { -1 } };
    }
    let mut pattern = Document::new();
    for _ in 0..1 + rng.below(3) {
        pattern.insert(*rng.pick(paths), if rng.below(2) == 0 { 1 } else { -1 });
    }
    pattern
}

/// A sort whose fields do not lie in one another: their arrays are chosen from independently.
fn sort(rng: &mut Rng) -> Document {
    let mut sort = Document::new();
    for (path, direction) in pattern(rng, SORT_PATHS) {
        let first = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        if !sort.keys().any(|other: &String| first(other) == first(&path)) {
            sort.insert(path, direction);
        }
    }
    sort
}

/// The specification of an index that may leave rows out, or gives no order.
fn odd_index(rng: &mut Rng) -> Document {
    let key = pattern(rng, &["a", "a.x", "b", "c", "b.x"]);
    match rng.below(6) {
        0 | 1 => doc! { "key": key, "sparse": true },
        2 => {
            let conditions = [
                doc! { "a": { "$exists": true } },
                doc! { "b": { "$gte": 1 } },
                doc! { "a.x": { "$gt": 0 }, "n": { "$in": [1, 2, 3] } },
                doc! { "$or": [{ "a": { "$lt": 3 } }, { "c": { "$type": "number" } }] },
            ];
            doc! { "key": key, "partialFilterExpression": rng.pick(&conditions).clone() }
        }
        3 => doc! { "key": { *rng.pick(&["a", "b", "c", "a.x"]): "hashed" } },
        4 => doc! { "key": { "n": 1, "c": "hashed", "b.x": -1 } },
        _ => {
            let projection = doc! { *rng.pick(&["a.x", "b", "c"]): rng.below(2) as i32 };
            match rng.below(4) {
                0 => doc! { "key": { "$**": 1 }, "wildcardProjection": projection },
                1 => doc! { "key": { "a.$**": 1 } },
                _ => doc! { "key": { "$**": 1 } },
            }
        }
    }
}

/// What a query finds by an index that a hint names and that may leave rows out: what has entries, and of that
/// perhaps only a part where a row has several and not all of them are in the index. `None`: it cannot be used.
fn by_hint(
    source: &Memory,
    query: &Query,
    index: usize,
    wanted: &[i32],
    rng: &mut Rng,
    context: &dyn Fn() -> String,
) {
    let info = &source.indexes()[index];
    let (def, mut forced) = (source.ordered(index).clone(), query.clone());
    forced.hint = Some(def.name.clone().into());
    let found = match run(source, forced, rng) {
        Ok(found) => ids(&found),
        Err(error) => {
            assert_eq!(error.code, ErrorCode::NoQueryExecutionPlans, "{}", context());
            assert!(matches!(def.options.kind, Kind::Wildcard(_)), "{}", context());
            return;
        }
    };
    let all = !def.options.sparse && def.options.partial.is_none();
    let there: Vec<i32> =
        wanted.iter().copied().filter(|id| all || source.has_entries(index, *id as u64)).collect();
    if info.multikey && !all {
        assert!(found.iter().all(|id| there.contains(id)), "{}: {}", def.name, context());
    } else {
        assert_eq!(found, there, "{}: {}", def.name, context());
    }
}

fn run(source: &Memory, query: Query, rng: &mut Rng) -> treedb_query::error::Result<Vec<Document>> {
    let mut execution = Execution::new(source, &source.context(), query)?;
    let mut all = Vec::new();
    loop {
        let mut left = 1 + rng.below(5);
        let more = execution.run(source, &source.context(), &mut |doc| {
            all.push(Document::try_from(&*doc).unwrap());
            left -= 1;
            if left == 0 { Flow::Break(()) } else { Flow::Continue(()) }
        })?;
        if !more {
            assert_eq!(execution.counters().returned, all.len() as u64);
            return Ok(all);
        }
    }
}

fn ids(docs: &[Document]) -> Vec<i32> {
    let mut ids: Vec<i32> = docs.iter().map(|doc| doc.get_i32("_id").unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// A document as text, whatever the order of its fields.
fn unordered(doc: &Document) -> String {
    let mut fields: Vec<String> = doc
        .iter()
        .map(|(name, value)| match value {
            Bson::Document(inner) => format!("{name}: {{{}}}", unordered(inner)),
            value => format!("{name}: {value:?}"),
        })
        .collect();
    fields.sort_unstable();
    fields.join(", ")
}

/// The fields of an index, which it may answer alone, are handed out as they are in the documents.
fn projected(
    source: &Memory,
    query: &Query,
    wanted: &[&Document],
    rng: &mut Rng,
    seen: &mut Seen,
    context: &dyn Fn() -> String,
) {
    let index = source.ordered(rng.below(source.indexes().len())).clone();
    let mut fields: Document =
        index.keys.iter().map(|part| (part.path.as_str().to_owned(), Bson::Int32(1))).collect();
    if rng.below(4) > 0 && !fields.contains_key("_id") {
        fields.insert("_id", 0);
    }
    // Paths in one another are refused.
    let Ok(projection) = Projection::parse(&raw(&fields)) else { return };
    let mut query = query.clone();
    query.projection = projection.clone();
    // A hint makes a sparse or partial index serve what it does not hold.
    if rng.below(2) == 0 && !index.options.sparse && index.options.partial.is_none() {
        query.hint = Some(index.name.into());
    }
    let mut execution = Execution::new(source, &source.context(), query).unwrap();
    let mut found = Vec::new();
    execution
        .run(source, &source.context(), &mut |doc| {
            found.push(unordered(&Document::try_from(&*doc).unwrap()));
            Flow::Continue(())
        })
        .unwrap();
    let counters = execution.counters();
    seen.covered += usize::from(counters.docs_examined < counters.returned);
    let mut expected: Vec<String> = wanted
        .iter()
        .map(|doc| {
            let raw = raw(doc);
            let projected = projection.as_ref().map_or(Ok(raw.clone()), |fields| fields.apply(&raw));
            unordered(&Document::try_from(&*projected.unwrap()).unwrap())
        })
        .collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{fields} {}", context());
}

/// How often each kind of plan was chosen.
#[derive(Debug, Default)]
struct Seen {
    rows: usize,
    index: usize,
    nothing: usize,
    sorted_by_index: usize,
    /// Those by an index with several entries a row and several fields.
    multikey_compound: usize,
    /// Those that test keys, and those whose keys answer for their rows.
    tested: usize,
    sets: usize,
    /// Those answered by an index alone, at least in part.
    covered: usize,
    complete: usize,
    sparse: usize,
    partial: usize,
    hashed: usize,
    wildcard: usize,
    matched: usize,
}

fn one_collection(rng: &mut Rng, seen: &mut Seen) {
    let arrays: &[&str] = rng.pick::<&[&str]>(&[&["a", "b", "c"], &["a"], &["a"], &["b"], &["c"], &[]]);
    let docs: Vec<Document> = (0..40).map(|number| document(rng, number, arrays)).collect();
    let raws: Vec<RawDocumentBuf> = docs.iter().map(raw).collect();
    let mut source = Memory::new(&raws);
    source.scale = *rng.pick(&[1, 1, 50]);
    source.index(IndexDef::id()).unwrap();
    for _ in 0..rng.below(5) {
        // A collection with parallel arrays refuses the index; the next one is tried then.
        let _ = source.index(IndexDef::parse(&raw(&pattern(rng, PATHS)), None, false).unwrap());
    }
    let whole = source.indexes().len();
    for _ in 0..rng.below(4) {
        let mut spec = odd_index(rng);
        spec.insert("name", format!("odd{}", source.indexes().len()));
        let _ = source.index(index_of(&raw(&spec)).unwrap());
    }
    for _ in 0..40 {
        let mut filter = filter(rng, 2);
        // Now and then what a partial index asks for is asked for.
        let partial =
            (0..source.indexes().len()).find_map(|index| source.ordered(index).options.partial.as_ref());
        if let (0, Some(partial)) = (rng.below(4), partial) {
            let covered = Document::try_from(partial.source()).unwrap();
            filter = doc! { "$and": [filter, covered] };
        }
        let parsed = Filter::parse(&raw(&filter)).unwrap();
        let wanted: Vec<&Document> = docs.iter().filter(|doc| naive::matches(doc, &filter)).collect();
        let wanted_ids: Vec<i32> = wanted.iter().map(|doc| doc.get_i32("_id").unwrap()).collect();
        seen.matched += wanted.len();

        let mut query = Query::new(parsed);
        if rng.below(4) == 0 {
            query.hint = Some(rng.pick(&source.indexes()[..whole]).def.name().into());
        }
        let plain = run(&source, query.clone(), rng).unwrap();
        let plan = Execution::new(&source, &source.context(), query.clone()).unwrap().plan().clone();
        let context = || format!("{filter}\nplan {plan:?}\nindexes {:?}", source.indexes());
        assert_eq!(ids(&plain), wanted_ids, "{}", context());
        assert_eq!(count(&source, &source.context(), &query).unwrap(), wanted.len() as u64, "{}", context());
        // The same without any index, and by one that may be of no use.
        by_hint(&source, &query, rng.below(source.indexes().len()), &wanted_ids, rng, &context);
        for hint in ["$natural", rng.pick(&source.indexes()[..whole]).def.name()] {
            let mut forced = query.clone();
            forced.hint = Some(hint.into());
            assert_eq!(ids(&run(&source, forced, rng).unwrap()), wanted_ids, "{hint}: {}", context());
        }
        projected(&source, &query, &wanted, rng, seen, &context);
        let limit = rng.below(4) as u64;
        let rows = find_rows(&source, &source.context(), &query, limit).unwrap();
        let most = if limit == 0 { usize::MAX } else { limit as usize };
        assert_eq!(rows.len(), wanted.len().min(most), "{}", context());
        match plan.path {
            Path::CollectionScan => seen.rows += 1,
            Path::Index { index, keys, .. } => {
                seen.index += 1;
                seen.tested += usize::from(keys.test.is_some());
                seen.complete += usize::from(keys.complete);
                let (info, def) = (&source.indexes()[index], source.ordered(index));
                seen.multikey_compound += usize::from(info.multikey && def.keys.len() > 1);
                let options = &def.options;
                seen.sparse += usize::from(options.sparse);
                seen.partial += usize::from(options.partial.is_some());
                seen.hashed += usize::from(matches!(options.kind, Kind::Hashed(_)));
                seen.wildcard += usize::from(matches!(options.kind, Kind::Wildcard(_)));
            }
            Path::Bitmap(_) => seen.sets += 1,
            Path::Near(_) => unreachable!("no random filter has a $near"),
            Path::Empty => seen.nothing += 1,
        }

        let sort = sort(rng);
        query.sort = Sort::parse(&raw(&sort)).unwrap();
        query.skip = rng.below(4) as u64;
        query.limit = rng.below(8) as u64;
        if rng.below(3) == 0 {
            query.projection = Projection::parse(&raw(&doc! { "_id": 1 })).unwrap();
        }
        let plan = Execution::new(&source, &source.context(), query.clone()).unwrap().plan().clone();
        let context = || format!("{filter} sort {sort} {} {}\nplan {plan:?}", query.skip, query.limit);
        let sorted = match run(&source, query.clone(), rng) {
            Ok(sorted) => sorted,
            Err(error) => {
                assert_eq!(error.code, ErrorCode::BadValue, "{}", context());
                assert!(error.message.contains("parallel arrays"), "{error}");
                assert!(sort.len() > 1);
                continue;
            }
        };
        if !plan.sort_in_memory {
            seen.sorted_by_index += 1;
        }
        let key = |id: i32| naive::sort_key(&docs[id as usize], &sort);
        let mut order: Vec<Vec<Bson>> = wanted_ids.iter().map(|&id| key(id)).collect();
        order.sort_by(|a, b| naive::compare_sort_keys(a, b, &sort));
        let take = if query.limit == 0 { usize::MAX } else { query.limit as usize };
        let expected: Vec<_> = order.into_iter().skip(query.skip as usize).take(take).collect();
        assert_eq!(sorted.len(), expected.len(), "{}", context());
        for (doc, expected) in sorted.iter().zip(&expected) {
            let id = doc.get_i32("_id").unwrap();
            assert!(wanted_ids.contains(&id), "{}", context());
            assert!(naive::compare_sort_keys(&key(id), expected, &sort).is_eq(), "{id}: {}", context());
        }
        let mut distinct = ids(&sorted);
        distinct.dedup();
        assert_eq!(distinct.len(), sorted.len(), "{}", context());
    }
}

#[test]
fn every_plan_finds_what_a_naive_evaluation_finds() {
    let mut seen = Seen::default();
    // 2287: `$exists` by a wildcard index that leaves out a field below the path.
    for seed in seeds((0..250 * oracle_factor()).chain([2287])) {
        one_collection(&mut Rng::new(seed), &mut seen);
    }
    println!("{seen:?}");
    // The generator must reach every kind of plan often.
    assert!(
        seen.rows > 500
            && seen.tested > 500
            && seen.complete > 500
            && seen.sets > 40
            && seen.covered > 60
            && seen.index > 1500
            && seen.nothing > 20
            && seen.sorted_by_index > 200
            && seen.multikey_compound > 200
            && seen.sparse.min(seen.wildcard) > 100
            && seen.partial > 40
            && seen.hashed > 20,
        "{seen:?}"
    );
}

#[test]
fn sets_of_rows_from_several_indexes_hold_what_a_naive_evaluation_finds() {
    let (mut intersected, mut united) = (0, 0);
    for seed in seeds(0..40 * oracle_factor()) {
        let mut rng = Rng::new(seed);
        let array = rng.below(3) == 0;
        let docs: Vec<Document> = (0..120)
            .map(|number| {
                let mut doc = doc! { "_id": number };
                for name in ["u", "v", "w"] {
                    let value = rng.below(10) as i32;
                    match rng.below(20) {
                        0 => continue,
                        1 | 2 if array => doc.insert(name, vec![value, rng.below(10) as i32]),
                        _ => doc.insert(name, value),
                    };
                }
                doc
            })
            .collect();
        let mut source = Memory::new(&docs.iter().map(raw).collect::<Vec<_>>());
        source.scale = 100;
        for name in ["u", "v", "w"] {
            source.index(IndexDef::parse(&raw(&doc! { name: 1 }), None, false).unwrap()).unwrap();
        }
        for _ in 0..20 {
            let mut part = |name: &str| {
                let value = rng.below(10) as i32;
                doc! { name: if rng.below(3) == 0 { doc! { "$in": [value, 3] }.into() } else { Bson::Int32(value) } }
            };
            let (one, other, third) = (part("u"), part("v"), part("w"));
            let filter = match rng.below(3) {
                0 => doc! { "$or": [one, other] },
                1 => doc! { "$or": [{ "$and": [one, third] }, other] },
                _ => doc! { "$and": [one, other, third] },
            };
            let wanted: Vec<i32> = docs
                .iter()
                .filter(|doc| naive::matches(doc, &filter))
                .map(|doc| doc.get_i32("_id").unwrap())
                .collect();
            let query = Query::new(Filter::parse(&raw(&filter)).unwrap());
            match Execution::new(&source, &source.context(), query.clone()).unwrap().plan().path {
                Path::Bitmap(BitmapScan::And(_)) => intersected += 1,
                Path::Bitmap(_) => united += 1,
                _ => {}
            }
            assert_eq!(ids(&run(&source, query.clone(), &mut rng).unwrap()), wanted, "{filter}");
            assert_eq!(count(&source, &source.context(), &query).unwrap(), wanted.len() as u64, "{filter}");
            let mut rows = find_rows(&source, &source.context(), &query, 0).unwrap();
            rows.sort_unstable();
            assert_eq!(rows.iter().map(|row| row.0 as i32).collect::<Vec<_>>(), wanted, "{filter}");
        }
    }
    assert!(intersected > 40 && united > 100, "{intersected} {united}");
}
