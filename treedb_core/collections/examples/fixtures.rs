//! Writes the databases that `tests/fixtures` opens, in the present format:
//! `cargo run -p treedb_collections --example fixtures -- treedb_core/collections/tests/fixtures/vN`
//!
//! Each is written in part before a checkpoint and in part after it, and packed while it is open, as a process that dies leaves
//! it. Its contents are read again and compared with the expected ones before they are stored next to it.

#[path = "../tests/fixtures/archive.rs"]
#[expect(dead_code, reason = "the test unpacks")]
mod archive;
#[path = "../tests/fixtures/contents.rs"]
#[expect(dead_code, reason = "the test reads")]
mod contents;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use contents::Result;
use treedb_collections::bson::raw::{RawArrayBuf, RawBson, cstr};
use treedb_collections::bson::{self, Bson, Document, RawDocumentBuf, doc, rawdoc};
use treedb_collections::{
    ChangeLogOptions, Collection, Database, DeleteRequest, Format, IndexSpec, UpdateRequest,
};
use treedb_storage::{Store, TableKind, WriteTxn};
use treedb_testing::Rng;

/// Documents by their collection and `_id`.
type Model = BTreeMap<(String, i32), RawDocumentBuf>;

/// A value of each type, by turns.
fn value(rng: &mut Rng, n: i32) -> Result<RawBson> {
    let code = "function () { return 1; }".to_owned();
    Ok(match n % 20 {
        0 => RawBson::Double(f64::from(n) / 7.0),
        1 => RawBson::String(format!("film number {n}")),
        2 => rawdoc! { "city": "Oslo", "number": n, "where": { "x": 1.5, "y": [1, 2] } }.into(),
        3 => (0..4).map(|_| rng.below(9) as i32).collect::<RawArrayBuf>().into(),
        4 => bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![n as u8; 16] }.into(),
        5 => bson::oid::ObjectId::from_bytes([n as u8; 12]).into(),
        6 => (n % 40 < 20).into(),
        7 => bson::DateTime::from_millis(i64::from(n) * 86_400_000).into(),
        8 => RawBson::Null,
        9 => bson::Regex { pattern: cstr!("^a.*b$").into(), options: cstr!("im").into() }.into(),
        10 => RawBson::JavaScriptCode(code),
        11 => RawBson::Symbol("symbol".to_owned()),
        12 => bson::raw::RawJavaScriptCodeWithScope { code, scope: rawdoc! { "n": n } }.into(),
        13 => n.into(),
        14 => bson::Timestamp { time: n as u32, increment: 3 }.into(),
        15 => (i64::from(n) << 40).into(),
        16 => format!("{n}.2500").parse::<bson::Decimal128>()?.into(),
        17 => RawBson::MinKey,
        18 => RawBson::MaxKey,
        _ => RawBson::Undefined,
    })
}

/// A document: a value of every kind of index, some fields that come and go, a large value now and then.
fn document(rng: &mut Rng, n: i32) -> Result<RawDocumentBuf> {
    let mut made = rawdoc! {
        "_id": n, "number": n % 7, "mail": format!("user{n:03}@example.com"), "name": *rng.pick(&["Åsa", "asa", "Bo", "BO", "zoë"]),
        "tags": (0..n % 4).map(|at| at * 3 % 5).collect::<RawArrayBuf>(),
        "ends": bson::DateTime::from_millis(7_000_000_000_000 + i64::from(n)),
    };
    made.append(cstr!("any"), value(rng, n)?);
    if n % 6 != 2 {
        let mut vector = || (0..5).map(|_| rng.below(100) as i32 - 50).collect::<RawArrayBuf>();
        let value: RawArrayBuf = if n % 4 == 0 { (0..n % 5).map(|_| vector()).collect() } else { vector() };
        made.append(cstr!("vector"), value);
        // 13 bits.
        let bytes = vec![0x10, 3, rng.next_u64() as u8, (rng.next_u64() as u8) << 3];
        made.append(cstr!("bits"), bson::Binary { subtype: bson::spec::BinarySubtype::from(9), bytes });
    }
    if n % 3 == 0 {
        made.append(cstr!("sometimes"), RawBson::Int32(n));
        let (lng, lat) = (f64::from(n) * 2.5 - 90.0, f64::from(n % 80));
        made.append(cstr!("spot"), bson::rawbson!([lng, lat]));
        let place = match n % 2 {
            0 => rawdoc! { "type": "Point", "coordinates": [lng, lat] },
            _ => rawdoc! { "type": "LineString", "coordinates": [[lng, lat], [lng + 1.0, lat - 1.0]] },
        };
        made.append(cstr!("place"), place);
    }
    if n % 11 == 5 {
        // Longer than an entry may be, and equal for longer than that.
        made.append(cstr!("long"), format!("{}{n}", "key ".repeat(700)));
    }
    if n % 17 == 4 {
        let large: Vec<u8> = (0..2500).map(|_| rng.next_u64() as u8).collect();
        made.append(
            cstr!("large"),
            bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: large },
        );
    }
    Ok(made)
}

/// Every kind of index there is.
fn indexes() -> Vec<IndexSpec> {
    let english = || rawdoc! { "locale": "en", "strength": 1 };
    vec![
        IndexSpec::new(rawdoc! { "number": 1, "mail": -1 }),
        IndexSpec::new(rawdoc! { "mail": 1 }).unique(),
        IndexSpec::new(rawdoc! { "tags": 1, "number": 1 }),
        IndexSpec::new(rawdoc! { "sometimes": 1 }).sparse(),
        IndexSpec::new(rawdoc! { "any": 1 }).name("partial").partial(rawdoc! { "number": { "$gt": 2 } }),
        IndexSpec::new(rawdoc! { "any": -1 }),
        IndexSpec::new(rawdoc! { "ends": 1 }).expire_after(3600),
        IndexSpec::new(rawdoc! { "any.$**": 1 }),
        IndexSpec::new(rawdoc! { "mail": "hashed" }),
        IndexSpec::new(rawdoc! { "name": 1 }).collation(english()),
        IndexSpec::new(rawdoc! { "long": 1 }),
        IndexSpec::new(rawdoc! { "number": -1 }).hidden(),
        IndexSpec::from_document(&rawdoc! { "key": { "any": 1, "number": 1 }, "background": true }),
        IndexSpec::new(rawdoc! { "place": "2dsphere", "number": 1 }),
        IndexSpec::new(rawdoc! { "spot": "2d" }),
        IndexSpec::vector(rawdoc! { "path": "vector", "numDimensions": 5, "similarity": "cosine" }),
        IndexSpec::vector(rawdoc! {
            "path": "vector", "numDimensions": 5, "similarity": "euclidean", "quantization": "none",
            "hnswOptions": { "maxEdges": 4 },
        })
        .name("distances"),
        IndexSpec::vector(rawdoc! { "path": "bits", "numDimensions": 13, "similarity": "hamming" }),
        IndexSpec::vector(rawdoc! {
            "path": "vector", "numDimensions": 5, "similarity": "dotProduct", "quantization": "none", "elements": "float16",
        })
        .name("halves"),
        IndexSpec::vector(rawdoc! { "path": "vector", "numDimensions": 5, "similarity": "manhattan", "elements": "int8" })
            .name("bytes"),
    ]
}

fn insert(model: &mut Model, to: &Collection, documents: Vec<RawDocumentBuf>) -> Result<()> {
    to.insert_many(&documents, true)?;
    for document in documents {
        model.insert((to.namespace().to_string(), document.get_i32("_id")?), document);
    }
    Ok(())
}

/// A document with a field changed as `$set` does it.
fn changed(document: &RawDocumentBuf, field: &str, value: Bson) -> Result<RawDocumentBuf> {
    let mut changed = Document::try_from(&**document)?;
    changed.insert(field, value);
    Ok(RawDocumentBuf::try_from(&changed)?)
}

/// Inserts, updates and deletes documents `from..to` of the collection with all indexes.
fn work(rng: &mut Rng, model: &mut Model, things: &Collection, from: i32, to: i32) -> Result<()> {
    let documents = (from..to).map(|n| document(rng, n)).collect::<Result<Vec<_>>>()?;
    insert(model, things, documents)?;
    for n in (from..to).step_by(5) {
        let key = (things.namespace().to_string(), n);
        if n % 2 == 0 {
            things.delete(DeleteRequest::one(rawdoc! { "_id": n }))?;
            model.remove(&key);
        } else {
            let set = rawdoc! { "$set": { "number": n + 100 } };
            things.update(UpdateRequest::one(rawdoc! { "_id": n }, set))?;
            let old = model.get(&key).ok_or("the document to change is there")?;
            let new = changed(old, "number", Bson::Int32(n + 100))?;
            model.insert(key, new);
        }
    }
    Ok(())
}

fn collections(folder: &Path, name: &str, count: i32) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let database = Database::open_with(dir.path(), contents::options(name.starts_with("encrypted")))?;
    // Not cut as the years go by.
    let keep = Duration::from_secs(1000 * 365 * 86_400);
    database.record_changes(Some(ChangeLogOptions { keep, ..ChangeLogOptions::default() }))?;
    let (mut rng, mut model) = (Rng::new(1), Model::new());
    let things = database.collection("shop.things")?;
    let plain = database.create_collection("shop.plain", Format::Bson.options())?;
    let texts = database.create_collection("shop.texts", Format::Json.options())?;
    let swedish = doc! { "collation": { "locale": "sv", "strength": 2 } };
    let words = database.create_collection("words.swedish", swedish)?;
    things.create_indexes(&indexes())?;
    words.create_index(rawdoc! { "name": 1 })?;
    insert(&mut model, &plain, (0..5).map(|n| document(&mut rng, n)).collect::<Result<_>>()?)?;
    insert(&mut model, &words, (0..8).map(|n| document(&mut rng, n)).collect::<Result<_>>()?)?;
    texts.insert_json("{\"_id\": 1,  \"b\" : [1.50, null, {}]}")?;
    model.insert(("shop.texts".to_owned(), 1), rawdoc! { "_id": 1, "b": [1.5, RawBson::Null, rawdoc! {}] });
    insert(&mut model, &texts, vec![rawdoc! { "_id": 2, "not in JSON": RawBson::MinKey }])?;
    work(&mut rng, &mut model, &things, 0, count)?;
    insert(&mut Model::new(), &database.collection("shop.gone")?, vec![rawdoc! { "_id": 1 }])?;
    database.checkpoint()?;
    work(&mut rng, &mut model, &things, count, 2 * count)?;
    database.drop_collection("shop.gone")?;
    let capped = doc! { "capped": true, "size": 1024, "max": 4 };
    let log = database.create_collection("shop.last", capped)?;
    log.insert_many(&(0..7).map(|n| rawdoc! { "_id": n }).collect::<Vec<_>>(), true)?;
    for n in 3..7 {
        model.insert(("shop.renamed".to_owned(), n), rawdoc! { "_id": n });
    }
    log.rename("shop.renamed", false)?;
    let clustered = doc! { "clusteredIndex": { "key": { "_id": 1 }, "unique": true, "name": "by id" } };
    insert(
        &mut model,
        &database.create_collection("shop.clustered", clustered)?,
        vec![rawdoc! { "_id": 1 }],
    )?;
    let series =
        doc! { "timeseries": { "timeField": "at", "metaField": "of" }, "expireAfterSeconds": 1_000_000_000 };
    let measured = rawdoc! { "_id": 1, "at": bson::DateTime::from_millis(7_000_000_000_000), "of": "x" };
    insert(&mut model, &database.create_collection("shop.series", series)?, vec![measured])?;
    database.create_view("shop.view", "renamed", vec![doc! { "$match": { "_id": { "$gt": 4 } } }])?;
    for n in 5..7 {
        model.insert(("shop.view".to_owned(), n), rawdoc! { "_id": n });
    }
    plain.create_index(rawdoc! { "number": 1 })?;
    plain.create_index(rawdoc! { "gone": 1 })?;
    plain.drop_index("gone_1")?;
    database.modify_collection("shop.plain", doc! { "validationLevel": "moderate" })?;
    texts.insert_json("{ \"_id\": 3, \"after\": \"the checkpoint\" }")?;
    model.insert(("shop.texts".to_owned(), 3), rawdoc! { "_id": 3, "after": "the checkpoint" });

    let packed = archive::pack(dir.path())?;
    let held = contents::of_collections(&database)?;
    let mut found = Model::new();
    for entry in &held {
        if let Some(document) = entry.get("document")?.and_then(|document| document.as_document()) {
            found.insert(
                (entry.get_str("collection")?.to_owned(), document.get_i32("_id")?),
                document.to_owned(),
            );
        }
    }
    if found != model {
        return Err("what is found is not what was written".into());
    }
    if name == "collections" {
        database.store().backup(&mut std::fs::File::create(folder.join("collections.stream"))?, |_| {})?;
    }
    std::fs::write(folder.join(name).with_extension("archive"), packed)?;
    contents::write(&folder.join(name).with_extension("bson"), &held)
}

/// Keys with values, numbered rows and pairs, some of them changed and deleted again.
fn change(txn: &mut WriteTxn, rng: &mut Rng, round: u64) -> Result<()> {
    let keys = txn.open_table("keys", TableKind::Ordered)?;
    let rows = txn.open_table("rows", TableKind::Rows)?;
    let pairs = txn.open_table("pairs", TableKind::Dup)?;
    let bytes = |rng: &mut Rng, len: usize| (0..len).map(|_| rng.below(3) as u8).collect::<Vec<u8>>();
    for n in 0..36 {
        let key = format!("common prefix/{:03}", (round * 31 + n * 7) % 150);
        let len = [0, 3, 60, 300, 1200][rng.below(5)];
        txn.put(&keys, key.as_bytes(), &bytes(rng, len))?;
        txn.append_row(&rows, &bytes(rng, len / 4))?;
        // Some keys have a few values, one has so many that they get a tree of their own.
        let of = if n % 3 == 0 { "many".to_owned() } else { format!("few {}", n % 10) };
        txn.put_pair(&pairs, of.as_bytes(), format!("{round} value number {n} of this key").as_bytes())?;
    }
    for n in 0..10 {
        txn.delete(&keys, format!("common prefix/{:03}", (round * 13 + n * 11) % 150).as_bytes())?;
        txn.delete_row(&rows, round * 20 + n * 2 + 1)?;
        txn.delete_pair(&pairs, b"many", format!("{round} value number {} of this key", n * 3).as_bytes())?;
    }
    Ok(())
}

fn tables(folder: &Path) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = Store::open_with(dir.path(), contents::options(false))?;
    let mut rng = Rng::new(2);
    for round in 0..6 {
        if round == 3 {
            store.checkpoint()?;
        }
        let mut txn = store.begin_write()?;
        change(&mut txn, &mut rng, round)?;
        if round == 2 || round == 5 {
            txn.create_table(&format!("empty {round}"), TableKind::Ordered)?;
        }
        txn.commit()?;
    }
    let packed = archive::pack(dir.path())?;
    let held = contents::of_tables(&store)?;
    store.backup(&mut std::fs::File::create(folder.join("tables.stream"))?, |_| {})?;
    std::fs::write(folder.join("tables.archive"), packed)?;
    contents::write(&folder.join("tables.bson"), &held)
}

fn main() -> Result<()> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("which folder? treedb_core/collections/tests/fixtures/vN for format N")?;
    let folder = Path::new(&folder);
    std::fs::create_dir(folder)
        .map_err(|error| format!("{}: {error}; a fixture is written once", folder.display()))?;
    collections(folder, "collections", 30)?;
    collections(folder, "encrypted", 6)?;
    tables(folder)
}
