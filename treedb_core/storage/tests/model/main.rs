//! Property test: random lists of operations are applied to a store and to a model made of maps. Every result
//! is compared, and the contents after every snapshot, savepoint, reopening and crash. A failing list is
//! shrunk and printed; its seed is added to `regressions.txt`, with which every run begins.
//! `PROPTEST_CASES=N` sets the number of lists.

// Clippy does not treat the helper functions of tests as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ops;

use ops::{Machine, OP_BYTES, Op};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn config() -> ProptestConfig {
    let failure_persistence =
        Some(Box::new(FileFailurePersistence::Direct("tests/model/regressions.txt")) as _);
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    ProptestConfig { cases, failure_persistence, max_shrink_iters: 4000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_list_of_operations_gives_the_same_as_the_model(
        ops in vec(any::<[u8; OP_BYTES]>().prop_map(Op::decode), 1..150)
    ) {
        Machine::run(ops).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}
