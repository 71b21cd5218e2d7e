//! Array operators, set operators, and `$sum`, `$avg`, `$max` and the like over arrays.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::doc::write::ArrayWriter;
use crate::doc::{Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Sort;
use crate::query::interrupt::InterruptTick;

use super::number::wrong_type;
use super::stats::{Deviation, Sum, fraction, percentile as nearest_rank};
use super::string::{int_operand, search_range};
use super::{Found, Scope, nullish};

/// The smallest size of an array element that is a 32-bit integer, in bytes: for the memory limit of
/// `$range`.
const INT_ELEMENT_BYTES: usize = 7;

/// An operand that must be an array; `what` it is, and the code of the error if it is none.
fn array<'a>(code: ErrorCode, operator: &str, what: &str, found: Found<'a>) -> Result<Doc<'a>> {
    match found {
        Some(Value::Array(array)) => Ok(array),
        found => Err(wrong_type(code, &format!("{operator}'s {what} must be an array, but is"), found)),
    }
}

fn values(array: Doc<'_>) -> impl Iterator<Item = Value<'_>> {
    array.elements().map(|element| element.value())
}

fn list<'a, 'v>(scope: &Scope<'a>, all: impl Iterator<Item = Value<'v>>) -> Result<Found<'a>> {
    let (mut out, mut tick) = (ArrayWriter::new(), InterruptTick::default());
    for value in all {
        tick.tick()?;
        out.push(value);
    }
    scope.array(out).map(Some)
}

fn int<'a>(value: usize) -> Found<'a> {
    Some(Value::Int32(i32::try_from(value).unwrap_or(i32::MAX)))
}

pub(super) fn elem_at<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[input, at] = args else { return Ok(None) };
    let input = array(ErrorCode::Location28689, "$arrayElemAt", "first argument", input)?;
    let codes = (ErrorCode::Location28690, ErrorCode::Location28691);
    let at = int_operand(codes, "$arrayElemAt", "its second argument", at)?;
    let at = match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => {
            let back = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
            input.elements().count().checked_sub(back)
        }
    };
    Ok(at.and_then(|at| input.at(at)).map(|element| element.value()))
}

pub(super) fn first<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(values(array(ErrorCode::Location28689, "$first", "argument", args.first().copied().flatten())?).next())
}

pub(super) fn last<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(values(array(ErrorCode::Location28689, "$last", "argument", args.first().copied().flatten())?).last())
}

pub(super) fn concat<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let mut out = ArrayWriter::new();
    for &arg in args {
        match arg {
            found if nullish(found) => return Ok(Some(Value::Null)),
            Some(Value::Array(array)) => values(array).for_each(|value| out.push(value)),
            found => {
                let message = "$concatArrays only supports arrays, not";
                return Err(wrong_type(ErrorCode::Location28664, message, found));
            }
        }
        scope.check_size(out.bytes())?;
    }
    scope.array(out).map(Some)
}

pub(super) fn size<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    match args {
        [Some(Value::Array(array))] => Ok(int(array.elements().count())),
        _ => {
            let found = args.first().copied().flatten();
            let message = "The argument to $size must be an array, but was of type:";
            Err(wrong_type(ErrorCode::Location17124, message, found))
        }
    }
}

pub(super) fn slice<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    use ErrorCode as C;
    const NAME: &str = "$slice";
    let operand = |at: usize| args.get(at).copied().flatten();
    let input = array(C::Location28724, NAME, "first argument", operand(0))?;
    let second = int_operand((C::Location28725, C::Location28726), NAME, "its second argument", operand(1))?;
    let second = i64::from(second);
    let len = input.elements().count() as i64;
    let (start, count) = match args.get(2) {
        None if second >= 0 => (0, second),
        None => (len.saturating_add(second).max(0), len),
        Some(third) => {
            let codes = (C::Location28727, C::Location28728);
            let count = int_operand(codes, NAME, "its third argument", *third)?;
            if count <= 0 {
                return Err(QueryError::new(
                    C::Location28729,
                    format!("Third argument to $slice must be positive: {count}"),
                ));
            }
            (if second < 0 { len.saturating_add(second).max(0) } else { second }, i64::from(count))
        }
    };
    let (start, count) =
        (usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(count).unwrap_or(usize::MAX));
    list(scope, values(input).skip(start).take(count))
}

pub(super) fn contains<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[value, input] = args else { return Ok(None) };
    let Some(Value::Array(input)) = input else {
        let message = "$in requires an array as a second argument, found:";
        return Err(wrong_type(ErrorCode::Location40081, message, input));
    };
    let value = value.unwrap_or(Value::Undefined);
    Ok(Some(Value::Bool(values(input).any(|one| scope.collation.compare(one, value).is_eq()))))
}

pub(super) fn index_of<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let input = args.first().copied().flatten();
    if nullish(input) {
        return Ok(Some(Value::Null));
    }
    let input = array(ErrorCode::Location40090, "$indexOfArray", "first argument", input)?;
    let value = args.get(1).copied().flatten().unwrap_or(Value::Undefined);
    let Some((start, end)) = search_range("$indexOfArray", args, input.elements().count())? else {
        return Ok(Some(Value::Int32(-1)));
    };
    let mut within = values(input).enumerate().take(end).skip(start);
    let found = within.find(|(_, one)| scope.collation.compare(*one, value).is_eq());
    Ok(found.map_or(Some(Value::Int32(-1)), |(at, _)| int(at)))
}

pub(super) fn range<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    use ErrorCode as C;
    let mut numbers = [0_i64, 0, 1];
    let parameters = [
        ((C::Location34443, C::Location34444), "the starting value"),
        ((C::Location34445, C::Location34446), "the ending value"),
        ((C::Location34447, C::Location34448), "the step value"),
    ];
    for ((parameter, (codes, what)), arg) in numbers.iter_mut().zip(parameters).zip(args) {
        *parameter = int_operand(codes, "$range", what, *arg)?.into();
    }
    let [mut at, end, step] = numbers;
    if step == 0 {
        return Err(QueryError::new(C::Location34449, "$range requires a non-zero step value"));
    }
    let len = (end - at) / step;
    scope.check_size(usize::try_from(len).unwrap_or(0).saturating_mul(INT_ELEMENT_BYTES))?;
    let mut out = ArrayWriter::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        out.push(Value::Int32(at as i32));
        at += step;
    }
    scope.array(out).map(Some)
}

pub(super) fn reverse<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let all: Vec<_> = values(array(
        ErrorCode::Location34435,
        "$reverseArray",
        "argument",
        args.first().copied().flatten(),
    )?)
    .collect();
    list(scope, all.into_iter().rev())
}

pub(super) fn zip<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[inputs, longest, defaults] = args else { return Ok(None) };
    use ErrorCode as C;
    let mut columns = Vec::new();
    let inputs = array(C::Location34461, "$zip", "'inputs'", inputs)?;
    if inputs.is_empty() {
        return Err(QueryError::new(C::Location34465, "$zip requires at least one input array"));
    }
    let Some(Value::Bool(longest)) = longest else {
        let message = "$zip: 'useLongestLength' must be a bool, found";
        return Err(wrong_type(C::Location34463, message, longest));
    };
    let defaults: Vec<_> = match defaults {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(none)) if none.is_empty() => Vec::new(),
        defaults => {
            let defaults: Vec<_> = values(array(C::Location34462, "$zip", "'defaults'", defaults)?).collect();
            if !longest {
                return Err(QueryError::new(
                    C::Location34466,
                    "$zip: cannot specify 'defaults' unless 'useLongestLength' is true",
                ));
            }
            if defaults.len() != inputs.elements().count() {
                return Err(QueryError::new(
                    C::Location34467,
                    "$zip: 'defaults' and 'inputs' must have the same length",
                ));
            }
            defaults
        }
    };
    for input in values(inputs) {
        match input {
            Value::Array(column) => columns.push(values(column).collect::<Vec<_>>()),
            Value::Null | Value::Undefined => return Ok(Some(Value::Null)),
            other => {
                let message = "$zip found a non-array expression in input:";
                return Err(wrong_type(C::Location34468, message, Some(other)));
            }
        }
    }
    let lens = columns.iter().map(Vec::len);
    let len = if longest { lens.max() } else { lens.min() }.unwrap_or(0);
    let mut out = ArrayWriter::new();
    for at in 0..len {
        let mut row = ArrayWriter::new();
        for (number, column) in columns.iter().enumerate() {
            row.push(column.get(at).or(defaults.get(number)).copied().unwrap_or(Value::Null));
        }
        out.push(Value::Array(Doc::new(&row.into_bytes())));
        scope.check_size(out.bytes())?;
    }
    scope.array(out).map(Some)
}

/// The values of `input` sorted by `sort`, or by the values themselves if it is `None`.
pub(super) fn sorted<'a>(
    scope: &Scope<'a>,
    input: Doc<'a>,
    sort: Option<&Sort>,
    descending: bool,
) -> Result<Value<'a>> {
    let mut all = Vec::new();
    for value in values(input) {
        let key = match sort {
            None => {
                let mut key = encoded_key(scope, value);
                if descending {
                    crate::doc::key::invert(&mut key);
                }
                key
            }
            Some(sort) => {
                // A value that is not a document has none of the fields.
                let doc = if let Value::Document(doc) = value { doc } else { Doc::EMPTY };
                sort.key(bson::RawDocument::from_bytes(doc.as_bytes())?)?
            }
        };
        all.push((key, value));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = ArrayWriter::new();
    all.iter().for_each(|(_, value)| out.push(*value));
    scope.array(out)
}

/// The `n` of `$firstN` and similar operators.
pub(crate) fn positive(operator: &str, found: Found<'_>) -> Result<usize> {
    let n = found.and_then(|value| value.as_integer());
    n.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).ok_or_else(|| {
        let code = match found {
            _ if n.is_some() => ErrorCode::Location5787908,
            Some(value) if value.is_number() => ErrorCode::Location5787903,
            _ => ErrorCode::Location5787902,
        };
        let found = found.map_or("nothing".to_owned(), crate::doc::shown);
        QueryError::new(code, format!("{operator}: 'n' must be a whole number greater than 0, found {found}"))
    })
}

/// The `input` of `$firstN` and similar operators.
fn input_of<'a>(operator: &str, found: Found<'a>) -> Result<Doc<'a>> {
    array(ErrorCode::Location5788200, operator, "'input'", found)
}

pub(super) fn first_n<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[n, input] = args else { return Ok(None) };
    let n = positive("$firstN", n)?;
    list(scope, values(input_of("$firstN", input)?).take(n))
}

pub(super) fn last_n<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[n, input] = args else { return Ok(None) };
    let n = positive("$lastN", n)?;
    let input = input_of("$lastN", input)?;
    list(scope, values(input).skip(input.elements().count().saturating_sub(n)))
}

fn extreme_n<'a>(scope: &Scope<'a>, operator: &str, args: &[Found<'a>], greatest: bool) -> Result<Found<'a>> {
    let &[n, input] = args else { return Ok(None) };
    let n = positive(operator, n)?;
    let mut all: Vec<_> = values(input_of(operator, input)?).filter(|value| !nullish(Some(*value))).collect();
    all.sort_by(|a, b| {
        let order = scope.collation.compare(*a, *b);
        if greatest { order.reverse() } else { order }
    });
    list(scope, all.into_iter().take(n))
}

pub(super) fn max_n<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    extreme_n(scope, "$maxN", args, true)
}

pub(super) fn min_n<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    extreme_n(scope, "$minN", args, false)
}

/// Calls `visit` with each operand, or with each element if the only operand is an array.
fn each<'a>(args: &[Found<'a>], mut visit: impl FnMut(Value<'a>)) {
    match args {
        [Some(Value::Array(array))] => values(*array).for_each(visit),
        args => args.iter().flatten().for_each(|value| visit(*value)),
    }
}

fn extreme<'a>(scope: &Scope<'a>, args: &[Found<'a>], wanted: Ordering) -> Found<'a> {
    let mut best: Found<'a> = None;
    each(args, |value| {
        if !nullish(Some(value)) && best.is_none_or(|best| scope.collation.compare(value, best) == wanted) {
            best = Some(value);
        }
    });
    best.or(Some(Value::Null))
}

pub(super) fn max<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(extreme(scope, args, Ordering::Greater))
}

pub(super) fn min<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(extreme(scope, args, Ordering::Less))
}

fn sum_of(args: &[Found<'_>]) -> Sum {
    let mut sum = Sum::default();
    each(args, |value| sum.add(value));
    sum
}

pub(super) fn sum<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(Some(sum_of(args).total().value()))
}

pub(super) fn avg<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(Some(sum_of(args).mean().map_or(Value::Null, |mean| mean.value())))
}

fn deviation<'a>(args: &[Found<'a>], sample: bool) -> Found<'a> {
    let mut deviation = Deviation::default();
    each(args, |value| deviation.add(value));
    Some(deviation.result(sample).map_or(Value::Null, Value::Double))
}

pub(super) fn std_dev_pop<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(deviation(args, false))
}

pub(super) fn std_dev_samp<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    Ok(deviation(args, true))
}

/// The numbers of an operand, sorted; other values and NaN are left out.
fn numbers(input: Found<'_>) -> Vec<f64> {
    let mut all = Vec::new();
    each(&[input], |value| all.extend(super::number::Num::new(value).map(super::number::Num::double)));
    all.retain(|number| !number.is_nan());
    all.sort_by(f64::total_cmp);
    all
}

pub(super) fn percentile<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let &[input, p, _] = args else { return Ok(None) };
    let sorted = numbers(input);
    let mut out = ArrayWriter::new();
    for p in fractions(p)? {
        out.push(nearest_rank(&sorted, p).map_or(Value::Null, Value::Double));
    }
    scope.array(out).map(Some)
}

/// The `p` of `$percentile`.
pub(crate) fn fractions(found: Found<'_>) -> Result<Vec<f64>> {
    let wrong = |code, found: Found<'_>| {
        let found = found.map_or("nothing".to_owned(), crate::doc::shown);
        let message = "$percentile: 'p' must be an array of numbers from 0 to 1, found";
        QueryError::new(code, format!("{message} {found}"))
    };
    let array = match found {
        Some(Value::Array(array)) if !array.is_empty() => array,
        found => return Err(wrong(ErrorCode::Location7750301, found)),
    };
    let each = values(array).map(|p| {
        let code = if p.is_number() { ErrorCode::Location7750303 } else { ErrorCode::Location7750302 };
        fraction(p).ok_or_else(|| wrong(code, Some(p)))
    });
    each.collect()
}

pub(super) fn median<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let sorted = numbers(args.first().copied().flatten());
    Ok(Some(nearest_rank(&sorted, 0.5).map_or(Value::Null, Value::Double)))
}

/// A key for a value: equal values have equal keys, and keys sort like their values.
fn encoded_key(scope: &Scope<'_>, value: Value<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    scope.collation.encode(value, &mut key);
    key
}

fn set(scope: &Scope<'_>, array: Doc<'_>) -> Result<HashSet<Vec<u8>>> {
    let (mut all, mut tick) = (HashSet::new(), InterruptTick::default());
    for value in values(array) {
        tick.tick()?;
        all.insert(encoded_key(scope, value));
    }
    Ok(all)
}

/// The operands as arrays. The code of the error if one is none, or one code for each of the operands.
fn arrays<'a>(codes: &[ErrorCode], operator: &str, args: &[Found<'a>]) -> Result<Vec<Doc<'a>>> {
    let operand = |(at, arg): (usize, &Found<'a>)| match arg {
        Some(Value::Array(array)) => Ok(*array),
        arg => {
            let code = codes.get(at).or(codes.last()).copied().unwrap_or(ErrorCode::TypeMismatch);
            let message =
                format!("All operands of {operator} must be arrays. Argument {} is of type:", at + 1);
            Err(wrong_type(code, &message, *arg))
        }
    };
    args.iter().enumerate().map(operand).collect()
}

/// [`arrays`]; `None` if one of the operands, before the first that is something else, is null.
fn arrays_or_null<'a>(
    codes: &[ErrorCode],
    operator: &str,
    args: &[Found<'a>],
) -> Result<Option<Vec<Doc<'a>>>> {
    match args.iter().find(|arg| !matches!(arg, Some(Value::Array(_)))) {
        Some(arg) if nullish(*arg) => Ok(None),
        _ => arrays(codes, operator, args).map(Some),
    }
}

pub(super) fn set_union<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let Some(all) = arrays_or_null(&[ErrorCode::Location17043], "$setUnion", args)? else {
        return Ok(Some(Value::Null));
    };
    let mut seen = HashSet::new();
    list(scope, all.into_iter().flat_map(values).filter(|value| seen.insert(encoded_key(scope, *value))))
}

pub(super) fn set_intersection<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let Some(all) = arrays_or_null(&[ErrorCode::Location17047], "$setIntersection", args)? else {
        return Ok(Some(Value::Null));
    };
    let Some((first, others)) = all.split_first() else { return list(scope, std::iter::empty()) };
    let others = others.iter().map(|other| set(scope, *other)).collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    let common = values(*first).filter(|value| {
        let key = encoded_key(scope, *value);
        others.iter().all(|other| other.contains(&key)) && seen.insert(key)
    });
    list(scope, common)
}

pub(super) fn set_difference<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let codes = [ErrorCode::Location17048, ErrorCode::Location17049];
    let all = arrays(&codes, "$setDifference", args)?;
    let &[a, b] = all.as_slice() else { return Ok(None) };
    let mut excluded = set(scope, b)?;
    list(scope, values(a).filter(|value| excluded.insert(encoded_key(scope, *value))))
}

pub(super) fn set_equals<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let all = arrays(&[ErrorCode::Location17044], "$setEquals", args)?;
    let sets = all.into_iter().map(|one| set(scope, one)).collect::<Result<Vec<_>>>()?;
    Ok(Some(Value::Bool(sets.windows(2).all(|pair| pair.first() == pair.last()))))
}

pub(super) fn set_is_subset<'a>(scope: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let codes = [ErrorCode::Location17046, ErrorCode::Location17042];
    let all = arrays(&codes, "$setIsSubset", args)?;
    let &[a, b] = all.as_slice() else { return Ok(None) };
    Ok(Some(Value::Bool(set(scope, a)?.is_subset(&set(scope, b)?))))
}

pub(super) fn all_true<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let input =
        array(ErrorCode::Location17040, "$allElementsTrue", "argument", args.first().copied().flatten())?;
    Ok(Some(Value::Bool(values(input).all(|value| value.truthy()))))
}

pub(super) fn any_true<'a>(_: &Scope<'a>, args: &[Found<'a>]) -> Result<Found<'a>> {
    let input =
        array(ErrorCode::Location17041, "$anyElementTrue", "argument", args.first().copied().flatten())?;
    Ok(Some(Value::Bool(values(input).any(|value| value.truthy()))))
}
