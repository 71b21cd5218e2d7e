//! The seeds of a random test.

/// The seeds that a random test runs with, each printed before it is used: the last one printed by a test that fails
/// is the one that failed. `TREEDB_SEED=n` in the environment puts `n` before those listed.
///
/// A seed that failed once is kept: `seeds((0..20).chain([4711]))`.
pub fn seeds(listed: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    #[expect(clippy::panic, reason = "a test that ignored its seed would pass for the wrong reason")]
    let given = std::env::var("TREEDB_SEED").ok().map(|seed| match seed.parse::<u64>() {
        Ok(seed) => seed,
        Err(_) => panic!("TREEDB_SEED is a number from 0 to {}, not {seed:?}", u64::MAX),
    });
    given.into_iter().chain(listed).inspect(|seed| println!("TREEDB_SEED={seed}"))
}
