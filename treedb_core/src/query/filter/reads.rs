//! What a filter reads: for moving it past what makes documents of documents.

use super::{Filter, Node};

/// What a filter reads of a document.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Top-level fields.
    pub(crate) names: Vec<String>,
    /// True if it may read any field.
    pub(crate) whole: bool,
    /// True if there is an expression in it, which may fail.
    pub(crate) computes: bool,
}

impl Filter {
    /// What the filter reads.
    pub(crate) fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        add(&self.root, &mut reads);
        reads
    }

    /// True if the filter asks of one path how its values compare with constants, and nothing else.
    pub(crate) fn only_compares(&self) -> bool {
        compares(&self.root)
    }
}

fn add(node: &Node, reads: &mut Reads) {
    match node {
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().for_each(|node| add(node, reads)),
        Node::Not(node) => add(node, reads),
        Node::Compare { path, .. }
        | Node::In { path, .. }
        | Node::Exists { path }
        | Node::Value { path, .. }
        | Node::Size { path, .. }
        | Node::Element { path, .. }
        | Node::Member { path, .. } => reads.names.push(path.first().to_owned()),
        Node::Expr(condition) => {
            let found = condition.expr().reads();
            reads.whole |= found.whole || found.random;
            reads.names.extend(found.paths.iter().map(|path| path.first().to_owned()));
            reads.computes = true;
        }
        // Filters of pipelines know no collation.
        Node::Schema(_) | Node::Folded(_) => reads.whole = true,
    }
}

fn compares(node: &Node) -> bool {
    match node {
        Node::And(nodes) => nodes.iter().all(compares),
        Node::Not(node) => compares(node),
        Node::Compare { .. } | Node::In { .. } => true,
        _ => false,
    }
}
