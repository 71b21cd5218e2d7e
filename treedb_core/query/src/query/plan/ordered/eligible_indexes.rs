//! Which indexes can serve a query, and how.
//!
//! | kind | serves |
//! |---|---|
//! | sparse | queries that imply that one of its fields exists |
//! | partial | queries that imply its filter (`plan::implication`) |
//! | hashed | equality on the hashed field; gives no order |
//! | with a collation | string conditions and sorts under the same collation; conditions without strings always |
//! | `2dsphere`, `2d` | queries for locations at one of its fields |
//! | wildcard | conditions on one path that no missing field, null, document or array meets; `$exists: true` |
//! | hidden | nothing |
//!
//! A hint overrides the first two, as in MongoDB: rows without an entry are then not found.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::access::KeyRange;
use crate::doc::collation::holds_text;
use crate::doc::{Collation, Path, Value};
use crate::index::ordered::{IndexDef, KeyPart, Kind, SortOrder, Wildcard, path_prefix};

use super::OrderedIndex;
use crate::query::Query;
use crate::query::filter::{Node, Test};
use crate::query::plan::implication::{exists, implied};

/// The maximum number of paths of a query for which a wildcard index is considered.
const MAX_PATHS: usize = 8;

/// One way to use an index.
#[derive(Debug)]
pub(in crate::query) struct IndexUse<'q> {
    /// The index to plan with; for a wildcard index, the index on one path.
    pub(in crate::query) index: OrderedIndex<'q>,
    /// The conditions that can bound it.
    pub(in crate::query) conditions: Vec<&'q Node>,
    /// True if those are all conditions of the query.
    pub(in crate::query) all: bool,
    /// The prefix of each of its keys.
    pub(in crate::query) prefix: Vec<u8>,
    /// The ranges to walk, where the conditions give no values.
    pub(in crate::query) ranges: Option<Vec<KeyRange>>,
}

/// The ways to use `index` for `query` with these `conditions`; none if it would miss documents. What is `known` of the documents says
/// whether it does: the conditions themselves, unless values in them stand for others.
pub(in crate::query) fn index_uses<'q>(
    index: &OrderedIndex<'q>,
    query: &'q Query,
    conditions: &[&'q Node],
    known: &[&Node],
) -> Vec<IndexUse<'q>> {
    let options = &index.def.options;
    if options.hidden {
        return Vec::new();
    }
    let collation = &options.collation;
    // If a row has several entries, the one without any of the fields is omitted in a sparse index: a
    // condition that is met by a missing field does not find the row by that entry.
    let there = |node: &Node| {
        !(options.sparse && index.multikey)
            || index.def.keys.iter().any(|part| exists(node, part.path.as_str()))
    };
    let fitting: Vec<&Node> =
        conditions.iter().copied().filter(|node| fits(node, collation) && there(node)).collect();
    let key_pattern = || index.def.key_pattern();
    let hinted = query.hint.as_ref().is_some_and(|hint| hint.names(&index.def.name, key_pattern));
    if !hinted && !holds_all(&index.def, query, known) {
        return Vec::new();
    }
    if let Kind::Wildcard(wildcard) = &options.kind {
        return by_path(index, wildcard, query, &fitting);
    }
    // If the least key of a row is omitted, the row only has entries under greater keys.
    let ordered = index.ordered && *collation == query.collation && !(options.sparse && index.multikey);
    let index_as_used = OrderedIndex { ordered, ..index.clone() };
    let all = fitting.len() == conditions.len();
    vec![IndexUse { index: index_as_used, conditions: fitting, all, prefix: Vec::new(), ranges: None }]
}

/// True if every document that meets the conditions has an entry, as far as sparse and partial indexes go.
pub(super) fn holds_all(def: &IndexDef, query: &Query, conditions: &[&Node]) -> bool {
    let options = &def.options;
    let there = |part: &KeyPart| conditions.iter().any(|condition| exists(condition, part.path.as_str()));
    if options.sparse && !def.keys.iter().any(there) {
        return false;
    }
    let located = |path: &Path| {
        let is = |node: &&Node| matches!(node, Node::Value { path: at, test } if at == path && test.is_geo());
        conditions.iter().any(is)
    };
    if let Kind::Geo(geo) = &options.kind
        && !{ def.keys.iter().enumerate() }.any(|(at, part)| geo.has(at) && located(&part.path))
    {
        return false;
    }
    options.partial.as_ref().is_none_or(|partial| {
        // The filter of the index was parsed with the collation of the index.
        options.collation == query.collation
            && partial
                .condition::<crate::query::Filter>()
                .is_some_and(|filter| implied(conditions, filter.root()))
    })
}

/// True if a condition can be evaluated on the keys of an index with this collation.
fn fits(condition: &Node, collation: &Collation) -> bool {
    match condition {
        Node::Compare { value, .. } => collation.is_simple() || !holds_text(value.value()),
        Node::In { values, .. } => {
            collation.is_simple() || !values.iter().any(|value| holds_text(value.value()))
        }
        Node::Folded(folded) => folded.collation() == collation,
        Node::Value { test: Test::Regex(_), .. } => collation.is_simple(),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().all(|node| fits(node, collation)),
        Node::Not(node) | Node::Element { condition: node, .. } | Node::Member { filter: node, .. } => {
            fits(node, collation)
        }
        Node::Value { .. } | Node::Exists { .. } | Node::Size { .. } | Node::Schema(_) | Node::Expr(_) => {
            true
        }
    }
}

/// The uses of a wildcard index, one for each path with conditions.
fn by_path<'q>(
    index: &OrderedIndex<'q>,
    wildcard: &Wildcard,
    query: &Query,
    conditions: &[&'q Node],
) -> Vec<IndexUse<'q>> {
    let usable: Vec<&Node> = conditions.iter().copied().filter(|node| leads_to_leaves(node)).collect();
    let mut paths = Vec::new();
    usable.iter().for_each(|node| named(node, "", &mut paths));
    let mut known = HashSet::new();
    paths.retain(|path| known.insert(path.clone()));
    let mut uses = Vec::new();
    let collation = &index.def.options.collation;
    for path in paths.into_iter().filter(|path| wildcard.holds(path)).take(MAX_PATHS) {
        // Every entry contains the path, so this is an index on that path, with entries only for rows that
        // have a value there.
        if !usable.iter().any(|node| exists(node, &path)) && !usable.iter().any(|node| inside(node, &path)) {
            continue;
        }
        let mut def = index.def.clone().into_owned();
        def.keys = vec![KeyPart { path: Path::new(&path), direction: SortOrder::Ascending }];
        let ordered = index.ordered && !index.multikey && *collation == query.collation;
        uses.push(IndexUse {
            index: OrderedIndex { def: Cow::Owned(def), ordered, multikey: index.multikey },
            conditions: usable.clone(),
            all: false,
            prefix: path_prefix(&path),
            ranges: None,
        });
    }
    for node in conditions {
        let Node::Exists { path } = node else { continue };
        // A document has no entry if all of its fields are excluded.
        if path.has_positions() || !wildcard.holds_all_below(path.as_str()) {
            continue;
        }
        let mut below = path_prefix(&format!("{path}."));
        // The terminator of the path is removed: the range includes every path with this prefix.
        below.pop();
        let mut def = index.def.clone().into_owned();
        def.keys = Vec::new();
        uses.push(IndexUse {
            index: OrderedIndex { def: Cow::Owned(def), ordered: false, multikey: true },
            conditions: Vec::new(),
            all: false,
            prefix: Vec::new(),
            ranges: Some(vec![KeyRange::prefix(path_prefix(path.as_str())), KeyRange::prefix(below)]),
        });
    }
    uses
}

/// True if every value that can meet a condition has its own entry in a wildcard index.
fn leads_to_leaves(condition: &Node) -> bool {
    let leaf = |value: Value<'_>| {
        !matches!(
            value,
            Value::Document(_)
                | Value::Array(_)
                | Value::Null
                | Value::Undefined
                | Value::MinKey
                | Value::MaxKey
        )
    };
    match condition {
        Node::Compare { path, value, .. } => !path.has_positions() && leaf(value.value()),
        Node::In { path, values } => !path.has_positions() && values.iter().all(|value| leaf(value.value())),
        Node::Folded(folded) => leads_to_leaves(folded.node()),
        Node::Value { path, test } => {
            let whole = |types: &crate::query::filter::Types| {
                let empty = crate::doc::Doc::EMPTY;
                types.has(Value::Document(empty)) || types.has(Value::Array(empty))
            };
            !path.has_positions() && !test.is_geo() && !matches!(test, Test::Type(types) if whole(types))
        }
        Node::And(nodes) | Node::Or(nodes) => !nodes.is_empty() && nodes.iter().all(leads_to_leaves),
        Node::Element { path, condition } => !path.has_positions() && leads_to_leaves(condition),
        Node::Member { path, filter } => !path.has_positions() && leads_to_leaves(filter),
        Node::Not(_) | Node::Exists { .. } | Node::Size { .. } | Node::Schema(_) | Node::Expr(_) => false,
    }
}

/// Adds the paths of a condition; `above` is the path of the array whose elements it is
/// about.
fn named(condition: &Node, above: &str, paths: &mut Vec<String>) {
    match condition {
        Node::Compare { path, .. } | Node::In { path, .. } | Node::Value { path, .. } => {
            paths.push(format!("{above}{path}"));
        }
        Node::Folded(folded) => named(folded.node(), above, paths),
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().for_each(|node| named(node, above, paths)),
        // The conditions on an element have the array's own path.
        Node::Element { condition, .. } => named(condition, above, paths),
        Node::Member { path, filter } => named(filter, &format!("{above}{path}."), paths),
        _ => {}
    }
}

/// True if a condition on the elements of an array is only met if there is a value at `path`.
fn inside(condition: &Node, path: &str) -> bool {
    match condition {
        Node::Member { path: at, filter } => path
            .strip_prefix(at.as_str())
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|inner| exists(filter, inner) || inside(filter, inner)),
        Node::And(nodes) => nodes.iter().any(|node| inside(node, path)),
        _ => false,
    }
}
