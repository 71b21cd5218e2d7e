//! The intervals of values that conditions allow for one field of an index.

use super::OrderedIndex;
use super::interval::Interval;
use crate::doc::Value;
use crate::index::ordered::KeyPart;
use crate::query::filter::{Node, Op};

/// The values that conditions allow for a field of an index.
pub(in crate::query) struct FieldBounds {
    /// The intervals of values, sorted and disjoint.
    pub(in crate::query) intervals: Vec<Interval>,
    /// The positions of the conditions that are met by exactly the documents with these values, so that they
    /// need not be tested again. Empty for a multikey index.
    pub(in crate::query) implied: Vec<usize>,
    /// For a multikey index, the one condition that the intervals are from.
    pub(in crate::query) picked: Option<usize>,
}

/// The values that conditions allow for a field of an index; `None` if they allow all.
pub(in crate::query) fn field_bounds(
    part: &KeyPart,
    conditions: &[&Node],
    index: &OrderedIndex<'_>,
) -> Option<FieldBounds> {
    let (path, of) = (part.path.as_str(), if index.multikey { ValuesAt::Several } else { ValuesAt::One });
    let mut left: Option<FieldBounds> = None;
    let mut others = Vec::new();
    for (at, condition) in conditions.iter().enumerate() {
        let Some(allowed) = allowed(path, condition, of) else { continue };
        let implied = of == ValuesAt::One && is_exact(path, condition);
        match &mut left {
            None => {
                left = Some(FieldBounds { intervals: allowed, implied: Vec::new(), picked: Some(at) });
            }
            // Two conditions on an array may be met by two elements: only one of them is used, the tighter
            // one.
            Some(old) if of == ValuesAt::Several => {
                if points(&allowed) && !points(&old.intervals) {
                    (old.intervals, old.picked) = (allowed, Some(at));
                }
            }
            Some(_) => others.push(allowed),
        }
        if let Some(left) = &mut left
            && implied
        {
            left.implied.push(at);
        }
    }
    if let Some(left) = left.as_mut().filter(|_| !others.is_empty()) {
        others.push(std::mem::take(&mut left.intervals));
        left.intervals = common_to_all(others);
    }
    left
}

/// True if the values that [`allowed`] returns are exactly those that meet a condition, for a document with
/// one value.
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

/// Which values the conditions at a path apply to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuesAt {
    /// The only value at the path in a document.
    One,
    /// Several values: two conditions may be met by two of them.
    Several,
    /// One element of an array at the end of the path. If the element is an array itself, its elements are
    /// not in the index.
    Element,
}

/// The values that all conditions allow at a path; `None` if they allow all.
fn all_of<'n>(path: &str, conditions: impl Iterator<Item = &'n Node>, of: ValuesAt) -> Option<Vec<Interval>> {
    let all = conditions.filter_map(|condition| allowed(path, condition, of));
    if of == ValuesAt::Several {
        // Two conditions on an array may be met by two elements: only one of them is used, the tighter one.
        return all.reduce(|old, allowed| if points(&allowed) && !points(&old) { allowed } else { old });
    }
    let all: Vec<_> = all.collect();
    (!all.is_empty()).then(|| common_to_all(all))
}

/// The intersection of lists of intervals, each sorted and disjoint. They are intersected in pairs, and the results again: if each were
/// intersected with what the others have left, one long list among many would be copied as many times.
fn common_to_all(mut all: Vec<Vec<Interval>>) -> Vec<Interval> {
    while all.len() > 1 {
        let pairs = all.chunks_mut(2).map(|pair| match pair {
            [a, b] => common(a, b),
            rest => rest.first_mut().map(std::mem::take).unwrap_or_default(),
        });
        all = pairs.collect();
    }
    all.pop().unwrap_or_default()
}

/// The intersection of two lists of intervals, all sorted and disjoint.
fn common(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut found = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        found.extend(one.intersect(other));
        // The interval that ends first intersects no further ones.
        if one.ends_before(other) {
            a.next()
        } else {
            b.next()
        };
    }
    found
}

/// True if only single values are allowed.
pub(super) fn points(intervals: &[Interval]) -> bool {
    intervals.iter().all(|interval| interval.single().is_some())
}

/// The values that one condition allows at a path, as sorted, disjoint intervals; `None` if an index cannot
/// use it.
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
        // The constants are folded like the keys.
        Node::Folded(folded) => return allowed(path, folded.node(), of),
        Node::Value { path: at, test } if at.as_str() == path => {
            // With positions, documents are found by a name of digits too.
            Interval::passing(test, of != ValuesAt::One || at.has_positions())?
        }
        // All conditions apply to one element, which is one value. But if a path continues with positions,
        // the elements of an array at its end are not in the index.
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
