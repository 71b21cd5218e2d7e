//! The asynchronous client against the real server.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use treedb_client::{Ack, AsyncClient, Bound, Error, Find, GetWith, Op, Shape, values};

use crate::server::Server;

const NUMBERS: &str = "a.numbers";

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(crate::server::PATIENCE, future).await.expect("no answer") })
}

async fn numbers(client: &AsyncClient, count: i32) {
    let documents: Vec<_> = (0..count).map(|n| rawdoc! { "_id": n, "text": "some text" }).collect();
    assert_eq!(client.insert_many(NUMBERS, &documents, true).await.unwrap().count, count as u32);
}

#[test]
fn many_tasks_make_requests_on_one_connection_at_once() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap();
        numbers(&client, 1_000).await;
        let get = client.prepare(NUMBERS, Shape::Get).await.unwrap();
        let tasks: Vec<_> = (0..200)
            .map(|task| {
                let client = client.clone();
                tokio::spawn(async move {
                    for n in 0..20 {
                        let id = (task * 20 + n) % 1_000;
                        let found = client.get(NUMBERS, id).await.unwrap().unwrap();
                        assert_eq!(found.get_i32("_id").unwrap(), id);
                        let id = values([id]);
                        assert_eq!(client.execute(get, GetWith { values: &id }).await.unwrap(), Some(found));
                    }
                    client.insert_one(NUMBERS, &rawdoc! { "_id": 10_000 + task }).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(client.count(NUMBERS, &rawdoc! {}).await.unwrap(), 1_200);
        let (filter, change) = (rawdoc! { "_id": 5 }, rawdoc! { "$set": { "seen": true } });
        assert_eq!(client.update_one(NUMBERS, &filter, &change).await.unwrap().modified, 1);
        assert_eq!(client.delete(NUMBERS, &filter, 0).await.unwrap(), 1);
        let error = client.insert_one(NUMBERS, &rawdoc! { "_id": 1 }).await.unwrap_err();
        assert_eq!(error.code(), Some(11000));
        client.ping().await.unwrap();
    });
}

#[test]
fn finds_are_streamed_at_once_and_may_be_given_up() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap();
        numbers(&client, 3_000).await;
        let (all, sort) = (rawdoc! {}, rawdoc! { "_id": 1 });
        let find = Find::new(NUMBERS, &all).sort(&sort).batch(10);
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(client.find(&find).await.unwrap());
        }
        for n in 0..3_000 {
            for stream in &mut streams {
                let next: RawDocumentBuf = stream.next().await.unwrap().unwrap();
                assert_eq!(next.get_i32("_id").unwrap(), n);
            }
        }
        for stream in &mut streams {
            assert!(stream.next().await.is_none());
        }
        // More than a connection may have open.
        for _ in 0..200 {
            let mut stream = client.find(&find).await.unwrap();
            stream.next().await.unwrap().unwrap();
        }
        assert_eq!(client.count(NUMBERS, &all).await.unwrap(), 3_000);
    });
}

#[test]
fn updates_vector_searches_and_indexes_are_those_of_the_blocking_client() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap().with_ack(Ack::Relaxed);
        let points: Vec<_> =
            (0..100).map(|at| rawdoc! { "_id": at, "v": [at, 0], "odd": at % 2 == 1 }).collect();
        assert_eq!(client.insert_many("shop.points", &points, true).await.unwrap().count, 100);
        let (odd, seen) = (rawdoc! { "odd": true }, rawdoc! { "$set": { "seen": true } });
        assert_eq!(client.update_many("shop.points", &odd, &seen).await.unwrap().modified, 50);
        assert_eq!(client.update_many("shop.points", &odd, &seen).await.unwrap().matched, 50);
        let definition = |dimensions: i32| {
            rawdoc! { "fields": [
                { "type": "vector", "path": "v", "numDimensions": dimensions, "similarity": "euclidean" },
            ] }
        };
        let spec = rawdoc! { "name": "near", "type": "vectorSearch", "definition": definition(2) };
        assert_eq!(client.create_index("shop.points", &spec).await.unwrap(), "near");
        let key = rawdoc! { "key": { "odd": 1 } };
        assert_eq!(client.create_index("shop.points", &key).await.unwrap(), "odd_1");
        let found = client.vector_search("shop.points", "near", &[20.0, 3.0], 3).await.unwrap();
        let ids: Vec<_> = found.iter().map(|found| found.document.get_i32("_id").unwrap()).collect();
        assert_eq!((ids, found[0].distance, found[0].score), (vec![20, 19, 21], 3.0, 0.25));
        client.update_search_index("shop.points", "near", &definition(3)).await.unwrap();
        assert!(client.vector_search("shop.points", "near", &[1.0, 2.0, 3.0], 3).await.unwrap().is_empty());
        client.drop_index("shop.points", "odd_1").await.unwrap();
        let listed = client.list_indexes("shop.points").await.unwrap();
        let names: Vec<_> = listed.iter().map(|index| index.get_str("name").unwrap()).collect();
        assert_eq!(names, ["_id_", "near"]);
        assert_eq!(client.drop_index("shop.points", "odd_1").await.unwrap_err().code(), Some(27));
    });
}

#[test]
fn statements_of_every_kind_are_executed_and_forgotten() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap();
        let shape = rawdoc! { "_id": { "$param": 0 }, "n": { "$param": 1 } };
        let insert = client.prepare(NUMBERS, Shape::Insert(&shape)).await.unwrap();
        let rows: Vec<_> = (0..5_000).map(|n| values([n, n % 7])).collect();
        assert_eq!(client.execute_insert(insert, &rows, true).await.unwrap().count, 5_000);
        let get = client.prepare(NUMBERS, Shape::Get).await.unwrap();
        assert_eq!(client.execute_get(get, 8).await.unwrap().unwrap(), rawdoc! { "_id": 8, "n": 1 });
        let filter = rawdoc! { "_id": { "$gte": { "$param": 0 } } };
        let find = Shape::Find { filter: &filter, sort: None, projection: None };
        let find = client.prepare(NUMBERS, find).await.unwrap();
        // More than one batch.
        let mut found = client.execute_find(find, &values([100]), 0).await.unwrap();
        let mut count = 0;
        while let Some(document) = found.next().await {
            assert!(document.unwrap().get_i32("_id").unwrap() >= 100);
            count += 1;
        }
        assert_eq!(count, 4_900);
        let (filter, update) =
            (rawdoc! { "_id": { "$param": 0 } }, rawdoc! { "$set": { "n": { "$param": 1 } } });
        let update = Shape::Update { filter: &filter, update: &update };
        let update = client.prepare(NUMBERS, update).await.unwrap();
        assert_eq!(client.execute_update(update, &values([8, 99])).await.unwrap().modified, 1);
        assert_eq!(client.execute_get(get, 8).await.unwrap().unwrap().get_i32("n").unwrap(), 99);
        assert!(client.forget(get).await.unwrap());
        assert!(!client.forget(get).await.unwrap());
        assert_eq!(client.execute_get(get, 8).await.unwrap_err().code(), Some(2));
    });
}

#[test]
fn keys_and_values_and_their_ranges_agree_with_a_map() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap().with_ack(Ack::None);
        let map: BTreeMap<Vec<u8>, Vec<u8>> =
            (0..9_000_u32).map(|n| (n.to_be_bytes().to_vec(), n.to_string().into_bytes())).collect();
        let ops = map.iter().map(|(key, value)| Op::Put(key, value)).collect();
        client.kv_batch("t", ops).await.unwrap();
        client.kv_put("t", b"last", b"one").await.unwrap();
        assert_eq!(client.kv_get("t", b"last").await.unwrap().as_deref(), Some(&b"one"[..]));
        assert!(client.kv_delete("t", b"last").await.unwrap());
        assert!(!client.kv_delete("t", b"last").await.unwrap());
        let (low, high) = (10_u32.to_be_bytes(), 8_990_u32.to_be_bytes());
        for descending in [false, true] {
            let mut range = client.kv_range("t", Bound::Included(&low), Bound::Excluded(&high), descending);
            let mut read = Vec::new();
            while let Some(pair) = range.next().await {
                read.push(pair.unwrap());
            }
            assert!(range.next().await.is_none());
            if descending {
                read.reverse();
            }
            let expected =
                map.range(low.to_vec()..high.to_vec()).map(|(key, value)| (key.clone(), value.clone()));
            assert!(read == expected.collect::<Vec<_>>(), "descending: {descending}");
        }
        assert!(client.kv_range("none", Bound::Unbounded, Bound::Unbounded, false).next().await.is_none());
    });
}

#[test]
fn a_request_that_is_given_up_leaves_the_connection_as_it_was() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap();
        numbers(&client, 100).await;
        for _ in 0..500 {
            let all = rawdoc! {};
            let count = client.count(NUMBERS, &all);
            let _ = tokio::time::timeout(Duration::from_micros(20), count).await;
        }
        assert_eq!(client.count(NUMBERS, &rawdoc! {}).await.unwrap(), 100);
    });
}

/// Polls a future once, which begins it.
async fn first_look<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

#[test]
fn a_find_or_statement_that_is_given_up_leaves_no_cursor_and_no_statement() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap();
        numbers(&client, 100).await;
        let all = rawdoc! {};
        let find = Find::new(NUMBERS, &all).batch(1);
        let mut kept = 0;
        for round in 0..400 {
            let mut given_up = Box::pin(client.find(&find));
            let mut prepared = Box::pin(client.prepare(NUMBERS, Shape::Get));
            // Now and then the answer is faster than the first look at it.
            let _ = first_look(&mut given_up).await;
            if let Poll::Ready(done) = first_look(&mut prepared).await {
                done.unwrap();
                kept += 1;
            }
            if round % 2 == 0 {
                // The answers have arrived, but have not been taken.
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
        // What was given up last may still be on its way.
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.ping().await.unwrap();
        // As many as a connection may have.
        for _ in 0..64 {
            assert_ne!(client.call(&find).await.unwrap().cursor, 0);
        }
        assert!(kept < 100, "{kept}");
        for _ in kept..256 {
            client.prepare(NUMBERS, Shape::Get).await.unwrap();
        }
    });
}

#[test]
fn requests_of_a_connection_that_ends_learn_why() {
    let server = Server::start();
    block_on(async {
        let client = AsyncClient::connect(server.address).await.unwrap();
        client.ping().await.unwrap();
        assert!(server.stop().success());
        let error = loop {
            match client.ping().await {
                Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, Error::Ended(reason) if reason.contains("stopping")), "{error}");
    });
}

#[test]
fn a_password_and_a_certificate_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let tls = crate::tls::certificates(dir.path());
    let password = dir.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key, password) = (path("server.pem"), path("server.key"), path("password"));
    let flags = ["--tls-certificate", &certificate, "--tls-key", &key, "--auth", "--root-user", "root"];
    let flags = [&flags[..], &["--root-password-file", &password]].concat();
    let server = Server::with_flags(&dir.path().join("data"), &flags);
    block_on(async {
        let client = AsyncClient::connect_tls(server.address, None, &tls).await.unwrap();
        assert_eq!(client.get(NUMBERS, 1).await.unwrap_err().code(), Some(13));
        assert_eq!(client.authenticate("admin", "root", "wrong").await.unwrap_err().code(), Some(18));
        client.authenticate("admin", "root", "secret").await.unwrap();
        numbers(&client, 10).await;
        assert!(AsyncClient::connect(server.address).await.is_err(), "without TLS");
    });
}
