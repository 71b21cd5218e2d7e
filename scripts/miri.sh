#!/usr/bin/env bash
# Miri over the code with raw pointers and over what parses bytes: scripts/miri.sh [FILTER..]
# With filters, each package runs the tests that match one of them. The simulated disk takes its memory from the
# allocator there (see treedb_core/storage/src/disk/map.rs): Miri has no file maps.
set -euo pipefail
cd "$(dirname "$0")/.."

export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"
# Miri knows the C library's calls, not the kernel's.
export RUSTFLAGS="--cfg rustix_use_libc"

run() {
    local package=$1
    shift
    cargo +nightly miri test -p "$package" --lib -- "$@"
}

if [ $# -gt 0 ]; then
    for package in treedb_formats treedb_storage treedb_query; do
        run "$package" "$@"
    done
    exit
fi
run treedb_formats node
run treedb_storage btree::rows::leaf kv::codec kv::command page::tests disk::tests::the_sim
run treedb_query doc::key
