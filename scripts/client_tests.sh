#!/usr/bin/env bash
# Drivers, mappers and shells of other languages against the real server: scripts/client_tests.sh node go
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
.venv/bin/python -m pytest -q -p no:cacheprovider treedb_server/tests/clients/test_run.py
exec .venv/bin/python treedb_server/tests/clients/run.py "$@"
