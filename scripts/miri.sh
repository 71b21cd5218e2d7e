#!/usr/bin/env bash
# Miri over the code with raw pointers and over what reads bytes: scripts/miri.sh [FILTER..]
# The simulated disk's memory comes from the allocator there (see treedb_core/src/disk/map.rs): Miri has no file maps.
set -euo pipefail
cd "$(dirname "$0")/.."

filters=("$@")
if [ ${#filters[@]} -eq 0 ]; then
    filters=(btree::node btree::rows::leaf kv::codec kv::command page::tests disk::tests::the_sim doc::key)
fi
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"
# Miri knows the C library's calls, not the kernel's.
export RUSTFLAGS="--cfg rustix_use_libc"
exec cargo +nightly miri test -p treedb_core --lib -- "${filters[@]}"
