//! Derives the shape of a document, and widens a shape so that it fits another document too.

use super::super::value::{Element, kind};
use super::shape::{Builder, Field, Shape, Slot, mode};
use crate::doc::Doc;

/// Documents nested deeper than this are rows of their own.
const MAX_DEPTH: usize = 8;
/// Most fields of a shape, those of nested documents included.
const MAX_FIELDS: usize = 512;

/// A field before it has a place.
struct Plan {
    mode: u8,
    kind: u8,
    name: Vec<u8>,
    inner: Vec<Plan>,
}

impl Plan {
    fn of(element: &Element<'_>, depth: usize) -> Plan {
        let nested = element.kind == kind::DOCUMENT && depth < MAX_DEPTH;
        let inner = if nested {
            Doc::new(element.bytes).elements().map(|inner| Plan::of(&inner, depth + 1)).collect()
        } else {
            Vec::new()
        };
        let mode = if nested { mode::NESTED } else { mode::ALWAYS };
        Plan { mode, kind: element.kind, name: element.name.to_vec(), inner }
    }

    fn from(field: &Field) -> Plan {
        let (mode, inner) = match &field.slot {
            Slot::Loose(_) => (mode::LOOSE, Vec::new()),
            Slot::Nested(inner) => (mode::NESTED, inner.iter().map(Plan::from).collect()),
            _ => (mode::ALWAYS, Vec::new()),
        };
        Plan { mode, kind: field.kind(), name: field.name().to_vec(), inner }
    }

    fn loosen(&mut self) {
        self.mode = mode::LOOSE;
        self.inner.clear();
    }

    /// Makes room for what `element` of the same name is.
    fn admit(&mut self, element: &Element<'_>, depth: usize) {
        let other = Plan::of(element, depth);
        if self.mode == mode::LOOSE || self.is_like(&other) {
            return;
        }
        self.loosen();
        if self.kind == kind::NULL {
            self.kind = other.kind;
        }
    }

    fn is_like(&self, other: &Plan) -> bool {
        (self.mode, self.kind, &self.name) == (other.mode, other.kind, &other.name)
            && self.inner.len() == other.inner.len()
            && self.inner.iter().zip(&other.inner).all(|(a, b)| a.is_like(b))
    }

    fn count(plans: &[Plan]) -> usize {
        plans.iter().map(|plan| 1 + Plan::count(&plan.inner)).sum()
    }
}

fn build(plans: &[Plan], builder: &mut Builder) -> Vec<Field> {
    let field = |plan: &Plan| {
        let inner = build(&plan.inner, builder);
        builder.field(plan.mode, plan.kind, &plan.name, inner)
    };
    plans.iter().map(field).collect()
}

fn shape(plans: &[Plan]) -> Option<Shape> {
    if Plan::count(plans) > MAX_FIELDS {
        return None;
    }
    let mut builder = Builder::default();
    let fields = build(plans, &mut builder);
    Some(builder.finish(fields))
}

impl Shape {
    /// The shape that just the documents like `doc` have; `None` if it would have too many fields.
    pub(super) fn of(doc: &[u8]) -> Option<Shape> {
        let fields: Vec<Plan> =
            Doc::new(doc).elements().take(MAX_FIELDS + 1).map(|element| Plan::of(&element, 0)).collect();
        shape(&fields)
    }

    /// How many fields it has in common with `doc`, in the same order.
    pub(super) fn common(&self, doc: &[u8]) -> usize {
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

    /// A shape for the documents of this one and for `doc`; `None` if the order of their fields forbids it.
    pub(super) fn widened(&self, doc: &[u8]) -> Option<Shape> {
        let mut plans: Vec<Plan> = self.fields.iter().map(Plan::from).collect();
        let mut next = 0;
        for element in Doc::new(doc).elements().take(MAX_FIELDS + 1) {
            let found = plans.iter().skip(next).position(|plan| plan.name == element.name);
            match found.map(|at| at + next) {
                Some(at) => {
                    plans.get_mut(next..at)?.iter_mut().for_each(Plan::loosen);
                    plans.get_mut(at)?.admit(&element, 0);
                    next = at + 1;
                }
                None if plans.iter().any(|plan| plan.name == element.name) => return None,
                None => {
                    let mut plan = Plan::of(&element, 0);
                    plan.loosen();
                    plans.insert(next, plan);
                    next += 1;
                }
            }
        }
        plans.get_mut(next..)?.iter_mut().for_each(Plan::loosen);
        shape(&plans)
    }
}
