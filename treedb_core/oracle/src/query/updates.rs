//! Random updates, some under a collation: each makes of a document what the rules, written down once more, make of
//! it.

use bson::{Bson, Document, RawDocumentBuf, doc};
use treedb_testing::{Rng, oracle_factor, ranked};

use super::{comparable, constant, document, naive, raw, scalar};
use treedb_query::doc::Collation;
use treedb_query::query::{Filter, Update};

/// What an update cannot be applied to.
#[derive(Debug)]
struct Refused;

/// How strings compare: as if each had been replaced by its rank at this strength; by their bytes without one.
struct Texts(Option<i32>);

impl Texts {
    fn compare(&self, a: &Bson, b: &Bson) -> std::cmp::Ordering {
        let rank = |value: &Bson| self.ranked(&doc! { "": value.clone() }).remove("").unwrap();
        naive::compare(&rank(a), &rank(b))
    }

    fn matches(&self, doc: &Document, filter: &Document) -> bool {
        naive::matches(&self.ranked(doc), &self.ranked(filter))
    }

    fn ranked(&self, doc: &Document) -> Document {
        self.0.map_or_else(|| doc.clone(), |strength| ranked(doc, strength))
    }

    fn collation(&self) -> Collation {
        self.0.map_or(Collation::Simple, |strength| {
            Collation::parse(&raw(&doc! { "locale": "en", "strength": strength })).unwrap()
        })
    }
}

fn position(part: &str) -> Option<usize> {
    part.parse::<usize>().ok().filter(|number| number.to_string() == part)
}

fn get<'v>(value: &'v Bson, parts: &[&str]) -> Option<&'v Bson> {
    match (parts, value) {
        ([], value) => Some(value),
        ([part, rest @ ..], Bson::Document(doc)) => get(doc.get(part)?, rest),
        ([part, rest @ ..], Bson::Array(array)) => get(array.get(position(part)?)?, rest),
        _ => None,
    }
}

/// Puts `new` at a path, making documents where there is nothing.
fn put(value: &mut Bson, parts: &[&str], new: Bson) -> Result<(), Refused> {
    let Some((part, rest)) = parts.split_first() else {
        *value = new;
        return Ok(());
    };
    let nothing = || if rest.is_empty() { Bson::Null } else { Bson::Document(doc! {}) };
    match value {
        Bson::Document(doc) => {
            if !doc.contains_key(part) {
                doc.insert(*part, nothing());
            }
            put(doc.get_mut(part).unwrap(), rest, new)
        }
        Bson::Array(array) => {
            let at = position(part).ok_or(Refused)?;
            if at >= array.len() {
                array.resize(at, Bson::Null);
                array.push(nothing());
            }
            put(&mut array[at], rest, new)
        }
        _ => Err(Refused),
    }
}

fn remove(value: &mut Bson, parts: &[&str]) {
    match (parts, value) {
        ([last], Bson::Document(doc)) => drop(doc.remove(last)),
        ([last], Bson::Array(array)) => {
            if let Some(element) = position(last).and_then(|at| array.get_mut(at)) {
                *element = Bson::Null;
            }
        }
        ([part, rest @ ..], Bson::Document(doc)) => {
            if let Some(inner) = doc.get_mut(part) {
                remove(inner, rest);
            }
        }
        ([part, rest @ ..], Bson::Array(array)) => {
            if let Some(inner) = position(part).and_then(|at| array.get_mut(at)) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

fn combine(a: &Bson, b: &Bson, add: bool) -> Result<Bson, Refused> {
    let double = |value: &Bson| match value {
        Bson::Int32(n) => Ok(f64::from(*n)),
        Bson::Int64(n) => Ok(*n as f64),
        Bson::Double(n) => Ok(*n),
        Bson::Decimal128(_) => Ok(naive::number(value)),
        _ => Err(Refused),
    };
    let (x, y) = (double(a)?, double(b)?);
    let result = if add { x + y } else { x * y };
    Ok(match (a, b) {
        (Bson::Decimal128(_), _) | (_, Bson::Decimal128(_)) => {
            Bson::Decimal128(result.to_string().replace("inf", "Infinity").parse().unwrap())
        }
        (Bson::Double(_), _) | (_, Bson::Double(_)) => Bson::Double(result),
        (Bson::Int32(_), Bson::Int32(_)) => Bson::Int32(result as i32),
        _ => Bson::Int64(result as i64),
    })
}

/// The elements as an operator on arrays leaves them.
fn array(operator: &str, operand: &Bson, mut array: Vec<Bson>, texts: &Texts) -> Vec<Bson> {
    let equal = |a: &Bson, b: &Bson| texts.compare(a, b).is_eq();
    match operator {
        "$push" => match operand.as_document().filter(|modifiers| modifiers.contains_key("$each")) {
            None => array.push(operand.clone()),
            Some(modifiers) => {
                let length = array.len() as i32;
                let at = modifiers
                    .get_i32("$position")
                    .map_or(length, |at| if at < 0 { (length + at).max(0) } else { at.min(length) });
                for (number, value) in modifiers.get_array("$each").unwrap().iter().enumerate() {
                    array.insert(at as usize + number, value.clone());
                }
                if let Ok(direction) = modifiers.get_i32("$sort") {
                    array.sort_by(|a, b| {
                        let order = texts.compare(a, b);
                        if direction == 1 { order } else { order.reverse() }
                    });
                }
                if let Ok(slice) = modifiers.get_i32("$slice") {
                    if slice >= 0 {
                        array.truncate(slice as usize);
                    } else {
                        array = array.split_off(array.len().saturating_sub((-slice) as usize));
                    }
                }
            }
        },
        "$addToSet" => {
            if !array.iter().any(|held| equal(held, operand)) {
                array.push(operand.clone());
            }
        }
        "$pop" if operand.as_i32() == Some(1) => drop(array.pop()),
        "$pop" if !array.is_empty() => drop(array.remove(0)),
        "$pop" => {}
        "$pullAll" => {
            let list = operand.as_array().unwrap();
            array.retain(|held| !list.iter().any(|value| equal(held, value)));
        }
        "$pull" => array.retain(|held| match operand {
            Bson::Document(filter) if filter.keys().next().is_some_and(|name| name.starts_with('$')) => {
                !texts.matches(&doc! { "": held.clone() }, &doc! { "": filter.clone() })
            }
            Bson::Document(filter) => !held.as_document().is_some_and(|held| texts.matches(held, filter)),
            Bson::RegularExpression(_) => {
                !texts.matches(&doc! { "": held.clone() }, &doc! { "": operand.clone() })
            }
            value => !equal(held, value),
        }),
        _ => panic!("the oracle does not know {operator}"),
    }
    array
}

/// One operator on one place.
fn apply(
    whole: &mut Bson,
    parts: &[&str],
    (operator, operand): (&str, &Bson),
    texts: &Texts,
) -> Result<(), Refused> {
    let old = get(whole, parts).cloned();
    let new = match operator {
        "$set" => operand.clone(),
        "$unset" => {
            remove(whole, parts);
            return Ok(());
        }
        "$inc" | "$mul" => match &old {
            None if operator == "$inc" => operand.clone(),
            None => combine(operand, &Bson::Int32(0), false)?,
            Some(old) => combine(old, operand, operator == "$inc")?,
        },
        "$min" | "$max" => match old {
            None => operand.clone(),
            Some(old) => {
                let order = texts.compare(operand, &old);
                let better = if operator == "$min" { order.is_lt() } else { order.is_gt() };
                if !better {
                    return Ok(());
                }
                operand.clone()
            }
        },
        "$rename" => {
            let target = operand.as_str().unwrap();
            let through =
                (1..parts.len()).any(|end| matches!(get(whole, &parts[..end]), Some(Bson::Array(_))));
            if through {
                return Err(Refused);
            }
            let Some(value) = old else { return Ok(()) };
            put(whole, &[target], value)?;
            remove(whole, parts);
            return Ok(());
        }
        _ => match old {
            Some(Bson::Array(held)) => Bson::Array(array(operator, operand, held, texts)),
            Some(_) => return Err(Refused),
            None if matches!(operator, "$pop" | "$pull" | "$pullAll") => return Ok(()),
            None => Bson::Array(array(operator, operand, Vec::new(), texts)),
        },
    };
    put(whole, parts, new)
}

/// The elements that `a.$[]` or `a.$[e]` means, as paths; `a.$` that the filter matched by.
fn places(whole: &Bson, path: &str, filter: &Document, texts: &Texts) -> Result<Vec<String>, Refused> {
    let Some((way, rest)) = path.split_once(".$") else { return Ok(vec![path.to_owned()]) };
    let held = get(whole, &way.split('.').collect::<Vec<_>>()).cloned();
    let (part, rest) = rest.split_once('.').map_or((rest, String::new()), |(a, b)| (a, format!(".{b}")));
    if part.is_empty() {
        let Some(Bson::Array(array)) = held else { return Err(Refused) };
        let first = array.iter().position(|element| texts.matches(&doc! { way: [element.clone()] }, filter));
        return first.map(|at| vec![format!("{way}.{at}{rest}")]).ok_or(Refused);
    }
    let Some(Bson::Array(array)) = held else { return Err(Refused) };
    let chosen = array
        .iter()
        .enumerate()
        .filter(|(_, element)| part == "[]" || texts.matches(&doc! { "e": (*element).clone() }, filter));
    Ok(chosen.map(|(at, _)| format!("{way}.{at}{rest}")).collect())
}

fn operand(rng: &mut Rng, operator: &str) -> Bson {
    match operator {
        "$inc" | "$mul" => match rng.below(7) {
            0 => Bson::Int32(2),
            1 => Bson::Int32(-1),
            2 => Bson::Int64(3),
            3 => Bson::Double(0.5),
            4 => Bson::Double(-1.0),
            5 => Bson::Decimal128("2.50".parse().unwrap()),
            _ => Bson::Decimal128("-1".parse().unwrap()),
        },
        "$rename" => Bson::String((*rng.pick(&["z", "n"])).to_owned()),
        "$pop" => Bson::Int32(if rng.below(2) == 0 { 1 } else { -1 }),
        "$pullAll" => Bson::Array((0..rng.below(3)).map(|_| constant(rng)).collect()),
        "$pull" => match rng.below(4) {
            0 => doc! { "$gte": comparable(rng) }.into(),
            1 => doc! { "x": scalar(rng) }.into(),
            2 => doc! { "$in": [scalar(rng), scalar(rng)] }.into(),
            _ => scalar(rng),
        },
        "$push" if rng.below(2) == 0 => {
            let mut modifiers = doc! { "$each": (0..rng.below(3)).map(|_| scalar(rng)).collect::<Vec<_>>() };
            if rng.below(2) == 0 {
                modifiers.insert("$position", rng.below(5) as i32 - 2);
            }
            if rng.below(2) == 0 {
                modifiers.insert("$sort", if rng.below(2) == 0 { 1 } else { -1 });
            }
            if rng.below(2) == 0 {
                modifiers.insert("$slice", rng.below(5) as i32 - 2);
            }
            modifiers.into()
        }
        _ => constant(rng),
    }
}

/// The value with texts in the place of small numbers, other than those that tell where.
fn spelled(value: Bson) -> Bson {
    match value {
        Bson::Int32(number @ 0..5) => {
            Bson::String(["a", "A", "\u{e1}", "b", "B"][number as usize].to_owned())
        }
        // It takes no account of a collation, and so would have to be searched for before the fold.
        Bson::RegularExpression(_) => Bson::String("\u{c1}".to_owned()),
        Bson::Array(array) => Bson::Array(array.into_iter().map(spelled).collect()),
        Bson::Document(doc) => Bson::Document(spelled_fields(doc)),
        other => other,
    }
}

fn spelled_fields(doc: Document) -> Document {
    let kept = |name: &str| matches!(name, "_id" | "$position" | "$sort" | "$slice");
    doc.into_iter()
        .map(|(name, value)| if kept(&name) { (name, value) } else { (name, spelled(value)) })
        .collect()
}

fn bytes(doc: &Document) -> Vec<u8> {
    raw(doc).as_bytes().to_vec()
}

#[test]
fn every_update_makes_what_a_naive_evaluation_makes() {
    const OPERATORS: &[&str] = &[
        "$set",
        "$unset",
        "$inc",
        "$mul",
        "$min",
        "$max",
        "$rename",
        "$push",
        "$addToSet",
        "$pop",
        "$pull",
        "$pullAll",
    ];
    const PATHS: &[&str] = &[
        "a", "a", "b", "a.x", "b.y", "a.0", "a.1.x", "a.x.y", "b.3", "a.$[]", "a.$[].x", "a.$[e]",
        "a.$[e].y", "a.$",
    ];
    const OF_TEXTS: &[&str] = &["$min", "$max", "$push", "$addToSet", "$pull", "$pullAll"];
    let mut rng = Rng::new(40);
    let (mut changed, mut refused, mut otherwise) = (0, 0, 0);
    for number in 0..12_000 * oracle_factor() {
        let mut old = document(&mut rng, number as usize, &["a", "b"]);
        // A third under a collation, with texts to compare.
        let strength = number % 9;
        let under_one = matches!(strength, 1..=3);
        let texts = Texts(under_one.then_some(strength as i32));
        let collation = texts.collation();
        let operators = if under_one { OF_TEXTS } else { OPERATORS };
        let (operator, path) = (*rng.pick(operators), *rng.pick(PATHS));
        if operator == "$rename" && path.contains('$') {
            continue;
        }
        let mut operand = operand(&mut rng, operator);
        let mut element = doc! { "$gte": comparable(&mut rng) };
        if under_one {
            if rng.below(2) == 0 {
                old.insert("a", (0..4).map(|_| rng.below(5) as i32).collect::<Vec<_>>());
            }
            (old, operand, element) = (spelled_fields(old), spelled(operand), spelled_fields(element));
        }
        let (filter, filters) = match path {
            "a.$" => (doc! { "a": element.clone() }, Vec::new()),
            path if path.contains("[e]") => (doc! {}, vec![raw(&doc! { "e": element.clone() })]),
            _ => (doc! {}, Vec::new()),
        };
        let by = if filters.is_empty() {
            filter.clone()
        } else {
            doc! { "e": element }
        };
        if !texts.matches(&old, &filter) {
            continue;
        }
        let update = doc! { operator: { path: operand.clone() } };
        let parsed = Update::with_array_filters(&raw(&update), &filters).unwrap();
        let filter = Filter::parse(&raw(&filter)).unwrap();
        let by_bytes = parsed.apply(&raw(&old), &filter).ok();
        let result: treedb_query::error::Result<Option<RawDocumentBuf>> = parsed
            .collated(&collation)
            .and_then(|update| update.apply(&raw(&old), &filter.collated(&collation)?));
        otherwise += usize::from(result.as_ref().ok() != by_bytes.as_ref());
        let mut wanted = Bson::Document(old.clone());
        // Only with numbers that doubles calculate with as decimals do.
        let mut calculated = false;
        if matches!(operator, "$inc" | "$mul") {
            let held = places(&wanted, path, &by, &texts).unwrap_or_default();
            let held: Vec<&Bson> =
                held.iter().filter_map(|place| get(&wanted, &place.split('.').collect::<Vec<_>>())).collect();
            calculated = held.iter().any(|value| matches!(value, Bson::Decimal128(_)));
            if held.iter().any(|value| matches!(value, Bson::Decimal128(_)) && !naive::simple(value)) {
                continue;
            }
            calculated |= matches!(operand, Bson::Decimal128(_));
        }
        let done = places(&wanted, path, &by, &texts).and_then(|places| {
            places.iter().try_for_each(|place| {
                apply(&mut wanted, &place.split('.').collect::<Vec<_>>(), (operator, &operand), &texts)
            })
        });
        let context = || format!("{update} {by} on {old} by {:?}", texts.0);
        match (result, done) {
            (Ok(new), Ok(())) => {
                let made = new.as_ref().map_or(bytes(&old), |new| new.as_bytes().to_vec());
                let shown = new.as_ref().map(|new| Document::try_from(&**new).unwrap());
                if calculated {
                    // Of a decimal that was calculated the value counts, not the number of its zeros.
                    let new = Bson::Document(shown.clone().unwrap_or_else(|| old.clone()));
                    assert!(naive::compare(&new, &wanted).is_eq(), "{}: {shown:?}", context());
                } else {
                    let wanted = bytes(wanted.as_document().unwrap());
                    assert_eq!(made, wanted, "{}: {shown:?}", context());
                }
                changed += usize::from(new.is_some());
            }
            (Err(_), Err(Refused)) => refused += 1,
            (result, done) => panic!("{result:?} {done:?}: {}", context()),
        }
    }
    println!("{changed} changed, {refused} refused, {otherwise} not as by bytes");
    assert!(changed > 2000 && refused > 1000 && otherwise > 100, "{changed} {refused} {otherwise}");
}
