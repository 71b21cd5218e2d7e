#!/usr/bin/env bash
# Malformed frames against the real server, so many of them: scripts/frame_tests.sh 1000000
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
exec .venv/bin/python treedb_server/tests/frames/run.py "$@"
