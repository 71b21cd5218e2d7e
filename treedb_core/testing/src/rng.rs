//! The random generator.

/// Splitmix64, whose state begins as the seed. Small, fast, and good enough for choosing test cases; never for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed: the same numbers for the same seed, on every machine and in every version.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next_u64() % bound as u64) as usize }
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.next_u64() % 100 < u64::from(percent)
    }

    /// One of the items. Panics if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        // The first numbers of the reference implementation (Vigna, splitmix64.c) for the state 1234567.
        let mut rng = Rng::new(1_234_567);
        let found: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut rng = Rng::new(1);
        for bound in [1, 2, 7, 100] {
            let mut seen = vec![false; bound];
            (0..100 * bound).for_each(|_| seen[rng.below(bound)] = true);
            assert!(seen.iter().all(|seen| *seen), "{bound}");
        }
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(100));
    }
}
