//! Which plan is chosen, and that it avoids fetching documents and planning again.

use bson::{Bson, doc, rawdoc};

use super::*;
use crate::read::view::View;
use crate::{Collection, FindAndModifyRequest, UpdateRequest};
use treedb_query::access::Flow;
use treedb_query::query::interrupt::Interrupt;
use treedb_query::query::{BitmapScan, Counters, Execution, Filter, Path, Plan, Query};

const COUNT: i32 = 2000;

/// Numbers in several residue classes, strings, and an index on each of `patterns`.
fn numbers(patterns: &[Document]) -> (Database, Collection) {
    let mut options = options(&SimDisk::default());
    options.max_bytes = 64 << 20;
    let db = Database::open_with("/data/documents", options).unwrap();
    let numbers = db.collection("db.numbers").unwrap();
    let docs: Vec<_> = (0..COUNT)
        .map(|n| raw(&doc! { "_id": n, "n": n, "tens": n / 10, "last": n % 10, "half": n % 2, "third": n % 3, "text": format!("number {n}") }))
        .collect();
    numbers.insert_many(&docs, true).unwrap();
    for pattern in patterns {
        numbers.create_index(raw(pattern)).unwrap();
    }
    (db, numbers)
}

fn find(filter: Document) -> FindRequest {
    FindRequest::filter(raw(&filter))
}

fn explain_find(numbers: &Collection, request: FindRequest) -> (Plan, Counters) {
    numbers.explain(request).unwrap().unwrap()
}

/// The stages of the winning plan, outermost first.
fn stages(numbers: &Collection, request: &FindRequest, counting: bool) -> Vec<String> {
    let shown = Document::try_from(&*numbers.explain_find(request, counting, true).unwrap()).unwrap();
    let mut next = shown.get_document("queryPlanner").unwrap().get_document("winningPlan");
    let mut found = Vec::new();
    while let Ok(stage) = next {
        found.push(stage.get_str("stage").unwrap().to_owned());
        next = stage.get_document("inputStage");
    }
    found
}

/// What MongoDB calls the summary of the plan that `explain` shows.
fn summary(shown: &Document) -> String {
    fn leaves(stage: &Document) -> Vec<String> {
        if let Ok(input) = stage.get_document("inputStage") {
            return leaves(input);
        }
        if let Ok(inputs) = stage.get_array("inputStages") {
            return inputs.iter().flat_map(|input| leaves(input.as_document().unwrap())).collect();
        }
        let name = stage.get_str("stage").unwrap();
        let Ok(keys) = stage.get_document("keyPattern") else { return vec![name.to_owned()] };
        let keys: Vec<_> = keys.iter().map(|(field, direction)| format!("{field}: {direction}")).collect();
        vec![format!("{name} {{ {} }}", keys.join(", "))]
    }
    leaves(shown.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap()).join(", ")
}

#[test]
fn an_operation_tells_the_plan_that_explain_shows() {
    let patterns =
        [doc! { "tens": 1, "last": -1 }, doc! { "third": 1 }, doc! { "n": "hashed" }, doc! { "text": 1 }];
    let (_db, numbers) = numbers(&patterns);
    let filters = [
        doc! {},
        doc! { "_id": 5 },
        doc! { "_id": { "$gt": 5 } },
        doc! { "_id": { "$in": [1, 2] } },
        doc! { "half": 1 },
        doc! { "tens": 4 },
        doc! { "text": "number 7" },
        doc! { "text": { "$regex": "7$" } },
        doc! { "n": 6 },
        doc! { "third": 1, "tens": { "$lt": 50 } },
        doc! { "$or": [{ "tens": 1 }, { "text": "number 700" }] },
        doc! { "tens": { "$gt": 5, "$lt": 4 } },
    ];
    let told = |work: &dyn Fn()| {
        let operation = Arc::new(Interrupt::new(None));
        let entered = Arc::clone(&operation).enter();
        work();
        drop(entered);
        operation.plan().unwrap().to_string()
    };
    for filter in filters {
        let all = find(filter.clone());
        let sorted = all.clone().sort(rawdoc! { "tens": -1 });
        let named = all.clone().projection(rawdoc! { "_id": 0, "text": 1 });
        for request in [&all, &sorted, &named] {
            for counting in [false, true] {
                let shown = numbers.explain_find(request, counting, false).unwrap();
                let expected = summary(&Document::try_from(&*shown).unwrap());
                let found = told(&|| match counting {
                    true => drop(numbers.count(request.clone()).unwrap()),
                    false => drop(numbers.find(request.clone()).unwrap().next()),
                });
                assert_eq!(found, expected, "{request:?}, counted: {counting}");
            }
        }
        for path in ["third", "half"] {
            let shown = numbers.explain_distinct(path, &all, false).unwrap();
            let expected = summary(&Document::try_from(&*shown).unwrap());
            let found = told(&|| drop(numbers.distinct(path, all.clone()).unwrap()));
            assert_eq!(found, expected, "{filter}, distinct values of {path}");
        }
        let shown = numbers.explain_find(&all, false, false).unwrap();
        let expected = summary(&Document::try_from(&*shown).unwrap());
        let update = UpdateRequest::many(raw(&filter), rawdoc! { "$set": { "same": 1 } });
        assert_eq!(told(&|| drop(numbers.update(update.clone()).unwrap())), expected, "{filter}");
    }
}

#[test]
fn a_count_over_an_index_fetches_no_documents() {
    let (_db, numbers) = numbers(&[doc! { "tens": 1, "last": 1 }]);
    let work = |filter: Document| {
        let shown = numbers.explain_find(&find(filter), true, true).unwrap();
        let stats = Document::try_from(&*shown).unwrap().get_document("executionStats").unwrap().clone();
        let of = |name: &str| stats.get_i32(name).unwrap();
        (of("nReturned"), of("totalKeysExamined"), of("totalDocsExamined"))
    };
    assert_eq!(work(doc! { "tens": { "$gte": 10, "$lt": 12 } }), (20, 20, 0));
    assert_eq!(work(doc! { "tens": 3, "last": { "$in": [1, 5, 12] } }), (2, 2, 0));
    assert_eq!(work(doc! { "last": { "$mod": [5, 1] }, "tens": { "$lt": 10 } }), (20, 100, 0));
    assert_eq!(work(doc! {}), (COUNT, 0, 0));
    assert_eq!(stages(&numbers, &find(doc! { "tens": 5 }), true), ["COUNT", "COUNT_SCAN"]);
}

#[test]
fn a_pattern_without_a_prefix_is_matched_against_the_keys() {
    let (_db, numbers) = numbers(&[doc! { "text": 1 }]);
    let (plan, counters) = explain_find(&numbers, find(doc! { "text": { "$regex": "77$" } }));
    assert!(matches!(plan.path, Path::Index { .. }), "{plan:?}");
    assert_eq!((counters.keys_examined, counters.docs_examined, counters.returned), (2000, 20, 20));
    let (_, counters) = explain_find(&numbers, find(doc! { "text": { "$not": { "$regex": "^number 1" } } }));
    assert_eq!((counters.docs_examined, counters.returned), (889, 889));
}

#[test]
fn an_index_that_covers_a_query_answers_it_without_documents() {
    let (_db, numbers) = numbers(&[doc! { "tens": 1, "text": -1, "_id": 1 }]);
    let request = || {
        find(doc! { "tens": 7 })
            .projection(raw(&doc! { "text": 1, "tens": 1 }))
            .sort(raw(&doc! { "text": 1 }))
    };
    let mut cursor = numbers.find(request()).unwrap();
    let first = cursor.next().unwrap().unwrap();
    assert_eq!(Document::try_from(&*first).unwrap(), doc! { "_id": 70, "tens": 7, "text": "number 70" });
    assert_eq!(cursor.by_ref().count(), 9);
    assert_eq!((cursor.counters().keys_examined, cursor.counters().docs_examined), (10, 0));
    assert_eq!(stages(&numbers, &request(), false), ["PROJECTION_COVERED", "IXSCAN"]);
    // A value that is equal but has another type, a missing field, and a value that a key cannot represent.
    let set = |id: i32, tens: Bson| {
        let update = raw(&doc! { "$set": { "tens": tens } });
        numbers.update(UpdateRequest::one(raw(&doc! { "_id": id }), update)).unwrap();
    };
    set(71, Bson::Double(7.0));
    set(72, Bson::Int64(7));
    set(73, Bson::Decimal128("7.0".parse().unwrap()));
    let again = |projection: Document| -> Vec<Document> {
        let request = find(doc! { "tens": 7 }).projection(raw(&projection)).sort(raw(&doc! { "text": 1 }));
        numbers.find(request).unwrap().map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect()
    };
    let kinds: Vec<_> = again(doc! { "tens": 1, "_id": 0 })
        .into_iter()
        .map(|doc| doc.get("tens").cloned().unwrap())
        .collect();
    let expected = [
        Bson::Int32(7),
        Bson::Double(7.0),
        Bson::Int64(7),
        Bson::Decimal128("7.0".parse().unwrap()),
        Bson::Int32(7),
    ];
    assert_eq!(kinds[..5], expected);
    numbers.database().check().unwrap();
}

#[test]
fn weak_conditions_use_an_index_intersection_and_an_or_a_union() {
    let (_db, numbers) = numbers(&[doc! { "last": 1 }, doc! { "third": 1 }, doc! { "tens": 1 }]);
    let both = doc! { "last": 4, "tens": { "$gte": 50, "$lt": 65 } };
    let (plan, counters) = explain_find(&numbers, find(both));
    assert!(matches!(plan.path, Path::Bitmap(BitmapScan::And(_))), "{plan:?}");
    assert_eq!((counters.docs_examined, counters.returned), (15, 15));
    let either = || find(doc! { "$or": [{ "tens": 7 }, { "last": 3, "third": 0 }] });
    let (plan, counters) = explain_find(&numbers, either());
    assert!(matches!(plan.path, Path::Bitmap(BitmapScan::Or(_))), "{plan:?}");
    assert_eq!(counters.returned, 77);
    assert_eq!(stages(&numbers, &either(), false), ["FETCH", "OR"]);
    let sure = find(doc! { "$or": [{ "tens": 7 }, { "third": 0 }] });
    assert_eq!(numbers.count(sure.clone()).unwrap(), 674);
    let shown = Document::try_from(&*numbers.explain_find(&sure, true, true).unwrap()).unwrap();
    assert_eq!(shown.get_document("executionStats").unwrap().get_i32("totalDocsExamined").unwrap(), 0);
}

#[test]
fn the_index_with_fewer_entries_is_chosen_and_cached_until_the_estimate_is_wrong() {
    let (_db, numbers) = numbers(&[doc! { "half": 1 }, doc! { "n": 1 }]);
    let with = |n: i32| find(doc! { "half": 1, "n": { "$lt": n } });
    let used = |request: FindRequest| match explain_find(&numbers, request) {
        (Plan { path: Path::Index { name, .. }, .. }, counters) => (name, counters.keys_examined),
        (plan, _) => (format!("{:?}", plan.path).chars().take(20).collect(), 0),
    };
    assert_eq!(used(with(5)), ("n_1".to_owned(), 5));
    let remembered = || {
        let (reads, meta) = numbers.snapshot().unwrap().unwrap();
        View { reads: &reads, meta: &meta }.context().plan_cache.unwrap().len()
    };
    assert_eq!(remembered(), 1);
    // The same query shape uses the same index, whatever the value; after ten times as many keys as expected,
    // the query is planned again.
    assert_eq!(used(with(2000)), ("n_1".to_owned(), 2000));
    assert_eq!(remembered(), 0);
    assert_eq!(used(with(2000)), ("half_1".to_owned(), 1000));
    // With other indexes, queries are planned again.
    numbers.create_index(raw(&doc! { "n": 1, "half": 1 })).unwrap();
    assert_eq!(remembered(), 0);
}

#[test]
fn explain_shows_stages_bounds_and_rejected_plans() {
    let (_db, numbers) = numbers(&[doc! { "n": 1 }, doc! { "tens": -1, "n": 1 }]);
    let by_id = find(doc! { "_id": 5 });
    assert_eq!(stages(&numbers, &by_id, false), ["IDHACK"]);
    assert_eq!(stages(&numbers, &find(doc! { "text": "x" }), false), ["COLLSCAN"]);
    let sorted = find(doc! { "n": { "$lt": 100 } }).sort(raw(&doc! { "last": 1 })).limit(3);
    assert_eq!(stages(&numbers, &sorted, false), ["SORT", "FETCH", "IXSCAN"]);
    let request = find(doc! { "tens": { "$in": [1, 2] }, "n": { "$gt": 11.5, "$lte": 15 } });
    let shown = Document::try_from(&*numbers.explain_find(&request, false, true).unwrap()).unwrap();
    let planner = shown.get_document("queryPlanner").unwrap();
    assert_eq!(planner.get_str("namespace").unwrap(), "db.numbers");
    assert_eq!(planner.get_array("rejectedPlans").unwrap().len(), 1);
    let scan = planner.get_document("winningPlan").unwrap().get_document("inputStage").unwrap();
    let other = planner.get_array("rejectedPlans").unwrap()[0].as_document().unwrap();
    let other = other.get_document("inputStage").unwrap();
    let bounds = |scan: &Document| scan.get_document("indexBounds").unwrap().clone();
    let (compound, single) =
        if scan.get_str("indexName").unwrap() == "n_1" { (other, scan) } else { (scan, other) };
    assert_eq!(bounds(compound), doc! { "tens": ["[2.0, 2.0]", "[1.0, 1.0]"], "n": ["(11.5, 15.0]"] });
    assert_eq!(bounds(single), doc! { "n": ["(11.5, 15.0]"] });
    assert_eq!(shown.get_document("executionStats").unwrap().get_i32("nReturned").unwrap(), 4);
    let nothing = numbers.database().collection("db.nothing").unwrap();
    assert_eq!(stages(&nothing, &find(doc! {}), false), ["EOF"]);
}

#[test]
fn an_update_of_the_first_document_of_an_order_is_explained_as_it_is_found() {
    let (_db, numbers) = numbers(&[doc! { "n": 1 }, doc! { "third": 1 }]);
    for (filter, sort) in [
        (doc! { "text": { "$gt": "a" } }, doc! { "last": 1 }),
        (doc! { "third": { "$gte": 0 } }, doc! { "n": 1 }),
        (doc! { "third": 1 }, doc! { "n": -1 }),
        (doc! { "half": 0 }, doc! { "n": 1 }),
    ] {
        let update = raw(&doc! { "$inc": { "half": 1 } });
        let find = find(filter.clone()).sort(raw(&sort));
        let modify = FindAndModifyRequest { find, update: Some(update.clone().into()), ..Default::default() };
        let mut request = UpdateRequest::one(raw(&filter), update);
        request.sort = Some(raw(&sort));
        let plan = |shown: RawDocumentBuf| {
            let shown = Document::try_from(&*shown).unwrap();
            shown.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap().clone()
        };
        let updated = plan(numbers.explain_update(request.clone(), true).unwrap());
        assert_eq!(updated, plan(numbers.explain_find_and_modify(modify, true).unwrap()), "{filter} {sort}");
        if sort.contains_key("last") {
            let input = updated.get_document("inputStage").unwrap();
            assert_eq!(input.get_str("stage").unwrap(), "SORT");
            assert_eq!(input.get_i32("limitAmount").unwrap(), 1);
        }
        assert_eq!(numbers.update(request).unwrap().modified, 1);
    }
}

#[test]
fn a_replacement_of_many_documents_is_refused_also_if_it_is_explained() {
    let (db, numbers) = numbers(&[]);
    let mut request = UpdateRequest::one(rawdoc! { "n": 1 }, rawdoc! { "a": 1 });
    request.multi = true;
    let absent = db.collection("db.absent").unwrap();
    for collection in [&numbers, &absent] {
        let updated = collection.update(request.clone()).map(drop);
        for refused in [updated, collection.explain_update(request.clone(), false).map(drop)] {
            assert_eq!(refused.unwrap_err().code, treedb_query::error::ErrorCode::FailedToParse);
        }
    }
}

#[test]
fn a_sort_beyond_the_memory_limit_spills_to_disk_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let texts = db.collection("db.texts").unwrap();
    let docs: Vec<_> =
        (0..1500).map(|n| raw(&doc! { "_id": n, "key": n * 7919 % 500, "text": "x".repeat(200) })).collect();
    texts.insert_many(&docs, true).unwrap();
    let (reads, meta) = texts.snapshot().unwrap().unwrap();
    let view = View { reads: &reads, meta: &meta };
    let mut expected: Vec<i32> = (0..1500).collect();
    expected.sort_by_key(|n| n * 7919 % 500);
    for (skip, limit) in [(0, 0), (10, 0), (5, 1000), (1490, 100), (2000, 5)] {
        let mut query = Query::new(Filter::all());
        query.sort = treedb_query::query::Sort::parse(&raw(&doc! { "key": 1 })).unwrap();
        (query.skip, query.limit) = (skip, limit);
        query.projection = treedb_query::query::Projection::parse(&raw(&doc! { "_id": 1 })).unwrap();
        let mut execution = Execution::new(&view, &view.context(), query).unwrap().with_sort_memory(40_000);
        let mut found = Vec::new();
        // The results are read in batches.
        while execution
            .run(&view, &view.context(), &mut |doc| {
                found.push(doc.get_i32("_id").unwrap());
                if found.len() % 100 == 0 { Flow::Break(()) } else { Flow::Continue(()) }
            })
            .unwrap()
        {}
        let most = if limit == 0 { usize::MAX } else { limit as usize };
        let wanted: Vec<i32> = expected.iter().copied().skip(skip as usize).take(most).collect();
        assert_eq!(found, wanted, "skip {skip}, limit {limit}");
    }
    let mut query = Query::new(Filter::all());
    query.sort = treedb_query::query::Sort::parse(&raw(&doc! { "key": 1 })).unwrap();
    query.spill = false;
    let mut execution = Execution::new(&view, &view.context(), query).unwrap().with_sort_memory(40_000);
    let error = execution.run(&view, &view.context(), &mut |_| Flow::Continue(())).unwrap_err();
    assert_eq!(error.code, treedb_query::error::ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed);
    // The simulated disk has no temporary files.
    let (_db, numbers) = numbers(&[]);
    let (reads, meta) = numbers.snapshot().unwrap().unwrap();
    let view = View { reads: &reads, meta: &meta };
    let mut query = Query::new(Filter::all());
    query.sort = treedb_query::query::Sort::parse(&raw(&doc! { "last": 1 })).unwrap();
    let mut execution = Execution::new(&view, &view.context(), query).unwrap().with_sort_memory(1000);
    let error = execution.run(&view, &view.context(), &mut |_| Flow::Continue(())).unwrap_err();
    assert_eq!(error.code, treedb_query::error::ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed);
}

#[test]
fn distinct_values_are_found_by_skipping_through_an_index() {
    let (_db, numbers) = numbers(&[doc! { "last": 1, "n": 1 }, doc! { "third": -1 }, doc! { "n": -1 }]);
    let deferred = [
        doc! { "_id": -1, "last": 3.0, "n": 9000.5 },
        doc! { "_id": -2, "last": Bson::Null },
        doc! { "_id": -3, "last": { "a": 1 }, "n": "text" },
        doc! { "_id": -4, "last": Bson::Symbol("s".into()), "third": -5_i64 },
    ];
    for doc in deferred {
        numbers.insert_one(raw(&doc)).unwrap();
    }
    let values = |path: &str| -> Option<Vec<Bson>> {
        let found = numbers.distinct_by_index(path).unwrap()?;
        Some(found.iter().map(|value| Bson::try_from(value.as_raw().unwrap().to_owned()).unwrap()).collect())
    };
    let mut expected = vec![Bson::Null];
    expected.extend((0..10).map(Bson::Int32));
    expected.extend([Bson::Symbol("s".into()), doc! { "a": 1 }.into()]);
    assert_eq!(values("last").unwrap(), expected);
    let expected = [Bson::Int32(2), Bson::Int32(1), Bson::Int32(0), Bson::Int64(-5)];
    assert_eq!(values("third").unwrap(), expected);
    assert_eq!(values("n").unwrap().len(), COUNT as usize + 2);
    assert_eq!(values("tens"), None);
    // A multikey index does not tell which values are in arrays.
    numbers.insert_one(raw(&doc! { "_id": -5, "third": [1, 2] })).unwrap();
    assert_eq!(values("third"), None);
}

#[test]
fn a_hint_of_a_missing_index_is_refused() {
    let (_db, numbers) = numbers(&[]);
    let error = numbers.find(find(doc! { "n": 1 }).hint("n_1")).map(drop).unwrap_err();
    assert!(error.message.contains("hint provided does not correspond to an existing index"), "{error}");
    let (reads, meta) = numbers.snapshot().unwrap().unwrap();
    let view = View { reads: &reads, meta: &meta };
    let query = Query { hint: Some("$natural".into()), ..Query::new(Filter::all()) };
    assert_eq!(Plan::choose(&view, &view.context(), &query).unwrap().path, Path::CollectionScan);
}

/// The documents between two keys of an index, and those that a scan finds between them, are the same.
#[test]
fn min_and_max_select_what_lies_between_two_keys_of_the_index() {
    let db = super::open(&treedb_storage::disk::SimDisk::new()).unwrap();
    let things = db.collection("x.things").unwrap();
    things.create_index(rawdoc! { "a": 1, "b": -1 }).unwrap();
    let mut rng = treedb_testing::Rng::new(3);
    let mut all = Vec::new();
    for id in 0..200 {
        let (a, b) = (rng.below(6) as i32, rng.below(6) as i32);
        things.insert_one(rawdoc! { "_id": id, "a": a, "b": b }).unwrap();
        all.push((a, -b, id));
    }
    all.sort_unstable();
    for _ in 0..100 {
        let mut bound = || (rng.below(7) as i32, -(rng.below(7) as i32));
        let (min, max) = (bound(), bound());
        let key = |(a, b): (i32, i32)| Some(rawdoc! { "a": a, "b": -b });
        let bounds = crate::KeyBounds { min: key(min), max: key(max) };
        let request = FindRequest { bounds, ..FindRequest::default() }.hint(rawdoc! { "a": 1, "b": -1 });
        let found = things.find(request);
        if max <= min {
            assert_eq!(found.unwrap_err().code, treedb_query::error::ErrorCode::Location51175);
            continue;
        }
        let found: Vec<i32> = found.unwrap().map(|doc| doc.unwrap().get_i32("_id").unwrap()).collect();
        let between = all.iter().filter(|(a, b, _)| (*a, *b) >= min && (*a, *b) < max);
        assert_eq!(found, between.map(|(_, _, id)| *id).collect::<Vec<_>>(), "{min:?} {max:?}");
    }
}

#[test]
fn alternatives_that_leave_out_no_string_are_answered_by_a_compound_index() {
    let (_db, numbers) = numbers(&[doc! { "text": 1, "last": 1 }, doc! { "text": -1, "third": 1 }]);
    for (filter, count) in [
        (
            doc! { "$or": [{ "text": { "$lte": "number 5" } }, { "text": { "$gt": "number 5" } }], "last": { "$lt": 3 } },
            COUNT * 3 / 10,
        ),
        (
            doc! { "$or": [{ "text": { "$lt": "m" }, "last": 3 }, { "text": { "$gte": "m" }, "last": 3 }] },
            COUNT / 10,
        ),
        (
            doc! { "$or": [{ "text": { "$lte": "p" } }, { "text": { "$gt": "p" } }], "third": 1 },
            (COUNT + 1) / 3,
        ),
    ] {
        for index in ["text_1_last_1", "text_-1_third_1"] {
            let found = numbers.find(find(filter.clone()).hint(index)).unwrap().count();
            assert_eq!(found, usize::try_from(count).unwrap(), "{filter} by {index}");
        }
    }
}

/// It did when every `$or` was planned with all others, and every list of values was copied for each other condition on its field. The time
/// is about ten times what an unoptimised build takes on a processor of its own.
#[test]
fn planning_thousands_of_conditions_does_not_take_time_that_grows_with_their_square() {
    let patterns = [doc! { "tens": 1 }, doc! { "last": 1 }, doc! { "third": 1, "half": 1 }];
    let (_db, numbers) = numbers(&patterns);
    let alternatives = |n: i32| doc! { "$or": [{ "tens": n }, { "last": { "$gt": -n } }] };
    let bounds = |n: i32| doc! { "tens": { "$gt": -n } };
    let values: Vec<_> = (0..20_000).collect();
    for (name, filter) in [
        ("$or", doc! { "$and": (0..3_000).map(alternatives).collect::<Vec<_>>() }),
        ("$in", doc! { "tens": { "$in": values }, "$and": (0..4_000).map(bounds).collect::<Vec<_>>() }),
    ] {
        let begun = std::time::Instant::now();
        numbers.explain_find(&find(filter), false, false).unwrap();
        assert!(begun.elapsed().as_secs() < 20, "{name}: {:?}", begun.elapsed());
    }
}
