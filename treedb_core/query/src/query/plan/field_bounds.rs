//! The intervals of values that conditions leave for one field of an index.

use super::interval::Interval;
use crate::access::IndexInfo;
use crate::doc::Value;
use crate::index::ordered::KeyPart;
use crate::query::filter::{Node, Op};

/// What conditions leave for a field of an index.
pub(super) struct FieldBounds {
    /// The values, in order and apart from each other.
    pub(super) intervals: Vec<Interval>,
    /// The positions of the conditions that are met by just the documents with these values, so that nothing of them
    /// is left to test. None in an index with several entries a row.
    pub(super) implied: Vec<usize>,
    /// In an index with several entries a row, the one condition that the intervals are of.
    pub(super) picked: Option<usize>,
}

/// The values that conditions leave for a field of an index; `None` if they leave all.
pub(super) fn field_bounds(part: &KeyPart, conditions: &[&Node], index: &IndexInfo) -> Option<FieldBounds> {
    let (path, of) = (part.path.as_str(), if index.multikey { ValuesAt::Several } else { ValuesAt::One });
    let mut left: Option<FieldBounds> = None;
    for (at, condition) in conditions.iter().enumerate() {
        let Some(allowed) = allowed(path, condition, of) else { continue };
        let implied = of == ValuesAt::One && is_exact(path, condition);
        match &mut left {
            None => {
                left = Some(FieldBounds { intervals: allowed, implied: Vec::new(), picked: Some(at) });
            }
            // Two conditions on an array may be met by two elements: one of them has to do, the tighter one.
            Some(old) if of == ValuesAt::Several => {
                if points(&allowed) && !points(&old.intervals) {
                    (old.intervals, old.picked) = (allowed, Some(at));
                }
            }
            Some(old) => old.intervals = common(&old.intervals, &allowed),
        }
        if let Some(left) = &mut left
            && implied
        {
            left.implied.push(at);
        }
    }
    left
}

/// True if the values that [`allowed`] gives are just those that meet a condition, where a document has one value.
fn is_exact(path: &str, condition: &Node) -> bool {
    let plain = |value: Value<'_>| {
        !matches!(
            value,
            Value::Array(_)
                | Value::Null
                | Value::Undefined
                | Value::MinKey
                | Value::MaxKey
                | Value::Regex(..)
        )
    };
    match condition {
        Node::Compare { path: at, value, .. } => at.as_str() == path && plain(value.value()),
        Node::In { path: at, values } => {
            at.as_str() == path && values.iter().all(|value| plain(value.value()))
        }
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().all(|node| is_exact(path, node)),
        _ => false,
    }
}

/// What the conditions at a path are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuesAt {
    /// The one value it leads to in a document.
    One,
    /// The several values it may lead to: two conditions may be met by two of them.
    Several,
    /// One element of an array at its end. Should that be an array itself, its elements are not in the index.
    Element,
}

/// The values that all conditions leave at a path; `None` if they leave all.
fn all_of<'n>(path: &str, conditions: impl Iterator<Item = &'n Node>, of: ValuesAt) -> Option<Vec<Interval>> {
    let mut left: Option<Vec<Interval>> = None;
    for condition in conditions {
        let Some(allowed) = allowed(path, condition, of) else { continue };
        left = match left {
            None => Some(allowed),
            // Two conditions on an array may be met by two elements: one of them has to do, the tighter one.
            Some(old) if of == ValuesAt::Several => {
                Some(if points(&allowed) && !points(&old) { allowed } else { old })
            }
            Some(old) => Some(common(&old, &allowed)),
        };
    }
    left
}

/// What lies in both; all in order and apart.
fn common(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut found = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        found.extend(one.intersect(other));
        // Whichever ends first meets nothing more.
        if one.ends_before(other) {
            a.next()
        } else {
            b.next()
        };
    }
    found
}

fn points(intervals: &[Interval]) -> bool {
    intervals.iter().all(|interval| interval.single().is_some())
}

/// The values one condition allows at a path, in order and apart from each other; `None` if it says nothing that an
/// index could use.
fn allowed(path: &str, condition: &Node, of: ValuesAt) -> Option<Vec<Interval>> {
    let found = match condition {
        Node::In { path: at, values } if at.as_str() == path => values
            .iter()
            .map(|value| Interval::equal(value.value()))
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat())?,
        Node::Compare { path: at, op, value } if at.as_str() == path => {
            let value = value.value();
            match op {
                Op::Eq => Interval::equal(value)?,
                Op::Gt => vec![Interval::above(value, false)?],
                Op::Gte => vec![Interval::above(value, true)?],
                Op::Lt => vec![Interval::below(value, false)?],
                Op::Lte => vec![Interval::below(value, true)?],
            }
        }
        // The constants are folded as the keys are.
        Node::Folded(folded) => return allowed(path, folded.node(), of),
        Node::Value { path: at, test } if at.as_str() == path => Interval::passing(test)?,
        // All of it is about one element, which is one value; but where a path goes on by positions, the elements of
        // what it ends in are not in the index.
        Node::Element { path: at, condition }
            if of != ValuesAt::Element && at.as_str() == path && !at.has_positions() =>
        {
            return allowed(path, condition, ValuesAt::Element);
        }
        Node::Member { path: at, filter } if of != ValuesAt::Element && !at.has_positions() => {
            let inner = path.strip_prefix(at.as_str())?.strip_prefix('.')?;
            if crate::doc::Path::new(inner).has_positions() {
                return None;
            }
            return allowed(inner, filter, ValuesAt::Several);
        }
        Node::And(nodes) => return all_of(path, nodes.iter(), of),
        Node::Or(nodes) => {
            nodes.iter().map(|node| allowed(path, node, of)).collect::<Option<Vec<_>>>()?.concat()
        }
        _ => return None,
    };
    Some(Interval::union(found))
}
