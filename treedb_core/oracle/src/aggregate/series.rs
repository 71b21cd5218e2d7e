//! `$bucketAuto`, `$densify` and `$fill` again, and what `$out` and `$merge` leave in a collection.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::stages::{State, field, filled, parts_by, with};
use super::values::{Answer, DECIMAL, Found, Variables, Wrong, alike, eval, merge, null, number, order};
use crate::query::naive::{compare, compare_sort_keys, sort_key};

/// True if values that are equal are not the same.
fn differ(a: &Bson, b: &Bson) -> bool {
    compare(a, b).is_eq() && a != b
}

/// `$bucketAuto`: so many buckets of about as many documents, equal values together.
pub(super) fn bucket_auto(spec: &Document, state: &State, variables: &Variables) -> Answer<State> {
    let buckets = spec.get_i32("buckets").map_err(|_| Wrong::Unknown)? as usize;
    let by = spec.get("groupBy").ok_or(Wrong::Unknown)?;
    let mut keyed = Vec::new();
    for doc in &state.docs {
        keyed.push((eval(by, doc, variables)?.unwrap_or(Bson::Null), doc.clone()));
    }
    keyed.sort_by(|a, b| compare(&a.0, &b.0));
    let mut loose = keyed.windows(2).any(|pair| differ(&pair[0].0, &pair[1].0));
    let about = ((keyed.len() as f64 / buckets as f64).round() as usize).max(1);
    let count = doc! { "count": { "$sum": 1 } };
    let output = spec.get_document("output").unwrap_or(&count);
    let (mut docs, mut from) = (Vec::new(), 0);
    while from < keyed.len() {
        let mut to = if docs.len() + 1 == buckets { keyed.len() } else { (from + about).min(keyed.len()) };
        while to < keyed.len() && compare(&keyed[to - 1].0, &keyed[to].0).is_eq() {
            to += 1;
        }
        let highest = keyed.get(to).unwrap_or(&keyed[to - 1]).0.clone();
        let made = doc! { "_id": { "min": keyed[from].0.clone(), "max": highest } };
        let members = keyed[from..to].iter().map(|(_, doc)| doc.clone()).collect();
        let members = State { docs: members, ordered: false, loose: false };
        docs.push(filled(made, output, &members, variables, &mut loose)?);
        from = to;
    }
    Ok(State { docs, ordered: true, loose: state.loose || loose })
}

/// The documents by what fields have, missing being a value of its own.
fn partitions(docs: &[Document], fields: &[&str]) -> Vec<(Vec<Found>, Vec<Document>)> {
    let mut parts: Vec<(Vec<Found>, Vec<Document>)> = Vec::new();
    for doc in docs {
        let own: Vec<Found> = fields.iter().map(|name| doc.get(name).cloned()).collect();
        let same = |other: &[Found]| other.iter().zip(&own).all(|(a, b)| order(a, b).is_eq());
        match parts.iter_mut().find(|(other, _)| same(other)) {
            Some((_, docs)) => docs.push(doc.clone()),
            None => parts.push((own, vec![doc.clone()])),
        }
    }
    parts
}

/// `$densify` of numbers: every place of the range that no document of the partition has gets one.
pub(super) fn densify(spec: &Document, state: &State) -> Answer<State> {
    let path = spec.get_str("field").map_err(|_| Wrong::Unknown)?;
    let range = spec.get_document("range").map_err(|_| Wrong::Unknown)?;
    let (_, step) = range.get("step").and_then(number).ok_or(Wrong::Unknown)?;
    let names: Vec<&str> = match spec.get_array("partitionByFields") {
        Ok(names) => names.iter().filter_map(Bson::as_str).collect(),
        Err(_) => Vec::new(),
    };
    let place = |doc: &Document| match field(doc, path) {
        found if null(&found) => Ok(None),
        Some(value) => match number(&value) {
            Some((_, at)) if at.is_finite() => Ok(Some(at)),
            Some(_) => Err(Wrong::Unknown),
            None if matches!(value, Bson::DateTime(_)) => Err(Wrong::Unknown),
            None => Err(Wrong::Refused),
        },
        None => Ok(None),
    };
    let values = state.docs.iter().filter_map(|doc| field(doc, path)).collect::<Vec<_>>();
    alike(&values)?;
    let places = |docs: &[Document]| docs.iter().map(place).collect::<Answer<Vec<_>>>();
    let all: Vec<f64> = places(&state.docs)?.into_iter().flatten().collect();
    let least = |all: &[f64]| all.iter().copied().reduce(f64::min);
    let greatest = |all: &[f64]| all.iter().copied().reduce(f64::max);
    let mut parts = partitions(&state.docs, &names);
    let given = range.get_array("bounds").ok();
    if parts.is_empty() && names.is_empty() && given.is_some() {
        parts.push((Vec::new(), Vec::new()));
    }
    let mut docs = state.docs.clone();
    for (own, part) in parts {
        let there: Vec<f64> = places(&part)?.into_iter().flatten().collect();
        let (low, high, to_the_end) = match (given, range.get_str("bounds")) {
            (Some(edges), _) => {
                let edge = |at: usize| edges.get(at).and_then(number).map(|(_, value)| value);
                (edge(0), edge(1), false)
            }
            (None, Ok("full")) => (least(&all), greatest(&all), true),
            _ => (least(&there), greatest(&there), false),
        };
        let (Some(low), Some(high)) = (low, high) else { continue };
        for n in 0.. {
            let at = low + step * f64::from(n);
            if at > high || at == high && !to_the_end {
                break;
            }
            if there.contains(&at) {
                continue;
            }
            let mut made = Document::new();
            for (name, value) in names.iter().zip(&own) {
                if let Some(value) = value {
                    made = with(&made, name, value.clone());
                }
            }
            docs.push(with(&made, path, Bson::Double(at)));
        }
    }
    // Numbers of partitions and places may be of any kind.
    Ok(State { docs, ordered: false, loose: true })
}

/// `$fill`: nulls and what is missing get a value, that of the document before, or one between those around.
pub(super) fn fill(spec: &Document, state: &State, variables: &Variables) -> Answer<State> {
    let outputs = spec.get_document("output").map_err(|_| Wrong::Unknown)?;
    let method = |how: &Bson| {
        how.as_document().and_then(|how| how.get_str("method").ok()).unwrap_or_default().to_owned()
    };
    let mut docs = Vec::new();
    for mut part in parts_by(spec, state, variables)? {
        if let Ok(sort) = spec.get_document("sortBy") {
            part.sort_by(|a, b| compare_sort_keys(&sort_key(a, sort), &sort_key(b, sort), sort));
            let same = |pair: &[Document]| {
                compare_sort_keys(&sort_key(&pair[0], sort), &sort_key(&pair[1], sort), sort)
                    == Ordering::Equal
            };
            if part.windows(2).any(same) {
                return Err(Wrong::Unknown);
            }
        }
        let before = part.clone();
        for (name, how) in outputs {
            let old: Vec<Found> = before.iter().map(|doc| doc.get(name).cloned()).collect();
            for (at, made) in part.iter_mut().enumerate().filter(|(at, _)| null(&old[*at])) {
                let known = |value: &&Found| !null(value);
                let value = match method(how).as_str() {
                    "locf" => old[..at].iter().rev().find(known).cloned().flatten().unwrap_or(Bson::Null),
                    "linear" => linear(&before, &old, at)?,
                    _ => continue,
                };
                made.insert(name, value);
            }
            if method(how) == "linear" && old.iter().flatten().any(|value| !plain(value)) {
                return Err(Wrong::Unknown);
            }
        }
        docs.extend(part);
    }
    // Given values are computed of what the others have made.
    for made in &mut docs {
        let before = made.clone();
        for (name, how) in outputs {
            let given = how.as_document().and_then(|how| how.get("value"));
            if let (Some(given), true) = (given, null(&before.get(name).cloned())) {
                match eval(given, &before, variables)? {
                    Some(value) => drop(made.insert(name, value)),
                    None => drop(made.remove(name)),
                }
            }
        }
    }
    Ok(State { docs, ordered: false, ..*state })
}

/// Null or a number that there is something between.
fn plain(value: &Bson) -> bool {
    null(&Some(value.clone()))
        || number(value).is_some_and(|(kind, value)| kind != DECIMAL && value.is_finite())
}

/// The value at `at` on the line between the next ones around, by `_id`.
fn linear(docs: &[Document], values: &[Found], at: usize) -> Answer<Bson> {
    let x = |at: usize| match docs[at].get("_id").and_then(number) {
        Some((_, x)) if x.is_finite() => Ok(x),
        _ => Err(Wrong::Unknown),
    };
    let y = |at: &usize| values[*at].as_ref().and_then(number).map(|(_, y)| (*at, y));
    let (Some((from, low)), Some((to, high))) =
        ((0..at).rev().find_map(|at| y(&at)), (at + 1..docs.len()).find_map(|at| y(&at)))
    else {
        return Ok(Bson::Null);
    };
    Ok(Bson::Double(low + (high - low) * (x(at)? - x(from)?) / (x(to)? - x(from)?)))
}

/// What a collection that holds `there` holds after `made` was written to it by the last stage of a pipeline; `None` if
/// that is not defined, or refused.
pub fn written(stage: &Document, made: &[Document], there: &[Document]) -> Option<Vec<Document>> {
    let ids: Vec<&Bson> = made.iter().map(|doc| doc.get("_id")).collect::<Option<_>>()?;
    let twice = |at: usize| ids[..at].iter().any(|other| compare(other, ids[at]).is_eq());
    let no_id = |id: &Bson| {
        matches!(id, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined | Bson::Null)
            || matches!(id, Bson::Document(doc) if doc.keys().any(|name| name.starts_with('$')))
    };
    if (0..ids.len()).any(twice) || ids.iter().any(|id| no_id(id)) {
        return None;
    }
    let first = |doc: &Document| {
        let mut moved = doc! { "_id": doc.get("_id")?.clone() };
        moved.extend(
            doc.iter().filter(|(name, _)| *name != "_id").map(|(name, one)| (name.clone(), one.clone())),
        );
        Some(moved)
    };
    if stage.contains_key("$out") {
        return made.iter().map(first).collect();
    }
    let spec = stage.get_document("$merge").ok()?;
    let mut all = there.to_vec();
    for new in made {
        let same = |old: &&mut Document| compare(old.get("_id").unwrap_or(&Bson::Null), &new["_id"]).is_eq();
        match (all.iter_mut().find(same), spec.get("whenMatched")) {
            (Some(old), Some(Bson::String(how))) => match how.as_str() {
                "replace" => {
                    let mut moved = first(new)?;
                    moved.insert("_id", old.get("_id")?.clone());
                    *old = moved;
                }
                "keepExisting" => {}
                "merge" => {
                    let (own, mut both) = (old.get("_id")?.clone(), old.clone());
                    merge(&mut both, &Some(Bson::Document(new.clone()))).ok()?;
                    both.insert("_id", own);
                    *old = both;
                }
                _ => return None,
            },
            (Some(old), Some(Bson::Array(_))) => {
                // The pipeline of the generator.
                old.insert("seen", new.get("n").cloned().unwrap_or(Bson::Null));
            }
            (Some(_), _) => return None,
            (None, _) if spec.get_str("whenNotMatched").ok() == Some("discard") => {}
            (None, _) => all.push(first(new)?),
        }
    }
    Some(all)
}
