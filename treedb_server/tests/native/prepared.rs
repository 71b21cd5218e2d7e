//! Prepared statements, through the client and through bare sockets.

use bson::{RawBson, RawDocumentBuf, rawdoc};
use treedb_client::{
    Client, CountWith, DeleteWith, Error, Execute, FindWith, GetWith, InsertWith, Shape, UpdateWith, values,
};
use treedb_protocol::frame::opcode;

use crate::server::{PATIENCE, Server};

const FILMS: &str = "shop.films";

fn code<T>(done: Result<T, Error>) -> Option<i32> {
    done.err().map(|error| error.code().expect("an error of the server"))
}

fn param(number: i32) -> RawDocumentBuf {
    rawdoc! { "$param": number }
}

fn several(all: impl IntoIterator<Item = RawBson>) -> RawDocumentBuf {
    values(all)
}

/// Inserts films of 1980 to 1989 by a statement.
fn films(client: &mut Client) {
    let shape = rawdoc! { "_id": param(0), "about": { "year": param(0), "tags": ["film", param(1)] }, "kind": "film" };
    let insert = client.prepare(FILMS, Shape::Insert(&shape)).unwrap();
    assert_eq!(insert.parameters, 2);
    let rows: Vec<_> = (1980..1990).map(|year| several([year.into(), format!("of {year}").into()])).collect();
    let inserted = client.execute_insert(insert, &rows, true).unwrap();
    assert_eq!((inserted.count, inserted.errors.len()), (10, 0));
}

#[test]
fn every_kind_of_statement_does_what_the_plain_request_does() {
    let server = Server::start();
    let mut client = server.client();
    films(&mut client);
    let expected =
        rawdoc! { "_id": 1985, "about": { "year": 1985, "tags": ["film", "of 1985"] }, "kind": "film" };
    assert_eq!(client.get(FILMS, 1985).unwrap().as_ref(), Some(&expected));

    let get = client.prepare(FILMS, Shape::Get).unwrap();
    assert_eq!(get.parameters, 1);
    assert_eq!(client.execute_get(get, 1985).unwrap(), Some(expected));
    assert_eq!(client.execute_get(get, 1985.0).unwrap().unwrap().get_i32("_id").unwrap(), 1985);
    assert_eq!(client.execute_get(get, "1985").unwrap(), None);
    assert_eq!(client.execute_get(get, rawdoc! { "$gt": 0 }).unwrap(), None);

    let filter = rawdoc! { "about.year": { "$gte": param(0), "$lt": param(1) } };
    let (sort, projection) = (rawdoc! { "about.year": -1 }, rawdoc! { "_id": 1 });
    let shape = Shape::Find { filter: &filter, sort: Some(&sort), projection: Some(&projection) };
    let find = client.prepare(FILMS, shape).unwrap();
    let mut found = |limit| -> Vec<i32> {
        let values = several([1983.into(), 1987.into()]);
        let found = client.execute_find(find, &values, limit).unwrap();
        found.map(|film| film.unwrap().get_i32("_id").unwrap()).collect()
    };
    assert_eq!(found(0), [1986, 1985, 1984, 1983]);
    assert_eq!(found(2), [1986, 1985]);
    let values = several([1980.into(), 2000.into()]);
    let first = client.execute(find, FindWith { batch: 3, skip: 1, limit: 8, values: &values }).unwrap();
    assert!(first.cursor != 0 && first.documents.len() == 3);
    assert_eq!(first.documents[0].get_i32("_id").unwrap(), 1988);

    let filter = rawdoc! { "about.year": { "$in": [param(0), param(1)] } };
    let count = client.prepare(FILMS, Shape::Count(&filter)).unwrap();
    let values = several([1980.into(), 1989.into()]);
    assert_eq!(client.execute(count, CountWith { skip: 0, limit: 0, values: &values }).unwrap(), 2);

    let filter = rawdoc! { "_id": param(0) };
    let change = rawdoc! { "$set": { "seen": param(1) } };
    let update = client.prepare(FILMS, Shape::Update { filter: &filter, update: &change }).unwrap();
    let done = client.execute_update(update, &several([1985.into(), true.into()])).unwrap();
    assert_eq!((done.matched, done.modified), (1, 1));
    let values = several([1.into(), "by upsert".into()]);
    let with = UpdateWith { values: &values, multi: false, upsert: true, ack: Default::default() };
    assert_eq!(client.execute(update, with).unwrap().upserted, Some(rawdoc! { "_id": 1 }));
    assert_eq!(client.get(FILMS, 1).unwrap().unwrap().get_str("seen").unwrap(), "by upsert");

    let filter = rawdoc! { "about.year": { "$lt": param(0) } };
    let delete = client.prepare(FILMS, Shape::Delete(&filter)).unwrap();
    let values = several([1983.into()]);
    let with = |limit| DeleteWith { limit, values: &values, ack: Default::default() };
    assert_eq!(client.execute(delete, with(1)).unwrap(), 1);
    assert_eq!(client.execute(delete, with(0)).unwrap(), 2);
}

#[test]
fn a_value_of_a_statement_is_never_an_operator() {
    let server = Server::start();
    let mut client = server.client();
    client.insert_one("a.users", &rawdoc! { "_id": 1, "name": "ann", "password": "secret" }).unwrap();
    let filter = rawdoc! { "name": param(0), "password": param(1) };
    let count = client.prepare("a.users", Shape::Count(&filter)).unwrap();
    let mut matches = |password: RawBson| {
        let values = several(["ann".into(), password]);
        client.execute(count, CountWith { skip: 0, limit: 0, values: &values }).unwrap()
    };
    assert_eq!(matches("secret".into()), 1);
    assert_eq!(matches(rawdoc! { "$ne": "" }.into()), 0);
    let all = bson::Regex { pattern: bson::raw::cstr!(".*").into(), options: bson::raw::cstr!("").into() };
    assert_eq!(matches(RawBson::RegularExpression(all)), 0);
}

#[test]
fn a_regular_expression_among_the_values_of_in_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.insert_one("a.users", &rawdoc! { "_id": 1, "token": "secret" }).unwrap();
    let all = || bson::Regex { pattern: bson::raw::cstr!("^").into(), options: bson::raw::cstr!("").into() };
    let one = rawdoc! { "token": { "$in": [param(0)] } };
    let several_tokens = rawdoc! { "token": { "$in": param(0) } };
    let values = [several([RawBson::RegularExpression(all())]), rawdoc! { "": [all()] }];
    for (filter, values) in [one, several_tokens].iter().zip(&values) {
        let count = client.prepare("a.users", Shape::Count(filter)).unwrap();
        assert_eq!(code(client.execute(count, CountWith { skip: 0, limit: 0, values })), Some(2));
    }
}

#[test]
fn refused_documents_of_a_prepared_insert_are_told_with_index_and_code() {
    let server = Server::start();
    let mut client = server.client();
    let shape = rawdoc! { "_id": param(0) };
    let insert = client.prepare(FILMS, Shape::Insert(&shape)).unwrap();
    let rows: Vec<_> = [1, 2, 1, 3].map(|id| values([id])).into();
    let inserted = client.execute_insert(insert, &rows, false).unwrap();
    assert_eq!((inserted.count, inserted.errors[0].index, inserted.errors[0].error.code), (3, 2, 11000));
}

#[test]
fn statements_end_with_forget_and_belong_to_their_connection() {
    let server = Server::start();
    let mut client = server.client();
    let get = client.prepare(FILMS, Shape::Get).unwrap();
    assert_eq!(client.execute_get(get, 1).unwrap(), None);
    assert_eq!(code(server.client().execute_get(get, 1)), Some(2));
    assert!(client.forget(get).unwrap());
    assert!(!client.forget(get).unwrap());
    assert_eq!(code(client.execute_get(get, 1)), Some(2));
    assert_ne!(
        client.prepare(FILMS, Shape::Get).unwrap().statement,
        get.statement,
        "numbers are not used twice"
    );
}

#[test]
fn a_connection_has_so_many_statements_of_so_many_bytes_at_most() {
    let server = Server::start();
    let mut client = server.client();
    let statements: Vec<_> = (0..256).map(|_| client.prepare(FILMS, Shape::Get).unwrap()).collect();
    assert_eq!(code(client.prepare(FILMS, Shape::Get)), Some(146));
    client.forget(statements[0]).unwrap();
    let long = rawdoc! { "a": "x".repeat(900_000), "b": param(0) };
    let insert = client.prepare(FILMS, Shape::Insert(&long)).unwrap();
    client.forget(statements[1]).unwrap();
    assert_eq!(code(client.prepare(FILMS, Shape::Insert(&long))), Some(146));
    assert!(client.forget(insert).unwrap());
    client.prepare(FILMS, Shape::Insert(&long)).unwrap();
}

#[test]
fn a_small_request_does_not_multiply_what_its_statement_holds() {
    let server = Server::start();
    let mut client = server.client();
    let long = rawdoc! { "a": "x".repeat(60_000), "b": param(0) };
    let insert = client.prepare(FILMS, Shape::Insert(&long)).unwrap();
    let rows: Vec<_> = (0..10_000).map(|n| values([n])).collect();
    assert_eq!(code(client.execute_insert(insert, &rows, true)), Some(10334));
    assert_eq!(client.count(FILMS, &rawdoc! {}).unwrap(), 0);
    assert_eq!(client.execute_insert(insert, &rows[..1], true).unwrap().count, 1);
}

#[test]
fn what_cannot_be_prepared_or_executed_is_refused_and_the_connection_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    let filter = rawdoc! { "$expr": { "$eq": ["$a", param(0)] } };
    assert_eq!(code(client.prepare(FILMS, Shape::Count(&filter))), Some(2));
    let filter = rawdoc! { "a": param(1) };
    assert_eq!(code(client.prepare(FILMS, Shape::Count(&filter))), Some(2), "0 is missing");
    assert_eq!(code(client.prepare("films", Shape::Get)), Some(73));
    let sort = rawdoc! { "a": param(0) };
    let shape = Shape::Find { filter: &rawdoc! {}, sort: Some(&sort), projection: None };
    assert_eq!(code(client.prepare(FILMS, shape)), Some(2));

    let filter = rawdoc! { "a": param(0) };
    let count = client.prepare(FILMS, Shape::Count(&filter)).unwrap();
    for number in [0, 2] {
        let values = values(vec![1; number]);
        assert_eq!(code(client.execute(count, CountWith { skip: 0, limit: 0, values: &values })), Some(2));
    }
    // What another kind of statement takes.
    let one = values([1]);
    assert_eq!(code(client.execute(count, GetWith { values: &one })), Some(17));
    let with = InsertWith { rows: vec![&one], ordered: true, ack: Default::default() };
    assert_eq!(code(client.call(&Execute { statement: count.statement, with })), Some(17));
    client.ping().unwrap();

    let mut socket = server.socket();
    for (body, message) in [
        (&b"\x13\0\x03\0a.b"[..], "0x0013 cannot be prepared"),
        (b"\x11\0\x03\0a.b\x05\0\0\0\0", "must be {_id: {$param: 0}}"),
        (b"\x12\0\x03\0a.b\x04\x05\0\0\0\0", "bits that mean nothing"),
        (b"\x17\0\x03\0a.b\x05\0\0\0\0more", "too many"),
        (b"\x17\0", "namespace: needs 2 bytes"),
        (b"", "opcode: needs 2 bytes"),
    ] {
        socket.request(opcode::PREPARE, 0, 7, body);
        let (_, answer) = socket.frame().unwrap();
        assert!(String::from_utf8_lossy(&answer).contains(message), "{message:?}");
    }
    for body in [&b""[..], b"\0\0\0\0", b"\x01\0\0\0", b"\xff\xff\xff\xff\x05\0\0\0\0"] {
        socket.request(opcode::EXECUTE, 0, 7, body);
        assert_eq!(socket.frame().unwrap().0.opcode, 0xffff);
    }
    // A statement that counts has no flags.
    socket.request(opcode::PREPARE, 0, 7, b"\x17\0\x03\0a.b\x05\0\0\0\0");
    assert_eq!(socket.frame().unwrap().1[4..], [0, 0]);
    let execution = [&b"\x01\0\0\0"[..], &[0; 16], b"\x05\0\0\0\0"].concat();
    socket.request(opcode::EXECUTE, 1, 7, &execution);
    assert!(String::from_utf8_lossy(&socket.frame().unwrap().1).contains("no flags 0x0001"));
    socket.request(opcode::EXECUTE, 0, 7, &execution);
    assert_eq!(socket.frame().unwrap().1, 0_u64.to_le_bytes());
}

#[test]
fn a_statement_is_refused_to_somebody_who_has_not_authenticated() {
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let flags = ["--auth", "--root-user", "root", "--root-password-file", password.to_str().unwrap()];
    let server = Server::with_flags(&dir.path().join("data"), &flags);
    let mut nobody = Client::connect_timeout(server.address, PATIENCE).unwrap();
    assert_eq!(code(nobody.prepare(FILMS, Shape::Get)), Some(13));
    let one = values([1]);
    let execute = Execute { statement: 1, with: GetWith { values: &one } };
    assert_eq!(code(nobody.call(&execute)), Some(13));
    let mut root = server.client();
    root.authenticate("admin", "root", "secret").unwrap();
    let get = root.prepare(FILMS, Shape::Get).unwrap();
    assert_eq!(root.execute_get(get, 1).unwrap(), None);
}

#[test]
fn statements_are_pipelined() {
    let server = Server::start();
    let mut client = server.client();
    films(&mut client);
    let get = client.prepare(FILMS, Shape::Get).unwrap();
    let mut pipeline = client.pipeline();
    let tickets: Vec<_> = (0..500).map(|n| pipeline.execute_get(get, 1980 + n % 10).unwrap()).collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        let film = pipeline.wait(ticket).unwrap().unwrap();
        assert_eq!(film.get_i32("_id").unwrap(), 1980 + n as i32 % 10);
    }
}
