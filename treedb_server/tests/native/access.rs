//! A server that asks for passwords: what a native client may do before and after it has authenticated.

use std::path::Path;

use bson::{RawDocumentBuf, rawdoc};
use treedb_client::{Bound, Client, Credit, Error, Find, Op, Ping, Pull};
use treedb_protocol::frame::{CLOSING, ERROR, opcode};

use crate::server::Server;

/// The code of the error, or `None`.
fn code<T>(done: Result<T, Error>) -> Option<i32> {
    done.err().map(|error| error.code().expect("an error of the server"))
}

/// Tries every kind of request that reads; returns the codes of their errors.
fn reads(client: &mut Client) -> Vec<Option<i32>> {
    let all = rawdoc! {};
    vec![
        code(client.get("shop.orders", 1)),
        code(client.find(&Find::new("shop.orders", &all)).and_then(Iterator::collect::<Result<Vec<_>, _>>)),
        code(client.count("shop.orders", &all)),
    ]
}

/// Tries every kind of request that writes.
fn writes(client: &mut Client) -> Vec<Option<i32>> {
    let (all, set) = (rawdoc! { "_id": 7 }, rawdoc! { "$set": { "a": 1 } });
    vec![
        code(client.insert_one("shop.orders", &rawdoc! { "a": 1 })),
        code(client.update_one("shop.orders", &all, &set)),
        code(client.delete("shop.orders", &all, 0)),
    ]
}

/// Tries the tables of keys and values.
fn tables(client: &mut Client) -> Vec<Option<i32>> {
    vec![
        code(client.kv_put("t", b"k", b"v")),
        code(client.kv_get("t", b"k")),
        code(client.kv_batch("t", vec![Op::Put(b"k", b"w"), Op::Delete(b"x")])),
        code(client.kv_range("t", Bound::Unbounded, Bound::Unbounded, false).collect::<Result<Vec<_>, _>>()),
        code(client.kv_delete("t", b"k")),
    ]
}

/// A server with the user `root` and the password `secret`.
fn locked(dir: &Path) -> Server {
    let password = dir.join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let password = password.to_str().unwrap();
    let flags = ["--auth", "--root-user", "root", "--root-password-file", password];
    Server::with_flags(&dir.join("data"), &flags)
}

#[test]
fn before_authentication_only_short_frames_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = locked(dir.path());
    let mut nobody = server.socket();
    nobody.request(opcode::PING, 0, 2, &[0; 65_536]);
    assert_eq!(nobody.frame().unwrap().1.len(), 65_536);
    nobody.request(opcode::PING, 0, 3, &[0; 65_537]);
    let (header, body) = nobody.frame().unwrap();
    assert_eq!((header.opcode, header.flags, header.request), (ERROR, CLOSING, 0));
    assert_eq!(body[..4], 17_i32.to_le_bytes());
    assert!(nobody.frame().is_none(), "the connection has ended");
    let mut root = server.client();
    root.authenticate("admin", "root", "secret").unwrap();
    assert_eq!(root.call(&Ping { payload: &[0; 65_537] }).unwrap().len(), 65_537);
}

#[test]
fn a_native_client_may_do_what_its_user_may() {
    let dir = tempfile::tempdir().unwrap();
    let server = locked(dir.path());

    let mut nobody = server.client();
    nobody.ping().unwrap();
    let refused = |codes: Vec<Option<i32>>| codes.iter().all(|code| *code == Some(13));
    assert!(refused(reads(&mut nobody)) && refused(writes(&mut nobody)) && refused(tables(&mut nobody)));
    assert_eq!(code(nobody.call(&Pull { cursor: 1, batch: 0, credit: 1 })), Some(13));
    assert!(!nobody.call(&Credit { cursor: 1, batches: 1 }).unwrap());
    assert_eq!(code(nobody.authenticate("admin", "root", "wrong")), Some(18));
    assert_eq!(code(nobody.authenticate("admin", "nobody", "secret")), Some(18));
    assert!(refused(reads(&mut nobody)));

    let mut root = server.client();
    root.authenticate("admin", "root", "secret").unwrap();
    let done = |codes: Vec<Option<i32>>| codes.iter().all(Option::is_none);
    assert!(done(reads(&mut root)) && done(writes(&mut root)) && done(tables(&mut root)));
    // The tables of the server itself are none that a client can name.
    root.kv_put("server/users", b"admin.root", b"").unwrap();
    server.client().authenticate("admin", "root", "secret").unwrap();
    let _: Option<RawDocumentBuf> = root.get("shop.orders", 1).unwrap();
}
