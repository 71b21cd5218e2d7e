//! `$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear`: bits of whole numbers and of binary data.
//!
//! Bit 0 is the lowest. A number is in two's complement, sign-extended without limit; binary data is
//! little-endian and followed by zeros without limit.

use crate::doc::{Element, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// A condition on bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits {
    /// All of the bits must have the value, not only one of them.
    all: bool,
    /// The value: set or clear.
    set: bool,
    positions: Positions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Positions {
    /// The bits that are set in these bytes, the lowest first.
    Mask(Box<[u8]>),
    /// These positions.
    List(Box<[u32]>),
}

impl Bits {
    /// Parses the operand of `operator`: a number, binary data, or an array of positions. `None` if
    /// `operator` is not one of the four.
    pub(super) fn parse(operator: &str, path: &str, operand: &Element<'_>) -> Option<Result<Self>> {
        let (all, set) = match operator {
            "$bitsAllSet" => (true, true),
            "$bitsAllClear" => (true, false),
            "$bitsAnySet" => (false, true),
            "$bitsAnyClear" => (false, false),
            _ => return None,
        };
        Some(positions(operator, path, operand.value()).map(|positions| Bits { all, set, positions }))
    }

    pub(super) fn passes(&self, value: Value<'_>) -> bool {
        let bit: &dyn Fn(u32) -> bool = match value {
            Value::Binary(_, bytes) => {
                &|at| bytes.get(at as usize / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            }
            value if value.is_number() => {
                let Some(number) = value.as_integer() else { return false };
                &move |at| number >> at.min(63) & 1 == 1
            }
            _ => return false,
        };
        let has_value = |at: u32| bit(at) == self.set;
        match (&self.positions, self.all) {
            (Positions::List(list), true) => list.iter().all(|at| has_value(*at)),
            (Positions::List(list), false) => list.iter().any(|at| has_value(*at)),
            (Positions::Mask(mask), true) => set_bits(mask).all(has_value),
            (Positions::Mask(mask), false) => set_bits(mask).any(has_value),
        }
    }
}

/// The positions of the bits that are set.
fn set_bits(mask: &[u8]) -> impl Iterator<Item = u32> {
    mask.iter().enumerate().flat_map(|(at, byte)| {
        let byte = *byte;
        (0..8_u32).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at as u32 * 8 + bit)
    })
}

fn positions(operator: &str, path: &str, operand: Value<'_>) -> Result<Positions> {
    let invalid = |code: ErrorCode, what: String| {
        Err(QueryError::new(code, format!("{what} (operator {operator}, field '{path}')")))
    };
    match operand {
        Value::Binary(_, bytes) => Ok(Positions::Mask(bytes.into())),
        Value::Array(array) => {
            let mut list = Vec::new();
            for element in array.elements() {
                let value = element.value();
                match value.as_integer().map(|at| u32::try_from(at).ok().filter(|at| *at <= i32::MAX as u32))
                {
                    Some(Some(at)) => list.push(at),
                    Some(None) => {
                        return invalid(
                            ErrorCode::BadValue,
                            format!(
                                "bit positions must be >= 0 and below 2^31, found {}",
                                crate::doc::shown(value)
                            ),
                        );
                    }
                    None => {
                        return invalid(
                            ErrorCode::BadValue,
                            format!("bit positions must be an integer, found {}", crate::doc::shown(value)),
                        );
                    }
                }
            }
            Ok(Positions::List(list.into()))
        }
        value if value.is_number() => match value.as_integer() {
            Some(mask) if mask >= 0 => Ok(Positions::Mask(mask.to_le_bytes().into())),
            _ => invalid(
                ErrorCode::FailedToParse,
                format!(
                    "a bitmask must be a whole number of 64 bits that is not negative, found {}",
                    crate::doc::shown(value)
                ),
            ),
        },
        value => invalid(
            ErrorCode::BadValue,
            format!("takes an Array, a number, or a BinData but received: {}", value.type_name()),
        ),
    }
}
