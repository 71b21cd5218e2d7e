//! Who a client's certificate is of: its subject, as RFC 2253 writes it.
//!
//! `CN=ann,OU=films,O=Example\, Ltd.,C=NO`: the last part of the name first, written as by `openssl x509 -noout -subject -nameopt RFC2253`,
//! which is how MongoDB's users find the names of theirs. Types of attributes that have no name here are numbers, with their values as bytes.

use std::fmt::Write;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// What attributes are called, by the bytes of their object identifiers.
const NAMES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 44], "generationQualifier"),
    (&[0x55, 4, 46], "dnQualifier"),
    // 0.9.2342.19200300.100.1.1 and .25
    (&[9, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 100, 1, 1], "UID"),
    (&[9, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 100, 1, 25], "DC"),
    // 1.2.840.113549.1.9.1
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 9, 1], "emailAddress"),
];

const OBJECT_IDENTIFIER: u8 = 6;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// The subject of a certificate; `None` if it has none, or is none that can be read.
pub(crate) fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    written(certificate.subject())
}

/// A name in DER, without the tag and length around it, as RFC 2253 has it.
fn written(mut name: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !name.is_empty() {
        let (mut set, rest) = content(name, SET)?;
        name = rest;
        // Several attributes may be one part.
        let mut separator = ',';
        while !set.is_empty() {
            let (attribute, rest) = content(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = content(attribute, OBJECT_IDENTIFIER)?;
            parts.push((separator, format!("{}={}", kind_name(kind)?, value_text(kind, value)?)));
            separator = '+';
        }
    }
    let mut text = String::new();
    for (separator, part) in parts.iter().rev() {
        text.push_str(part);
        // What was before it in the name comes after it.
        text.push(*separator);
    }
    text.pop();
    (!text.is_empty()).then_some(text)
}

/// The first value of some in DER: its tag, what it holds, and what comes after it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (length.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (held, rest) = rest.split_at_checked(length)?;
    Some((tag, held, rest))
}

/// What the first value holds, which has this tag, and what comes after it.
fn content(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, held, rest) = value(bytes)?;
    (found == tag).then_some((held, rest))
}

/// What a type of attribute is called.
fn kind_name(kind: &[u8]) -> Option<String> {
    if let Some(name) = short_name(kind) {
        return Some(name.to_owned());
    }
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in kind {
        number = number.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            numbers.push(number);
            number = 0;
        }
    }
    let (first, others) = numbers.split_first()?;
    let root = (first / 40).min(2);
    let mut text = format!("{root}.{}", first - root * 40);
    others.iter().for_each(|number| {
        let _ = write!(text, ".{number}");
    });
    Some(text)
}

fn short_name(kind: &[u8]) -> Option<&'static str> {
    NAMES.iter().find(|(own, _)| *own == kind).map(|(_, name)| *name)
}

/// The value of an attribute, `value` in DER.
fn value_text(kind: &[u8], der: &[u8]) -> Option<String> {
    let (tag, held, _) = value(der)?;
    // Those that are bytes, or UTF-8; Latin 1; two and four bytes for a character.
    let text = match tag {
        _ if short_name(kind).is_none() => None,
        12 | 18 | 19 | 22 | 26 => String::from_utf8(held.to_vec()).ok(),
        20 => Some(held.iter().copied().map(char::from).collect()),
        30 => {
            let units = held
                .chunks(2)
                .map(|pair| pair.iter().fold(0_u16, |unit, byte| (unit << 8) | u16::from(*byte)));
            String::from_utf16(&units.collect::<Vec<_>>()).ok()
        }
        28 => {
            let points = held
                .chunks(4)
                .map(|four| four.iter().fold(0_u32, |point, byte| (point << 8) | u32::from(*byte)));
            points.map(char::from_u32).collect()
        }
        _ => None,
    };
    Some(match text {
        Some(text) => escaped(&text),
        None => der.iter().fold("#".to_owned(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        }),
    })
}

/// A text in which nothing can be taken for the end of its part.
fn escaped(text: &str) -> String {
    let (mut escaped, last) = (String::with_capacity(text.len()), text.len().wrapping_sub(1));
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => escaped.extend(['\\', char::from(byte)]),
            b'#' if at == 0 => escaped.push_str("\\#"),
            b' ' if at == 0 || at == last => escaped.push_str("\\ "),
            b' '..=b'~' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "\\{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let held = parts.concat();
        let mut bytes = vec![tag];
        match held.len() {
            length @ 0..=127 => bytes.push(length as u8),
            length => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        bytes.extend(held);
        bytes
    }

    fn attribute(kind: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        der(SEQUENCE, &[&der(OBJECT_IDENTIFIER, &[kind]), &der(tag, &[text])])
    }

    fn part(attributes: &[Vec<u8>]) -> Vec<u8> {
        der(SET, &attributes.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_part_of_a_name_comes_first() {
        let name = [
            part(&[attribute(&[0x55, 4, 6], 19, b"NO")]),
            part(&[attribute(&[0x55, 4, 10], 12, b"Example")]),
            part(&[attribute(&[0x55, 4, 11], 12, b"a"), attribute(&[0x55, 4, 5], 19, b"7")]),
            part(&[attribute(&[0x55, 4, 3], 12, b"ann")]),
        ];
        assert_eq!(written(&name.concat()).unwrap(), "CN=ann,serialNumber=7+OU=a,O=Example,C=NO");
        assert_eq!(written(&[]), None);
    }

    #[test]
    fn what_could_be_taken_for_another_part_is_escaped() {
        let named = |tag, text: &[u8]| written(&part(&[attribute(&[0x55, 4, 3], tag, text)]));
        for (text, expected) in [
            ("a,b+c", "CN=a\\,b\\+c"),
            ("a\"<>;\\", "CN=a\\\"\\<\\>\\;\\\\"),
            ("# a #", "CN=\\# a #"),
            (" a b ", "CN=\\ a b\\ "),
            (" ", "CN=\\ "),
            ("O=x", "CN=O=x"),
            ("Åse", "CN=\\C3\\85se"),
            ("a\0b\u{7f}", "CN=a\\00b\\7F"),
            ("", "CN="),
        ] {
            assert_eq!(named(12, text.as_bytes()).unwrap(), expected);
        }
        assert_eq!(named(30, &[0, b'a', 0, b',', 0, 0xc5]).unwrap(), "CN=a\\,\\C3\\85");
        assert_eq!(named(28, &[0, 0, 0, b'a', 0, 1, 0xf6, 0]).unwrap(), "CN=a\\F0\\9F\\98\\80");
        assert_eq!(named(20, &[b'a', 0xe5]).unwrap(), "CN=a\\C3\\A5");
        // What is no text is shown as its bytes.
        assert_eq!(named(12, &[0xff]).unwrap(), "CN=#0C01FF");
        assert_eq!(named(4, b"x").unwrap(), "CN=#040178");
        let other = written(&part(&[attribute(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 3], 12, b"a")]));
        assert_eq!(other.unwrap(), "1.2.840.113549.3=#0C0161");
        let long = "x".repeat(300);
        assert_eq!(named(12, long.as_bytes()).unwrap(), format!("CN={long}"));
    }

    #[test]
    fn a_name_that_is_cut_is_none() {
        let name = part(&[attribute(&[0x55, 4, 3], 12, b"ann")]);
        for end in 1..name.len() {
            assert_eq!(written(&name[..end]), None, "{end}");
        }
        for at in 0..name.len() {
            for byte in 0..=255 {
                let mut damaged = name.clone();
                damaged[at] = byte;
                let _ = written(&damaged);
            }
        }
    }
}
