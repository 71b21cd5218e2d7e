use std::cmp::Ordering;

use bson::{RawDocumentBuf, rawdoc};
use sha2::{Digest, Sha256};

use super::*;
use crate::error::ErrorCode;
use treedb_testing::Rng;

fn collation(spec: &RawDocument) -> Collation {
    Collation::parse(spec).unwrap()
}

fn encoded(collation: &Collation, text: &str) -> Vec<u8> {
    let mut key = Vec::new();
    collation.encode(Value::String(text.as_bytes()), &mut key);
    key
}

/// The order of two strings, after checking that all ways of comparing agree.
fn order(collation: &Collation, a: &str, b: &str) -> Ordering {
    let (x, y) = (Value::String(a.as_bytes()), Value::String(b.as_bytes()));
    let direct = collation.compare(x, y);
    let folded = |value| collation.fold(value).unwrap();
    assert_eq!(compare(folded(x).value(), folded(y).value()), direct, "{a:?} {b:?} {collation:?}");
    assert_eq!(encoded(collation, a).cmp(&encoded(collation, b)), direct, "{a:?} {b:?} {collation:?}");
    direct
}

/// Strings in order: `a = A < b`. Sources: the Unicode Collation Algorithm (UTS #10) and CLDR's root
/// collation for the levels and options; for languages the tailorings that CLDR publishes in
/// `common/collation`, named by locale. The expected orders are written by hand from those rules.
#[test]
fn strings_are_in_the_order_of_cldrs_rules_for_the_language() {
    let locale = |name: &str| rawdoc! { "locale": name };
    let cases = [
        // Levels, in the root collation.
        (
            locale("en"),
            "_ < - < , < . < + < $ < 0 < 9 < a < A < b < \u{3c9} < \u{44f} < \u{5d0} < \u{3042} < \u{6f22}",
        ),
        (rawdoc! { "locale": "en", "strength": 1 }, "a = A = \u{e1} = \u{c1} < ab < b"),
        (rawdoc! { "locale": "en", "strength": 2 }, "a = A < \u{e1} = \u{c1} < ab < b"),
        (rawdoc! { "locale": "en", "strength": 3 }, "a < A < \u{e1} < \u{c1} < ab < b"),
        (rawdoc! { "locale": "en", "strength": 1 }, "resume = R\u{e9}sum\u{e9} < resumes"),
        (rawdoc! { "locale": "en", "strength": 1 }, "strasse = stra\u{df}e"),
        (rawdoc! { "locale": "en", "strength": 2 }, "strasse < stra\u{df}e < strassen"),
        (rawdoc! { "locale": "en", "strength": 3 }, "\u{e9} = e\u{301} = e\u{301}\u{1}"),
        (rawdoc! { "locale": "en", "strength": 5 }, "\u{e9} = e\u{301} < e\u{301}\u{1}"),
        (locale("en"), "\u{4e00} < \u{4e9c} < \u{611b}"),
        // Options.
        (locale("en"), "a1 < a10 < a100 < a2"),
        (rawdoc! { "locale": "en", "numericOrdering": true }, "a1 < a2 < a10 < a100 < aa"),
        (rawdoc! { "locale": "en", "caseFirst": "upper" }, "A < a < \u{c1} < \u{e1} < B"),
        (rawdoc! { "locale": "en", "caseFirst": "lower" }, "a < A < \u{e1} < \u{c1} < b"),
        (rawdoc! { "locale": "en", "strength": 1, "caseLevel": true }, "a = \u{e1} < A = \u{c1} < b"),
        (rawdoc! { "locale": "en", "strength": 2, "caseLevel": true }, "a < A < \u{e1} < \u{c1} < b"),
        (locale("en"), "black-bird < blackbird < blackbirds"),
        (
            rawdoc! { "locale": "en", "alternate": "shifted" },
            "blackbird = black-bird = bla,ckbird < blackbirds",
        ),
        (
            rawdoc! { "locale": "en", "alternate": "shifted", "strength": 4 },
            "black-bird < black.bird < blackbird",
        ),
        (
            rawdoc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" },
            "black-bird < blackbird = black\u{2003}bird",
        ),
        // Canadian French: the last difference in accents decides.
        (locale("fr"), "cote < cot\u{e9} < c\u{f4}te < c\u{f4}t\u{e9}"),
        (locale("fr_CA"), "cote < c\u{f4}te < cot\u{e9} < c\u{f4}t\u{e9}"),
        (rawdoc! { "locale": "fr", "backwards": true }, "cote < c\u{f4}te < cot\u{e9} < c\u{f4}t\u{e9}"),
        (rawdoc! { "locale": "fr_CA", "backwards": false }, "cote < cot\u{e9} < c\u{f4}te < c\u{f4}t\u{e9}"),
        // Languages.
        (locale("sv"), "v < w < z < \u{e5} < \u{e4} < \u{f6}"),
        (locale("da"), "Z < z < \u{e6} < \u{f8} < \u{e5} < aa < \u{e5}b"),
        (locale("da"), "A < a < B"),
        (locale("de"), "a < \u{e4} < ad < ae < af"),
        (locale("de@collation=phonebook"), "a < ad < ae < \u{e4} < af"),
        (locale("es"), "c < ch < ci < n < nz < \u{f1} < o"),
        (locale("es@collation=traditional"), "c < cz < ch < d < l < lz < ll < m"),
        (locale("tr"), "c < \u{e7} < d < h < \u{131} < i < j < o < \u{f6} < p"),
        (locale("cs"), "c < \u{10d} < d < h < ch < i"),
        (rawdoc! { "locale": "lt", "strength": 1 }, "i = y < j"),
        (locale("et"), "s < \u{161} < z < \u{17e} < t"),
        (locale("hr"), "c < \u{10d} < \u{107} < d < d\u{17e} < \u{111} < e"),
        (locale("pl"), "a < \u{105} < b < z < \u{17a} < \u{17c}"),
        (locale("uk"), "\u{433} < \u{491} < \u{434} < a"),
        (rawdoc! { "locale": "ru", "strength": 1 }, "9 < \u{435} = \u{451} < \u{44f} < a"),
        (locale("th"), "\u{e01}\u{e32} < \u{e40}\u{e01} < \u{e02}\u{e32}"),
        (
            rawdoc! { "locale": "ja", "strength": 1 },
            "a < \u{3042} = \u{30a2} = \u{3041} < \u{3044} < \u{4e9c}",
        ),
        (locale("ja"), "\u{4e9c} < \u{611b} < \u{4e00}"),
        (locale("zh"), "\u{963f} < \u{6ce2} < \u{6b21} < \u{7684}"),
        (locale("zh"), "\u{4e8c} < \u{4e09} < \u{4e00}"),
        (locale("zh@collation=stroke"), "\u{4e00} < \u{4e8c} < \u{4e09}"),
        (locale("ko"), "\u{ac00} < \u{b098} < \u{b2e4}"),
    ];
    for (spec, expected) in cases {
        let collation = collation(&spec);
        let words: Vec<&str> = expected.split(' ').collect();
        for window in words.windows(3).step_by(2) {
            let (a, sign, b) = (window[0], window[1], window[2]);
            let wanted = if sign == "=" { Ordering::Equal } else { Ordering::Less };
            assert_eq!(order(&collation, a, b), wanted, "{spec:?}: {a} {sign} {b}");
            assert_eq!(order(&collation, b, a), wanted.reverse(), "{spec:?}: {b} {a}");
        }
    }
}

/// A string of up to six characters from one range of code points, or from all.
fn random_text(rng: &mut Rng) -> String {
    const RANGES: &[(u32, u32)] = &[
        (0, 0x7f),
        (0x20, 0x3a),
        (0x41, 0x5a),
        (0xc0, 0x24f),
        (0x300, 0x36f),
        (0x370, 0x45f),
        (0x590, 0x6ff),
        (0x900, 0x9ff),
        (0xe00, 0xe7f),
        (0x1100, 0x11ff),
        (0x2000, 0x206f),
        (0x3040, 0x30ff),
        (0x4e00, 0x9fff),
        (0xac00, 0xd7a3),
        (0, 0x10_ffff),
    ];
    let (first, last) = *rng.pick(RANGES);
    let character = |rng: &mut Rng| {
        let (first, last) = if rng.below(4) == 0 { (0x61, 0x63) } else { (first, last) };
        char::from_u32(first + rng.below((last - first + 1) as usize) as u32).unwrap_or('a')
    };
    (0..rng.below(7)).map(|_| character(rng)).collect()
}

#[test]
fn sort_keys_of_strings_of_all_scripts_compare_like_the_strings() {
    let mut rng = Rng::new(7);
    let mut equal = 0;
    for locale in locales::all() {
        for _ in 0..4 {
            let spec = rawdoc! {
                "locale": locale,
                "strength": 1 + rng.below(5) as i32,
                "caseLevel": rng.below(2) == 0,
                "alternate": *rng.pick(&["shifted", "non-ignorable"]),
                "numericOrdering": rng.below(2) == 0,
            };
            let collation = collation(&spec);
            let texts: Vec<String> = (0..12).map(|_| random_text(&mut rng)).collect();
            for a in &texts {
                for b in &texts {
                    equal += usize::from(order(&collation, a, b).is_eq() && a != b);
                }
            }
        }
    }
    assert!(equal > 100, "{equal}");
}

/// If this fails, a new version of ICU4X has other sort keys: increase [`KEY_VERSION`], so that indexes with
/// the old keys are rebuilt, and put the new digest here.
#[test]
fn sort_keys_have_the_bytes_of_this_key_version() {
    const TEXTS: &[&str] = &[
        "",
        " ",
        "a",
        "A",
        "\u{e1}",
        "a b-c_d",
        "Chateau",
        "ch\u{e2}teau",
        "llama",
        "\u{e5}ngstr\u{f6}m",
        "aa",
        "stra\u{df}e",
        "\u{141}\u{f3}d\u{17a}",
        "\u{130}stanbul \u{131}",
        "item 10",
        "item 9",
        "\u{3a9}\u{3bc}\u{3ad}\u{3b3}\u{3b1}",
        "\u{41c}\u{43e}\u{441}\u{43a}\u{432}\u{430}",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        "\u{633}\u{644}\u{627}\u{645}",
        "\u{928}\u{92e}\u{938}\u{94d}\u{924}\u{947}",
        "\u{e40}\u{e01}\u{e21}",
        "\u{d55c}\u{ad6d}\u{c5b4}",
        "\u{65e5}\u{672c}\u{8a9e}",
        "\u{304b}\u{30ac}\u{30fc}",
        "\u{4e2d}\u{6587}",
        "\u{1f600}",
        "a\u{0}b",
        "\u{10ffff}",
    ];
    assert_eq!(KEY_VERSION, 2);
    let mut digest = Sha256::new();
    for locale in locales::all() {
        for spec in [
            rawdoc! { "locale": locale },
            rawdoc! { "locale": locale, "strength": 1, "caseLevel": true, "numericOrdering": true },
            rawdoc! { "locale": locale, "strength": 5, "alternate": "shifted", "caseFirst": "upper" },
        ] {
            let collation = collation(&spec);
            for text in TEXTS {
                digest.update(encoded(&collation, text));
            }
        }
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "d4dd675f74262a6a433712a976b2c7696388dc5e43a25177fbfe73f61138e5eb");
}

#[test]
fn only_strings_also_inside_documents_and_arrays_are_folded() {
    let collation = collation(&rawdoc! { "locale": "fr", "strength": 1 });
    let folded = |doc: &RawDocumentBuf| collation.fold(Value::Document(doc.into())).unwrap();
    let (doc, same) = (rawdoc! { "A": ["\u{c9}", 1, { "B": "X" }] }, rawdoc! { "A": ["e", 1, { "B": "x" }] });
    assert_eq!(folded(&doc).value(), folded(&same).value());
    for other in [
        rawdoc! { "a": ["e", 1, { "B": "x" }] },
        rawdoc! { "A": ["e", 2, { "B": "x" }] },
        rawdoc! { "A": ["e", 1, { "b": "x" }] },
    ] {
        assert_ne!(folded(&doc).value(), folded(&other).value(), "{other:?}");
    }
    let plain = rawdoc! { "a": [1, null] };
    assert!(collation.fold(Value::Document((&plain).into())).is_none());
    assert!(Collation::Simple.fold(Value::String(b"A")).is_none());
}

#[test]
fn bytes_that_are_not_utf8_compare_like_the_replacement_character() {
    let collation = collation(&rawdoc! { "locale": "en" });
    let (broken, replaced) = (Value::String(b"a\xff"), Value::String("a\u{fffd}".as_bytes()));
    assert_eq!(collation.compare(broken, replaced), Ordering::Equal);
    assert_eq!(collation.fold(broken).unwrap().value(), collation.fold(replaced).unwrap().value());
}

#[test]
fn a_collation_document_has_the_defaults_of_its_locale_and_round_trips() {
    for (spec, option, wanted) in [
        (rawdoc! { "locale": "en_US", "strength": 2.0 }, "strength", bson::Bson::Int32(2)),
        (rawdoc! { "locale": "en" }, "strength", 3.into()),
        (rawdoc! { "locale": "en" }, "alternate", "non-ignorable".into()),
        (rawdoc! { "locale": "th" }, "alternate", "shifted".into()),
        (rawdoc! { "locale": "da" }, "caseFirst", "upper".into()),
        // The option has no effect at these strengths.
        (rawdoc! { "locale": "da", "strength": 1 }, "caseFirst", "off".into()),
        (rawdoc! { "locale": "fr_CA" }, "backwards", true.into()),
        (rawdoc! { "locale": "fr_CA", "strength": 1 }, "backwards", false.into()),
        (rawdoc! { "locale": "fr" }, "backwards", false.into()),
        (rawdoc! { "locale": "de", "maxVariable": "space" }, "maxVariable", "space".into()),
        (rawdoc! { "locale": "de", "normalization": true }, "normalization", true.into()),
        (rawdoc! { "locale": "de", "version": "57.1" }, "locale", "de".into()),
    ] {
        let parsed = collation(&spec);
        let document = parsed.document().unwrap();
        assert_eq!(bson::Document::try_from(&*document).unwrap().get(option), Some(&wanted), "{spec:?}");
        assert_eq!(collation(&document), parsed);
        assert_eq!(collation(&document).document().unwrap(), document);
        // MongoDB's `version` is that of ICU, which is not used here.
        assert!(document.get("version").unwrap().is_none());
    }
    assert!(collation(&rawdoc! { "locale": "simple" }).is_simple());
    assert_ne!(collation(&rawdoc! { "locale": "en" }), collation(&rawdoc! { "locale": "en_US" }));
}

#[test]
fn an_unknown_or_unsupported_collation_is_refused() {
    for (spec, code) in [
        (rawdoc! {}, ErrorCode::Location40414),
        (rawdoc! { "strength": 1 }, ErrorCode::Location40414),
        (rawdoc! { "locale": 1 }, ErrorCode::TypeMismatch),
        (rawdoc! { "locale": "" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "no such place" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en-US" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en_GB" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "de@collation=traditional" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "simple", "strength": 1 }, ErrorCode::FailedToParse),
        (rawdoc! { "locale": "en", "strength": 0 }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en", "strength": 6 }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en", "strength": "1" }, ErrorCode::TypeMismatch),
        (rawdoc! { "locale": "en", "caseLevel": 1 }, ErrorCode::TypeMismatch),
        (rawdoc! { "locale": "en", "caseFirst": "first" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en", "caseFirst": "upper", "strength": 2 }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en", "alternate": "ignored" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en", "maxVariable": "symbol" }, ErrorCode::BadValue),
        (rawdoc! { "locale": "en", "backwards": true, "strength": 1 }, ErrorCode::BadValue),
        (rawdoc! { "locale": "sv", "backwards": true }, ErrorCode::NotImplemented),
        (rawdoc! { "locale": "haw" }, ErrorCode::NotImplemented),
        (rawdoc! { "locale": "de@collation=search" }, ErrorCode::NotImplemented),
        (rawdoc! { "locale": "en", "flavour": 1 }, ErrorCode::Location40415),
    ] {
        assert_eq!(Collation::parse(&spec).unwrap_err().code, code, "{spec:?}");
    }
    let error = Collation::parse(&rawdoc! { "locale": "en-GB" }).unwrap_err();
    assert!(error.message.contains("Did you mean 'en'?"), "{error}");
}
