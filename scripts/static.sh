#!/usr/bin/env bash
# Links `treedb` statically: one file, which runs on any Linux of its architecture and needs no libraries: target/static/treedb.
# With --dev it is that of the development profile. glibc 2.34 or newer: names of hosts are looked up without its modules.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
case "${1:-}" in
    --dev) profile=debug flags=() ;;
    "") profile=release flags=(--release) ;;
    *) echo "scripts/static.sh [--dev]" >&2; exit 2 ;;
esac
# Only the last step differs from the usual build, whose libraries are used.
cargo rustc --quiet -p treedb_server --bin treedb "${flags[@]}" -- -C target-feature=+crt-static
mkdir -p "$target/static"
cp --remove-destination "$target/$profile/treedb" "$target/static/treedb"
# Where that one was belongs the usual one.
cargo build --quiet -p treedb_server --bin treedb "${flags[@]}"
echo "$target/static/treedb"
