//! Sums, deviations and percentiles: shared by the expressions over arrays and the accumulators of `$group`.

use crate::doc::{Decimal, Value};

use super::number::Num;
use crate::query::byte_form::{put_bytes, take};

/// A sum of numbers of all types. Integers are added exactly, doubles with a compensation term for the
/// rounding error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    whole: i64,
    double: f64,
    error: f64,
    count: u64,
    rare: Option<Box<Rare>>,
    long: bool,
    doubles: bool,
}

/// The fields that few sums need. They are boxed because a `$group` keeps a `Sum` for every group.
#[derive(Debug, Clone, Default)]
struct Rare {
    /// The part of the integer sum that did not fit 64 bits.
    whole: i128,
    decimal: Option<Decimal>,
}

impl Sum {
    /// Adds a number; other values do not count.
    #[inline]
    pub(crate) fn add(&mut self, value: Value<'_>) {
        let Some(number) = Num::new(value) else { return };
        self.count += 1;
        match number {
            Num::Int(value) => self.add_whole(i64::from(value)),
            Num::Long(value) => {
                self.long = true;
                self.add_whole(value);
            }
            Num::Double(value) => self.add_double(value),
            Num::Decimal(value) => self.add_decimal(value),
        }
    }

    /// Adds an integer `times` times.
    pub(crate) fn add_times(&mut self, value: Value<'_>, times: u64) {
        if let Some(whole) = value.as_integer() {
            self.rare.get_or_insert_default().whole += i128::from(whole) * i128::from(times);
            self.long |= matches!(value, Value::Int64(_));
            self.count += times;
        }
    }

    /// Adds the numbers of another sum.
    pub(crate) fn merge(&mut self, other: &Sum) {
        self.add_whole(other.whole);
        self.long |= other.long;
        self.count += other.count;
        if let Some(rare) = &other.rare {
            self.rare.get_or_insert_default().whole += rare.whole;
            rare.decimal.into_iter().for_each(|value| self.add_decimal(value));
        }
        if other.doubles {
            self.add_double(other.double);
            self.error += other.error;
        }
    }

    /// Appends the sum as bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.whole.to_le_bytes());
        put_bytes(out, self.double.to_le_bytes());
        put_bytes(out, self.error.to_le_bytes());
        put_bytes(out, self.count.to_le_bytes());
        let decimal = self.rare.as_ref().and_then(|rare| rare.decimal);
        let flags = [self.long, self.doubles, self.rare.is_some(), decimal.is_some()];
        put_bytes(out, flags.map(u8::from));
        if let Some(rare) = &self.rare {
            put_bytes(out, rare.whole.to_le_bytes());
        }
        if let Some(decimal) = decimal {
            put_bytes(out, decimal.to_bytes());
        }
    }

    /// Takes a sum off the front of `bytes`.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Sum> {
        let (whole, double) = (i64::from_le_bytes(take(bytes)?), f64::from_le_bytes(take(bytes)?));
        let (error, count) = (f64::from_le_bytes(take(bytes)?), u64::from_le_bytes(take(bytes)?));
        let [long, doubles, rare, decimal] = take::<4>(bytes)?.map(|flag| flag != 0);
        let mut sum = Sum { whole, double, error, count, rare: None, long, doubles };
        if rare {
            let whole = i128::from_le_bytes(take(bytes)?);
            let decimal = if decimal { Some(Decimal::new(take(bytes)?)) } else { None };
            sum.rare = Some(Box::new(Rare { whole, decimal }));
        }
        Some(sum)
    }

    #[inline]
    fn add_whole(&mut self, value: i64) {
        match self.whole.checked_add(value) {
            Some(whole) => self.whole = whole,
            None => self.rare.get_or_insert_default().whole += i128::from(value),
        }
    }

    #[inline]
    fn add_double(&mut self, value: f64) {
        self.doubles = true;
        let total = self.double + value;
        // The part of the smaller operand that was lost by rounding.
        if total.is_finite() {
            self.error += if self.double.abs() >= value.abs() {
                (self.double - total) + value
            } else {
                (value - total) + self.double
            };
        }
        self.double = total;
    }

    fn add_decimal(&mut self, value: Decimal) {
        let rare = self.rare.get_or_insert_default();
        rare.decimal = Some(rare.decimal.map_or(value, |sum| sum.add(value)));
    }

    fn fraction(&self) -> f64 {
        if self.double.is_finite() { self.double + self.error } else { self.double }
    }

    fn exact(&self) -> i128 {
        i128::from(self.whole) + self.rare.as_ref().map_or(0, |rare| rare.whole)
    }

    fn whole(&self) -> Num {
        let whole = self.exact();
        match (i32::try_from(whole), i64::try_from(whole)) {
            (Ok(small), _) if !self.long => Num::Int(small),
            (_, Ok(value)) => Num::Long(value),
            _ => Num::Double(whole as f64),
        }
    }

    /// The sum so far.
    pub(crate) fn total(&self) -> Num {
        match self.rare.as_ref().and_then(|rare| rare.decimal) {
            Some(decimal) => {
                let mut sum = decimal.add(self.whole().decimal());
                if self.doubles {
                    sum = sum.add(Decimal::from_double(self.fraction()));
                }
                Num::Decimal(sum)
            }
            None if self.doubles => Num::Double(self.fraction() + self.exact() as f64),
            None => self.whole(),
        }
    }

    /// The mean; `None` without numbers.
    pub(crate) fn mean(&self) -> Option<Num> {
        let count = i64::try_from(self.count).unwrap_or(i64::MAX);
        (count > 0).then(|| self.total().over(Num::Long(count)))
    }
}

/// A standard deviation, computed in one pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    /// Adds a number; other values do not count.
    pub(crate) fn add(&mut self, value: Value<'_>) {
        let Some(number) = Num::new(value) else { return };
        let value = number.double();
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Adds the numbers of another deviation.
    pub(crate) fn merge(&mut self, other: &Deviation) {
        if other.count == 0 {
            return;
        }
        let (own, new) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.count += other.count;
        self.mean += delta * new / (own + new);
        self.squares += other.squares + delta * delta * own * new / (own + new);
    }

    /// Appends the deviation as bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.count.to_le_bytes());
        put_bytes(out, self.mean.to_le_bytes());
        put_bytes(out, self.squares.to_le_bytes());
    }

    /// Takes a deviation off the front of `bytes`.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Deviation> {
        let count = u64::from_le_bytes(take(bytes)?);
        let (mean, squares) = (f64::from_le_bytes(take(bytes)?), f64::from_le_bytes(take(bytes)?));
        Some(Deviation { count, mean, squares })
    }

    /// The deviation of a whole population, or (`sample`) estimated from a sample; `None` for too few numbers.
    pub(crate) fn result(&self, sample: bool) -> Option<f64> {
        let over = self.count.checked_sub(u64::from(sample)).filter(|over| *over > 0)?;
        Some((self.squares / over as f64).sqrt())
    }
}

/// The percentile `p` (0 to 1) of `sorted`, by the nearest-rank method: always one of the numbers.
pub(crate) fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * p).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().checked_sub(1)?)).copied()
}

/// The `p` of a percentile: a number from 0 to 1.
pub(crate) fn fraction(value: Value<'_>) -> Option<f64> {
    Num::new(value).map(Num::double).filter(|p| (0.0..=1.0).contains(p))
}
