#!/usr/bin/env bash
# Transactions of many clients, whose history is searched for anomalies: scripts/anomaly_tests.sh 100000
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
.venv/bin/python -m pytest -q -p no:cacheprovider treedb_server/tests/anomalies
exec .venv/bin/python treedb_server/tests/anomalies/run.py "$@"
