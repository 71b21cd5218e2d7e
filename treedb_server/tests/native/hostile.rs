//! Invalid bytes: the connection gets an error or is closed, and the server continues.

use bson::rawdoc;
use treedb_client::{Call, Count, CreateIndex, ErrorFrame, Find, Insert, KvPut};
use treedb_protocol::bytes::Reader;
use treedb_protocol::frame::{CLOSING, ERROR, HEADER, Header, MAX_BODY, opcode};
use treedb_testing::Rng;

use crate::server::{Server, Socket};

/// The next frame must be an error; its id, whether it closes, and the error.
fn error(socket: &mut Socket) -> (u64, bool, ErrorFrame) {
    let (header, body) = socket.frame().expect("an error frame");
    assert_eq!(header.opcode, ERROR);
    (header.request, header.flags & CLOSING != 0, ErrorFrame::read(&mut Reader::new(&body)).unwrap())
}

/// The connection must end with an error frame of this code.
fn ends(mut socket: Socket, code: i32, message: &str) {
    let (request, closing, error) = error(&mut socket);
    assert_eq!((request, closing, error.code), (0, true, code), "{error}");
    assert!(error.message.contains(message), "{error}");
    assert!(socket.frame().is_none(), "closed after the error");
}

/// The request must be refused with this code, and the connection remain usable.
fn refused(socket: &mut Socket, code: i32, message: &str) {
    let (request, closing, error) = error(socket);
    assert_eq!((request, closing, error.code), (7, false, code), "{error}");
    assert!(error.message.contains(message), "{message:?} in {error}");
    socket.request(opcode::PING, 0, 8, b"still there");
    let (header, body) = socket.frame().expect("an answer");
    assert_eq!((header.request, &body[..]), (8, &b"still there"[..]));
}

#[test]
fn whatever_is_not_a_greeting_ends_the_connection() {
    let server = Server::start();
    let hello = |body: &[u8]| {
        let header = Header { length: body.len() as u32, opcode: opcode::HELLO, flags: 0, request: 1 };
        [&header.to_bytes()[..], body].concat()
    };
    for (bytes, message) in [
        (&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], "not a greeting"),
        (&[0; 16], "not a greeting"),
        (&[0xff; 64], "not a greeting"),
        (&Header { length: 4, opcode: opcode::PING, flags: 0, request: 1 }.to_bytes(), "not a greeting"),
        (&hello(b""), "magic: needs 8 bytes"),
        (&hello(b"TREEDB\n\n\x01\0\x01\0"), "magic: expected"),
        (&hello(b"TREEDB\r\n\x01\0"), "newest version: needs 2 bytes"),
        (&hello(b"TREEDB\r\n\x01\0\x01\0more"), "too many"),
        (&hello(b"TREEDB\r\n\x02\0\x09\0"), "speaks version 1, the client versions 2 to 9"),
        (&hello(b"TREEDB\r\n\x02\0\x01\0"), "versions 2 to 1"),
    ] {
        let mut socket = server.silent_socket();
        socket.send(bytes);
        ends(socket, 17, message);
    }
    server.client().ping().unwrap();
}

#[test]
fn a_length_over_the_limit_ends_the_connection_before_the_body_is_read() {
    let server = Server::start();
    for length in [MAX_BODY + 1, 48_000_001, u32::MAX] {
        let mut socket = server.socket();
        socket.send(&Header { length, opcode: opcode::KV_PUT, flags: 0, request: 7 }.to_bytes());
        ends(socket, 17, "over the limit of 47999984");
    }
    server.client().ping().unwrap();
}

#[test]
fn a_body_of_exactly_the_limit_is_read() {
    let server = Server::start();
    let mut socket = server.socket();
    socket.request(opcode::PING, 0, 7, &vec![b'x'; MAX_BODY as usize]);
    let (header, body) = socket.frame().unwrap();
    assert_eq!((header.request, body.len()), (7, MAX_BODY as usize));
}

#[test]
fn frames_cut_anywhere_end_their_connection_only() {
    let server = Server::start();
    let mut whole = Vec::new();
    KvPut { table: "t", key: b"k", value: b"v", ack: Default::default() }.frame(7, &mut whole).unwrap();
    for cut in 1..whole.len() {
        let mut socket = server.socket();
        socket.send(&whole[..cut]);
        socket.end();
        assert!(socket.frame().is_none(), "cut at {cut}");
    }
    let mut client = server.client();
    assert_eq!(client.kv_get("t", b"k").unwrap(), None, "half a request is no request");
}

#[test]
fn a_promised_body_that_never_comes_holds_no_memory_and_nobody_up() {
    let server = Server::start();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let mut socket = server.socket();
            socket.send(&Header { length: 100_000, opcode: opcode::KV_PUT, flags: 0, request: 7 }.to_bytes());
            socket
        })
        .collect();
    let mut client = server.client();
    client.kv_put("t", b"k", b"v").unwrap();
    drop(waiting);
    client.ping().unwrap();
}

#[test]
fn request_id_zero_ends_the_connection() {
    let server = Server::start();
    let mut socket = server.socket();
    socket.request(opcode::PING, 0, 0, b"");
    ends(socket, 17, "request id 0");
}

#[test]
fn a_second_greeting_and_unknown_opcodes_are_refused() {
    let server = Server::start();
    let mut socket = server.socket();
    for opcode in [opcode::HELLO, 0, 0x0f, 0x7777, 0x8001, ERROR] {
        socket.request(opcode, 0, 7, b"TREEDB\r\n\x01\0\x01\0");
        refused(&mut socket, 59, "does not exist in version 1");
    }
}

#[test]
fn unknown_flags_are_refused() {
    let server = Server::start();
    let mut socket = server.socket();
    socket.request(opcode::PING, 1, 7, b"");
    refused(&mut socket, 17, "has no flags 0x0001");
    socket.request(opcode::KV_PUT, 0x8001, 7, b"\x01\0t\x01\0\0\0k\0\0\0\0");
    refused(&mut socket, 17, "has no flags 0x8000");
}

#[test]
fn lies_about_lengths_inside_a_body_are_refused() {
    let server = Server::start();
    let mut socket = server.socket();
    for (opcode, body, message) in [
        (opcode::KV_GET, &b"\xff\xfft"[..], "table: needs 65535 bytes"),
        (opcode::KV_GET, b"\x01\0t\xff\xff\xff\xffk", "key: needs 4294967295 bytes"),
        (opcode::KV_GET, b"\x01\0t\x01\0\0\0kk", "1 bytes too many"),
        (opcode::KV_GET, b"", "table: needs 2 bytes"),
        (opcode::KV_GET, b"\x01\0\xff\x01\0\0\0k", "table: not UTF-8"),
        (opcode::KV_BATCH, b"\x01\0t\xff\xff\xff\xff", "cannot fit"),
        (opcode::KV_BATCH, b"\x01\0t\x01\0\0\0\x09\0\0\0\0", "kind must be 0 or 1, is 9"),
        (opcode::KV_RANGE, b"\x01\0t\x03\0\0\0\0\0\0\0\0\0", "kind must be 0, 1 or 2, is 3"),
        (opcode::INSERT, b"\x03\0a.b\0\0\0\0", "must be 1 to 100000, are 0"),
        (opcode::INSERT, b"\x03\0a.b\xff\xff\xff\x7f\x05\0\0\0\0", "cannot fit"),
        (opcode::INSERT, b"\x03\0a.b\x01\0\0\0\x06\0\0\0\0", "document: needs 6 bytes"),
        (opcode::INSERT, b"\x03\0a.b\x01\0\0\0\x04\0\0\0\0", "cannot be 4 bytes long"),
        (opcode::INSERT, b"\x03\0a.b\x01\0\0\0\x05\0\0\0\x01", "not a document"),
        (opcode::GET, b"\x03\0a.b\x05\0\0\0\0", "must be a document of one field"),
        (opcode::NEXT, b"\x01", "cursor: needs 8 bytes"),
    ] {
        socket.request(opcode, 0, 7, body);
        refused(&mut socket, 17, message);
    }
}

#[test]
fn documents_that_are_damaged_inside_are_refused() {
    let server = Server::start();
    let mut socket = server.socket();
    let damaged: [&[u8]; 4] = [
        // A string with a wrong length, one that is not UTF-8, an unknown type, a boolean of 2.
        b"\x12\0\0\0\x02a\0\xff\0\0\0text\0\0\0",
        b"\x0f\0\0\0\x02a\0\x03\0\0\0\xff\xff\0\0",
        b"\x08\0\0\0\x44a\0\0",
        b"\x09\0\0\0\x08a\0\x02\0",
    ];
    for document in damaged {
        let body = |before: &[u8]| [b"\x03\0a.b", before, document].concat();
        let insert = body(&[1, 0, 0, 0]);
        socket.request(opcode::INSERT, 0, 7, &insert);
        let (header, answer) = socket.frame().unwrap();
        let mut reader = Reader::new(&answer);
        let code = if header.opcode == ERROR {
            ErrorFrame::read(&mut reader).unwrap().code
        } else {
            <Insert<'_> as Call>::read_answer(&mut reader).unwrap().errors[0].error.code
        };
        assert_eq!(code, 22, "{document:?}");
        socket.request(opcode::FIND, 0, 7, &body(&[0; 21]));
        refused(&mut socket, 22, "");
        socket.request(opcode::COUNT, 0, 7, &body(&[0; 16]));
        refused(&mut socket, 22, "");
        socket.request(opcode::DELETE, 0, 7, &body(&[0; 8]));
        refused(&mut socket, 22, "");
        let update = [b"\x03\0a.b", document, &[5, 0, 0, 0, 0]].concat();
        socket.request(opcode::UPDATE, 0, 7, &update);
        refused(&mut socket, 22, "");
    }
}

/// `{a: {a: ... {}}}`, `depth` levels deep.
fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = vec![5, 0, 0, 0, 0];
    for _ in 1..depth {
        let mut outer = vec![0, 0, 0, 0, 3, b'a', 0];
        outer.extend_from_slice(&bytes);
        outer.push(0);
        let length = (outer.len() as u32).to_le_bytes();
        outer[..4].copy_from_slice(&length);
        bytes = outer;
    }
    bytes
}

#[test]
fn nesting_200_and_20_000_deep_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    for depth in [200, 20_000] {
        let document = bson::RawDocumentBuf::from_bytes(nested(depth)).unwrap();
        assert_eq!(client.insert_one("a.b", &document).unwrap_err().code(), Some(15), "{depth}");
        let error = client.find(&Find::new("a.b", &document)).unwrap_err();
        assert_eq!(error.code(), Some(15), "{depth}: {error}");
    }
    client.ping().unwrap();
}

#[test]
fn a_cursor_that_does_not_exist_is_an_error_and_so_are_too_many() {
    let server = Server::start();
    let mut socket = server.socket();
    socket.request(opcode::NEXT, 0, 7, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    refused(&mut socket, 43, "cursor id 9 not found");
    let mut client = server.client();
    let documents: Vec<_> = (0..10).map(|id| rawdoc! { "_id": id }).collect();
    client.insert_many("a.b", &documents, true).unwrap();
    let all = rawdoc! {};
    let find = Find::new("a.b", &all).batch(1);
    for _ in 0..64 {
        assert_ne!(client.call(&find).unwrap().cursor, 0);
    }
    assert_eq!(client.call(&find).unwrap_err().code(), Some(146));
    // Another connection has its own.
    assert_ne!(server.client().call(&find).unwrap().cursor, 0);
}

#[test]
fn random_bytes_behind_a_greeting_do_no_harm() {
    let server = Server::start();
    let mut rng = Rng::new(1);
    for round in 0..200 {
        let mut bytes: Vec<u8> = (0..300).map(|_| rng.next_u64() as u8).collect();
        if round % 2 == 0 {
            // A plausible header, so that the body is read.
            let opcode = [0x10, 0x11, 0x12, 0x15, 0x16, 0x17, 0x23, 0x24][round % 8];
            let header = Header { length: 300 - HEADER as u32, opcode, flags: 0, request: 7 };
            bytes[..HEADER].copy_from_slice(&header.to_bytes());
        }
        let mut socket = server.socket();
        socket.send(&bytes);
        socket.end();
        while socket.frame().is_some() {}
    }
    server.client().ping().unwrap();
}

#[test]
fn an_index_of_many_documents_is_not_waited_for_by_a_ping_because_one_of_none_was_fast() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with_flags(dir.path(), &["--durability", "none"]);
    let mut client = server.client();
    for part in 0..80 {
        let documents =
            (0..5_000).map(|n| rawdoc! { "_id": part * 5_000 + n, "a": n, "b": "x" }).collect::<Vec<_>>();
        client.insert_many("slow.large", &documents, true).unwrap();
    }
    let mut socket = server.socket();
    let mut create = |request: u64, namespace: &str| {
        let mut body = Vec::new();
        let keys = [
            rawdoc! { "b": 1 },
            rawdoc! { "b": -1 },
            rawdoc! { "b": 1, "a": 1 },
            rawdoc! { "b": -1, "a": 1 },
        ];
        let key = keys[request as usize / 10 % keys.len()].clone();
        CreateIndex { namespace, spec: &rawdoc! { "key": key } }.write(&mut body).unwrap();
        socket.request(opcode::CREATE_INDEX, 0, request, &body);
        if namespace == "slow.large" {
            std::thread::sleep(std::time::Duration::from_millis(5));
            socket.request(opcode::PING, 0, request + 1, b"");
        }
        let first = socket.frame().unwrap().0.request;
        if namespace == "slow.large" {
            socket.frame().unwrap();
        }
        first
    };
    for n in 0..10 {
        assert_eq!(create(2 + n, "slow.small"), 2 + n);
    }
    // On a busy machine the ping may be sent when the index is there.
    let first = (0..4)
        .map(|n| (create(100 + 10 * n, "slow.large"), 101 + 10 * n))
        .find(|(first, ping)| first == ping);
    assert!(first.is_some(), "no ping is answered first");
}

#[test]
fn a_header_that_arrives_slowly_delays_no_answer() {
    let server = Server::start();
    let mut socket = server.socket();
    let documents = (0..2_000).map(|n| rawdoc! { "_id": n, "text": "x".repeat(500) }).collect::<Vec<_>>();
    server.client().insert_many("slow.films", &documents, true).unwrap();
    let mut count = Vec::new();
    Count { namespace: "slow.films", skip: 0, limit: 0, filter: &rawdoc! { "text": "y" } }
        .write(&mut count)
        .unwrap();
    let frame = |opcode: u16, request: u64, body: &[u8]| {
        let header = Header { length: body.len() as u32, opcode, flags: 0, request };
        [&header.to_bytes()[..], body].concat()
    };
    let mut fastest = std::time::Duration::MAX;
    for round in 0..20 {
        let id = 10 * round + 1;
        // Executed elsewhere; executed where it is read; and the first bytes of one more, which the reader must not wait for on a thread.
        let last = frame(opcode::PING, id + 2, b"");
        let segment =
            [&frame(opcode::COUNT, id, &count)[..], &frame(opcode::PING, id + 1, b""), &last[..8]].concat();
        socket.send(&segment);
        let began = std::time::Instant::now();
        let mut answered = [socket.frame().unwrap().0.request, socket.frame().unwrap().0.request];
        fastest = fastest.min(began.elapsed());
        answered.sort_unstable();
        assert_eq!(answered, [id, id + 1]);
        socket.send(&last[8..]);
        assert_eq!(socket.frame().unwrap().0.request, id + 2);
    }
    // A thread waits that long.
    assert!(fastest < std::time::Duration::from_millis(45), "{fastest:?}");
}

#[test]
fn a_frame_that_arrives_slowly_delays_no_answer() {
    let server = Server::start();
    let mut socket = server.socket();
    let documents = (0..2_000).map(|n| rawdoc! { "_id": n, "text": "x".repeat(500) }).collect::<Vec<_>>();
    server.client().insert_many("slow.films", &documents, true).unwrap();
    for round in 0..5 {
        let id = 10 * round + 1;
        // Executed elsewhere, with long answers, while the next frame arrives byte by byte.
        let filter = rawdoc! {};
        for n in 0..4 {
            let mut body = Vec::new();
            Find::new("slow.films", &filter).write(&mut body).unwrap();
            socket.request(opcode::FIND, 0, id + n, &body);
        }
        let put = Header { length: 60_000, opcode: opcode::PING, flags: 0, request: id + 4 };
        socket.send(&put.to_bytes());
        let began = std::time::Instant::now();
        for _ in 0..10 {
            socket.send(b"x");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut answered: Vec<_> = (0..4).map(|_| socket.frame().unwrap().0.request).collect();
        answered.sort_unstable();
        assert_eq!(answered, [id, id + 1, id + 2, id + 3]);
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
        socket.send(&vec![b'x'; 59_990]);
        assert_eq!(socket.frame().unwrap().0.request, id + 4);
    }
}
