#!/usr/bin/env bash
# The web page: its HTTP layer, and the page itself in Chromium. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v chromium >/dev/null && command -v chromedriver >/dev/null || scripts/setup.sh chromium chromium-driver
scripts/venv.sh
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
exec .venv/bin/python -m pytest -q --durations=5 -p no:cacheprovider treedb_server/tests/web "$@"
