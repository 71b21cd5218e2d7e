//! Conditions evaluated on index keys, before any document is fetched.
//!
//! In an index that is not multikey, an entry contains everything that a condition on its fields needs,
//! except that a missing field cannot be distinguished from null, nor number types from each other: the
//! result may be [`KeyMatch::Maybe`], and then the document decides. In a multikey index, every document that
//! meets a condition has an entry that meets it, so entries that do not can be skipped; whether the document
//! matches is only known after it is fetched. There, two conditions may be met by two different entries,
//! unless their fields cannot be in the same array.

use std::ops::Range;

use super::OrderedIndex;
use crate::doc::Value;
use crate::doc::compare::class;
use crate::doc::key::encode_value;
use crate::doc::key_decode::{ARRAY, class_of, decode, encoded_length};
use crate::index::ordered::SortOrder;
use crate::query::filter::{Node, Op, Test, Types};

/// What a key tells about whether its row matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyMatch {
    /// The row does not match.
    No,
    /// The document decides.
    Maybe,
    /// The row meets every condition of the filter.
    Yes,
}

impl KeyMatch {
    fn of(yes: bool) -> KeyMatch {
        if yes { KeyMatch::Yes } else { KeyMatch::No }
    }

    fn not(self) -> KeyMatch {
        match self {
            KeyMatch::No => KeyMatch::Yes,
            KeyMatch::Maybe => KeyMatch::Maybe,
            KeyMatch::Yes => KeyMatch::No,
        }
    }
}

/// A filter on the keys of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexFilter {
    /// The conditions; all of them must be met.
    conditions: Vec<KeyCondition>,
    /// Which fields are descending, up to the last one that is tested.
    descending: Vec<bool>,
}

/// A condition on the fields of a key, which are named by their positions.
#[derive(Debug, Clone, PartialEq)]
enum KeyCondition {
    And(Vec<KeyCondition>),
    Or(Vec<KeyCondition>),
    Not(Box<KeyCondition>),
    Compare {
        part: usize,
        op: Op,
        key: Vec<u8>,
        across: bool,
    },
    In {
        part: usize,
        keys: Vec<Vec<u8>>,
    },
    Exists {
        part: usize,
    },
    Value {
        part: usize,
        test: Test,
    },
    /// A condition that only arrays meet; the index has none.
    Never,
}

/// The offsets of the fields of a key; reused for all keys.
#[derive(Debug, Default)]
pub(crate) struct SplitKey {
    /// The descending fields, inverted back.
    turned: Vec<u8>,
    parts: Vec<Place>,
    text: Vec<u8>,
}

#[derive(Debug)]
struct Place {
    turned: bool,
    at: Range<usize>,
}

impl SplitKey {
    /// Splits the first fields of a key, as many as there are directions. `None` if the key is too short.
    pub(crate) fn split(&mut self, key: &[u8], descending: &[bool]) -> Option<()> {
        self.turned.clear();
        self.parts.clear();
        let mut from = 0;
        for &descending in descending {
            let rest = key.get(from..)?;
            let length = encoded_length(rest, descending)?;
            self.parts.push(if descending {
                let start = self.turned.len();
                self.turned.extend(rest.get(..length)?.iter().map(|byte| !byte));
                Place { turned: true, at: start..self.turned.len() }
            } else {
                Place { turned: false, at: from..from + length }
            });
            from += length;
        }
        Some(())
    }

    /// The encoding of a field, and a buffer for its decoded string.
    pub(crate) fn part<'r>(&'r mut self, key: &'r [u8], part: usize) -> Option<(&'r [u8], &'r mut Vec<u8>)> {
        let place = self.parts.get(part)?;
        let bytes = if place.turned { self.turned.as_slice() } else { key };
        Some((bytes.get(place.at.clone())?, &mut self.text))
    }
}

impl IndexFilter {
    /// Evaluates the filter on an entry's key.
    pub(crate) fn check(&self, key: &[u8], split: &mut SplitKey) -> KeyMatch {
        // A key that cannot be decoded decides nothing.
        if split.split(key, &self.descending).is_none() {
            return KeyMatch::Maybe;
        }
        all(&self.conditions, key, split)
    }

    /// Estimated fraction of the entries that pass.
    pub(in crate::query) fn passing(&self) -> f64 {
        self.conditions.iter().map(KeyCondition::passing).product()
    }

    /// True if it justifies scanning the whole index: if it tests the index's first field, or if few entries
    /// pass.
    pub(in crate::query) fn is_of_use(&self) -> bool {
        self.tests(0) || self.passing() < 0.5
    }

    /// True if it tests the field at this position.
    pub(super) fn tests(&self, field: usize) -> bool {
        self.conditions.iter().any(|condition| condition.is_on(field))
    }
}

impl KeyCondition {
    fn passing(&self) -> f64 {
        match self {
            KeyCondition::And(all) => all.iter().map(KeyCondition::passing).product(),
            KeyCondition::Or(any) => any.iter().map(KeyCondition::passing).sum::<f64>().min(1.0),
            KeyCondition::Not(inner) => (1.0 - inner.passing()).max(0.05),
            KeyCondition::Compare { op: Op::Eq, .. } => 0.05,
            KeyCondition::Compare { .. } => 0.33,
            KeyCondition::In { keys, .. } => (0.05 * keys.len() as f64).min(1.0),
            KeyCondition::Exists { .. } => 0.9,
            KeyCondition::Value { test: Test::Type(_), .. } => 0.9,
            KeyCondition::Value { .. } => 0.1,
            KeyCondition::Never => 0.0,
        }
    }

    fn is_on(&self, wanted: usize) -> bool {
        match self {
            KeyCondition::And(nodes) | KeyCondition::Or(nodes) => nodes.iter().any(|node| node.is_on(wanted)),
            KeyCondition::Not(node) => node.is_on(wanted),
            KeyCondition::Compare { part, .. }
            | KeyCondition::In { part, .. }
            | KeyCondition::Exists { part }
            | KeyCondition::Value { part, .. } => *part == wanted,
            KeyCondition::Never => true,
        }
    }

    fn last_part(&self) -> usize {
        match self {
            KeyCondition::And(nodes) | KeyCondition::Or(nodes) => {
                nodes.iter().map(KeyCondition::last_part).max().unwrap_or(0)
            }
            KeyCondition::Not(node) => node.last_part(),
            KeyCondition::Compare { part, .. }
            | KeyCondition::In { part, .. }
            | KeyCondition::Exists { part }
            | KeyCondition::Value { part, .. } => *part,
            KeyCondition::Never => 0,
        }
    }

    fn check(&self, key: &[u8], split: &mut SplitKey) -> KeyMatch {
        let part = match self {
            KeyCondition::And(nodes) => return all(nodes, key, split),
            KeyCondition::Or(nodes) => {
                let mut most = KeyMatch::No;
                for node in nodes {
                    match node.check(key, split) {
                        KeyMatch::Yes => return KeyMatch::Yes,
                        KeyMatch::Maybe => most = KeyMatch::Maybe,
                        KeyMatch::No => {}
                    }
                }
                return most;
            }
            KeyCondition::Not(node) => return node.check(key, split).not(),
            KeyCondition::Never => return KeyMatch::No,
            KeyCondition::Compare { part, .. }
            | KeyCondition::In { part, .. }
            | KeyCondition::Exists { part }
            | KeyCondition::Value { part, .. } => *part,
        };
        let Some((bytes, text)) = split.part(key, part) else { return KeyMatch::Maybe };
        match self {
            KeyCondition::Compare { op, key, across, .. } => compares(bytes, *op, key, *across),
            KeyCondition::In { keys, .. } => {
                KeyMatch::of(keys.binary_search_by(|key| key.as_slice().cmp(bytes)).is_ok())
            }
            // A missing field has the same key as null.
            KeyCondition::Exists { .. } if is_null(bytes) => KeyMatch::Maybe,
            KeyCondition::Exists { .. } => KeyMatch::Yes,
            KeyCondition::Value { test, .. } => passes(bytes, test, text),
            _ => KeyMatch::Maybe,
        }
    }
}

fn all(conditions: &[KeyCondition], key: &[u8], split: &mut SplitKey) -> KeyMatch {
    let mut least = KeyMatch::Yes;
    for condition in conditions {
        match condition.check(key, split) {
            KeyMatch::No => return KeyMatch::No,
            KeyMatch::Maybe => least = KeyMatch::Maybe,
            KeyMatch::Yes => {}
        }
    }
    least
}

fn is_null(encoding: &[u8]) -> bool {
    class_of(encoding) == Some(class(&Value::Null))
}

/// Compares two encodings like their values.
fn compares(bytes: &[u8], op: Op, constant: &[u8], across: bool) -> KeyMatch {
    let (one, other) = (class_of(bytes), class_of(constant));
    if !across && one != other {
        return KeyMatch::No;
    }
    let order = bytes.cmp(constant);
    // NaN equals NaN; it is neither less nor greater than any other number.
    let mut nan = Vec::new();
    encode_value(Value::Double(f64::NAN), &mut nan);
    if !across && order.is_ne() && (bytes == nan || constant == nan) {
        return KeyMatch::No;
    }
    KeyMatch::of(match op {
        Op::Eq => order.is_eq(),
        Op::Gt => order.is_gt(),
        Op::Gte => order.is_ge(),
        Op::Lt => order.is_lt(),
        Op::Lte => order.is_le(),
    })
}

fn passes(bytes: &[u8], test: &Test, text: &mut Vec<u8>) -> KeyMatch {
    let Some(found) = class_of(bytes) else { return KeyMatch::Maybe };
    if let Test::Type(types) = test {
        return has_type(found, *types);
    }
    let number = class(&Value::Int32(0));
    let wanted: &[u8] = match test {
        Test::Regex(_) => &[class(&Value::String(b"")), class(&Value::Regex(b"", b""))],
        Test::Mod(_) => &[number],
        Test::Bits(_) => &[number, class(&Value::Binary(0, b""))],
        Test::Type(_) | Test::Geo(_) | Test::Near(_) => &[],
    };
    if !wanted.contains(&found) {
        return KeyMatch::No;
    }
    match decode(bytes, text) {
        // Above this, a double and an equal integer are not treated the same everywhere.
        Some(Value::Double(number)) if number.abs() > 9e15 => KeyMatch::Maybe,
        // The document will tell, or that there is no answer.
        Some(_) if test.backtracks() => KeyMatch::Maybe,
        Some(value) => KeyMatch::of(test.passes(value)),
        None => KeyMatch::Maybe,
    }
}

/// Whether all values of a class have one of the types, or none of them.
fn has_type(found: u8, types: Types) -> KeyMatch {
    const ID: [u8; 12] = [0; 12];
    let kinds = [
        Value::MinKey,
        Value::Undefined,
        Value::Null,
        Value::Double(0.0),
        Value::Int32(0),
        Value::Int64(0),
        Value::Decimal([0; 16]),
        Value::String(b""),
        Value::Symbol(b""),
        Value::Document(crate::doc::Doc::EMPTY),
        ARRAY,
        Value::Binary(0, b""),
        Value::ObjectId(&ID),
        Value::Bool(true),
        Value::Date(0),
        Value::Timestamp(0),
        Value::Regex(b"", b""),
        Value::DbPointer(b"", &ID),
        Value::Code(b""),
        Value::CodeScope(b"", crate::doc::Doc::EMPTY),
        Value::MaxKey,
    ];
    let (mut any, mut all) = (false, true);
    for kind in kinds.iter().filter(|kind| class(kind) == found) {
        any |= types.has(*kind);
        all &= types.has(*kind);
    }
    // A missing field has the same key as null, but no type.
    if any && (!all || found == class(&Value::Null)) { KeyMatch::Maybe } else { KeyMatch::of(any) }
}

/// The conditions that keys do not decide.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::query) enum Undecided {
    All,
    /// Their positions, ascending.
    These(Vec<usize>),
}

/// The filter on the keys of `index` for `conditions`, without those `implied` by the ranges, which are in ascending order. In a multikey
/// index the ranges are from the conditions `picked` (with their fields). Also returns the
/// conditions that ranges and filter together leave undecided for the row of an entry that passes.
pub(in crate::query) fn index_filter(
    index: &OrderedIndex<'_>,
    conditions: &[&Node],
    implied: &[usize],
    picked: &[(usize, usize)],
) -> (Option<IndexFilter>, Undecided) {
    if !index.keys_are_values() {
        return (None, Undecided::All);
    }
    let compiler = Compiler { index };
    let mut tests = Vec::new();
    let mut undecided = Vec::new();
    // The first path parts of the fields by which entries are already selected.
    let mut used: Vec<&str> = Vec::new();
    if index.multikey {
        let first = |at: usize| index.def.keys.get(at).map(|part| part.path.first());
        for (part, condition) in picked {
            used.extend(first(*part));
            if let Some(test) = conditions.get(*condition).and_then(|node| compiler.some_entry(node))
                && !matches!(test, KeyCondition::Compare { .. } | KeyCondition::In { .. })
                && compiler.firsts(&test).iter().all(|name| first(*part) == Some(*name))
            {
                tests.push(test);
            }
        }
    }
    for (at, condition) in conditions.iter().enumerate() {
        if implied.binary_search(&at).is_ok()
            || index.multikey && picked.iter().any(|(_, other)| *other == at)
        {
            continue;
        }
        if !index.multikey {
            match compiler.row(condition) {
                Some(test) => tests.push(test),
                None => undecided.push(at),
            }
        } else if let Some(test) = compiler.some_entry(condition) {
            let firsts = compiler.firsts(&test);
            if firsts.iter().all(|first| !used.contains(first)) {
                used.extend(firsts);
                tests.push(test);
            }
        }
    }
    let last = tests.iter().map(KeyCondition::last_part).max();
    let test = last.map(|last| {
        let parts = index.def.keys.iter().take(last + 1);
        let descending = parts.map(|part| part.direction == SortOrder::Descending).collect();
        IndexFilter { conditions: tests, descending }
    });
    (test, if index.multikey { Undecided::All } else { Undecided::These(undecided) })
}

/// Compiles conditions to tests of keys.
struct Compiler<'i> {
    index: &'i OrderedIndex<'i>,
}

impl<'i> Compiler<'i> {
    fn part(&self, path: &crate::doc::Path) -> Option<usize> {
        self.index.def.keys.iter().position(|part| part.path.as_str() == path.as_str())
    }

    /// The test of a condition in an index that is not multikey; `None` if it needs fields that are not in
    /// the index.
    fn row(&self, node: &Node) -> Option<KeyCondition> {
        let several = |nodes: &[Node]| nodes.iter().map(|node| self.row(node)).collect::<Option<Vec<_>>>();
        Some(match node {
            // A location may be an array, or in one.
            Node::Value { test, .. } if test.is_geo() => return None,
            Node::And(nodes) => KeyCondition::And(several(nodes)?),
            Node::Or(nodes) => KeyCondition::Or(several(nodes)?),
            Node::Not(inner) => KeyCondition::Not(Box::new(self.row(inner)?)),
            Node::Compare { path, .. }
            | Node::In { path, .. }
            | Node::Exists { path }
            | Node::Value { path, .. } => on_value(node, self.part(path)?),
            Node::Size { path, .. } | Node::Element { path, .. } | Node::Member { path, .. } => {
                self.part(path)?;
                KeyCondition::Never
            }
            Node::Folded(_) | Node::Expr(_) | Node::Schema(_) => return None,
        })
    }

    /// In a multikey index, a test that at least one entry passes of every row that meets the condition;
    /// `None` if there is no such test.
    fn some_entry(&self, node: &Node) -> Option<KeyCondition> {
        let value = |value: Value<'_>| !matches!(value, Value::Array(_));
        Some(match node {
            Node::Or(nodes) => {
                KeyCondition::Or(nodes.iter().map(|node| self.some_entry(node)).collect::<Option<_>>()?)
            }
            // No entry contains the array itself, so it cannot be compared as a whole.
            Node::Compare { path, value: constant, op } => {
                let ends = matches!(constant.value(), Value::MinKey | Value::MaxKey) && *op != Op::Eq;
                let part = self.part(path)?;
                if ends || !value(constant.value()) {
                    return None;
                }
                on_value(node, part)
            }
            Node::In { path, values } => {
                let part = self.part(path)?;
                values.iter().all(|one| value(one.value())).then(|| on_value(node, part))?
            }
            Node::Value { test, .. } if test.is_geo() => return None,
            Node::Value { path, test } => {
                let part = self.part(path)?;
                let of_arrays = matches!(test, Test::Type(types) if types.has(ARRAY));
                (!of_arrays).then(|| on_value(node, part))?
            }
            // All conditions apply to one element, which has an entry.
            Node::Element { path, condition } if !path.has_positions() => {
                element(condition, self.part(path)?)?
            }
            _ => return None,
        })
    }

    /// The first path parts of the fields that a test uses.
    fn firsts(&self, test: &KeyCondition) -> Vec<&'i str> {
        let parts = self.index.def.keys.iter().enumerate();
        parts.filter(|(at, _)| test.is_on(*at)).map(|(_, part)| part.path.first()).collect()
    }
}

/// The test of conditions on one element of an array, which is in field `part` of its entry.
fn element(node: &Node, part: usize) -> Option<KeyCondition> {
    let several = |nodes: &[Node]| nodes.iter().map(|node| element(node, part)).collect::<Option<Vec<_>>>();
    Some(match node {
        Node::And(nodes) => KeyCondition::And(several(nodes)?),
        Node::Or(nodes) => KeyCondition::Or(several(nodes)?),
        Node::Not(inner) => KeyCondition::Not(Box::new(element(inner, part)?)),
        Node::Value { test, .. } if test.is_geo() => return None,
        Node::Compare { .. } | Node::In { .. } | Node::Value { .. } => on_value(node, part),
        _ => return None,
    })
}

/// The test of one value.
fn on_value(node: &Node, part: usize) -> KeyCondition {
    let encoded = |value: Value<'_>| {
        let mut key = Vec::new();
        encode_value(value, &mut key);
        key
    };
    match node {
        Node::Compare { op, value, .. } => KeyCondition::Compare {
            part,
            op: *op,
            key: encoded(value.value()),
            across: matches!(value.value(), Value::MinKey | Value::MaxKey),
        },
        Node::In { values, .. } => {
            KeyCondition::In { part, keys: values.iter().map(|value| encoded(value.value())).collect() }
        }
        Node::Value { test, .. } => KeyCondition::Value { part, test: test.clone() },
        _ => KeyCondition::Exists { part },
    }
}
