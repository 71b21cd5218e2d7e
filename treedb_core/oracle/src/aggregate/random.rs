//! Random pipelines, made stage by stage over the documents that come out of the stages before.

use bson::{Bson, Document, doc};
use treedb_testing::Rng;

use super::values::Variables;
use crate::query::{PATHS, comparable, filter, scalar};

/// Fields that stages make.
const MADE: &[&str] = &["v", "w", "v.x", "w.y", "_id", "n"];

fn path(rng: &mut Rng) -> String {
    let from = if rng.below(3) == 0 { MADE } else { PATHS };
    (*rng.pick(from)).to_owned()
}

/// A path without positions in arrays: in expressions these do not exist.
fn plain_path(rng: &mut Rng) -> String {
    loop {
        let path = path(rng);
        if !path.split('.').any(|part| part.parse::<usize>().is_ok()) {
            return path;
        }
    }
}

fn field(rng: &mut Rng) -> Bson {
    Bson::String(format!("${}", plain_path(rng)))
}

fn constant(rng: &mut Rng) -> Bson {
    match scalar(rng) {
        text @ (Bson::String(_) | Bson::Symbol(_)) => doc! { "$literal": text }.into(),
        other => other,
    }
}

/// An expression that most documents have an answer for.
pub(super) fn expression(rng: &mut Rng, depth: usize) -> Bson {
    if depth == 0 {
        return if rng.below(4) == 0 { constant(rng) } else { field(rng) };
    }
    let (a, b) = (expression(rng, depth - 1), expression(rng, depth - 1));
    let list = |expr: Bson| doc! { "$cond": [{ "$isArray": [expr.clone()] }, expr, [1, 2]] };
    match rng.below(19) {
        0..3 => field(rng),
        3 => constant(rng),
        4 => doc! { *rng.pick(&["$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$cmp"]): [a, b] }.into(),
        5 => doc! { *rng.pick(&["$and", "$or"]): [a, b] }.into(),
        6 => doc! { "$not": [a] }.into(),
        7 => doc! { "$cond": [a, b, field(rng)] }.into(),
        8 => doc! { "$ifNull": [a, b] }.into(),
        9 => doc! { *rng.pick(&["$add", "$multiply", "$subtract"]): ["$n", rng.below(3) as i32] }.into(),
        10 => doc! { *rng.pick(&["$add", "$multiply", "$subtract"]): [a, b] }.into(),
        11 => doc! { "p": a, "q": b }.into(),
        12 => Bson::Array(vec![a, b]),
        13 => doc! { "$size": list(a) }.into(),
        14 => doc! { "$concatArrays": [list(a), [b]] }.into(),
        15 => doc! { "$in": [a, list(b)] }.into(),
        16 => doc! { "$map": { "input": list(a), "in": { "k": "$$this", "x": "$$this.x" } } }.into(),
        17 => doc! { "$filter": { "input": list(a), "cond": { "$gt": ["$$this", b] } } }.into(),
        _ => doc! { "$let": { "vars": { "t": a }, "in": { "$eq": ["$$t", b] } } }.into(),
    }
}

/// An expression for the field of a shape, where a document or a number of its own means something else.
fn computed(rng: &mut Rng, depth: usize) -> Bson {
    match expression(rng, depth) {
        Bson::Document(doc) if doc.keys().all(|name| !name.starts_with('$')) => {
            doc! { "$mergeObjects": [doc] }.into()
        }
        operator @ (Bson::Document(_) | Bson::String(_)) => operator,
        constant => doc! { "$ifNull": [constant, 1] }.into(),
    }
}

/// Accumulators with their fields; `ordered` if they may ask for the order.
fn accumulators(rng: &mut Rng, ordered: bool, sets: &mut Vec<String>) -> Document {
    let mut all = Document::new();
    for name in ["v", "w", "x"].into_iter().take(1 + rng.below(3)) {
        let depth = usize::from(rng.below(3) == 0);
        let input = match expression(rng, depth) {
            // An accumulator takes one operand.
            Bson::Array(array) => doc! { "$concatArrays": [array] }.into(),
            input => input,
        };
        let n = 1 + rng.below(3) as i32;
        let accumulator = match rng.below(if ordered { 20 } else { 14 }) {
            0 | 1 => doc! { "$sum": 1 },
            2 => doc! { "$sum": input },
            3 => doc! { "$avg": input },
            4 => doc! { "$min": input },
            5 => doc! { "$max": input },
            6 => doc! { *rng.pick(&["$stdDevPop", "$stdDevSamp"]): input },
            7 => doc! { "$count": {} },
            8 => doc! { "$maxN": { "input": input, "n": n } },
            9 => doc! { "$minN": { "input": input, "n": n } },
            10 => doc! { "$median": { "input": input, "method": "approximate" } },
            11 => {
                sets.push(name.to_owned());
                doc! { "$addToSet": input }
            }
            12 => doc! { *rng.pick(&["$top", "$bottom"]): { "sortBy": { "_id": -1 }, "output": input } },
            13 => {
                let sort = doc! { *rng.pick(&["n", "a"]): 1, "_id": 1 };
                doc! { *rng.pick(&["$topN", "$bottomN"]): { "n": n, "sortBy": sort, "output": input } }
            }
            14 | 15 => doc! { *rng.pick(&["$first", "$last"]): input },
            16 => doc! { "$push": input },
            17 => doc! { "$firstN": { "input": input, "n": n } },
            18 => doc! { "$lastN": { "input": input, "n": n } },
            _ => doc! { "$mergeObjects": { "p": input } },
        };
        all.insert(name, accumulator);
    }
    all
}

/// The stage that puts what `$addToSet` gives in order.
fn in_order(sets: Vec<String>) -> Option<Document> {
    let sorted = |name: &String| doc! { "$sortArray": { "input": format!("${name}"), "sortBy": 1 } };
    let fields: Document = sets.iter().map(|name| (name.clone(), sorted(name).into())).collect();
    (!sets.is_empty()).then(|| doc! { "$set": fields })
}

fn sort(rng: &mut Rng) -> Document {
    let way = |rng: &mut Rng| if rng.below(2) == 0 { 1 } else { -1 };
    match rng.below(4) {
        0 => doc! { "_id": way(rng) },
        1 => doc! { path(rng): way(rng) },
        _ => {
            let mut sort = doc! { *rng.pick(&["n", "a", "b.x", "v", "c"]): way(rng) };
            sort.insert("_id", way(rng));
            sort
        }
    }
}

fn condition(rng: &mut Rng) -> Document {
    match rng.below(8) {
        0 => doc! { "$expr": { *rng.pick(&["$eq", "$gt", "$lte"]): [field(rng), expression(rng, 0)] } },
        1 => doc! { "$expr": expression(rng, 1), *rng.pick(&["n", "a"]): { "$gte": rng.below(3) as i32 } },
        2 | 3 => {
            let operator = *rng.pick(&["$eq", "$gt", "$lt", "$gte", "$ne", "$in"]);
            let value = comparable(rng);
            let value = if operator == "$in" { Bson::Array(vec![value, scalar(rng)]) } else { value };
            doc! { *rng.pick(MADE): { operator: value } }
        }
        _ => filter(rng, 1),
    }
}

fn window(rng: &mut Rng, ordered: bool) -> Document {
    let mut edges = [rng.below(5) as i32 - 3, rng.below(5) as i32 - 1];
    edges.sort_unstable();
    let edge = |rng: &mut Rng, n: i32| match rng.below(4) {
        0 => Bson::from("unbounded"),
        1 if n == 0 => Bson::from("current"),
        _ => n.into(),
    };
    let edges = [edge(rng, edges[0]), edge(rng, edges[1])];
    doc! { if ordered { "documents" } else { "range" }: edges.to_vec() }
}

fn windows(rng: &mut Rng) -> Vec<Document> {
    let ordered = rng.below(3) > 0;
    let sort = if ordered {
        doc! { *rng.pick(&["n", "a", "_id"]): 1, "_id": 1 }
    } else {
        doc! { "n": 1 }
    };
    let (mut output, mut sets) = (Document::new(), Vec::new());
    for (name, accumulator) in accumulators(rng, ordered, &mut sets) {
        let Bson::Document(mut function) = accumulator else { continue };
        match rng.below(8) {
            // They need an order by one field.
            0 if sort.len() == 1 => function = doc! { "$rank": {} },
            1 if sort.len() == 1 => function = doc! { "$denseRank": {} },
            2 if ordered && sort.len() == 1 => function = doc! { "$documentNumber": {} },
            3 if ordered => {
                function = doc! { "$shift": { "output": field(rng), "by": rng.below(5) as i32 - 2 } };
            }
            4 => {}
            _ => drop(function.insert("window", window(rng, ordered))),
        }
        if !function.contains_key("$addToSet") {
            sets.retain(|set| *set != name);
        }
        output.insert(name, function);
    }
    let mut spec = doc! { "sortBy": sort, "output": output };
    if rng.below(2) == 0 {
        spec.insert("partitionBy", field(rng));
    }
    std::iter::once(doc! { "$setWindowFields": spec }).chain(in_order(sets)).collect()
}

/// Stages over the input of another.
fn inner(rng: &mut Rng) -> Vec<Document> {
    let mut all = Vec::new();
    if rng.below(2) == 0 {
        all.push(doc! { "$match": condition(rng) });
    }
    match rng.below(4) {
        0 => all.push(doc! { "$group": { "_id": field(rng), "v": { "$sum": "$n" } } }),
        1 => all.push(doc! { "$set": { "v": computed(rng, 1) } }),
        2 => all.push(doc! { "$project": { "n": 1, "a.x": 1 } }),
        _ => {}
    }
    all
}

fn lookup(rng: &mut Rng, variables: &Variables) -> Vec<Document> {
    let _ = variables;
    let (local, foreign) = (path(rng), *rng.pick(&["_id", "n", "a", "a.x", "b", "b.x"]));
    let local = if rng.below(2) == 0 { (*rng.pick(&["n", "_id", "a"])).to_owned() } else { local };
    let mut spec = doc! { "from": "other", "as": "w" };
    match rng.below(4) {
        0 => {
            spec.insert("let", doc! { "t": field(rng) });
            let matched = doc! { "$match": { "$expr": { "$eq": [format!("${foreign}"), "$$t"] } } };
            spec.insert("pipeline", vec![matched, doc! { "$sort": { "_id": 1 } }]);
        }
        1 => {
            spec.extend(doc! { "localField": local, "foreignField": foreign, "let": { "t": "$n" } });
            let mut stages = inner(rng);
            stages.push(doc! { "$set": { "t": "$$t" } });
            stages.push(doc! { "$sort": { "_id": 1 } });
            spec.insert("pipeline", stages);
        }
        _ => spec.extend(doc! { "localField": local, "foreignField": foreign }),
    }
    let sorted = doc! { "$sortArray": { "input": "$w", "sortBy": { "_id": 1 } } };
    let mut all = vec![doc! { "$lookup": spec }];
    match rng.below(3) {
        0 => all.push(doc! { "$unwind": { "path": "$w", "preserveNullAndEmptyArrays": rng.below(2) == 0 } }),
        _ => all.push(doc! { "$set": { "w": sorted } }),
    }
    all
}

fn densify(rng: &mut Rng) -> Document {
    let bounds = match rng.below(3) {
        0 => Bson::from("full"),
        1 => "partition".into(),
        _ => vec![Bson::Int32(rng.below(3) as i32 - 1), Bson::Int32(3 + rng.below(4) as i32)].into(),
    };
    let step = rng.pick(&[Bson::Int32(1), Bson::Int32(2), Bson::Double(0.5), Bson::Double(1.0)]).clone();
    let by_partition = bounds == Bson::from("partition");
    let mut spec =
        doc! { "field": *rng.pick(&["n", "n", "_id", "v"]), "range": { "step": step, "bounds": bounds } };
    if rng.below(2) == 0 || by_partition {
        spec.insert("partitionByFields", vec![*rng.pick(&["c", "b", "w"])]);
    }
    doc! { "$densify": spec }
}

fn fill(rng: &mut Rng) -> Document {
    let mut output = Document::new();
    for name in ["a", "c", "v"].into_iter().take(1 + rng.below(3)) {
        output.insert(
            name,
            match rng.below(4) {
                0 => doc! { "value": expression(rng, 1) },
                1 => doc! { "method": "linear" },
                _ => doc! { "method": "locf" },
            },
        );
    }
    let mut spec = doc! { "sortBy": { "_id": 1 }, "output": output };
    if rng.below(2) == 0 {
        spec.insert("partitionBy", field(rng));
    }
    doc! { "$fill": spec }
}

/// A stage that writes to the collection `target`.
pub fn writing(rng: &mut Rng) -> Document {
    if rng.below(3) == 0 {
        return doc! { "$out": "target" };
    }
    let matched = match rng.below(4) {
        0 => vec![doc! { "$set": { "seen": { "$ifNull": ["$$new.n", Bson::Null] } } }].into(),
        1 => Bson::from("replace"),
        2 => "keepExisting".into(),
        _ => "merge".into(),
    };
    let unmatched = *rng.pick(&["insert", "insert", "discard"]);
    doc! { "$merge": { "into": "target", "whenMatched": matched, "whenNotMatched": unmatched } }
}

/// The next stage, with those that make its answer comparable. `ordered` if the documents have an order.
pub(super) fn stages(rng: &mut Rng, ordered: bool) -> Vec<Document> {
    let mut sets = Vec::new();
    let one = |stage: Document| vec![stage];
    match rng.below(38) {
        34 | 35 => {
            let mut spec = doc! { "groupBy": field(rng), "buckets": 1 + rng.below(6) as i32 };
            if rng.below(2) == 0 {
                spec.insert("output", accumulators(rng, false, &mut sets));
            }
            std::iter::once(doc! { "$bucketAuto": spec }).chain(in_order(sets)).collect()
        }
        36 => one(densify(rng)),
        37 => one(fill(rng)),
        0..6 => one(doc! { "$match": condition(rng) }),
        6..9 => one(doc! { "$sort": sort(rng) }),
        9 | 10 if ordered => one(doc! { "$limit": 1 + rng.below(12) as i32 }),
        11 if ordered => one(doc! { "$skip": rng.below(6) as i32 }),
        9..12 => vec![doc! { "$sort": { "n": 1, "_id": -1 } }, doc! { "$limit": 1 + rng.below(20) as i32 }],
        12 => {
            let mut spec = Document::new();
            for name in ["n", "a", "b", "v", "c"].into_iter().take(1 + rng.below(5)) {
                if rng.below(3) > 0 {
                    spec.insert(name, 1);
                }
            }
            if spec.is_empty() || rng.below(2) == 0 {
                spec.insert("w", computed(rng, 1));
            }
            if rng.below(5) == 0 {
                spec.insert("_id", 0);
            }
            one(doc! { "$project": spec })
        }
        13 => one(doc! { "$project": { *rng.pick(&["a.x", "b.y", "a", "c.x"]): 0, "v": 0 } }),
        14 => one(doc! { "$project": { *rng.pick(&["a.x", "b.y", "a.x.y", "c"]): 1 } }),
        15 => one(doc! { "$unset": *rng.pick(&["a", "b.x", "n", "v", "c.y"]) }),
        16 | 17 => {
            let mut spec = doc! { *rng.pick(&["v", "w", "a.x", "b", "n", "v.x"]): computed(rng, 2) };
            if rng.below(3) == 0 && !spec.contains_key("v") && !spec.contains_key("v.x") {
                spec.insert("v", computed(rng, 1));
            }
            one(doc! { "$set": spec })
        }
        18 => one(
            doc! { "$replaceWith": { "_id": "$_id", "n": "$n", "a": field(rng), "v": expression(rng, 1) } },
        ),
        19 => {
            let decision =
                doc! { "$cond": [expression(rng, 1), "$$DESCEND", *rng.pick(&["$$PRUNE", "$$KEEP"])] };
            one(doc! { "$redact": decision })
        }
        20 => one(doc! { "$count": "n" }),
        21 => one(doc! { "$sortByCount": field(rng) }),
        22..26 => {
            let id = match rng.below(6) {
                0 => Bson::Null,
                1 => expression(rng, 1),
                2 => doc! { "p": field(rng), "q": field(rng) }.into(),
                _ => field(rng),
            };
            let mut spec = doc! { "_id": id };
            spec.extend(accumulators(rng, ordered, &mut sets));
            std::iter::once(doc! { "$group": spec }).chain(in_order(sets)).collect()
        }
        26 => {
            let mut spec = doc! { "groupBy": "$n", "boundaries": [0, 2, 4], "default": "other" };
            if rng.below(2) == 0 {
                spec.insert("groupBy", field(rng));
                spec.insert("output", accumulators(rng, ordered, &mut sets));
            }
            std::iter::once(doc! { "$bucket": spec }).chain(in_order(sets)).collect()
        }
        27 | 28 => {
            let path = *rng.pick(&["$a", "$b", "$c", "$v", "$b.x"]);
            match rng.below(3) {
                0 => one(doc! { "$unwind": path }),
                1 => one(doc! { "$unwind": { "path": path, "preserveNullAndEmptyArrays": true } }),
                _ => one(doc! { "$unwind": { "path": path, "includeArrayIndex": "w" } }),
            }
        }
        29 => match rng.below(2) {
            0 => one(doc! { "$unionWith": "other" }),
            _ => one(doc! { "$unionWith": { "coll": "other", "pipeline": inner(rng) } }),
        },
        30 => lookup(rng, &Variables::new()),
        31 => {
            let mut spec = doc! {
                "from": "other", "startWith": field(rng), "connectFromField": *rng.pick(&["n", "a", "a.x"]),
                "connectToField": *rng.pick(&["_id", "n", "b"]), "as": "w",
            };
            if rng.below(2) == 0 {
                spec.insert("maxDepth", rng.below(3) as i32);
                spec.insert("depthField", "depth");
            }
            let sorted = doc! { "$sortArray": { "input": "$w", "sortBy": { "_id": 1 } } };
            vec![doc! { "$graphLookup": spec }, doc! { "$set": { "w": sorted } }]
        }
        32 => {
            let mut facets = Document::new();
            for name in ["p", "q"] {
                let mut inner = inner(rng);
                inner.push(if ordered {
                    doc! { "$limit": 3 }
                } else {
                    doc! { "$count": "n" }
                });
                facets.insert(name, inner);
            }
            one(doc! { "$facet": facets })
        }
        _ => match rng.below(4) {
            0 => one(doc! { "$sample": { "size": 5000 } }),
            _ => windows(rng),
        },
    }
}
