//! `$mod`: the remainder of a number's integer part.

use crate::doc::{Decimal, Element, Value};
use crate::error::{QueryError, Result};

/// A divisor and the required remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modulo {
    divisor: i64,
    remainder: i64,
}

/// The integer part of a number; `None` for other values and numbers outside the range of 64 bits.
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
    /// Parses `[divisor, remainder]`.
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
        // Only `i64::MIN % -1` overflows, and its remainder is 0, which is what `wrapping_rem` returns.
        whole_part(value).is_some_and(|n| n.wrapping_rem(self.divisor) == self.remainder)
    }
}
