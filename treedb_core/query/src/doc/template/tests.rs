//! Documents round-trip through rows; damaged rows are rejected.

use bson::raw::{CString, RawBson};
use bson::{RawDocumentBuf, rawdoc};
use treedb_testing::{Rng, random_document, random_value, seeds};

use super::*;
use crate::doc::{Doc, FieldPeek, Value, validate};

fn decoded(shapes: &Shapes, row: &[u8]) -> Option<Vec<u8>> {
    match shapes.open(row)? {
        Stored::Plain(doc) => Some(doc.to_vec()),
        Stored::Shaped(row) => {
            let mut out = Vec::new();
            row.decode(&mut out)?;
            Some(out)
        }
    }
}

/// Encodes `doc`, adding its shape, checks that decoding gives it back, and returns the row.
fn round_trip(shapes: &mut Shapes, doc: &[u8]) -> Vec<u8> {
    let mut row = vec![7];
    if let Some(grown) = shapes.encode_grown(doc, &mut row) {
        *shapes = grown;
    }
    let row = row.split_off(1);
    assert_eq!(decoded(shapes, &row).as_deref(), Some(doc), "{:?}", Doc::new(doc));
    row
}

/// A random document whose fields may have the same name.
fn with_duplicate_names(rng: &mut Rng, depth: usize) -> RawDocumentBuf {
    let mut doc = RawDocumentBuf::new();
    for _ in 0..rng.below(7) {
        let name = *rng.pick(&["a", "b", "", "a.b", "$c", "long name with spaces"]);
        let value = match rng.below(5) {
            0 if depth > 0 => RawBson::Document(with_duplicate_names(rng, depth - 1)),
            1 if depth > 0 => {
                let mut array = bson::RawArrayBuf::new();
                (0..rng.below(14)).for_each(|_| array.push(with_duplicate_names(rng, depth - 1)));
                RawBson::Array(array)
            }
            _ => random_value(rng, depth + 1),
        };
        doc.append(CString::try_from(name).unwrap(), value);
    }
    doc
}

#[test]
fn every_document_round_trips_byte_for_byte() {
    let (mut shaped, mut all) = (0, 0);
    for seed in seeds(0..12) {
        let (mut rng, mut shapes) = (Rng::new(seed), Shapes::default());
        for n in 0..120 {
            let doc = if rng.below(2) == 0 {
                random_document(&mut rng, 4)
            } else {
                with_duplicate_names(&mut rng, 3)
            };
            let row = round_trip(&mut shapes, doc.as_bytes());
            (shaped, all) = (shaped + usize::from(row[0] != 0), all + 1);
            if n % 20 == 0 {
                let back = Shapes::from_bytes(&shapes.to_bytes()).unwrap();
                assert_eq!(decoded(&back, &row).as_deref(), Some(doc.as_bytes()));
            }
            // Encoding it again finds the shape, or again finds none.
            let mut again = Vec::new();
            assert!(
                shapes.encode(doc.as_bytes(), &mut again).missing.is_empty()
                    || row[0] == 0
                    || !shapes.is_full()
            );
        }
        assert!(shapes.len() <= 256 && shapes.to_bytes().len() <= 64 * 1024);
    }
    println!("{shaped} of {all} documents in a shape");
    assert!(shaped > all / 3, "{shaped} of {all}");
}

#[test]
fn documents_with_missing_fields_or_other_types_share_a_shape() {
    let (mut rng, mut shapes, mut sizes) = (Rng::new(1), Shapes::default(), (0, 0));
    for n in 0..1000_i64 {
        let mut doc = rawdoc! { "_id": n };
        for (name, chance) in
            [(c"name", 9), (c"year", 7), (c"by", 5), (c"tags", 5), (c"seen", 3), (c"score", 8)]
        {
            if rng.below(10) < chance {
                let value = match (name.to_str().unwrap(), rng.below(12)) {
                    (_, 0) => RawBson::Null,
                    ("name", _) => RawBson::String(format!("film {n}")),
                    ("year", 1) => RawBson::Double(1979.5),
                    ("year", _) => RawBson::Int32(1900 + n as i32 % 100),
                    ("by", 1..3) => RawBson::Document(rawdoc! { "name": "x" }),
                    ("by", _) => RawBson::Document(rawdoc! { "name": "x", "born": 1937 }),
                    ("tags", _) => {
                        RawBson::Array(bson::rawdoc! { "x": ["a", "b"] }.get_array("x").unwrap().to_owned())
                    }
                    ("seen", _) => RawBson::Boolean(n % 2 == 0),
                    _ => RawBson::Double(n as f64 / 3.0),
                };
                doc.append(CString::try_from(name.to_str().unwrap()).unwrap(), value);
            }
        }
        let row = round_trip(&mut shapes, doc.as_bytes());
        assert_ne!(row[0], 0);
        sizes = (sizes.0 + row.len(), sizes.1 + doc.as_bytes().len());
    }
    println!(
        "{} shapes, {} bytes; rows {} of {} bytes",
        shapes.len(),
        shapes.to_bytes().len(),
        sizes.0,
        sizes.1
    );
    assert!(shapes.len() < 20 && 2 * sizes.0 < sizes.1, "{} {sizes:?}", shapes.len());
}

#[test]
fn arrays_of_values_of_eight_bytes_come_back_whatever_their_length() {
    let mut shapes = Shapes::default();
    for len in (0..130).chain([999, 1000, 1001, 4_096, 4_097, 9_999, 10_001, 100_001]) {
        let doubles: bson::RawArrayBuf = (0..len).map(|n| f64::from(n) * 0.37 - 5.0).collect();
        let times = (0..len).map(|n: i32| bson::Timestamp { time: n.cast_unsigned(), increment: 7 });
        let times: bson::RawArrayBuf = times.collect();
        round_trip(&mut shapes, rawdoc! { "a": doubles, "x": "between", "t": times }.as_bytes());
    }
    // A length that is no multiple of eight.
    let row = round_trip(&mut shapes, rawdoc! { "a": [0.5, 1.5] }.as_bytes());
    for end in 1..row.len() {
        assert_eq!(decoded(&shapes, &row[..end]), None);
    }
}

/// An array with these elements.
fn array(doubles: impl IntoIterator<Item = f64>) -> bson::RawArrayBuf {
    doubles.into_iter().collect()
}

#[test]
fn doubles_that_are_floats_take_four_bytes_each() {
    let (mut shapes, mut rng) = (Shapes::default(), Rng::new(3));
    let special = [0.0, -0.0, f32::MIN_POSITIVE / 4.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY];
    for len in (1..120).chain([999, 1000, 1001, 4_096, 4_097, 9_999]) {
        let floats: Vec<f32> = (0..len)
            .map(|n| match special.get(n) {
                Some(special) => *special,
                None => (rng.below(2_000_001) as f32 - 1e6) * 0.37e-6,
            })
            .collect();
        let doubles = || floats.iter().map(|float| f64::from(*float));
        let size = |shapes: &mut Shapes, doubles: bson::RawArrayBuf| {
            round_trip(shapes, rawdoc! { "a": doubles, "x": "behind" }.as_bytes()).len()
        };
        let each = if (doubles::FEW..=doubles::MOST).contains(&len) { 4 } else { 8 };
        let all = size(&mut shapes, array(doubles()));
        assert!((each * len..each * len + 15).contains(&all), "{all} of {len}");
        // One that is none, wherever it is, and what has no bits that can be relied on.
        for other in [0.1, f64::MAX, f64::from(f32::MAX) * 1.5, 1e-60, f64::NAN] {
            let at = rng.below(len);
            let all =
                size(&mut shapes, array(doubles().enumerate().map(|(n, d)| if n == at { other } else { d })));
            assert!(all > 8 * len, "{all} of {len}");
        }
    }
}

#[test]
fn arrays_of_floats_with_other_names_or_types_come_back() {
    let mut shapes = Shapes::default();
    let usual = rawdoc! { "a": array((0..30).map(f64::from)), "x": 1 }.into_bytes();
    // Another name, another type of the same size, and a name that is longer by what its value is shorter.
    for at in 4..usual.len() {
        for (byte, other) in [(b'0', b'x'), (b'1', b'2'), (1, 18), (1, 9)] {
            let mut document = usual.clone();
            if document[at] == byte {
                document[at] = other;
                if validate(&document).is_ok() {
                    round_trip(&mut shapes, &document);
                }
            }
        }
    }
}

#[test]
fn damaged_arrays_of_floats_never_cause_a_panic() {
    let mut shapes = Shapes::default();
    let row = round_trip(&mut shapes, rawdoc! { "a": array((0..20).map(f64::from)) }.as_bytes());
    for end in 0..row.len() {
        assert_eq!(decoded(&shapes, &row[..end]), None);
    }
    for at in 0..row.len() {
        for byte in 0..=u8::MAX {
            let mut damaged = row.clone();
            damaged[at] = byte;
            decoded(&shapes, &damaged).inspect(|document| drop(validate(document)));
        }
    }
    // More of them than there are names for.
    let mut long = row[..1].to_vec();
    let elements = 4 * (doubles::MOST + 1);
    number::put(elements as u64 + 1, &mut long);
    long.push(array_form::FLOATS);
    long.resize(long.len() + elements, 0);
    assert_eq!(decoded(&shapes, &long), None);
}

#[test]
fn field_names_that_are_data_do_not_use_up_the_shapes() {
    let mut shapes = Shapes::default();
    for n in 0..500 {
        let mut doc = rawdoc! { "_id": n };
        for k in 0..5 {
            doc.append(CString::try_from(format!("user{n}_{k}")).unwrap(), k);
        }
        round_trip(&mut shapes, doc.as_bytes());
    }
    assert!(shapes.len() <= 32, "{}", shapes.len());
    for n in 0..3 {
        let row = round_trip(&mut shapes, rawdoc! { "_id": n, "kind": "useful", "count": 3 }.as_bytes());
        assert_eq!(row[0] != 0, n > 0);
    }
}

#[test]
fn shapes_never_exceed_their_limits() {
    let mut shapes = Shapes::default();
    for n in 0..700 {
        let mut doc = RawDocumentBuf::new();
        for k in 0..30 {
            doc.append(CString::try_from(format!("a long name of a field {}", n * 30 + k)).unwrap(), k);
        }
        round_trip(&mut shapes, doc.as_bytes());
        round_trip(&mut shapes, doc.as_bytes());
    }
    assert!(shapes.len() > 32 && shapes.len() <= 256 && shapes.to_bytes().len() <= 64 * 1024);
    let mut wide = RawDocumentBuf::new();
    (0..600).for_each(|k| wide.append(CString::try_from(format!("{k}")).unwrap(), k));
    assert_eq!(round_trip(&mut Shapes::default(), wide.as_bytes())[0], 0);
    let mut deep = rawdoc! { "x": 1 };
    for _ in 0..98 {
        deep = rawdoc! { "d": deep, "n": 1 };
    }
    assert_ne!(round_trip(&mut Shapes::default(), deep.as_bytes())[0], 0);
}

#[test]
fn partial_decoding_gives_the_fields_in_the_documents_order() {
    let (mut rng, mut shapes, mut masks) = (Rng::new(9), Shapes::default(), FieldMasks::default());
    let mut wanted: Vec<(Vec<&str>, bool, Fields)> = Vec::new();
    for names in [vec![], vec!["a"], vec!["", "c"], vec!["h", "b", "0", "a"], vec!["none"]] {
        let bytes = || names.iter().map(|name| name.as_bytes());
        wanted.push((names.clone(), true, Fields::new(bytes())));
        wanted.push((names.clone(), false, Fields::all_but(bytes())));
    }
    let (mut decoded_parts, mut unknown) = (0, 0);
    for _ in 0..600 {
        let doc =
            if rng.below(2) == 0 { random_document(&mut rng, 3) } else { with_duplicate_names(&mut rng, 3) };
        let row = round_trip(&mut shapes, doc.as_bytes());
        let Some(Stored::Shaped(row)) = shapes.open(&row) else { continue };
        for (names, these, fields) in &wanted {
            let mut expected = crate::doc::write::Writer::new(64);
            for element in Doc::from(&doc).elements().filter(|e| names.contains(&e.name_str()) == *these) {
                expected.copy(&element);
            }
            let mut part = Vec::new();
            masks.decode(&row, fields, &mut part).unwrap();
            assert_eq!(part, expected.into_bytes(), "{names:?} of {:?}", Doc::from(&doc));
            decoded_parts += 1;
            match (masks.peek(&row, fields).unwrap(), names.as_slice()) {
                (found, _) if !these => assert_eq!(found, FieldPeek::Unknown),
                (FieldPeek::Unknown, [name]) => {
                    let element = Doc::from(&doc).find(name.as_bytes()).unwrap();
                    unknown += usize::from(FieldPeek::of(element.value()) != FieldPeek::Unknown);
                }
                (found, [_]) => {
                    assert!(same(found, FieldPeek::at(Doc::from(&doc), fields)), "{found:?} {doc:?}")
                }
                (found, _) => assert_eq!(found, FieldPeek::Unknown),
            }
        }
    }
    // Only for rare types.
    assert!(decoded_parts > 1000 && unknown * 20 < decoded_parts, "{decoded_parts} {unknown}");
}

fn same(a: FieldPeek<'_>, b: FieldPeek<'_>) -> bool {
    match (a, b) {
        // NaN is not equal to itself.
        (FieldPeek::Value(Value::Double(a)), FieldPeek::Value(Value::Double(b))) => {
            a.to_bits() == b.to_bits()
        }
        (a, b) => a == b,
    }
}

#[test]
fn damaged_rows_and_shapes_never_cause_a_panic() {
    let (mut rng, mut shapes, mut masks) = (Rng::new(5), Shapes::default(), FieldMasks::default());
    let fields = Fields::new([&b"a"[..], b"c"]);
    let mut refused = 0;
    for _ in 0..100 {
        let doc =
            if rng.below(2) == 0 { random_document(&mut rng, 4) } else { with_duplicate_names(&mut rng, 3) };
        let row = round_trip(&mut shapes, doc.as_bytes());
        let mut try_all = |bytes: &[u8]| {
            let Some(stored) = shapes.open(bytes) else { return refused += 1 };
            let Stored::Shaped(row) = stored else { return };
            let mut out = Vec::new();
            match row.decode(&mut out) {
                Some(()) => drop(validate(&out)),
                None => refused += 1,
            }
            let _ = masks.decode(&row, &fields, &mut Vec::new());
        };
        for at in 0..row.len() {
            try_all(&row[..at]);
            let mut flipped = row.clone();
            flipped[at] ^= 1 << rng.below(8);
            try_all(&flipped);
            flipped[at] = rng.next_u64() as u8;
            try_all(&flipped);
        }
        let random: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        try_all(&random);
    }
    assert!(refused > 500, "{refused}");
    let bytes = shapes.to_bytes();
    for _ in 0..1500 {
        let mut flipped = bytes.clone();
        let at = rng.below(bytes.len());
        flipped[at] ^= 1 << rng.below(8);
        if let Some(shapes) = Shapes::from_bytes(&flipped) {
            let row: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8 & 0x3f).collect();
            let _ = decoded(&shapes, &row);
        }
        let _ = Shapes::from_bytes(&bytes[..at]);
    }
}
