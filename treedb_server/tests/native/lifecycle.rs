//! Stopping, restarting, peers that stall.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bson::rawdoc;
use treedb_client::{Ack, Call, Client, Error, Find, KvGet, Next, Pull};
use treedb_protocol::bytes::Reader;
use treedb_protocol::frame::{Header, opcode};
use treedb_server::config::{Config, Limits};

use crate::server::{PATIENCE, Server};

#[test]
fn what_was_written_is_there_after_a_stop_and_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::on(dir.path());
    let mut client = server.client();
    client.set_ack(Ack::None);
    client.insert_one("a.b", &rawdoc! { "_id": 1 }).unwrap();
    client.kv_put("t", b"k", b"v").unwrap();
    assert!(server.stop().success());
    let server = Server::on(dir.path());
    let mut client = server.client();
    assert_eq!(client.count("a.b", &rawdoc! {}).unwrap(), 1);
    assert_eq!(client.kv_get("t", b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_stopping_server_says_so_to_idle_clients() {
    let server = Server::start();
    let mut client = server.client();
    client.ping().unwrap();
    let started = Instant::now();
    server.terminate();
    // The farewell is in the socket, or arrives while this call waits.
    let error = loop {
        match client.ping() {
            Ok(()) => assert!(started.elapsed() < Duration::from_secs(10)),
            Err(error) => break error,
        }
    };
    match error {
        Error::Server(error) => assert_eq!(error.code, 91),
        // The request may have crossed the farewell, and found the socket closed.
        Error::Io { .. } => {}
        other => panic!("{other}"),
    }
    assert!(server.wait().success());
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn writes_under_way_when_the_server_stops_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::on(dir.path());
    let mut client = server.client();
    let mut acknowledged = 0_u32;
    let writer = std::thread::spawn(move || {
        while client.kv_put("t", &acknowledged.to_be_bytes(), b"v").is_ok() {
            acknowledged += 1;
        }
        acknowledged
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(server.stop().success());
    let acknowledged = writer.join().unwrap();
    let server = Server::on(dir.path());
    let mut client = server.client();
    for n in 0..acknowledged {
        assert!(client.kv_get("t", &n.to_be_bytes()).unwrap().is_some(), "{n} of {acknowledged}");
    }
    assert!(acknowledged > 0);
}

/// Runs a server inside this process, with limits of its own, while `test` runs.
fn with_limits(limits: Limits, test: impl FnOnce(std::net::SocketAddr)) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        dir: dir.path().to_owned(),
        key: None,
        cache_bytes: None,
        vector_memory: None,
        vector_build_threads: None,
        save_vector_images: true,
        mongo: "127.0.0.1:0".parse().unwrap(),
        replica_set: None,
        advertised: None,
        tls: None,
        authentication: false,
        first_user: None,
        allow_unprotected: Vec::new(),
        compressors: treedb_server::config::Compressors::NONE,
        test_commands: false,
        native: Some("127.0.0.1:0".parse().unwrap()),
        admin: None,
        web_page: None,
        durability: Default::default(),
        changes: Default::default(),
        limits,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(treedb_server::server::Server::bind(config)).unwrap();
    let address = server.addresses().find(|(door, _)| *door == "native").unwrap().1;
    let shutdown = server.shutdown_handle();
    let running = runtime.spawn(server.run());
    test(address);
    shutdown.stop();
    runtime.block_on(running).unwrap().unwrap();
}

#[test]
fn a_peer_that_stalls_in_a_frame_is_cut_off_and_an_idle_one_is_not() {
    let limits = Limits { stall: Duration::from_millis(100), ..Limits::default() };
    with_limits(limits, |address| {
        let mut idle = Client::connect(address).unwrap();
        let half_a_header: &[u8] = &[1, 0];
        let no_body = &Header { length: 10, opcode: opcode::PING, flags: 0, request: 7 }.to_bytes();
        for bytes in [half_a_header, no_body] {
            let mut socket = crate::server::greeted(address);
            socket.send(bytes);
            let (header, _) = socket.frame().expect("an error frame");
            assert_eq!((header.opcode, header.request), (0xffff, 0));
            assert!(socket.frame().is_none());
        }
        let mut silent = crate::server::silent(address);
        assert_eq!(silent.frame().expect("an error frame").0.opcode, 0xffff);
        idle.ping().unwrap();
    });
}

#[test]
fn a_peer_that_does_not_take_its_answers_is_cut_off() {
    let limits = Limits { stall: Duration::from_millis(200), ..Limits::default() };
    with_limits(limits, |address| {
        let mut socket = crate::server::greeted(address);
        // More answers than the sockets hold, none of them taken.
        for request in 1..40 {
            socket.request(opcode::PING, 0, request, &vec![0; 1_000_000]);
        }
        let mut client = Client::connect(address).unwrap();
        client.ping().unwrap();
        std::thread::sleep(Duration::from_millis(600));
        let mut answers = 0;
        while socket.frame().is_some() {
            answers += 1;
        }
        assert!(answers < 39, "{answers}");
    });
}

/// Runs `slow` again and again, and meanwhile `test`.
fn beside(mut slow: impl FnMut() + Send, test: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                slow();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        over.store(true, Ordering::Relaxed);
        tested.unwrap();
    });
}

/// With room for one long message at a time.
fn tight() -> Limits {
    Limits { stall: Duration::from_secs(1), inflight_bytes: 20_000_000, ..Limits::default() }
}

#[test]
fn a_sender_of_a_byte_now_and_then_holds_up_nobody_for_long() {
    with_limits(tight(), |address| {
        let mut client = Client::connect_timeout(address, PATIENCE).unwrap();
        let mut socket = crate::server::greeted(address);
        let put = Header { length: 15_000_000, opcode: opcode::KV_PUT, flags: 0, request: 7 };
        // Enough for a share of the budget, which is that of the whole length.
        socket.send(&[&put.to_bytes()[..], &[0; 65_536]].concat());
        std::thread::sleep(Duration::from_millis(200));
        beside(|| socket.send(b"x"), || client.kv_put("t", b"k", &vec![0; 10_000_000]).unwrap());
    });
}

#[test]
fn a_reader_of_some_bytes_now_and_then_holds_up_nobody_for_long() {
    with_limits(tight(), |address| {
        let mut client = Client::connect_timeout(address, PATIENCE).unwrap();
        let value = vec![7; 15_000_000];
        client.kv_put("t", b"k", &value).unwrap();
        let mut socket = crate::server::greeted(address);
        let mut get = Vec::new();
        KvGet { table: "t", key: b"k" }.frame(7, &mut get).unwrap();
        socket.send(&get);
        std::thread::sleep(Duration::from_millis(200));
        beside(
            || socket.take(10_000),
            || assert!(client.kv_get("t", b"k").unwrap().as_ref() == Some(&value)),
        );
    });
}

/// A server that closes a cursor after 100 ms, with ten documents in `a.b`.
fn with_idle_cursors_closed(test: impl FnOnce(std::net::SocketAddr, Client)) {
    let limits = Limits { cursor_idle: Duration::from_millis(100), ..Limits::default() };
    with_limits(limits, |address| {
        let mut client = Client::connect(address).unwrap();
        let documents: Vec<_> = (0..10).map(|id| rawdoc! { "_id": id }).collect();
        client.insert_many("a.b", &documents, true).unwrap();
        test(address, client);
    });
}

#[test]
fn idle_cursors_are_closed_also_on_a_connection_that_is_busy() {
    with_idle_cursors_closed(|_, mut client| {
        let all = rawdoc! {};
        let cursor = client.call(&Find::new("a.b", &all).batch(1)).unwrap().cursor;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            // The server waits for each on a thread, where it sees nothing else.
            client.ping().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(client.call(&Next { cursor, batch: 1 }).unwrap_err().code(), Some(43));
    });
}

#[test]
fn idle_cursors_are_closed() {
    with_idle_cursors_closed(|_, mut client| {
        let all = rawdoc! {};
        let find = treedb_client::Find::new("a.b", &all).batch(1);
        let mut found = client.find(&find).unwrap();
        assert!(found.next().unwrap().is_ok());
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(found.next().unwrap().unwrap_err().code(), Some(43));
        assert!(found.next().is_none());
    });
}

#[test]
fn a_pull_of_a_cursor_that_is_closed_because_it_is_idle_ends_with_an_error() {
    with_idle_cursors_closed(|address, _| {
        let mut socket = crate::server::greeted(address);
        let mut frame = Vec::new();
        Find::new("a.b", &rawdoc! {}).batch(1).frame(8, &mut frame).unwrap();
        socket.send(&frame);
        let (_, body) = socket.frame().unwrap();
        let cursor = Find::read_answer(&mut Reader::new(&body)).unwrap().cursor;
        frame.clear();
        Pull { cursor, batch: 1, credit: 0 }.frame(9, &mut frame).unwrap();
        socket.send(&frame);
        // The client learns that it has not got everything.
        let (header, body) = socket.frame().unwrap();
        assert_eq!((header.opcode, header.request), (0xffff, 9));
        assert_eq!(body[..4], 43_i32.to_le_bytes());
    });
}

#[test]
fn requests_beyond_the_budget_wait_and_are_answered() {
    let limits = Limits { inflight_bytes: 48_000_000, ..Limits::default() };
    with_limits(limits, |address| {
        let threads: Vec<_> = (0..4_u8)
            .map(|n| {
                std::thread::spawn(move || {
                    let mut client = Client::connect(address).unwrap();
                    let value = vec![n; 20_000_000];
                    client.set_ack(Ack::Relaxed);
                    for _ in 0..2 {
                        client.kv_put("t", &[n], &value).unwrap();
                        assert!(client.kv_get("t", &[n]).unwrap().as_ref() == Some(&value));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
