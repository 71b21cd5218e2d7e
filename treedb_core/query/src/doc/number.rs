//! Exact comparison across the four number types, and the decimal arithmetic that updates need.
//!
//! Every finite number has a magnitude `m`. Its *floor* is the greatest double not above `m`; doubles, 32-bit integers and
//! most others are their own floor. What the floor does not tell (large 64-bit integers, most decimals) is in the number's
//! exact decimal digits. Two numbers are compared by sign, floor, then digits, which is also how [`super::key`] writes
//! them.

use std::cmp::Ordering;

use super::value::Value;

/// Largest coefficient of a decimal128: 34 nines.
const MAX_COEFFICIENT: u128 = 10u128.pow(34) - 1;
const EXPONENT_BIAS: i32 = 6176;
const MAX_EXPONENT: i32 = 6111;

/// A decimal128, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decimal {
    Nan,
    Infinite { negative: bool },
    Finite { negative: bool, coefficient: u128, exponent: i32 },
}

impl Decimal {
    /// Takes the stored bytes apart (binary integer encoding; a coefficient out of range counts as zero).
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        let negative = bits >> 127 != 0;
        let top = (bits >> 122) as u32 & 0x1f;
        if top == 0x1f {
            return Decimal::Nan;
        }
        if top == 0x1e {
            return Decimal::Infinite { negative };
        }
        let (exponent, coefficient) = if top >> 3 == 3 {
            ((bits >> 111) as i32 & 0x3fff, 0) // an implied leading 100 is above the largest coefficient
        } else {
            ((bits >> 113) as i32 & 0x3fff, bits & ((1 << 113) - 1))
        };
        let coefficient = if coefficient > MAX_COEFFICIENT { 0 } else { coefficient };
        Decimal::Finite { negative, coefficient, exponent: exponent - EXPONENT_BIAS }
    }

    /// The bytes to store. The parts are in range by construction.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let bits = match self {
            Decimal::Nan => 0x1f << 122,
            Decimal::Infinite { negative } => u128::from(negative) << 127 | 0x1e << 122,
            Decimal::Finite { negative, coefficient, exponent } => {
                u128::from(negative) << 127 | ((exponent + EXPONENT_BIAS) as u128) << 113 | coefficient
            }
        };
        bits.to_le_bytes()
    }

    pub(crate) fn from_integer(value: i64) -> Self {
        Decimal::Finite { negative: value < 0, coefficient: u128::from(value.unsigned_abs()), exponent: 0 }
    }

    /// A double as a decimal of 15 digits, the precision every double keeps.
    pub(crate) fn from_double(value: f64) -> Self {
        if value.is_nan() {
            return Decimal::Nan;
        }
        if value.is_infinite() {
            return Decimal::Infinite { negative: value < 0.0 };
        }
        let text = format!("{:.14e}", value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let coefficient: u128 = digits.replace('.', "").parse().unwrap_or(0);
        let exponent = exponent.parse::<i32>().unwrap_or(0) - 14;
        let (coefficient, exponent) = strip_zeros(coefficient, exponent);
        Decimal::Finite { negative: value < 0.0, coefficient, exponent }
    }

    pub(crate) fn as_integer(self) -> Option<i64> {
        let Decimal::Finite { negative, coefficient, exponent } = self else { return None };
        let (coefficient, exponent) = strip_zeros(coefficient, exponent);
        if coefficient == 0 {
            return Some(0);
        }
        let magnitude = coefficient.checked_mul(10u128.checked_pow(u32::try_from(exponent).ok()?)?)?;
        let value = i128::try_from(magnitude).ok()?;
        i64::try_from(if negative { -value } else { value }).ok()
    }

    /// The number without its fraction, if it fits.
    pub(crate) fn whole_part(self) -> Option<i64> {
        let Decimal::Finite { negative, coefficient, exponent } = self else { return None };
        if exponent >= 0 {
            return self.as_integer();
        }
        let whole = 10u128.checked_pow(exponent.unsigned_abs()).map_or(0, |unit| coefficient / unit);
        let value = i128::try_from(whole).ok()?;
        i64::try_from(if negative { -value } else { value }).ok()
    }

    /// The product, rounded half to even to 34 digits.
    pub(crate) fn mul(self, other: Decimal) -> Decimal {
        match (self, other) {
            (Decimal::Nan, _) | (_, Decimal::Nan) => Decimal::Nan,
            (
                Decimal::Finite { negative: a, coefficient: x, exponent: e },
                Decimal::Finite { negative: b, coefficient: y, exponent: f },
            ) => Self::fitted(a != b, Big::new(x).times(&Big::new(y)), e + f),
            (Decimal::Infinite { negative: a }, Decimal::Infinite { negative: b }) => {
                Decimal::Infinite { negative: a != b }
            }
            (Decimal::Infinite { negative: a }, Decimal::Finite { negative: b, coefficient, .. })
            | (Decimal::Finite { negative: b, coefficient, .. }, Decimal::Infinite { negative: a }) => {
                if coefficient == 0 {
                    Decimal::Nan
                } else {
                    Decimal::Infinite { negative: a != b }
                }
            }
        }
    }

    /// The sum, rounded half to even to 34 digits.
    pub(crate) fn add(self, other: Decimal) -> Decimal {
        let (a, b) = match (self, other) {
            (Decimal::Nan, _) | (_, Decimal::Nan) => return Decimal::Nan,
            (Decimal::Infinite { negative: a }, Decimal::Infinite { negative: b }) if a != b => {
                return Decimal::Nan;
            }
            (Decimal::Infinite { .. }, _) => return self,
            (_, Decimal::Infinite { .. }) => return other,
            (Decimal::Finite { coefficient: 0, exponent: e, .. }, Decimal::Finite { exponent: f, .. })
                if e >= f =>
            {
                return other;
            }
            (Decimal::Finite { exponent: f, .. }, Decimal::Finite { coefficient: 0, exponent: e, .. })
                if e >= f =>
            {
                return self;
            }
            (
                Decimal::Finite { negative: an, coefficient: ac, exponent: ae },
                Decimal::Finite { negative: bn, coefficient: bc, exponent: be },
            ) => ((an, ac, ae), (bn, bc, be)),
        };
        let (high, low) = if a.2 >= b.2 { (a, b) } else { (b, a) };
        // Beyond 75 digits apart the lower number is below half a unit of the result: one digit stands for it.
        let (low_coefficient, low_exponent) =
            if high.2 - low.2 > 75 { (u128::from(low.1 != 0), high.2 - 75) } else { (low.1, low.2) };
        let mut x = Big::new(high.1);
        x.mul_power(10, (high.2 - low_exponent).unsigned_abs());
        let y = Big::new(low_coefficient);
        let (negative, sum) = if high.0 == low.0 {
            (high.0, x.plus(&y))
        } else {
            match x.cmp(&y) {
                Ordering::Less => (low.0, y.minus(&x)),
                Ordering::Equal => (false, Big::new(0)),
                Ordering::Greater => (high.0, x.minus(&y)),
            }
        };
        Self::rounded(negative, sum, low_exponent)
    }

    /// The same with the other sign.
    pub(crate) fn negated(self) -> Decimal {
        match self {
            Decimal::Nan => Decimal::Nan,
            Decimal::Infinite { negative } => Decimal::Infinite { negative: !negative },
            Decimal::Finite { negative, coefficient, exponent } => {
                Decimal::Finite { negative: !negative, coefficient, exponent }
            }
        }
    }

    /// The quotient, rounded half to even to 34 digits. A divisor of zero gives NaN.
    pub(crate) fn divide(self, other: Decimal) -> Decimal {
        match (self, other) {
            (Decimal::Nan, _) | (_, Decimal::Nan) => Decimal::Nan,
            (_, Decimal::Finite { coefficient: 0, .. }) => Decimal::Nan,
            (Decimal::Infinite { .. }, Decimal::Infinite { .. }) => Decimal::Nan,
            (Decimal::Infinite { negative }, b) => {
                Decimal::Infinite { negative: negative != b.is_negative() }
            }
            (a, Decimal::Infinite { negative }) => Decimal::Finite {
                negative: a.is_negative() != negative,
                coefficient: 0,
                exponent: -EXPONENT_BIAS,
            },
            (
                Decimal::Finite { negative: an, coefficient: ac, exponent: ae },
                Decimal::Finite { negative: bn, coefficient: bc, exponent: be },
            ) => {
                let (mut quotient, mut rest, mut exponent) = (ac / bc, ac % bc, ae - be);
                while rest != 0 && quotient <= MAX_COEFFICIENT / 10 {
                    rest *= 10;
                    quotient = quotient * 10 + rest / bc;
                    rest %= bc;
                    exponent -= 1;
                }
                // The digit after the last, and whether anything follows it, decide the rounding.
                let tail = rest * 10;
                let mut sum = Big::new(quotient);
                if rest != 0 {
                    sum.mul_small(100);
                    let digit = tail / bc;
                    let follows = u128::from(tail % bc != 0);
                    sum = sum.plus(&Big::new(digit * 10 + follows));
                    exponent -= 2;
                }
                Self::fitted(an != bn, sum, exponent)
            }
        }
    }

    /// The remainder of a division that truncates; `None` where it cannot be said exactly.
    pub(crate) fn remainder(self, other: Decimal) -> Option<Decimal> {
        let (
            Decimal::Finite { negative, coefficient: ac, exponent: ae },
            Decimal::Finite { coefficient: bc, exponent: be, .. },
        ) = (self, other)
        else {
            return None;
        };
        let exponent = ae.min(be);
        let raise = |coefficient: u128, by: i32| {
            10_u128.checked_pow(by.unsigned_abs()).and_then(|power| coefficient.checked_mul(power))
        };
        let rest = raise(ac, ae - exponent)?.checked_rem(raise(bc, be - exponent)?)?;
        Some(Self::fitted(negative, Big::new(rest), exponent))
    }

    /// Rounded to `place` digits after the point (before it, if negative).
    pub(crate) fn round(self, place: i32, how: Rounding) -> Decimal {
        let Decimal::Finite { negative, coefficient, exponent } = self else { return self };
        let drop = (-place).saturating_sub(exponent);
        if drop <= 0 || coefficient == 0 {
            return self;
        }
        let power = 10_u128.checked_pow(drop.unsigned_abs());
        let (mut kept, rest, half) = match power {
            Some(power) => (coefficient / power, coefficient % power, (coefficient % power * 2).cmp(&power)),
            None => (0, coefficient, Ordering::Less),
        };
        let up = match how {
            Rounding::HalfEven => half.is_gt() || half.is_eq() && kept % 2 == 1,
            Rounding::Down => false,
            Rounding::Floor => negative && rest != 0,
            Rounding::Ceiling => !negative && rest != 0,
        };
        kept += u128::from(up);
        Self::fitted(negative, Big::new(kept), -place)
    }

    /// True for a minus sign.
    pub(crate) fn is_negative(self) -> bool {
        match self {
            Decimal::Nan => false,
            Decimal::Infinite { negative } | Decimal::Finite { negative, .. } => negative,
        }
    }

    /// True for zero of either sign.
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Decimal::Finite { coefficient: 0, .. })
    }

    /// The nearest double.
    pub(crate) fn to_double(self) -> f64 {
        match self {
            Decimal::Nan => f64::NAN,
            Decimal::Infinite { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Decimal::Finite { negative, coefficient, exponent } => {
                let magnitude: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::INFINITY);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// [`Self::rounded`] for an exponent that may be too small.
    fn fitted(negative: bool, mut sum: Big, mut exponent: i32) -> Decimal {
        let mut sticky = false;
        while exponent < -EXPONENT_BIAS - 1 {
            sticky |= sum.div_small(10) != 0;
            exponent += 1;
        }
        if exponent == -EXPONENT_BIAS - 1 {
            let last = sum.div_small(10);
            exponent += 1;
            if last > 5 || last == 5 && (sticky || sum.is_odd()) {
                sum = sum.plus(&Big::new(1));
            }
        }
        Self::rounded(negative, sum, exponent)
    }

    /// `sum * 10^exponent` in 34 digits.
    fn rounded(negative: bool, mut sum: Big, mut exponent: i32) -> Decimal {
        let (mut last, mut sticky) = (0, false);
        while exponent < -EXPONENT_BIAS || sum.as_u128().is_none_or(|value| value > MAX_COEFFICIENT) {
            sticky |= last != 0;
            last = sum.div_small(10);
            exponent += 1;
        }
        let mut coefficient = sum.as_u128().unwrap_or(0);
        if last > 5 || last == 5 && (sticky || coefficient % 2 == 1) {
            coefficient += 1;
            if coefficient > MAX_COEFFICIENT {
                (coefficient, exponent) = (coefficient / 10, exponent + 1);
            }
        }
        while exponent > MAX_EXPONENT && coefficient != 0 && coefficient <= MAX_COEFFICIENT / 10 {
            (coefficient, exponent) = (coefficient * 10, exponent - 1);
        }
        if exponent > MAX_EXPONENT && coefficient != 0 {
            return Decimal::Infinite { negative };
        }
        Decimal::Finite { negative, coefficient, exponent: exponent.clamp(-EXPONENT_BIAS, MAX_EXPONENT) }
    }
}

/// Which way a number goes that lies between two others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearer one, to the even one from the middle.
    HalfEven,
    /// Towards zero.
    Down,
    /// To the lower one.
    Floor,
    /// To the higher one.
    Ceiling,
}

fn strip_zeros(mut coefficient: u128, mut exponent: i32) -> (u128, i32) {
    while coefficient != 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    (coefficient, exponent)
}

/// The exact digits of a magnitude: 0.`coefficient` times 10 to the `point`, without trailing zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digits {
    pub(crate) point: i32,
    pub(crate) coefficient: u128,
}

impl Digits {
    fn new(coefficient: u128, exponent: i32) -> Self {
        let (coefficient, exponent) = strip_zeros(coefficient, exponent);
        let len = coefficient.checked_ilog10().map_or(0, |log| log as i32 + 1);
        Digits { point: exponent + len, coefficient }
    }

    /// The digits two by two from the left, each pair 0 to 99.
    pub(crate) fn pairs(self) -> Vec<u8> {
        let mut rest = self.coefficient;
        if rest.checked_ilog10().is_some_and(|log| log % 2 == 0) {
            rest *= 10;
        }
        let mut pairs = Vec::with_capacity(17);
        while rest != 0 {
            pairs.push((rest % 100) as u8);
            rest /= 100;
        }
        pairs.reverse();
        pairs
    }

    fn cmp(self, other: Digits) -> Ordering {
        self.point.cmp(&other.point).then_with(|| self.pairs().cmp(&other.pairs()))
    }
}

/// A number in the form in which all kinds compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// Not a number: below all others, equal to itself.
    Nan,
    /// Zero of either sign.
    Zero,
    /// Anything else.
    Signed {
        negative: bool,
        /// The greatest double that is not above the magnitude; infinity for infinity.
        floor: f64,
        /// The magnitude's digits, where the floor is not all of it.
        digits: Option<Digits>,
    },
}

impl Number {
    /// The number in `value`, if it is one.
    pub(crate) fn new(value: Value<'_>) -> Option<Number> {
        Some(match value {
            Value::Int32(value) => Self::exact(f64::from(value)),
            Value::Int64(value) => Self::integer(value),
            Value::Double(value) => Self::exact(value),
            Value::Decimal(bytes) => Self::decimal(Decimal::new(bytes)),
            _ => return None,
        })
    }

    fn exact(value: f64) -> Number {
        if value.is_nan() {
            Number::Nan
        } else if value == 0.0 {
            Number::Zero
        } else {
            Number::Signed { negative: value < 0.0, floor: value.abs(), digits: None }
        }
    }

    fn integer(value: i64) -> Number {
        let magnitude = value.unsigned_abs();
        if magnitude == 0 {
            return Number::Zero;
        }
        // A double holds 53 bits.
        let surplus = 11u32.saturating_sub(magnitude.leading_zeros());
        let kept = magnitude >> surplus << surplus;
        let digits = (kept != magnitude).then(|| Digits::new(u128::from(magnitude), 0));
        Number::Signed { negative: value < 0, floor: kept as f64, digits }
    }

    fn decimal(value: Decimal) -> Number {
        match value {
            Decimal::Nan => Number::Nan,
            Decimal::Infinite { negative } => Number::Signed { negative, floor: f64::INFINITY, digits: None },
            Decimal::Finite { coefficient: 0, .. } => Number::Zero,
            Decimal::Finite { negative, coefficient, exponent } => {
                let nearest: f64 = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::INFINITY);
                let (floor, exact) = if nearest.is_infinite() {
                    (f64::MAX, false)
                } else if nearest == 0.0 {
                    (0.0, false)
                } else {
                    match compare_double_decimal(nearest, coefficient, exponent) {
                        Ordering::Less => (nearest, false),
                        Ordering::Equal => (nearest, true),
                        Ordering::Greater => (nearest.next_down(), false),
                    }
                };
                let digits = (!exact).then(|| Digits::new(coefficient, exponent));
                Number::Signed { negative, floor, digits }
            }
        }
    }

    pub(crate) fn cmp(self, other: Number) -> Ordering {
        let rank = |number| match number {
            Number::Nan => 0,
            Number::Signed { negative: true, .. } => 1,
            Number::Zero => 2,
            Number::Signed { negative: false, .. } => 3,
        };
        match (self, other) {
            (
                Number::Signed { negative, floor: a, digits: x },
                Number::Signed { negative: other_negative, floor: b, digits: y },
            ) if negative == other_negative => {
                let order = a.total_cmp(&b).then_with(|| match (x, y) {
                    (None, None) => Ordering::Equal,
                    (None, Some(_)) => Ordering::Less,
                    (Some(_), None) => Ordering::Greater,
                    (Some(x), Some(y)) => x.cmp(y),
                });
                if negative { order.reverse() } else { order }
            }
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

/// `double` (positive, finite) against `coefficient * 10^exponent`, exactly.
fn compare_double_decimal(double: f64, coefficient: u128, exponent: i32) -> Ordering {
    let bits = double.to_bits();
    let stored = (bits >> 52) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, binary) =
        if stored == 0 { (fraction, -1074) } else { (fraction | 1 << 52, stored - 1075) };
    // mantissa * 2^binary  against  coefficient * 5^exponent * 2^exponent
    let (mut left, mut right) = (Big::new(u128::from(mantissa)), Big::new(coefficient));
    let side = if exponent < 0 { &mut left } else { &mut right };
    side.mul_power(5, exponent.unsigned_abs());
    let twos = binary - exponent;
    let side = if twos < 0 { &mut right } else { &mut left };
    side.mul_power(2, twos.unsigned_abs());
    left.cmp(&right)
}

/// A natural number of any size: 32-bit digits, least first, no leading zero digits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Big(Vec<u32>);

impl Big {
    fn new(value: u128) -> Self {
        let mut big = Big((0..4).map(|digit| (value >> (32 * digit)) as u32).collect());
        big.trim();
        big
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn mul_small(&mut self, factor: u32) {
        let mut carry = 0;
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    fn is_odd(&self) -> bool {
        self.0.first().is_some_and(|digit| digit % 2 == 1)
    }

    fn mul_power(&mut self, base: u32, mut exponent: u32) {
        // The largest power of 2, 5 or 10 with this exponent fits 32 bits for all of them.
        const STEP: u32 = 9;
        while exponent >= STEP {
            self.mul_small(base.pow(STEP));
            exponent -= STEP;
        }
        self.mul_small(base.pow(exponent));
    }

    /// Divides in place and returns the remainder.
    fn div_small(&mut self, divisor: u32) -> u32 {
        let mut remainder = 0u64;
        for digit in self.0.iter_mut().rev() {
            remainder = remainder << 32 | u64::from(*digit);
            *digit = (remainder / u64::from(divisor)) as u32;
            remainder %= u64::from(divisor);
        }
        self.trim();
        remainder as u32
    }

    fn plus(&self, other: &Big) -> Big {
        let mut carry = 0u64;
        let digit = |big: &Big, at: usize| u64::from(big.0.get(at).copied().unwrap_or(0));
        let mut sum: Vec<u32> = (0..self.0.len().max(other.0.len()))
            .map(|at| {
                carry += digit(self, at) + digit(other, at);
                let low = carry as u32;
                carry >>= 32;
                low
            })
            .collect();
        sum.push(carry as u32);
        let mut sum = Big(sum);
        sum.trim();
        sum
    }

    fn times(&self, other: &Big) -> Big {
        let mut product = Big(Vec::new());
        for &digit in other.0.iter().rev() {
            // One digit up, then what this digit adds.
            product.0.insert(0, 0);
            let mut part = Big(self.0.clone());
            part.mul_small(digit);
            product = product.plus(&part);
        }
        product
    }

    /// `self - other`; `other` is not greater.
    fn minus(&self, other: &Big) -> Big {
        let mut borrow = 0i64;
        let mut difference = Big(self
            .0
            .iter()
            .enumerate()
            .map(|(at, &digit)| {
                borrow += i64::from(digit) - i64::from(other.0.get(at).copied().unwrap_or(0));
                let low = borrow as u32;
                borrow >>= 32;
                low
            })
            .collect());
        difference.trim();
        difference
    }

    fn cmp(&self, other: &Big) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn as_u128(&self) -> Option<u128> {
        (self.0.len() <= 4)
            .then(|| self.0.iter().enumerate().map(|(at, &digit)| u128::from(digit) << (32 * at)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::new(text.parse::<bson::Decimal128>().unwrap().bytes())
    }

    fn shown(value: Decimal) -> String {
        bson::Decimal128::from_bytes(value.to_bytes()).to_string()
    }

    fn order(a: Value<'_>, b: Value<'_>) -> Ordering {
        Number::new(a).unwrap().cmp(Number::new(b).unwrap())
    }

    fn dec(text: &str) -> Value<'static> {
        Value::Decimal(decimal(text).to_bytes())
    }

    #[test]
    fn decimals_survive_being_taken_apart() {
        for text in ["0", "-1.5", "9.999999999999999999999999999999999E+6144", "1E-6176", "NaN", "-Infinity"]
        {
            assert_eq!(shown(decimal(text)), text);
        }
    }

    #[test]
    fn numbers_of_different_kinds_compare_by_exact_value() {
        let big = 1i64 << 53;
        for (a, b, expected) in [
            (Value::Int32(1), Value::Double(1.0), Ordering::Equal),
            (Value::Int64(big + 1), Value::Double(big as f64), Ordering::Greater),
            (Value::Int64(-big - 1), Value::Double(-(big as f64)), Ordering::Less),
            (Value::Int64(i64::MAX), Value::Double(i64::MAX as f64), Ordering::Less),
            (Value::Int64(i64::MIN), Value::Double(i64::MIN as f64), Ordering::Equal),
            (dec("0.1"), Value::Double(0.1), Ordering::Less), // the double is a little above a tenth
            (dec("0.3"), Value::Double(0.3), Ordering::Greater), // and this one a little below
            (dec("0.5"), Value::Double(0.5), Ordering::Equal),
            (dec("0.50"), dec("0.5"), Ordering::Equal),
            (dec("9223372036854775807"), Value::Int64(i64::MAX), Ordering::Equal),
            (dec("9223372036854775806.5"), Value::Int64(i64::MAX), Ordering::Less),
            (dec("1E+400"), Value::Double(f64::MAX), Ordering::Greater),
            (dec("1E+400"), Value::Double(f64::INFINITY), Ordering::Less),
            (dec("1E-400"), Value::Int32(0), Ordering::Greater),
            (dec("-1E-400"), Value::Double(-0.0), Ordering::Less),
            (dec("Infinity"), Value::Double(f64::INFINITY), Ordering::Equal),
            (dec("NaN"), Value::Double(f64::NAN), Ordering::Equal),
            (Value::Double(f64::NAN), Value::Double(f64::NEG_INFINITY), Ordering::Less),
            (Value::Double(-0.0), Value::Int32(0), Ordering::Equal),
            (dec("4.9E-324"), Value::Double(5e-324), Ordering::Less),
        ] {
            assert_eq!(order(a, b), expected, "{a:?} {b:?}");
            assert_eq!(order(b, a), expected.reverse(), "{b:?} {a:?}");
        }
    }

    #[test]
    fn decimal_sums_are_rounded_half_to_even_to_34_digits() {
        for (a, b, sum) in [
            ("1.1", "2.2", "3.3"),
            ("1", "-1", "0"),
            ("-5", "3", "-2"),
            ("9999999999999999999999999999999999", "1", "1.000000000000000000000000000000000E+34"),
            ("1E+40", "1", "1.000000000000000000000000000000000E+40"),
            ("1000000000000000000000000000000000", "0.5", "1000000000000000000000000000000000"),
            ("1000000000000000000000000000000001", "0.5", "1000000000000000000000000000000002"),
            ("1000000000000000000000000000000000", "0.500000001", "1000000000000000000000000000000001"),
            ("9.999999999999999999999999999999999E+6144", "9E+6144", "Infinity"),
            ("Infinity", "-Infinity", "NaN"),
            ("0", "7.50", "7.50"),
            ("1E+6000", "1E-6000", "1.000000000000000000000000000000000E+6000"),
        ] {
            let result = shown(decimal(a).add(decimal(b)));
            assert_eq!(result, sum, "{a} + {b}");
            assert_eq!(shown(decimal(b).add(decimal(a))), sum, "{b} + {a}");
        }
        assert_eq!(shown(Decimal::from_double(0.1)), "0.1");
        assert_eq!(shown(Decimal::from_double(-1234.5)), "-1234.5");
    }
}
