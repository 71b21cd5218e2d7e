//! What an operator class of vectors is for: a metric, and how vectors are stored in a column.

use treedb_vector::metric::Metric;

use crate::shim::error::{SqlState, fail_with_detail};
use crate::shim::function::pg_function;
use crate::shim::relation::Index;
use crate::shim::vector_options::{MOST_BITS, MOST_DIMENSIONS, MOST_HALVES};

/// How a value of a column holds its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    /// `real[]`.
    Real,
    /// pgvector's `vector`.
    Vector,
    /// pgvector's `halfvec`.
    Half,
    /// `bit`.
    Bit,
}

/// What an operator class is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    pub(super) metric: Metric,
    pub(super) element: Element,
}

const METRICS: [Metric; 6] =
    [Metric::L2, Metric::InnerProduct, Metric::Cosine, Metric::L1, Metric::Hamming, Metric::Jaccard];
const ELEMENTS: [Element; 4] = [Element::Real, Element::Vector, Element::Half, Element::Bit];
/// What support function 1 returns is the metric's place in its list, plus this for each place of the element.
const STEP: i32 = 16;

impl Kind {
    /// The kind of a number that support function 1 returns, and that the meta page has.
    pub(super) fn from_number(number: i32) -> Option<Kind> {
        let metric = METRICS.get(usize::try_from(number % STEP).ok()?)?;
        let element = ELEMENTS.get(usize::try_from(number / STEP).ok()?)?;
        (metric.is_of_bits() == (*element == Element::Bit))
            .then_some(Kind { metric: *metric, element: *element })
    }

    /// That number.
    pub(super) fn number(self) -> i32 {
        (0..STEP * ELEMENTS.len() as i32).find(|number| Kind::from_number(*number) == Some(self)).unwrap_or(0)
    }

    /// Most dimensions of a vector.
    pub(super) fn most_dimensions(self) -> i32 {
        match self.element {
            Element::Bit => MOST_BITS,
            Element::Half => MOST_HALVES,
            Element::Real | Element::Vector => MOST_DIMENSIONS,
        }
    }

    /// A row may have several vectors.
    pub(super) fn has_several(self) -> bool {
        self.element == Element::Real
    }

    /// The kind of an index.
    pub(super) fn of(index: Index<'_>) -> Kind {
        let number = index.support_number(0, 1);
        number.and_then(Kind::from_number).unwrap_or_else(|| {
            fail_with_detail(
                SqlState::ERRCODE_INVALID_OBJECT_DEFINITION,
                format!("the operator class of index \"{}\" is of no kind of vectors", index.shown()),
                match number {
                    None => "It has no support function 1.".to_owned(),
                    Some(number) => {
                        format!("Its support function 1 returns {number}, the number of no kind.")
                    }
                },
                "Use an operator class that the extension made.",
            )
        })
    }
}

/// The metric of an index over `real[]` or bits; `None` of one over a type of another extension.
pub(crate) fn metric_of_own_type(index: Index<'_>) -> Option<Metric> {
    let kind = index.support_number(0, 1).and_then(Kind::from_number)?;
    matches!(kind.element, Element::Real | Element::Bit).then_some(kind.metric)
}

/// Support functions 1, which return the numbers of kinds.
macro_rules! kinds {
    ($($name:ident = $metric:literal, $element:literal;)*) => {
        $(pg_function! {
            /// Support function 1 of an operator class of vectors.
            fn $name(args: []) -> i32 {
                $metric + STEP * $element
            }
        })*
    };
}

kinds! {
    treedb_kind_real_l2 = 0, 0;
    treedb_kind_real_ip = 1, 0;
    treedb_kind_real_cosine = 2, 0;
    treedb_kind_real_l1 = 3, 0;
    treedb_kind_vector_l2 = 0, 1;
    treedb_kind_vector_ip = 1, 1;
    treedb_kind_vector_cosine = 2, 1;
    treedb_kind_vector_l1 = 3, 1;
    treedb_kind_halfvec_l2 = 0, 2;
    treedb_kind_halfvec_ip = 1, 2;
    treedb_kind_halfvec_cosine = 2, 2;
    treedb_kind_halfvec_l1 = 3, 2;
    treedb_kind_bit_hamming = 4, 3;
    treedb_kind_bit_jaccard = 5, 3;
}
