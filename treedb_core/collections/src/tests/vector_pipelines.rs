//! `$vectorSearch` in pipelines: what it finds, its score, its place, what it refuses; and the definitions of its indexes.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, doc, rawdoc};

use super::*;
use crate::maintenance::index_build::{add_empty, build};
use crate::{AggregateRequest, Collection, IndexSpec, SearchPath, Transaction, VectorSearchRequest};
use treedb_query::doc::Collation;
use treedb_query::error::ErrorCode;

fn definition(dimensions: i32) -> Document {
    doc! { "fields": [
        { "type": "vector", "path": "v", "numDimensions": dimensions, "similarity": "euclidean" },
        { "type": "filter", "path": "odd" },
    ] }
}

/// Points on a line, at 0 to 49, and a database around them.
fn points() -> (Database, Collection) {
    points_on(&SimDisk::new())
}

fn points_on(disk: &SimDisk) -> (Database, Collection) {
    let db = open(disk).unwrap();
    let points = db.collection("shop.points").unwrap();
    let at = |at: i32| raw(&doc! { "_id": at, "v": [at, 0], "odd": at % 2 == 1, "tags": ["a", "b"] });
    points.insert_many(&(0..50).map(at).collect::<Vec<_>>(), true).unwrap();
    let spec = doc! { "name": "near", "type": "vectorSearch", "definition": definition(2) };
    points.create_search_indexes(&[raw(&spec)]).unwrap();
    (db, points)
}

fn search(at: f64, limit: i32) -> Document {
    doc! { "$vectorSearch": {
        "index": "near", "path": "v", "queryVector": [at, 0.0], "numCandidates": 50, "limit": limit,
    } }
}

fn with(mut stage: Document, field: &str, value: impl Into<Bson>) -> Document {
    stage.get_document_mut("$vectorSearch").unwrap().insert(field, value);
    stage
}

fn without(mut stage: Document, field: &str) -> Document {
    stage.get_document_mut("$vectorSearch").unwrap().remove(field);
    stage
}

fn request(stages: &[Document]) -> AggregateRequest {
    AggregateRequest::new(stages.iter().map(raw))
}

fn run(points: &Collection, stages: &[Document]) -> Result<Vec<Document>> {
    points.aggregate(&request(stages))?.map(|doc| Ok(Document::try_from(&*doc?)?)).collect()
}

fn ids(found: &[Document]) -> Vec<i32> {
    found.iter().map(|doc| doc.get_i32("_id").unwrap()).collect()
}

fn code(result: Result<Vec<Document>>) -> ErrorCode {
    result.unwrap_err().code
}

fn meta() -> Document {
    doc! { "$meta": "vectorSearchScore" }
}

#[test]
fn the_stage_finds_what_the_method_finds_with_its_score() {
    let (db, points) = points();
    let found = run(&points, &[search(10.2, 4), doc! { "$set": { "score": meta() } }]).unwrap();
    let request = VectorSearchRequest::new("near", vec![10.2, 0.0], 4);
    let by_method = points.vector_search(&request).unwrap();
    assert_eq!(ids(&found), [10, 11, 9, 12]);
    let scores: Vec<f64> = found.iter().map(|doc| doc.get_f64("score").unwrap()).collect();
    assert_eq!(scores, by_method.iter().map(|found| found.score).collect::<Vec<_>>());
    let filtered = with(search(10.2, 3), "filter", doc! { "odd": true, "_id": { "$gt": 9 } });
    assert_eq!(ids(&run(&points, &[filtered]).unwrap()), [11, 13, 15]);
    let exact = without(with(search(10.2, 2), "exact", true), "numCandidates");
    assert_eq!(ids(&run(&points, &[exact, doc! { "$match": { "odd": true } }]).unwrap()), [11]);
    let missing = db.collection("shop.nothing").unwrap();
    assert!(run(&missing, &[search(1.0, 1)]).unwrap().is_empty());
}

#[test]
fn a_pipeline_tells_what_its_search_did_which_is_what_the_method_does() {
    let (_db, points) = points();
    points.create_index(rawdoc! { "odd": 1 }).unwrap();
    let stage = with(search(10.2, 3), "filter", doc! { "odd": true });
    let by_method = || {
        let request = VectorSearchRequest::new("near", vec![10.2, 0.0], 3).candidates(20);
        points.vector_search_answer(&request.filter(rawdoc! { "odd": true })).unwrap().work
    };
    // The first searches build the image, without which the documents tell.
    for _ in 0..10 {
        by_method();
    }
    let mut found = points.aggregate(&request(&[with(stage, "numCandidates", 20)])).unwrap();
    assert_eq!(found.by_ref().count(), 3);
    assert_eq!(found.search_work(), Some(by_method()));
    assert_eq!(by_method().path, SearchPath::MatchingRows);
    let mut other = points.aggregate(&request(&[doc! { "$match": { "odd": true } }])).unwrap();
    assert_eq!((other.by_ref().count() > 0, other.search_work()), (true, None));
}

#[test]
fn stages_that_leave_fields_out_get_the_same_from_a_search_or_find_that_does_not_read_them() {
    let (_db, points) = points();
    // Nothing is known of what a stage reads that may read any field.
    let opaque = doc! { "$replaceRoot": { "newRoot": "$$ROOT" } };
    for stages in [
        vec![doc! { "$unset": "v" }],
        vec![doc! { "$project": { "v": 0 } }],
        vec![doc! { "$project": { "odd": 1 } }],
        vec![doc! { "$project": { "_id": 0, "tags": 1, "first": { "$arrayElemAt": ["$v", 0] } } }],
        vec![doc! { "$set": { "w": "$v" } }, doc! { "$unset": "v" }],
        vec![doc! { "$unset": "v" }, doc! { "$set": { "v": 1 } }],
        vec![doc! { "$set": { "v": 1 } }, doc! { "$unset": ["v", "odd"] }],
        vec![doc! { "$match": { "v": { "$lt": 12 } } }, doc! { "$unset": "v" }],
        vec![doc! { "$unset": "v" }, doc! { "$match": { "v": { "$exists": false } } }],
        vec![doc! { "$sort": { "v": -1 } }, doc! { "$unset": "v" }],
        vec![doc! { "$unset": ["tags", "v.a"] }, doc! { "$limit": 3 }],
        vec![doc! { "$unset": "v" }, doc! { "$project": { "v": 1, "odd": 1 } }],
        vec![doc! { "$unwind": "$tags" }, doc! { "$unset": "v" }],
        vec![doc! { "$unset": "v" }, opaque.clone()],
        vec![doc! { "$unset": "tags" }, doc! { "$group": { "_id": null, "all": { "$push": "$v" } } }],
    ] {
        for begin in [search(10.2, 6), doc! { "$match": { "odd": true, "_id": { "$lt": 20 } } }] {
            let after = |first: &[Document]| run(&points, &[first, &stages].concat()).unwrap();
            let found = after(std::slice::from_ref(&begin));
            assert!(!found.is_empty());
            assert_eq!(found, after(&[begin, opaque.clone()]), "{stages:?}");
        }
    }
    let scored = [search(10.2, 3), doc! { "$set": { "score": meta() } }, doc! { "$unset": "v" }];
    let found = run(&points, &scored).unwrap();
    assert_eq!(found[0].keys().collect::<Vec<_>>(), ["_id", "odd", "tags", "score"]);
}

#[test]
fn a_query_vector_may_be_binary_data() {
    let (_db, points) = points();
    let binary = |bytes: Vec<u8>| Binary { subtype: BinarySubtype::from(9), bytes };
    let floats =
        [vec![0x27, 0], [7.0_f32, 0.0].iter().flat_map(|float| float.to_le_bytes()).collect()].concat();
    for vector in [binary(floats), binary(vec![0x03, 0, 7, 0])] {
        assert_eq!(ids(&run(&points, &[with(search(0.0, 1), "queryVector", vector)]).unwrap()), [7]);
    }
    for (bytes, part) in [
        (vec![0x10, 0, 1], "expected 2 dimensions, found 8"),
        (vec![0x10, 9, 1], "damaged"),
        (vec![0x27, 0, 1], "damaged"),
        (vec![], "damaged"),
    ] {
        let error = run(&points, &[with(search(0.0, 1), "queryVector", binary(bytes))]).unwrap_err();
        assert!(error.code == ErrorCode::BadValue && error.message.contains(part), "{error}");
    }
}

#[test]
fn documents_with_binary_vectors_are_found_and_those_with_damaged_ones_are_stored() {
    let (db, points) = points();
    let binary = |bytes: Vec<u8>| Binary { subtype: BinarySubtype::from(9), bytes };
    let vectors = [vec![0x03, 0, 100, 1], vec![0x27, 0, 1], vec![0x10, 0, 0xff], vec![0x03, 0, 1]];
    for (id, bytes) in (100..).zip(vectors) {
        points.insert_one(raw(&doc! { "_id": id, "v": binary(bytes) })).unwrap();
    }
    assert_eq!(ids(&run(&points, &[search(100.0, 1)]).unwrap()), [100]);
    let all = with(search(100.0, 100), "numCandidates", 100);
    assert_eq!(run(&points, &[all]).unwrap().len(), 51);
    assert_eq!(points.len().unwrap(), 54);
    db.check().unwrap();
}

#[test]
fn a_score_stays_with_its_document_through_stages_that_keep_or_order_documents() {
    let (_db, points) = points();
    let score = |id: i32| 1.0 / (1.0 + f64::from((10 - id).abs()));
    let scored = |stages: &[Document]| {
        let stages = [&[search(10.0, 5)], stages].concat();
        let found = run(&points, &stages).unwrap();
        assert!(!found.is_empty());
        for doc in &found {
            assert_eq!(doc.get_f64("score").unwrap(), score(doc.get_i32("_id").unwrap()), "{stages:?}");
            assert!(!doc.contains_key("$vectorSearchScore") && !doc.to_string().contains("$vector"), "{doc}");
        }
        ids(&found)
    };
    let set = || doc! { "$set": { "score": meta() } };
    assert_eq!(scored(&[doc! { "$sort": { "_id": -1 } }, set()]), [12, 11, 10, 9, 8]);
    assert_eq!(scored(&[doc! { "$sort": { "_id": 1 } }, doc! { "$sort": { "s": meta() } }, set()])[0], 10);
    assert_eq!(scored(&[doc! { "$sort": { "x": meta(), "_id": -1 } }, set()]), [10, 11, 9, 12, 8]);
    assert_eq!(scored(&[doc! { "$sample": { "size": 3 } }, set()]).len(), 3);
    assert_eq!(scored(&[doc! { "$skip": 1 }, doc! { "$limit": 2 }, set()]), [9, 11]);
    assert_eq!(scored(&[doc! { "$unwind": "$tags" }, set()]), [10, 10, 9, 9, 11, 11, 8, 8, 12, 12]);
    assert_eq!(scored(&[doc! { "$project": { "_id": 1 } }, set()]), [10, 9, 11, 8, 12]);
    assert_eq!(scored(&[doc! { "$project": { "_id": 1, "score": meta() } }]), [10, 9, 11, 8, 12]);
    assert_eq!(
        scored(&[
            doc! { "$replaceWith": { "_id": "$_id", "all": "$$ROOT" } },
            doc! { "$sort": { "_id": 1 } },
            set()
        ]),
        [8, 9, 10, 11, 12]
    );
    assert_eq!(scored(&[doc! { "$match": { "$expr": { "$gt": [meta(), 0.4] } } }, set()]), [10, 9, 11]);
    assert_eq!(scored(&[set(), doc! { "$match": { "score": { "$gt": 0.4 } } }]), [10, 9, 11]);
    let lookup =
        doc! { "$lookup": { "from": "points", "localField": "_id", "foreignField": "_id", "as": "same" } };
    assert_eq!(scored(&[lookup, set(), doc! { "$sort": { "_id": 1 } }]), [8, 9, 10, 11, 12]);
    // Stages that hold documents back and change them.
    let window = doc! { "$setWindowFields": {
        "partitionBy": "$odd", "sortBy": { "_id": -1 }, "output": { "sum": { "$sum": "$_id", "window": { "documents": [-1, 0] } } },
    } };
    assert_eq!(scored(&[window, set()]), [12, 10, 8, 11, 9]);
    let fill = doc! { "$fill": { "sortBy": { "_id": 1 }, "output": { "w": { "method": "locf" }, "u": { "value": 1 } } } };
    assert_eq!(scored(&[fill, set()]), [8, 9, 10, 11, 12]);
    let best = doc! { "$group": { "_id": null, "best": { "$max": meta() }, "all": { "$push": "$$ROOT" } } };
    let grouped = run(&points, &[search(10.0, 3), best]).unwrap();
    assert_eq!(grouped[0].get_f64("best").unwrap(), 1.0);
    assert!(!grouped[0].to_string().contains("vectorSearchScore"));
}

#[test]
fn documents_that_a_stage_adds_have_no_score_and_the_others_keep_theirs() {
    let (_db, points) = points();
    let set = || doc! { "$set": { "score": meta() } };
    let scores = |stages: &[Document]| -> Vec<(Option<i32>, Option<f64>)> {
        let found = run(&points, &[&[search(10.0, 3)], stages].concat()).unwrap();
        found.iter().map(|doc| (doc.get_i32("_id").ok(), doc.get_f64("score").ok())).collect()
    };
    let union =
        doc! { "$unionWith": { "coll": "points", "pipeline": [{ "$match": { "_id": { "$lt": 2 } } }] } };
    let both = [
        (Some(10), Some(1.0)),
        (Some(9), Some(0.5)),
        (Some(11), Some(0.5)),
        (Some(0), None),
        (Some(1), None),
    ];
    assert_eq!(scores(&[union.clone(), set()]), both);
    let sort = doc! { "$sort": { "_id": 1 } };
    assert_eq!(scores(&[union, sort, set()]), [both[3], both[4], both[1], both[0], both[2]]);
    let densify = doc! { "$densify": { "field": "n", "range": { "step": 1, "bounds": [8, 11] } } };
    let numbered = doc! { "$set": { "n": "$_id" } };
    assert_eq!(scores(&[numbered, densify, set()]), [(None, None), both[1], both[0], both[2]]);
}

#[test]
fn a_search_gives_up_at_its_deadline() {
    let (_db, points) = points();
    let more: Vec<_> = (100..400).map(|at| raw(&doc! { "_id": at, "v": [at, 0] })).collect();
    points.insert_many(&more, true).unwrap();
    let exact = without(with(search(1.0, 300), "exact", true), "numCandidates");
    let all = with(with(search(1.0, 300), "numCandidates", 300), "filter", doc! { "no": null });
    for stage in [exact, all] {
        let mut late = request(std::slice::from_ref(&stage));
        late.until = Some(std::time::Instant::now());
        let error = points.aggregate(&late).map(Iterator::collect::<Result<Vec<_>>>).and_then(|found| found);
        assert_eq!(error.unwrap_err().code, ErrorCode::MaxTimeMSExpired, "{stage:?}");
        assert!(!run(&points, &[stage]).unwrap().is_empty());
    }
}

#[test]
fn creating_an_index_waits_for_another_call_that_is_building_it() {
    let (db, points) = points();
    let spec = raw(&doc! { "name": "other", "type": "vectorSearch", "definition": definition(2) });
    let def = IndexSpec::from_document(&spec).definition(&Collation::Simple).unwrap();
    let begin = || db.edit(points.namespace(), false, None, |edit| add_empty(edit, &def)).unwrap().unwrap();
    let id = begin();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| points.create_search_indexes(std::slice::from_ref(&spec)).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!other.is_finished());
        let listed = points.search_indexes().unwrap().unwrap();
        assert_eq!((listed[1].name.as_str(), listed[1].ready, listed[1].queryable), ("other", false, false));
        assert_eq!(listed[1].listed().get_str("status").unwrap(), "BUILDING");
        build(&db, points.namespace(), id, "other", &mut |_| {}).unwrap();
        assert!(other.join().unwrap()[0].queryable);
    });
    // One that is dropped instead.
    points.drop_search_index("other").unwrap();
    begin();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| points.create_search_indexes(std::slice::from_ref(&spec)));
        std::thread::sleep(std::time::Duration::from_millis(30));
        points.drop_search_index("other").unwrap();
        assert_eq!(other.join().unwrap().unwrap_err().code, ErrorCode::IndexBuildAborted);
    });
}

#[test]
fn a_score_that_does_not_exist_is_refused() {
    let (_db, points) = points();
    let set = || doc! { "$set": { "score": meta() } };
    let facet = doc! { "$facet": { "a": [set()] } };
    let union = doc! { "$unionWith": "points" };
    let window =
        doc! { "$setWindowFields": { "sortBy": { "_id": 1 }, "output": { "n": { "$documentNumber": {} } } } };
    let group = doc! { "$group": { "_id": "$odd" } };
    for stages in [
        vec![set()],
        vec![doc! { "$match": {} }, doc! { "$sort": { "s": meta() } }],
        vec![search(1.0, 2), group, set()],
        vec![search(1.0, 2), facet],
        vec![union, set()],
        vec![window, set()],
        vec![
            search(1.0, 2),
            doc! { "$setWindowFields": { "sortBy": { "_id": 1 }, "output": { "n": { "$sum": meta() } } } },
        ],
        vec![search(1.0, 2), doc! { "$bucketAuto": { "groupBy": meta(), "buckets": 2 } }],
        vec![search(1.0, 2), doc! { "$fill": { "output": { "s": { "value": meta() } } } }],
        vec![
            search(1.0, 2),
            doc! { "$merge": { "into": "other", "let": { "s": meta() }, "whenMatched": [] } },
        ],
        vec![search(1.0, 2), doc! { "$set": { "s": { "$meta": "searchScore" } } }],
    ] {
        assert_eq!(code(run(&points, &stages)), ErrorCode::Location40218, "{stages:?}");
    }
    for (operand, wanted) in
        [(Bson::from("score2"), ErrorCode::Location17308), (Bson::from(1), ErrorCode::Location17307)]
    {
        let stage = doc! { "$set": { "s": { "$meta": operand } } };
        assert_eq!(code(run(&points, &[search(1.0, 2), stage])), wanted);
    }
}

#[test]
fn searches_in_pipelines_of_other_stages_have_scores_of_their_own() {
    let (_db, points) = points();
    let inner = || vec![search(30.0, 2), doc! { "$project": { "score": meta() } }];
    let union = doc! { "$unionWith": { "coll": "points", "pipeline": inner() } };
    assert_eq!(ids(&run(&points, &[search(5.0, 1), union]).unwrap()), [5, 30, 29]);
    let lookup = doc! { "$lookup": { "from": "points", "pipeline": inner(), "as": "far" } };
    let found = run(&points, &[search(5.0, 2), lookup, doc! { "$set": { "score": meta() } }]).unwrap();
    assert_eq!(ids(&found), [5, 4]);
    assert_eq!(found[1].get_f64("score").unwrap(), 0.5);
    let far = found[1].get_array("far").unwrap();
    assert_eq!(far[0], Bson::Document(doc! { "_id": 30, "score": 1.0 }));
    assert_eq!(far[1], Bson::Document(doc! { "_id": 29, "score": 0.5 }));
}

#[test]
fn what_the_stage_cannot_do_is_refused_with_the_field_named() {
    let (_db, points) = points();
    let good = || search(1.0, 2);
    for (stage, wanted, part) in [
        (without(good(), "index"), ErrorCode::BadValue, "\"index\" is required"),
        (with(good(), "index", "far"), ErrorCode::IndexNotFound, "far"),
        (with(good(), "index", "_id_"), ErrorCode::IndexNotFound, "_id_"),
        (without(good(), "path"), ErrorCode::BadValue, "\"path\" is required"),
        (with(good(), "path", "w"), ErrorCode::BadValue, "'w' needs to be indexed"),
        (with(good(), "path", ""), ErrorCode::BadValue, "path"),
        (without(good(), "limit"), ErrorCode::BadValue, "\"limit\" is required"),
        (with(good(), "limit", "2"), ErrorCode::Location8575100, "limit"),
        (with(good(), "limit", 10_001), ErrorCode::BadValue, "at most 10000"),
        (with(good(), "numCandidates", 10_001), ErrorCode::BadValue, "at most 10000"),
        (with(good(), "limit", 0), ErrorCode::Location7912700, "positive"),
        (with(good(), "limit", -1), ErrorCode::Location7912700, "positive"),
        (with(good(), "limit", 1.5), ErrorCode::BadValue, "whole"),
        (without(good(), "numCandidates"), ErrorCode::BadValue, "numCandidates"),
        (with(good(), "numCandidates", 1), ErrorCode::BadValue, "numCandidates"),
        (with(good(), "numCandidates", 0), ErrorCode::BadValue, "numCandidates"),
        (with(good(), "numCandidates", "9"), ErrorCode::BadValue, "numCandidates"),
        (with(good(), "exact", true), ErrorCode::BadValue, "omitted"),
        (with(good(), "exact", 1), ErrorCode::BadValue, "exact"),
        (without(good(), "queryVector"), ErrorCode::BadValue, "queryVector"),
        (with(good(), "queryVector", vec![1, 2, 3]), ErrorCode::BadValue, "dimensions"),
        (with(good(), "queryVector", Vec::<Bson>::new()), ErrorCode::BadValue, "dimensions"),
        (with(good(), "queryVector", vec![f64::NAN, 0.0]), ErrorCode::BadValue, "near"),
        (with(good(), "queryVector", vec![1e300, 0.0]), ErrorCode::BadValue, "near"),
        (with(good(), "queryVector", vec!["1", "2"]), ErrorCode::BadValue, "numbers"),
        (with(good(), "queryVector", "1, 2"), ErrorCode::BadValue, "array"),
        (with(good(), "filter", 5), ErrorCode::BadValue, "filter"),
        (with(good(), "filter", doc! { "a": { "$nonsense": 1 } }), ErrorCode::BadValue, "$nonsense"),
        (with(good(), "query", "text"), ErrorCode::Location40415, "query"),
        (doc! { "$vectorSearch": 5 }, ErrorCode::FailedToParse, "$vectorSearch"),
    ] {
        let error = run(&points, std::slice::from_ref(&stage)).unwrap_err();
        assert!(error.code == wanted && error.message.contains(part), "{stage}: {error} {:?}", error.code);
    }
    let late = run(&points, &[doc! { "$match": {} }, good()]).unwrap_err();
    assert_eq!(late.code, ErrorCode::Location40602);
    assert_eq!(late.message, "$vectorSearch is only valid as the first stage in a pipeline");
    let facet = doc! { "$facet": { "a": [good()] } };
    assert_eq!(code(run(&points, &[facet])), ErrorCode::Location40600);
}

#[test]
fn explain_shows_the_stage_as_it_was_written_and_does_not_search() {
    let (db, _) = points();
    let stages = [with(search(1.0, 2), "index", "missing"), doc! { "$limit": 1 }];
    let shown = db.explain_aggregate("shop.points", &request(&stages)).unwrap();
    assert!(shown.planner.is_none());
    assert_eq!(Document::try_from(&*shown.stages[0]).unwrap(), stages[0]);
}

#[test]
fn a_pipeline_in_a_transaction_finds_its_own_changes() {
    let (db, points) = points();
    let mut txn: Transaction = db.begin().unwrap();
    let mut inside = txn.collection("shop.points").unwrap();
    inside.insert_one(raw(&doc! { "_id": 90, "v": [10.5, 0] })).unwrap();
    inside.delete(crate::DeleteRequest::one(rawdoc! { "_id": 10 })).unwrap();
    let stages = request(&[search(10.4, 2), doc! { "$project": { "score": meta() } }]);
    let found: Vec<Document> =
        inside.aggregate(&stages).unwrap().map(|doc| Document::try_from(&*doc.unwrap()).unwrap()).collect();
    assert_eq!(ids(&found), [90, 11]);
    let list = request(&[doc! { "$listSearchIndexes": {} }]);
    assert_eq!(inside.aggregate(&list).unwrap_err().code, ErrorCode::OperationNotSupportedInTransaction);
    assert_eq!(ids(&run(&points, &[search(10.4, 2)]).unwrap()), [10, 11]);
    txn.commit().unwrap();
    assert_eq!(ids(&run(&points, &[search(10.4, 2)]).unwrap()), [90, 11]);
}

#[test]
fn search_indexes_are_listed_with_id_status_and_definition() {
    let (db, points) = points();
    points.create_index(IndexSpec::new(rawdoc! { "odd": 1 })).unwrap();
    let list = |operand: Document| run(&points, &[doc! { "$listSearchIndexes": operand }]).unwrap();
    let listed = list(doc! {});
    assert_eq!(listed.len(), 1);
    let index = &listed[0];
    let id = index.get_str("id").unwrap();
    assert!(id.len() == 24 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    assert_eq!((index.get_str("name").unwrap(), index.get_str("type").unwrap()), ("near", "vectorSearch"));
    assert_eq!((index.get_str("status").unwrap(), index.get_bool("queryable").unwrap()), ("READY", true));
    let fields = index.get_document("latestDefinition").unwrap().get_array("fields").unwrap();
    assert_eq!(fields[0].as_document().unwrap().get_i32("numDimensions").unwrap(), 2);
    assert_eq!(fields[1], Bson::Document(doc! { "type": "filter", "path": "odd" }));
    assert_eq!(list(doc! { "name": "near" }), listed);
    assert_eq!(list(doc! { "id": id }), listed);
    assert!(list(doc! { "name": "far" }).is_empty() && list(doc! { "id": "far" }).is_empty());
    assert!(
        run(&db.collection("shop.nothing").unwrap(), &[doc! { "$listSearchIndexes": {} }])
            .unwrap()
            .is_empty()
    );
    for operand in [doc! { "name": 1 }, doc! { "name": "a", "id": "b" }] {
        assert_eq!(code(run(&points, &[doc! { "$listSearchIndexes": operand }])), ErrorCode::FailedToParse);
    }
}

#[test]
fn a_search_index_is_replaced_by_one_with_another_definition() {
    let (db, points) = points();
    points.insert_one(raw(&doc! { "_id": 60, "v": [1, 2, 3] })).unwrap();
    let before = points.search_indexes().unwrap().unwrap();
    points.update_search_index("near", &raw(&definition(3))).unwrap();
    let after = points.search_indexes().unwrap().unwrap();
    assert_eq!(after.len(), 1);
    assert_eq!((&after[0].id, after[0].ready), (&before[0].id, true));
    let found = run(&points, &[with(search(0.0, 5), "queryVector", vec![1, 1, 1])]).unwrap();
    assert_eq!(ids(&found), [60]);
    assert_eq!(code(run(&points, &[search(0.0, 5)])), ErrorCode::BadValue);
    db.check().unwrap();
    // The same definition is no change.
    points.update_search_index("near", &raw(&definition(3))).unwrap();
    let code = |result: Result<()>| result.unwrap_err().code;
    assert_eq!(code(points.update_search_index("far", &raw(&definition(3)))), ErrorCode::IndexNotFound);
    assert_eq!(code(points.update_search_index("_id_", &raw(&definition(3)))), ErrorCode::IndexNotFound);
    assert_eq!(code(points.update_search_index("near", &raw(&definition(0)))), ErrorCode::CannotCreateIndex);
    let nothing = db.collection("shop.nothing").unwrap();
    assert_eq!(code(nothing.update_search_index("near", &raw(&definition(3)))), ErrorCode::NamespaceNotFound);
    assert_eq!(code(nothing.drop_search_index("near")), ErrorCode::NamespaceNotFound);
    assert_eq!(code(points.drop_search_index("_id_")), ErrorCode::IndexNotFound);
    points.drop_search_index("near").unwrap();
    assert_eq!(code(points.drop_search_index("near")), ErrorCode::IndexNotFound);
    assert!(points.search_indexes().unwrap().unwrap().is_empty());
    db.check().unwrap();
}

#[test]
fn an_index_is_used_until_the_one_that_replaces_it_is_ready_also_if_the_database_is_opened_in_between() {
    let disk = SimDisk::new();
    let (db, points) = points_on(&disk);
    points.insert_one(raw(&doc! { "_id": 60, "v": [1, 2, 3] })).unwrap();
    let spec = doc! { "name": "near", "type": "vectorSearch", "definition": definition(3) };
    let def = IndexSpec::from_document(&raw(&spec)).definition(&Collation::Simple).unwrap();
    db.edit(points.namespace(), false, None, |edit| add_empty(edit, &def)).unwrap();
    let listed = points.search_indexes().unwrap().unwrap();
    assert_eq!(
        listed.iter().map(|index| (index.ready, index.queryable)).collect::<Vec<_>>(),
        [(false, true)]
    );
    assert_eq!(listed[0].listed().get_str("status").unwrap(), "BUILDING");
    assert_eq!(ids(&run(&points, &[search(7.0, 1)]).unwrap()), [7]);
    drop(points);
    db.close().unwrap();
    // Opening the database ends the build.
    let db = open(&disk).unwrap();
    let points = db.collection("shop.points").unwrap();
    let ready = points.search_indexes().unwrap().unwrap();
    assert_eq!(
        ready.iter().map(|index| (&*index.id, index.ready)).collect::<Vec<_>>(),
        [(&*listed[0].id, true)]
    );
    let found = run(&points, &[with(search(0.0, 5), "queryVector", vec![1, 1, 1])]).unwrap();
    assert_eq!(ids(&found), [60]);
    db.check().unwrap();
}

#[test]
fn search_indexes_are_created_all_or_none_in_a_collection_that_exists() {
    let (db, points) = points();
    let spec = |name: &str, dimensions: i32| {
        raw(&doc! { "name": name, "type": "vectorSearch", "definition": definition(dimensions) })
    };
    let created = points.create_search_indexes(&[spec("b", 3), spec("near", 2), spec("a", 4)]).unwrap();
    assert_eq!(created.iter().map(|index| &*index.name).collect::<Vec<_>>(), ["b", "near", "a"]);
    let code = |result: Result<Vec<crate::SearchIndex>>| result.unwrap_err().code;
    let other = points.create_search_indexes(&[spec("c", 3), spec("near", 3)]);
    assert_eq!(code(other), ErrorCode::IndexAlreadyExists);
    assert_eq!(points.search_indexes().unwrap().unwrap().len(), 3);
    let nothing = db.collection("shop.nothing").unwrap();
    assert_eq!(code(nothing.create_search_indexes(&[spec("near", 2)])), ErrorCode::NamespaceNotFound);
    assert!(nothing.search_indexes().unwrap().is_none());
}
