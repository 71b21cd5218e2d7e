//! The stages again, each from its definition, over documents in a list.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::values::{
    Answer, DECIMAL, Found, Variables, Wrong, alike, at_path, eval, merge, null, number, of_kind, order,
    truthy,
};
use crate::query::naive::{self, compare, compare_sort_keys, sort_key};

/// Documents on their way.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) docs: Vec<Document>,
    /// The order is defined.
    pub(super) ordered: bool,
    /// Which of several equal numbers stands for them depends on an order that is not defined.
    pub(super) loose: bool,
}

/// The other collection.
pub(super) type Other = Vec<Document>;

fn parts(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

/// What a stage makes of documents.
pub(super) fn apply(stage: &Document, state: &State, other: &Other, variables: &Variables) -> Answer<State> {
    let (name, operand) = stage.iter().next().ok_or(Wrong::Unknown)?;
    let State { docs, ordered, loose } = state.clone();
    let spec = || operand.as_document().ok_or(Wrong::Unknown);
    let one_to_one = |make: &dyn Fn(&Document) -> Answer<Document>| {
        let docs = docs.iter().map(make).collect::<Answer<Vec<_>>>()?;
        Ok(State { docs, ordered, loose })
    };
    match name.as_str() {
        "$match" => {
            let mut kept = Vec::new();
            for doc in &docs {
                if matches(doc, spec()?, variables)? {
                    kept.push(doc.clone());
                }
            }
            Ok(State { docs: kept, ordered, loose })
        }
        "$project" => {
            let wishes = spec()?;
            let drops = wishes.iter().all(|(_, wish)| truth(wish) == Some(false));
            one_to_one(&|doc| match drops {
                true => Ok(without(doc, &wishes.keys().map(|path| parts(path)).collect::<Vec<_>>())),
                false => project(doc, wishes, variables),
            })
        }
        "$unset" => {
            let path = operand.as_str().ok_or(Wrong::Unknown)?;
            one_to_one(&|doc| Ok(without(doc, &[parts(path)])))
        }
        "$set" | "$addFields" => {
            let fields = spec()?;
            one_to_one(&|doc| {
                let mut made = doc.clone();
                for (path, expr) in fields {
                    let value = eval(expr, doc, variables)?;
                    made = set(&made, &parts(path), &value);
                }
                Ok(made)
            })
        }
        "$replaceWith" => one_to_one(&|doc| match eval(operand, doc, variables)? {
            Some(Bson::Document(made)) => Ok(made),
            _ => Err(Wrong::Refused),
        }),
        "$redact" => {
            let mut kept = Vec::new();
            for doc in &docs {
                kept.extend(redact(operand, doc, variables)?);
            }
            Ok(State { docs: kept, ordered, loose })
        }
        "$sort" => {
            let by = spec()?;
            let mut keyed: Vec<_> = docs.into_iter().map(|doc| (sort_key(&doc, by), doc)).collect();
            keyed.sort_by(|a, b| compare_sort_keys(&a.0, &b.0, by));
            let ordered = keyed.windows(2).all(|pair| compare_sort_keys(&pair[0].0, &pair[1].0, by).is_ne());
            Ok(State { docs: keyed.into_iter().map(|(_, doc)| doc).collect(), ordered, loose })
        }
        "$skip" | "$limit" if !ordered => Err(Wrong::Unknown),
        "$skip" | "$limit" => {
            let n = operand.as_i32().ok_or(Wrong::Unknown)? as usize;
            let docs = docs.into_iter();
            let docs = if name == "$skip" { docs.skip(n).collect() } else { docs.take(n).collect() };
            Ok(State { docs, ordered, loose })
        }
        // Of more documents than there are.
        "$sample" => Ok(State { docs, ordered: false, loose }),
        "$count" => {
            let field = operand.as_str().ok_or(Wrong::Unknown)?;
            let counted = (!docs.is_empty()).then(|| doc! { field: docs.len() as i32 });
            Ok(State { docs: counted.into_iter().collect(), ordered: true, loose })
        }
        "$sortByCount" => {
            let group = doc! { "$group": { "_id": operand.clone(), "count": { "$sum": 1 } } };
            let grouped = apply(&group, state, other, variables)?;
            apply(&doc! { "$sort": { "count": -1 } }, &grouped, other, variables)
        }
        "$group" => group(spec()?, state, variables),
        "$bucket" => bucket(spec()?, state, variables),
        "$bucketAuto" => super::series::bucket_auto(spec()?, state, variables),
        "$densify" => super::series::densify(spec()?, state),
        "$fill" => super::series::fill(spec()?, state, variables),
        "$unwind" => unwind(operand, state),
        "$unionWith" => {
            let inner = State { docs: other.clone(), ordered: false, loose: false };
            let added = match operand {
                Bson::Document(spec) => {
                    pipeline(spec.get_array("pipeline").map_err(|_| Wrong::Unknown)?, inner, variables)?
                }
                _ => inner,
            };
            let docs = docs.into_iter().chain(added.docs).collect();
            Ok(State { docs, ordered: false, loose: loose || added.loose })
        }
        "$lookup" => lookup(spec()?, state, other, variables),
        "$graphLookup" => graph(spec()?, state, other, variables),
        "$facet" => {
            let (mut made, mut loose) = (Document::new(), loose);
            for (name, stages) in spec()? {
                let answer = pipeline(stages.as_array().ok_or(Wrong::Unknown)?, state.clone(), variables)?;
                if !answer.ordered && answer.docs.len() > 1 {
                    return Err(Wrong::Unknown);
                }
                loose |= answer.loose;
                made.insert(name, answer.docs);
            }
            Ok(State { docs: vec![made], ordered: true, loose })
        }
        "$setWindowFields" => super::windows::apply(spec()?, state, variables),
        _ => Err(Wrong::Unknown),
    }
}

/// Stages that read nothing but their input.
fn pipeline(stages: &[Bson], state: State, variables: &Variables) -> Answer<State> {
    stages.iter().try_fold(state, |state, stage| {
        apply(stage.as_document().ok_or(Wrong::Unknown)?, &state, &Other::new(), variables)
    })
}

/// A filter, whose `$expr` stands at its top.
fn matches(doc: &Document, filter: &Document, variables: &Variables) -> Answer<bool> {
    let mut plain = filter.clone();
    let condition = plain.remove("$expr");
    if !naive::matches(doc, &plain) {
        return Ok(false);
    }
    condition.map_or(Ok(true), |condition| Ok(truthy(&eval(&condition, doc, variables)?)))
}

/// Whether a field of a projection is to be kept or dropped; `None` for one that is computed.
fn truth(wish: &Bson) -> Option<bool> {
    match wish {
        Bson::Boolean(yes) => Some(*yes),
        wish => number(wish).map(|(_, value)| value != 0.0),
    }
}

fn project(doc: &Document, wishes: &Document, variables: &Variables) -> Answer<Document> {
    let mut kept: Vec<Vec<&str>> = Vec::new();
    for (path, wish) in wishes {
        if truth(wish) == Some(true) {
            kept.push(parts(path));
        }
    }
    if !wishes.contains_key("_id") {
        kept.push(vec!["_id"]);
    }
    let mut made = only(doc, &kept);
    for (path, wish) in wishes.iter().filter(|(_, wish)| truth(wish).is_none()) {
        if let Some(value) = eval(wish, doc, variables)? {
            made.insert(path, value);
        }
    }
    Ok(made)
}

/// What lies below one name in a list of paths.
fn below<'p>(paths: &[Vec<&'p str>], name: &str) -> Vec<Vec<&'p str>> {
    paths.iter().filter(|path| path[0] == name).map(|path| path[1..].to_vec()).collect()
}

fn only(doc: &Document, paths: &[Vec<&str>]) -> Document {
    let mut made = Document::new();
    for (name, value) in doc {
        let rest = below(paths, name);
        if rest.iter().any(Vec::is_empty) {
            made.insert(name, value.clone());
        } else if let (false, Some(value)) = (rest.is_empty(), only_in(value, &rest)) {
            made.insert(name, value);
        }
    }
    made
}

fn only_in(value: &Bson, paths: &[Vec<&str>]) -> Found {
    match value {
        Bson::Document(doc) => Some(Bson::Document(only(doc, paths))),
        Bson::Array(all) => {
            Some(Bson::Array(all.iter().filter_map(|element| only_in(element, paths)).collect()))
        }
        _ => None,
    }
}

fn without(doc: &Document, paths: &[Vec<&str>]) -> Document {
    let mut made = Document::new();
    for (name, value) in doc {
        let rest = below(paths, name);
        if !rest.iter().any(Vec::is_empty) {
            made.insert(name, if rest.is_empty() { value.clone() } else { without_in(value, &rest) });
        }
    }
    made
}

fn without_in(value: &Bson, paths: &[Vec<&str>]) -> Bson {
    match value {
        Bson::Document(doc) => Bson::Document(without(doc, paths)),
        Bson::Array(all) => Bson::Array(all.iter().map(|element| without_in(element, paths)).collect()),
        value => value.clone(),
    }
}

/// `doc` with a value at a path, in every element of the arrays on the way; missing takes the field away.
fn set(doc: &Document, path: &[&str], value: &Found) -> Document {
    let mut made = doc.clone();
    match (path, value) {
        ([last], Some(value)) => drop(made.insert(*last, value.clone())),
        ([last], None) => drop(made.remove(last)),
        ([first, rest @ ..], _) => {
            let inner = doc.get(first).map_or_else(|| Bson::Document(doc! {}), Bson::clone);
            made.insert(*first, set_in(&inner, rest, value));
        }
        ([], _) => {}
    }
    made
}

fn set_in(inner: &Bson, path: &[&str], value: &Found) -> Bson {
    match inner {
        Bson::Document(doc) => Bson::Document(set(doc, path, value)),
        Bson::Array(all) => Bson::Array(all.iter().map(|element| set_in(element, path, value)).collect()),
        _ => Bson::Document(set(&doc! {}, path, value)),
    }
}

fn redact(condition: &Bson, doc: &Document, variables: &Variables) -> Answer<Option<Document>> {
    match eval(condition, doc, variables)? {
        Some(Bson::String(word)) if word == "prune" => Ok(None),
        Some(Bson::String(word)) if word == "keep" => Ok(Some(doc.clone())),
        Some(Bson::String(word)) if word == "descend" => {
            let mut made = Document::new();
            for (name, value) in doc {
                if let Some(value) = redact_in(condition, value, variables)? {
                    made.insert(name, value);
                }
            }
            Ok(Some(made))
        }
        _ => Err(Wrong::Refused),
    }
}

fn redact_in(condition: &Bson, value: &Bson, variables: &Variables) -> Answer<Found> {
    match value {
        Bson::Document(doc) => Ok(redact(condition, doc, variables)?.map(Bson::Document)),
        Bson::Array(all) => {
            let mut kept = Vec::new();
            for element in all {
                kept.extend(redact_in(condition, element, variables)?);
            }
            Ok(Some(Bson::Array(kept)))
        }
        value => Ok(Some(value.clone())),
    }
}

fn unwind(operand: &Bson, state: &State) -> Answer<State> {
    let (path, index, preserve) = match operand {
        Bson::Document(spec) => (
            spec.get_str("path").map_err(|_| Wrong::Unknown)?,
            spec.get_str("includeArrayIndex").ok(),
            spec.get_bool("preserveNullAndEmptyArrays").unwrap_or(false),
        ),
        path => (path.as_str().ok_or(Wrong::Unknown)?, None, false),
    };
    let path = parts(path.trim_start_matches('$'));
    let mut docs = Vec::new();
    for doc in &state.docs {
        // Through documents only.
        let mut value = Some(&Bson::Null);
        let mut inner = Some(doc);
        for part in &path {
            value = inner.and_then(|inner| inner.get(part));
            inner = value.and_then(Bson::as_document);
        }
        let number = |doc: Document, at: Bson| match index {
            Some(index) => set(&doc, &[index], &Some(at)),
            None => doc,
        };
        match value {
            Some(Bson::Array(all)) => {
                for (at, element) in all.iter().enumerate() {
                    docs.push(number(set(doc, &path, &Some(element.clone())), Bson::Int64(at as i64)));
                }
                if all.is_empty() && preserve {
                    docs.push(number(set(doc, &path, &None), Bson::Null));
                }
            }
            None | Some(Bson::Null) if !preserve => {}
            _ => docs.push(number(doc.clone(), Bson::Null)),
        }
    }
    Ok(State { docs, ..*state })
}

/// The values a document is joined by.
fn join_values(doc: &Document, path: &str) -> Vec<Bson> {
    let mut values = Vec::new();
    for found in naive::found(&Bson::Document(doc.clone()), &parts(path), false).into_iter().flatten() {
        match found {
            Bson::Array(all) => values.extend(all),
            value => values.push(value),
        }
    }
    // Nothing is joined like null.
    if values.is_empty() { vec![Bson::Null] } else { values }
}

fn lookup(spec: &Document, state: &State, other: &Other, variables: &Variables) -> Answer<State> {
    let (mut docs, mut loose) = (Vec::new(), state.loose);
    let to = spec.get_str("as").map_err(|_| Wrong::Unknown)?;
    for doc in &state.docs {
        let mut inner = variables.clone();
        if let Ok(given) = spec.get_document("let") {
            for (name, expr) in given {
                inner.insert(name, eval(expr, doc, variables)?.unwrap_or(Bson::Undefined));
            }
        }
        let mut found = other.clone();
        if let (Ok(local), Ok(foreign)) = (spec.get_str("localField"), spec.get_str("foreignField")) {
            let values = join_values(doc, local);
            // By `$eq`, for which a regular expression is a value like others.
            let joined = |other: &Document, value: &Bson| {
                naive::matches(other, &doc! { foreign: { "$eq": value.clone() } })
            };
            found.retain(|other| values.iter().any(|value| joined(other, value)));
        }
        let mut found = State { docs: found, ordered: false, loose: false };
        if let Ok(stages) = spec.get_array("pipeline") {
            found = pipeline(stages, found, &inner)?;
            loose |= found.loose;
        }
        docs.push(set(doc, &parts(to), &Some(found.docs.into())));
    }
    // Those found have no order, which shows when they are unwound.
    Ok(State { docs, ordered: false, loose })
}

fn graph(spec: &Document, state: &State, other: &Other, variables: &Variables) -> Answer<State> {
    let text = |name: &str| spec.get_str(name).map_err(|_| Wrong::Unknown);
    let most = spec.get_i32("maxDepth").unwrap_or(i32::MAX);
    let mut docs = Vec::new();
    for doc in &state.docs {
        let mut frontier = match eval(spec.get("startWith").ok_or(Wrong::Unknown)?, doc, variables)? {
            Some(Bson::Array(all)) => all,
            found => found.into_iter().collect(),
        };
        let (mut reached, mut depth) = (Vec::<(usize, i32)>::new(), 0);
        while !frontier.is_empty() && depth <= most {
            // Whether it is searched for or compared is not written anywhere.
            if frontier.iter().any(|value| matches!(value, Bson::RegularExpression(_))) {
                return Err(Wrong::Unknown);
            }
            let mut next = Vec::new();
            for (at, one) in other.iter().enumerate() {
                let linked =
                    naive::matches(one, &doc! { text("connectToField")?: { "$in": frontier.clone() } });
                if linked && reached.iter().all(|(met, _)| *met != at) {
                    reached.push((at, depth));
                    let from = parts(text("connectFromField")?);
                    let found = naive::found(&Bson::Document(one.clone()), &from, true);
                    next.extend(found.into_iter().flatten().filter(|one| !matches!(one, Bson::Array(_))));
                }
            }
            frontier = next;
            depth += 1;
        }
        let found: Vec<Document> = reached
            .into_iter()
            .map(|(at, depth)| {
                let mut found = other[at].clone();
                if let Ok(field) = spec.get_str("depthField") {
                    found.insert(field, i64::from(depth));
                }
                found
            })
            .collect();
        docs.push(set(doc, &parts(text("as")?), &Some(found.into())));
    }
    Ok(State { docs, ..*state })
}

/// Documents with the same key, in the order of the first of each.
fn groups(keyed: Vec<(Bson, Document)>, loose: &mut bool) -> Vec<(Bson, Vec<Document>)> {
    let mut all: Vec<(Bson, Vec<Document>)> = Vec::new();
    for (id, doc) in keyed {
        match all.iter_mut().find(|(other, _)| compare(other, &id).is_eq()) {
            Some((other, docs)) => {
                *loose |= *other != id;
                docs.push(doc);
            }
            None => all.push((id, vec![doc])),
        }
    }
    all
}

fn group(spec: &Document, state: &State, variables: &Variables) -> Answer<State> {
    let (mut keyed, mut loose) = (Vec::new(), false);
    for doc in &state.docs {
        let id = eval(spec.get("_id").ok_or(Wrong::Unknown)?, doc, variables)?;
        keyed.push((id.unwrap_or(Bson::Null), doc.clone()));
    }
    let mut docs = Vec::new();
    for (id, members) in groups(keyed, &mut loose) {
        let members = State { docs: members, ordered: state.ordered, loose: false };
        docs.push(filled(doc! { "_id": id }, spec, &members, variables, &mut loose)?);
    }
    Ok(State { docs, ordered: false, loose: state.loose || loose })
}

fn bucket(spec: &Document, state: &State, variables: &Variables) -> Answer<State> {
    let boundaries = spec.get_array("boundaries").map_err(|_| Wrong::Unknown)?;
    let (mut keyed, mut loose) = (Vec::new(), false);
    for doc in &state.docs {
        let value = eval(spec.get("groupBy").ok_or(Wrong::Unknown)?, doc, variables)?;
        let inside = boundaries.windows(2).find(|pair| {
            let (low, high) = (Some(pair[0].clone()), Some(pair[1].clone()));
            order(&value, &low).is_ge() && order(&value, &high).is_lt()
        });
        let id = inside.map(|pair| &pair[0]).or(spec.get("default")).ok_or(Wrong::Refused)?;
        keyed.push((id.clone(), doc.clone()));
    }
    let count = doc! { "count": { "$sum": 1 } };
    let output = spec.get_document("output").unwrap_or(&count);
    let mut docs = Vec::new();
    for (id, members) in groups(keyed, &mut loose) {
        let members = State { docs: members, ordered: state.ordered, loose: false };
        docs.push(filled(doc! { "_id": id }, output, &members, variables, &mut loose)?);
    }
    docs.sort_by(|a, b| order(&a.get("_id").cloned(), &b.get("_id").cloned()));
    Ok(State { docs, ordered: true, loose: state.loose || loose })
}

/// `made` with the accumulators' fields.
pub(super) fn filled(
    mut made: Document,
    spec: &Document,
    members: &State,
    variables: &Variables,
    loose: &mut bool,
) -> Answer<Document> {
    for (name, accumulator) in spec.iter().filter(|(name, _)| *name != "_id") {
        let (operator, operand) =
            accumulator.as_document().and_then(|doc| doc.iter().next()).ok_or(Wrong::Unknown)?;
        let value = accumulate(operator, operand, members, variables, loose)?;
        made.insert(name, value);
    }
    Ok(made)
}

/// What an accumulator makes of documents.
pub(super) fn accumulate(
    operator: &str,
    operand: &Bson,
    members: &State,
    variables: &Variables,
    loose: &mut bool,
) -> Answer<Bson> {
    let State { docs, ordered, .. } = members;
    let part = |name: &str| operand.as_document().and_then(|doc| doc.get(name));
    let input = match operator {
        "$firstN" | "$lastN" | "$maxN" | "$minN" | "$median" => part("input").ok_or(Wrong::Unknown)?,
        "$top" | "$bottom" | "$topN" | "$bottomN" => part("output").ok_or(Wrong::Unknown)?,
        "$count" => &Bson::Int32(1),
        _ => operand,
    };
    let values = docs.iter().map(|doc| eval(input, doc, variables)).collect::<Answer<Vec<Found>>>()?;
    let n = part("n").and_then(Bson::as_i32).unwrap_or(1) as usize;
    let there = || values.iter().flatten().cloned().collect::<Vec<Bson>>();
    let or_null = |found: &Found| found.clone().unwrap_or(Bson::Null);
    let numbers: Vec<(u8, f64)> = values.iter().flatten().filter_map(number).collect();
    let doubles: Vec<f64> = numbers.iter().map(|(_, value)| *value).collect();
    let sum = doubles.iter().sum::<f64>();
    let kind = numbers.iter().map(|(kind, _)| *kind).max().unwrap_or(0);
    if matches!(operator, "$sum" | "$avg" | "$stdDevPop" | "$stdDevSamp" | "$median") {
        alike(values.iter().flatten())?;
    }
    let in_order = || if *ordered || docs.len() < 2 { Ok(()) } else { Err(Wrong::Unknown) };
    // Equal values of which one stands for all.
    let mut equal = |sorted: &[Bson]| {
        *loose |= sorted.windows(2).any(|pair| compare(&pair[0], &pair[1]).is_eq() && pair[0] != pair[1]);
    };
    Ok(match operator {
        "$sum" | "$count" => of_kind(kind, sum)?,
        "$avg" if doubles.is_empty() => Bson::Null,
        // The quotient of decimals has 34 digits.
        "$avg" if kind == DECIMAL && sum.is_finite() && !doubles.len().is_power_of_two() => {
            return Err(Wrong::Unknown);
        }
        "$avg" => of_kind(kind.max(2), sum / doubles.len() as f64)?,
        "$min" | "$max" | "$minN" | "$maxN" => {
            let mut all = there();
            all.retain(|value| !null(&Some(value.clone())));
            all.sort_by(compare);
            equal(&all);
            if operator.starts_with("$max") {
                all.reverse();
            }
            match operator {
                "$min" | "$max" => all.into_iter().next().unwrap_or(Bson::Null),
                _ => Bson::Array(all.into_iter().take(n).collect()),
            }
        }
        "$first" | "$last" => {
            in_order()?;
            let chosen = if operator == "$first" { values.first() } else { values.last() };
            or_null(&chosen.cloned().flatten())
        }
        "$firstN" | "$lastN" => {
            in_order()?;
            let skipped = if operator == "$firstN" { 0 } else { values.len().saturating_sub(n) };
            Bson::Array(values.iter().skip(skipped).take(n).map(or_null).collect())
        }
        "$push" => {
            in_order()?;
            Bson::Array(there())
        }
        // In the order of the values: the generator sorts the other one.
        "$addToSet" => {
            let mut all = there();
            all.sort_by(compare);
            equal(&all);
            all.dedup_by(|a, b| compare(a, b).is_eq());
            Bson::Array(all)
        }
        "$mergeObjects" => {
            in_order()?;
            let mut made = Document::new();
            for value in &values {
                merge(&mut made, value)?;
            }
            Bson::Document(made)
        }
        "$stdDevPop" | "$stdDevSamp" => {
            let n = doubles.len() as f64;
            let over = if operator == "$stdDevPop" { n } else { n - 1.0 };
            let squares: f64 = doubles.iter().map(|value| (value - sum / n).powi(2)).sum();
            if over < 1.0 { Bson::Null } else { Bson::Double((squares / over).sqrt()) }
        }
        "$median" => {
            let mut sorted = doubles;
            if sorted.iter().any(|value| value.is_nan()) {
                return Err(Wrong::Unknown);
            }
            sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
            let rank = sorted.len().div_ceil(2);
            sorted.get(rank.saturating_sub(1)).map_or(Bson::Null, |value| Bson::Double(*value))
        }
        "$top" | "$bottom" | "$topN" | "$bottomN" => {
            let by = part("sortBy").and_then(Bson::as_document).ok_or(Wrong::Unknown)?;
            let mut keyed: Vec<_> = docs.iter().map(|doc| sort_key(doc, by)).zip(&values).collect();
            keyed.sort_by(|a, b| compare_sort_keys(&a.0, &b.0, by));
            if keyed.windows(2).any(|pair| compare_sort_keys(&pair[0].0, &pair[1].0, by).is_eq()) {
                return Err(Wrong::Unknown);
            }
            let skipped = if operator.starts_with("$top") { 0 } else { keyed.len().saturating_sub(n) };
            let mut chosen = keyed.iter().skip(skipped).take(n).map(|(_, value)| or_null(value));
            match operator {
                "$top" | "$bottom" => chosen.next().unwrap_or(Bson::Null),
                _ => Bson::Array(chosen.collect()),
            }
        }
        _ => return Err(Wrong::Unknown),
    })
}

/// The value at a path of a document.
pub(super) fn field(doc: &Document, path: &str) -> Found {
    at_path(&Bson::Document(doc.clone()), &parts(path))
}

/// `doc` with a value at a path.
pub(super) fn with(doc: &Document, path: &str, value: Bson) -> Document {
    set(doc, &parts(path), &Some(value))
}

/// The documents of each value of `partitionBy`, in the order in which the values come.
pub(super) fn parts_by(spec: &Document, state: &State, variables: &Variables) -> Answer<Vec<Vec<Document>>> {
    let mut parts: Vec<(Found, Vec<Document>)> = Vec::new();
    for doc in &state.docs {
        let by = match spec.get("partitionBy") {
            Some(by) => Some(eval(by, doc, variables)?.unwrap_or(Bson::Null)),
            None => None,
        };
        match parts.iter_mut().find(|(other, _)| order(other, &by).is_eq()) {
            Some((_, docs)) => docs.push(doc.clone()),
            None => parts.push((by, vec![doc.clone()])),
        }
    }
    Ok(parts.into_iter().map(|(_, docs)| docs).collect())
}
