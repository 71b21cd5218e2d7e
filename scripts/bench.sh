#!/usr/bin/env bash
# Builds the benches with all peers and runs the suites named (`all`, `docs` or names). Installs RocksDB's library
# and headers where they are missing: only the benches need them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh librocksdb-dev
libraries=/usr/lib/$(gcc -print-multiarch)
# Without these the binding would compile a RocksDB of its own, which takes a quarter of an hour.
export ROCKSDB_LIB_DIR=$libraries ROCKSDB_INCLUDE_DIR=/usr/include
exec cargo run -q --release -p bench --features peers -- "$@"
