//! Lists of operations on a store against maps: those of the model test, chosen by the fuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../treedb_core/storage/tests/model/ops.rs"]
mod ops;

fuzz_target!(|data: &[u8]| {
    let (whole, _) = data.as_chunks::<{ ops::OP_BYTES }>();
    let ops = whole.iter().take(120).map(|&bytes| ops::Op::decode(bytes));
    if let Err(error) = ops::Machine::run(ops) {
        panic!("{error}");
    }
});
