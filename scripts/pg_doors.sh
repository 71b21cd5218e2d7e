#!/usr/bin/env bash
# The SQL functions against the real server, where both must say the same: see scripts/pg/doors.py.
#
#   scripts/pg_doors.sh [TEST..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
exec .venv/bin/python scripts/pg/doors.py "$@"
