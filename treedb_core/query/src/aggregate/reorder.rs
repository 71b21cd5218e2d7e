//! Moving stages towards the front of a pipeline, where the planner can use an index for them and where later stages see
//! fewer documents. The result of the pipeline stays the same:
//!
//! * a filter moves before a stage that preserves the fields it reads, and before a `$sort`; a condition on a part of the
//!   `_id` of a `$group` moves before the group as a condition on the field that this part is made of;
//! * a `$sort` moves before a stage that makes one document of each and preserves the fields of the sort; it is dropped
//!   before a stage whose result does not depend on the order of its input;
//! * `$limit` and `$skip` move before a stage that makes one document of each; two of a kind become one.
//!
//! An expression may fail, and an earlier filter may be there to prevent that. So a condition with an expression does
//! not move past a stage that chooses documents.

use std::sync::Arc;

use crate::doc::write::Writer;
use crate::doc::{Doc, Value};
use crate::error::Result;
use crate::query::Filter;
use crate::query::filter::Node as Condition;

use super::predicate::{Conjunct, Predicate};
use super::stage::{PlannedStage, Role, Stage};

/// The stages in a better order.
pub(crate) fn reordered(stages: Vec<PlannedStage>) -> Result<Vec<PlannedStage>> {
    let mut out: Vec<PlannedStage> = Vec::with_capacity(stages.len());
    for stage in stages {
        match stage.role() {
            Role::Match { predicate, rebuild } => {
                if !push_down(predicate, rebuild, &mut out)? {
                    out.push(stage);
                }
            }
            Role::Sort(sort) => {
                let at = foremost(&out, |before| {
                    matches!(before.role(), Role::Project(_))
                        && sort.keys.iter().all(|key| before.stage.preserves(key.path.first()))
                });
                out.insert(at, stage);
            }
            role @ (Role::Skip(_) | Role::Limit(_)) => {
                let at = foremost(&out, |before| matches!(before.role(), Role::Project(_)));
                let before = at.checked_sub(1).and_then(|at| out.get_mut(at));
                match before.and_then(|before| Some((before.stage.merged_with(&role)?, before))) {
                    Some((merged, before)) => *before = PlannedStage::derived(merged),
                    None => out.insert(at, stage),
                }
            }
            _ => {
                if !stage.stage.needs_order() {
                    drop_sorts(&mut out);
                }
                out.push(stage);
            }
        }
    }
    Ok(out)
}

/// The foremost place for a stage that may move before the stages for which `may_pass` is true.
fn foremost(out: &[PlannedStage], may_pass: impl Fn(&PlannedStage) -> bool) -> usize {
    out.iter().rposition(|before| !may_pass(before)).map_or(0, |last| last + 1)
}

/// Removes sorts at the end of `out` whose order has no effect on what follows.
fn drop_sorts(out: &mut Vec<PlannedStage>) {
    let mut at = out.len();
    while let Some(before) = at.checked_sub(1) {
        match out.get(before) {
            Some(stage) if matches!(stage.role(), Role::Sort(_)) => drop(out.remove(before)),
            Some(stage) if stage.stage.is_per_document() => {}
            _ => break,
        }
        at = before;
    }
}

/// Puts each conjunct of a `$match` as far to the front of `out` as it may move. False, with nothing done, if none of them
/// moves.
fn push_down(
    predicate: &Predicate,
    rebuild: fn(Predicate) -> Arc<dyn Stage>,
    out: &mut Vec<PlannedStage>,
) -> Result<bool> {
    let collation = predicate.collation();
    let joined = |conjuncts: &[Conjunct]| -> Result<PlannedStage> {
        Ok(PlannedStage::derived(rebuild(Predicate::join(conjuncts, collation)?)))
    };
    let (mut staying, mut moving) = (Vec::new(), Vec::new());
    for conjunct in predicate.conjuncts()? {
        match moved(&conjunct, predicate, out)? {
            Some(moved) => moving.push(moved),
            None => staying.push(conjunct),
        }
    }
    if moving.is_empty() {
        return Ok(false);
    }
    if !staying.is_empty() {
        out.push(joined(&staying)?);
    }
    // From the last to the first, so that an insertion does not shift the places of those still to come.
    moving.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, conjunct) in moving {
        match out.get_mut(at) {
            Some(stage) if matches!(stage.role(), Role::Match { .. }) => {
                let mut conjuncts = vec![conjunct];
                if let Role::Match { predicate, .. } = stage.role() {
                    conjuncts.extend(predicate.conjuncts()?);
                }
                *stage = joined(&conjuncts)?;
            }
            _ => out.insert(at, joined(&[conjunct])?),
        }
    }
    Ok(true)
}

/// The foremost place of a conjunct and what it is there; `None` if it stays at the end.
fn moved(
    conjunct: &Conjunct,
    predicate: &Predicate,
    out: &[PlannedStage],
) -> Result<Option<(usize, Conjunct)>> {
    let (mut conjunct, mut best) = (conjunct.clone(), None);
    for (at, before) in out.iter().enumerate().rev() {
        let (fields, has_expression) = match &conjunct {
            Conjunct::Filter(filter) => {
                let Some(fields) = filter.reads() else { break };
                (fields, false)
            }
            Conjunct::Expr(condition, _) => {
                let reads = condition.expr.reads();
                if reads.whole || reads.random {
                    break;
                }
                (reads.paths.iter().map(|path| path.first().to_owned()).collect(), true)
            }
        };
        let preserved = || fields.iter().all(|field| before.stage.preserves(field));
        let passes = match before.role() {
            Role::Sort(_) => true,
            Role::Project(_) => preserved(),
            // Past another filter only to move further.
            Role::Match { .. } if !has_expression => continue,
            // A condition that reads no field is false of every document, also of those that this stage adds.
            Role::Other if !has_expression && !fields.is_empty() && preserved() => true,
            Role::Other => match before_group(&conjunct, predicate, before)? {
                Some(renamed) => {
                    conjunct = renamed;
                    true
                }
                None => false,
            },
            _ => false,
        };
        if !passes {
            break;
        }
        best = Some((at, conjunct.clone()));
    }
    Ok(best)
}

/// A condition on the output of a group as the condition on its input that chooses the same groups, if there is one.
fn before_group(
    conjunct: &Conjunct,
    predicate: &Predicate,
    group: &PlannedStage,
) -> Result<Option<Conjunct>> {
    let Conjunct::Filter(filter) = conjunct else { return Ok(None) };
    let mut elements = Doc::from(filter.source()).elements();
    let (Some(element), None) = (elements.next(), elements.next()) else { return Ok(None) };
    // Only conditions that treat missing like null, and equal numbers of different types alike.
    if !is_comparison(filter.root())
        || element.name.starts_with(b"$")
        || matches!(element.value(), Value::Regex(..))
    {
        return Ok(None);
    }
    let Some(path) = group.stage.input_field(element.name_str()) else { return Ok(None) };
    let mut renamed = Writer::new(element.bytes.len() + 32);
    renamed.put(path.as_bytes(), &element);
    let filter = Filter::parse(&renamed.finish())?.collated(predicate.collation())?;
    Ok(Some(Conjunct::Filter(filter)))
}

/// True if a condition consists of comparisons of the values at a path with constants.
fn is_comparison(condition: &Condition) -> bool {
    match condition {
        Condition::And(conditions) => conditions.iter().all(is_comparison),
        Condition::Not(condition) => is_comparison(condition),
        Condition::Compare { .. } | Condition::In { .. } | Condition::Folded(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pipeline;
    use crate::doc::json::documents_from_json;
    use crate::doc::{Doc, Value};
    use crate::query::expr::Names;

    /// The stages in the order they are run in; of a `$match` with the fields it reads.
    fn order(stages: &str) -> String {
        let mut array = bson::RawArrayBuf::new();
        documents_from_json(stages).unwrap().into_iter().for_each(|stage| array.push(stage));
        let array = bson::RawDocument::from_bytes(array.as_bytes()).unwrap();
        let pipeline = Pipeline::parse(Value::Array(Doc::from(array)), &Names::default()).unwrap();
        pipeline.summary().join(" ")
    }

    #[test]
    fn filters_move_before_stages_that_preserve_their_fields() {
        for (stages, expected) in [
            (r#"[{"$sort":{"n":1}},{"$match":{"a":1}}]"#, "match(a) sort"),
            (r#"[{"$set":{"v":1}},{"$match":{"a":1,"v":1}}]"#, "match(a) project match(v)"),
            (r#"[{"$set":{"a.b":1}},{"$match":{"a.c":1}}]"#, "project match(a)"),
            (
                r#"[{"$project":{"a":1,"b":"$c"}},{"$match":{"a":1,"b":1,"c":1}}]"#,
                "match(a) project match(b,c)",
            ),
            (r#"[{"$unset":"a"},{"$match":{"a":1,"b":{"$gt":1}}}]"#, "match(b) project match(a)"),
            (r#"[{"$replaceWith":"$a"},{"$match":{"a":1}}]"#, "project match(a)"),
            (r#"[{"$unwind":"$a"},{"$match":{"a":1,"b":1}}]"#, "match(b) other match(a)"),
            (
                r#"[{"$lookup":{"from":"x","localField":"a","foreignField":"b","as":"l"}},{"$match":{"l.q":1,"a":{"$in":[1]}}}]"#,
                "match(a) other match(l)",
            ),
            (
                r#"[{"$match":{"a":1}},{"$unwind":"$b"},{"$sort":{"c":1}},{"$match":{"$or":[{"a":2},{"d":1}]}}]"#,
                "match(a) match(a,d) other sort",
            ),
            (r#"[{"$limit":5},{"$match":{"a":1}}]"#, "limit match(a)"),
            (r#"[{"$set":{"v":1}},{"$match":{"$expr":{"$gt":["$a","$b"]}}}]"#, "match(a,b) project"),
            (r#"[{"$unwind":"$v"},{"$match":{"$expr":{"$gt":["$a","$b"]}}}]"#, "other match(a,b)"),
            (
                r#"[{"$match":{"a":1}},{"$set":{"v":1}},{"$match":{"$expr":{"$divide":["$a","$b"]}}}]"#,
                "match(a) match(a,b) project",
            ),
            (r#"[{"$set":{"v":1}},{"$match":{"$expr":{"$lt":[{"$rand":{}},0.5]}}}]"#, "project match()"),
        ] {
            assert_eq!(order(stages), expected, "{stages}");
        }
    }

    #[test]
    fn a_filter_that_reads_no_field_stays_after_a_stage_that_adds_documents() {
        for (stages, expected) in [
            (r#"[{"$unionWith":"x"},{"$match":{"a":{"$all":[]}}}]"#, "other match()"),
            (r#"[{"$unwind":"$v"},{"$match":{"a":{"$in":[]}}}]"#, "match(a) other"),
            (r#"[{"$sort":{"a":1}},{"$match":{"a":{"$all":[]}}}]"#, "match() sort"),
        ] {
            assert_eq!(order(stages), expected, "{stages}");
        }
    }

    #[test]
    fn conditions_on_groups_become_conditions_on_their_documents() {
        for (stages, expected) in [
            (
                r#"[{"$group":{"_id":"$a","n":{"$sum":1}}},{"$match":{"_id":{"$gt":1},"n":2}}]"#,
                "match(a) group match(n)",
            ),
            (
                r#"[{"$group":{"_id":{"x":"$a","y":"$b.c"}}},{"$match":{"_id.x":5,"_id.y":5}}]"#,
                "match(a) group match(_id)",
            ),
            (r#"[{"$group":{"_id":"$a"}},{"$match":{"_id":{"$exists":true}}}]"#, "group match(_id)"),
            (r#"[{"$group":{"_id":{"$add":["$a",1]}}},{"$match":{"_id":5}}]"#, "group match(_id)"),
        ] {
            assert_eq!(order(stages), expected, "{stages}");
        }
    }

    #[test]
    fn sorts_and_limits_move_merge_and_are_dropped() {
        for (stages, expected) in [
            (r#"[{"$set":{"v":1}},{"$sort":{"a":1}},{"$limit":3}]"#, "sort limit project"),
            (r#"[{"$set":{"v":1}},{"$sort":{"v":1}}]"#, "project sort"),
            (r#"[{"$skip":2},{"$skip":3},{"$limit":9},{"$set":{"v":1}},{"$limit":4}]"#, "skip limit project"),
            (
                r#"[{"$sort":{"a":1}},{"$match":{"b":1}},{"$group":{"_id":"$c","n":{"$sum":1}}}]"#,
                "match(b) group",
            ),
            (r#"[{"$sort":{"a":1}},{"$group":{"_id":"$c","n":{"$first":"$b"}}}]"#, "sort group"),
            (
                r#"[{"$sort":{"a":1}},{"$limit":4},{"$group":{"_id":"$c","n":{"$sum":1}}}]"#,
                "sort limit group",
            ),
        ] {
            assert_eq!(order(stages), expected, "{stages}");
        }
    }
}
