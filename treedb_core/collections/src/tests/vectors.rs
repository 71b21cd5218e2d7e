//! Vector indexes: searches compared with exact ones, changes, filters, transactions, and what cannot be compared.

use std::collections::BTreeSet;

use bson::{doc, rawdoc};
use treedb_testing::Rng;

use super::*;
use crate::index::ordered::long_key::PREFIX_LEN;
use crate::{
    Collection, DeleteRequest, FindRequest, IndexSpec, Neighbor, NeighborRef, SearchEnd, SearchIndex,
    SearchPath, SearchWork, UpdateRequest, VectorSearchRequest,
};
use treedb_query::access::Flow;
use treedb_query::error::ErrorCode;
use treedb_storage::Reads;

const DIMENSIONS: usize = 24;

/// A vector in one of a few clusters.
fn vector(rng: &mut Rng) -> Vec<f32> {
    let cluster = rng.below(20) as f32;
    let noise = |rng: &mut Rng| rng.below(2001) as f32 / 1000.0 - 1.0;
    (0..DIMENSIONS).map(|at| (cluster * (at as f32 + 1.0)).sin() + 0.5 * noise(rng)).collect()
}

fn document(rng: &mut Rng, id: i32) -> RawDocumentBuf {
    let vector: Vec<f64> = vector(rng).into_iter().map(f64::from).collect();
    raw(&doc! { "_id": id, "v": vector, "part": id % 500 })
}

fn spec(similarity: &str, quantization: &str) -> IndexSpec {
    IndexSpec::vector(rawdoc! {
        "path": "v", "numDimensions": DIMENSIONS as i32, "similarity": similarity, "quantization": quantization,
    })
    .name("near")
}

fn database() -> Database {
    open(&SimDisk::new()).unwrap()
}

/// The `_id`s found.
fn ids(found: &[Neighbor]) -> Vec<i32> {
    found.iter().map(|neighbor| neighbor.document.get_i32("_id").unwrap()).collect()
}

fn search(vector: Vec<f32>, limit: usize) -> VectorSearchRequest {
    VectorSearchRequest::new("near", vector, limit)
}

/// The share of the ten nearest documents that searches find, of those that match `filter`. Each search finds ten.
fn recall(things: &Collection, filter: &Document, rng: &mut Rng) -> f64 {
    let (mut both, searches) = (0, 20);
    for _ in 0..searches {
        let request = search(vector(rng), 10).filter(raw(filter));
        let exact = things.vector_search(&request.clone().exact()).unwrap();
        let found = things.vector_search(&request).unwrap();
        assert_eq!((found.len(), exact.len()), (10, 10), "{filter}");
        assert!(found.is_sorted_by(|a, b| a.distance <= b.distance && a.score >= b.score));
        let exact: BTreeSet<i32> = ids(&exact).into_iter().collect();
        both += ids(&found).iter().filter(|id| exact.contains(id)).count();
    }
    both as f64 / (10 * searches) as f64
}

#[test]
fn programs_that_know_no_few_bits_or_several_fields_refuse_the_catalog_entry() {
    let db = database();
    let version = || {
        let reads = db.store().begin_read().unwrap();
        let table = reads.table("catalog").unwrap().unwrap();
        let entry = reads.get(&table, b"shop.things").unwrap().unwrap().to_vec();
        Document::from_reader(entry.as_slice()).unwrap().get_i32("v").unwrap()
    };
    let things = db.collection("shop.things").unwrap();
    for (quantization, wanted) in
        [("scalar", 7), ("none", 7), ("binary", 12), ("bits2", 12), ("bits4", 12), ("scalar", 7)]
    {
        things.create_index(spec("cosine", quantization)).unwrap();
        assert_eq!(version(), wanted, "{quantization}");
        let listed = things.search_indexes().unwrap().unwrap();
        let field = Document::try_from(&*listed[0].spec).unwrap();
        let field = field.get_document("definition").unwrap().get_array("fields").unwrap()[0].as_document();
        assert_eq!(field.unwrap().get_str("quantization").unwrap(), quantization);
        things.drop_index("near").unwrap();
    }
    let field =
        |path: &str| doc! { "type": "vector", "path": path, "numDimensions": 4, "similarity": "cosine" };
    for (fields, wanted) in [(vec![field("v"), field("w")], 16), (vec![field("w")], 7)] {
        let spec = doc! { "name": "near", "type": "vectorSearch", "definition": { "fields": fields } };
        things.create_search_indexes(&[RawDocumentBuf::try_from(&spec).unwrap()]).unwrap();
        assert_eq!(version(), wanted);
        things.drop_search_index("near").unwrap();
    }
}

#[test]
fn a_search_finds_what_exact_comparison_finds_under_every_metric_however_the_index_was_built() {
    let mut rng = Rng::new(1);
    for similarity in ["cosine", "euclidean", "dotProduct"] {
        for quantization in ["scalar", "none", "binary", "bits2", "bits4"] {
            let db = database();
            let documents: Vec<_> = (0..800).map(|id| document(&mut rng, id)).collect();
            let (first, rest) = documents.split_at(300);
            let (bulk, single) = rest.split_at(300);
            let things = db.collection("shop.things").unwrap();
            // Back-filled, inserted together, inserted one by one.
            things.insert_many(first, true).unwrap();
            assert_eq!(things.create_index(spec(similarity, quantization)).unwrap(), "near");
            things.insert_many(bulk, true).unwrap();
            for document in single {
                things.insert_one(document).unwrap();
            }
            let found = recall(&things, &doc! {}, &mut rng);
            assert!(found >= 0.97, "{similarity} {quantization}: {found}");
            assert_eq!(db.check().unwrap().collections[0].indexes[1], ("near".to_owned(), 800));
        }
    }
}

#[test]
fn updates_and_deletes_keep_recall_and_a_graph_that_passes_the_check() {
    let mut rng = Rng::new(2);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..600).map(|id| document(&mut rng, id)).collect();
    things.create_index(spec("cosine", "scalar")).unwrap();
    things.insert_many(&documents, true).unwrap();
    for round in 0..3 {
        things.delete(DeleteRequest::many(rawdoc! { "_id": { "$mod": [3, round] } })).unwrap();
        let again: Vec<_> = (0..600).filter(|id| id % 3 == round).map(|id| document(&mut rng, id)).collect();
        things.insert_many(&again, true).unwrap();
        for id in (0..600).step_by(7) {
            let vector: Vec<f64> = vector(&mut rng).into_iter().map(f64::from).collect();
            let set = raw(&doc! { "$set": { "v": vector } });
            things.update(UpdateRequest::one(rawdoc! { "_id": id }, set)).unwrap();
        }
        let found = recall(&things, &doc! {}, &mut rng);
        assert!(found >= 0.97, "round {round}: {found}");
        assert_eq!(db.check().unwrap().collections[0].indexes[1].1, 600);
    }
    // An update of another field, and a vector that is taken away.
    things.update(UpdateRequest::many(rawdoc! {}, rawdoc! { "$inc": { "part": 1 } })).unwrap();
    things
        .update(UpdateRequest::many(rawdoc! { "_id": { "$lt": 100 } }, rawdoc! { "$unset": { "v": 1 } }))
        .unwrap();
    assert_eq!(db.check().unwrap().collections[0].indexes[1].1, 500);
    things.delete(DeleteRequest::many(rawdoc! {})).unwrap();
    assert_eq!(db.check().unwrap().collections[0].indexes[1].1, 0);
    assert!(things.vector_search(&search(vector(&mut rng), 5)).unwrap().is_empty());
    things.insert_one(document(&mut rng, 1)).unwrap();
    assert_eq!(ids(&things.vector_search(&search(vector(&mut rng), 5)).unwrap()), [1]);
    db.check().unwrap();
}

#[test]
fn a_filtered_search_finds_as_many_as_are_asked_for_if_so_many_match() {
    let mut rng = Rng::new(3);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..5000).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    for indexed in [false, true] {
        if indexed {
            things.create_index(rawdoc! { "part": 1 }).unwrap();
        }
        // 50, 10, 1 and 0.2 % of the documents.
        for below in [250, 50, 5, 1] {
            let found = recall(&things, &doc! { "part": { "$lt": below } }, &mut rng);
            assert!(found >= 0.95, "part < {below}, indexed: {indexed}: {found}");
        }
        let none = search(vector(&mut rng), 10).filter(rawdoc! { "part": -1 });
        assert!(things.vector_search(&none).unwrap().is_empty());
        let three = search(vector(&mut rng), 10).filter(rawdoc! { "_id": { "$in": [7, 8, 9] } });
        assert_eq!(ids(&things.vector_search(&three).unwrap()).into_iter().collect::<BTreeSet<_>>().len(), 3);
    }
}

#[test]
fn a_search_among_any_number_of_rows_of_an_index_finds_what_exact_comparison_finds() {
    let (mut rng, db) = (Rng::new(33), database());
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..1000).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    // As many as are compared in any case, and some more and fewer, without an image of the index and with one.
    for _ in 0..2 {
        for count in [0, 1, 9, 10, 99, 100, 101, 102, 250] {
            let asked =
                search(vector(&mut rng), 10).filter(rawdoc! { "_id": { "$gte": 300, "$lt": 300 + count } });
            let some = things.vector_search(&asked.clone().candidates(1000)).unwrap();
            assert_eq!(some.len(), 10.min(count as usize));
            assert_eq!(ids(&some), ids(&things.vector_search(&asked.exact()).unwrap()), "{count}");
        }
    }
}

#[test]
fn a_transaction_finds_its_own_changes_and_others_find_them_after_its_commit() {
    let mut rng = Rng::new(4);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..50).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    let target = vector(&mut rng);
    let as_floats: Vec<f64> = target.iter().map(|element| f64::from(*element)).collect();
    let before = ids(&things.vector_search(&search(target.clone(), 50)).unwrap());
    let mut txn = db.begin().unwrap();
    let mut mine = txn.collection("shop.things").unwrap();
    mine.insert_one(raw(&doc! { "_id": 100, "v": as_floats.clone() })).unwrap();
    let set = raw(&doc! { "$set": { "v": as_floats } });
    mine.update(UpdateRequest::one(rawdoc! { "_id": 7 }, set)).unwrap();
    mine.delete(DeleteRequest::one(rawdoc! { "_id": 8 })).unwrap();
    mine.update(UpdateRequest::one(rawdoc! { "_id": 9 }, rawdoc! { "$unset": { "v": 1 } })).unwrap();
    mine.update(UpdateRequest::one(rawdoc! { "_id": 10 }, rawdoc! { "$set": { "part": -5 } })).unwrap();
    let seen = mine.vector_search(&search(target.clone(), 60)).unwrap();
    assert_eq!(ids(&seen)[..2].iter().copied().collect::<BTreeSet<_>>(), [7, 100].into());
    let mut expected: BTreeSet<i32> = (0..50).chain([100]).collect();
    expected.retain(|id| ![8, 9].contains(id));
    assert_eq!(ids(&seen).into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(seen.len(), expected.len());
    let changed = mine.vector_search(&search(target.clone(), 5).filter(rawdoc! { "part": -5 })).unwrap();
    assert_eq!(ids(&changed), [10]);
    // Nobody else sees them until the commit.
    assert_eq!(ids(&things.vector_search(&search(target.clone(), 50)).unwrap()), before);
    txn.commit().unwrap();
    let after = things.vector_search(&search(target, 60)).unwrap();
    assert_eq!(ids(&after).into_iter().collect::<BTreeSet<_>>(), expected);
    db.check().unwrap();
}

#[test]
fn what_cannot_be_compared_is_refused_in_a_search_and_not_found_by_one() {
    let mut rng = Rng::new(5);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let error = |request: VectorSearchRequest| things.vector_search(&request).unwrap_err();
    assert_eq!(error(search(vector(&mut rng), 1)).code, ErrorCode::NamespaceNotFound);
    things.create_index(spec("cosine", "scalar")).unwrap();
    assert!(things.vector_search(&search(vector(&mut rng), 5)).unwrap().is_empty());
    for document in [
        rawdoc! { "_id": 1 },
        rawdoc! { "_id": 2, "v": null },
        rawdoc! { "_id": 3, "v": [1.0, 2.0] },
        rawdoc! { "_id": 4, "v": "no vector" },
        raw(&doc! { "_id": 5, "v": vec![0.0; DIMENSIONS] }),
        raw(&doc! { "_id": 6, "v": vec![f64::NAN; DIMENSIONS] }),
        raw(&doc! { "_id": 7, "v": vec![f64::NEG_INFINITY; DIMENSIONS] }),
        raw(&doc! { "_id": 8, "v": vec![1; DIMENSIONS] }),
    ] {
        things.insert_one(document).unwrap();
    }
    for request in [
        search(vector(&mut rng), 5),
        search(vector(&mut rng), usize::MAX),
        search(vector(&mut rng), 5).exact(),
    ] {
        assert_eq!(ids(&things.vector_search(&request).unwrap()), [8]);
    }
    for (request, part) in [
        (search(vec![1.0; 3], 5), "expected 24 dimensions, found 3"),
        (search(vec![f32::NAN; DIMENSIONS], 5), "NaN"),
        (search(vec![f32::INFINITY; DIMENSIONS], 5), "infinite"),
        (search(vec![0.0; DIMENSIONS], 5), "zeros"),
        (search(vector(&mut rng), 0), "limit"),
        (search(vector(&mut rng), 5).candidates(4), "numCandidates"),
        (search(vector(&mut rng), 5).filter(rawdoc! { "$no": 1 }), "$no"),
    ] {
        let error = error(request);
        assert_eq!(error.code, ErrorCode::BadValue, "{error}");
        assert!(error.message.contains(part), "{error} does not name {part}");
    }
    let missing = VectorSearchRequest::new("_id_", vector(&mut rng), 1);
    assert_eq!(error(missing).code, ErrorCode::IndexNotFound);
    db.check().unwrap();
}

#[test]
fn a_vector_index_is_listed_kept_and_dropped_like_any_other() {
    let disk = SimDisk::new();
    let mut rng = Rng::new(6);
    let db = open(&disk).unwrap();
    let things = db.collection("shop.things").unwrap();
    // Codes of more than a quarter of a page, which are in the value log.
    let large = IndexSpec::vector(
        rawdoc! { "path": "w", "numDimensions": 2 * PREFIX_LEN as i32, "similarity": "euclidean" },
    );
    assert_eq!(things.create_indexes(&[spec("cosine", "none"), large]).unwrap().after, 3);
    let documents: Vec<_> = (0..40)
        .map(|id| {
            let mut document = document(&mut rng, id);
            document.append(
                bson::raw::cstr!("w"),
                bson::RawArrayBuf::from_iter((0..2 * PREFIX_LEN as i32).map(|at| at * id % 17)),
            );
            document
        })
        .collect();
    things.insert_many(&documents, true).unwrap();
    assert_eq!(things.create_index(spec("cosine", "none")).unwrap(), "near");
    let other = things.create_index(spec("cosine", "scalar")).unwrap_err();
    assert_eq!(other.code, ErrorCode::IndexKeySpecsConflict);
    let other = things.create_index(IndexSpec::new(rawdoc! { "part": 1 }).name("near")).unwrap_err();
    assert_eq!(other.code, ErrorCode::IndexKeySpecsConflict);
    let names = |list: Option<Vec<SearchIndex>>| -> Vec<String> {
        list.unwrap().into_iter().map(|index| index.name).collect()
    };
    assert_eq!(names(things.search_indexes().unwrap()), ["near", "w_vectorSearch"]);
    let others = things.indexes().unwrap().unwrap();
    assert_eq!(others.iter().map(|index| index.get_str("name").unwrap()).collect::<Vec<_>>(), ["_id_"]);
    assert_eq!(
        db.modify_index("shop.things", "near", Some(true), None).unwrap_err().code,
        ErrorCode::InvalidOptions
    );
    let hinted = things.find(FindRequest::default().hint("near")).unwrap_err();
    assert_eq!(hinted.code, ErrorCode::NoQueryExecutionPlans);
    let target = vector(&mut rng);
    let before = things.vector_search(&search(target.clone(), 7)).unwrap();
    drop(things);
    db.close().unwrap();
    let db = open(&disk).unwrap();
    let things = db.collection("shop.things").unwrap();
    assert_eq!(things.vector_search(&search(target.clone(), 7)).unwrap(), before);
    let far = VectorSearchRequest::new("w_vectorSearch", vec![1.0; 2 * PREFIX_LEN], 3);
    assert_eq!(things.vector_search(&far).unwrap(), things.vector_search(&far.clone().exact()).unwrap());
    db.check().unwrap();
    things.drop_index("near").unwrap();
    assert_eq!(things.vector_search(&search(target, 7)).unwrap_err().code, ErrorCode::IndexNotFound);
    assert_eq!(names(things.search_indexes().unwrap()), ["w_vectorSearch"]);
    db.check().unwrap();
}

#[test]
fn the_check_finds_a_node_that_is_missing_another_vector_and_a_broken_graph() {
    let mut rng = Rng::new(7);
    for damage in 0..4 {
        let db = database();
        let things = db.collection("shop.things").unwrap();
        things.create_index(spec("euclidean", "scalar")).unwrap();
        let documents: Vec<_> = (0..30).map(|id| document(&mut rng, id)).collect();
        things.insert_many(&documents, true).unwrap();
        db.check().unwrap();
        let mut txn = db.store().begin_write().unwrap();
        let table = txn.table("index/1/1").unwrap().unwrap();
        // Row 5 of the collection is node 5: its links are in row 10, its vector in row 11.
        let wanted = match damage {
            0 => {
                txn.delete_row(&table, 11).unwrap();
                "has no node for row RowId(5)"
            }
            1 => {
                let vector = txn.row(&table, 13).unwrap().unwrap().to_vec();
                txn.put_row(&table, 11, &vector).unwrap();
                "has another vector for row RowId(5)"
            }
            2 => {
                txn.put_row(&table, 10, &[0, 0]).unwrap();
                "damaged graph"
            }
            _ => {
                txn.put_row(&table, 200, &[0, 0]).unwrap();
                "has a node for row 100, which has no vector"
            }
        };
        txn.commit().unwrap();
        let error = db.check().unwrap_err();
        assert!(error.message.contains("index near") && error.message.contains(wanted), "{error}");
    }
}

#[test]
fn a_search_within_a_distance_finds_all_documents_that_are_no_farther() {
    let mut rng = Rng::new(8);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..2000).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("euclidean", "scalar")).unwrap();
    let (mut both, mut wanted) = (0, 0);
    for _ in 0..10 {
        let request = search(vector(&mut rng), usize::MAX);
        let all = things.vector_search(&request.clone().exact()).unwrap();
        for count in [0, 1, 30, 300] {
            // Between this distance and the next one.
            let most = if count == 0 { -1.0 } else { all[count - 1].distance };
            let exact = things.vector_search(&request.clone().exact().within(most)).unwrap();
            assert_eq!(ids(&exact), ids(&all[..count]));
            let found = things.vector_search(&request.clone().within(most)).unwrap();
            assert!(found.is_sorted_by(|a, b| a.distance <= b.distance));
            assert!(found.iter().all(|one| one.distance <= most));
            let known: BTreeSet<i32> = ids(&exact).into_iter().collect();
            both += ids(&found).iter().filter(|id| known.contains(id)).count();
            wanted += count;
            let few = VectorSearchRequest { limit: 7, ..request.clone() };
            assert_eq!(things.vector_search(&few.within(most)).unwrap().len(), count.min(7));
            let part = request.clone().filter(rawdoc! { "part": { "$lt": 250 } });
            let part = things.vector_search(&part.within(most)).unwrap();
            assert!(part.iter().all(|one| one.document.get_i32("part").unwrap() < 250));
        }
    }
    assert!(both as f64 >= 0.98 * wanted as f64, "{both} of {wanted}");
    let error = things.vector_search(&search(vector(&mut rng), 5).within(f32::NAN)).unwrap_err();
    assert_eq!(error.code, ErrorCode::BadValue);
}

#[test]
fn many_searches_at_once_find_what_each_finds_alone() {
    let mut rng = Rng::new(9);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    assert_eq!(things.vector_search_many(&[]).unwrap_err().code, ErrorCode::NamespaceNotFound);
    let documents: Vec<_> = (0..500).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    let requests: Vec<_> = (1..40).map(|limit| search(vector(&mut rng), limit)).collect();
    let answers = || -> Vec<_> { requests.iter().map(|one| things.vector_search(one).unwrap()).collect() };
    // The first build the image, whose distances differ from those of the documents in their last digits.
    let (_, alone) = (answers(), answers());
    for _ in 0..3 {
        assert_eq!(things.vector_search_many(&requests).unwrap(), alone);
    }
    assert!(things.vector_search_many(&[]).unwrap().is_empty());
    let bad = [search(vector(&mut rng), 1), search(vec![1.0], 1)];
    assert_eq!(things.vector_search_many(&bad).unwrap_err().code, ErrorCode::BadValue);
}

#[test]
fn the_recall_of_an_index_is_that_of_its_graph() {
    let mut rng = Rng::new(10);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    assert_eq!(things.recall(10).unwrap()[0].searches, 0);
    let documents: Vec<_> = (0..700).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.insert_one(rawdoc! { "_id": -1, "v": "no vector" }).unwrap();
    let measured = things.recall(50).unwrap();
    assert_eq!((measured.len(), measured[0].index.as_str(), measured[0].searches), (1, "near", 50));
    assert!(measured[0].recall > 0.95, "{measured:?}");
    // Without links the graph leads to no other node.
    let mut txn = db.store().begin_write().unwrap();
    let table = txn.table("index/1/1").unwrap().unwrap();
    for row in 1..=700 {
        txn.put_row(&table, 2 * row, &[0, 0]).unwrap();
    }
    txn.commit().unwrap();
    // Where a search begins is in every answer; for the rest all nodes are compared.
    let measured = things.recall(50).unwrap()[0].recall;
    assert!((0.9..0.95).contains(&measured), "{measured}");
}

#[test]
fn a_search_tells_what_led_to_its_documents_and_why_it_ended() {
    let mut rng = Rng::new(12);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..4000).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    things.create_index(rawdoc! { "part": 1 }).unwrap();
    for _ in 0..200 {
        things.vector_search(&search(vector(&mut rng), 1)).unwrap();
    }
    let mut request = || search(vector(&mut rng), 10).candidates(10);
    let below = |part: i32| rawdoc! { "part": { "$lt": part } };
    let work = |request: &VectorSearchRequest| things.vector_search_answer(request).unwrap().work;
    let shown = |work: SearchWork| (work.path, work.end, work.documents_examined);

    let plain = work(&request());
    assert_eq!(shown(plain), (SearchPath::Graph, SearchEnd::Limit, 0));
    assert!((10..2000).contains(&plain.vectors_compared), "{plain:?}");
    // Few rows match: all of them are compared, without their documents.
    for part in [1, 5, 50] {
        let few = work(&request().filter(below(part)));
        assert_eq!(shown(few), (SearchPath::MatchingRows, SearchEnd::All, 0));
        assert_eq!(few.vectors_compared, 8 * part as u64);
    }
    // More of them: the graph leads to the nearest.
    let more = work(&request().filter(below(180)));
    assert_eq!(shown(more), (SearchPath::GraphOfMatchingRows, SearchEnd::Candidates, 0));
    assert!(more.vectors_compared < 8 * 180, "{more:?}");
    // Most of them: candidates are matched by their documents.
    let most = work(&request().filter(below(400)));
    assert_eq!((most.path, most.end), (SearchPath::Graph, SearchEnd::Limit));
    assert!((10..100).contains(&most.documents_examined), "{most:?}");
    // So few that the graph is of no use, and no index knows which.
    let none = work(&request().filter(rawdoc! { "other": 1 }));
    assert_eq!((none.path, none.end), (SearchPath::AllDocuments, SearchEnd::Budget));
    assert!(none.documents_examined > 4000, "{none:?}");
    assert_eq!(work(&request().within(-1.0)).end, SearchEnd::Farther);
    let exact = work(&request().exact());
    assert_eq!(
        (shown(exact), exact.vectors_compared),
        ((SearchPath::AllDocuments, SearchEnd::All, 4000), 4000)
    );
    let all = work(&search(vec![1.0; DIMENSIONS], 5000));
    assert_eq!((all.path, all.end), (SearchPath::Graph, SearchEnd::NoMore));
    // Without an image, the documents tell.
    db.set_vector_memory(0);
    assert_eq!(shown(work(&request().filter(below(5)))), (SearchPath::MatchingDocuments, SearchEnd::All, 40));
}

#[test]
fn what_is_shown_of_a_search_is_what_it_finds_and_no_more_than_is_asked_for() {
    let mut rng = Rng::new(13);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..300).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    let request = search(vector(&mut rng), 20).filter(rawdoc! { "part": { "$lt": 100 } });
    let found = things.vector_search(&request).unwrap();
    let show = |most: usize| {
        let mut shown = Vec::new();
        let visit = &mut |one: NeighborRef<'_>| {
            let (document, distance, score) = (one.document.to_owned(), one.distance, one.score);
            shown.push(Neighbor { document, distance, score });
            Ok(if shown.len() == most { Flow::Break(()) } else { Flow::Continue(()) })
        };
        things.for_each_neighbor(&request, visit).unwrap();
        let mut txn = db.begin().unwrap();
        let mut in_transaction = 0;
        let visit = &mut |_: NeighborRef<'_>| {
            in_transaction += 1;
            Ok(Flow::Continue(()))
        };
        txn.collection("shop.things").unwrap().for_each_neighbor(&request, visit).unwrap();
        assert_eq!(in_transaction, 20);
        shown
    };
    assert_eq!(show(usize::MAX), found);
    assert_eq!(show(7), found[..7]);
}

#[test]
fn a_search_with_a_projection_returns_of_each_document_what_a_find_with_it_does() {
    let mut rng = Rng::new(17);
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let documents: Vec<_> = (0..200).map(|id| document(&mut rng, id)).collect();
    things.insert_many(&documents, true).unwrap();
    for quantization in ["scalar", "bits4"] {
        things.create_index(spec("cosine", quantization)).unwrap();
        check_projections(
            &db,
            &things,
            &search(vector(&mut rng), 15).filter(rawdoc! { "part": { "$lt": 100 } }),
        );
        things.drop_index("near").unwrap();
    }
}

fn check_projections(db: &Database, things: &Collection, request: &VectorSearchRequest) {
    let whole = things.vector_search(request).unwrap();
    for projection in [
        doc! { "v": 0 },
        doc! { "part": 1 },
        doc! { "_id": 0, "part": 1 },
        doc! { "_id": 0 },
        doc! { "_id": 1 },
        doc! { "_id": 0, "v": 0 },
        doc! { "v": { "$slice": 2 } },
        doc! { "part": 0, "v": { "$slice": -1 } },
        doc! { "v.a": 0 },
        doc! { "v": { "$elemMatch": { "$gt": 0 } } },
        doc! { "part": 1, "half": { "$divide": ["$part", 2] } },
        doc! { "first": { "$arrayElemAt": ["$v", 0] } },
        doc! {},
    ] {
        let request = request.clone().projection(raw(&projection));
        let expected: Vec<Neighbor> = (whole.iter().zip(ids(&whole)))
            .map(|(neighbor, id)| {
                let find = FindRequest::filter(rawdoc! { "_id": id }).projection(raw(&projection));
                let document = things.find(find).unwrap().next().unwrap().unwrap();
                Neighbor { document, ..neighbor.clone() }
            })
            .collect();
        assert_eq!(things.vector_search(&request).unwrap(), expected, "{projection}");
        assert_eq!(
            things.vector_search_many(std::slice::from_ref(&request)).unwrap(),
            std::slice::from_ref(&expected)
        );
        let mut shown = Vec::new();
        let visit = &mut |one: NeighborRef<'_>| {
            shown.push(one.document.to_owned());
            Ok(Flow::Continue(()))
        };
        things.for_each_neighbor(&request, visit).unwrap();
        assert!(shown.iter().eq(expected.iter().map(|neighbor| &neighbor.document)), "{projection}");
        let mut txn = db.begin().unwrap();
        assert_eq!(txn.collection("shop.things").unwrap().vector_search(&request).unwrap(), expected);
    }
    let mixed = request.clone().projection(rawdoc! { "v": 0, "part": 1 });
    assert_eq!(things.vector_search(&mixed).unwrap_err().code, ErrorCode::Location31253);
}

#[test]
fn a_search_counts_as_a_use_of_its_index_unless_it_is_exact() {
    let db = database();
    let things = db.collection("shop.things").unwrap();
    let mut rng = Rng::new(17);
    things.insert_one(document(&mut rng, 1)).unwrap();
    things.create_index(spec("cosine", "scalar")).unwrap();
    let request = VectorSearchRequest::new("near", vector(&mut rng), 1);
    for request in [request.clone(), request.clone(), request.exact()] {
        assert_eq!(things.vector_search(&request).unwrap().len(), 1);
    }
    let uses = db.index_uses(10).unwrap();
    let of_index: Vec<u64> =
        uses.iter().filter(|(_, name, _)| name == "near").map(|(.., operations)| *operations).collect();
    assert_eq!(of_index, [2]);
}
