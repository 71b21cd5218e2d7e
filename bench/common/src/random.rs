//! Reproducible random numbers (splitmix64).

/// A reproducible sequence of numbers below a bound.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    below: u64,
}

impl Random {
    /// Numbers below `below`, the same sequence for the same seed.
    pub fn new(seed: u64, below: u64) -> Random {
        Random { state: seed, below: below.max(1) }
    }
}

impl Iterator for Random {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // Uniform enough for choosing keys.
        Some(((finalize(self.state) as u128 * u128::from(self.below)) >> 64) as u64)
    }
}

/// A pseudo-random number for each number, different for each.
#[inline]
pub(crate) fn hash(n: u64) -> u64 {
    finalize(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The output function of splitmix64.
#[inline]
fn finalize(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_stay_below_the_bound_and_repeat() {
        let a: Vec<u64> = Random::new(1, 100).take(1000).collect();
        assert!(a.iter().all(|n| *n < 100));
        assert_eq!(a, Random::new(1, 100).take(1000).collect::<Vec<_>>());
    }
}
