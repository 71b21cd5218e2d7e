//! The fields that an expression reads: needed for reordering stages and for decoding only the needed part of
//! a row.

use crate::doc::Path;

use super::{Base, Expr, Node};

/// What an expression reads of the document it is evaluated for.
#[derive(Debug, Default)]
pub(crate) struct Reads<'e> {
    /// Paths from the document's root.
    pub(crate) paths: Vec<&'e Path>,
    /// True if it may read the whole document.
    pub(crate) whole: bool,
    /// True if its value may differ between evaluations for the same document.
    pub(crate) random: bool,
}

impl Expr {
    /// What the expression reads.
    pub(crate) fn reads(&self) -> Reads<'_> {
        let mut reads = Reads::default();
        self.root.add_reads(&mut reads);
        reads
    }
}

impl Node {
    fn add_reads<'e>(&'e self, reads: &mut Reads<'e>) {
        let mut all = |nodes: &'e [Node]| nodes.iter().for_each(|node| node.add_reads(reads));
        match self {
            Node::Const(_) | Node::Missing | Node::Now => {}
            // It belongs to the document as a whole, and stays with it.
            Node::Score => reads.whole = true,
            Node::Whole(base) => reads.whole |= matches!(base, Base::Current | Base::Root),
            Node::Path(Base::Current | Base::Root, path) => reads.paths.push(path),
            Node::Path(..) => {}
            Node::Object(fields) => fields.iter().for_each(|(_, node)| node.add_reads(reads)),
            Node::Array(nodes) | Node::And(nodes) | Node::Or(nodes) | Node::IfNull(nodes) => all(nodes),
            Node::Call(def, args) => {
                all(args);
                reads.random |= !def.pure;
            }
            Node::Cond(parts) => all(&parts[..]),
            Node::Switch { branches, default } => {
                for (case, then) in branches {
                    case.add_reads(reads);
                    then.add_reads(reads);
                }
                default.iter().for_each(|node| node.add_reads(reads));
            }
            Node::Let { values, current, body } => {
                all(values);
                // With another `$$CURRENT`, the paths of the body no longer start at the document's root.
                if let Some(current) = current {
                    current.add_reads(reads);
                    reads.whole = true;
                }
                body.add_reads(reads);
            }
            Node::Map { input, body } => {
                input.add_reads(reads);
                body.add_reads(reads);
            }
            Node::Filter { input, condition, limit } => {
                input.add_reads(reads);
                condition.add_reads(reads);
                limit.iter().for_each(|node| node.add_reads(reads));
            }
            Node::Reduce { input, initial, body } => {
                input.add_reads(reads);
                initial.add_reads(reads);
                body.add_reads(reads);
            }
            Node::SortArray { input, .. } => input.add_reads(reads),
        }
    }
}
