//! End-to-end tests of pipelines, over collections with and without indexes.

use super::*;
use crate::AggregateRequest;
use crate::IndexSpec;
use treedb_query::aggregate::Pipeline;
use treedb_query::doc::json::{documents_from_json, from_json, to_json};
use treedb_query::doc::{Doc, Value};
use treedb_query::error::ErrorCode;
use treedb_query::query::expr::Names;

fn request(pipeline: &str) -> AggregateRequest {
    AggregateRequest::new(documents_from_json(pipeline).unwrap())
}

fn run(db: &Database, request: &AggregateRequest) -> Result<Vec<String>> {
    db.aggregate("db.films", request)?.map(|doc| doc.map(|doc| to_json(&doc))).collect()
}

/// Collections of films and of their directors.
fn films() -> Database {
    let db = open(&SimDisk::default()).unwrap();
    let films = db.collection("db.films").unwrap();
    let rows = r#"[
        {"_id":1,"title":"Alien","year":1979,"by":"scott","tags":["space","horror"],"cost":11},
        {"_id":2,"title":"Brazil","year":1985,"by":"gilliam","tags":[],"cost":15.5},
        {"_id":3,"title":"Blade Runner","year":1982,"by":"scott","tags":["future"],"cost":30},
        {"_id":4,"title":"Twelve Monkeys","year":1995,"by":"gilliam","tags":["future","time"],"cost":29},
        {"_id":5,"title":"Legend","year":1985,"by":"scott","cost":null}
    ]"#;
    films.insert_many(&documents_from_json(rows).unwrap(), true).unwrap();
    let people = db.collection("db.people").unwrap();
    let rows =
        r#"[{"_id":"scott","name":"Ridley","boss":"gilliam"},{"_id":"gilliam","name":"Terry","boss":null}]"#;
    people.insert_many(&documents_from_json(rows).unwrap(), true).unwrap();
    db
}

/// Checks pairs of a pipeline and its expected results, in order.
fn check(cases: &[(&str, &[&str])]) {
    let db = films();
    for (pipeline, expected) in cases {
        match run(&db, &request(pipeline)) {
            Ok(found) => assert_eq!(&found, expected, "{pipeline}"),
            Err(error) => panic!("{pipeline}: {error}"),
        }
    }
}

#[test]
fn pipelines_filter_shape_sort_and_count() {
    check(&[
        (
            r#"[{"$match":{"year":1985}},{"$sort":{"_id":-1}},{"$project":{"title":1,"_id":0}}]"#,
            &[r#"{"title":"Legend"}"#, r#"{"title":"Brazil"}"#],
        ),
        (
            r#"[{"$match":{"$expr":{"$gt":["$cost","$_id"]},"year":{"$lt":1983}}},{"$project":{"_id":1}}]"#,
            &[r#"{"_id":1}"#, r#"{"_id":3}"#],
        ),
        (
            r#"[{"$sort":{"year":1,"_id":1}},{"$skip":1},{"$limit":2},{"$project":{"y":"$year"}}]"#,
            &[r#"{"_id":3,"y":1982}"#, r#"{"_id":2,"y":1985}"#],
        ),
        (
            r#"[{"$set":{"old":{"$lt":["$year",1983]}}},{"$match":{"old":true}},{"$count":"n"}]"#,
            &[r#"{"n":2}"#],
        ),
        (r#"[{"$match":{"year":1900}},{"$count":"n"}]"#, &[]),
        (r#"[{"$limit":1},{"$replaceWith":{"t":"$title"}}]"#, &[r#"{"t":"Alien"}"#]),
        (
            r#"[{"$sort":{"_id":1}},{"$limit":1},{"$unset":["tags","by","cost"]}]"#,
            &[r#"{"_id":1,"title":"Alien","year":1979}"#],
        ),
        (r#"[{"$documents":[{"a":1},{"a":2}]},{"$match":{"a":2}}]"#, &[r#"{"a":2}"#]),
        (r#"[{"$sample":{"size":9}},{"$count":"n"}]"#, &[r#"{"n":5}"#]),
    ]);
}

#[test]
fn groups_accumulate_and_buckets_divide() {
    check(&[
        (
            r#"[{"$group":{"_id":"$by","n":{"$sum":1},"cost":{"$sum":"$cost"},"avg":{"$avg":"$cost"},"first":{"$min":"$year"},"last":{"$max":"$year"}}},{"$sort":{"_id":1}}]"#,
            &[
                r#"{"_id":"gilliam","n":2,"cost":44.5,"avg":22.25,"first":1985,"last":1995}"#,
                r#"{"_id":"scott","n":3,"cost":41,"avg":20.5,"first":1979,"last":1985}"#,
            ],
        ),
        (
            r#"[{"$sort":{"year":1}},{"$group":{"_id":null,"t":{"$push":"$_id"},"s":{"$addToSet":"$by"},"f":{"$first":"$title"},"l":{"$last":"$title"}}}]"#,
            &[r#"{"_id":null,"t":[1,3,2,5,4],"s":["scott","gilliam"],"f":"Alien","l":"Twelve Monkeys"}"#],
        ),
        (
            r#"[{"$group":{"_id":"$by","top":{"$top":{"sortBy":{"year":-1},"output":"$title"}},"two":{"$bottomN":{"n":2,"sortBy":{"year":-1},"output":"$year"}},"max":{"$maxN":{"input":"$cost","n":1}}}},{"$sort":{"_id":-1}},{"$limit":1}]"#,
            &[r#"{"_id":"scott","top":"Legend","two":[1982,1979],"max":[30]}"#],
        ),
        (
            r#"[{"$group":{"_id":null,"p":{"$percentile":{"input":"$cost","p":[0.5],"method":"approximate"}},"m":{"$median":{"input":"$year","method":"approximate"}},"d":{"$stdDevPop":{"$literal":3}},"c":{"$count":{}}}}]"#,
            &[r#"{"_id":null,"p":[15.5],"m":1985.0,"d":0.0,"c":5}"#],
        ),
        (r#"[{"$sortByCount":"$by"}]"#, &[r#"{"_id":"scott","count":3}"#, r#"{"_id":"gilliam","count":2}"#]),
        (
            r#"[{"$bucket":{"groupBy":"$year","boundaries":[1970,1980,1990],"default":"later","output":{"n":{"$sum":1}}}}]"#,
            &[r#"{"_id":1970,"n":1}"#, r#"{"_id":1980,"n":3}"#, r#"{"_id":"later","n":1}"#],
        ),
        (
            r#"[{"$bucketAuto":{"groupBy":"$_id","buckets":2}}]"#,
            &[r#"{"_id":{"min":1,"max":4},"count":3}"#, r#"{"_id":{"min":4,"max":5},"count":2}"#],
        ),
        (
            r#"[{"$group":{"_id":{"b":"$by","y":"$nothing"}}},{"$sort":{"_id":1}},{"$limit":1}]"#,
            &[r#"{"_id":{"b":"gilliam"}}"#],
        ),
    ]);
}

#[test]
fn arrays_are_unwound_and_collections_are_joined() {
    check(&[
        (
            r#"[{"$unwind":{"path":"$tags","includeArrayIndex":"i"}},{"$match":{"_id":1}},{"$project":{"tags":1,"i":1}}]"#,
            &[r#"{"_id":1,"tags":"space","i":0}"#, r#"{"_id":1,"tags":"horror","i":1}"#],
        ),
        (r#"[{"$unwind":"$tags"},{"$count":"n"}]"#, &[r#"{"n":5}"#]),
        (
            r#"[{"$unwind":{"path":"$tags","preserveNullAndEmptyArrays":true}},{"$count":"n"}]"#,
            &[r#"{"n":7}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$lookup":{"from":"people","localField":"by","foreignField":"_id","as":"who"}},{"$project":{"who.name":1}}]"#,
            &[r#"{"_id":1,"who":[{"name":"Ridley"}]}"#],
        ),
        (
            r#"[{"$match":{"_id":2}},{"$lookup":{"from":"people","let":{"b":"$by"},"pipeline":[{"$match":{"$expr":{"$eq":["$_id","$$b"]}}},{"$project":{"_id":0,"v":"$$b"}}],"as":"who"}},{"$project":{"who":1}}]"#,
            &[r#"{"_id":2,"who":[{"v":"gilliam"}]}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$graphLookup":{"from":"people","startWith":"$by","connectFromField":"boss","connectToField":"_id","as":"up","depthField":"d"}},{"$unwind":"$up"},{"$sort":{"up.d":1}},{"$project":{"_id":0,"n":"$up.name","d":"$up.d"}}]"#,
            &[r#"{"n":"Ridley","d":0}"#, r#"{"n":"Terry","d":1}"#],
        ),
        (
            r#"[{"$match":{"_id":5}},{"$project":{"_id":1}},{"$unionWith":{"coll":"people","pipeline":[{"$match":{"boss":null}},{"$project":{"name":1}}]}}]"#,
            &[r#"{"_id":5}"#, r#"{"_id":"gilliam","name":"Terry"}"#],
        ),
        (
            r#"[{"$facet":{"n":[{"$count":"n"}],"old":[{"$sort":{"year":1}},{"$limit":1},{"$project":{"title":1}}]}}]"#,
            &[r#"{"n":[{"n":5}],"old":[{"_id":1,"title":"Alien"}]}"#],
        ),
        (
            r#"[{"$limit":1},{"$project":{"_id":0,"a":{"$literal":{"k":1,"b":{"k":0}}}}},{"$redact":{"$cond":[{"$eq":["$k",0]},"$$PRUNE","$$DESCEND"]}}]"#,
            &[r#"{"a":{"k":1}}"#],
        ),
    ]);
}

#[test]
fn results_replace_a_collection_or_are_merged_into_it() {
    let db = films();
    let all = |name: &str| -> Vec<String> {
        let found = db.collection(name).unwrap().find(FindRequest::default()).unwrap();
        found.map(|doc| to_json(&doc.unwrap())).collect()
    };
    let counts = r#"{"$group":{"_id":"$by","n":{"$sum":1}}},{"$sort":{"_id":1}}"#;
    assert!(run(&db, &request(&format!(r#"[{counts},{{"$out":"counts"}}]"#))).unwrap().is_empty());
    let expected = [r#"{"_id":"gilliam","n":2}"#, r#"{"_id":"scott","n":3}"#];
    assert_eq!(all("db.counts"), expected);
    // Running it again replaces the collection.
    run(&db, &request(&format!(r#"[{counts},{{"$out":{{"db":"db","coll":"counts"}}}}]"#))).unwrap();
    assert_eq!(all("db.counts"), expected);

    let merge =
        r#"[{"$documents":[{"_id":"scott","m":1},{"_id":"new","m":2}]},{"$merge":{"into":"counts"}}]"#;
    run(&db, &request(merge)).unwrap();
    assert_eq!(all("db.counts"), [expected[0], r#"{"_id":"scott","n":3,"m":1}"#, r#"{"_id":"new","m":2}"#]);
    let merge = r#"[{"$documents":[{"_id":"scott","m":5}]},{"$merge":{"into":"counts","whenMatched":[{"$set":{"m":{"$add":["$m","$$new.m"]}}}],"whenNotMatched":"discard"}}]"#;
    run(&db, &request(merge)).unwrap();
    assert!(all("db.counts").contains(&r#"{"_id":"scott","n":3,"m":6}"#.to_owned()));
    // A failure within a batch rolls back the whole batch.
    let merge =
        r#"[{"$documents":[{"_id":"x"},{"_id":"scott"}]},{"$merge":{"into":"counts","whenMatched":"fail"}}]"#;
    assert_eq!(run(&db, &request(merge)).unwrap_err().code, ErrorCode::DuplicateKey);
    assert_eq!(all("db.counts").len(), 3);
    let out = r#"[{"$documents":[{"_id":1},{"_id":1}]},{"$out":"counts"}]"#;
    assert_eq!(run(&db, &request(out)).unwrap_err().code, ErrorCode::DuplicateKey);
    assert_eq!(all("db.counts").len(), 3);
}

#[test]
fn leading_stages_of_a_pipeline_use_indexes() {
    let db = films();
    let films = db.collection("db.films").unwrap();
    films.create_index(IndexSpec::new(from_json(r#"{"year":1}"#).unwrap())).unwrap();
    for (pipeline, indexed) in [
        (r#"[{"$match":{"year":1985}},{"$count":"n"}]"#, true),
        (r#"[{"$sort":{"year":-1}},{"$match":{"by":"scott"}},{"$limit":2}]"#, true),
        (r#"[{"$match":{"cost":11}}]"#, false),
        (r#"[{"$set":{"year":1}},{"$match":{"year":1985}}]"#, false),
    ] {
        let found = films.aggregate(&request(pipeline)).unwrap();
        let used = matches!(found.plan().unwrap().path, treedb_query::query::Path::Index { .. });
        assert_eq!(used, indexed, "{pipeline}");
    }
}

#[test]
fn sorts_and_groups_beyond_the_memory_limit_use_temporary_files_or_fail() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let films = db.collection("db.films").unwrap();
    let docs: Vec<_> = (0..3000)
        .map(|n| raw(&bson::doc! { "_id": n, "k": (n * 7919) % 3000, "g": n % 700, "text": "x".repeat(50) }))
        .collect();
    films.insert_many(&docs, true).unwrap();
    let sort = r#"[{"$sort":{"k":1}},{"$project":{"_id":0,"k":1}}]"#;
    let group = r#"[{"$group":{"_id":"$g","n":{"$sum":1},"t":{"$top":{"sortBy":{"k":1},"output":"$k"}},"a":{"$push":"$_id"}}}]"#;
    let many = r#"[{"$group":{"_id":{"k":"$k","g":"$g"},"n":{"$sum":"$k"},"first":{"$first":"$text"}}},{"$sort":{"_id":1}}]"#;
    for pipeline in [sort, group, many] {
        let roomy = run(&db, &request(pipeline)).unwrap();
        let mut tight = request(pipeline);
        tight.memory = 60_000;
        let mut spilled = run(&db, &tight).unwrap();
        if pipeline == group {
            spilled.sort();
            let mut roomy = roomy.clone();
            roomy.sort();
            assert_eq!(spilled, roomy);
            assert_eq!(spilled.len(), 700);
        } else {
            assert_eq!(spilled, roomy);
            assert_eq!(spilled.len(), 3000);
        }
        tight.allow_disk_use = false;
        let error = run(&db, &tight).unwrap_err();
        assert_eq!(error.code, ErrorCode::QueryExceededMemoryLimitNoDiskUseAllowed, "{error}");
        assert!(error.message.contains("allowDiskUse"), "{error}");
    }
    assert!(
        std::fs::read_dir(dir.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().contains("scratch") })
    );
}

#[test]
fn groups_computed_by_several_threads_are_the_same_as_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let films = db.collection("db.films").unwrap();
    let docs: Vec<_> = (0..2000)
        .map(|n| {
            let number =
                if n % 3 == 0 { bson::Bson::Double(f64::from(n) / 4.0) } else { bson::Bson::Int32(n) };
            raw(&bson::doc! { "_id": n, "g": n % 300, "h": n % 7, "v": number, "t": format!("{n:05}") })
        })
        .collect();
    films.insert_many(&docs, true).unwrap();
    // Leaves row ids without rows.
    films.delete(crate::DeleteRequest::many(raw(&bson::doc! { "_id": { "$lt": 900 }, "h": 2 }))).unwrap();
    let stages = r#"[{"$match":{"h":{"$lt":6}}},{"$set":{"w":{"$add":["$v",1]}}},{"$match":{"w":{"$gt":40}}},
        {"$group":{"_id":{"g":"$g","even":{"$mod":["$h",2]}},"n":{"$sum":1},"s":{"$sum":"$w"},"a":{"$avg":"$v"},"least":{"$min":"$t"},
        "most":{"$max":"$v"},"d":{"$stdDevSamp":"$h"},"top":{"$topN":{"n":2,"sortBy":{"_id":-1},"output":"$t"}},
        "small":{"$minN":{"input":"$v","n":2}}}},{"$sort":{"_id":1}}]"#;
    let mut alone = request(stages);
    alone.threads = Some(1);
    let alone = run(&db, &alone).unwrap();
    assert!(alone.len() > 500);
    for (threads, memory) in [(2, 1 << 20), (5, 1 << 20), (3, 40_000)] {
        let mut write_batch = request(stages);
        (write_batch.threads, write_batch.memory) = (Some(threads), memory);
        assert_eq!(run(&db, &write_batch).unwrap(), alone, "{threads} threads, {memory} bytes");
    }
    // Accumulators that depend on the order, with equal sort keys and equal numbers of different types.
    let ordered = r#"[{"$group":{"_id":{"$mod":["$v",50]},"first":{"$first":"$t"},"last":{"$last":"$none"},"all":{"$push":"$v"},
        "set":{"$addToSet":{"$mod":["$v",4]}},"two":{"$firstN":{"n":2,"input":"$t"}},"few":{"$lastN":{"n":70,"input":"$t"}},
        "top":{"$topN":{"n":3,"sortBy":{"h":1},"output":"$t"}},"low":{"$bottom":{"sortBy":{"h":1},"output":"$t"}},
        "parts":{"$percentile":{"p":[0.1,0.5,0.9],"input":"$_id","method":"approximate"}},
        "merged":{"$mergeObjects":{"$arrayToObject":[[{"k":"$t","v":"$g"},{"k":"same","v":"$v"}]]}},
        "kind":{"$min":{"$mod":["$v",1]}}}},{"$sort":{"_id":1}}]"#;
    let mut alone = request(ordered);
    alone.threads = Some(1);
    let alone = run(&db, &alone).unwrap();
    assert!(alone.len() > 50);
    for (threads, memory) in [(2, 1 << 20), (5, 1 << 20), (3, 500_000), (3, 300_000)] {
        let mut write_batch = request(ordered);
        (write_batch.threads, write_batch.memory) = (Some(threads), memory);
        assert_eq!(run(&db, &write_batch).unwrap(), alone, "{threads} threads, {memory} bytes");
    }
    // An error of one thread is the result.
    let mut failing =
        request(r#"[{"$group":{"_id":null,"s":{"$sum":{"$divide":[1,{"$subtract":["$_id",1500]}]}}}}]"#);
    failing.threads = Some(4);
    assert_eq!(run(&db, &failing).unwrap_err().code, ErrorCode::BadValue);
}

#[test]
fn dates_beyond_the_calendar_have_parts_and_nan_has_no_percentile() {
    check(&[
        (
            r#"[{"$match":{"_id":1}},{"$project":{"_id":0,"y":{"$year":{"$date":"9999-12-31T12:00:00Z"}},
                "s":{"$dateToString":{"date":{"$date":"9999-12-31T12:00:00Z"}}},
                "far":{"$year":{"$toDate":253402300800000}},"d":{"$dayOfYear":{"$toDate":253402300800000}},
                "p":{"$dateToParts":{"date":{"$toDate":253402300800000},"iso8601":true}}}}]"#,
            &[
                r#"{"y":9999,"s":"9999-12-31T12:00:00.000Z","far":10000,"d":1,"p":{"isoWeekYear":9999,"isoWeek":52,"isoDayOfWeek":6,"hour":0,"minute":0,"second":0,"millisecond":0}}"#,
            ],
        ),
        (
            r#"[{"$set":{"cost":{"$cond":[{"$eq":["$_id",5]},{"$toDouble":"NaN"},"$cost"]}}},
                {"$group":{"_id":null,"p":{"$percentile":{"input":"$cost","p":[0,0.5,1],"method":"approximate"}},
                "m":{"$median":{"input":"$cost","method":"approximate"}}}},
                {"$set":{"a":{"$median":{"input":[{"$toDouble":"NaN"},3,1],"method":"approximate"}}}}]"#,
            &[r#"{"_id":null,"p":[11.0,15.5,30.0],"m":15.5,"a":1.0}"#],
        ),
    ]);
}

#[test]
fn invalid_pipelines_are_refused_with_the_name_of_the_stage() {
    for (pipeline, code, word) in [
        (r#"[{"$nonsense":1}]"#, ErrorCode::Location40324, "$nonsense"),
        (r#"[{}]"#, ErrorCode::Location40323, "one field"),
        (r#"[{"$limit":0}]"#, ErrorCode::Location15958, "limit"),
        (r#"[{"$skip":-1}]"#, ErrorCode::Location5107200, "$skip"),
        (r#"[{"$group":{"n":{"$sum":1}}}]"#, ErrorCode::Location15955, "_id"),
        (r#"[{"$group":{"_id":1,"n":{"$nope":1}}}]"#, ErrorCode::Location15952, "$nope"),
        (r#"[{"$group":{"_id":1,"n":{"$sum":["$a","$b"]}}}]"#, ErrorCode::Location40237, "unary"),
        (r#"[{"$out":"x"},{"$limit":1}]"#, ErrorCode::Location40601, "final"),
        (r#"[{"$limit":1},{"$documents":[]}]"#, ErrorCode::Location40602, "first"),
        (r#"[{"$facet":{"a":[{"$out":"x"}]}}]"#, ErrorCode::Location40600, "$out"),
        (r#"[{"$lookup":{"from":"x","as":"y"}}]"#, ErrorCode::FailedToParse, "pipeline"),
        (r#"[{"$unwind":"tags"}]"#, ErrorCode::Location28818, "$unwind"),
        (r#"[{"$unwind":""}]"#, ErrorCode::Location28812, "$unwind"),
        (r#"[{"$unwind":{"preserveNullAndEmptyArrays":true}}]"#, ErrorCode::Location28812, "$unwind"),
        (
            r#"[{"$bucket":{"groupBy":"$cost","boundaries":[0,20,40],"default":20}}]"#,
            ErrorCode::Location40199,
            "default",
        ),
        (r#"[{"$match":5}]"#, ErrorCode::Location15959, "$match"),
        (r#"[{"$changeStream":{}}]"#, ErrorCode::Location40573, "$changeStream"),
    ] {
        let stages = request(pipeline).pipeline;
        let stages = bson::RawDocument::from_bytes(stages.as_bytes()).unwrap();
        let error = Pipeline::parse(Value::Array(Doc::from(stages)), &Names::default()).unwrap_err();
        assert_eq!(error.code, code, "{pipeline}: {error}");
        assert!(error.message.contains(word), "{pipeline}: {error}");
    }
    let mut nested = r#"{"$limit":1}"#.to_owned();
    for _ in 0..25 {
        nested = format!(r#"{{"$facet":{{"a":[{nested}]}}}}"#);
    }
    assert!(run(&films(), &request(&format!("[{nested}]"))).is_err());
}

#[test]
fn windows_densify_and_fill_have_the_results_of_mongodb() {
    check(&[
        (
            r#"[{"$setWindowFields":{"partitionBy":"$by","sortBy":{"year":1},"output":{"sum":{"$sum":"$cost","window":{"documents":["unbounded","current"]}},"rank":{"$rank":{}},"next":{"$shift":{"output":"$title","by":1,"default":"-"}},"all":{"$sum":1}}}},{"$match":{"by":"scott"}},{"$project":{"_id":1,"sum":1,"rank":1,"next":1,"all":1}}]"#,
            &[
                r#"{"_id":1,"sum":11,"rank":1,"next":"Blade Runner","all":3}"#,
                r#"{"_id":3,"sum":41,"rank":2,"next":"Legend","all":3}"#,
                r#"{"_id":5,"sum":41,"rank":3,"next":"-","all":3}"#,
            ],
        ),
        (
            r#"[{"$setWindowFields":{"sortBy":{"year":1},"output":{"near":{"$push":"$_id","window":{"range":[-3,3]}}}}},{"$project":{"near":1}}]"#,
            &[
                r#"{"_id":1,"near":[1,3]}"#,
                r#"{"_id":3,"near":[1,3,2,5]}"#,
                r#"{"_id":2,"near":[3,2,5]}"#,
                r#"{"_id":5,"near":[3,2,5]}"#,
                r#"{"_id":4,"near":[4]}"#,
            ],
        ),
        (
            r#"[{"$documents":[{"x":0,"y":0},{"x":4,"y":8}]},{"$densify":{"field":"x","range":{"step":2,"bounds":"full"}}},{"$fill":{"sortBy":{"x":1},"output":{"y":{"method":"linear"},"z":{"value":1}}}}]"#,
            &[r#"{"x":0,"y":0,"z":1}"#, r#"{"x":2,"y":4.0,"z":1}"#, r#"{"x":4,"y":8,"z":1}"#],
        ),
        (
            r#"[{"$documents":[{"t":{"$date":"2020-01-30T00:00:00Z"},"p":1},{"t":{"$date":"2020-02-02T00:00:00Z"},"p":1}]},{"$densify":{"field":"t","partitionByFields":["p"],"range":{"step":1,"unit":"day","bounds":"partition"}}},{"$group":{"_id":"$p","n":{"$sum":1},"m":{"$max":{"$dayOfMonth":"$t"}}}}]"#,
            &[r#"{"_id":1,"n":4,"m":31}"#],
        ),
    ]);
}

#[test]
fn out_and_merge_refuse_what_the_collection_has_become_while_the_pipeline_ran() {
    let db = films();
    let target = db.collection("db.target").unwrap();
    target.insert_one(bson::rawdoc! { "_id": "kept" }).unwrap();
    let mut out = db.aggregate("db.films", &request(r#"[{"$out":"target"}]"#)).unwrap();
    db.convert_to_capped("db.target", 4096, None).unwrap();
    let error = out.next().unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::Location17152, "{error}");
    assert_eq!(target.find_one(bson::rawdoc! {}).unwrap(), Some(bson::rawdoc! { "_id": "kept" }));
    assert_eq!(target.len().unwrap(), 1);
    let into = r#"[{"$set":{"at":"$$NOW"}},{"$merge":"series"}]"#;
    let mut merge = db.aggregate("db.films", &request(into)).unwrap();
    let series = bson::doc! { "timeseries": { "timeField": "at" } };
    let series = db.create_collection("db.series", series).unwrap();
    let error = merge.next().unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::CommandNotSupportedOnView, "{error}");
    assert_eq!(series.len().unwrap(), 0);
    // `$out` replaces the documents of a time series too.
    assert!(run(&db, &request(r#"[{"$set":{"at":"$$NOW"}},{"$out":"series"}]"#)).unwrap().is_empty());
    assert_eq!(series.len().unwrap(), 5);
}
