#!/usr/bin/env bash
# The container image and the Debian package, built and run without a daemon, and the statically linked executable. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v ip >/dev/null || scripts/setup.sh iproute2
scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
if [ -z "${TREEDB_STATIC_BIN:-}" ]; then
    TREEDB_STATIC_BIN="$(scripts/static.sh --dev)"
fi
TREEDB_STATIC_BIN="$(realpath "$TREEDB_STATIC_BIN")"
export TREEDB_BIN TREEDB_STATIC_BIN
exec .venv/bin/python -m pytest -q -rs --durations=5 -p no:cacheprovider treedb_server/tests/container "$@"
