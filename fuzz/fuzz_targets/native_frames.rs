//! Frames of the native protocol, carried out on a database in memory: each is answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treedb_server::fuzzing::Native;

fuzz_target!(|data: &[u8]| {
    let native = Native::new().expect("an empty database opens");
    native.run(data);
});
