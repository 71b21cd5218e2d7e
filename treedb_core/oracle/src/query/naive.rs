//! The rules again, as plainly as they can be written, over decoded documents: no bytes, no keys, no plans. Nothing
//! here uses the code it is compared with.

use std::cmp::Ordering;

use bson::{Bson, Document};

/// The place of a type in the order of all values.
fn class(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 2,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 3,
        Bson::String(_) | Bson::Symbol(_) => 4,
        Bson::Document(_) => 5,
        Bson::Array(_) => 6,
        Bson::Binary(_) => 7,
        Bson::ObjectId(_) => 8,
        Bson::Boolean(_) => 9,
        Bson::DateTime(_) => 10,
        Bson::Timestamp(_) => 11,
        Bson::RegularExpression(_) => 12,
        Bson::MaxKey => 99,
        other => panic!("the oracle does not know {other:?}"),
    }
}

/// A number as a double, the nearest one for a decimal.
pub(crate) fn number(value: &Bson) -> f64 {
    match value {
        Bson::Int32(n) => f64::from(*n),
        // The documents only hold integers that a double holds exactly.
        Bson::Int64(n) => *n as f64,
        Bson::Double(n) => *n,
        Bson::Decimal128(n) => n.to_string().parse().unwrap(),
        _ => unreachable!(),
    }
}

fn is_nan(value: &Bson) -> bool {
    class(value) == 3 && number(value).is_nan()
}

/// A finite number written out without an exponent: its digits before the point and after it, without zeros at either
/// end. Every double has such digits, and formatting with enough places writes all of them.
fn digits(value: &Bson) -> (String, String) {
    let written = match value {
        Bson::Double(n) => format!("{:.1074}", n.abs()),
        Bson::Decimal128(n) => n.to_string(),
        whole => number(whole).abs().to_string(),
    };
    let written = written.trim_start_matches('-');
    let (mantissa, exponent) = written.split_once(['E', 'e']).unwrap_or((written, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
    let exponent: i32 = exponent.parse().unwrap();
    for _ in 0..exponent {
        whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
    }
    for _ in exponent..0 {
        fraction.insert(0, whole.pop().unwrap_or('0'));
    }
    (whole.trim_start_matches('0').to_owned(), fraction.trim_end_matches('0').to_owned())
}

/// True for a number that doubles and decimals calculate with alike: a small one of few binary digits, infinity or NaN.
pub(crate) fn simple(value: &Bson) -> bool {
    let near = number(value);
    let few = !near.is_finite() || near.abs() < 1e9 && (near * 1024.0).fract() == 0.0;
    few && compare(value, &Bson::Double(near)).is_eq()
}

fn is_infinite(value: &Bson) -> bool {
    match value {
        // One of 6,000 digits is infinite as a double alone.
        Bson::Decimal128(n) => n.to_string().ends_with("Infinity"),
        other => number(other).is_infinite(),
    }
}

/// The order of two numbers that are not NaN, exactly: by their signs, then by all their digits.
fn compare_numbers(a: &Bson, b: &Bson) -> Ordering {
    let decimal = |value: &Bson| matches!(value, Bson::Decimal128(_));
    if !decimal(a) && !decimal(b) {
        return number(a).partial_cmp(&number(b)).unwrap();
    }
    let magnitude = |value: &Bson| {
        let (whole, fraction) = if is_infinite(value) { Default::default() } else { digits(value) };
        (is_infinite(value), whole.len(), whole, fraction)
    };
    let zero = (false, 0, String::new(), String::new());
    let (x, y) = (magnitude(a), magnitude(b));
    let negative = |value: &Bson, magnitude| number(value).is_sign_negative() && magnitude != &zero;
    match (negative(a, &x), negative(b, &y)) {
        (false, false) => x.cmp(&y),
        (true, true) => y.cmp(&x),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

pub fn compare(a: &Bson, b: &Bson) -> Ordering {
    class(a).cmp(&class(b)).then_with(|| match (a, b) {
        (Bson::String(a) | Bson::Symbol(a), Bson::String(b) | Bson::Symbol(b)) => a.cmp(b),
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (Bson::Boolean(a), Bson::Boolean(b)) => a.cmp(b),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.timestamp_millis().cmp(&b.timestamp_millis()),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => (a.time, a.increment).cmp(&(b.time, b.increment)),
        (Bson::RegularExpression(a), Bson::RegularExpression(b)) => {
            let strings = |regex: &bson::Regex| (regex.pattern.to_string(), regex.options.to_string());
            strings(a).cmp(&strings(b))
        }
        (Bson::Binary(a), Bson::Binary(b)) => a
            .bytes
            .len()
            .cmp(&b.bytes.len())
            .then(u8::from(a.subtype).cmp(&u8::from(b.subtype)))
            .then(a.bytes.cmp(&b.bytes)),
        (Bson::Array(a), Bson::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (Bson::Document(a), Bson::Document(b)) => {
            let pairs = a.iter().zip(b).map(|((a_name, a), (b_name, b))| {
                class(a).cmp(&class(b)).then(a_name.cmp(b_name)).then_with(|| compare(a, b))
            });
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        _ if class(a) == 3 => match (is_nan(a), is_nan(b)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => compare_numbers(a, b),
        },
        _ => Ordering::Equal,
    })
}

/// Everything a path finds, `None` for nothing found in some place. `expand` shows an array's elements before it.
pub fn found(value: &Bson, parts: &[&str], expand: bool) -> Vec<Option<Bson>> {
    let Bson::Document(doc) = value else { return vec![None] };
    let Some(value) = doc.get(parts[0]) else { return vec![None] };
    let rest = &parts[1..];
    match value {
        Bson::Array(array) if rest.is_empty() && expand => {
            array.iter().cloned().map(Some).chain([Some(value.clone())]).collect()
        }
        value if rest.is_empty() => vec![Some(value.clone())],
        Bson::Array(array) => found_in_array(array, rest, expand),
        value => found(value, rest, expand),
    }
}

fn position(part: &str) -> Option<usize> {
    let number = part.parse::<usize>().ok()?;
    (number.to_string() == part).then_some(number)
}

fn found_in_array(array: &[Bson], parts: &[&str], expand: bool) -> Vec<Option<Bson>> {
    let selected = position(parts[0]).filter(|at| *at < array.len());
    let mut all = Vec::new();
    for (at, element) in array.iter().enumerate() {
        if let Bson::Document(doc) = element
            && (selected.is_none() || doc.contains_key(parts[0]))
        {
            all.extend(found(element, parts, expand));
        }
        if selected == Some(at) {
            match element {
                element if parts.len() == 1 => all.push(Some(element.clone())),
                Bson::Document(_) => all.extend(found(element, &parts[1..], expand)),
                Bson::Array(inner) => all.extend(found_in_array(inner, &parts[1..], expand)),
                _ => {}
            }
        }
    }
    all
}

/// One comparison operator on one found value.
fn meets(found: &Option<Bson>, operator: &str, constant: &Bson) -> bool {
    let value = found.as_ref().unwrap_or(&Bson::Null);
    let across = matches!(constant, Bson::MinKey | Bson::MaxKey);
    if !across && class(value) != class(constant) {
        return false;
    }
    let order = compare(value, constant);
    if !across && (is_nan(value) || is_nan(constant)) && order.is_ne() {
        return false;
    }
    match operator {
        "$eq" => order.is_eq(),
        "$gt" => order.is_gt(),
        "$gte" => order.is_ge(),
        "$lt" => order.is_lt(),
        "$lte" => order.is_le(),
        _ => unreachable!(),
    }
}

fn condition(doc: &Bson, path: &str, operator: &str, operand: &Bson) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    let any = |operator: &str, operand: &Bson| {
        found(doc, &parts, true).iter().any(|found| meets(found, operator, operand))
    };
    match (operator, operand) {
        ("$ne", _) => !any("$eq", operand),
        ("$in", Bson::Array(list)) => list.iter().any(|value| listed(doc, path, value)),
        ("$nin", Bson::Array(list)) => !list.iter().any(|value| listed(doc, path, value)),
        ("$exists", Bson::Boolean(wanted)) => {
            found(doc, &parts, false).iter().any(Option::is_some) == *wanted
        }
        ("$not", Bson::Document(inner)) => {
            !inner.iter().all(|(operator, operand)| condition(doc, path, operator, operand))
        }
        ("$not", Bson::RegularExpression(_)) => !condition(doc, path, "$regex", operand),
        ("$all", Bson::Array(list)) => {
            !list.is_empty()
                && list.iter().all(|one| match one {
                    Bson::Document(inner) if inner.contains_key("$elemMatch") => {
                        condition(doc, path, "$elemMatch", &inner["$elemMatch"])
                    }
                    value => listed(doc, path, value),
                })
        }
        ("$size" | "$elemMatch", _) => {
            found(doc, &parts, false).iter().flatten().any(|value| on_element(value, operator, operand))
        }
        ("$eq" | "$gt" | "$gte" | "$lt" | "$lte", _) => any(operator, operand),
        _ => found(doc, &parts, true).iter().flatten().any(|value| passes(value, operator, operand)),
    }
}

/// A value of the list of `$in`, `$nin` or `$all`: a regular expression is searched for, anything else is equal.
fn listed(doc: &Bson, path: &str, value: &Bson) -> bool {
    let operator = if matches!(value, Bson::RegularExpression(_)) { "$regex" } else { "$eq" };
    condition(doc, path, operator, value)
}

/// A condition on an element itself.
fn on_element(value: &Bson, operator: &str, operand: &Bson) -> bool {
    let equal = |constant: &Bson| meets(&Some(value.clone()), "$eq", constant);
    let listed = |constant: &Bson| match constant {
        Bson::RegularExpression(_) => passes(value, "$regex", constant),
        constant => equal(constant),
    };
    let elements = || value.as_array().cloned().unwrap_or_default();
    match (operator, operand) {
        ("$size", size) => value.as_array().is_some_and(|array| array.len() as f64 == number(size)),
        ("$elemMatch", Bson::Document(inner)) => {
            let on_values = inner.keys().next().is_some_and(|name| name.starts_with('$') && name != "$or");
            elements().iter().any(|element| match element {
                element if on_values => {
                    inner.iter().all(|(operator, operand)| on_element(element, operator, operand))
                }
                Bson::Document(doc) => matches(doc, inner),
                Bson::Array(array) => {
                    let fields = array.iter().enumerate().map(|(at, value)| (at.to_string(), value.clone()));
                    matches(&fields.collect(), inner)
                }
                _ => false,
            })
        }
        ("$ne", constant) => !equal(constant),
        ("$in", Bson::Array(list)) => list.iter().any(listed),
        ("$nin", Bson::Array(list)) => !list.iter().any(listed),
        ("$exists", Bson::Boolean(wanted)) => *wanted,
        ("$not", Bson::Document(inner)) => {
            !inner.iter().all(|(operator, operand)| on_element(value, operator, operand))
        }
        ("$not", Bson::RegularExpression(_)) => !passes(value, "$regex", operand),
        ("$all", Bson::Array(list)) => {
            !list.is_empty()
                && list.iter().all(|one| match one {
                    Bson::Document(inner) if inner.contains_key("$elemMatch") => {
                        on_element(value, "$elemMatch", &inner["$elemMatch"])
                    }
                    constant => listed(constant),
                })
        }
        ("$eq" | "$gt" | "$gte" | "$lt" | "$lte", _) => meets(&Some(value.clone()), operator, operand),
        _ => passes(value, operator, operand),
    }
}

/// The name of a type.
fn type_of(value: &Bson) -> &'static str {
    match value {
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Null => "null",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Decimal128(_) => "decimal",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::RegularExpression(_) => "regex",
        Bson::ObjectId(_) => "objectId",
        Bson::Symbol(_) => "symbol",
        Bson::MinKey => "minKey",
        Bson::MaxKey => "maxKey",
        other => panic!("the oracle does not know {other:?}"),
    }
}

/// A test that only a value that is there can pass.
fn passes(value: &Bson, operator: &str, operand: &Bson) -> bool {
    let whole = (class(value) == 3).then(|| number(value)).filter(|number| number.is_finite());
    match (operator, operand) {
        ("$type", Bson::String(name)) => type_of(value) == name || name == "number" && class(value) == 3,
        ("$mod", Bson::Array(pair)) => {
            let whole = whole.filter(|value| value.abs() < 9e18);
            whole.is_some_and(|value| value.trunc() % number(&pair[0]) == number(&pair[1]))
        }
        ("$regex", Bson::RegularExpression(regex)) => match value {
            Bson::String(text) | Bson::Symbol(text) => looks_like(text, regex),
            // A stored expression is found by itself.
            Bson::RegularExpression(_) => compare(value, operand).is_eq(),
            _ => false,
        },
        (bits, Bson::Int32(mask)) => {
            let value = match value {
                // Little-endian, as long as is asked for.
                Bson::Binary(binary) => i64::from(binary.bytes.first().copied().unwrap_or(0)),
                // The least decimals are zero as doubles, but have a fraction.
                _ => match whole.filter(|near| digits(value).1.is_empty() && near.abs() < 9e18) {
                    Some(near) => near as i64,
                    None => return false,
                },
            };
            let mask = i64::from(*mask);
            match bits {
                "$bitsAllSet" => value & mask == mask,
                "$bitsAllClear" => value & mask == 0,
                "$bitsAnySet" => value & mask != 0,
                "$bitsAnyClear" => value & mask != mask,
                _ => panic!("the oracle does not know {bits}"),
            }
        }
        _ => panic!("the oracle does not know {operator}"),
    }
}

/// The few forms of patterns the generator makes: plain text with anchors, in any case with the option `i`.
fn looks_like(text: &str, regex: &bson::Regex) -> bool {
    let (mut text, pattern) = (text.to_owned(), regex.pattern.as_str());
    let mut plain = pattern.trim_start_matches('^').trim_end_matches('$').to_owned();
    if regex.options.as_str() == "i" {
        (text, plain) = (text.to_lowercase(), plain.to_lowercase());
    }
    match (pattern.starts_with('^'), pattern.ends_with('$')) {
        (true, true) => text == plain,
        (true, false) => text.starts_with(&plain),
        (false, true) => text.ends_with(&plain),
        (false, false) => text.contains(&plain),
    }
}

pub fn matches(doc: &Document, filter: &Document) -> bool {
    let whole = Bson::Document(doc.clone());
    filter.iter().all(|(name, value)| match (name.as_str(), value) {
        ("$and", Bson::Array(all)) => all.iter().all(|one| matches(doc, one.as_document().unwrap())),
        ("$or", Bson::Array(all)) => all.iter().any(|one| matches(doc, one.as_document().unwrap())),
        ("$nor", Bson::Array(all)) => !all.iter().any(|one| matches(doc, one.as_document().unwrap())),
        (path, Bson::Document(operators))
            if operators.keys().next().is_some_and(|name| name.starts_with('$')) =>
        {
            operators.iter().all(|(operator, operand)| condition(&whole, path, operator, operand))
        }
        (path, Bson::RegularExpression(_)) => condition(&whole, path, "$regex", value),
        (path, value) => condition(&whole, path, "$eq", value),
    })
}

/// The values a sort looks at: an array at the end is its elements, an empty one undefined, nothing is null.
fn sort_values(value: &Bson, parts: &[&str]) -> Vec<Bson> {
    match (parts.split_first(), value) {
        (None, Bson::Array(array)) if array.is_empty() => vec![Bson::Undefined],
        (None, Bson::Array(array)) => array.clone(),
        (None, value) => vec![value.clone()],
        (Some((part, rest)), Bson::Document(doc)) => match doc.get(part) {
            Some(value) => sort_values(value, rest),
            None => vec![Bson::Null],
        },
        (Some(_), Bson::Array(array)) if array.is_empty() => vec![Bson::Null],
        (Some(_), Bson::Array(array)) => array
            .iter()
            .flat_map(|element| match element {
                Bson::Document(_) => sort_values(element, parts),
                _ => vec![Bson::Null],
            })
            .collect(),
        _ => vec![Bson::Null],
    }
}

/// What decides a document's place: for each field its least value going up, its greatest going down.
pub fn sort_key(doc: &Document, sort: &Document) -> Vec<Bson> {
    let whole = Bson::Document(doc.clone());
    sort.iter()
        .map(|(path, direction)| {
            let values = sort_values(&whole, &path.split('.').collect::<Vec<_>>()).into_iter();
            let chosen =
                if direction.as_i32() == Some(1) { values.min_by(compare) } else { values.max_by(compare) };
            chosen.unwrap()
        })
        .collect()
}

pub fn compare_sort_keys(a: &[Bson], b: &[Bson], sort: &Document) -> Ordering {
    let fields = a.iter().zip(b).zip(sort.values()).map(|((a, b), direction)| {
        let order = compare(a, b);
        if direction.as_i32() == Some(1) { order } else { order.reverse() }
    });
    fields.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
