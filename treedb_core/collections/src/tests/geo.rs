//! Queries for locations: with an index as without, and by distance as by brute force, whatever the documents, their changes and the
//! transaction that they are read in.

use bson::{RawArrayBuf, RawBson, doc, rawbson, rawdoc};
use treedb_testing::Rng;

use super::*;
use crate::{Collection, DeleteRequest, IndexSpec, UpdateRequest};
use treedb_query::doc::{Doc, Path as Dotted};
use treedb_query::error::ErrorCode;
use treedb_query::geo::{Near, Work};

fn degrees(rng: &mut Rng) -> (f64, f64) {
    // Most of them near each other, some anywhere, some at the same place or at an extreme one.
    match rng.below(8) {
        0 => (rng.below(3601) as f64 / 10.0 - 180.0, rng.below(1801) as f64 / 10.0 - 90.0),
        1 => *rng.pick(&[(0.0, 90.0), (180.0, 0.0), (-180.0, 0.0), (10.0, 10.0), (0.0, -90.0)]),
        _ => (8.0 + rng.below(400) as f64 / 100.0, 9.0 + rng.below(300) as f64 / 100.0),
    }
}

fn pair(rng: &mut Rng) -> RawBson {
    let (lng, lat) = degrees(rng);
    if rng.below(4) == 0 { rawbson!({ "lng": lng, "lat": lat }) } else { rawbson!([lng, lat]) }
}

/// A simple polygon around a place.
fn polygon(rng: &mut Rng, corners: usize, far: f64) -> RawBson {
    let (lng, lat) = (7.0 + rng.below(600) as f64 / 100.0, 8.0 + rng.below(500) as f64 / 100.0);
    let mut ring: Vec<RawBson> = (0..corners)
        .map(|at| {
            let angle = at as f64 / corners as f64 * std::f64::consts::TAU;
            let far = far * (0.3 + rng.below(100) as f64 / 140.0);
            rawbson!([lng + far * angle.cos(), lat + far * angle.sin()])
        })
        .collect();
    ring.push(ring[0].clone());
    let ring: RawArrayBuf = ring.into_iter().collect();
    rawbson!({ "type": "Polygon", "coordinates": [ring] })
}

fn location(rng: &mut Rng) -> RawBson {
    let point = |rng: &mut Rng| {
        let (lng, lat) = degrees(rng);
        rawbson!({ "type": "Point", "coordinates": [lng, lat] })
    };
    match rng.below(12) {
        0 => RawBson::Null,
        1 => {
            let (lng, lat) = (8.0 + rng.below(400) as f64 / 100.0, 9.0 + rng.below(300) as f64 / 100.0);
            rawbson!({ "type": "LineString", "coordinates": [[lng, lat], [lng + 1.0, lat - 2.0], [lng, lat + 3.0]] })
        }
        2 => {
            let corners = 3 + rng.below(20);
            polygon(rng, corners, 1.5)
        }
        3 => {
            let all: RawArrayBuf = (0..rng.below(4)).map(|_| pair(rng)).collect();
            RawBson::Array(all)
        }
        4 => {
            let all: RawArrayBuf = (0..1 + rng.below(3)).map(|_| point(rng)).collect();
            rawbson!({ "type": "GeometryCollection", "geometries": all })
        }
        5 | 6 => pair(rng),
        _ => point(rng),
    }
}

fn condition(rng: &mut Rng) -> RawDocumentBuf {
    let (lng, lat) = degrees(rng);
    let radius = f64::from(1 << rng.below(10)) / 1000.0;
    let corners = 3 + rng.below(9);
    match rng.below(6) {
        0 => rawdoc! { "$geoWithin": { "$geometry": polygon(rng, corners, 4.0) } },
        1 => rawdoc! { "$geoIntersects": { "$geometry": polygon(rng, corners, 4.0) } },
        2 => rawdoc! { "$geoWithin": { "$centerSphere": [[lng, lat], radius] } },
        3 => {
            rawdoc! { "$geoIntersects": { "$geometry": { "type": "LineString", "coordinates": [[8, 9], [12, 12]] } } }
        }
        4 => rawdoc! { "$geoWithin": { "$box": [[lng - 1.0, lat - 1.0], [lng + 1.0, lat + 1.0]] } },
        _ => rawdoc! { "$geoWithin": { "$center": [[lng, lat], radius * 20.0] } },
    }
}

fn ids(collection: &Collection, request: FindRequest) -> Vec<i32> {
    collection.find(request).unwrap().map(|doc| doc.unwrap().get_i32("_id").unwrap()).collect()
}

fn sorted(collection: &Collection, filter: RawDocumentBuf) -> Vec<i32> {
    let mut found = ids(collection, FindRequest::filter(filter));
    found.sort_unstable();
    found
}

/// The ids in the order of their distance, by reading all documents.
fn by_brute_force(all: &[RawDocumentBuf], near: &Near, path: &str) -> Vec<(f64, i32)> {
    let mut found = Vec::new();
    for doc in all {
        let nearest = near.nearest(&Dotted::new(path), Doc::from(doc), &Work::unchecked()).unwrap();
        found.extend(nearest.map(|(distance, _)| (distance, doc.get_i32("_id").unwrap())));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    found
}

#[test]
fn an_index_finds_what_a_scan_finds_and_by_distance_what_sorting_finds() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let (with, without) = (db.collection("t.with").unwrap(), db.collection("t.without").unwrap());
    for spec in [rawdoc! { "loc": "2dsphere" }, rawdoc! { "kind": 1, "loc": "2dsphere", "n": -1 }] {
        with.create_index(IndexSpec::new(spec)).unwrap();
    }
    let mut rng = Rng::new(23);
    let (mut found, mut walked) = (0, 0);
    for round in 0..60 {
        for n in 0..12 {
            let id = round * 12 + n;
            let doc =
                rawdoc! { "_id": id, "kind": id % 3, "n": rng.below(5) as i32, "loc": location(&mut rng) };
            let stored = with.insert_one(&doc);
            match stored {
                Ok(_) => drop(without.insert_one(&doc).unwrap()),
                Err(error) => assert_eq!(error.code, ErrorCode::Location16755, "{error} {doc:?}"),
            }
        }
        let (filter, set) = (
            rawdoc! { "_id": rng.below(round as usize * 12 + 12) as i32 },
            rawdoc! { "$set": { "loc": location(&mut rng) } },
        );
        if with.update(UpdateRequest::one(filter.clone(), set.clone())).is_ok() {
            without.update(UpdateRequest::one(filter, set)).unwrap();
        }
        let gone = rawdoc! { "_id": rng.below(round as usize * 12 + 12) as i32 };
        with.delete(DeleteRequest::one(gone.clone())).unwrap();
        without.delete(DeleteRequest::one(gone)).unwrap();
        for _ in 0..4 {
            let condition = condition(&mut rng);
            for filter in [rawdoc! { "loc": condition.clone() }, rawdoc! { "kind": 1, "loc": condition }] {
                let (some, all) = (sorted(&with, filter.clone()), sorted(&without, filter.clone()));
                assert_eq!(some, all, "{filter:?}");
                found += all.len();
            }
        }
        let all: Vec<RawDocumentBuf> =
            without.find(FindRequest::default()).unwrap().map(|doc| doc.unwrap()).collect();
        let (lng, lat) = degrees(&mut rng);
        let (min, max) = (rng.below(3) as f64 * 40_000.0, [1e5, 1e6, 3e7][rng.below(3)]);
        let center = rawdoc! { "c": { "type": "Point", "coordinates": [lng, lat] } };
        let near = Near::of_point(Doc::from(&center).get("c").unwrap(), true, &Work::unchecked()).unwrap();
        let wanted = by_brute_force(&all, &near.between(min, max), "loc");
        let geometry = center.get("c").unwrap().unwrap().as_document().unwrap().to_owned();
        let operator =
            rawdoc! { "$near": { "$geometry": geometry, "$minDistance": min, "$maxDistance": max } };
        let order = |rows: Vec<i32>| -> Vec<f64> {
            let distance =
                |id| wanted.iter().find(|(_, one)| *one == id).map_or(f64::NAN, |(distance, _)| *distance);
            rows.into_iter().map(distance).collect()
        };
        let distances: Vec<f64> = wanted.iter().map(|(distance, _)| *distance).collect();
        assert_eq!(order(ids(&with, FindRequest::filter(rawdoc! { "loc": operator.clone() }))), distances);
        let some = ids(&with, FindRequest::filter(rawdoc! { "loc": operator.clone() }).skip(2).limit(5));
        let few: Vec<f64> = distances.iter().copied().skip(2).take(5).collect();
        assert_eq!(order(some), few);
        let of_kind = rawdoc! { "kind": { "$in": [0, 2] }, "loc": operator };
        assert_eq!(ids(&with, FindRequest::filter(of_kind)).len(), {
            let kind = |id: &i32| id % 3 != 1;
            wanted.iter().filter(|(_, id)| kind(id)).count()
        });
        walked += distances.len();
    }
    assert!(found > 1000 && walked > 1000, "{found} {walked}");
    db.check().unwrap();
    drop((with, without));
    db.close().unwrap();
    let db = open(&disk).unwrap();
    db.check().unwrap();
    let with = db.collection("t.with").unwrap();
    let filter = rawdoc! { "loc": { "$geoWithin": { "$centerSphere": [[10, 10], 0.05] } } };
    assert_eq!(sorted(&with, filter.clone()), sorted(&db.collection("t.without").unwrap(), filter));
}

#[test]
fn an_index_of_the_plane_finds_what_a_scan_finds() {
    let db = open(&SimDisk::new()).unwrap();
    let (with, without) = (db.collection("t.with").unwrap(), db.collection("t.without").unwrap());
    let spec = rawdoc! { "key": { "loc": "2d", "n": 1 }, "min": -300.0, "max": 250.0 };
    with.create_index(IndexSpec::from_document(&spec)).unwrap();
    let mut rng = Rng::new(29);
    let docs: Vec<_> = (0..600).map(|id| rawdoc! { "_id": id, "n": id % 7, "loc": pair(&mut rng) }).collect();
    with.insert_many(&docs, true).unwrap();
    without.insert_many(&docs, true).unwrap();
    let mut found = 0;
    for _ in 0..150 {
        let filter = rawdoc! { "loc": condition(&mut rng) };
        let all = sorted(&without, filter.clone());
        assert_eq!(sorted(&with, filter.clone()), all, "{filter:?}");
        found += all.len();
        let (x, y) = degrees(&mut rng);
        // The point may be outside of the bounds.
        let (x, y) = (x * 2.0, y);
        let center = rawdoc! { "c": [x, y] };
        let point = || Doc::from(&center).get("c").unwrap();
        let wanted =
            by_brute_force(&docs, &Near::of_point(point(), false, &Work::unchecked()).unwrap(), "loc");
        let near = ids(&with, FindRequest::filter(rawdoc! { "loc": { "$near": [x, y] } }));
        let distance = |id: i32| wanted.iter().find(|(_, one)| *one == id).unwrap().0;
        let (got, all): (Vec<f64>, Vec<f64>) = (
            near.into_iter().map(distance).collect(),
            wanted.iter().map(|(distance, _)| *distance).collect(),
        );
        assert_eq!(got, all);
        if x.abs() <= 180.0 {
            let near = ids(&with, FindRequest::filter(rawdoc! { "loc": { "$nearSphere": [x, y] } }));
            let sphere = Near::of_point(point(), true, &Work::unchecked()).unwrap();
            let wanted = by_brute_force(&docs, &sphere, "loc");
            let distance = |id: i32| wanted.iter().find(|(_, one)| *one == id).unwrap().0;
            assert!(near.iter().map(|id| distance(*id)).is_sorted());
            assert_eq!(near.len(), wanted.len());
        }
    }
    assert!(found > 500, "{found}");
    db.check().unwrap();
}

#[test]
fn a_search_by_distance_reads_few_documents() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "loc": "2dsphere" })).unwrap();
    let mut rng = Rng::new(31);
    let docs: Vec<_> = (0..20_000)
        .map(|id| {
            let (lng, lat) =
                (rng.below(36_000) as f64 / 100.0 - 180.0, rng.below(17_000) as f64 / 100.0 - 85.0);
            rawdoc! { "_id": id, "loc": [lng, lat] }
        })
        .collect();
    places.insert_many(&docs, true).unwrap();
    for (lng, lat) in [(0.0, 0.0), (179.99, 10.0), (45.0, 84.0), (-100.0, -89.0)] {
        let filter =
            rawdoc! { "loc": { "$near": { "$geometry": { "type": "Point", "coordinates": [lng, lat] } } } };
        let (plan, counters) = places.explain(FindRequest::filter(filter).limit(10)).unwrap().unwrap();
        assert!(matches!(plan.path, treedb_query::query::Path::Near(_)));
        assert_eq!(counters.returned, 10);
        // Of 20,000.
        assert!(counters.docs_examined < 1000, "{lng} {lat}: {counters:?}");
    }
}

#[test]
fn a_condition_on_an_earlier_location_hides_no_document_from_a_search_by_distance() {
    let db = open(&SimDisk::new()).unwrap();
    let ways = db.collection("t.ways").unwrap();
    ways.create_index(IndexSpec::new(rawdoc! { "from": "2dsphere", "to": "2dsphere" })).unwrap();
    let from = rawdoc! { "type": "Point", "coordinates": [1, 2] };
    let to = rawdoc! { "type": "Point", "coordinates": [3, 4] };
    ways.insert_one(&rawdoc! { "_id": 1, "from": from.clone(), "to": to.clone() }).unwrap();
    ways.insert_one(&rawdoc! { "_id": 2, "from": null, "to": to.clone() }).unwrap();
    let near = rawdoc! { "$near": { "$geometry": to } };
    let filters =
        [(rawdoc! { "from": from, "to": near.clone() }, 1), (rawdoc! { "from": null, "to": near }, 2)];
    for (filter, _) in &filters {
        let Err(error) = ways.find(FindRequest::filter(filter.clone())) else { panic!("{filter:?}") };
        assert_eq!(
            error.code,
            ErrorCode::NoQueryExecutionPlans,
            "its keys have no values of the first location"
        );
    }
    ways.create_index(IndexSpec::new(rawdoc! { "to": "2dsphere", "from": "2dsphere" })).unwrap();
    for (filter, id) in filters {
        assert_eq!(ids(&ways, FindRequest::filter(filter)), [id]);
    }
}

#[test]
fn many_values_before_a_location_make_no_more_ranges_than_there_are_values() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "kind": 1, "loc": "2dsphere" })).unwrap();
    let docs: Vec<_> =
        (0..3000).map(|id| rawdoc! { "_id": id, "kind": id, "loc": [id % 90, id % 45] }).collect();
    places.insert_many(&docs, true).unwrap();
    let region = rawdoc! { "$geoWithin": { "$centerSphere": [[10, 10], 0.1] } };
    let ranges = |kinds: i32| {
        let kinds: RawArrayBuf = (0..kinds).collect();
        let filter = rawdoc! { "kind": { "$in": kinds }, "loc": region.clone() };
        let (plan, _) = places.explain(FindRequest::filter(filter)).unwrap().unwrap();
        let treedb_query::query::Path::Index { ranges, .. } = plan.path else { panic!("{plan:?}") };
        ranges.len()
    };
    assert!(ranges(4) > 4, "few values are combined with the cells");
    assert!(ranges(100_000) <= 100_000);
}

#[test]
fn bounds_of_keys_are_refused_beside_a_search_by_distance() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "loc": "2dsphere" })).unwrap();
    places.insert_one(&rawdoc! { "_id": 1, "loc": [1, 1] }).unwrap();
    let near = || FindRequest::filter(rawdoc! { "loc": { "$nearSphere": [0, 0] } });
    assert_eq!(ids(&places, near()), [1]);
    let mut request = near();
    request.bounds.min = Some(rawdoc! { "loc": 5 });
    let Err(error) = places.find(request).map(drop) else { panic!("it was ignored") };
    assert_eq!(error.code, ErrorCode::Location51173);
}

#[test]
fn a_search_by_distance_of_all_documents_reads_the_index_few_times() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "loc": "2dsphere" })).unwrap();
    let mut rng = Rng::new(37);
    let docs: Vec<_> = (0..30_000)
        .map(|id| rawdoc! { "_id": id, "loc": [rng.below(20_000) as f64 / 1000.0, rng.below(20_000) as f64 / 1000.0] })
        .collect();
    places.insert_many(&docs, true).unwrap();
    let filter = rawdoc! { "loc": { "$near": { "$geometry": { "type": "Point", "coordinates": [3, 4] } } } };
    let (_, counters) = places.explain(FindRequest::filter(filter)).unwrap().unwrap();
    assert_eq!((counters.returned, counters.docs_examined), (30_000, 30_000));
    assert!(counters.keys_examined < 5 * 30_000, "{counters:?}");
}

#[test]
fn the_query_of_geo_near_may_use_variables() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "loc": "2dsphere" })).unwrap();
    for id in 0..4 {
        places.insert_one(&rawdoc! { "_id": id, "loc": [id, 0] }).unwrap();
    }
    let inner = rawdoc! { "$geoNear": {
        "near": [0, 0], "spherical": true, "distanceField": "d", "query": { "_id": { "$lt": 3 }, "$expr": { "$ne": ["$_id", "$$own"] } },
    } };
    let stage = rawdoc! { "$lookup": { "from": "places", "as": "others", "let": { "own": "$_id" }, "pipeline": [inner] } };
    let mut others: Vec<(i32, Vec<i32>)> = Vec::new();
    for doc in places.aggregate(&crate::AggregateRequest::new([stage])).unwrap() {
        let doc = Document::try_from(&*doc.unwrap()).unwrap();
        let ids = doc
            .get_array("others")
            .unwrap()
            .iter()
            .map(|other| other.as_document().unwrap().get_i32("_id").unwrap());
        others.push((doc.get_i32("_id").unwrap(), ids.collect()));
    }
    others.sort();
    assert_eq!(others, [(0, vec![1, 2]), (1, vec![0, 2]), (2, vec![0, 1]), (3, vec![0, 1, 2])]);
}

#[test]
fn programs_that_know_no_locations_refuse_the_catalog_entry() {
    let db = open(&SimDisk::new()).unwrap();
    let version = || {
        use treedb_storage::Reads;
        let reads = db.store().begin_read().unwrap();
        let table = reads.table("catalog").unwrap().unwrap();
        let entry = reads.get(&table, b"t.c").unwrap().unwrap().to_vec();
        Document::from_reader(entry.as_slice()).unwrap().get_i32("v").unwrap()
    };
    let c = db.collection("t.c").unwrap();
    c.create_index(rawdoc! { "a": 1 }).unwrap();
    assert_eq!(version(), 1);
    c.create_index(rawdoc! { "loc": "2dsphere" }).unwrap();
    assert_eq!(version(), 10);
    c.drop_index("loc_2dsphere").unwrap();
    assert_eq!(version(), 1);
    c.create_index(rawdoc! { "loc": "2d" }).unwrap();
    assert_eq!(version(), 10);
    assert_eq!(
        raw(&doc! { "loc": "2d" }),
        c.indexes().unwrap().unwrap()[2].get("key").map(|key| raw(key.as_document().unwrap())).unwrap()
    );
}

#[test]
fn far_more_documents_by_distance_than_are_remembered_come_once_and_in_order() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "loc": "2dsphere" })).unwrap();
    let mut rng = Rng::new(41);
    let mut place = || {
        let (lng, lat) = (rng.below(40_000) as f64 / 1000.0, rng.below(40_000) as f64 / 1000.0);
        rawbson!({ "type": "Point", "coordinates": [lng, lat] })
    };
    // Some at two places, far from each other.
    let docs: Vec<_> = (0..90_000)
        .map(|id| match id % 10 {
            0 => rawdoc! { "_id": id, "loc": [place(), place()] },
            _ => rawdoc! { "_id": id, "loc": place() },
        })
        .collect();
    places.insert_many(&docs, true).unwrap();
    let center = rawdoc! { "c": { "type": "Point", "coordinates": [21, 19] } };
    let near = Near::of_point(Doc::from(&center).get("c").unwrap(), true, &Work::unchecked()).unwrap();
    let mut wanted = vec![f64::NAN; docs.len()];
    for (distance, id) in by_brute_force(&docs, &near, "loc") {
        wanted[id as usize] = distance;
    }
    let geometry = center.get("c").unwrap().unwrap().as_document().unwrap().to_owned();
    let found = ids(&places, FindRequest::filter(rawdoc! { "loc": { "$near": { "$geometry": geometry } } }));
    assert!(found.iter().map(|id| wanted[*id as usize]).is_sorted());
    let mut once = found.clone();
    once.sort_unstable();
    assert_eq!(once, (0..90_000).collect::<Vec<_>>());
}

#[test]
fn a_crowd_far_away_is_looked_at_once_for_the_nearest_of_it() {
    let db = open(&SimDisk::new()).unwrap();
    let places = db.collection("t.places").unwrap();
    places.create_index(IndexSpec::new(rawdoc! { "loc": "2dsphere" })).unwrap();
    let mut rng = Rng::new(43);
    let docs: Vec<_> = (0..60_000)
        .map(|id| rawdoc! { "_id": id, "loc": [2.0 + rng.below(100_000) as f64 / 1e5, 48.0 + rng.below(100_000) as f64 / 1e5] })
        .collect();
    places.insert_many(&docs, true).unwrap();
    let far = rawdoc! { "loc": { "$near": { "$geometry": { "type": "Point", "coordinates": [151, -34] } } } };
    let (_, counters) = places.explain(FindRequest::filter(far).limit(1)).unwrap().unwrap();
    assert_eq!(counters.returned, 1);
    assert!(counters.docs_examined <= 60_000 && counters.keys_examined < 4 * 60_000, "{counters:?}");
}

#[test]
fn a_flat_polygon_with_huge_coordinates_selects_the_same_with_an_index() {
    let db = open(&SimDisk::new()).unwrap();
    let (with, without) = (db.collection("t.with").unwrap(), db.collection("t.without").unwrap());
    with.create_index(IndexSpec::new(rawdoc! { "loc": "2d" })).unwrap();
    for id in 0..400 {
        let doc =
            rawdoc! { "_id": id, "loc": [f64::from(id % 20) * 9.0 - 90.0, f64::from(id / 20) * 9.0 - 90.0] };
        with.insert_one(&doc).unwrap();
        without.insert_one(&doc).unwrap();
    }
    let mut found = 0;
    for far in [1e3, 1e15, 1e18, 1e30, 1e100, 1e160, 1e200] {
        for polygon in [
            rawbson!([[1, -far], [far, 0], [1, far]]),
            rawbson!([[-far, -1], [far, -3], [0, far]]),
            rawbson!([[-far, -far], [far, -far], [far, far], [-far, far]]),
        ] {
            let filter = rawdoc! { "loc": { "$geoWithin": { "$polygon": polygon } } };
            let all = sorted(&without, filter.clone());
            assert_eq!(sorted(&with, filter.clone()), all, "{filter:?}");
            found += all.len();
        }
        let filter = rawdoc! { "loc": { "$geoWithin": { "$center": [[far, 0], far] } } };
        assert_eq!(sorted(&with, filter.clone()), sorted(&without, filter.clone()), "{filter:?}");
    }
    assert!(found > 2000, "{found}");
}
