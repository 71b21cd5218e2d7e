//! Moving stages towards the front, where the planner can use an index for them and where later stages see fewer
//! documents. What comes out of a pipeline stays the same:
//!
//! * a filter goes before a stage that leaves the fields it reads as they are, and before a `$sort`; through a
//!   `$group` a condition on a part of the `_id` goes as one on the field that part is;
//! * a `$sort` goes before a stage that shapes documents but leaves the fields of the sort, and is dropped before
//!   a `$group` whose accumulators do not ask for an order;
//! * `$limit` and `$skip` go before a stage that makes one document of each; neighbours of a kind are added up.
//!
//! An expression may fail, and an earlier filter may be there to prevent it: a condition with an expression goes
//! past nothing that chooses documents.

use std::sync::Arc;

use crate::code::Result;
use crate::doc::write::Writer;
use crate::doc::{Collation, Value};
use crate::query::filter::Node as Condition;
use crate::query::{Filter, Sort};

use super::group::Group;
use super::pipeline::Node;
use super::shape::{Match, Piece};

/// The stages in a better order.
pub(super) fn reordered(nodes: Vec<Node>) -> Result<Vec<Node>> {
    let mut out: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        match &node {
            Node::Match(found) => place_match(found, &mut out)?,
            Node::Sort(sort) => {
                let leaves = |before: &Node| match before {
                    Node::Project(shape, _) => sort.keys.iter().all(|key| shape.0.leaves(key.path.first())),
                    _ => false,
                };
                let at = moved(&out, leaves);
                out.insert(at, node);
            }
            Node::Skip(_) | Node::Limit(_) => {
                let at = moved(&out, |before| matches!(before, Node::Project(..)));
                let joined = match (at.checked_sub(1).and_then(|at| out.get_mut(at)), &node) {
                    (Some(Node::Limit(limit)), Node::Limit(new)) => {
                        *limit = (*limit).min(*new);
                        true
                    }
                    (Some(Node::Skip(skip)), Node::Skip(new)) => {
                        *skip = skip.saturating_add(*new);
                        true
                    }
                    _ => false,
                };
                if !joined {
                    out.insert(at, node);
                }
            }
            Node::Group(group) => {
                if group.is_unordered() {
                    drop_sorts(&mut out);
                }
                out.push(node);
            }
            _ => out.push(node),
        }
    }
    Ok(out)
}

/// How far to the front a stage at the end may go.
fn moved(out: &[Node], passes: impl Fn(&Node) -> bool) -> usize {
    out.iter().rposition(|before| !passes(before)).map_or(0, |last| last + 1)
}

/// Takes away sorts whose order nothing behind them asks for.
fn drop_sorts(out: &mut Vec<Node>) {
    let mut at = out.len();
    while let Some(before) = at.checked_sub(1) {
        match out.get(before) {
            Some(Node::Sort(_)) => drop(out.remove(before)),
            Some(node) if node.is_for_each() => {}
            _ => break,
        }
        at = before;
    }
}

/// Puts each part of a `$match` as far to the front as it may go.
fn place_match(found: &Arc<Match>, out: &mut Vec<Node>) -> Result<()> {
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    for piece in found.pieces()? {
        match front(&piece, found.collation(), out)? {
            Some(better) => go.push(better),
            None => stay.push(piece),
        }
    }
    // As it was, if nothing moves: joined again it would be the same, only longer.
    if go.is_empty() {
        out.push(Node::Match(Arc::clone(found)));
        return Ok(());
    }
    if !stay.is_empty() {
        out.push(Node::Match(Arc::new(Match::join(&stay, found.collation())?)));
    }
    // Those furthest behind first, so that places in front of them stay what they are.
    go.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, piece) in go {
        let joined = match out.get(at) {
            Some(Node::Match(other)) => {
                let mut all = vec![piece.clone()];
                all.extend(other.pieces()?);
                Some(Match::join(&all, found.collation())?)
            }
            _ => None,
        };
        match (joined, out.get_mut(at)) {
            (Some(joined), Some(place)) => *place = Node::Match(Arc::new(joined)),
            _ => out.insert(at, Node::Match(Arc::new(Match::join(&[piece], found.collation())?))),
        }
    }
    Ok(())
}

/// The foremost place of a part and what it is there; `None` if that is the end.
fn front(piece: &Piece, collation: &Collation, out: &[Node]) -> Result<Option<(usize, Piece)>> {
    let (mut piece, mut best) = (piece.clone(), None);
    for (at, before) in out.iter().enumerate().rev() {
        let (names, computes) = match &piece {
            Piece::Plain(filter) => {
                let Some(names) = filter.reads() else { break };
                (names, false)
            }
            Piece::Condition(condition, _) => {
                let reads = condition.expr.reads();
                if reads.whole || reads.random {
                    break;
                }
                (reads.paths.iter().map(|path| path.first().to_owned()).collect(), true)
            }
        };
        let passes = match before {
            Node::Sort(_) => true,
            Node::Project(shape, _) => names.iter().all(|name| shape.0.leaves(name)),
            // A condition that reads no field is false of every document, also of those that this stage adds.
            Node::Other(stage, _) => {
                !computes && !names.is_empty() && names.iter().all(|name| stage.leaves(name))
            }
            // Filters change places with filters only to go further.
            Node::Match(_) if !computes => continue,
            Node::Group(group) => match through(&piece, collation, group)? {
                Some(renamed) => {
                    piece = renamed;
                    true
                }
                None => false,
            },
            _ => false,
        };
        if !passes {
            break;
        }
        best = Some((at, piece.clone()));
    }
    Ok(best)
}

/// A condition on the `_id` of groups as one on the documents they are made of.
fn through(piece: &Piece, collation: &Collation, group: &Group) -> Result<Option<Piece>> {
    let Piece::Plain(filter) = piece else { return Ok(None) };
    let mut elements = crate::doc::Doc::from(filter.source()).elements();
    let (Some(element), None) = (elements.next(), elements.next()) else { return Ok(None) };
    // Only what does not tell missing from null, nor one kind of equal numbers from another.
    if !compares(filter.root())
        || element.name.starts_with(b"$")
        || matches!(element.value(), Value::Regex(..))
    {
        return Ok(None);
    }
    let Some(path) = group.source_of(element.name_str()) else { return Ok(None) };
    let mut renamed = Writer::new(element.bytes.len() + 32);
    renamed.put(path.as_bytes(), &element);
    Ok(Some(Piece::Plain(Filter::parse(&renamed.finish())?.collated(collation)?)))
}

/// True if a condition asks how the values at a path compare with constants, and nothing else.
fn compares(node: &Condition) -> bool {
    match node {
        Condition::And(nodes) => nodes.iter().all(compares),
        Condition::Not(node) => compares(node),
        Condition::Compare { .. } | Condition::In { .. } | Condition::Folded(_) => true,
        _ => false,
    }
}

/// Top-level fields of the documents in a sort that the stages behind it use; `None` if that may be any.
pub(super) fn needed(sort: &Sort, rest: &[Node]) -> Option<Vec<String>> {
    used(rest, sort.keys.iter().map(|key| key.path.first().to_owned()).collect())
}

/// The fields of the document in the field `name` that stages use; `None` if that may be all of it.
pub(super) fn below(stages: &[Node], name: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for node in stages {
        if let Node::Group(group) = node {
            group.below(name, &mut fields)?;
            return Some(fields);
        }
        let mut names = Vec::new();
        let ends = adds(node, &mut names)?;
        if names.iter().any(|read| read == name) {
            return None;
        }
        if ends {
            return Some(fields);
        }
    }
    None
}

/// `names` and the top-level fields of their documents that stages use; `None` if that may be any.
pub(super) fn used(stages: &[Node], mut names: Vec<String>) -> Option<Vec<String>> {
    for node in stages {
        if adds(node, &mut names)? {
            return Some(names);
        }
    }
    None
}

/// Adds the top-level fields that a stage uses; true if those behind it see no others. `None` if it may use any.
fn adds(node: &Node, names: &mut Vec<String>) -> Option<bool> {
    match node {
        Node::Match(found) => found.reads(names)?,
        Node::Sort(sort) => names.extend(sort.keys.iter().map(|key| key.path.first().to_owned())),
        Node::Skip(_) | Node::Limit(_) => {}
        Node::Other(stage, _) => stage.reads(names)?,
        Node::Project(shape, _) => return shape.0.reads(names),
        Node::Group(group) => {
            group.reads(names)?;
            return Some(true);
        }
        _ => return None,
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::super::Pipeline;
    use crate::doc::json::documents_from_json;
    use crate::doc::{Doc, Value};
    use crate::query::expr::Names;

    /// The stages in the order they are run in; of a `$match` what it asks for.
    fn order(stages: &str) -> String {
        let mut array = bson::RawArrayBuf::new();
        documents_from_json(stages).unwrap().into_iter().for_each(|stage| array.push(stage));
        let array = bson::RawDocument::from_bytes(array.as_bytes()).unwrap();
        let pipeline = Pipeline::parse(Value::Array(Doc::from(array)), &Names::default()).unwrap();
        pipeline.shown().join(" ")
    }

    #[test]
    fn filters_go_before_what_leaves_their_fields_alone() {
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
    fn conditions_on_groups_become_conditions_on_documents() {
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
    fn sorts_and_limits_move_join_and_vanish() {
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
