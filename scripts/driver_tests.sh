#!/usr/bin/env bash
# PyMongo and raw sockets against the real server. Arguments go to pytest: scripts/driver_tests.sh -k cursor
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
exec .venv/bin/python -m pytest -q --durations=10 -p no:cacheprovider treedb_server/tests/driver "$@"
