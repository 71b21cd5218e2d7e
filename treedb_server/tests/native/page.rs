//! The examples of docs/native-protocol.md against the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use bson::rawdoc;

use crate::server::{PATIENCE, Server};

/// Who sends the bytes of an example.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sender {
    Client,
    Server,
}

/// The frames of the block of bytes on the page.
fn frames() -> Vec<(Sender, Vec<u8>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/native-protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once("```bytes\n").expect("a block of bytes");
    let (block, _) = block.split_once("```").unwrap();
    let mut frames: Vec<(Sender, Vec<u8>)> = Vec::new();
    for line in block.lines() {
        let (sender, rest) = line.split_at(2);
        match sender {
            "> " => frames.push((Sender::Client, Vec::new())),
            "< " => frames.push((Sender::Server, Vec::new())),
            _ => {}
        }
        // What the bytes are follows after at least two spaces.
        let bytes =
            rest.split("  ").next().unwrap().split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap());
        frames.last_mut().unwrap().1.extend(bytes);
    }
    frames
}

#[test]
fn the_bytes_on_the_page_are_what_client_and_server_send() {
    let server = Server::start();
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let frames = frames();
    assert_eq!(frames.len(), 14);
    for (at, (sender, bytes)) in frames.iter().enumerate() {
        match sender {
            Sender::Client => socket.write_all(bytes).unwrap(),
            Sender::Server => {
                let mut received = vec![0; bytes.len()];
                socket.read_exact(&mut received).unwrap();
                assert_eq!(received, *bytes, "frame {at}");
            }
        }
    }
    assert_eq!(server.client().get("a.b", 1).unwrap().unwrap(), rawdoc! { "_id": 1, "n": 7 });
    assert_eq!(server.client().kv_get("t", b"k").unwrap().as_deref(), Some(&b"v"[..]));
}
