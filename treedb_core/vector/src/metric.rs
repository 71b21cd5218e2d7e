//! Distances between vectors: the less, the nearer.

use crate::kernel::Kernels;

/// How far two vectors are from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// 1 minus the cosine of the angle between them: 0 to 2. Vectors of zeros have none.
    Cosine,
    /// The Euclidean distance.
    L2,
    /// The inner product, negated.
    InnerProduct,
    /// The sum of absolute differences.
    L1,
}

/// What is wrong with a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It has another number of dimensions.
    Dimensions {
        /// What the index has.
        expected: usize,
        /// What the vector has.
        found: usize,
    },
    /// It has a NaN or an infinity at this place.
    NotFinite {
        /// The place, from 0.
        at: usize,
    },
    /// It is all zeros, or so small that it has no direction, which the cosine needs.
    NoDirection,
}

impl std::error::Error for Unfit {}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Dimensions { expected, found } => {
                write!(f, "expected {expected} dimensions, found {found}")
            }
            Unfit::NotFinite { at } => write!(f, "element {at} is NaN or infinite"),
            Unfit::NoDirection => {
                write!(f, "a vector of zeros has no direction, which cosine distance needs")
            }
        }
    }
}

impl Metric {
    /// The distance; both vectors are fit for it (see [`Metric::check`]) and have as many dimensions.
    pub fn distance(self, a: &[f32], b: &[f32]) -> f32 {
        let kernels = Kernels::best();
        match self {
            Metric::Cosine => {
                let lengths = ((kernels.dot)(a, a) * (kernels.dot)(b, b)).sqrt();
                1.0 - ((kernels.dot)(a, b) / lengths).clamp(-1.0, 1.0)
            }
            Metric::L2 => (kernels.squares)(a, b).sqrt(),
            Metric::InnerProduct => -(kernels.dot)(a, b),
            Metric::L1 => (kernels.differences)(a, b),
        }
    }

    /// A number that is the less, the nearer two vectors are: in the order of the distance, but not the distance. `unit` is
    /// the product of what [`Metric::check`] has returned for both.
    #[inline]
    pub fn score(self, kernels: &Kernels, a: &[f32], b: &[f32], unit: f32) -> f32 {
        match self {
            Metric::L2 => (kernels.squares)(a, b),
            Metric::Cosine | Metric::InnerProduct => -(kernels.dot)(a, b) * unit,
            Metric::L1 => (kernels.differences)(a, b),
        }
    }

    /// Checks a vector for an index of so many dimensions. Returns what it is to be multiplied with before its direction is
    /// compared: what makes its length 1 under [`Metric::Cosine`], otherwise 1.
    pub fn check(self, vector: &[f32], dimensions: usize) -> Result<f32, Unfit> {
        if vector.len() != dimensions {
            return Err(Unfit::Dimensions { expected: dimensions, found: vector.len() });
        }
        if let Some(at) = vector.iter().position(|element| !element.is_finite()) {
            return Err(Unfit::NotFinite { at });
        }
        match self {
            Metric::Cosine => unit_scale(vector).ok_or(Unfit::NoDirection),
            Metric::L2 | Metric::InnerProduct | Metric::L1 => Ok(1.0),
        }
    }
}

/// What to multiply a vector with to make its length 1; `None` if it has no direction.
fn unit_scale(vector: &[f32]) -> Option<f32> {
    let squares: f64 = vector.iter().map(|element| f64::from(*element) * f64::from(*element)).sum();
    let scale = (1.0 / squares.sqrt()) as f32;
    (squares > 0.0 && scale.is_finite()).then_some(scale)
}
