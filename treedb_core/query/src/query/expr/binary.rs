//! Binary data as strings and numbers, and back: the `format`, the `byteOrder` and the `subtype` of `$convert`.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

use crate::doc::Value;
use crate::error::{ErrorCode, QueryError, Result};

use super::{Found, nullish, type_name};

/// The subtype of binary data without a meaning.
pub(super) const GENERIC: u8 = 0;
/// The subtype of a UUID.
pub(super) const UUID: u8 = 4;
/// The largest of the subtypes with a meaning: vectors.
const LAST_DEFINED: i64 = 9;
/// The smallest of the subtypes that are left to users.
const FIRST_CUSTOM: i64 = 128;

/// Without padding when it is written; with or without when it is read.
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How bytes are written as a string.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Format {
    /// A UUID as such, everything else in base64; only from bytes to a string.
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

impl Format {
    const ALL: [(Format, &'static str); 6] = [
        (Format::Auto, "auto"),
        (Format::Base64, "base64"),
        (Format::Base64Url, "base64url"),
        (Format::Hex, "hex"),
        (Format::Utf8, "utf8"),
        (Format::Uuid, "uuid"),
    ];

    /// The operand `format`; `None` if there is none.
    pub(super) fn parse(found: Found<'_>) -> Result<Option<Self>> {
        let codes = (ErrorCode::Location4341114, ErrorCode::Location4341125);
        named("format", &Self::ALL, found, codes)
    }
}

/// The order of the bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    const ALL: [(ByteOrder, &'static str); 2] = [(ByteOrder::Little, "little"), (ByteOrder::Big, "big")];

    /// The operand `byteOrder`.
    pub(super) fn parse(found: Found<'_>) -> Result<Self> {
        let codes = (ErrorCode::Location9130001, ErrorCode::Location9130002);
        Ok(named("byteOrder", &Self::ALL, found, codes)?.unwrap_or(ByteOrder::Little))
    }

    /// `bytes`, of which the first is the least significant, in this order, or back.
    fn apply<const N: usize>(self, mut bytes: [u8; N]) -> [u8; N] {
        if self == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    }
}

/// The value of an operand that is one of a few names; the codes are those of another type and of another name.
fn named<T: Copy>(
    operand: &str,
    names: &[(T, &str)],
    found: Found<'_>,
    (type_code, name_code): (ErrorCode, ErrorCode),
) -> Result<Option<T>> {
    let text = match found {
        found if nullish(found) => return Ok(None),
        Some(Value::String(text)) => super::string::utf8(text),
        found => {
            return Err(QueryError::new(
                type_code,
                format!(
                    "$convert requires that '{operand}' be a string, found: {} with value {}",
                    type_name(found),
                    found.map_or_else(String::new, crate::doc::shown)
                ),
            ));
        }
    };
    match names.iter().find(|(_, name)| *name == text) {
        Some((value, _)) => Ok(Some(*value)),
        None => Err(QueryError::new(name_code, format!("Invalid '{operand}' argument for $convert: {text}"))),
    }
}

/// The operand `subtype`.
pub(super) fn subtype(value: Value<'_>) -> Result<u8> {
    if !value.is_number() {
        return Err(QueryError::new(
            ErrorCode::Location4341108,
            format!(
                "For BinData, $convert's 'subtype' argument must be a number, but is {}",
                value.type_name()
            ),
        ));
    }
    let Some(number) = value.as_integer() else {
        return Err(QueryError::new(
            ErrorCode::Location4341106,
            "In $convert, numeric 'subtype' argument is not an integer",
        ));
    };
    match u8::try_from(number) {
        Ok(subtype) if number <= LAST_DEFINED || number >= FIRST_CUSTOM => Ok(subtype),
        _ => Err(QueryError::new(
            ErrorCode::Location4341107,
            format!(
                "In $convert, numeric value for 'subtype' does not correspond to a BinData type: {number}"
            ),
        )),
    }
}

/// The bytes that `text` stands for.
///
/// # Errors
/// Why it does not stand for any.
pub(super) fn from_text(
    text: &str,
    format: Format,
    subtype: u8,
) -> std::result::Result<Vec<u8>, &'static str> {
    if (format == Format::Uuid) != (subtype == UUID) {
        return Err("Only the 'uuid' format is allowed with the UUID subtype");
    }
    match format {
        Format::Auto => Err("Invalid format 'auto'"),
        Format::Base64 => STANDARD.decode(text).map_err(|_| "it is not base64"),
        Format::Base64Url => BASE64_URL.decode(text).map_err(|_| "it is not base64url"),
        Format::Hex => hex_digits(text).ok_or("it is not an even number of hexadecimal digits"),
        Format::Utf8 => Ok(text.as_bytes().to_vec()),
        Format::Uuid => from_uuid(text).ok_or("Invalid UUID string"),
    }
}

/// `bytes` of a subtype as a string.
///
/// # Errors
/// Why they cannot be written in this format.
pub(super) fn to_text(
    subtype: u8,
    bytes: &[u8],
    format: Format,
) -> std::result::Result<String, &'static str> {
    let uuid = if subtype == UUID { <&[u8; 16]>::try_from(bytes).ok() } else { None };
    match (format, uuid) {
        (Format::Auto | Format::Uuid, Some(bytes)) => Ok(bson::Uuid::from_bytes(*bytes).to_string()),
        (Format::Uuid, None) => Err("BinData does not represent a valid UUID"),
        (Format::Auto | Format::Base64, _) => Ok(STANDARD.encode(bytes)),
        (Format::Base64Url, _) => Ok(BASE64_URL.encode(bytes)),
        (Format::Hex, _) => Ok(bytes.iter().map(|byte| format!("{byte:02X}")).collect()),
        (Format::Utf8, _) => {
            String::from_utf8(bytes.to_vec()).map_err(|_| "BinData does not represent a valid UTF-8 string")
        }
    }
}

fn hex_digits(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| u8::try_from(digit(high)? << 4 | digit(low)?).ok()).collect()
}

/// Only the form with four hyphens is one.
fn from_uuid(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<&str> = text.split('-').collect();
    if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
        return None;
    }
    hex_digits(&groups.concat())
}

/// The bytes of an int, a long or a double; `None` for other values.
pub(super) fn from_number(value: Value<'_>, order: ByteOrder) -> Option<Vec<u8>> {
    match value {
        Value::Int32(number) => Some(order.apply(number.to_le_bytes()).to_vec()),
        Value::Int64(number) => Some(order.apply(number.to_le_bytes()).to_vec()),
        Value::Double(number) => Some(order.apply(number.to_le_bytes()).to_vec()),
        _ => None,
    }
}

/// The signed integer of 1, 2, 4 or 8 bytes; `None` for another length.
pub(super) fn to_integer(bytes: &[u8], order: ByteOrder) -> Option<i64> {
    match *bytes {
        [a] => Some(i8::from_le_bytes([a]).into()),
        [a, b] => Some(i16::from_le_bytes(order.apply([a, b])).into()),
        [a, b, c, d] => Some(i32::from_le_bytes(order.apply([a, b, c, d])).into()),
        _ => Some(i64::from_le_bytes(order.apply(bytes.try_into().ok()?))),
    }
}

/// The number of 4 or 8 bytes; `None` for another length.
pub(super) fn to_double(bytes: &[u8], order: ByteOrder) -> Option<f64> {
    match *bytes {
        [a, b, c, d] => Some(f32::from_le_bytes(order.apply([a, b, c, d])).into()),
        _ => Some(f64::from_le_bytes(order.apply(bytes.try_into().ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_of_bytes_can_be_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        for length in [0, 1, 2, 3, 16, 256] {
            for format in [Format::Base64, Format::Base64Url, Format::Hex] {
                let text = to_text(GENERIC, &all[..length], format).unwrap();
                assert_eq!(
                    from_text(&text, format, GENERIC).as_deref(),
                    Ok(&all[..length]),
                    "{format:?} {length}"
                );
            }
        }
        let text = to_text(UUID, &all[..16], Format::Uuid).unwrap();
        assert_eq!(text, "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(from_text(&text, Format::Uuid, UUID).as_deref(), Ok(&all[..16]));
    }

    #[test]
    fn what_is_not_in_its_format_is_refused() {
        for (format, texts) in [
            (Format::Base64, &["a", "YQ", "YQ=", "Y-Q=", "YQ==\n"][..]),
            (Format::Base64Url, &["a", "Y+Q="]),
            (Format::Hex, &["a", "0g", "0xab", "é"]),
            (Format::Auto, &["YQ=="]),
        ] {
            for text in texts {
                assert!(from_text(text, format, GENERIC).is_err(), "{format:?} {text}");
            }
        }
        for text in [
            "",
            "000102030405060708090a0b0c0d0e0f",
            "00010203-0405-0607-0809-0a0b0c0d0e0",
            "{00010203-0405-0607-0809-0a0b0c0d0e0f}",
            "0001020304-05-0607-0809-0a0b0c0d0e0f",
        ] {
            assert!(from_text(text, Format::Uuid, UUID).is_err(), "{text}");
        }
        assert!(
            from_text("YQ==", Format::Base64, UUID).is_err()
                && from_text("a", Format::Uuid, GENERIC).is_err()
        );
        assert!(
            to_text(GENERIC, &[0xff], Format::Utf8).is_err() && to_text(UUID, &[1], Format::Uuid).is_err()
        );
        assert_eq!(to_text(UUID, &[1], Format::Auto).as_deref(), Ok("AQ=="));
    }

    #[test]
    fn numbers_of_every_length_are_signed_and_in_the_order_of_their_bytes() {
        let (little, big) = (ByteOrder::Little, ByteOrder::Big);
        assert_eq!(to_integer(&[0xff], big), Some(-1));
        assert_eq!((to_integer(&[1, 0], little), to_integer(&[1, 0], big)), (Some(1), Some(256)));
        assert_eq!(to_integer(&[0xff, 0xff, 0xff, 0xfe], big), Some(-2));
        for bytes in [&[][..], &[1; 3], &[1; 5], &[1; 9], &[1; 16]] {
            assert_eq!((to_integer(bytes, little), to_double(bytes, little)), (None, None), "{bytes:?}");
        }
        for value in [Value::Int32(-7), Value::Int64(i64::MIN), Value::Double(-1.5)] {
            for order in [little, big] {
                let bytes = from_number(value, order).unwrap();
                let back = match value {
                    Value::Double(_) => to_double(&bytes, order).map(Value::Double),
                    Value::Int32(_) => to_integer(&bytes, order).map(|number| Value::Int32(number as i32)),
                    _ => to_integer(&bytes, order).map(Value::Int64),
                };
                assert!(crate::doc::compare::compare(back.unwrap(), value).is_eq(), "{value:?} {order:?}");
            }
        }
        assert_eq!(to_double(&1.5f32.to_be_bytes(), big), Some(1.5));
    }
}
