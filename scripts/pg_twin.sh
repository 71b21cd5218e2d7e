#!/usr/bin/env bash
# Random statements against tables with indexes of treedb_btree and of btree: see scripts/pg/twin.py.
#
#   scripts/pg_twin.sh [STATEMENTS] [SEED..]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/pg_common.sh
install_dev
scripts/venv.sh
exec .venv/bin/python scripts/pg/twin.py "$@"
