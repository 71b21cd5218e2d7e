//! Requests round-trip; every shortened or altered form of them is an error or another valid
//! request, never a panic.

use bson::{RawDocumentBuf, rawdoc};

use super::*;
use crate::frame::HEADER;

/// One frame of every request, with every optional part there.
fn frames() -> Vec<Vec<u8>> {
    let (id, filter, other) = (rawdoc! { "_id": 7 }, rawdoc! { "a": { "$gt": 1 } }, rawdoc! { "b": -1 });
    let mut frames = Vec::new();
    fn add(frames: &mut Vec<Vec<u8>>, call: impl Call) {
        let mut out = Vec::new();
        call.frame(0xabcd, &mut out).unwrap();
        frames.push(out);
    }
    let namespace = "db.coll";
    let ack = Ack::Relaxed;
    add(&mut frames, Ping { payload: b"are you there" });
    add(&mut frames, Authenticate { database: "admin", mechanism: "SCRAM-SHA-256", payload: b"n,,n=a,r=b" });
    add(&mut frames, Prove { exchange: 7, payload: b"c=biws" });
    for shape in [
        Shape::Get,
        Shape::Insert(&filter),
        Shape::Find { filter: &filter, sort: Some(&other), projection: Some(&id) },
        Shape::Update { filter: &filter, update: &other },
        Shape::Delete(&filter),
        Shape::Count(&filter),
    ] {
        add(&mut frames, Prepare { namespace, shape });
    }
    add(&mut frames, Forget { statement: 3 });
    add(&mut frames, Pull { cursor: 5, batch: 10, credit: 4 });
    add(&mut frames, Credit { cursor: 5, batches: 2 });
    add(&mut frames, Insert { namespace, documents: vec![&id, &filter], ordered: false, ack });
    add(&mut frames, Get { namespace, id: &id });
    add(
        &mut frames,
        Find {
            namespace,
            batch: 3,
            skip: 4,
            limit: 5,
            filter: &filter,
            sort: Some(&other),
            projection: Some(&id),
        },
    );
    add(&mut frames, Next { cursor: 1 << 40, batch: 9 });
    add(&mut frames, Close { cursor: 77 });
    add(&mut frames, Update { namespace, filter: &filter, update: &other, multi: true, upsert: true, ack });
    add(&mut frames, Delete { namespace, limit: 1, filter: &filter, ack });
    add(&mut frames, Count { namespace, skip: 1, limit: 2, filter: &filter });
    let vector = vec![0.5, -1.0, f32::MAX];
    for (exact, projection, within) in [
        (true, None, None),
        (false, Some(&*id), None),
        (false, None, Some(0.5)),
        (true, Some(&*id), Some(2.0)),
    ] {
        let (index, limit, candidates, vector) = ("near", 5, 50, vector.clone());
        add(
            &mut frames,
            VectorSearch {
                namespace,
                index,
                limit,
                candidates,
                exact,
                vector,
                filter: &filter,
                projection,
                within,
                path: within.map(|_| "a.v"),
            },
        );
    }
    add(&mut frames, CreateIndex { namespace, spec: &filter });
    for every_kind in [false, true] {
        add(&mut frames, ListIndexes { namespace, every_kind });
    }
    add(&mut frames, DropIndex { namespace, name: "near" });
    add(&mut frames, UpdateSearchIndex { namespace, name: "near", definition: &other });
    add(&mut frames, KvGet { table: "t", key: b"k" });
    add(&mut frames, KvPut { table: "t", key: b"", value: b"v", ack });
    add(&mut frames, KvDelete { table: "t", key: b"k", ack });
    let (low, high) = (Bound::Included(&b"a"[..]), Bound::Excluded(&b"z"[..]));
    add(&mut frames, KvRange { table: "t", low, high, entries: 10, bytes: 11, descending: true });
    add(&mut frames, KvBatch { table: "t", ops: vec![Op::Put(b"k", b"v"), Op::Delete(b"k")], ack });
    frames
}

fn parts(frame: &[u8]) -> (Header, &[u8]) {
    (Header::from_bytes(frame[..HEADER].try_into().unwrap()), &frame[HEADER..])
}

#[test]
fn every_request_is_read_as_it_was_written() {
    for frame in frames() {
        let (header, body) = parts(&frame);
        assert_eq!((header.length as usize, header.request), (body.len(), 0xabcd));
        let request = Request::read(&header, body).unwrap().unwrap();
        let mut again = Vec::new();
        match request {
            Request::Ping(call) => call.frame(0xabcd, &mut again),
            Request::Authenticate(call) => call.frame(0xabcd, &mut again),
            Request::Prove(call) => call.frame(0xabcd, &mut again),
            Request::Prepare(call) => call.frame(0xabcd, &mut again),
            // Another type on each side.
            Request::Execute(_) => continue,
            Request::Forget(call) => call.frame(0xabcd, &mut again),
            Request::Pull(call) => call.frame(0xabcd, &mut again),
            Request::Credit(call) => call.frame(0xabcd, &mut again),
            Request::Insert(call) => call.frame(0xabcd, &mut again),
            Request::Get(call) => call.frame(0xabcd, &mut again),
            Request::Find(call) => call.frame(0xabcd, &mut again),
            Request::Next(call) => call.frame(0xabcd, &mut again),
            Request::Close(call) => call.frame(0xabcd, &mut again),
            Request::Update(call) => call.frame(0xabcd, &mut again),
            Request::Delete(call) => call.frame(0xabcd, &mut again),
            Request::Count(call) => call.frame(0xabcd, &mut again),
            Request::VectorSearch(call) => call.frame(0xabcd, &mut again),
            Request::CreateIndex(call) => call.frame(0xabcd, &mut again),
            Request::ListIndexes(call) => call.frame(0xabcd, &mut again),
            Request::DropIndex(call) => call.frame(0xabcd, &mut again),
            Request::UpdateSearchIndex(call) => call.frame(0xabcd, &mut again),
            Request::KvGet(call) => call.frame(0xabcd, &mut again),
            Request::KvPut(call) => call.frame(0xabcd, &mut again),
            Request::KvDelete(call) => call.frame(0xabcd, &mut again),
            Request::KvRange(call) => call.frame(0xabcd, &mut again),
            Request::KvBatch(call) => call.frame(0xabcd, &mut again),
        }
        .unwrap();
        assert_eq!(again, frame);
    }
}

#[test]
fn a_request_cut_anywhere_or_with_a_byte_too_many_is_refused() {
    for frame in frames() {
        let (header, body) = parts(&frame);
        if header.opcode == opcode::PING {
            continue; // any body is a ping
        }
        for cut in 0..body.len() {
            assert!(Request::read(&header, &body[..cut]).is_err(), "{header:?} cut at {cut}");
        }
        let longer = [body, &[0]].concat();
        assert!(Request::read(&header, &longer).is_err(), "{header:?} with a byte too many");
    }
}

#[test]
fn any_flipped_bit_is_read_without_a_panic() {
    for frame in frames() {
        for bit in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (header, body) = parts(&bad);
            drop(Request::read(&header, body));
        }
    }
}

#[test]
fn flags_that_an_opcode_does_not_have_are_refused() {
    for frame in frames() {
        let (mut header, body) = parts(&frame);
        header.flags |= 1 << 9;
        assert_eq!(Request::read(&header, body).unwrap_err().field, "flags", "{header:?}");
    }
}

#[test]
fn an_unknown_opcode_is_told_from_a_bad_body() {
    let header = Header { length: 0, opcode: 0x77, flags: 0, request: 1 };
    assert!(Request::read(&header, &[]).unwrap().is_none());
}

#[test]
fn an_insert_of_nothing_and_a_get_of_more_than_an_id_are_refused() {
    let mut body = vec![1, 0, b'x', 0, 0, 0, 0];
    let header = Header { length: 0, opcode: opcode::INSERT, flags: 0, request: 1 };
    assert_eq!(Request::read(&header, &body).unwrap_err().what, "must be 1 to 100000, are 0");
    for id in [rawdoc! {}, rawdoc! { "id": 1 }, rawdoc! { "_id": 1, "b": 1 }] {
        body.truncate(3);
        body.extend_from_slice(id.as_bytes());
        let header = Header { opcode: opcode::GET, ..header };
        assert_eq!(Request::read(&header, &body).unwrap_err().what, "must be a document of one field, `_id`");
    }
}

fn answer<C: Call>(body: &[u8]) -> C::Answer {
    let mut reader = Reader::new(body);
    let answer = C::read_answer(&mut reader).unwrap();
    reader.finish().unwrap();
    for cut in 0..body.len() {
        assert!(C::read_answer(&mut Reader::new(&body[..cut])).is_err(), "cut at {cut}");
    }
    answer
}

#[test]
fn every_answer_is_read_as_it_was_written_and_refused_when_cut() {
    let doc = rawdoc! { "_id": 1, "a": "b" };
    let mut out = Vec::new();
    let welcome = Welcome { version: 1, max_body: 5, max_requests: 6, server: "0.1.0".into() };
    welcome.answer(&mut out).unwrap();
    assert_eq!(answer::<Hello>(&out), welcome);

    out.clear();
    let error =
        crate::ErrorFrame { code: 11000, name: "DuplicateKey".to_owned(), message: "E11000".to_owned() };
    let inserted = Inserted { count: 3, errors: vec![DocumentError { index: 2, error }] };
    inserted.answer(&mut out).unwrap();
    assert_eq!(answer::<Insert<'_>>(&out), inserted);

    out.clear();
    let updated = Updated { matched: 1, modified: 2, upserted: Some(doc.clone()) };
    updated.answer(&mut out);
    assert_eq!(answer::<Update<'_>>(&out), updated);

    for found in [Some(doc.clone()), None] {
        out.clear();
        Get::answer(found.as_deref(), &mut out);
        assert_eq!(answer::<Get<'_>>(&out), found);
    }
    for value in [Some(b"value".to_vec()), Some(Vec::new()), None] {
        out.clear();
        KvGet::answer(value.as_deref(), &mut out).unwrap();
        assert_eq!(answer::<KvGet<'_>>(&out), value);
    }

    out.clear();
    let mut writer = BatchWriter::new(&mut out);
    writer.push(&doc, &mut out);
    writer.push(&RawDocumentBuf::new(), &mut out);
    writer.finish(99, &mut out);
    assert_eq!(answer::<Find<'_>>(&out), Batch { cursor: 99, documents: vec![doc, RawDocumentBuf::new()] });

    out.clear();
    let mut writer = EntriesWriter::new(&mut out);
    writer.push(b"k", b"v", &mut out).unwrap();
    writer.finish(true, &mut out);
    assert_eq!(
        answer::<KvRange<'_>>(&out),
        Entries { more: true, entries: vec![(b"k".to_vec(), b"v".to_vec())] }
    );
}

#[test]
fn a_greeting_must_have_the_magic_and_nothing_behind_the_versions() {
    let mut out = Vec::new();
    Hello { oldest: 1, newest: 2 }.write(&mut out).unwrap();
    assert_eq!(Hello::read(&out).unwrap(), Hello { oldest: 1, newest: 2 });
    assert!(Hello::read(&out[..11]).is_err());
    assert!(Hello::read(&[&out[..], &[0]].concat()).is_err());
    out[0] = b't';
    let error = Hello::read(&out).unwrap_err();
    assert_eq!(error.what, r#"expected "TREEDB\\r\\n", found "tREEDB\\r\\n""#);
}

#[test]
fn the_example_of_the_documentation_is_what_is_sent() {
    let mut out = Vec::new();
    KvGet { table: "t", key: b"k" }.frame(7, &mut out).unwrap();
    let request = b"\x08\0\0\0\x20\0\0\0\x07\0\0\0\0\0\0\0\x01\0t\x01\0\0\0k";
    assert_eq!(out, request);
    out.clear();
    let answer = |out: &mut Vec<u8>| KvGet::answer(Some(b"v"), out);
    frame::put(&mut out, opcode::KV_GET | frame::ANSWER, 0, 7, answer).unwrap();
    assert_eq!(out, b"\x06\0\0\0\x20\x80\0\0\x07\0\0\0\0\0\0\0\x01\x01\0\0\0v");
}
