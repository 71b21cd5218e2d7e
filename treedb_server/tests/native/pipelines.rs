//! Requests that do not wait for each other, and answers that nobody takes.

use bson::rawdoc;
use treedb_client::{Execute, Find, FindWith, Ping, Prepare, Shape, values};

use crate::server::Server;

const NUMBERS: &str = "a.numbers";

#[test]
fn answers_that_nobody_takes_leave_no_cursor_and_no_statement() {
    let server = Server::start();
    let mut client = server.client();
    let documents: Vec<_> = (0..10).map(|n| rawdoc! { "_id": n }).collect();
    client.insert_many(NUMBERS, &documents, true).unwrap();
    let (all, none) = (rawdoc! {}, values::<i32>([]));
    let find = Find::new(NUMBERS, &all).batch(1);
    let shape = Shape::Find { filter: &all, sort: None, projection: None };
    let prepared = client.prepare(NUMBERS, shape).unwrap();
    let with = FindWith { batch: 1, skip: 0, limit: 0, values: &none };
    for round in 0..4 {
        let mut pipeline = client.pipeline();
        // As many as a connection may have open, by requests and by a statement.
        for _ in 0..32 {
            let _unwanted = pipeline.send(&find).unwrap();
            let _unwanted = pipeline.send(&Execute { statement: prepared.statement, with }).unwrap();
        }
        if round % 2 == 0 {
            // Some of the answers come before it is known that nobody wants them.
            let ping = pipeline.send(&Ping { payload: b"" }).unwrap();
            pipeline.wait(ping).unwrap();
        }
        drop(pipeline);
        assert_eq!(client.find(&find).unwrap().map(Result::unwrap).count(), 10);
        assert_eq!(client.stream(&find).unwrap().map(Result::unwrap).count(), 10);

        let mut pipeline = client.pipeline();
        for _ in 0..256 {
            let _unwanted = pipeline.send(&Prepare { namespace: NUMBERS, shape: Shape::Get }).unwrap();
        }
        drop(pipeline);
        let get = client.prepare(NUMBERS, Shape::Get).unwrap();
        assert!(client.execute_get(get, 3).unwrap().is_some());
        assert!(client.forget(get).unwrap());
    }
}
