//! What the client does with a server that answers late, in another order, too much, or nonsense. The server here is
//! a script: the real one is in the integration tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bson::rawdoc;
use treedb_protocol::bytes::Malformed;
use treedb_protocol::call::BatchWriter;
use treedb_protocol::frame::{self, ANSWER, CLOSING, ERROR, HEADER, Header, opcode};

use super::*;

/// A server that accepts one connection, answers its greeting, and then runs `script`.
fn server(script: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let (header, _) = request(&mut stream).unwrap();
        let welcome = Welcome { version: 1, max_body: 1_000_000, max_requests: 4, server: "test".into() };
        answer(&mut stream, header, |out| welcome.answer(out).unwrap());
        script(stream);
    });
    address
}

fn request(stream: &mut TcpStream) -> Option<(Header, Vec<u8>)> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).ok()?;
    let header = Header::from_bytes(&header);
    let mut body = vec![0; header.length as usize];
    stream.read_exact(&mut body).ok()?;
    Some((header, body))
}

fn answer(stream: &mut TcpStream, to: Header, body: impl FnOnce(&mut Vec<u8>)) {
    send(stream, to.opcode | ANSWER, 0, to.request, body);
}

fn send(stream: &mut TcpStream, opcode: u16, flags: u16, id: u64, body: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    frame::put(&mut out, opcode, flags, id, |out| {
        body(out);
        Ok::<(), Malformed>(())
    })
    .unwrap();
    let _ = stream.write_all(&out);
}

#[test]
fn answers_may_come_in_any_order() {
    let address = server(|mut stream| {
        let asked: Vec<_> = (0..3).map(|_| request(&mut stream).unwrap()).collect();
        for (header, body) in asked.into_iter().rev() {
            answer(&mut stream, header, |out| out.extend_from_slice(&body));
        }
    });
    let mut client = Client::connect(address).unwrap();
    let mut pipeline = client.pipeline();
    let tickets: Vec<_> = [b"a", b"b", b"c"].map(|payload| pipeline.send(&Ping { payload }).unwrap()).into();
    let answers: Vec<_> = tickets.into_iter().map(|ticket| pipeline.wait(ticket).unwrap()).collect();
    assert_eq!(answers, [b"a", b"b", b"c"]);
}

#[test]
fn an_answer_that_nobody_took_does_not_answer_the_next_call() {
    let address = server(|mut stream| {
        while let Some((header, body)) = request(&mut stream) {
            answer(&mut stream, header, |out| out.extend_from_slice(&body));
        }
    });
    let mut client = Client::connect(address).unwrap();
    for _ in 0..3 {
        let mut pipeline = client.pipeline();
        let first = pipeline.send(&Ping { payload: b"first" }).unwrap();
        let _thrown_away = pipeline.send(&Ping { payload: b"second" }).unwrap();
        assert_eq!(pipeline.wait(first).unwrap(), b"first");
        drop(pipeline);
        assert_eq!(client.call(&Ping { payload: b"third" }).unwrap(), b"third");
    }
}

#[test]
fn what_is_dropped_is_sent_and_closed_without_a_further_request() {
    let (seen, requests) = mpsc::channel();
    let address = server(move |mut stream| {
        while let Some((header, _)) = request(&mut stream) {
            seen.send(header.opcode).unwrap();
            answer(&mut stream, header, |out| match header.opcode {
                opcode::FIND => BatchWriter::new(out).finish(7, out),
                opcode::PREPARE => Prepared { statement: 8, parameters: 0 }.answer(out),
                opcode::CLOSE | opcode::FORGET => out.push(1),
                _ => {}
            });
        }
    });
    let next = || requests.recv_timeout(Duration::from_secs(20)).unwrap();
    let mut client = Client::connect(address).unwrap();
    let all = rawdoc! {};
    drop(client.find(&Find::new("a.b", &all)).unwrap());
    assert_eq!([next(), next()], [opcode::FIND, opcode::CLOSE]);

    let mut pipeline = client.pipeline();
    let _unwanted = pipeline.kv_put("t", b"k", b"v").unwrap();
    drop(pipeline);
    assert_eq!(next(), opcode::KV_PUT);

    // Answers that have come before nobody wants them, and one that has not.
    let mut pipeline = client.pipeline();
    let _unwanted = pipeline.send(&Find::new("a.b", &all)).unwrap();
    let _unwanted = pipeline.send(&Prepare { namespace: "a.b", shape: Shape::Get }).unwrap();
    let wanted = pipeline.send(&Ping { payload: b"" }).unwrap();
    pipeline.wait(wanted).unwrap();
    let _unwanted = pipeline.send(&Find::new("a.b", &all)).unwrap();
    drop(pipeline);
    let sent = [opcode::FIND, opcode::PREPARE, opcode::PING, opcode::FIND, opcode::CLOSE, opcode::FORGET];
    assert_eq!(sent.map(|_| next()), sent);
    client.ping().unwrap();
    assert_eq!([next(), next()], [opcode::PING, opcode::CLOSE]);
}

#[test]
fn a_client_that_sends_much_reads_while_it_sends() {
    // The server sends 4 MB for each request and reads the next only when that is gone: more than sockets hold.
    let address = server(|mut stream| {
        while let Some((header, _)) = request(&mut stream) {
            answer(&mut stream, header, |out| out.resize(out.len() + 4_000_000, 7));
        }
    });
    let mut client = Client::connect_timeout(address, Duration::from_secs(20)).unwrap();
    let mut pipeline = client.pipeline();
    let payload = vec![0; 1_000_000];
    let tickets: Vec<_> = (0..12).map(|_| pipeline.send(&Ping { payload: &payload }).unwrap()).collect();
    for ticket in tickets {
        assert_eq!(pipeline.wait(ticket).unwrap().len(), 4_000_000);
    }
}

#[test]
fn a_servers_error_leaves_the_connection_usable_and_its_last_words_do_not() {
    let address = server(|mut stream| {
        let error = ErrorFrame { code: 11000, name: "DuplicateKey".into(), message: "E11000".into() };
        let (header, _) = request(&mut stream).unwrap();
        send(&mut stream, ERROR, 0, header.request, |out| error.write(out).unwrap());
        let (header, _) = request(&mut stream).unwrap();
        answer(&mut stream, header, |_| ());
        request(&mut stream).unwrap();
        let error = ErrorFrame { code: 91, name: "ShutdownInProgress".into(), message: "stopping".into() };
        send(&mut stream, ERROR, CLOSING, 0, |out| error.write(out).unwrap());
    });
    let mut client = Client::connect(address).unwrap();
    assert_eq!(client.kv_put("t", b"k", b"v").unwrap_err().code(), Some(11000));
    client.kv_put("t", b"k", b"v").unwrap();
    assert_eq!(client.kv_put("t", b"k", b"v").unwrap_err().code(), Some(91));
    let error = client.ping().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the connection has ended (stopping (ShutdownInProgress, code 91)): connect again"
    );
}

#[test]
fn a_request_over_the_servers_limit_is_refused_before_it_is_sent() {
    let address = server(|mut stream| {
        while let Some((header, _)) = request(&mut stream) {
            answer(&mut stream, header, |_| ());
        }
    });
    let mut client = Client::connect(address).unwrap();
    let error = client.kv_put("t", b"k", &vec![0; 1_000_000]).unwrap_err();
    assert!(matches!(error, Error::TooLarge(_)), "{error}");
    assert!(matches!(client.kv_put(&"t".repeat(70_000), b"k", b""), Err(Error::TooLarge(_))));
    client.kv_put("t", b"k", &vec![0; 999_000]).unwrap();
}

/// What `kv_get` says to a server whose answer is `bytes`.
fn error_message(bytes: Vec<u8>) -> String {
    let address = server(move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(&bytes);
    });
    let mut client = Client::connect_timeout(address, Duration::from_secs(20)).unwrap();
    let error = client.kv_get("t", b"k").unwrap_err().to_string();
    assert!(matches!(client.ping(), Err(Error::Ended(_))), "after {error}");
    error
}

#[test]
fn nonsense_from_the_server_ends_the_connection_with_a_reason() {
    let answered = opcode::KV_GET | ANSWER;
    let frame = |length, opcode, request, body: &[u8]| {
        [&Header { length, opcode, flags: 0, request }.to_bytes()[..], body].concat()
    };
    for (bytes, expected) in [
        (frame(u32::MAX, answered, 2, &[]), "over the limit"),
        (frame(1, answered, 9, &[0]), "answer to request 9, which was not made"),
        (frame(0, opcode::PING | ANSWER, 2, &[]), "answers request 0x0020"),
        (frame(0, answered, 2, &[]), "found: needs 1 bytes"),
        (frame(2, answered, 2, &[0, 0]), "1 bytes too many"),
        (frame(5, answered, 2, &[1, 255, 255, 255, 255]), "value: needs 4294967295 bytes"),
        (frame(2, ERROR, 2, &[1, 2]), "code: needs 4 bytes"),
        (frame(100, answered, 2, &[1, 2]), "closed the connection"),
        (Vec::new(), "closed the connection"),
    ] {
        let error = error_message(bytes);
        assert!(error.contains(expected), "{expected:?} in {error:?}");
    }
}

#[test]
fn another_protocols_port_and_a_silent_one_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let silent = listener.accept().unwrap().0;
        thread::sleep(Duration::from_millis(300));
        drop(silent);
    });
    let error = Client::connect(address).unwrap_err().to_string();
    assert!(error.contains("--native"), "{error}");
    let error = Client::connect_timeout(address, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, Error::Io { op: "receive", .. }), "{error}");
}

#[cfg(feature = "async")]
#[tokio::test]
async fn an_asynchronous_request_that_takes_too_long_is_given_up_and_the_connection_goes_on() {
    let (go_on, told) = mpsc::channel();
    let address = server(move |mut stream| {
        let (late, body) = request(&mut stream).unwrap();
        // The client has given it up before this answers it.
        told.recv().unwrap();
        answer(&mut stream, late, |out| out.extend_from_slice(&body));
        while let Some((header, body)) = request(&mut stream) {
            answer(&mut stream, header, |out| out.extend_from_slice(&body));
        }
    });
    let client = AsyncClient::connect(address).await.unwrap();
    let hasty = client.with_timeout(Duration::from_millis(20));
    let error = hasty.call(&Ping { payload: b"late" }).await.unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::TimedOut),
        "{error}"
    );
    go_on.send(()).unwrap();
    assert_eq!(client.call(&Ping { payload: b"patient" }).await.unwrap(), b"patient");
}

#[cfg(feature = "async")]
#[tokio::test]
async fn an_asynchronous_stream_whose_next_batch_is_late_can_be_read_on() {
    let (go_on, told) = mpsc::channel();
    let address = server(move |mut stream| {
        let (find, _) = request(&mut stream).unwrap();
        answer(&mut stream, find, |out| BatchWriter::new(out).finish(7, out));
        let (pull, _) = request(&mut stream).unwrap();
        told.recv().unwrap();
        answer(&mut stream, pull, |out| {
            let mut batch = BatchWriter::new(out);
            batch.push(&rawdoc! { "_id": 1 }, out);
            batch.finish(0, out);
        });
        request(&mut stream);
    });
    let client = AsyncClient::connect(address).await.unwrap().with_timeout(Duration::from_millis(50));
    let all = rawdoc! {};
    let mut found = client.find(&Find::new("a.b", &all)).await.unwrap();
    for _ in 0..2 {
        let error = found.next().await.unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::TimedOut),
            "{error}"
        );
    }
    go_on.send(()).unwrap();
    let found_at_last = loop {
        match found.next().await.unwrap() {
            Ok(document) => break document,
            Err(late) => assert!(matches!(late, Error::Io { .. }), "{late}"),
        }
    };
    assert_eq!(found_at_last, rawdoc! { "_id": 1 });
    assert!(found.next().await.is_none());
}

#[cfg(feature = "async")]
#[tokio::test]
async fn an_asynchronous_client_does_not_wait_for_a_greeting_longer_than_it_was_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let error = AsyncClient::connect_timeout(address, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(&error, Error::Io { op: "connect", .. }), "{error}");
    drop(listener);
}
