//! Cursors whose batches the server sends as long as there is credit.

use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use treedb_client::{Batch, Call, Client, Close, Credit, Find, Next, Pull};
use treedb_protocol::bytes::Reader;
use treedb_protocol::frame::{ANSWER, ERROR, Header, MORE, opcode};

use crate::server::{Server, Socket};

const NUMBERS: &str = "a.numbers";

fn numbers(client: &mut Client, count: i32) {
    let documents: Vec<_> = (0..count).map(|n| rawdoc! { "_id": n, "text": "some text" }).collect();
    assert_eq!(client.insert_many(NUMBERS, &documents, true).unwrap().count, count as u32);
}

fn ids(documents: impl IntoIterator<Item = RawDocumentBuf>) -> Vec<i32> {
    documents.into_iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

#[test]
fn a_stream_has_the_documents_of_a_find_in_their_order() {
    let server = Server::start();
    let mut client = server.client();
    numbers(&mut client, 3_000);
    let (all, sort) = (rawdoc! {}, rawdoc! { "_id": 1 });
    for batch in [0, 1, 7, 1_000, 2_999, 3_000, 3_001] {
        let find = Find::new(NUMBERS, &all).sort(&sort).batch(batch);
        let streamed = ids(client.stream(&find).unwrap().map(Result::unwrap));
        assert_eq!(streamed, (0..3_000).collect::<Vec<_>>(), "batches of {batch}");
    }
    let none = rawdoc! { "_id": -1 };
    assert_eq!(client.stream(&Find::new(NUMBERS, &none)).unwrap().count(), 0);
}

#[test]
fn a_stream_that_is_dropped_leaves_the_connection_usable_and_closes_its_cursor() {
    let server = Server::start();
    let mut client = server.client();
    numbers(&mut client, 1_000);
    let all = rawdoc! {};
    // More than a connection may have open.
    for taken in 0..100 {
        let find = Find::new(NUMBERS, &all).batch(5);
        assert_eq!(client.stream(&find).unwrap().take(taken).count(), taken);
        assert_eq!(client.count(NUMBERS, &all).unwrap(), 1_000);
    }
}

/// The next frame of a pull's answer, and whether there are more.
fn part(socket: &mut Socket) -> (Batch, bool) {
    let (header, body) = socket.frame().expect("a frame");
    assert_eq!((header.opcode, header.request), (opcode::PULL | ANSWER, 9));
    (<Pull as Call>::read_answer(&mut Reader::new(&body)).unwrap(), header.flags & MORE != 0)
}

fn send(socket: &mut Socket, request: u64, call: &impl Call) {
    let mut frame = Vec::new();
    call.frame(request, &mut frame).unwrap();
    socket.send(&frame);
}

/// Asks for a ping, and returns what is answered before it.
fn before_a_ping(socket: &mut Socket) -> Vec<Header> {
    socket.request(opcode::PING, 0, 77, b"");
    std::iter::from_fn(|| socket.frame().map(|(header, _)| header).filter(|header| header.request != 77))
        .collect()
}

/// A connection with a cursor after ten of a hundred documents.
fn with_cursor(server: &Server) -> (Socket, u64) {
    numbers(&mut server.client(), 100);
    let mut socket = server.socket();
    send(&mut socket, 8, &Find::new(NUMBERS, &rawdoc! {}).batch(10));
    let (_, body) = socket.frame().unwrap();
    (socket, Find::read_answer(&mut Reader::new(&body)).unwrap().cursor)
}

#[test]
fn the_server_sends_as_many_batches_as_there_is_credit_for() {
    let server = Server::start();
    let (mut socket, cursor) = with_cursor(&server);
    send(&mut socket, 9, &Pull { cursor, batch: 10, credit: 2 });
    for first in [10, 20] {
        let (batch, more) = part(&mut socket);
        assert_eq!((ids(batch.documents), more), ((first..first + 10).collect(), true));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(before_a_ping(&mut socket), []);
    send(&mut socket, 10, &Credit { cursor, batches: 100 });
    let mut seen = Vec::new();
    let mut credited = false;
    loop {
        let (header, body) = socket.frame().unwrap();
        if header.request == 10 {
            assert_eq!(body, [1]);
            credited = true;
            continue;
        }
        let batch = <Pull as Call>::read_answer(&mut Reader::new(&body)).unwrap();
        seen.extend(ids(batch.documents));
        if header.flags & MORE == 0 {
            assert_eq!(batch.cursor, 0);
            break;
        }
    }
    assert_eq!(seen, (30..100).collect::<Vec<_>>());
    if !credited {
        assert_eq!(socket.frame().unwrap().1, [1]);
    }
    // It has ended.
    send(&mut socket, 11, &Credit { cursor, batches: 1 });
    assert_eq!(socket.frame().unwrap().1, [0]);
}

#[test]
fn a_closed_cursor_ends_its_pull_with_an_empty_batch() {
    let server = Server::start();
    let (mut socket, cursor) = with_cursor(&server);
    send(&mut socket, 9, &Pull { cursor, batch: 10, credit: 0 });
    assert_eq!(before_a_ping(&mut socket), []);
    send(&mut socket, 10, &Close { cursor });
    let (mut closed, mut ended) = (false, false);
    while !(closed && ended) {
        let (header, body) = socket.frame().unwrap();
        match header.request {
            9 => {
                let batch = <Pull as Call>::read_answer(&mut Reader::new(&body)).unwrap();
                assert_eq!((batch.cursor, batch.documents.len(), header.flags), (0, 0, 0));
                ended = true;
            }
            _ => {
                assert_eq!(body, [1]);
                closed = true;
            }
        }
    }
}

#[test]
fn a_cursor_that_is_closed_while_it_is_pulled_ends_its_pull_without_an_error() {
    let server = Server::start();
    let (mut socket, _) = with_cursor(&server);
    let mut between = 0;
    for round in 0..300_u32 {
        send(&mut socket, 8, &Find::new(NUMBERS, &rawdoc! {}).batch(1));
        let cursor = Find::read_answer(&mut Reader::new(&socket.frame().unwrap().1)).unwrap().cursor;
        send(&mut socket, 9, &Pull { cursor, batch: 1, credit: 1_000 });
        // Somewhere among its batches.
        let mut frames = 0;
        let mut more = true;
        while more && frames < round % 20 {
            more = part(&mut socket).1;
            frames += 1;
        }
        send(&mut socket, 10, &Close { cursor });
        let mut closed = false;
        while more || !closed {
            let (header, body) = socket.frame().unwrap();
            if header.request == 10 {
                closed = true;
                continue;
            }
            assert_eq!(header.opcode, opcode::PULL | ANSWER, "{}", String::from_utf8_lossy(&body));
            more = header.flags & MORE != 0;
            frames += 1;
        }
        between += u32::from(frames < 99);
    }
    // Not all of them had sent everything by then.
    assert!(between > 0);
}

#[test]
fn a_pull_that_ends_with_its_connection_is_not_taken_for_a_whole_one() {
    let server = Server::start();
    let (mut socket, cursor) = with_cursor(&server);
    send(&mut socket, 9, &Pull { cursor, batch: 10, credit: 0 });
    assert_eq!(before_a_ping(&mut socket), []);
    socket.end();
    let (header, body) = socket.frame().unwrap();
    assert_eq!((header.opcode, header.request), (ERROR, 9));
    assert_eq!(body[..4], 43_i32.to_le_bytes());
    assert!(socket.frame().is_none());
}

#[test]
fn a_stream_that_is_dropped_does_not_end_a_connection_that_is_idle_then() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with_flags(dir.path(), &["--stall-seconds", "1", "--durability", "none"]);
    let mut client = server.client();
    let text = "x".repeat(8_000_000);
    for n in 0..6 {
        client.insert_one(NUMBERS, &rawdoc! { "_id": n, "text": text.as_str() }).unwrap();
    }
    let all = rawdoc! {};
    let mut stream = client.stream(&Find::new(NUMBERS, &all).batch(1)).unwrap();
    assert!(stream.next().unwrap().is_ok());
    drop(stream);
    std::thread::sleep(Duration::from_secs(4));
    client.ping().unwrap();
}

#[test]
fn waiting_pulls_take_no_place_of_other_requests() {
    let server = Server::start();
    let (mut socket, first) = with_cursor(&server);
    let mut cursors = vec![first];
    for _ in 1..64 {
        send(&mut socket, 8, &Find::new(NUMBERS, &rawdoc! {}).batch(10));
        cursors.push(Find::read_answer(&mut Reader::new(&socket.frame().unwrap().1)).unwrap().cursor);
    }
    for (request, cursor) in (100..).zip(&cursors) {
        send(&mut socket, request, &Pull { cursor: *cursor, batch: 0, credit: 0 });
    }
    for _ in 0..10 {
        assert_eq!(before_a_ping(&mut socket), []);
    }
    send(&mut socket, 10, &Credit { cursor: first, batches: 1 });
    let mut answered = [socket.frame().unwrap().0.request, socket.frame().unwrap().0.request];
    answered.sort_unstable();
    assert_eq!(answered, [10, 100]);
}

#[test]
fn pulls_that_make_no_sense_are_refused() {
    let server = Server::start();
    let (mut socket, cursor) = with_cursor(&server);
    let mut refused = |call: &dyn Fn(&mut Socket), code: i32| {
        call(&mut socket);
        let (header, body) = socket.frame().unwrap();
        assert_eq!((header.opcode, header.request), (ERROR, 9), "{}", String::from_utf8_lossy(&body));
        assert_eq!(body[..4], code.to_le_bytes());
    };
    refused(&|socket| send(socket, 9, &Pull { cursor: 1234, batch: 0, credit: 1 }), 43);
    for unknown in 1_000..3_000 {
        refused(&|socket| send(socket, 9, &Pull { cursor: unknown, batch: 0, credit: 0 }), 43);
    }
    refused(&|socket| send(socket, 9, &Pull { cursor, batch: 0, credit: u32::MAX }), 2);
    refused(&|socket| socket.request(opcode::PULL, 0, 9, b"\x01"), 17);
    refused(&|socket| socket.request(opcode::PULL, 0, 9, &[0; 17]), 17);
    refused(&|socket| socket.request(opcode::PULL, 0, 9, &[0; 40_000]), 17);
    refused(&|socket| socket.request(opcode::PULL, 1, 9, &[0; 16]), 17);
    refused(&|socket| socket.request(opcode::CREDIT, 0, 9, b"\x01"), 17);
    send(&mut socket, 12, &Pull { cursor, batch: 0, credit: 0 });
    let mut refused = |call: &dyn Fn(&mut Socket), code: i32| {
        call(&mut socket);
        let (header, body) = socket.frame().unwrap();
        assert_eq!((header.opcode, header.request), (ERROR, 9), "{}", String::from_utf8_lossy(&body));
        assert_eq!(body[..4], code.to_le_bytes());
    };
    refused(&|socket| send(socket, 9, &Pull { cursor, batch: 0, credit: 1 }), 20);
    refused(&|socket| send(socket, 9, &Credit { cursor, batches: u32::MAX }), 2);
}

#[test]
fn the_batches_of_a_pull_are_not_given_to_another_request() {
    let server = Server::start();
    let (mut socket, cursor) = with_cursor(&server);
    send(&mut socket, 9, &Pull { cursor, batch: 10, credit: 0 });
    send(&mut socket, 10, &Next { cursor, batch: 10 });
    let (header, body) = socket.frame().unwrap();
    assert_eq!((header.opcode, header.request), (ERROR, 10));
    assert_eq!(body[..4], 20_i32.to_le_bytes());
    send(&mut socket, 11, &Credit { cursor, batches: 1 });
    let frames = [socket.frame().unwrap(), socket.frame().unwrap()];
    let (_, body) = frames.iter().find(|(header, _)| header.request == 9).unwrap();
    let batch = <Pull as Call>::read_answer(&mut Reader::new(body)).unwrap();
    assert_eq!(ids(batch.documents), (10..20).collect::<Vec<_>>());
}

#[test]
fn a_server_with_waiting_pulls_stops_and_says_so() {
    let server = Server::start();
    let (mut socket, cursor) = with_cursor(&server);
    send(&mut socket, 9, &Pull { cursor, batch: 0, credit: 0 });
    assert_eq!(before_a_ping(&mut socket), []);
    let started = std::time::Instant::now();
    server.terminate();
    let (header, body) = socket.frame().unwrap();
    assert_eq!((header.opcode, header.request), (ERROR, 9));
    assert_eq!(body[..4], 91_i32.to_le_bytes());
    assert!(server.wait().success());
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

/// A connection to a server that may have none free for a moment.
fn connected(server: &Server) -> Socket {
    let began = std::time::Instant::now();
    loop {
        if let Some(socket) = crate::server::try_greeted(server.address) {
            return socket;
        }
        assert!(began.elapsed() < crate::server::PATIENCE, "no connection is free");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_goes_away_ends_its_pulls() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with_flags(dir.path(), &["--max-connections", "2"]);
    numbers(&mut server.client(), 100);
    for _ in 0..10 {
        let mut socket = connected(&server);
        send(&mut socket, 8, &Find::new(NUMBERS, &rawdoc! {}).batch(10));
        let cursor = Find::read_answer(&mut Reader::new(&socket.frame().unwrap().1)).unwrap().cursor;
        send(&mut socket, 9, &Pull { cursor, batch: 0, credit: 0 });
        assert_eq!(before_a_ping(&mut socket), []);
        // The connection of a client that is gone is free for another.
        drop(socket);
    }
    assert!(server.stop().success());
}
