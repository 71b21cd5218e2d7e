#!/usr/bin/env bash
# LangChain's and LlamaIndex's stores for MongoDB against the real server. They bring some ninety packages, so they have a
# Python environment of their own, .venv/vector_stores. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv/vector_stores
wanted=treedb_server/tests/vector_stores/requirements.txt
if ! cmp -s "$wanted" "$venv/requirements.txt"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$venv/requirements.txt"
fi
if [ -z "${TREEDB_BIN:-}" ]; then
    cargo build --quiet -p treedb_server
    TREEDB_BIN="${CARGO_TARGET_DIR:-target}/debug/treedb"
fi
TREEDB_BIN="$(realpath "$TREEDB_BIN")"
export TREEDB_BIN
exec "$venv/bin/python" -m pytest -q --durations=5 -p no:cacheprovider treedb_server/tests/vector_stores "$@"
