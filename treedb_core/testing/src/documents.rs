//! Random documents for property tests: small pools of names and values, so that things collide.

use bson::raw::{CString, RawArrayBuf, RawBson};
use bson::{Bson, Document, RawDocumentBuf, Timestamp};

use crate::Rng;

const NAMES: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h", "", "0", "1", "ab"];

/// A document of up to eight fields, nested up to `depth`.
pub fn random_document(rng: &mut Rng, depth: usize) -> RawDocumentBuf {
    let mut doc = RawDocumentBuf::new();
    let mut used = Vec::new();
    for _ in 0..rng.below(9) {
        let name = *rng.pick(NAMES);
        if !used.contains(&name) {
            used.push(name);
            doc.append(CString::try_from(name).unwrap(), random_value(rng, depth));
        }
    }
    doc
}

/// A value of any type, nested up to `depth`.
pub fn random_value(rng: &mut Rng, depth: usize) -> RawBson {
    match rng.below(if depth > 1 { 27 } else { 23 }) {
        0 | 1 => RawBson::Int32(rng.below(7) as i32 - 3),
        2 => RawBson::Int64(*rng.pick(&[0, 1, -1, i64::MAX, i64::MIN, (1 << 53) + 1, 1 << 40])),
        3 => RawBson::Double(*rng.pick(&[
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.1,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
        ])),
        4 => {
            let text = rng.pick(&[
                "0",
                "1",
                "1.00",
                "-1.5",
                "0.1",
                "NaN",
                "Infinity",
                "-Infinity",
                "1E+6000",
                "1E-6000",
            ]);
            RawBson::Decimal128(text.parse().unwrap())
        }
        5 | 6 => {
            RawBson::String((*rng.pick(&["", "a", "ab", "b", "a\0", "a\u{1}", "\0", "é", "zz"])).to_owned())
        }
        7 => RawBson::Symbol((*rng.pick(&["a", "b"])).to_owned()),
        8 => RawBson::Boolean(rng.below(2) == 0),
        9 | 10 => RawBson::Null,
        11 => RawBson::Undefined,
        12 => RawBson::MinKey,
        13 => RawBson::MaxKey,
        14 => RawBson::ObjectId(bson::oid::ObjectId::from_bytes([rng.below(3) as u8; 12])),
        15 => RawBson::DateTime(bson::DateTime::from_millis(*rng.pick(&[0, -1, 1, i64::MIN, i64::MAX]))),
        16 => RawBson::Timestamp(Timestamp {
            time: rng.below(2) as u32,
            increment: *rng.pick(&[0, 1, u32::MAX]),
        }),
        17 => RawBson::Binary(bson::Binary {
            subtype: (*rng.pick(&[0u8, 2, 4])).into(),
            bytes: (0..rng.below(3)).map(|_| *rng.pick(&[0, 1, 0xff])).collect(),
        }),
        18 => RawBson::RegularExpression(bson::Regex {
            pattern: CString::try_from(*rng.pick(&["", "a", "ab"])).unwrap(),
            options: CString::try_from(*rng.pick(&["", "i"])).unwrap(),
        }),
        19 => RawBson::JavaScriptCode((*rng.pick(&["", "x"])).to_owned()),
        20 => RawBson::JavaScriptCodeWithScope(bson::raw::RawJavaScriptCodeWithScope {
            code: (*rng.pick(&["", "x"])).to_owned(),
            scope: random_document(rng, 0),
        }),
        21 => db_pointer(["a", "b.c"][rng.below(2)], rng.below(2) as u8),
        22 => RawBson::Int32(1),
        23 | 24 => RawBson::Document(random_document(rng, depth - 1)),
        _ => RawBson::Array(random_array(rng, depth - 1)),
    }
}

/// A string that compares by its bytes as `text` does in the locale `en`, for strings of letters from `a` to `z`, `\u{e1}`,
/// digits, and control characters, which are ignored. It knows nothing of the code that it is compared with.
fn rank(text: &str, strength: i32) -> String {
    let (mut letters, mut accents, mut cases) = (String::new(), String::new(), String::new());
    for character in text.chars().filter(|one| !one.is_control()) {
        let (letter, accent) = match character {
            '\u{e1}' => ('a', '1'),
            '\u{c1}' => ('A', '1'),
            other => (other, '0'),
        };
        letters.push(letter.to_ascii_lowercase());
        accents.push(accent);
        cases.push(if letter.is_ascii_uppercase() { '1' } else { '0' });
    }
    match strength {
        1 => letters,
        2 => format!("{letters}\0{accents}"),
        _ => format!("{letters}\0{accents}\0{cases}"),
    }
}

/// The document with each string replaced by one whose bytes compare as the locale `en` compares the strings.
pub fn ranked(doc: &Document, strength: i32) -> Document {
    let field = |(name, value): (&String, &Bson)| (name.clone(), ranked_value(value, strength));
    doc.iter().map(field).collect()
}

fn ranked_value(value: &Bson, strength: i32) -> Bson {
    match value {
        Bson::String(text) | Bson::Symbol(text) => Bson::String(rank(text, strength)),
        Bson::Document(doc) => ranked(doc, strength).into(),
        Bson::Array(all) => all.iter().map(|value| ranked_value(value, strength)).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

pub(crate) fn random_array(rng: &mut Rng, depth: usize) -> RawArrayBuf {
    let mut array = RawArrayBuf::new();
    for _ in 0..rng.below(4) {
        array.push(random_value(rng, depth));
    }
    array
}

/// The `bson` crate does not let one be made: it is read from bytes.
fn db_pointer(namespace: &str, id: u8) -> RawBson {
    let mut bytes = vec![0, 0, 0, 0, 0x0c, 0];
    bytes.extend_from_slice(&(namespace.len() as i32 + 1).to_le_bytes());
    bytes.extend_from_slice(namespace.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&[id; 12]);
    bytes.push(0);
    let len = bytes.len() as i32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    RawDocumentBuf::from_bytes(bytes).unwrap().get("").unwrap().unwrap().into()
}
