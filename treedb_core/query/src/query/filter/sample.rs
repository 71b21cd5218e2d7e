//! `$sampleRate`: a condition that is to be asked once for each document.
//!
//! Where a filter is evaluated again on a document that it has let pass, or where some other filter has to let pass what it will let pass,
//! the conditions that sample are left out, together with any `$or` and `$nor` around them.

use std::borrow::Cow;

use bson::RawDocumentBuf;

use super::{Filter, Node};
use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Value};

impl Node {
    fn samples(&self) -> bool {
        match self {
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(Node::samples),
            Node::Not(node) => node.samples(),
            Node::Expr(condition) => condition.samples(),
            _ => false,
        }
    }

    /// What is left without sampling; `None` if nothing is.
    fn without_samples(&self) -> Option<Node> {
        match self {
            node if !node.samples() => Some(node.clone()),
            Node::And(nodes) => Some(Node::And(nodes.iter().filter_map(Node::without_samples).collect())),
            _ => None,
        }
    }
}

impl Filter {
    /// The filter for a document that it has let pass before.
    pub(crate) fn again(&self) -> Cow<'_, Filter> {
        let again = match self.near() {
            // Which document it is has been found out.
            Some(_) => Cow::Owned(Filter { by_distance: false, ..self.clone() }),
            None => Cow::Borrowed(self),
        };
        if !self.root.samples() {
            return again;
        }
        let root = self.root.without_samples().unwrap_or_else(|| Node::And(Vec::new()));
        Cow::Owned(Filter { root, ..again.into_owned() })
    }
}

/// The filter document `filter` without sampling: it lets pass at least what the whole does.
pub(crate) fn document_without_samples(filter: Doc<'_>) -> RawDocumentBuf {
    let mut out = Writer::new(filter.as_bytes().len());
    for element in filter.elements() {
        match (element.name, element.value()) {
            (b"$sampleRate", _) => {}
            (b"$and", Value::Array(all)) => {
                let mut kept = ArrayWriter::new();
                for one in all.elements() {
                    match one.value() {
                        Value::Document(doc) => {
                            let doc = document_without_samples(doc);
                            kept.push(Value::Document(Doc::from(&doc)));
                        }
                        other => kept.push(other),
                    }
                }
                out.value(b"$and", Value::Array(Doc::new(&kept.into_bytes())));
            }
            (b"$or" | b"$nor", Value::Array(all)) if has_sample(all) => {}
            _ => out.copy(&element),
        }
    }
    out.finish()
}

fn has_sample(doc: Doc<'_>) -> bool {
    doc.elements().any(|element| match element.value() {
        Value::Document(inner) | Value::Array(inner) => element.name == b"$sampleRate" || has_sample(inner),
        _ => element.name == b"$sampleRate",
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn what_samples_is_left_out_and_the_rest_stays() {
        let sample = || rawdoc! { "$sampleRate": 0.0 };
        for (filter, kept) in [
            (rawdoc! { "a": 1, "$sampleRate": 0.0 }, rawdoc! { "a": 1 }),
            (rawdoc! { "$and": [{ "a": 1 }, sample()] }, rawdoc! { "$and": [{ "a": 1 }, {}] }),
            (rawdoc! { "a": 1, "$or": [sample(), { "b": 1 }] }, rawdoc! { "a": 1 }),
            (rawdoc! { "$nor": [{ "b": 2 }], "$sampleRate": 0.0 }, rawdoc! { "$nor": [{ "b": 2 }] }),
            (rawdoc! { "$sampleRate": 0.0 }, rawdoc! {}),
        ] {
            assert_eq!(document_without_samples(Doc::from(&filter)), kept);
            let (filter, kept) = (Filter::parse(&filter).unwrap(), Filter::parse(&kept).unwrap());
            for a in [1, 2] {
                let document = rawdoc! { "a": a, "b": 2 };
                assert!(a == 2 || !filter.matches(&document).unwrap() || kept.matches(&document).unwrap());
                assert_eq!(filter.again().matches(&document).unwrap(), kept.matches(&document).unwrap());
            }
        }
        let plain = Filter::parse(&rawdoc! { "a": { "$gt": 1 } }).unwrap();
        assert!(matches!(plain.again(), Cow::Borrowed(_)));
    }
}
