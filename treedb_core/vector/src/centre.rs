//! A centre that vectors are coded about.
//!
//! An element's code is a share of the greatest element of its vector ([`crate::code`]). Where vectors have far more in common than they
//! differ, codes of whole vectors hardly tell them apart: most of each code is what all vectors have in common. Such vectors are coded as
//! their differences from a centre, the mean of some of them; under cosine, those of the vectors of length 1.
//!
//! All scores are those of [`Metric::L2`] then, in the order of the metric's distance, but under [`Metric::L1`], whose own they stay:
//!
//! - Two vectors are as far apart as their differences from the centre are, and of vectors of length 1 the cosine falls as the distance grows.
//! - `<x, y> = <x-c, y-c> + <c, x-c> + <c, y-c> + <c, c>`, of which the last is the same for all. So under inner product
//!   [`Factors::squares`] is `-2 <c, x-c>` instead of the squared length.
//!
//! Codes of few bits ([`crate::few_bits`]) are of the differences too, and compared with the difference of the query from the centre; but not
//! under inner product, which codes of few bits of whole vectors tell better, because they are exact in the vector's own direction.
//!
//! A vector that is far from the centre has coarser codes than others, and one that is much smaller than the centre has codes that hardly
//! tell it apart from others like it: so there is no centre for vectors of which more than a few would have coarser codes than about zero.

use crate::code::{self, Coded, Factors};
use crate::element::Element;
use crate::metric::Metric;

/// Vectors are alike if they have so much more in common than they differ, as the squares of lengths.
const ALIKE: f64 = 4.0;

/// At most one of so many vectors of a sample may have coarser codes about their centre than about zero.
///
/// *Measured*, 3,000 vectors of 96 dimensions, of which .5 to 12 % are others about zero, recall at `ef` 40 by codes about zero and about the
/// centre. Of the alike, 200 times: L2 .90 to .94 and 1.00, cosine .01 and 1.00; of the others: L2 1.00 and .93 to 1.00, cosine .25 to .73 and
/// .82 to 1.00. 20 times, cosine: of the alike .69 to .74 and 1.00, of the others .70 to 1.00 and .76 to 1.00; L2 1.00 all. So a few others are no
/// reason to go without a centre, and where there are few, chance in what a sample has of them decides nothing.
///
/// In larger sets codes about the centre find less of the others under L2: of 12,000 vectors, .5 to 6 % others, .98 to 1.00 where the alike are 120
/// times as far, .92 to 1.00 at 200 times, .48 to .64 at 400 times; about zero always 1.00. But of the alike they find .93 to 1.00, .97 to 1.00 and
/// .97 to 1.00, about zero .95 to .96, .80 to .85 and .42 to .50, and these are most: to allow fewer whose codes are very much coarser would cost more
/// than it gains wherever it changes anything.
const COARSER: usize = 12;

/// Links are chosen with a [`Reach`] where vectors have so much more in common than they differ, as the squares of lengths: with less, links by
/// inner product may lead to as many. *Measured*, 3,000 vectors, recall at `ef` 40 by links by inner product and with a reach, so many times as far
/// from zero as they are spread: of 96 dimensions .830 and .960 3 times, .512 and .990 5 times, .603 and 1.000 100 times; of 384 dimensions .997
/// and .802, .852 and .893, .700 and 1.000.
const FAR: f64 = 20.0;

/// At most one of so many vectors of a sample may be longer than a [`Reach`]: of one that is told by 32 vectors it is one in 33 as a rule.
///
/// *Measured*, 3,000 vectors of 96 dimensions, 20 and 100 times as far from zero as they are spread, recall at `ef` 40 by links with the reach of
/// the first 32, of the first 256 and of all, where each is longer than those before, the last 1.02 times as long as the first: .660, .788 and
/// .896; .590, .680 and .872. 1.1 times: .594, .718 and .930; .816, .840 and .904.
const BEYOND: usize = 16;

/// Under inner product, a query is made so many times as large as the centre before it is coded.
const LARGER: f32 = 8.0;

/// How long the vectors of an index under inner product are, at most, beside their centre: what its links are chosen with.
///
/// Of vectors that are alike, the nearest by inner product are the longest ones, whichever vector they are the nearest of: links that are
/// chosen by it lead there, and hardly anywhere else. But with one more element `w(x)`, the root of `r - <x, x>` for an `r` that is as much
/// as any `<x, x>`, all vectors are equally long, and the nearest to a query, whose own is 0, by their distance are those by the inner product
/// (Bachrach and others 2014). So links are chosen by the distance of vectors with this element, and searches go by inner products as they are.
///
/// The elements of the difference from the centre and [`Factors::squares`] tell `<x, x> - <c, c>`, so the number is `r - <c, c>`. What is longer
/// than `r`, the greatest of a sample, has 0 for the element, and is a neighbour of many. (A number with a margin was tried, *measured* 5 times:
/// .848 at `ef` 20, without one .980.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach(f32);

/// Writes the codes of 8 bits of a vector that is in an index over `codes`: about a centre, if there is one, and then the difference from it over
/// `difference`. `unit` is what [`Metric::check`] has returned for the vector.
pub fn encode(
    centre: Option<&Centre>,
    (metric, element): (Metric, Element),
    (vector, unit): (&[f32], f32),
    difference: &mut Vec<f32>,
    codes: &mut [u8],
) -> Factors {
    match centre {
        Some(centre) => centre.encode(vector, unit, difference, codes),
        None => code::encode_for(metric, element, vector, unit, codes),
    }
}

impl Reach {
    /// One with this number, unless it is infinite or NaN.
    pub fn new(number: f32) -> Option<Reach> {
        number.is_finite().then_some(Reach(number))
    }

    /// The number.
    pub fn number(self) -> f32 {
        self.0
    }

    /// What links are chosen by, of the codes of a difference from the centre with the factors that [`Centre::encode`] has made: those of
    /// its distances, with the element aside.
    ///
    /// The distance is that of the differences from the centre, so that it has all its digits however far from zero the vectors are. What is
    /// longer than the reach is the nearer to all for it.
    pub fn link_factors(self, coded: Coded<'_>) -> Factors {
        let Factors { squares, .. } = coded.with_squares();
        let left = self.0 + coded.factors.squares - squares;
        Factors { squares: squares + left.min(0.0), aside: left.max(0.0).sqrt(), ..coded.factors }
    }
}

/// What vectors are coded about.
#[derive(Clone, Debug, PartialEq)]
pub struct Centre {
    metric: Metric,
    elements: Vec<f32>,
}

impl Centre {
    /// Vectors that it takes at least to tell whether they are alike.
    pub const FEWEST: usize = 32;

    /// An index that has no centre is judged when it has grown to so many vectors: to as many as tell anything ([`Centre::of_alike`]), so that
    /// one by one they are coded as those that come together are; and if these were not alike, when there are enough to hide a few others,
    /// and once more while coding all again is bounded work. One that is alike misses little before the first step, in which most vectors are
    /// compared anyway.
    pub const STEPS: [usize; 3] = [Centre::FEWEST, 256, 4096];

    /// What scores of codes about a centre are those of.
    pub fn scores_of(metric: Metric) -> Metric {
        if metric == Metric::L1 { Metric::L1 } else { Metric::L2 }
    }

    /// Whether there are codes about a centre of such vectors.
    pub fn is_for(metric: Metric, element: Element) -> bool {
        !metric.is_of_bits() && element != Element::Int8
    }

    /// One with these elements, unless there is none for such vectors, or an element is infinite or NaN.
    pub fn new(metric: Metric, element: Element, elements: Vec<f32>) -> Option<Centre> {
        let is_one = Centre::is_for(metric, element) && elements.iter().all(|element| element.is_finite());
        is_one.then_some(Centre { metric, elements })
    }

    /// That of some vectors of an index, which are fit for the metric and of as many dimensions; `None` if codes of whole vectors tell them
    /// apart, or there are too few to say.
    pub fn of_alike(metric: Metric, element: Element, vectors: &[&[f32]]) -> Option<Centre> {
        let count = vectors.len();
        if count < Self::FEWEST || !Centre::is_for(metric, element) {
            return None;
        }
        let (mut mean, mut squares) = (Vec::new(), 0.0);
        for vector in vectors {
            let unit = metric.check(vector, vector.len()).ok()?;
            mean.resize(vector.len(), 0.0_f64);
            for (mean, element) in mean.iter_mut().zip(*vector) {
                let element = f64::from(element * unit) / (count as f64).sqrt();
                *mean += element / (count as f64).sqrt();
                squares += element * element;
            }
        }
        let common: f64 = mean.iter().map(|element| element * element).sum();
        let elements: Vec<f32> = mean.iter().map(|element| *element as f32).collect();
        let is_coarser = |vector: &&&[f32]| {
            let unit = metric.check(vector, vector.len()).unwrap_or(1.0);
            let differences = vector.iter().zip(&elements).map(|(element, centre)| element * unit - centre);
            greatest(differences) > greatest(vector.iter().map(|element| element * unit))
        };
        let are_alike = common > ALIKE * (squares - common)
            && vectors.iter().filter(is_coarser).count() <= count / COARSER;
        Centre::new(metric, element, elements).filter(|_| are_alike)
    }

    /// What the links of an index with this centre are chosen with, by a sample of its vectors; `None` if they are chosen as searches go.
    pub fn reach(&self, vectors: &[&[f32]]) -> Option<Reach> {
        if self.metric != Metric::InnerProduct || vectors.is_empty() {
            return None;
        }
        let longer: Vec<f64> = vectors.iter().map(|vector| self.longer(vector)).collect();
        // The centre is about their mean: then this is how much they differ.
        let differ = longer.iter().sum::<f64>() / longer.len() as f64;
        let common: f64 = self.elements.iter().map(|element| f64::from(*element).powi(2)).sum();
        let longest = longer.iter().copied().fold(f64::MIN, f64::max);
        Reach::new(longest as f32).filter(|_| common > FAR * differ)
    }

    /// Whether no more of a sample of vectors than a few are longer than such a reach: otherwise links want another one.
    pub fn is_within(&self, reach: Reach, vectors: &[&[f32]]) -> bool {
        let longer = vectors.iter().filter(|vector| self.longer(vector) > f64::from(reach.0)).count();
        longer <= vectors.len() / BEYOND
    }

    /// How much the square of a vector's length is more than that of the centre's.
    fn longer(&self, vector: &[f32]) -> f64 {
        let pairs = vector.iter().zip(&self.elements).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        pairs.map(|(element, centre)| (element - centre) * (element + centre)).sum()
    }

    /// Its elements.
    pub fn elements(&self) -> &[f32] {
        &self.elements
    }

    /// Writes the codes of a vector over `codes`, which is as long, and its difference from the centre over `difference`; `unit` is what
    /// [`Metric::check`] has returned for it. The same on every processor, as [`code::encode`] is.
    pub fn encode(&self, vector: &[f32], unit: f32, difference: &mut Vec<f32>, codes: &mut [u8]) -> Factors {
        self.subtract_from(vector, unit, difference);
        let factors = code::encode(difference, 1.0, codes);
        if self.metric != Metric::InnerProduct {
            return factors;
        }
        let products = difference.iter().zip(&self.elements).map(|(a, b)| f64::from(*a) * f64::from(*b));
        Factors { squares: (-2.0 * products.sum::<f64>()) as f32, ..factors }
    }

    /// The same of a query. Under inner product the order of what it finds does not depend on how long it is, but what codes of its difference
    /// from the centre tell of it does, so it is made longer, or shorter.
    pub fn encode_query(
        &self,
        vector: &[f32],
        unit: f32,
        difference: &mut Vec<f32>,
        codes: &mut [u8],
    ) -> Factors {
        if self.metric != Metric::InnerProduct {
            return self.encode(vector, unit, difference, codes);
        }
        let longer = LARGER * greatest(self.elements.iter().copied()) / greatest(vector.iter().copied());
        let unit = if longer.is_normal() { longer } else { unit };
        self.encode(vector, unit, difference, codes)
    }

    /// Writes the difference of a vector from it over `difference`.
    pub(crate) fn subtract_from(&self, vector: &[f32], unit: f32, difference: &mut Vec<f32>) {
        difference.clear();
        // Of the greatest floats it may be too large.
        let finite = |element: f32| element.clamp(f32::MIN, f32::MAX);
        difference.extend(
            vector.iter().zip(&self.elements).map(|(element, centre)| finite(element * unit - centre)),
        );
    }

    /// Whether codes of few bits are of the differences from it.
    pub(crate) fn moves_few_bits(&self) -> bool {
        self.metric != Metric::InnerProduct
    }

    /// What scores of codes of few bits are in the order of.
    pub(crate) fn few_bits_scores(&self) -> Metric {
        if self.moves_few_bits() { Centre::scores_of(self.metric) } else { self.metric }
    }

    /// Adds it to differences from it.
    pub fn add_to(&self, difference: &mut [f32]) {
        difference.iter_mut().zip(&self.elements).for_each(|(element, centre)| *element += centre);
    }
}

/// The greatest of some elements, without their signs.
fn greatest(elements: impl Iterator<Item = f32>) -> f32 {
    elements.fold(0.0, |greatest: f32, element| greatest.max(element.abs()))
}
