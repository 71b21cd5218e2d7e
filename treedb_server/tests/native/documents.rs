//! Documents through the client.

use bson::{RawBson, RawDocumentBuf, oid::ObjectId, rawdoc};
use treedb_client::{Ack, Client, Find, Insert, Update};

use crate::server::Server;

const FILMS: &str = "shop.films";

fn years(client: &mut Client, find: &Find<'_>) -> Vec<i32> {
    client.find(find).unwrap().map(|film| film.unwrap().get_i32("year").unwrap()).collect()
}

#[test]
fn documents_are_inserted_found_changed_counted_and_deleted() {
    let server = Server::start();
    let mut client = server.client();
    client.ping().unwrap();
    assert_eq!(client.get(FILMS, 1).unwrap(), None);
    let alien = rawdoc! { "_id": 1, "title": "Alien", "year": 1979 };
    client.insert_one(FILMS, &alien).unwrap();
    assert_eq!(client.get(FILMS, 1).unwrap(), Some(alien));
    assert_eq!(client.get(FILMS, 1.0).unwrap().unwrap().get_str("title").unwrap(), "Alien");
    assert_eq!(client.get(FILMS, "1").unwrap(), None);

    let more: Vec<_> = (1980..1990).map(|year| rawdoc! { "_id": year, "year": year }).collect();
    assert_eq!(client.insert_many(FILMS, &more, true).unwrap().count, 10);
    let filter = rawdoc! { "year": { "$gte": 1985 } };
    assert_eq!(client.count(FILMS, &filter).unwrap(), 5);
    let sort = rawdoc! { "year": -1 };
    let find = Find::new(FILMS, &filter).sort(&sort);
    assert_eq!(years(&mut client, &find), [1989, 1988, 1987, 1986, 1985]);
    assert_eq!(years(&mut client, &find.skip(1).limit(2)), [1988, 1987]);
    let projection = rawdoc! { "_id": 0, "year": 1 };
    let one: Vec<_> =
        client.find(&find.limit(1).projection(&projection)).unwrap().map(Result::unwrap).collect();
    assert_eq!(one, [rawdoc! { "year": 1989 }]);

    let seen = rawdoc! { "$set": { "seen": true } };
    let outcome = client.update_one(FILMS, &filter, &seen).unwrap();
    assert_eq!((outcome.matched, outcome.modified), (1, 1));
    let outcome = client.update_many(FILMS, &filter, &seen).unwrap();
    assert_eq!((outcome.matched, outcome.modified, outcome.upserted), (5, 4, None));
    let new = rawdoc! { "_id": "new" };
    let upsert = Update { upsert: true, ..Update::one(FILMS, &new, &seen) };
    assert_eq!(client.call(&upsert).unwrap().upserted, Some(new));
    assert_eq!(client.delete(FILMS, &filter, 1).unwrap(), 1);
    assert_eq!(client.delete(FILMS, &filter, 0).unwrap(), 4);
    assert_eq!(client.count(FILMS, &rawdoc! {}).unwrap(), 7);
}

#[test]
fn refused_documents_are_told_with_index_and_code() {
    let server = Server::start();
    let mut client = server.client();
    client.insert_one(FILMS, &rawdoc! { "_id": 2 }).unwrap();
    let error = client.insert_one(FILMS, &rawdoc! { "_id": 2 }).unwrap_err();
    assert_eq!(error.code(), Some(11000));
    assert!(error.to_string().contains("E11000 duplicate key error collection: shop.films"), "{error}");

    let documents: Vec<_> = (1..=3).map(|id| rawdoc! { "_id": id }).collect();
    let outcome = client.insert_many(FILMS, &documents, true).unwrap();
    assert_eq!((outcome.count, outcome.errors.len(), outcome.errors[0].index), (1, 1, 1));
    let outcome = client.insert_many(FILMS, &documents, false).unwrap();
    assert_eq!((outcome.count, outcome.errors.len()), (1, 2));
    assert_eq!(outcome.errors[1].error.name, "DuplicateKey");
    assert_eq!(client.count(FILMS, &rawdoc! {}).unwrap(), 3);
}

#[test]
fn an_id_may_be_of_any_type_even_a_document_that_looks_like_an_operator() {
    let server = Server::start();
    let mut client = server.client();
    let ids: Vec<RawBson> = vec![
        RawBson::Null,
        RawBson::Boolean(true),
        RawBson::String("smør".into()),
        RawBson::ObjectId(ObjectId::new()),
        RawBson::Document(rawdoc! { "a": 1, "b": [1, 2] }),
        RawBson::Int64(1 << 60),
        RawBson::Double(0.5),
    ];
    for id in &ids {
        client.insert_one("t.ids", &rawdoc! { "_id": id.clone() }).unwrap();
    }
    for id in ids {
        assert_eq!(client.get("t.ids", id.clone()).unwrap(), Some(rawdoc! { "_id": id }));
    }
    assert_eq!(client.get("t.ids", RawBson::Document(rawdoc! { "$gt": RawBson::MinKey })).unwrap(), None);
}

#[test]
fn errors_name_the_field_and_leave_the_connection_open() {
    let server = Server::start();
    let mut client = server.client();
    client.insert_one(FILMS, &rawdoc! { "_id": 1 }).unwrap();
    let filter = rawdoc! { "year": { "$frobnicate": 1 } };
    let error = client.find(&Find::new(FILMS, &filter)).unwrap_err();
    assert_eq!(error.code(), Some(2));
    assert!(error.to_string().contains("$frobnicate"), "{error}");
    let error = client.update_one(FILMS, &rawdoc! {}, &rawdoc! { "$frobnicate": { "a": 1 } }).unwrap_err();
    assert!(error.to_string().contains("$frobnicate"), "{error}");
    for namespace in ["", "nodot", ".films", "shop.", "sh op.films", "shop.$films"] {
        assert_eq!(client.count(namespace, &rawdoc! {}).unwrap_err().code(), Some(73), "{namespace:?}");
    }
    client.ping().unwrap();
}

#[test]
fn a_find_comes_in_batches_of_one_snapshot() {
    let server = Server::start();
    let mut client = server.client();
    let documents: Vec<RawDocumentBuf> = (0..10_000).map(|id| rawdoc! { "_id": id, "year": id }).collect();
    client.insert_many(FILMS, &documents, true).unwrap();
    let mut other = server.client();
    let all = rawdoc! {};
    let find = Find::new(FILMS, &all).batch(10);
    let mut found = client.find(&find).unwrap();
    assert_eq!(found.next().unwrap().unwrap(), documents[0]);
    assert_eq!(other.delete(FILMS, &all, 0).unwrap(), 10_000);
    assert_eq!(found.count(), 9_999);
    assert_eq!(client.count(FILMS, &all).unwrap(), 0);
}

#[test]
fn a_find_that_is_given_up_closes_its_cursor() {
    let server = Server::start();
    let mut client = server.client();
    let documents: Vec<RawDocumentBuf> = (0..20).map(|id| rawdoc! { "_id": id }).collect();
    client.insert_many(FILMS, &documents, true).unwrap();
    let all = rawdoc! {};
    // More than a connection may keep.
    for _ in 0..200 {
        assert!(client.find(&Find::new(FILMS, &all).batch(2)).unwrap().next().is_some());
    }
}

#[test]
fn requests_of_a_pipeline_are_all_answered_whatever_the_order() {
    let server = Server::start();
    let mut client = server.client();
    client.set_ack(Ack::Relaxed);
    let documents: Vec<RawDocumentBuf> = (0..500).map(|id| rawdoc! { "_id": id, "twice": 2 * id }).collect();
    let mut pipeline = client.pipeline();
    let inserts: Vec<_> = documents
        .iter()
        .map(|document| {
            let documents = vec![&**document];
            pipeline.send(&Insert { namespace: "t.c", documents, ordered: true, ack: Ack::Relaxed }).unwrap()
        })
        .collect();
    for insert in inserts.into_iter().rev() {
        assert_eq!(pipeline.wait(insert).unwrap().count, 1);
    }
    let gets: Vec<_> = (0..500).map(|id| pipeline.get("t.c", id).unwrap()).collect();
    let missing = pipeline.get("t.c", 500).unwrap();
    assert_eq!(pipeline.wait(missing).unwrap(), None);
    for (get, document) in gets.into_iter().zip(&documents).rev() {
        assert_eq!(pipeline.wait(get).unwrap().as_ref(), Some(document));
    }
}

#[test]
fn large_documents_pass_both_ways_in_a_pipeline() {
    let server = Server::start();
    let mut client = server.client();
    let text = "x".repeat(5_000_000);
    let documents: Vec<RawDocumentBuf> =
        (0..3).map(|id| rawdoc! { "_id": id, "text": text.as_str() }).collect();
    assert_eq!(client.insert_many("t.big", &documents, true).unwrap().count, 3);
    let mut pipeline = client.pipeline();
    let gets: Vec<_> = (0..30).map(|n| pipeline.get("t.big", n % 3).unwrap()).collect();
    for (n, get) in gets.into_iter().enumerate() {
        assert_eq!(pipeline.wait(get).unwrap().as_ref(), documents.get(n % 3));
    }
    drop(pipeline);
    let all = rawdoc! {};
    assert_eq!(client.find(&Find::new("t.big", &all)).unwrap().count(), 3);
    let too_large = rawdoc! { "_id": 9, "text": "x".repeat(16 * 1024 * 1024) };
    assert_eq!(client.insert_one("t.big", &too_large).unwrap_err().code(), Some(10334));
}
