//! `$mod`: the remainder of a number's integer part.

use crate::doc::{Decimal, Element, Value};
use crate::error::{QueryError, Result};

/// A divisor and what must be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulo {
    divisor: i64,
    remainder: i64,
}

/// A number without its fraction; `None` for what is no number or not in the range of 64 bits.
pub(super) fn whole_part(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Double(n) => {
            // 2^63 is a double, the greatest i64 is not.
            const LIMIT: f64 = 9_223_372_036_854_775_808.0;
            let whole = n.trunc();
            (-LIMIT..LIMIT).contains(&whole).then_some(whole as i64)
        }
        Value::Decimal(bytes) => Decimal::new(bytes).whole_part(),
        other => other.as_integer(),
    }
}

impl Modulo {
    /// Reads `[divisor, remainder]`.
    pub(super) fn parse(path: &str, operand: &Element<'_>) -> Result<Self> {
        let malformed =
            |why: &str| Err(QueryError::bad_value(format!("malformed mod, {why} (field '{path}')")));
        let Value::Array(array) = operand.value() else { return malformed("needs to be an array") };
        let numbers: Vec<Value<'_>> = array.elements().take(3).map(|element| element.value()).collect();
        let (divisor, remainder) = match numbers.as_slice() {
            [] | [_] => return malformed("not enough elements"),
            [divisor, remainder] => (*divisor, *remainder),
            _ => return malformed("too many elements"),
        };
        let Some(divisor) = whole_part(divisor) else { return malformed("divisor is not a whole number") };
        let Some(remainder) = whole_part(remainder) else {
            return malformed("remainder is not a whole number");
        };
        if divisor == 0 {
            return Err(QueryError::bad_value(format!("divisor cannot be 0 (field '{path}')")));
        }
        Ok(Modulo { divisor, remainder })
    }

    pub(super) fn passes(self, value: Value<'_>) -> bool {
        // The only division that overflows leaves nothing.
        whole_part(value).is_some_and(|n| n.wrapping_rem(self.divisor) == self.remainder)
    }
}
