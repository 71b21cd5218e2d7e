//! Arithmetic over the four types of number: the result has the widest type of its operands; integers that
//! overflow are widened to 64 bits and then to doubles.

use std::ops::RangeInclusive;

use crate::doc::{Decimal, Rounding, Value};
use crate::error::{ErrorCode, QueryError, Result};

use super::{Found, Scope, nullish, type_name};

/// A number of one of the four types.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Num {
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
}

/// The error `code` with `message` followed by the type of `found`.
pub(super) fn wrong_type(code: ErrorCode, message: &str, found: Found<'_>) -> QueryError {
    QueryError::new(code, format!("{message} {}", type_name(found)))
}

impl Num {
    pub(crate) fn new(value: Value<'_>) -> Option<Num> {
        Some(match value {
            Value::Int32(value) => Num::Int(value),
            Value::Int64(value) => Num::Long(value),
            Value::Double(value) => Num::Double(value),
            Value::Decimal(bytes) => Num::Decimal(Decimal::new(bytes)),
            _ => return None,
        })
    }

    pub(crate) fn value<'a>(self) -> Value<'a> {
        match self {
            Num::Int(value) => Value::Int32(value),
            Num::Long(value) => Value::Int64(value),
            Num::Double(value) => Value::Double(value),
            Num::Decimal(value) => Value::Decimal(value.to_bytes()),
        }
    }

    pub(crate) fn double(self) -> f64 {
        match self {
            Num::Int(value) => f64::from(value),
            Num::Long(value) => value as f64,
            Num::Double(value) => value,
            Num::Decimal(value) => value.to_double(),
        }
    }

    pub(crate) fn decimal(self) -> Decimal {
        match self {
            Num::Int(value) => Decimal::from_integer(value.into()),
            Num::Long(value) => Decimal::from_integer(value),
            Num::Double(value) => Decimal::from_double(value),
            Num::Decimal(value) => value,
        }
    }

    fn long(self) -> Option<i64> {
        match self {
            Num::Int(value) => Some(value.into()),
            Num::Long(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        match self {
            Num::Int(value) => value == 0,
            Num::Long(value) => value == 0,
            Num::Double(value) => value == 0.0,
            Num::Decimal(value) => value.is_zero(),
        }
    }

    /// Applies the operation for the wider of the two types.
    fn with(
        self,
        other: Num,
        whole: fn(i64, i64) -> Option<i64>,
        double: fn(f64, f64) -> f64,
        decimal: impl FnOnce(Decimal, Decimal) -> Decimal,
    ) -> Num {
        match (self, other) {
            (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
                Num::Decimal(decimal(self.decimal(), other.decimal()))
            }
            _ => match (self.long(), other.long()) {
                (Some(a), Some(b)) => match whole(a, b) {
                    Some(result) => match (self, other, i32::try_from(result)) {
                        (Num::Int(_), Num::Int(_), Ok(small)) => Num::Int(small),
                        _ => Num::Long(result),
                    },
                    None => Num::Double(double(self.double(), other.double())),
                },
                _ => Num::Double(double(self.double(), other.double())),
            },
        }
    }

    pub(crate) fn plus(self, other: Num) -> Num {
        self.with(other, i64::checked_add, |a, b| a + b, Decimal::add)
    }

    pub(crate) fn minus(self, other: Num) -> Num {
        self.with(other, i64::checked_sub, |a, b| a - b, |a, b| a.add(b.negated()))
    }

    pub(crate) fn times(self, other: Num) -> Num {
        self.with(other, i64::checked_mul, |a, b| a * b, Decimal::mul)
    }

    /// A quotient, always a double or a decimal. The divisor is not zero.
    pub(crate) fn over(self, other: Num) -> Num {
        match (self, other) {
            (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
                Num::Decimal(self.decimal().divide(other.decimal()))
            }
            _ => Num::Double(self.double() / other.double()),
        }
    }
}

/// The operand as a number, or the error `code`.
fn num_or(code: ErrorCode, operator: &str, found: Found<'_>) -> Result<Num> {
    found
        .and_then(Num::new)
        .ok_or_else(|| wrong_type(code, &format!("{operator} only supports numeric types, not"), found))
}

/// The only operand as a number.
fn num(operator: &str, found: Found<'_>) -> Result<Num> {
    num_or(ErrorCode::Location28765, operator, found)
}

/// One of the operands of the four basic operations as a number.
fn term(operator: &str, found: Found<'_>) -> Result<Num> {
    num_or(ErrorCode::TypeMismatch, operator, found)
}

/// A number that is added to a date, in whole milliseconds.
fn millis(number: Num) -> Result<i64> {
    let whole = match number {
        Num::Int(value) => Some(value.into()),
        Num::Long(value) => Some(value),
        Num::Double(value) if value.abs() < 9.2e18 => Some(value.round_ties_even() as i64),
        Num::Double(_) => None,
        Num::Decimal(value) => value.round(0, Rounding::HalfEven).as_integer(),
    };
    whole.ok_or_else(|| QueryError::new(ErrorCode::Overflow, "date overflow"))
}

pub(super) fn add<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let (mut sum, mut date) = (Num::Int(0), false);
    for &arg in args {
        match arg {
            found if nullish(found) => return Ok(Some(Value::Null)),
            Some(Value::Date(value)) => {
                if date {
                    return Err(QueryError::new(
                        ErrorCode::Location16612,
                        "only one date allowed in an $add expression",
                    ));
                }
                date = true;
                sum = sum.plus(Num::Long(value));
            }
            found => match found.and_then(Num::new) {
                Some(number) => sum = sum.plus(number),
                None => {
                    return Err(wrong_type(
                        ErrorCode::TypeMismatch,
                        "$add only supports numeric or date types, not",
                        found,
                    ));
                }
            },
        }
    }
    Ok(Some(if date { Value::Date(millis(sum)?) } else { sum.value() }))
}

pub(super) fn subtract<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    let overflow = || QueryError::new(ErrorCode::Overflow, "date overflow in $subtract");
    match (a, b) {
        (Some(Value::Date(a)), Some(Value::Date(b))) => {
            Ok(Some(Value::Int64(a.checked_sub(b).ok_or_else(overflow)?)))
        }
        (Some(Value::Date(a)), b) => {
            let by = millis(term("$subtract", b)?)?;
            Ok(Some(Value::Date(a.checked_sub(by).ok_or_else(overflow)?)))
        }
        _ => match (a.and_then(Num::new), b.and_then(Num::new)) {
            (Some(a), Some(b)) => Ok(Some(a.minus(b).value())),
            _ => Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("can't $subtract {} from {}", type_name(b), type_name(a)),
            )),
        },
    }
}

pub(super) fn multiply<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut product = Num::Int(1);
    for &arg in args {
        if nullish(arg) {
            return Ok(Some(Value::Null));
        }
        product = product.times(term("$multiply", arg)?);
    }
    Ok(Some(product.value()))
}

pub(super) fn divide<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    let (a, b) = (term("$divide", a)?, term("$divide", b)?);
    if b.is_zero() {
        return Err(QueryError::bad_value("can't $divide by zero"));
    }
    Ok(Some(a.over(b).value()))
}

pub(super) fn modulo<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    let number = |found| num_or(ErrorCode::Location16611, "$mod", found);
    let (a, b) = (number(a)?, number(b)?);
    if b.is_zero() {
        let code = match (a, b) {
            (Num::Decimal(_), _) | (_, Num::Decimal(_)) => ErrorCode::Location5733415,
            _ => ErrorCode::Location16610,
        };
        return Err(QueryError::new(code, "can't $mod by zero"));
    }
    let decimal = |x: Decimal, y: Decimal| {
        x.remainder(y).unwrap_or_else(|| Decimal::from_double(x.to_double() % y.to_double()))
    };
    Ok(Some(a.with(b, |x, y| Some(x.wrapping_rem(y)), |x, y| x % y, decimal).value()))
}

pub(super) fn abs<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    Ok(Some(match num("$abs", a)? {
        Num::Int(value) => match value.checked_abs() {
            Some(value) => Value::Int32(value),
            None => Value::Int64(i64::from(value).abs()),
        },
        Num::Long(value) => {
            Value::Int64(value.checked_abs().ok_or_else(|| {
                QueryError::new(ErrorCode::Location28680, "can't take $abs of long long min")
            })?)
        }
        Num::Double(value) => Value::Double(value.abs()),
        Num::Decimal(value) if value.is_negative() => Num::Decimal(value.negated()).value(),
        other => other.value(),
    }))
}

pub(super) fn ceil<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    Ok(Some(match num("$ceil", a)? {
        Num::Double(value) => Value::Double(value.ceil()),
        Num::Decimal(value) => Num::Decimal(value.round(0, Rounding::Ceiling)).value(),
        other => other.value(),
    }))
}

pub(super) fn floor<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    Ok(Some(match num("$floor", a)? {
        Num::Double(value) => Value::Double(value.floor()),
        Num::Decimal(value) => Num::Decimal(value.round(0, Rounding::Floor)).value(),
        other => other.value(),
    }))
}

pub(super) fn round<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    round_to_place("$round", args, Rounding::HalfEven)
}

pub(super) fn trunc<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    round_to_place("$trunc", args, Rounding::Down)
}

fn round_to_place<'a>(operator: &str, args: &[Found<'a>], rounding: Rounding) -> Result<Found<'a>> {
    let number = num_or(ErrorCode::Location51081, operator, args.first().copied().flatten())?;
    let place = match args.get(1) {
        Some(place) => match place.and_then(|place| place.as_integer()) {
            Some(place) if (-20..=100).contains(&place) => place as i32,
            other => {
                let code = if other.is_some() { ErrorCode::Location51083 } else { ErrorCode::Location51082 };
                return Err(QueryError::new(
                    code,
                    format!(
                        "cannot apply {operator} with a precision that is not a whole number from -20 to 100"
                    ),
                ));
            }
        },
        None => 0,
    };
    let whole = |value: i64| {
        if place >= 0 {
            return Some(value);
        }
        let power = 10_i128.checked_pow(place.unsigned_abs())?;
        let (wide, mut kept) = (i128::from(value), i128::from(value) / power);
        let rest = (wide % power).abs() * 2;
        if rounding == Rounding::HalfEven && (rest > power || rest == power && kept % 2 != 0) {
            kept += i128::from(value.signum());
        }
        i64::try_from(kept * power).ok()
    };
    let overflow = || {
        QueryError::new(ErrorCode::Location51080, format!("the result of {operator} does not fit its type"))
    };
    Ok(Some(match number {
        Num::Int(value) => {
            let value = whole(value.into()).ok_or_else(overflow)?;
            i32::try_from(value).map_or(Value::Int64(value), Value::Int32)
        }
        Num::Long(value) => Value::Int64(whole(value).ok_or_else(overflow)?),
        Num::Decimal(value) => Num::Decimal(value.round(place, rounding)).value(),
        Num::Double(value) => Value::Double(round_double(value, place, rounding)),
    }))
}

/// Rounds the double's exact binary value: 0.15 is slightly less than 15/100, so it rounds down to 0.1.
fn round_double(value: f64, place: i32, rounding: Rounding) -> f64 {
    if !value.is_finite() {
        return value;
    }
    if place == 0 {
        return if rounding == Rounding::Down { value.trunc() } else { value.round_ties_even() };
    }
    Decimal::from_double(value).round(place, rounding).to_double()
}

pub(super) fn sqrt<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    let a = num("$sqrt", a)?;
    if a.double() < 0.0 {
        return Err(QueryError::new(
            ErrorCode::Location28714,
            "$sqrt's argument must be greater than or equal to 0",
        ));
    }
    Ok(Some(with_type_of(a, a.double().sqrt())))
}

/// The result as a double, or as a decimal if the operand was one. Such a decimal has only a double's
/// precision.
fn with_type_of<'a>(operand: Num, result: f64) -> Value<'a> {
    match operand {
        Num::Decimal(_) => Num::Decimal(Decimal::from_double(result)).value(),
        _ => Value::Double(result),
    }
}

pub(super) fn exp<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a] = args else { return Ok(None) };
    let a = num("$exp", a)?;
    Ok(Some(with_type_of(a, a.double().exp())))
}

/// The logarithm of the operand, or the error `code` if it has none.
fn logarithm<'a>(
    operator: &str,
    args: &[Found<'a>],
    log: fn(f64) -> f64,
    code: ErrorCode,
) -> Result<Found<'a>> {
    let number = num(operator, args.first().copied().flatten())?;
    if number.double() <= 0.0 {
        return Err(QueryError::new(
            code,
            format!("{operator}'s argument must be a positive number, but is {}", number.double()),
        ));
    }
    Ok(Some(with_type_of(number, log(number.double()))))
}

pub(super) fn ln<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    logarithm("$ln", args, f64::ln, ErrorCode::Location28766)
}

pub(super) fn log10<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    logarithm("$log10", args, f64::log10, ErrorCode::Location28761)
}

pub(super) fn log<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, base] = args else { return Ok(None) };
    let a = num_or(ErrorCode::Location28756, "$log", a)?;
    let base = num_or(ErrorCode::Location28757, "$log's base", base)?;
    if a.double() <= 0.0 {
        return Err(QueryError::new(
            ErrorCode::Location28758,
            format!("$log's argument must be a positive number, but is {}", a.double()),
        ));
    }
    if base.double() <= 0.0 || base.double() == 1.0 {
        return Err(QueryError::new(
            ErrorCode::Location28759,
            format!("$log's base must be a positive number not equal to 1, but is {}", base.double()),
        ));
    }
    Ok(Some(with_type_of(a, a.double().ln() / base.double().ln())))
}

pub(super) fn pow<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    let a = num_or(ErrorCode::Location28762, "$pow's base", a)?;
    let b = num_or(ErrorCode::Location28763, "$pow's exponent", b)?;
    if a.is_zero() && b.double() < 0.0 {
        return Err(QueryError::new(
            ErrorCode::Location28764,
            "$pow cannot take a base of 0 and a negative exponent",
        ));
    }
    if let (Some(base), Some(exponent)) = (a.long(), b.long())
        && let Ok(exponent) = u32::try_from(exponent)
        && let Some(result) = base.checked_pow(exponent)
    {
        return Ok(Some(match (a, b, i32::try_from(result)) {
            (Num::Int(_), Num::Int(_), Ok(small)) => Value::Int32(small),
            _ => Value::Int64(result),
        }));
    }
    let result = a.double().powf(b.double());
    Ok(Some(match (a, b) {
        (Num::Decimal(_), _) | (_, Num::Decimal(_)) => Num::Decimal(Decimal::from_double(result)).value(),
        _ => Value::Double(result),
    }))
}

/// The numbers that an operator can be applied to, and how messages show them.
struct Domain(RangeInclusive<f64>, &'static str);

const FINITE: Domain = Domain(f64::MIN..=f64::MAX, "(-inf,inf)");
const UNIT: Domain = Domain(-1.0..=1.0, "[-1,1]");
const FROM_ONE: Domain = Domain(1.0..=f64::INFINITY, "[1,inf]");

impl Domain {
    fn check(&self, operator: &str, value: f64) -> Result<()> {
        let Domain(range, shown) = self;
        if value.is_nan() || range.contains(&value) {
            return Ok(());
        }
        Err(QueryError::new(
            ErrorCode::Location50989,
            format!("cannot apply {operator} to {value}, value must be in {shown}"),
        ))
    }
}

macro_rules! trigonometry {
    ($($name:ident $operator:literal $($domain:ident)?;)*) => {
        $(pub(super) fn $name<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
            let &[a] = args else { return Ok(None) };
            let a = num($operator, a)?;
            $($domain.check($operator, a.double())?;)?
            Ok(Some(with_type_of(a, a.double().$name())))
        })*
    };
}

trigonometry! {
    sin "$sin" FINITE; cos "$cos" FINITE; tan "$tan" FINITE; asin "$asin" UNIT; acos "$acos" UNIT; atan "$atan";
    sinh "$sinh"; cosh "$cosh"; tanh "$tanh"; asinh "$asinh"; acosh "$acosh" FROM_ONE; atanh "$atanh" UNIT;
    to_radians "$degreesToRadians"; to_degrees "$radiansToDegrees";
}

pub(super) fn atan2<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[a, b] = args else { return Ok(None) };
    let a = num_or(ErrorCode::Location51044, "$atan2", a)?;
    let b = num_or(ErrorCode::Location51045, "$atan2", b)?;
    Ok(Some(with_type_of(a, a.double().atan2(b.double()))))
}

macro_rules! bits {
    ($($name:ident $operator:literal $start:literal $apply:expr;)*) => {
        $(pub(super) fn $name<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
            let (mut bits, mut long) = ($start, false);
            for &arg in args {
                match arg {
                    found if nullish(found) => return Ok(Some(Value::Null)),
                    Some(Value::Int32(value)) => bits = $apply(bits, i64::from(value)),
                    Some(Value::Int64(value)) => {
                        long = true;
                        bits = $apply(bits, value);
                    }
                    found => {
                        let message = concat!($operator, " only supports int and long operands, not");
                        return Err(wrong_type(ErrorCode::TypeMismatch, message, found));
                    }
                }
            }
            Ok(Some(match i32::try_from(bits) {
                Ok(small) if !long => Value::Int32(small),
                _ => Value::Int64(bits),
            }))
        })*
    };
}

bits! {
    bit_and "$bitAnd" -1_i64 |a, b| a & b;
    bit_or "$bitOr" 0_i64 |a, b| a | b;
    bit_xor "$bitXor" 0_i64 |a, b| a ^ b;
}

pub(super) fn bit_not<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    match args {
        [Some(Value::Int32(value))] => Ok(Some(Value::Int32(!value))),
        [Some(Value::Int64(value))] => Ok(Some(Value::Int64(!value))),
        _ => {
            let found = args.first().copied().flatten();
            num("$bitNot", found)?;
            let message = "$bitNot only supports int and long operands, not";
            Err(wrong_type(ErrorCode::TypeMismatch, message, found))
        }
    }
}
