//! Messages of MongoDB's wire protocol: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| treedb_server::fuzzing::mongo(data));
