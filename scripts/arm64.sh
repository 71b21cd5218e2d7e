#!/usr/bin/env bash
# The library on 64-bit ARM, on any machine: scripts/arm64.sh [PACKAGE [FILTER..]]
# Compiles library and server for aarch64-unknown-linux-gnu, then runs unit tests in QEMU's emulation of the processor:
# those of vector search on one with dot-product instructions and on one without. With a package, only its unit tests that match
# a filter. Says what is missing, and fails, where it cannot do its work. Of speed the emulation says nothing; its pages are 4 KiB.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
missing() { echo "arm64: $1" >&2; exit 1; }
command -v rustup >/dev/null ||
    missing "rustup is not on PATH: without it the library for $target has to be installed by hand"
# Of the toolchain that cargo uses here.
[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || rustup target add "$target" ||
    missing "rustup target add $target failed"
scripts/setup.sh qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
for command in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$command" >/dev/null || missing "$command is not on PATH"
done

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
# Without the files of incremental compilation: this is run seldom.
export CARGO_INCREMENTAL=0

# on CPU PACKAGE FILTER..: runs the unit tests of a package that match a filter.
on() {
    local cpu=$1 package=$2
    shift 2
    echo "arm64: $package on $cpu"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu $cpu" \
        cargo test --quiet --target "$target" -p "$package" --lib -- "$@"
}

if [ $# -gt 0 ]; then
    on max "$@"
    exit
fi
cargo check --target "$target" -p treedb_core -p treedb_server
TREEDB_BEST_KERNELS=dotprod on max treedb_vector
TREEDB_BEST_KERNELS=neon on cortex-a53 treedb_vector
on max treedb_formats
on max treedb_query
on max treedb_storage disk:: page::
echo "arm64: all passed"
