//! Keys and values through the client.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use treedb_client::{Client, KvRange, Op};

use crate::server::Server;

#[test]
fn keys_are_put_got_and_deleted_and_empty_ones_are_keys_too() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.kv_get("t", b"k").unwrap(), None);
    assert!(!client.kv_delete("t", b"k").unwrap());
    client.kv_put("t", b"k", b"v").unwrap();
    client.kv_put("t", b"", b"").unwrap();
    client.kv_put("t", b"k", b"w").unwrap();
    assert_eq!(client.kv_get("t", b"k").unwrap().as_deref(), Some(&b"w"[..]));
    assert_eq!(client.kv_get("t", b"").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(client.kv_get("other", b"k").unwrap(), None);
    assert!(client.kv_delete("t", b"k").unwrap());
    assert_eq!(client.kv_get("t", b"k").unwrap(), None);
}

#[test]
fn values_of_any_size_that_fits_a_frame_come_back_whole() {
    let server = Server::start();
    let mut client = server.client();
    for size in [1, 1_000, 5_000, 1_000_000, 47_000_000] {
        let value: Vec<u8> = (0..size).map(|n: u32| n as u8).collect();
        client.kv_put("t", b"k", &value).unwrap();
        assert!(client.kv_get("t", b"k").unwrap().as_ref() == Some(&value), "{size} bytes");
    }
}

#[test]
fn bad_keys_and_tables_are_errors_with_codes() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.kv_put("t", &[0; 5_000], b"v").unwrap_err().code(), Some(17280));
    assert_eq!(client.kv_get("", b"k").unwrap_err().code(), Some(2));
    assert_eq!(client.kv_put(&"t".repeat(60_000), b"k", b"v").unwrap_err().code(), Some(2));
    let ops = vec![Op::Put(b"a", b"1"), Op::Put(&[0; 5_000], b"2")];
    assert_eq!(client.kv_batch("t", ops).unwrap_err().code(), Some(17280));
    assert_eq!(client.kv_get("t", b"a").unwrap(), None, "a batch is all or nothing");
}

#[test]
fn ranges_agree_with_a_map_both_ways_whatever_their_ends() {
    let server = Server::start();
    let mut client = server.client();
    let mut map = BTreeMap::new();
    for n in 0..9_000_u32 {
        map.insert((n * 3).to_be_bytes().to_vec(), n.to_string().into_bytes());
    }
    client.kv_batch("t", map.iter().map(|(key, value)| Op::Put(key, value)).collect()).unwrap();
    let (low, high) = (300_u32.to_be_bytes(), 20_001_u32.to_be_bytes());
    for (low, high) in [
        (Unbounded, Unbounded),
        (Included(&low[..]), Excluded(&high[..])),
        (Excluded(&low[..]), Included(&high[..])),
        (Included(&high[..]), Excluded(&high[..])),
        (Unbounded, Excluded(&b""[..])),
    ] {
        let expected: Vec<_> = map
            .iter()
            .filter(|(key, _)| std::ops::RangeBounds::<[u8]>::contains(&(low, high), key.as_slice()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let pairs = |client: &mut Client, descending| -> Vec<_> {
            client.kv_range("t", low, high, descending).map(Result::unwrap).collect()
        };
        assert!(pairs(&mut client, false) == expected, "{low:?} {high:?}");
        let reversed: Vec<_> = expected.into_iter().rev().collect();
        assert!(pairs(&mut client, true) == reversed, "{low:?} {high:?} descending");
    }
    assert_eq!(client.kv_range("none", Unbounded, Unbounded, false).count(), 0);
}

#[test]
fn a_range_keeps_to_the_sizes_it_was_asked_for() {
    let server = Server::start();
    let mut client = server.client();
    for n in 0..10_u8 {
        client.kv_put("t", &[n], &[0; 100]).unwrap();
    }
    let all =
        KvRange { table: "t", low: Unbounded, high: Unbounded, entries: 3, bytes: 0, descending: false };
    let answer = client.call(&all).unwrap();
    assert_eq!((answer.entries.len(), answer.more), (3, true));
    let answer = client.call(&KvRange { entries: 0, bytes: 250, ..all }).unwrap();
    assert_eq!((answer.entries.len(), answer.more), (2, true));
    let answer = client.call(&KvRange { entries: 10, ..all }).unwrap();
    assert_eq!((answer.entries.len(), answer.more), (10, false));
    let answer = client.call(&KvRange { bytes: 1, ..all }).unwrap();
    assert_eq!((answer.entries.len(), answer.more), (1, true), "one entry always fits");
}
