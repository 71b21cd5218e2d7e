#!/usr/bin/env bash
# kill -9 of the real server under load, so many rounds: scripts/kill_rounds.sh 50; with drivers that retry their writes:
# scripts/kill_rounds.sh --retries 50
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
suite=rounds.py
if [ "${1:-}" = --retries ]; then
    suite=retries.py
    shift
    .venv/bin/python -m pytest -q -p no:cacheprovider treedb_server/tests/kill
fi
exec .venv/bin/python "treedb_server/tests/kill/$suite" "$@"
