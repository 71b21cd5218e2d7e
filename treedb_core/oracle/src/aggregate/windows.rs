//! `$setWindowFields` again: every window looked at from its beginning.

use bson::{Bson, Document};

use super::stages::{State, accumulate, field, parts_by, with};
use super::values::{Answer, Variables, Wrong, alike, eval, number};
use crate::query::naive::{compare_sort_keys, sort_key};

pub(super) fn apply(spec: &Document, state: &State, variables: &Variables) -> Answer<State> {
    let sort = spec.get_document("sortBy").map_err(|_| Wrong::Unknown)?;
    let (mut docs, mut loose) = (Vec::new(), state.loose);
    for mut part in parts_by(spec, state, variables)? {
        part.sort_by(|a, b| compare_sort_keys(&sort_key(a, sort), &sort_key(b, sort), sort));
        let keys: Vec<_> = part.iter().map(|doc| sort_key(doc, sort)).collect();
        let same = |a: usize, b: usize| compare_sort_keys(&keys[a], &keys[b], sort).is_eq();
        let ordered = (1..part.len()).all(|at| !same(at - 1, at));
        for at in 0..part.len() {
            let mut made = part[at].clone();
            for (name, output) in spec.get_document("output").map_err(|_| Wrong::Unknown)? {
                let output = output.as_document().ok_or(Wrong::Unknown)?;
                let (operator, operand) =
                    output.iter().find(|(name, _)| *name != "window").ok_or(Wrong::Unknown)?;
                let ranked = |distinct: bool| {
                    let before = (0..at).filter(|one| !same(*one, at));
                    1 + before.filter(|one| !distinct || !same(*one, *one + 1)).count() as i32
                };
                let value = match operator.as_str() {
                    "$rank" => Bson::Int32(ranked(false)),
                    "$denseRank" => Bson::Int32(ranked(true)),
                    "$documentNumber" if ordered => Bson::Int32(at as i32 + 1),
                    "$shift" if ordered => {
                        let by = operand.as_document().and_then(|doc| doc.get_i32("by").ok());
                        let from = at as i64 + i64::from(by.ok_or(Wrong::Unknown)?);
                        let from = usize::try_from(from).ok().and_then(|from| part.get(from));
                        let input =
                            operand.as_document().and_then(|doc| doc.get("output")).ok_or(Wrong::Unknown)?;
                        match from {
                            Some(from) => eval(input, from, variables)?.unwrap_or(Bson::Null),
                            None => Bson::Null,
                        }
                    }
                    "$documentNumber" | "$shift" => return Err(Wrong::Unknown),
                    operator => {
                        let members = members(output, &part, at, sort)?;
                        if !ordered
                            && output
                                .get_document("window")
                                .is_ok_and(|window| window.contains_key("documents"))
                        {
                            return Err(Wrong::Unknown);
                        }
                        let members = State { docs: members, ordered, loose: false };
                        accumulate(operator, operand, &members, variables, &mut loose)?
                    }
                };
                made = with(&made, name, value);
            }
            docs.push(made);
        }
    }
    Ok(State { docs, ordered: false, loose })
}

/// The documents of the window of the one at `at`.
fn members(output: &Document, part: &[Document], at: usize, sort: &Document) -> Answer<Vec<Document>> {
    let Ok(window) = output.get_document("window") else { return Ok(part.to_vec()) };
    let (kind, edges) = window.iter().next().ok_or(Wrong::Unknown)?;
    let edge = |number: usize, unbounded: f64| match edges.as_array().and_then(|edges| edges.get(number)) {
        Some(Bson::String(word)) if word == "unbounded" => Ok(unbounded),
        Some(Bson::String(_)) => Ok(0.0),
        Some(Bson::Int32(n)) => Ok(f64::from(*n)),
        _ => Err(Wrong::Unknown),
    };
    let (low, high) = (edge(0, f64::NEG_INFINITY)?, edge(1, f64::INFINITY)?);
    let place = |one: usize| match kind.as_str() {
        "documents" => Ok(one as f64),
        _ => {
            let path = sort.keys().next().ok_or(Wrong::Unknown)?;
            let value = field(&part[one], path);
            alike(&value)?;
            let value = value.and_then(|value| number(&value));
            value.map(|(_, value)| value).filter(|value| value.is_finite()).ok_or(Wrong::Unknown)
        }
    };
    let own = place(at)?;
    let mut inside = Vec::new();
    for (one, doc) in part.iter().enumerate() {
        if (own + low..=own + high).contains(&place(one)?) {
            inside.push(doc.clone());
        }
    }
    Ok(inside)
}
