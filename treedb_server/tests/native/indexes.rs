//! Vector searches and indexes through the client.

use bson::{RawDocumentBuf, rawdoc};
use treedb_client::{Client, Neighbor, VectorSearch};

use crate::server::Server;

const POINTS: &str = "shop.points";

fn definition(dimensions: i32) -> RawDocumentBuf {
    rawdoc! { "fields": [
        { "type": "vector", "path": "v", "numDimensions": dimensions, "similarity": "euclidean" },
    ] }
}

fn spec(dimensions: i32) -> RawDocumentBuf {
    rawdoc! { "name": "near", "type": "vectorSearch", "definition": definition(dimensions) }
}

/// Points on a line, at 0 to 99.
fn filled(client: &mut Client) {
    let points: Vec<_> = (0..100).map(|at| rawdoc! { "_id": at, "v": [at, 0], "odd": at % 2 == 1 }).collect();
    client.insert_many(POINTS, &points, true).unwrap();
}

fn ids(found: &[Neighbor]) -> Vec<i32> {
    found.iter().map(|found| found.document.get_i32("_id").unwrap()).collect()
}

#[test]
fn the_nearest_documents_are_found_with_distance_and_score() {
    let server = Server::start();
    let mut client = server.client();
    filled(&mut client);
    assert_eq!(client.create_index(POINTS, &spec(2)).unwrap(), "near");
    let found = client.vector_search(POINTS, "near", &[20.0, 3.0], 3).unwrap();
    assert_eq!(ids(&found), [20, 19, 21]);
    assert_eq!((found[0].distance, found[0].score), (3.0, 0.25));
    let (vector, filter) = (vec![20.2, 0.0], rawdoc! { "odd": true });
    let mut search = VectorSearch {
        namespace: POINTS,
        index: "near",
        limit: 2,
        candidates: 50,
        exact: false,
        vector,
        filter: &filter,
        projection: None,
        within: None,
        path: None,
    };
    assert_eq!(ids(&client.call(&search).unwrap()), [21, 19]);
    search.exact = true;
    assert_eq!(ids(&client.call(&search).unwrap()), [21, 19]);
    let without_vectors = rawdoc! { "v": 0 };
    search.projection = Some(&without_vectors);
    let found = client.call(&search).unwrap();
    assert_eq!(found[0].document, rawdoc! { "_id": 21, "odd": true });
    let mixed = rawdoc! { "v": 0, "odd": 1 };
    let refused = client.call(&VectorSearch { projection: Some(&mixed), ..search.clone() });
    assert_eq!(refused.unwrap_err().code(), Some(31253));
    search.candidates = 1;
    assert_eq!(client.call(&search).unwrap_err().code(), Some(2));
}

#[test]
fn a_search_within_a_distance_finds_only_what_is_no_farther() {
    let server = Server::start();
    let mut client = server.client();
    filled(&mut client);
    client.create_index(POINTS, &spec(2)).unwrap();
    let filter = rawdoc! {};
    let mut search = VectorSearch {
        namespace: POINTS,
        index: "near",
        limit: 50,
        candidates: 0,
        exact: false,
        vector: vec![20.0, 0.0],
        filter: &filter,
        projection: None,
        within: Some(2.0),
        path: None,
    };
    for exact in [false, true] {
        search.exact = exact;
        let mut found = ids(&client.call(&search).unwrap());
        found.sort_unstable();
        assert_eq!(found, [18, 19, 20, 21, 22]);
    }
    search.limit = 3;
    assert_eq!(client.call(&search).unwrap().len(), 3);
    let odd = rawdoc! { "odd": true };
    assert_eq!(client.call(&VectorSearch { filter: &odd, ..search.clone() }).unwrap().len(), 2);
    search.within = Some(f32::NAN);
    assert_eq!(client.call(&search).unwrap_err().code(), Some(2));
}

#[test]
fn indexes_of_every_kind_are_created_listed_updated_and_dropped() {
    let server = Server::start();
    let mut client = server.client();
    filled(&mut client);
    assert_eq!(client.create_index(POINTS, &rawdoc! { "key": { "odd": 1 } }).unwrap(), "odd_1");
    client.create_index(POINTS, &spec(2)).unwrap();
    let names = |client: &mut Client| -> Vec<String> {
        let listed = client.list_indexes(POINTS).unwrap();
        listed.iter().map(|index| index.get_str("name").unwrap().to_owned()).collect()
    };
    assert_eq!(names(&mut client), ["_id_", "odd_1", "near"]);
    let listed = client.list_indexes(POINTS).unwrap().pop().unwrap();
    assert_eq!(listed.get_str("status").unwrap(), "READY");
    client.update_search_index(POINTS, "near", &definition(3)).unwrap();
    assert!(client.vector_search(POINTS, "near", &[1.0, 2.0, 3.0], 3).unwrap().is_empty());
    client.drop_index(POINTS, "near").unwrap();
    client.drop_index(POINTS, "odd_1").unwrap();
    assert_eq!(names(&mut client), ["_id_"]);
    assert!(client.list_indexes("shop.nothing").unwrap().is_empty());
}

#[test]
fn searches_and_indexes_that_cannot_be_are_refused_and_the_connection_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    filled(&mut client);
    client.create_index(POINTS, &spec(2)).unwrap();
    let mut code = |index: &str, vector: &[f32], limit: u32| {
        client.vector_search(POINTS, index, vector, limit).unwrap_err().code()
    };
    assert_eq!(code("far", &[1.0, 2.0], 1), Some(27));
    assert_eq!(code("near", &[1.0], 1), Some(2));
    assert_eq!(code("near", &[], 1), Some(2));
    assert_eq!(code("near", &[f32::NAN, 1.0], 1), Some(2));
    assert_eq!(code("near", &[1.0, 2.0], 0), Some(2));
    assert_eq!(client.create_index(POINTS, &spec(3)).unwrap_err().code(), Some(86));
    assert_eq!(client.create_index(POINTS, &spec(0)).unwrap_err().code(), Some(67));
    assert_eq!(client.drop_index(POINTS, "far").unwrap_err().code(), Some(27));
    assert_eq!(client.drop_index(POINTS, "_id_").unwrap_err().code(), Some(72));
    assert_eq!(client.update_search_index(POINTS, "far", &definition(2)).unwrap_err().code(), Some(27));
    assert_eq!(
        client.update_search_index("shop.nothing", "near", &definition(2)).unwrap_err().code(),
        Some(26)
    );
    client.ping().unwrap();
}
