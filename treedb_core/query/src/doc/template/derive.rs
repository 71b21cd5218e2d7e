//! Derives the shape of a document, and widens a shape so that another document fits it too.

use super::super::value::{Element, kind};
use super::shape::{Builder, Field, Shape, Slot, mode};
use crate::doc::Doc;

/// Documents nested deeper than this are stored as separate rows.
const MAX_DEPTH: usize = 8;
/// The maximum number of fields of a shape, including those of nested documents.
const MAX_FIELDS: usize = 512;

/// A field that has no slot yet.
struct FieldPlan {
    mode: u8,
    kind: u8,
    name: Vec<u8>,
    inner: Vec<FieldPlan>,
}

impl FieldPlan {
    fn of(element: &Element<'_>, depth: usize) -> FieldPlan {
        let nested = element.kind == kind::DOCUMENT && depth < MAX_DEPTH;
        let inner = if nested {
            Doc::new(element.bytes).elements().map(|inner| FieldPlan::of(&inner, depth + 1)).collect()
        } else {
            Vec::new()
        };
        let mode = if nested { mode::NESTED } else { mode::ALWAYS };
        FieldPlan { mode, kind: element.kind, name: element.name.to_vec(), inner }
    }

    fn from(field: &Field) -> FieldPlan {
        let (mode, inner) = match &field.slot {
            Slot::Loose(_) => (mode::LOOSE, Vec::new()),
            Slot::Nested(inner) => (mode::NESTED, inner.iter().map(FieldPlan::from).collect()),
            _ => (mode::ALWAYS, Vec::new()),
        };
        FieldPlan { mode, kind: field.kind(), name: field.name().to_vec(), inner }
    }

    fn loosen(&mut self) {
        self.mode = mode::LOOSE;
        self.inner.clear();
    }

    /// Changes the field so that `element`, which has the same name, fits it.
    fn admit(&mut self, element: &Element<'_>, depth: usize) {
        let other = FieldPlan::of(element, depth);
        if self.mode == mode::LOOSE || self.is_same_as(&other) {
            return;
        }
        self.loosen();
        if self.kind == kind::NULL {
            self.kind = other.kind;
        }
    }

    fn is_same_as(&self, other: &FieldPlan) -> bool {
        (self.mode, self.kind, &self.name) == (other.mode, other.kind, &other.name)
            && self.inner.len() == other.inner.len()
            && self.inner.iter().zip(&other.inner).all(|(a, b)| a.is_same_as(b))
    }

    fn count(plans: &[FieldPlan]) -> usize {
        plans.iter().map(|plan| 1 + FieldPlan::count(&plan.inner)).sum()
    }
}

fn build(plans: &[FieldPlan], builder: &mut Builder) -> Vec<Field> {
    let field = |plan: &FieldPlan| {
        let inner = build(&plan.inner, builder);
        builder.field(plan.mode, plan.kind, &plan.name, inner)
    };
    plans.iter().map(field).collect()
}

fn shape(plans: &[FieldPlan]) -> Option<Shape> {
    if FieldPlan::count(plans) > MAX_FIELDS {
        return None;
    }
    let mut builder = Builder::default();
    let fields = build(plans, &mut builder);
    Some(builder.finish(fields))
}

impl Shape {
    /// The shape of documents with exactly the fields and types of `doc`; `None` if it would have too many
    /// fields.
    pub(super) fn of(doc: &[u8]) -> Option<Shape> {
        let fields: Vec<FieldPlan> =
            Doc::new(doc).elements().take(MAX_FIELDS + 1).map(|element| FieldPlan::of(&element, 0)).collect();
        shape(&fields)
    }

    /// The number of fields that it has in common with `doc`, in the same order.
    pub(super) fn common_fields(&self, doc: &[u8]) -> usize {
        let mut rest = self.fields.as_slice();
        let mut common = 0;
        for element in Doc::new(doc).elements() {
            if let Some(at) = rest.iter().position(|field| field.name() == element.name) {
                common += 1;
                rest = rest.get(at + 1..).unwrap_or_default();
            }
        }
        common
    }

    /// A shape that fits the documents of this shape and `doc`; `None` if their fields are in a different
    /// order.
    pub(super) fn widened(&self, doc: &[u8]) -> Option<Shape> {
        let mut plans: Vec<FieldPlan> = self.fields.iter().map(FieldPlan::from).collect();
        let mut next = 0;
        for element in Doc::new(doc).elements().take(MAX_FIELDS + 1) {
            let found = plans.iter().skip(next).position(|plan| plan.name == element.name);
            match found.map(|at| at + next) {
                Some(at) => {
                    plans.get_mut(next..at)?.iter_mut().for_each(FieldPlan::loosen);
                    plans.get_mut(at)?.admit(&element, 0);
                    next = at + 1;
                }
                None if plans.iter().any(|plan| plan.name == element.name) => return None,
                None => {
                    let mut plan = FieldPlan::of(&element, 0);
                    plan.loosen();
                    plans.insert(next, plan);
                    next += 1;
                }
            }
        }
        plans.get_mut(next..)?.iter_mut().for_each(FieldPlan::loosen);
        shape(&plans)
    }
}
